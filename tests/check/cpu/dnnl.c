/*
 * dnnl.c: compares the cpu backend's convolution with the ref backend. Checks
 * that the bytes of a frame do not depend on the number of frames. Tests the
 * plans of convolutions.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backends.h"
#include "dnnl.h"

/*
 * A sum of n products has n roundings. Each is at most 2^-24 of the sum of the
 * products' absolute values so far. They have random signs, so their sum grows
 * as sqrt(n). Both sides round. The bound is eight deviations.
 */
static float *
conv_bounds(VaeCheck *t, const VaeBackends *b, VaeOneOp op, const float *x,
            const float *add)
{
    const size_t n_w = (size_t) op.y.c * op.x.c * op.kt * op.k * op.k;
    const size_t n_y = vae_frame_size(op.y) * VAE_FRAMES;
    const size_t sum = (size_t) op.x.c * op.kt * op.k * op.k + 2;
    op.weight = vae_absolutes(t, op.weight, n_w);
    op.bias = op.bias ? vae_absolutes(t, op.bias, (size_t) op.y.c) : NULL;
    float *y = vae_backends_ref(
        t, b, op, vae_absolutes(t, x, vae_frame_size(op.x) * (size_t) op.x.t),
        add ? vae_absolutes(t, add, n_y) : NULL);
    for (size_t i = 0; i < n_y; i++)
        y[i] *= 8 * sqrtf((float) sum) * 0x1p-24f;
    return y;
}

/* Zeros on every side, on the right and at the bottom only, or none: x has a
 * border. */
typedef enum Sides { ALL_SIDES, RIGHT_BOTTOM, NO_SIDE } Sides;

static void
check_one_conv(VaeCheck *t, const VaeBackends *b, VaeOneOp op, Sides sides)
{
    static const char *const names[] = {"", "rb", "border"};
    const char *type = op.type == VAE_TYPE_BF16 ? "bf16" : "fp32";
    if (!vae_check_begin(t, "conv_%s_k%d%d_s%d%d%s_c%d_%d", type, op.kt, op.k,
                         op.st, op.s, names[sides], op.x.c, op.y.c))
        return;
    op.kind = VAE_OP_CONV;
    op.pad = sides == ALL_SIDES ? op.k / 2 : 0;
    op.x.h = vae_check_range(t, 3, 23);
    op.x.w = vae_check_range(t, 3, 23);
    op.y.h = op.s == 1 ? op.x.h : op.x.h / 2;
    op.y.w = op.s == 1 ? op.x.w : op.x.w / 2;
    if (sides == NO_SIDE) {
        op.x.h = op.y.h * op.s + 2;
        op.x.w = op.y.w * op.s + 2;
    }
    op.y.t = VAE_FRAMES;
    op.x.t = (VAE_FRAMES - 1) * op.st + op.kt;
    op.add = vae_check_range(t, 0, 1);
    op.weight = vae_exact_numbers(
        t, (size_t) op.y.c * op.x.c * op.kt * op.k * op.k, op.type);
    const float *bias = vae_check_random(t, (size_t) op.y.c, 1);
    op.bias = vae_check_range(t, 0, 3) ? bias : NULL;
    const float *x =
        vae_exact_numbers(t, vae_frame_size(op.x) * (size_t) op.x.t, op.type);
    const float *add =
        op.add ? vae_check_random(t, vae_frame_size(op.y) * VAE_FRAMES, 1)
               : NULL;
    const float *want = vae_backends_ref(t, b, op, x, add);
    vae_backends_compare(t, b, &op, (VaeOneInput){x, add}, want,
                         conv_bounds(t, b, op, x, add));
}

static void
check_convs(VaeCheck *t, VaePrecision precision)
{
    static const VaeOneOp kinds[] = {
        {.kt = 3, .k = 3, .s = 1, .st = 1}, {.kt = 1, .k = 3, .s = 1, .st = 1},
        {.kt = 3, .k = 1, .s = 1, .st = 1}, {.kt = 1, .k = 1, .s = 1, .st = 1},
        {.kt = 3, .k = 3, .s = 1, .st = 2}, {.kt = 3, .k = 1, .s = 1, .st = 2},
        {.kt = 1, .k = 3, .s = 2, .st = 1}, {.kt = 3, .k = 3, .s = 2, .st = 1},
        {.kt = 3, .k = 3, .s = 2, .st = 2},
    };
    static const int channels[][2] = {{3, 96},  {96, 3},  {8, 8}, {16, 24},
                                      {24, 16}, {96, 96}, {1, 5}, {32, 12}};
    VaeBackends b;
    if (!vae_backends_open(t, precision, &b))
        return;
    for (size_t i = 0; i < VAE_COUNT(kinds); i++)
        for (size_t j = 0; j < VAE_COUNT(channels); j++) {
            VaeOneOp op = kinds[i];
            op.type = vae_act_type(precision);
            op.x.c = channels[j][0];
            op.y.c = channels[j][1];
            check_one_conv(t, &b, op, ALL_SIDES);
            if (op.s == 2)
                check_one_conv(t, &b, op, RIGHT_BOTTOM);
            if (op.k == 3 && op.kt == 3)
                check_one_conv(t, &b, op, NO_SIDE);
        }
    vae_backends_close(&b);
}

static void
check_conv_fp32(VaeCheck *t)
{
    check_convs(t, VAE_PRECISION_FP32);
}

static void
check_conv_bf16(VaeCheck *t)
{
    check_convs(t, VAE_PRECISION_BF16);
}

/* A long sum and a large residual, in place of the result: the products are
 * summed before the residual is added, so that they do not round to its last
 * bit. Other processors add in place. */
static void
check_large_residual(VaeCheck *t)
{
    enum { H = 5, W = 6, X = 160, Y = 8, LARGE = 1024 };
    VaeOneOp op = {.kind = VAE_OP_CONV,
                   .x = {VAE_FRAMES + 2, H, W, X},
                   .y = {VAE_FRAMES, H, W, Y},
                   .k = 3,
                   .kt = 3,
                   .s = 1,
                   .st = 1,
                   .pad = 1};
    const size_t n = vae_frame_size(op.y) * VAE_FRAMES;
    VaeBackends b;
    if (!vae_check_begin(t, "large_residual") ||
        !vae_backends_open(t, VAE_PRECISION_FP32, &b))
        return;
    op.weight = vae_check_random(t, (size_t) Y * X * 27, 1.0 / 16);
    const float *x =
        vae_check_random(t, vae_frame_size(op.x) * (size_t) op.x.t, 1);
    float *want = vae_backends_ref(t, &b, op, x, NULL);
    float *add = vae_absolutes(t, want, n), *bounds = vae_absolutes(t, want, n);
    for (size_t i = 0; i < n; i++) {
        add[i] = LARGE;
        want[i] += LARGE;
        bounds[i] = 4 * LARGE * 0x1p-24f;
    }
    op.add = true;
    VaeRig *rig = vae_rig_new(t, &vae_backend_cpu, b.cpu[0], NULL, &op);
    const char *impl = rig ? vae_rig_impl(rig) : "";
    if (strstr(impl, "ref"))
        vae_check_fail(t, "oneDNN takes its reference code: %s", impl);
    if (strstr(impl, "avx2") || strstr(impl, "avx512"))
        vae_backends_compare(t, &b, &op, (VaeOneInput){x, add}, want, bounds);
    vae_rig_free(&rig);
    vae_backends_close(&b);
}

/* ------------------------------------------------------------------ */

/* Copies frames and doubles each pixel in both directions. */
static float *
doubled(VaeCheck *t, const float *x, VaeShape shape)
{
    float *y = vae_check_buffer(
        t, 4 * vae_frame_size(shape) * VAE_FRAMES * sizeof *y, 4);
    vae_kernels_ref.rearrange(&t->queue,
                              &(VaeRearrangeArgs){.kind = VAE_UNFOLD_NEAREST,
                                                  .y = y,
                                                  .x = x,
                                                  .t = VAE_FRAMES,
                                                  .h = shape.h,
                                                  .w = shape.w,
                                                  .c = shape.c,
                                                  .ft = 1,
                                                  .fs = 2});
    return y;
}

/*
 * Compares with the reference convolution of the doubled picture. Taps are
 * multiples of 1/32 below 1, so that sums of four are also exact in bf16, and
 * the bound holds as for other convolutions. A narrow result has one more
 * rounding, of 2^-9.
 */
static void
check_one_up(VaeCheck *t, const VaeBackends *b, VaeOneOp op, bool bias)
{
    if (!vae_check_begin(t, "up_%s_%dx%d_c%d_%d%s%s%s",
                         op.type == VAE_TYPE_BF16 ? "bf16" : "fp32", op.x.w,
                         op.x.h, op.x.c, op.y.c, bias ? "_bias" : "",
                         op.relu ? "_relu" : "", op.narrow ? "_narrow" : ""))
        return;
    const size_t n_w = (size_t) op.y.c * op.x.c * 9;
    float *weight = vae_check_buffer(t, n_w * sizeof *weight, sizeof *weight);
    for (size_t i = 0; i < n_w; i++)
        weight[i] = (float) vae_check_range(t, -31, 31) / 32;
    op.weight = weight;
    op.bias = bias ? vae_check_random(t, (size_t) op.y.c, 1) : NULL;
    op.y.h = 2 * op.x.h;
    op.y.w = 2 * op.x.w;
    op.y.t = op.x.t = VAE_FRAMES;
    const float *x =
        vae_exact_numbers(t, vae_frame_size(op.x) * VAE_FRAMES, op.type);
    const float *big = doubled(t, x, op.x);
    VaeOneOp plain = op;
    plain.up = false;
    plain.x = (VaeShape){VAE_FRAMES, op.y.h, op.y.w, op.x.c};
    const float *want = vae_backends_ref(t, b, plain, big, NULL);
    plain.relu = false;
    float *bounds = conv_bounds(t, b, plain, big, NULL);
    for (size_t i = 0; op.narrow && i < vae_frame_size(op.y) * VAE_FRAMES; i++)
        bounds[i] += (fabsf(want[i]) + bounds[i]) * 0x1p-8f;
    vae_backends_compare(t, b, &op, (VaeOneInput){x, NULL}, want, bounds);
}

static void
check_ups(VaeCheck *t, VaePrecision precision)
{
    static const int cases[][4] = {
        {1, 1, 16, 16}, {1, 9, 3, 96},  {7, 1, 96, 3},    {2, 2, 5, 7},
        {5, 3, 64, 64}, {17, 11, 1, 5}, {13, 16, 33, 20}, {26, 15, 96, 48}};
    VaeBackends b;
    if (!vae_backends_open(t, precision, &b))
        return;
    for (size_t i = 0; i < VAE_COUNT(cases); i++)
        for (int kind = 0; kind < 4; kind++)
            check_one_up(
                t, &b,
                (VaeOneOp){
                    .kind = VAE_OP_CONV,
                    .type = vae_act_type(precision),
                    .x = {.w = cases[i][0], .h = cases[i][1], .c = cases[i][2]},
                    .y = {.c = cases[i][3]},
                    .k = 3,
                    .kt = 1,
                    .s = 1,
                    .st = 1,
                    .pad = 1,
                    .up = true,
                    .relu = kind > 1,
                    .narrow = kind == 2},
                kind % 2 != 0);
    vae_backends_close(&b);
}

static void
check_up_fp32(VaeCheck *t)
{
    check_ups(t, VAE_PRECISION_FP32);
}

static void
check_up_bf16(VaeCheck *t)
{
    check_ups(t, VAE_PRECISION_BF16);
}

/* ------------------------------------------------------------------ */

/* Planned sizes equal those of a prepared op. A primitive for another number of
 * frames uses the same weights. */
static void
check_plan_of(VaeCheck *t, bool up, bool tiles)
{
    VaeBackends b;
    if (!vae_check_begin(t, up      ? "plan_up"
                            : tiles ? "plan_tiles"
                                    : "plan") ||
        !vae_backends_open(t, VAE_PRECISION_FP32, &b))
        return;
    VaeOneOp op = {.kind = VAE_OP_CONV,
                   .x = {3, 10, 14, 16},
                   .y = {1, 10, 14, 8},
                   .k = 3,
                   .kt = 3,
                   .s = 1,
                   .st = 1,
                   .pad = 1,
                   .tiles = tiles};
    if (up) {
        op.up = true;
        op.kt = op.x.t = 1;
        op.y.h = 20;
        op.y.w = 28;
    }
    op.weight = vae_check_random(t, 8 * 16 * 27, 1);
    op.bias = vae_check_random(t, 8, 1);
    VaeWeightCache cache;
    vae_weight_cache_init(&cache);
    VaeRig *plan = vae_rig_new(t, &vae_backend_cpu, b.cpu[1], NULL, &op);
    VaeRig *real = vae_rig_new(t, &vae_backend_cpu, b.cpu[1], &cache, &op);
    op.x.t += 3;
    op.y.t = 4;
    VaeRig *more = vae_rig_new(t, &vae_backend_cpu, b.cpu[1], &cache, &op);
    if (plan && real && more) {
        vae_check_that(t, vae_rig_scratch(plan) == vae_rig_scratch(real),
                       "the planned scratch differs from the allocated one");
        vae_check_that(t,
                       vae_rig_weight_bytes(plan) == vae_rig_weight_bytes(real),
                       "the planned weights differ from the allocated ones");
        vae_check_that(t,
                       vae_rig_weight_bytes(real) >= 4 * (8 * 16 *
                                                              (up      ? 16u
                                                               : tiles ? 48u
                                                                       : 27u) +
                                                          8),
                       "fewer bytes than weights");
        vae_check_that(t,
                       vae_rig_cached(&cache) == vae_prepared_weights(&op) + 1,
                       "the weights are kept more than once");
    }
    vae_rig_free(&plan);
    vae_rig_free(&real);
    vae_rig_free(&more);
    vae_weight_cache_clear(&cache);
    vae_backends_close(&b);
}

static void
check_plan(VaeCheck *t)
{
    check_plan_of(t, false, false);
    check_plan_of(t, true, false);
    check_plan_of(t, false, true);
}

static bool
same_plan(const VaeDnnlPrimitive *a, const VaeDnnlPrimitive *b)
{
    bool same = a->scratch == b->scratch && strcmp(a->impl, b->impl) == 0;
    for (int i = 0; i < VAE_DNNL_SLOTS; i++) {
        VaeDnnlKey x = {0}, y = {0};
        if (a->layout[i] && b->layout[i] && i != VAE_DNNL_SCRATCH) {
            vae_dnnl_key(a->layout[i], &x);
            vae_dnnl_key(b->layout[i], &y);
        }
        same = same && !a->layout[i] == !b->layout[i] &&
               memcmp(&x, &y, sizeof x) == 0;
    }
    return same;
}

/* Plans a convolution twice. Only the first time may describe it. */
static void
plan_twice(VaeCheck *t, VaeDnnl *dnnl, const VaeDnnlConv *conv, int i)
{
    VaeDnnlPrimitive once = {0}, again = {0};
    const int known = dnnl->n_planned;
    const VaeDnnlStatus status = vae_dnnl_conv(dnnl, conv, true, &once);
    if (dnnl->n_planned != known + 1)
        vae_check_fail(t, "convolution %d was confused with another one", i);
    if (vae_dnnl_conv(dnnl, conv, true, &again) != status ||
        dnnl->n_planned != known + 1 || !same_plan(&once, &again))
        vae_check_fail(t, "convolution %d has two plans", i);
    vae_dnnl_free(&once);
    vae_dnnl_free(&again);
}

/* True if the library has an implementation for conv; its name begins with impl
 * or, if `not`, it does not. */
static bool
plans(VaeDnnl *dnnl, const VaeDnnlConv *conv, const char *impl, bool not )
{
    VaeDnnlPrimitive plan = {0};
    const bool good = vae_dnnl_conv(dnnl, conv, true, &plan) == VAE_DNNL_OK &&
                      (strncmp(plan.impl, impl, strlen(impl)) == 0) != not ;
    vae_dnnl_free(&plan);
    return good;
}

/* Each convolution differs from the first one in one field. */
static void
check_planned(VaeCheck *t)
{
    enum { N = 20 };
    VaeDnnlConv convs[N], base = {.x_type = VAE_TYPE_F32,
                                  .y_type = VAE_TYPE_F32,
                                  .x_c = 16,
                                  .y_c = 8,
                                  .x = {3, 10, 14},
                                  .y = {1, 10, 14},
                                  .k = {3, 3, 3},
                                  .stride = {1, 1, 1},
                                  .begin = {0, 1, 1},
                                  .end = {0, 1, 1}};
    VaeDnnlPrimitive first = {0};
    VaeDnnl dnnl;
    if (!vae_check_begin(t, "planned"))
        return;
    vae_check_that(t, vae_dnnl_open(&dnnl) == VAE_DNNL_OK, "oneDNN opens");
    vae_check_that(t, vae_dnnl_conv(&dnnl, &base, true, &first) == VAE_DNNL_OK,
                   "the first plan");
    for (int i = 0; i < N; i++)
        convs[i] = base;
    convs[0].x_c = 24;
    convs[1].y_c = 16;
    convs[2].x[1] = convs[2].y[1] = 9;
    convs[3].x[2] = convs[3].y[2] = 9;
    convs[4].x[0] = convs[4].k[0] = 2;
    convs[5].y[1] = 5;
    convs[5].stride[1] = 2;
    convs[6].begin[1] = 0;
    convs[6].end[1] = 2;
    convs[7].begin[2] = 2;
    convs[7].end[2] = 0;
    convs[8].bias = true;
    convs[9].add_slot = true;
    convs[10].add_slot = true;
    convs[10].add_type = VAE_TYPE_BF16;
    convs[11].add_dst = true;
    convs[12].relu = true;
    convs[13].avoid = first.impl;
    convs[14].only = first.impl;
    convs[15].only = "none";
    convs[16].weights = first.layout[VAE_DNNL_WEIGHTS];
    convs[17].y_type = VAE_TYPE_BF16;
    convs[18].x_type = VAE_TYPE_BF16;
    convs[19].flat = true;
    convs[19].x[0] = convs[19].k[0] = 1;
    for (int i = 0; i < N; i++)
        plan_twice(t, &dnnl, &convs[i], i);
    vae_check_that(t, plans(&dnnl, &convs[13], first.impl, true),
                   "an implementation is not avoided");
    vae_check_that(t, plans(&dnnl, &convs[14], first.impl, false),
                   "the only implementation is not chosen");
    vae_check_that(t, !plans(&dnnl, &convs[15], "none", false),
                   "an implementation is made up");
    const int threads = omp_get_max_threads();
    omp_set_num_threads(threads + 1);
    plan_twice(t, &dnnl, &base, N);
    omp_set_num_threads(threads);
    vae_dnnl_free(&first);
    vae_dnnl_close(&dnnl);
}

static void
check_precision(VaeCheck *t)
{
    if (!vae_check_begin(t, "precision"))
        return;
    static const VaePrecision none[] = {VAE_PRECISION_TF32, VAE_PRECISION_FP16};
    VaePrecision chosen = VAE_PRECISION_TF32;
    for (size_t i = 0; i < VAE_COUNT(none); i++) {
        char why[200] = "";
        if (vae_backend_cpu.usable(none[i], &chosen, why, sizeof why) ||
            !strstr(why, vae_precision_name(none[i])))
            vae_check_fail(t, "%s is not refused by name: \"%s\"",
                           vae_precision_name(none[i]), why);
    }
    char why[200] = "";
    const bool bf16 =
        vae_backend_cpu.usable(VAE_PRECISION_BF16, &chosen, why, sizeof why);
    vae_check_that(t, bf16 || strstr(why, "AVX512_BF16"),
                   "the refusal of bf16 does not say why");
    vae_check_that(
        t,
        vae_backend_cpu.usable(VAE_PRECISION_AUTO, &chosen, why, sizeof why) &&
            chosen == (vae_dnnl_has_amx() ? VAE_PRECISION_BF16
                                          : VAE_PRECISION_FP32) &&
            strstr(why, "AMX"),
        "auto chooses something else, or does not say why");
}

VAE_CHECK_MAIN(check_precision, check_plan, check_planned, check_conv_fp32,
               check_conv_bf16, check_large_residual, check_up_fp32,
               check_up_bf16)
