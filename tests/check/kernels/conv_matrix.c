/*
 * conv_matrix.c: compares the convolution on the matrix units with the
 * reference.
 */

#include "conv_cases.h"

/* All sums are exact, so the results must be equal to the bit. */
static void
one_case(VaeCheck *t, const Case *c, const Kind *kind)
{
    if (!vae_check_begin(t,
                         "conv_matrix_%s_%dto%d_%dx%dx%d_%dx%dx%d_p%d%d%s%s%s",
                         kind->name, c->c_in, c->c_out, c->kt, c->k, c->k, c->t,
                         c->h, c->w, c->pad_y, c->pad_x, c->past ? "_past" : "",
                         c->add ? "_add" : "", c->relu ? "_relu" : ""))
        return;
    Both b = make(t, c, kind, true);
    float *want = vae_check_buffer(t, b.n_y * sizeof *want, sizeof *want);
    b.wide.y = want;
    t->ref->conv(&t->queue, &b.wide);
    vae_check_equal(t, "y", compute(t, &b, b.args),
                    vae_check_narrow(t, want, b.n_y, kind->type, 0), b.n_y * 2);
}

typedef void (*One)(VaeCheck *t, const Case *c, const Kind *kind);

/* Runs n cases with the first kinds. */
static void
each(VaeCheck *t, const Case *cases, size_t n, One one, int some)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < some; k++)
            one(t, &cases[i], &kinds[k]);
}

/* All instantiations of the kernel, channels that do not fill a tile, and sizes
 * near that of a tile. */
static void
check_shapes(VaeCheck *t)
{
    static const Case cases[] = {
        {32, 96, 3, 3, 2, 17, 19, true, true, false, 1, 1},
        {32, 96, 3, 1, 1, 33, 5, false, false, false, 1, 1},
        {32, 128, 3, 3, 1, 16, 16, true, false, true, 1, 1},
        {8, 128, 3, 1, 1, 25, 3, false, false, false, 1, 1},
        {32, 192, 3, 3, 1, 9, 17, false, true, false, 1, 1},
        {32, 256, 3, 1, 2, 8, 5, false, true, true, 1, 1},
        {96, 96, 3, 1, 1, 5, 33, false, false, false, 1, 1},
        {24, 40, 3, 3, 4, 1, 1, true, false, false, 1, 1},
        {64, 384, 3, 1, 1, 3, 2, false, true, false, 1, 1},
        {88, 512, 3, 1, 1, 9, 5, false, true, false, 1, 1},
        {72, 96, 2, 1, 1, 7, 18, false, false, false, 0, 1},
        {88, 512, 2, 1, 1, 7, 3, false, false, false, 0, 1},
        {8, 100, 2, 2, 1, 4, 3, true, false, false, 1, 0},
    };
    each(t, cases, VAE_COUNT(cases), one_case, KINDS);
}

/* The same for the kernel that reads a picture. */
static void
check_picture(VaeCheck *t)
{
    static const Case cases[] = {
        {3, 96, 3, 3, 2, 17, 24, true, true, false, 1, 1},
        {3, 128, 3, 3, 4, 1, 8, true, false, false, 1, 1},
        {3, 64, 3, 1, 2, 18, 40, false, false, true, 1, 1},
        {3, 160, 3, 3, 1, 5, 16, false, true, true, 0, 1},
        {3, 20, 3, 2, 3, 16, 32, true, false, false, 1, 0},
    };
    each(t, cases, VAE_COUNT(cases), one_case, GROUPS_BF16);
}

/* A frame alone and a strip of rows have the same bytes as the whole call, also
 * if sums are not exact. */
static void
parts(VaeCheck *t, int c_in, int w, const Kind *kind)
{
    const Case c = {c_in, 96, 3, 3, 3, 18, w, true, false, false, 1, 1};
    const VaeType type = kind->type;
    if (!vae_check_begin(t, "conv_matrix_parts_%s_%d", kind->name, c_in))
        return;
    Both b = make(t, &c, kind, false);
    const size_t row = (size_t) c.w * c.c_in, frame = row * c.h;
    const size_t out_row = (size_t) c.w * c.c_out * 2;
    const uint8_t *all = compute(t, &b, b.args);
    const uint8_t *x =
        vae_check_narrow(t, b.x, (size_t) (c.t + 2) * frame, type, 0);
    for (int f = 0; f < c.t; f++) {
        VaeConvMatrixArgs one = b.args;
        one.t = 1;
        one.past = x + f * frame * 2;
        one.x = x + (f + 2) * frame * 2;
        vae_check_equal(t, "frame", compute(t, &b, one),
                        all + f * out_row * c.h, out_row * c.h);
    }
    /* rows 5 to 9 of the last frame */
    VaeConvMatrixArgs strip = b.args;
    float *rows = vae_check_buffer(t, 3 * 7 * row * sizeof *rows, 4);
    for (size_t f = 0; f < 3; f++)
        memcpy(rows + f * 7 * row, b.x + (f + 2) * frame + 4 * row,
               7 * row * sizeof *rows);
    strip.x = vae_check_narrow(t, rows, 3 * 7 * row, type, 0);
    strip.past_frames = strip.pad_y = 0;
    strip.t = 1;
    strip.h = 7;
    strip.ho = 5;
    vae_check_equal(t, "strip", compute(t, &b, strip),
                    all + (2 * c.h + 5) * out_row, 5 * out_row);
}

static void
check_parts(VaeCheck *t)
{
    parts(t, 40, 5, &kinds[BF16]);
    parts(t, 40, 5, &kinds[GROUPS_BF16]);
    parts(t, 40, 5, &kinds[HALF]);
    parts(t, 3, 24, &kinds[BF16]);
}

static const float *
factors(VaeCheck *t, size_t n)
{
    return vae_check_narrow(t, vae_check_random(t, n, 1), n, VAE_TYPE_F32, 0);
}

/* The convolution also computes the norm of its result, and stores it with the
 * result or alone. The norm has the bits of the kernel for norms. */
static void
one_norm(VaeCheck *t, const Case *c, const Kind *kind)
{
    const VaeType type = kind->type;
    if (!vae_conv_matrix_can_norm(c->c_out, kind->groups) ||
        !vae_check_begin(t, "conv_matrix_norm_%s_%dto%d_%dx%dx%d%s", kind->name,
                         c->c_in, c->c_out, c->t, c->h, c->w,
                         c->relu ? "" : "_silu"))
        return;
    Both b = make(t, c, kind, false);
    const size_t out = (size_t) c->c_out;
    VaeConvMatrixArgs a = b.args;
    void *y = compute(t, &b, a);
    void *want = vae_check_buffer_at(t, b.n_y * 2, 0);
    void *got = vae_check_buffer_at(t, b.n_y * 2, 0);
    void *alone = vae_check_buffer_at(t, b.n_y * 2, 0);
    VaeNormArgs norm = {.kind = VAE_NORM_RMS,
                        .y = want,
                        .x = y,
                        .gain = factors(t, out),
                        .offset = c->relu ? factors(t, out) : NULL,
                        .x_type = type,
                        .y_type = type,
                        .t = c->t,
                        .h = c->h,
                        .w = c->w,
                        .c = c->c_out,
                        .eps = c->relu ? 0.5f : 0,
                        .silu = !c->relu};
    t->dut->norm(&t->queue, &norm);
    a.norm = (VaeNormArgs){.y = got,
                           .gain = norm.gain,
                           .offset = norm.offset,
                           .eps = norm.eps,
                           .silu = norm.silu};
    vae_check_equal(t, "y", compute(t, &b, a), y, b.n_y * 2);
    vae_check_equal(t, "norm", got, want, b.n_y * 2);
    a.norm.y = alone;
    a.y = NULL;
    a.add = b.add ? vae_check_narrow(t, b.add, b.n_y, type, 0) : NULL;
    t->dut->conv_matrix(&t->queue, &a);
    vae_check_equal(t, "norm alone", alone, want, b.n_y * 2);
}

static void
check_norm(VaeCheck *t)
{
    static const Case cases[] = {
        {32, 96, 3, 1, 1, 5, 19, false, true, false, 1, 1},
        {88, 128, 3, 1, 2, 3, 4, false, false, true, 1, 1},
        {32, 192, 3, 1, 1, 9, 5, false, true, true, 1, 1},
        {88, 256, 3, 1, 1, 2, 17, false, true, false, 1, 1},
        {8, 40, 3, 1, 1, 4, 3, false, false, false, 1, 1},
        {32, 384, 3, 1, 1, 3, 9, false, true, false, 1, 1},
        {3, 96, 3, 3, 1, 5, 24, true, false, false, 1, 1},
        {3, 64, 3, 1, 2, 3, 8, false, false, true, 1, 1},
        {3, 128, 3, 3, 2, 17, 8, false, false, false, 1, 1},
    };
    for (size_t i = 0; i < VAE_COUNT(cases); i++)
        for (int k = 0; k < (cases[i].c_in == 3 ? GROUPS_BF16 : KINDS); k++)
            if (kinds[k].half_sums ||
                kinds[k].type == (i % 2 ? VAE_TYPE_F16 : VAE_TYPE_BF16))
                one_norm(t, &cases[i], &kinds[k]);
}

/* Makes some sums of F16 too large. Of some pixels, the first channel becomes
 * 16384 and another one its opposite. Both weights of a tap become 4 or 0. So
 * some products are too large for F16, and their sum is 0. */
static void
enlarge(const Case *c, const VaeConvMatrixArgs *a, uint16_t *weight,
        size_t taps)
{
    uint16_t *x = (uint16_t *) (uintptr_t) a->x;
    const int other = c->c_in / 2; /* in another product of matrices */
    for (int i = 0; i < c->t * c->h * c->w; i += 5) {
        x[i * c->c_in] = 0x7400;
        x[i * c->c_in + other] = 0xf400;
    }
    for (size_t i = 0; i < taps; i++) {
        uint16_t *tap = weight + i * (size_t) c->c_in;
        tap[0] = tap[other] = i % 7 ? 0 : 0x4400;
    }
}

/* Such sums give the results of sums of F32, and so does an infinite number. */
static void
too_large(VaeCheck *t, const Case *c)
{
    if (!vae_check_begin(t, "conv_matrix_half_too_large_%dto%d_%dx%d", c->c_in,
                         c->c_out, c->k, c->k))
        return;
    Both b = make(t, c, &kinds[HALF], true);
    enlarge(c, &b.args, (uint16_t *) (uintptr_t) b.args.weight,
            (size_t) (c->c_out * c->kt * c->k * c->k));
    ((uint16_t *) (uintptr_t) b.args.x)[c->c_in] = 0x7c00;
    VaeConvMatrixArgs usual = b.args;
    usual.half_sums = false;
    vae_check_equal(t, "y", compute(t, &b, b.args), compute(t, &b, usual),
                    b.n_y * 2);
}

static void
check_too_large(VaeCheck *t)
{
    static const Case cases[] = {
        {32, 96, 3, 3, 2, 5, 19, true, true, false, 1, 1},
        {64, 256, 3, 1, 1, 3, 4, false, false, true, 1, 1},
        {40, 100, 2, 1, 1, 4, 3, false, false, false, 1, 0},
    };
    for (size_t i = 0; i < VAE_COUNT(cases); i++)
        too_large(t, &cases[i]);
}

/* Returns the pixels of rows 2i + row and columns 2j + column of y as a
 * separate result. */
static uint16_t *
phase_of(VaeCheck *t, const Case *c, const uint16_t *y, int row, int column)
{
    const size_t out = (size_t) c->c_out;
    uint16_t *phase =
        vae_check_buffer(t, (size_t) c->t * c->h * c->w * out * 2, 2);
    for (int i = 0; i < c->t * c->h; i++)
        for (int j = 0; j < c->w; j++)
            memcpy(phase + ((size_t) i * c->w + j) * out,
                   y + ((size_t) (2 * i + row) * 2 * c->w + 2 * j + column) *
                           out,
                   out * 2);
    return phase;
}

/* Four results are joined in one picture of twice the size, by one call or by
 * four. */
static void
joined(VaeCheck *t, const Case *c, const Kind *kind)
{
    const VaeType type = kind->type;
    if (!vae_check_begin(t, "conv_matrix_joined_%s_%dto%d_%dx%dx%d", kind->name,
                         c->c_in, c->c_out, c->t, c->h, c->w))
        return;
    Both b = make(t, c, kind, false);
    const size_t n = (size_t) 4 * c->c_in * c->c_out;
    uint8_t *weight =
        vae_check_narrow(t, numbers(t, 4 * n, type, false), 4 * n, type, 0);
    if (kind->half_sums)
        enlarge(c, &b.args, (uint16_t *) (void *) weight,
                (size_t) (16 * c->c_out));
    VaeConvMatrixArgs all = b.args;
    all.weight = weight;
    all.phase_weights = n;
    all.y = vae_check_buffer_at(t, 4 * b.n_y * 2, 0);
    all.joined = all.up = true;
    all.pad_y = all.pad_x = 1;
    t->dut->conv_matrix(&t->queue, &all);
    void *y = vae_check_buffer_at(t, 4 * b.n_y * 2, 0);
    for (int i = 0; i < 4; i++) {
        VaeConvMatrixArgs a = b.args;
        a.weight = weight + i * n * 2;
        a.pad_y = 1 - i / 2;
        a.pad_x = 1 - i % 2;
        const void *alone = compute(t, &b, a);
        a.y = y;
        a.joined = true;
        a.row = i / 2;
        a.column = i % 2;
        t->dut->conv_matrix(&t->queue, &a);
        vae_check_equal(t, "by one call", phase_of(t, c, all.y, i / 2, i % 2),
                        alone, b.n_y * 2);
        vae_check_equal(t, i / 2 ? "odd rows" : "even rows",
                        phase_of(t, c, y, i / 2, i % 2), alone, b.n_y * 2);
    }
}

/* The numbers of channels use all instantiations for one call, and one that
 * computes only some of the channels. */
static void
check_joined(VaeCheck *t)
{
    static const Case cases[] = {
        {72, 96, 2, 1, 2, 9, 18, false, false, false, 0, 0},
        {32, 64, 2, 1, 1, 8, 16, false, false, true, 0, 0},
        {8, 20, 2, 1, 1, 3, 2, false, false, false, 0, 0},
    };
    each(t, cases, VAE_COUNT(cases), joined, KINDS);
}

/* ------------------------------------------------------------------ */
/* The kernel for results of three channels. */

/* Sums are exact, so results equal the reference in both types of y. */
static void
one_head(VaeCheck *t, const Case *c, const Kind *kind)
{
    const VaeType type = kind->type;
    if (!vae_check_begin(t, "conv_matrix_head_%s_%d_%dx3x3_%dx%dx%d_p%d%d%s",
                         kind->name, c->c_in, c->kt, c->t, c->h, c->w, c->pad_y,
                         c->pad_x, c->past ? "_past" : ""))
        return;
    Both b = make(t, c, kind, true);
    float *want = vae_check_buffer(t, b.n_y * sizeof *want, sizeof *want);
    b.wide.y = want;
    t->ref->conv(&t->queue, &b.wide);
    vae_check_equal(t, "y", compute(t, &b, b.args),
                    vae_check_narrow(t, want, b.n_y, type, 0), b.n_y * 2);
    b.args.wide = true;
    b.args.y = vae_check_buffer_at(t, b.n_y * 4, 0);
    t->dut->conv_matrix(&t->queue, &b.args);
    vae_check_equal(t, "wide y", b.args.y, want, b.n_y * 4);
}

/* The convolution computes the norm of its input. It has the bits of the kernel
 * for norms, also if the frames of context are normed already, and for a single
 * frame. */
static void
one_head_norm(VaeCheck *t, const Case *c, const Kind *kind)
{
    const VaeType type = kind->type;
    if (!vae_check_begin(t, "conv_matrix_head_norm_%s_%d_%dx3x3_%dx%dx%d%s",
                         kind->name, c->c_in, c->kt, c->t, c->h, c->w,
                         c->relu ? "" : "_silu"))
        return;
    Case plain = *c;
    plain.relu = false;
    Both b = make(t, &plain, kind, false);
    const size_t in = (size_t) c->c_in, frame = (size_t) c->h * c->w * in;
    const size_t n = (size_t) c->t * frame, y = b.n_y / (size_t) c->t;
    VaeConvMatrixArgs a = b.args;
    a.normed_frames = a.past_frames;
    VaeNormArgs norm = {.kind = VAE_NORM_RMS,
                        .y = vae_check_buffer_at(t, n * 2, 0),
                        .x = a.x,
                        .gain = factors(t, in),
                        .offset = c->relu ? factors(t, in) : NULL,
                        .x_type = type,
                        .y_type = type,
                        .t = c->t,
                        .h = c->h,
                        .w = c->w,
                        .c = c->c_in,
                        .eps = c->relu ? 0.5f : 0,
                        .silu = !c->relu};
    t->dut->norm(&t->queue, &norm);
    a.x = norm.y;
    const uint8_t *want = compute(t, &b, a);
    a.x = norm.x;
    a.front = (VaeNormArgs){.c = c->c_in,
                            .gain = norm.gain,
                            .offset = norm.offset,
                            .eps = norm.eps,
                            .silu = norm.silu};
    vae_check_equal(t, "y", compute(t, &b, a), want, b.n_y * 2);
    if (c->kt > 1) { /* the last frame, whose context is normed */
        a.past = (const uint8_t *) norm.y + (n - 3 * frame) * 2;
        a.past_frames = a.normed_frames = 2;
        a.x = (const uint8_t *) norm.x + (n - frame) * 2;
        a.t = 1;
        vae_check_equal(t, "frame", compute(t, &b, a),
                        want + (size_t) (c->t - 1) * y * 2, y * 2);
    }
}

static void
check_head(VaeCheck *t)
{
    static const Case cases[] = {
        {96, 3, 3, 3, 4, 9, 17, true, false, false, 1, 1},
        {128, 3, 3, 3, 1, 8, 16, true, false, false, 1, 1},
        {40, 3, 3, 3, 3, 3, 5, false, false, false, 0, 1},
        {64, 3, 3, 1, 2, 7, 18, false, false, false, 1, 1},
        {8, 3, 3, 2, 3, 1, 1, true, false, false, 1, 1},
        {160, 3, 3, 3, 3, 10, 3, true, false, false, 1, 1},
    };
    static const Case norms[] = {
        {96, 3, 3, 3, 4, 9, 17, true, false, false, 1, 1},
        {128, 3, 3, 3, 3, 4, 16, true, false, true, 1, 1},
        {40, 3, 3, 1, 2, 3, 5, false, false, true, 1, 1},
        {24, 3, 3, 3, 3, 2, 19, true, false, false, 1, 1},
    };
    for (size_t i = 0; i < VAE_COUNT(cases); i++) {
        one_head(t, &cases[i], &kinds[BF16]);
        one_head(t, &cases[i], &kinds[F16]);
    }
    for (size_t i = 0; i < VAE_COUNT(norms); i++)
        one_head_norm(t, &norms[i], &kinds[i % 2 ? F16 : BF16]);
}

VAE_CHECK_MAIN(check_shapes, check_picture, check_parts, check_norm,
               check_too_large, check_joined, check_head)
