/*
 * latent.c: converts latents to and from the network's order, in every type.
 */

#include "../check.h"
#include "number.h"

static const VaeType all_types[] = {VAE_TYPE_F32, VAE_TYPE_F16, VAE_TYPE_BF16};

static size_t
size_of(VaeType type)
{
    return type == VAE_TYPE_F32 ? 4 : 2;
}

/* Converts the numbers of x to another type. */
static void *
narrow(VaeCheck *t, const float *x, size_t n, VaeType type)
{
    void *y = vae_check_buffer(t, n * size_of(type), size_of(type));
    for (size_t i = 0; i < n; i++)
        vae_store(y, type, i, x[i]);
    return y;
}

static void
add_nonfinite(VaeCheck *t, float *x, size_t n)
{
    x[vae_check_bits(t) % n] = NAN;
    x[vae_check_bits(t) % n] = INFINITY;
    x[vae_check_bits(t) % n] = -INFINITY;
}

static uint64_t
not_finite(const float *x, size_t n)
{
    uint64_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += !isfinite(x[i]);
    return bad;
}

static void
run_in(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeLatentInArgs a,
       const float *want, uint64_t bad)
{
    const size_t n = (size_t) a.h * a.w * a.c;
    uint64_t *counted = vae_check_counter(t, 5);
    float *y = vae_check_buffer(t, n * 4, 4);
    uint16_t *y16 = vae_check_buffer(t, n * 2, 2);
    a.y = y;
    a.nonfinite = counted;
    k->latent_in(q, &a);
    vae_check_close(t, "in, F32", y, want, n, vae_no_difference);
    vae_check_that(t, *counted == 5 + bad, "wrong count of non-finite values");
    a.y = y16;
    a.y_type = VAE_TYPE_BF16;
    k->latent_in(q, &a);
    vae_check_close(t, "in, BF16", vae_check_floats(t, y16, n),
                    vae_check_floats(t, vae_check_bf16(t, want, n), n), n,
                    vae_no_difference);
}

static void
check_in(VaeCheck *t)
{
    static const int sizes[][3] = {{1, 1, 1}, {3, 5, 4}, {6, 7, 16}};
    for (size_t i = 0; i < VAE_COUNT(sizes) * VAE_COUNT(all_types); i++) {
        const int *s = sizes[i / 3], h = s[0], w = s[1], c = s[2];
        const VaeType type = all_types[i % 3];
        const size_t n = (size_t) h * w * c;
        if (!vae_check_begin(t, "latent_in_%dx%dx%d_type%d", h, w, c, type))
            continue;
        float *x = vae_check_random(t, n, 1);
        if (c > 1)
            add_nonfinite(t, x, n);
        void *src = narrow(t, x, n, type);
        float *scale = vae_check_random(t, c, 1);
        float *shift = vae_check_random(t, c, 1);
        float *want = vae_check_buffer(t, n * 4, 4);
        for (int l = 0; l < c; l++)
            for (int p = 0; p < h * w; p++) {
                const float v = vae_load(src, type, (size_t) l * h * w + p);
                const volatile float product = v * scale[l];
                want[(size_t) p * c + l] = product + shift[l];
            }
        const VaeLatentInArgs a = {.src = src,
                                   .scale = scale,
                                   .shift = shift,
                                   .src_type = type,
                                   .h = h,
                                   .w = w,
                                   .c = c};
        const uint64_t bad = not_finite(x, n);
        run_in(t, t->ref, &t->queue, a, want, bad);
        VaeQueue q;
        for (size_t j = 0; t->dut && vae_check_queue(j, &q); j++)
            run_in(t, t->dut, &q, a, want, bad);
    }
}

/* Returns channels `from` + l of x as [c, h, w]. For a channel that x lacks, it
 * takes the last one. */
static float *
planes(VaeCheck *t, const VaeLatentOutArgs *a, int from, bool normalise)
{
    const size_t pixels = (size_t) a->h * a->w;
    float *y = vae_check_buffer(t, pixels * a->c * 4, 4);
    for (size_t i = 0; i < pixels * a->c; i++) {
        const size_t l = i / pixels, p = i % pixels;
        const size_t k = from + l < (size_t) a->cx ? from + l : a->cx - 1u;
        const float v = ((const float *) a->x)[p * a->cx + k];
        const volatile float difference = normalise ? v - a->mean[l] : v;
        y[i] = normalise ? difference / a->std[l] : v;
    }
    return y;
}

static void
run_out(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeLatentOutArgs a)
{
    const size_t n = (size_t) a.h * a.w * a.c, size = size_of(a.dst_type);
    uint64_t *counted = vae_check_counter(t, 0);
    a.dst = vae_check_buffer(t, n * size, size);
    a.nonfinite = counted;
    a.mean_out = vae_check_buffer(t, n * 4, 4);
    a.logvar_out = vae_check_buffer(t, n * 4, 4);
    k->latent_out(q, &a);
    const float *raw = planes(t, &a, 0, false);
    float *want = planes(t, &a, 0, a.normalise);
    const void *narrowed = narrow(t, want, n, a.dst_type);
    float *got = vae_check_buffer(t, n * 4, 4);
    for (size_t i = 0; i < n; i++) {
        want[i] = vae_load(narrowed, a.dst_type, i);
        got[i] = vae_load(a.dst, a.dst_type, i);
    }
    vae_check_close(t, "out", got, want, n, vae_no_difference);
    vae_check_close(t, "mean", a.mean_out, raw, n, vae_no_difference);
    if (a.cx > a.c) {
        vae_check_close(t, "logvar", a.logvar_out, planes(t, &a, a.c, false), n,
                        vae_no_difference);
    } else {
        memset(got, 0xff, n * 4);
        vae_check_equal(t, "logvar untouched", a.logvar_out, got, n * 4);
    }
    vae_check_that(t, *counted == not_finite(raw, n),
                   "wrong count of non-finite values");
    a.mean_out = a.logvar_out = NULL;
    k->latent_out(q, &a);
}

static void
check_out(VaeCheck *t)
{
    static const int sizes[][4] = {{1, 1, 1, 1},   {3, 5, 4, 8},
                                   {2, 7, 16, 16}, {6, 7, 16, 32},
                                   {2, 5, 16, 17}, {1, 1, 1, 2}};
    for (size_t i = 0; i < 2 * 3 * VAE_COUNT(sizes); i++) {
        const int *s = sizes[i / 6];
        const VaeType type = all_types[i % 3];
        const bool normalise = i / 3 % 2;
        if (!vae_check_begin(t, "latent_out_%dx%dx%dof%d_type%d%s", s[0], s[1],
                             s[2], s[3], type, normalise ? "_norm" : ""))
            continue;
        const size_t n = (size_t) s[0] * s[1] * s[3];
        float *x = vae_check_random(t, n, 1);
        if (n > 1)
            add_nonfinite(t, x, n);
        const VaeLatentOutArgs a = {.x = x,
                                    .mean = vae_check_random(t, s[2], 1),
                                    .std = vae_check_random(t, s[2], 1),
                                    .dst_type = type,
                                    .normalise = normalise,
                                    .h = s[0],
                                    .w = s[1],
                                    .c = s[2],
                                    .cx = s[3]};
        run_out(t, t->ref, &t->queue, a);
        VaeQueue q;
        for (size_t j = 0; t->dut && vae_check_queue(j, &q); j++)
            run_out(t, t->dut, &q, a);
    }
}

static void
check_nonfinite(VaeCheck *t)
{
    static const size_t sizes[] = {1, 2, 255, 4099, 1 << 20};
    for (size_t i = 0; i < 3 * VAE_COUNT(sizes); i++) {
        const size_t n = sizes[i / 3];
        const VaeType type = all_types[i % 3];
        if (!vae_check_begin(t, "nonfinite_%zu_type%d", n, type))
            continue;
        float *x = vae_check_random(t, n, 1);
        if (n > 1)
            add_nonfinite(t, x, n);
        x[n - 1] = n % 2 ? INFINITY : x[n - 1]; /* the last counts, too */
        const void *narrowed = narrow(t, x, n, type);
        const VaeKernels *tables[] = {t->ref, t->dut};
        VaeQueue q;
        for (int k = 0; k < 2 && tables[k]; k++)
            for (size_t j = 0; vae_check_queue(j, &q); j++) {
                uint64_t *counted = vae_check_counter(t, 5);
                tables[k]->nonfinite(
                    k ? &q : &t->queue,
                    &(VaeNonfiniteArgs){narrowed, type, n, counted});
                vae_check_that(t, *counted == 5 + not_finite(x, n),
                               "wrong count of non-finite values");
            }
    }
}

VAE_CHECK_MAIN(check_in, check_out, check_nonfinite)
