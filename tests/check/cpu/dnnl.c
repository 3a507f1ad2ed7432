/*
 * dnnl.c: the cpu backend's convolution and attention against the ref
 * backend, and that the number of frames changes no byte of a frame.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"
#include "dnnl.h"
#include "number.h"

enum { FRAMES = 6, MAX_THREADS = 3 };

/* The cpu backend with 1, 2 and 3 threads; NULL if it lacks the precision. */
typedef struct Backends {
    VaePrecision precision;
    VaeBackend *cpu[MAX_THREADS], *ref;
} Backends;

static bool
open_all(VaeCheck *t, VaePrecision precision, Backends *b)
{
    char why[200];
    VaePrecision chosen;
    VaeError error = {0};
    VaeDevice device;
    *b = (Backends){.precision = precision};
    if (!vae_backend_cpu.usable(precision, &chosen, why, sizeof why)) {
        printf("skipped: %s\n", why);
        return false;
    }
    for (int i = 0; i < MAX_THREADS; i++)
        if (vae_backend_cpu.open(
                &(VaeBackendParams){.precision = precision, .threads = i + 1},
                &b->cpu[i], &device, &error))
            vae_check_fail(t, "%s", error.message);
    if (vae_backend_ref.open(&(VaeBackendParams){.threads = 1}, &b->ref,
                             &device, &error))
        vae_check_fail(t, "%s", error.message);
    return true;
}

static void
close_all(Backends *b)
{
    for (int i = 0; i < MAX_THREADS; i++)
        vae_backend_cpu.close(&b->cpu[i]);
    vae_backend_ref.close(&b->ref);
}

static size_t
frame(VaeShape s)
{
    return (size_t) s.h * s.w * s.c;
}

/* Rounds the input to values that both backends read exactly. In bf16 the
 * products are then exact in fp32, and only the sums round. */
static float *
numbers(VaeCheck *t, size_t n, VaeType type)
{
    float *x = vae_check_random(t, n, 1);
    return type == VAE_TYPE_BF16
               ? vae_check_floats(t, vae_check_bf16(t, x, n), n)
               : x;
}

static float *
absolutes(VaeCheck *t, const float *x, size_t n)
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

static float *
run_ref(VaeCheck *t, const Backends *b, VaeOneOp op, const float *x,
        const float *add)
{
    op.type = VAE_TYPE_F32;
    VaeWeightCache cache;
    vae_weight_cache_init(&cache);
    VaeRig *r = vae_rig_new(t, &vae_backend_ref, b->ref, &cache, &op);
    float *y = copy(t, add, frame(op.y) * (size_t) op.y.t);
    if (r)
        vae_rig_run(t, r, x, y);
    vae_rig_free(&r);
    vae_weight_cache_clear(&cache);
    return y;
}

/* What an op reads; add: or NULL. */
typedef struct Input {
    const float *x, *add;
} Input;

/* Runs all frames, `step` of them in a call. */
static float *
run_cpu(VaeCheck *t, VaeBackend *cpu, VaeWeightCache *cache, VaeOneOp op,
        Input in, int step)
{
    const int back = op.kind == VAE_OP_CONV ? op.kt - op.st : 0;
    const int st = op.kind == VAE_OP_CONV ? op.st : 1;
    float *y = copy(t, in.add, frame(op.y) * FRAMES);
    op.y.t = step;
    op.x.t = step * st + back;
    VaeRig *r = vae_rig_new(t, &vae_backend_cpu, cpu, cache, &op);
    for (int f = 0; r && f + step <= FRAMES; f += step)
        vae_rig_run(t, r, in.x + frame(op.x) * (size_t) (f * st),
                    y + frame(op.y) * (size_t) f);
    if (r && strstr(vae_rig_impl(r), "ref"))
        vae_check_fail(t, "oneDNN takes its reference code: %s",
                       vae_rig_impl(r));
    /* brgconv has wrong sums in some processes. A single run cannot show this,
     * so it must not be chosen at all. */
    if (r && op.kind == VAE_OP_CONV && op.type == VAE_TYPE_BF16 && op.kt > 1 &&
        op.s > 1 && strstr(vae_rig_impl(r), "brgconv"))
        vae_check_fail(t, "the implementation is %s", vae_rig_impl(r));
    vae_rig_free(&r);
    return y;
}

/* Returns the number of weights that the backend prepares for one op. */
static size_t
parts(const VaeOneOp *op)
{
    return op->up ? 4 : 1;
}

/* Checks that the results with each number of threads are within the bounds of
 * want, and that all frames in one call equal single frames (with Winograd
 * tiles: single steps). */
static void
compare(VaeCheck *t, const Backends *b, const VaeOneOp *op, Input in,
        const float *want, const float *bounds)
{
    const size_t n = frame(op->y) * FRAMES;
    VaeWeightCache cache;
    vae_weight_cache_init(&cache);
    for (int i = 0; i < MAX_THREADS; i++) {
        VaeBackend *cpu = b->cpu[i];
        const float *y = run_cpu(t, cpu, &cache, *op, in, FRAMES);
        const int step = op->tiles ? op->tiles : 1;
        const float *single = run_cpu(t, cpu, &cache, *op, in, step);
        vae_check_equal(t, "one step at a time", single, y, n * sizeof *y);
        for (size_t j = 0; j < n; j++)
            if (!(fabs((double) y[j] - want[j]) <= bounds[j])) {
                vae_check_fail(t,
                               "%d threads, element %zu: found %.9g, wanted "
                               "%.9g within %.3g",
                               i + 1, j, y[j], want[j], bounds[j]);
                break;
            }
    }
    const size_t kept =
        op->kind == VAE_OP_CONV ? parts(op) + (op->bias != NULL) : 0;
    if (vae_rig_cached(&cache) < kept || vae_rig_cached(&cache) > 3 * kept)
        vae_check_fail(t, "%zu weight blocks are kept for %zu weights",
                       vae_rig_cached(&cache), kept);
    vae_weight_cache_clear(&cache);
}

/* ------------------------------------------------------------------ */

/*
 * A sum of n products has n roundings. Each is at most 2^-24 of the sum of the
 * products' sizes so far. They have random signs, so their sum grows as
 * sqrt(n). Both sides round. The bound is eight deviations.
 */
static float *
conv_bounds(VaeCheck *t, const Backends *b, VaeOneOp op, const float *x,
            const float *add)
{
    const size_t n_w = (size_t) op.y.c * op.x.c * op.kt * op.k * op.k;
    const size_t n_y = frame(op.y) * FRAMES;
    const size_t sum = (size_t) op.x.c * op.kt * op.k * op.k + 2;
    op.weight = absolutes(t, op.weight, n_w);
    op.bias = op.bias ? absolutes(t, op.bias, (size_t) op.y.c) : NULL;
    float *y = run_ref(t, b, op, absolutes(t, x, frame(op.x) * (size_t) op.x.t),
                       add ? absolutes(t, add, n_y) : NULL);
    for (size_t i = 0; i < n_y; i++)
        y[i] *= 8 * sqrtf((float) sum) * 0x1p-24f;
    return y;
}

static void
check_one_conv(VaeCheck *t, const Backends *b, VaeOneOp op, bool right_bottom)
{
    const char *type = op.type == VAE_TYPE_BF16 ? "bf16" : "fp32";
    if (!vae_check_begin(t, "conv_%s_k%d%d_s%d%d%s_c%d_%d", type, op.kt, op.k,
                         op.st, op.s, right_bottom ? "rb" : "", op.x.c, op.y.c))
        return;
    op.kind = VAE_OP_CONV;
    op.pad = right_bottom ? 0 : op.k / 2;
    op.x.h = vae_check_range(t, 3, 23);
    op.x.w = vae_check_range(t, 3, 23);
    op.y.h = op.s == 1 ? op.x.h : op.x.h / 2;
    op.y.w = op.s == 1 ? op.x.w : op.x.w / 2;
    op.y.t = FRAMES;
    op.x.t = (FRAMES - 1) * op.st + op.kt;
    op.add = vae_check_range(t, 0, 1);
    op.weight =
        numbers(t, (size_t) op.y.c * op.x.c * op.kt * op.k * op.k, op.type);
    const float *bias = vae_check_random(t, (size_t) op.y.c, 1);
    op.bias = vae_check_range(t, 0, 3) ? bias : NULL;
    const float *x = numbers(t, frame(op.x) * (size_t) op.x.t, op.type);
    const float *add =
        op.add ? vae_check_random(t, frame(op.y) * FRAMES, 1) : NULL;
    const float *want = run_ref(t, b, op, x, add);
    compare(t, b, &op, (Input){x, add}, want, conv_bounds(t, b, op, x, add));
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
    Backends b;
    if (!open_all(t, precision, &b))
        return;
    for (size_t i = 0; i < VAE_COUNT(kinds); i++)
        for (size_t j = 0; j < VAE_COUNT(channels); j++) {
            VaeOneOp op = kinds[i];
            op.type = vae_act_type(precision);
            op.x.c = channels[j][0];
            op.y.c = channels[j][1];
            check_one_conv(t, &b, op, false);
            if (op.s == 2)
                check_one_conv(t, &b, op, true);
        }
    close_all(&b);
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

/* ------------------------------------------------------------------ */

/* Copies frames and doubles each pixel in both directions. */
static float *
doubled(VaeCheck *t, const float *x, VaeShape shape)
{
    float *y = vae_check_buffer(t, 4 * frame(shape) * FRAMES * sizeof *y, 4);
    vae_kernels_ref.rearrange(&t->queue,
                              &(VaeRearrangeArgs){.kind = VAE_UNFOLD_NEAREST,
                                                  .y = y,
                                                  .x = x,
                                                  .t = FRAMES,
                                                  .h = shape.h,
                                                  .w = shape.w,
                                                  .c = shape.c,
                                                  .ft = 1,
                                                  .fs = 2});
    return y;
}

/*
 * The reference convolution of the doubled picture. Taps are multiples of 1/32
 * below 1, so that sums of four are exact in bf16, too, and the bound holds as
 * for any other. A narrow result has its own rounding, 2^-9 of it.
 */
static void
check_one_up(VaeCheck *t, const Backends *b, VaeOneOp op, bool bias)
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
    op.y.t = op.x.t = FRAMES;
    const float *x = numbers(t, frame(op.x) * FRAMES, op.type);
    const float *big = doubled(t, x, op.x);
    VaeOneOp plain = op;
    plain.up = false;
    plain.x = (VaeShape){FRAMES, op.y.h, op.y.w, op.x.c};
    const float *want = run_ref(t, b, plain, big, NULL);
    plain.relu = false;
    float *bounds = conv_bounds(t, b, plain, big, NULL);
    for (size_t i = 0; op.narrow && i < frame(op.y) * FRAMES; i++)
        bounds[i] += (fabsf(want[i]) + bounds[i]) * 0x1p-8f;
    compare(t, b, &op, (Input){x, NULL}, want, bounds);
}

static void
check_ups(VaeCheck *t, VaePrecision precision)
{
    static const int cases[][4] = {
        {1, 1, 16, 16}, {1, 9, 3, 96},  {7, 1, 96, 3},    {2, 2, 5, 7},
        {5, 3, 64, 64}, {17, 11, 1, 5}, {13, 16, 33, 20}, {26, 15, 96, 48}};
    Backends b;
    if (!open_all(t, precision, &b))
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
    close_all(&b);
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

/* Bounds of the transformed 4x4 tile of x for one channel of one frame. row and
 * column: the tile's first pixel. */
static void
tile_sizes(float v[16], const float *x, VaeShape s, int row, int column)
{
    static const int of[4][2] = {{0, 2}, {1, 2}, {1, 2}, {1, 3}};
    for (int i = 0; i < 16; i++) {
        v[i] = 0;
        for (int k = 0; k < 4; k++) {
            const int r = row + of[i / 4][k / 2], q = column + of[i % 4][k % 2];
            if (r >= 0 && r < s.h && q >= 0 && q < s.w)
                v[i] += fabsf(x[((size_t) r * s.w + q) * s.c]);
        }
    }
}

/* Bounds of the transformed 3x3 kernel g. */
static void
kernel_sizes(float u[16], const float *g)
{
    static const float of[4][3] = {
        {1, 0, 0}, {.5f, .5f, .5f}, {.5f, .5f, .5f}, {0, 0, 1}};
    for (int i = 0; i < 16; i++) {
        u[i] = 0;
        for (int k = 0; k < 9; k++)
            u[i] += of[i / 4][k / 3] * of[i % 4][k % 3] * fabsf(g[k]);
    }
}

/* Adds the bounds of all products of tile (row, column) to y, by pixel and
 * channel. x: the three frames that it reads; u: the bounds of all kernels. */
static void
tile_sums(float *y, VaeOneOp op, const float *u, const float *x, int row,
          int column)
{
    for (int c = 0; c < op.x.c; c++)
        for (int t = 0; t < 3; t++) {
            float v[16];
            tile_sizes(v, x + frame(op.x) * (size_t) t + c, op.x,
                       2 * row - op.pad, 2 * column - op.pad);
            for (int o = 0; o < op.y.c; o++)
                for (int i = 0; i < 16; i++) {
                    const float m =
                        v[i] * u[((o * (size_t) op.x.c + c) * 3 + t) * 16 + i];
                    for (int k = 0; k < 4; k++)
                        if (i / 4 != 3 - 3 * (k / 2) &&
                            i % 4 != 3 - 3 * (k % 2))
                            y[k * op.y.c + o] += m;
                }
        }
}

/* As conv_bounds() for Winograd tiles. These add up products of sums of pixels
 * and sums of taps, whose sizes do not cancel. */
static float *
tile_bounds(VaeCheck *t, VaeOneOp op, const float *x, const float *add)
{
    const size_t kernels = (size_t) op.y.c * op.x.c * 3, n = frame(op.y);
    float *u = vae_check_buffer(t, kernels * 16 * sizeof *u, sizeof *u);
    float *bounds = vae_check_buffer(t, n * FRAMES * sizeof *u, sizeof *u);
    float *sums = vae_check_buffer(t, 4 * (size_t) op.y.c * sizeof *u, 4);
    for (size_t k = 0; k < kernels; k++)
        kernel_sizes(u + 16 * k, op.weight + 9 * k);
    const int across = (op.y.w + 1) / 2, tiles = across * ((op.y.h + 1) / 2);
    for (int i = 0; i < FRAMES * tiles; i++) {
        const int f = i / tiles, row = i % tiles / across;
        const int column = i % across;
        memset(sums, 0, 4 * (size_t) op.y.c * sizeof *sums);
        tile_sums(sums, op, u, x + frame(op.x) * (size_t) f, row, column);
        for (int k = 0; k < 4 * op.y.c; k++) {
            const int r = 2 * row + k / op.y.c / 2, o = k % op.y.c;
            const int q = 2 * column + k / op.y.c % 2;
            const size_t at =
                n * (size_t) f + ((size_t) r * op.y.w + q) * op.y.c + o;
            if (r < op.y.h && q < op.y.w)
                bounds[at] = 8 * sqrtf((float) op.x.c * 27 + 2) * 0x1p-24f *
                             (sums[k] + (op.bias ? fabsf(op.bias[o]) : 0) +
                              (add ? fabsf(add[at]) : 0));
        }
    }
    return bounds;
}

/* Runs the clip in steps of op.tiles frames. */
static void
check_one_tiles(VaeCheck *t, const Backends *b, VaeOneOp op)
{
    if (!vae_check_begin(t, "tiles_of_%d_%dx%d_c%d_%d%s%s%s", op.tiles, op.x.w,
                         op.x.h, op.x.c, op.y.c, op.pad ? "" : "_inner",
                         op.add ? "_add" : "", op.relu ? "_relu" : ""))
        return;
    op.y.h = op.x.h - 2 + 2 * op.pad;
    op.y.w = op.x.w - 2 + 2 * op.pad;
    op.y.t = FRAMES;
    op.x.t = FRAMES + 2;
    op.weight = vae_check_random(t, (size_t) op.y.c * op.x.c * 27, 1);
    const float *bias = vae_check_random(t, (size_t) op.y.c, 1);
    op.bias = vae_check_range(t, 0, 3) ? bias : NULL;
    const float *x = vae_check_random(t, frame(op.x) * (size_t) op.x.t, 1);
    const float *add =
        op.add ? vae_check_random(t, frame(op.y) * FRAMES, 1) : NULL;
    VaeOneOp plain = op;
    plain.tiles = 0;
    const float *want = run_ref(t, b, plain, x, add);
    compare(t, b, &op, (Input){x, add}, want, tile_bounds(t, op, x, add));
}

/* The first SMALL cases are small. Then come pictures with several chunks, one
 * above the other and side by side, and cases with many channels. The last
 * case has one chunk of 45 tiles. */
static void
check_tiles_with(VaeCheck *t, int pad)
{
    static const int cases[][4] = {
        {1, 1, 8, 8},     {1, 9, 3, 33},    {7, 1, 40, 3},   {5, 3, 32, 32},
        {17, 11, 1, 5},   {26, 15, 48, 64}, {64, 41, 96, 8}, {150, 5, 96, 40},
        {9, 5, 256, 200}, {18, 9, 256, 176}};
    enum { SMALL = 6 };
    Backends b;
    if (!open_all(t, VAE_PRECISION_FP32, &b))
        return;
    for (size_t i = 0; i < VAE_COUNT(cases); i++)
        for (int frames = 1; frames <= FRAMES; frames++)
            if (FRAMES % frames == 0 && (frames == 3 || (pad && i < SMALL)) &&
                (pad || (cases[i][0] > 2 && cases[i][1] > 2)))
                check_one_tiles(t, &b,
                                (VaeOneOp){.kind = VAE_OP_CONV,
                                           .type = VAE_TYPE_F32,
                                           .x = {.w = cases[i][0],
                                                 .h = cases[i][1],
                                                 .c = cases[i][2]},
                                           .y = {.c = cases[i][3]},
                                           .k = 3,
                                           .kt = 3,
                                           .s = 1,
                                           .st = 1,
                                           .pad = pad,
                                           .tiles = frames,
                                           .add = vae_check_range(t, 0, 1),
                                           .relu = vae_check_range(t, 0, 1)});
    close_all(&b);
}

static void
check_tiles(VaeCheck *t)
{
    check_tiles_with(t, 1);
}

/* The input contains the border of the picture. */
static void
check_inner_tiles(VaeCheck *t)
{
    check_tiles_with(t, 0);
}

/* ------------------------------------------------------------------ */

/*
 * q, k and v are in -1..1. A score is at most sqrt(c), and off by at most d = 8
 * sqrt(c) 2^-24 sqrt(c). Its exponential is off by the factor 1 + d and by
 * about 2^-21 of its own; the mean of v by at most twice that. In bf16 the
 * probabilities and the result are also rounded, by 2^-9 each.
 */
static float *
attention_bounds(VaeCheck *t, const VaeOneOp *op)
{
    const size_t n = frame(op->y) * FRAMES;
    float *y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    const float d = 8 * (float) op->y.c * 0x1p-24f + 0x1p-21f;
    const float half = op->type == VAE_TYPE_BF16 ? 2 * 0x1p-9f : 0;
    for (size_t i = 0; i < n; i++)
        y[i] = 2 * d + half;
    return y;
}

static void
check_attentions(VaeCheck *t, VaePrecision precision)
{
    static const int sizes[][3] = {{1, 1, 8},    {5, 7, 24},  {16, 16, 32},
                                   {13, 20, 96}, {17, 31, 3}, {6, 10, 384}};
    Backends b;
    if (!open_all(t, precision, &b))
        return;
    for (size_t i = 0; i < VAE_COUNT(sizes); i++) {
        const int h = sizes[i][0], w = sizes[i][1], c = sizes[i][2];
        const VaeOneOp op = {.kind = VAE_OP_ATTENTION,
                             .type = vae_act_type(precision),
                             .x = {FRAMES, h, w, 3 * c},
                             .y = {FRAMES, h, w, c}};
        if (!vae_check_begin(t, "attention_%s_%dx%d_c%d",
                             vae_precision_name(precision), h, w, c))
            continue;
        float *x = vae_check_random(t, frame(op.x) * FRAMES, 0.5f);
        for (size_t j = 0; j < frame(op.x) * FRAMES; j++)
            x[j] = vae_from_bf16(vae_to_bf16(fminf(fmaxf(x[j], -1), 1)));
        const float *want = run_ref(t, &b, op, x, NULL);
        compare(t, &b, &op, (Input){x, NULL}, want, attention_bounds(t, &op));
    }
    close_all(&b);
}

/* A large attention does not run to its end first. */
static void
check_attention_cancelled(VaeCheck *t)
{
    const VaeOneOp op = {.kind = VAE_OP_ATTENTION,
                         .type = VAE_TYPE_F32,
                         .x = {FRAMES, 64, 128, 3 * 8},
                         .y = {FRAMES, 64, 128, 8}};
    Backends b;
    if (!vae_check_begin(t, "attention_cancelled") ||
        !open_all(t, VAE_PRECISION_FP32, &b))
        return;
    const float *x = vae_check_random(t, frame(op.x) * FRAMES, 0.5f);
    VaeWeightCache cache;
    vae_weight_cache_init(&cache);
    VaeRig *rig = vae_rig_new(t, &vae_backend_cpu, b.cpu[0], &cache, &op);
    /* On a busy machine the thread that cancels may come late. */
    bool ended = false;
    for (int i = 0; i < 5 && rig && !ended; i++)
        ended = vae_rig_cancel(rig, x);
    vae_check_that(t, ended, "no cancelled attention goes on to its last row");
    vae_rig_free(&rig);
    vae_weight_cache_clear(&cache);
    close_all(&b);
}

static void
check_attention_fp32(VaeCheck *t)
{
    check_attentions(t, VAE_PRECISION_FP32);
}

static void
check_attention_bf16(VaeCheck *t)
{
    check_attentions(t, VAE_PRECISION_BF16);
}

/* A layer whose weights do not stay in the cache gets chunks of 52 tiles. With
 * fewer channels it would get chunks of 32. */
static void
check_chunks(VaeCheck *t)
{
    Backends b;
    if (!vae_check_begin(t, "chunks_of_c256") ||
        !open_all(t, VAE_PRECISION_FP32, &b))
        return;
    enum { C = 256 };
    const VaeOneOp op = {.kind = VAE_OP_CONV,
                         .x = {3, 32, 52, C},
                         .y = {1, 32, 52, C},
                         .k = 3,
                         .kt = 3,
                         .s = 1,
                         .st = 1,
                         .pad = 1,
                         .tiles = 1,
                         .weight = vae_check_random(t, C * C * 27, 1)};
    VaeRig *plan = vae_rig_new(t, &vae_backend_cpu, b.cpu[0], NULL, &op);
    const size_t tile = 4 * sizeof(float) * (3 * C + C);
    if (plan)
        vae_check_that(t, vae_rig_scratch(plan) >= 52 * tile,
                       "the scratch memory is less than that of 52 tiles");
    vae_rig_free(&plan);
    close_all(&b);
}

/* ------------------------------------------------------------------ */

/* Planned sizes equal those of a prepared op. A primitive for another number of
 * frames uses the same weights. */
static void
check_plan_of(VaeCheck *t, bool up, bool tiles)
{
    Backends b;
    if (!vae_check_begin(t, up      ? "plan_up"
                            : tiles ? "plan_tiles"
                                    : "plan") ||
        !open_all(t, VAE_PRECISION_FP32, &b))
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
                       "the planned scratch is not the real one");
        vae_check_that(t,
                       vae_rig_weight_bytes(plan) == vae_rig_weight_bytes(real),
                       "the planned weights are not the real ones");
        vae_check_that(t,
                       vae_rig_weight_bytes(real) >= 4 * (8 * 16 *
                                                              (up      ? 16u
                                                               : tiles ? 48u
                                                                       : 27u) +
                                                          8),
                       "fewer bytes than weights");
        vae_check_that(t, vae_rig_cached(&cache) == parts(&op) + 1,
                       "the weights are kept more than once");
    }
    vae_rig_free(&plan);
    vae_rig_free(&real);
    vae_rig_free(&more);
    vae_weight_cache_clear(&cache);
    close_all(&b);
}

static void
check_plan(VaeCheck *t)
{
    check_plan_of(t, false, false);
    check_plan_of(t, true, false);
    check_plan_of(t, false, true);
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

VAE_CHECK_MAIN(check_precision, check_plan, check_conv_fp32, check_conv_bf16,
               check_up_fp32, check_up_bf16, check_tiles, check_inner_tiles,
               check_chunks, check_attention_fp32, check_attention_bf16,
               check_attention_cancelled)
