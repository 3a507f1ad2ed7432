/*
 * types.c: the cuda table accepts every type at every address.
 *
 * Other checks compare each kernel in F32, at aligned addresses, with the
 * reference. Here every pair of types, at multiples of 16 bytes and at other
 * addresses, must give the rounded F32 result, to the bit.
 */

#include "../check.h"
#include "vae-private/frames.h"

static const VaeType types[] = {VAE_TYPE_F32, VAE_TYPE_F16, VAE_TYPE_BF16};

/* One kernel: its input and output, and its other arguments. */
typedef struct Subject {
    void (*call)(VaeCheck *t, const struct Subject *s, void *y, VaeType y_type,
                 const void *x, VaeType x_type);
    const void *args; /* arguments of the kernel */
    const float *main_path;
    size_t in, out; /* elements */
    bool own_sums;  /* 16-bit types are summed in another order */
    bool silu;      /* results in 16 bits are less exact */
    bool aligned;   /* another subject runs the same kernels at odd addresses */
} Subject;

static void
one_pair(VaeCheck *t, const Subject *s, const float *x, VaeType x_type,
         const float *wide, VaeType y_type)
{
    const size_t bytes = s->out * vae_check_size(y_type);
    const void *want = vae_check_narrow(t, wide, s->out, y_type, 0);
    for (int beside = 0; beside < (s->aligned ? 1 : 4); beside++) {
        const size_t x_past = beside & 1 ? vae_check_size(x_type) : 0;
        const size_t y_past = beside & 2 ? vae_check_size(y_type) : 0;
        const void *from = vae_check_narrow(t, x, s->in, x_type, x_past);
        void *y = vae_check_buffer_at(t, bytes, y_past);
        char what[64];
        snprintf(what, sizeof what, "type %d to %d, %zu and %zu bytes off",
                 x_type, y_type, x_past, y_past);
        s->call(t, s, y, y_type, from, x_type);
        if (s->silu && y_type != VAE_TYPE_F32 && !beside)
            want = vae_check_silu(t, y, wide, s->out, y_type);
        vae_check_equal(t, what, y, want, bytes);
    }
}

static void
all_pairs(VaeCheck *t, const Subject *s)
{
    const float *x = vae_check_random(t, s->in, 2);
    for (size_t i = 0; i < VAE_COUNT(types); i++) {
        const void *from = vae_check_narrow(t, x, s->in, types[i], 0);
        float *wide = vae_check_buffer_at(t, s->out * sizeof *wide, 0);
        const float *as_float = vae_check_widen(t, from, s->in, types[i]);
        if (s->own_sums)
            s->call(t, s, wide, VAE_TYPE_F32, from, types[i]);
        else
            s->call(t, s, wide, VAE_TYPE_F32, as_float, VAE_TYPE_F32);
        for (size_t j = 0; j < VAE_COUNT(types); j++)
            one_pair(t, s, x, types[i], wide, types[j]);
    }
}

/* CALL(op, Args, y, x) { ... } defines call_op() for a kernel whose arguments
 * name the result y and the input x. The body sets the other fields of `a`. */
#define CALL(op, Args, out, in)                                                \
    static void set_##op(VaeCheck *t, const Subject *s, Args *a);              \
    static void call_##op(VaeCheck *t, const Subject *s, void *y,              \
                          VaeType y_type, const void *x, VaeType x_type)       \
    {                                                                          \
        Args a = *(const Args *) s->args;                                      \
        a.out = y;                                                             \
        a.in = x;                                                              \
        a.out##_type = y_type;                                                 \
        a.in##_type = x_type;                                                  \
        set_##op(t, s, &a);                                                    \
        t->dut->op(&t->queue, &a);                                             \
    }                                                                          \
    static void set_##op(VaeCheck *t, const Subject *s, Args *a)

/* ------------------------------------------------------------- norms */

CALL(norm, VaeNormArgs, y, x)
{
    if (a->kind == VAE_NORM_GROUP)
        a->sums = vae_check_norm_sums(t, a);
}

/* Tests all numbers of octets that a lane may have, and rows that do not fit in
 * registers. */
static void
check_norm(VaeCheck *t)
{
    static const int sizes[][2] = {{8, 0},   {96, 0},   {160, 0},  {192, 0},
                                   {256, 0}, {384, 0},  {37, 0},   {1288, 0},
                                   {24, 3},  {128, 32}, {2056, 8}, {12, 4}};
    for (size_t i = 0; i < VAE_COUNT(sizes); i++) {
        const int c = sizes[i][0], groups = sizes[i][1];
        if (!vae_check_begin(t, "types_%s_c%d", groups ? "group" : "rms", c))
            continue;
        VaeNormArgs a = {.kind = groups ? VAE_NORM_GROUP : VAE_NORM_RMS,
                         .t = 2,
                         .h = 3,
                         .w = 7,
                         .c = c,
                         .groups = groups,
                         .eps = 1e-6f,
                         .gain = vae_check_random(t, c, 1),
                         .offset = vae_check_random(t, c, 1),
                         .silu = true};
        const size_t n = (size_t) 2 * 3 * 7 * c;
        all_pairs(t,
                  &(Subject){call_norm, &a, .in = n, .out = n, .silu = true});
        if (groups)
            continue;
        const Subject plain = {call_norm, &a,           .in = n,
                               .out = n,  .silu = true, .aligned = true};
        a.gain = NULL;
        a.eps = 1e-8f;
        all_pairs(t, &plain);
        a.offset = NULL;
        all_pairs(t, &plain);
    }
}

/* --------------------------------------------------- moving and adding */

CALL(rearrange, VaeRearrangeArgs, y, x)
{
}

static void
check_rearrange(VaeCheck *t)
{
    const int kinds = VAE_UNFOLD_CRQ + 1;
    for (int i = 0; i < 2 * kinds; i++) {
        const int kind = i % kinds, c = i / kinds ? 16 : 12;
        if (!vae_check_begin(t, "types_rearrange_%d_c%d", kind, c))
            continue;
        const bool nearest = vae_rearrange_is_nearest(kind);
        const int parts = kind == VAE_NEAREST ? 1 : 2;
        const bool flat = kind >= VAE_JOIN_PHASES;
        const VaeRearrangeArgs a = {.kind = (VaeRearrange) kind,
                                    .t = 2,
                                    .h = 4,
                                    .w = 6,
                                    .c = c,
                                    .ft = flat ? 1 : 2,
                                    .fs = 2,
                                    .phase = (size_t) 2 * 4 * 6 * c,
                                    .rows = 6,
                                    .top = 1};
        const size_t sites = 2 * 4 * 6;
        const size_t deep = (size_t) c * (nearest ? parts : flat ? 4 : 8);
        const size_t in =
            vae_rearrange_is_fold(a.kind) ? sites * c / 4 : sites * deep;
        const size_t out = nearest ? sites * 8 * c : in;
        all_pairs(t, &(Subject){call_rearrange, &a, .in = in, .out = out});
    }
}

static void
call_pointwise(VaeCheck *t, const Subject *s, void *y, VaeType y_type,
               const void *x, VaeType x_type)
{
    const VaeCastArgs cast = {y, x, x_type, y_type, s->in};
    const VaeClampArgs clamp = {y, x, x_type, y_type, s->in};
    if (s->args)
        t->dut->clamp(&t->queue, &clamp);
    else
        t->dut->cast(&t->queue, &cast);
}

static void
check_pointwise(VaeCheck *t)
{
    static const size_t sizes[] = {3, 16, 4099};
    for (size_t i = 0; i < 2 * VAE_COUNT(sizes); i++) {
        const size_t n = sizes[i / 2];
        if (vae_check_begin(t, "types_%s_%zu", i % 2 ? "clamp" : "cast", n))
            all_pairs(t, &(Subject){call_pointwise, i % 2 ? types : NULL,
                                    .in = n, .out = n});
    }
}

CALL(shortcut, VaeShortcutArgs, y, x)
{
    memcpy(a->y, vae_check_narrow(t, s->main_path, s->out, a->y_type, 0),
           s->out * vae_check_size(a->y_type));
}

static void
check_shortcut(VaeCheck *t)
{
    static const VaeShortcutArgs cases[] = {
        {VAE_SHORTCUT_DUP, .t = 3, .h = 3, .w = 2, .cx = 16, .cy = 16, .ft = 2,
         .fs = 2},
        {VAE_SHORTCUT_DUP, .t = 2, .h = 3, .w = 2, .cx = 32, .cy = 16, .ft = 1,
         .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 2, .h = 4, .w = 6, .cx = 8, .cy = 16,
         .ft = 2, .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 2, .h = 4, .w = 6, .cx = 16, .cy = 16,
         .ft = 1, .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 2, .h = 3, .w = 5, .cx = 24, .cy = 24,
         .ft = 1, .fs = 1},
        {VAE_SHORTCUT_DUP, .t = 2, .h = 3, .w = 2, .cx = 16, .cy = 8, .ft = 2,
         .fs = 2, .channels_fast = true},
        {VAE_SHORTCUT_AVERAGE, .t = 2, .h = 4, .w = 6, .cx = 8, .cy = 16,
         .ft = 2, .fs = 2, .channels_fast = true},
        {VAE_SHORTCUT_TILE, .t = 2, .h = 3, .w = 2, .cx = 8, .cy = 32, .ft = 1,
         .fs = 1}};
    for (size_t i = 0; i < VAE_COUNT(cases); i++) {
        const VaeShortcutArgs *a = &cases[i];
        const bool dup = a->kind != VAE_SHORTCUT_AVERAGE;
        const size_t sites = (size_t) a->t * a->h * a->w;
        const size_t block = (size_t) a->ft * a->fs * a->fs;
        const size_t out = (dup ? sites * block : sites / block) * a->cy;
        if (!vae_check_begin(t, "types_shortcut_%zu", i))
            continue;
        float *main_path = vae_check_random(t, out, 0);
        for (size_t j = 0; j < out; j++) /* these are exact in every type */
            main_path[j] = (float) vae_check_range(t, -100, 100);
        all_pairs(t, &(Subject){call_shortcut, a, main_path, sites * a->cx, out,
                                false});
    }
}

CALL(depthwise, VaeDepthwiseArgs, y, x)
{
}

static void
check_depthwise(VaeCheck *t)
{
    for (int n = 5; n <= 24; n += 19) {
        if (!vae_check_begin(t, "types_depthwise_%d", n))
            continue;
        const VaeDepthwiseArgs a = {
            .weight =
                vae_check_narrow(t, vae_check_random(t, (size_t) 98 * n, 1),
                                 (size_t) 98 * n, VAE_TYPE_F32, 0),
            .t = 2,
            .h = 3,
            .w = 9,
            .n = n};
        all_pairs(t, &(Subject){call_depthwise, &a, .in = (size_t) 3 * 27 * n,
                                .out = (size_t) 2 * 27 * 2 * n});
    }
}

CALL(glu, VaeGluArgs, y, x)
{
}

static void
check_glu(VaeCheck *t)
{
    enum { ROWS = 9 };
    for (int c = 20; c <= 40; c += 20) {
        const VaeGluArgs a = {.rows = ROWS, .c = c};
        if (vae_check_begin(t, "types_glu_%d", c))
            all_pairs(t, &(Subject){call_glu, &a, .in = (size_t) ROWS * 2 * c,
                                    .out = (size_t) ROWS * c, .silu = true});
    }
}

static void
call_attention(VaeCheck *t, const Subject *s, void *y, VaeType y_type,
               const void *x, VaeType x_type)
{
    VaeAttentionArgs a = *(const VaeAttentionArgs *) s->args;
    a.y = y;
    a.qkv = x;
    a.x_type = x_type;
    a.y_type = y_type;
    t->dut->attention(&t->queue, &a);
}

static void
check_attention(VaeCheck *t)
{
    for (int c = 20; c <= 40; c += 20) {
        if (!vae_check_begin(t, "types_attention_%d", c))
            continue;
        const VaeAttentionArgs a = {.t = 2, .n = 19, .c = c};
        all_pairs(t,
                  &(Subject){call_attention, &a, .in = (size_t) 2 * 19 * 3 * c,
                             .out = (size_t) 2 * 19 * c, .own_sums = true});
    }
}

/* ----------------------------------------------- latents and pictures */

CALL(latent_in, VaeLatentInArgs, y, src)
{
    a->nonfinite = vae_check_counter(t, 0);
}

CALL(latent_out, VaeLatentOutArgs, dst, x)
{
    a->nonfinite = vae_check_counter(t, 0);
}

static void
check_latents(VaeCheck *t)
{
    enum { H = 5, W = 7, C = 16, N = H * W * C };
    if (vae_check_begin(t, "types_latent_in")) {
        const VaeLatentInArgs a = {.scale = vae_check_random(t, C, 1),
                                   .shift = vae_check_random(t, C, 1),
                                   .h = H,
                                   .w = W,
                                   .c = C};
        all_pairs(t, &(Subject){call_latent_in, &a, .in = N, .out = N});
    }
    if (vae_check_begin(t, "types_latent_out")) {
        const VaeLatentOutArgs a = {.mean = vae_check_random(t, C, 1),
                                    .std = vae_check_random(t, C, 1),
                                    .normalise = true,
                                    .sample = true,
                                    .seed = 5,
                                    .index = 3,
                                    .h = H,
                                    .w = W,
                                    .c = C,
                                    .cx = 2 * C};
        all_pairs(t, &(Subject){call_latent_out, &a, .in = 2 * N, .out = N});
    }
}

enum { HIGH = 5, WIDE = 9, PIXELS = HIGH * WIDE, STRIDE = 40 };

/* Makes a picture in `bytes`, with at most 4 bytes for a pixel. */
static VaePicture
picture(VaePixels pixels, uint8_t *bytes)
{
    VaePicture p = {.pixels = pixels, .width = WIDE, .height = HIGH};
    for (int i = 0; i < 3; i++) {
        p.data[i] = bytes + i * HIGH * STRIDE;
        p.stride[i] = STRIDE;
    }
    return p;
}

/* Tests pixels of the network in every type, with three or eight elements each.
 */
static void
picture_case(VaeCheck *t, VaePixels pixels, VaeType type, int c)
{
    enum { BYTES = 3 * HIGH * STRIDE };
    uint8_t *in = vae_check_buffer_at(t, BYTES, 0);
    uint8_t *want = vae_check_buffer_at(t, BYTES, 0);
    uint8_t *got = vae_check_buffer_at(t, BYTES, 0);
    for (int i = 0; i < BYTES; i++)
        in[i] = (uint8_t) vae_check_bits(t);
    const VaePicture from = picture(pixels, in);
    const VaePicture to = picture(pixels, want), dut = picture(pixels, got);
    const size_t n = (size_t) PIXELS * c, size = vae_check_size(type);
    float *three = vae_check_buffer(t, PIXELS * 3 * 4, 4);
    float *all = vae_check_buffer(t, n * 4, 4);
    void *x = vae_check_buffer(t, n * size, size);
    memset(all, 0, n * 4);
    VaePictureInArgs a = {.y = three,
                          .y_type = VAE_TYPE_F32,
                          .picture = &from,
                          .h = HIGH,
                          .w = WIDE,
                          .low = -1,
                          .high = 1};
    t->ref->picture_in(&t->queue, &a);
    for (int i = 0; i < PIXELS * 3; i++)
        all[i / 3 * c + i % 3] = three[i];
    a.y = x;
    a.y_type = type;
    a.c = c;
    t->dut->picture_in(&t->queue, &a);
    vae_check_equal(t, "in", x, vae_check_narrow(t, all, n, type, 0), n * size);

    const float *rounded = vae_check_widen(t, x, n, type);
    for (int i = 0; i < PIXELS * 3; i++)
        three[i] = rounded[i / 3 * c + i % 3];
    VaePictureOutArgs b = {.picture = &to,
                           .x = three,
                           .h = HIGH,
                           .w = WIDE,
                           .low = -1,
                           .high = 1,
                           .x_type = VAE_TYPE_F32};
    t->ref->picture_out(&t->queue, &b);
    b.picture = &dut;
    b.x = x;
    b.x_type = type;
    b.c = c;
    t->dut->picture_out(&t->queue, &b);
    vae_check_equal(t, "out", got, want, BYTES);
}

static void
check_pictures(VaeCheck *t)
{
    for (int pixels = VAE_PIXELS_RGB; pixels < VAE_PIXELS_KINDS; pixels++)
        for (size_t i = 0; i < 2 * VAE_COUNT(types); i++)
            if (pixels != VAE_PIXELS_RGBA_F32 &&
                vae_check_begin(t, "types_picture_%d_type%d_c%d", pixels,
                                types[i / 2], i % 2 ? 8 : 3))
                picture_case(t, (VaePixels) pixels, types[i / 2],
                             i % 2 ? 8 : 3);
}

VAE_CHECK_MAIN(check_norm, check_rearrange, check_pointwise, check_shortcut,
               check_depthwise, check_attention, check_glu, check_latents,
               check_pictures)
