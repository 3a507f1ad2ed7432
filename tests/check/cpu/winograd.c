/*
 * winograd.c: compares convolutions in Winograd tiles of the cpu backend with
 * the ref backend. Tests their chunks.
 */
#include "backends.h"

/* The two of four values that each result of a transform reads. */
static const int of_two[4][2] = {{0, 2}, {1, 2}, {1, 2}, {1, 3}};

/* Adds bounds of the transformed 4x4 tile of x for one channel of one frame to
 * v. row and column: the tile's first pixel. */
static void
tile_sizes(float v[16], const float *x, VaeShape s, int row, int column)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 4; k++) {
            const int r = row + of_two[i / 4][k / 2];
            const int q = column + of_two[i % 4][k % 2];
            if (r >= 0 && r < s.h && q >= 0 && q < s.w)
                v[i] += fabsf(x[((size_t) r * s.w + q) * s.c]);
        }
}

/* Bounds of the transformed kernel g of kt 3x3 taps. That of one is the first
 * of four times. */
static void
kernel_sizes(float u[64], const float *g, int kt)
{
    static const float of[4][3] = {
        {1, 0, 0}, {.5f, .5f, .5f}, {.5f, .5f, .5f}, {0, 0, 1}};
    for (int i = 0; i < 64; i++) {
        u[i] = 0;
        for (int k = 0; k < 9 * kt; k++)
            u[i] += of[i / 16][k / 9] * of[i / 4 % 4][k / 3 % 3] *
                    of[i % 4][k % 3] * fabsf(g[k]);
    }
}

/* Adds the bounds of all products of tile (row, column) to y, by pixel and
 * channel. x: the first frame that the pair reads; second: the result is its
 * second frame; u: the bounds of all kernels. */
static void
tile_sums(float *y, VaeOneOp op, const float *u, const float *x, int second,
          int row, int column)
{
    for (int c = 0; c < op.x.c; c++)
        for (int t = second; t < second + op.kt; t++) {
            float v[16] = {0};
            for (int f = 0; f < (op.kt == 1 ? 1 : 2); f++)
                tile_sizes(v,
                           x + vae_frame_size(op.x) * (size_t) of_two[t][f] + c,
                           op.x, 2 * row - op.pad, 2 * column - op.pad);
            for (int o = 0; o < op.y.c; o++)
                for (int i = 0; i < 16; i++) {
                    const float m =
                        v[i] * u[(o * (size_t) op.x.c + c) * 64 + 16 * t + i];
                    for (int k = 0; k < 4; k++)
                        if (i / 4 != 3 - 3 * (k / 2) &&
                            i % 4 != 3 - 3 * (k % 2))
                            y[k * op.y.c + o] += m;
                }
        }
}

/* Like conv_bounds(), for Winograd tiles. They add products of sums of pixels
 * and sums of taps, whose absolute values do not cancel. */
static float *
tile_bounds(VaeCheck *t, VaeOneOp op, const float *x, const float *add)
{
    const size_t kernels = (size_t) op.y.c * op.x.c, n = vae_frame_size(op.y);
    float *u = vae_check_buffer(t, kernels * 64 * sizeof *u, sizeof *u);
    float *bounds = vae_check_buffer(t, n * VAE_FRAMES * sizeof *u, sizeof *u);
    float *sums = vae_check_buffer(t, 4 * (size_t) op.y.c * sizeof *u, 4);
    for (size_t k = 0; k < kernels; k++)
        kernel_sizes(u + 64 * k, op.weight + 9 * (size_t) op.kt * k, op.kt);
    const int across = (op.y.w + 1) / 2, tiles = across * ((op.y.h + 1) / 2);
    for (int i = 0; i < VAE_FRAMES * tiles; i++) {
        const int f = i / tiles, row = i % tiles / across;
        const int column = i % across;
        const int second = op.kt == 1 ? 0 : f % op.tiles % 2;
        memset(sums, 0, 4 * (size_t) op.y.c * sizeof *sums);
        tile_sums(sums, op, u, x + vae_frame_size(op.x) * (size_t) (f - second),
                  second, row, column);
        for (int k = 0; k < 4 * op.y.c; k++) {
            const int r = 2 * row + k / op.y.c / 2, o = k % op.y.c;
            const int q = 2 * column + k / op.y.c % 2;
            const size_t at =
                n * (size_t) f + ((size_t) r * op.y.w + q) * op.y.c + o;
            if (r < op.y.h && q < op.y.w)
                bounds[at] = 8 * sqrtf((float) op.x.c * 9 * (float) op.kt + 2) *
                             0x1p-24f *
                             (sums[k] + (op.bias ? fabsf(op.bias[o]) : 0) +
                              (add ? fabsf(add[at]) : 0));
        }
    }
    return bounds;
}

/* Runs the clip in steps of op.tiles frames. */
static void
check_one_tiles(VaeCheck *t, const VaeBackends *b, VaeOneOp op)
{
    if (!vae_check_begin(t, "tiles_of_%d_%dx%d_c%d_%d_t%d%s%s%s", op.tiles,
                         op.x.w, op.x.h, op.x.c, op.y.c, op.kt,
                         op.pad ? "" : "_inner", op.add ? "_add" : "",
                         op.relu ? "_relu" : ""))
        return;
    op.y.h = op.x.h - 2 + 2 * op.pad;
    op.y.w = op.x.w - 2 + 2 * op.pad;
    op.y.t = VAE_FRAMES;
    op.x.t = VAE_FRAMES + op.kt - 1;
    op.weight = vae_check_random(t, (size_t) op.y.c * op.x.c * 9 * op.kt, 1);
    const float *bias = vae_check_random(t, (size_t) op.y.c, 1);
    op.bias = vae_check_range(t, 0, 3) ? bias : NULL;
    const float *x =
        vae_check_random(t, vae_frame_size(op.x) * (size_t) op.x.t, 1);
    const float *add =
        op.add ? vae_check_random(t, vae_frame_size(op.y) * VAE_FRAMES, 1)
               : NULL;
    VaeOneOp plain = op;
    plain.tiles = 0;
    const float *want = vae_backends_ref(t, b, plain, x, add);
    vae_backends_compare(t, b, &op, (VaeOneInput){x, add}, want,
                         tile_bounds(t, op, x, add));
}

/* The first SMALL cases are small. Then come pictures with several chunks, one
 * above the other and side by side, and cases with many channels. The last
 * case has one chunk of 45 tiles. */
static void
check_tiles_with(VaeCheck *t, int kt, int pad)
{
    static const int cases[][4] = {
        {1, 1, 8, 8},     {1, 9, 3, 33},    {7, 1, 40, 3},   {5, 3, 32, 32},
        {17, 11, 1, 5},   {26, 15, 48, 64}, {64, 41, 96, 8}, {150, 5, 96, 40},
        {9, 5, 256, 200}, {18, 9, 256, 176}};
    enum { SMALL = 6 };
    VaeBackends b;
    if (!vae_backends_open(t, VAE_PRECISION_FP32, &b))
        return;
    for (size_t i = 0; i < VAE_COUNT(cases); i++)
        for (int frames = 1; frames <= VAE_FRAMES; frames++)
            if (VAE_FRAMES % frames == 0 &&
                (frames == 3 || (pad && i < SMALL)) &&
                (pad || (cases[i][0] > 2 && cases[i][1] > 2)))
                check_one_tiles(t, &b,
                                (VaeOneOp){.kind = VAE_OP_CONV,
                                           .type = VAE_TYPE_F32,
                                           .x = {.w = cases[i][0],
                                                 .h = cases[i][1],
                                                 .c = cases[i][2]},
                                           .y = {.c = cases[i][3]},
                                           .k = 3,
                                           .kt = kt,
                                           .s = 1,
                                           .st = 1,
                                           .pad = pad,
                                           .tiles = frames,
                                           .add = vae_check_range(t, 0, 1),
                                           .relu = vae_check_range(t, 0, 1)});
    vae_backends_close(&b);
}

static void
check_tiles(VaeCheck *t)
{
    check_tiles_with(t, 3, 1);
    check_tiles_with(t, 1, 1);
}

/* The input contains the border of the picture. */
static void
check_inner_tiles(VaeCheck *t)
{
    check_tiles_with(t, 3, 0);
    check_tiles_with(t, 1, 0);
}

/* A layer whose weights do not stay in the cache gets chunks of 52 tiles. With
 * fewer channels it would get chunks of 32. */
static void
check_chunks(VaeCheck *t)
{
    VaeBackends b;
    if (!vae_check_begin(t, "chunks_of_c256") ||
        !vae_backends_open(t, VAE_PRECISION_FP32, &b))
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
    const size_t tile = 16 * sizeof(float) * (C + C);
    if (plan)
        vae_check_that(t, vae_rig_scratch(plan) >= 52 * tile,
                       "the scratch memory is less than that of 52 tiles");
    vae_rig_free(&plan);
    vae_backends_close(&b);
}

VAE_CHECK_MAIN(check_tiles, check_inner_tiles, check_chunks)
