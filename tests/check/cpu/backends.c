/*
 * backends.c: see backends.h.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends.h"

bool
vae_backends_open(VaeCheck *t, VaePrecision precision, VaeBackends *b)
{
    char why[200];
    VaePrecision chosen;
    VaeError error = {0};
    VaeDevice device;
    *b = (VaeBackends){.precision = precision};
    if (!vae_backend_cpu.usable(precision, &chosen, why, sizeof why)) {
        printf("skipped: %s\n", why);
        return false;
    }
    for (int i = 0; i < VAE_MAX_THREADS; i++)
        if (vae_backend_cpu.open(
                &(VaeBackendParams){.precision = precision, .threads = i + 1},
                &b->cpu[i], &device, &error))
            vae_check_fail(t, "%s", error.message);
    if (vae_backend_ref.open(&(VaeBackendParams){.threads = 1}, &b->ref,
                             &device, &error))
        vae_check_fail(t, "%s", error.message);
    return true;
}

void
vae_backends_close(VaeBackends *b)
{
    for (int i = 0; i < VAE_MAX_THREADS; i++)
        vae_backend_cpu.close(&b->cpu[i]);
    vae_backend_ref.close(&b->ref);
}

float *
vae_exact_numbers(VaeCheck *t, size_t n, VaeType type)
{
    float *x = vae_check_random(t, n, 1);
    return type == VAE_TYPE_BF16
               ? vae_check_floats(t, vae_check_bf16(t, x, n), n)
               : x;
}

float *
vae_absolutes(VaeCheck *t, const float *x, size_t n)
{
    float *y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    for (size_t i = 0; i < n; i++)
        y[i] = fabsf(x[i]);
    return y;
}

static float *
copy(VaeCheck *t, const float *x, size_t n)
{
    float *y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    if (x)
        memcpy(y, x, n * sizeof *y);
    return y;
}

float *
vae_backends_ref(VaeCheck *t, const VaeBackends *b, VaeOneOp op, const float *x,
                 const float *add)
{
    op.type = VAE_TYPE_F32;
    VaeWeightCache cache;
    vae_weight_cache_init(&cache);
    VaeRig *r = vae_rig_new(t, &vae_backend_ref, b->ref, &cache, &op);
    float *y = copy(t, add, vae_frame_size(op.y) * (size_t) op.y.t);
    if (r)
        vae_rig_run(t, r, x, y);
    vae_rig_free(&r);
    vae_weight_cache_clear(&cache);
    return y;
}

/* Runs all frames, `step` of them in each call. */
static float *
run_cpu(VaeCheck *t, VaeBackend *cpu, VaeWeightCache *cache, VaeOneOp op,
        VaeOneInput in, int step)
{
    const int back = op.kind == VAE_OP_CONV ? op.kt - op.st : 0;
    const int st = op.kind == VAE_OP_CONV ? op.st : 1;
    float *y = copy(t, in.add, vae_frame_size(op.y) * VAE_FRAMES);
    op.y.t = step;
    op.x.t = step * st + back;
    VaeRig *r = vae_rig_new(t, &vae_backend_cpu, cpu, cache, &op);
    for (int f = 0; r && f + step <= VAE_FRAMES; f += step)
        vae_rig_run(t, r, in.x + vae_frame_size(op.x) * (size_t) (f * st),
                    y + vae_frame_size(op.y) * (size_t) f);
    if (r && strstr(vae_rig_impl(r), "ref"))
        vae_check_fail(t, "oneDNN takes its reference code: %s",
                       vae_rig_impl(r));
    /* brgconv computes wrong sums in some processes. A single run cannot show
     * this, so the test fails if brgconv is chosen. */
    if (r && op.kind == VAE_OP_CONV && op.type == VAE_TYPE_BF16 && op.kt > 1 &&
        op.s > 1 && strstr(vae_rig_impl(r), "brgconv"))
        vae_check_fail(t, "the implementation is %s", vae_rig_impl(r));
    vae_rig_free(&r);
    return y;
}

size_t
vae_prepared_weights(const VaeOneOp *op)
{
    return op->up ? 4 : 1;
}

void
vae_backends_compare(VaeCheck *t, const VaeBackends *b, const VaeOneOp *op,
                     VaeOneInput in, const float *want, const float *bounds)
{
    const size_t n = vae_frame_size(op->y) * VAE_FRAMES;
    VaeWeightCache cache;
    vae_weight_cache_init(&cache);
    for (int i = 0; i < VAE_MAX_THREADS; i++) {
        VaeBackend *cpu = b->cpu[i];
        const float *y = run_cpu(t, cpu, &cache, *op, in, VAE_FRAMES);
        const int step = op->tiles ? op->tiles : 1;
        const float *single = run_cpu(t, cpu, &cache, *op, in, step);
        vae_check_equal(t, "one step at a time", single, y, n * sizeof *y);
        for (size_t j = 0; j < n; j++)
            if (!(fabs((double) y[j] - want[j]) <= bounds[j])) {
                vae_check_fail(t,
                               "%d threads, element %zu: found %.9g, expected "
                               "%.9g within %.3g",
                               i + 1, j, y[j], want[j], bounds[j]);
                break;
            }
    }
    const size_t kept = op->kind == VAE_OP_CONV
                            ? vae_prepared_weights(op) + (op->bias != NULL)
                            : 0;
    if (vae_rig_cached(&cache) < kept || vae_rig_cached(&cache) > 3 * kept)
        vae_check_fail(t, "%zu weight blocks are kept for %zu weights",
                       vae_rig_cached(&cache), kept);
    vae_weight_cache_clear(&cache);
}
