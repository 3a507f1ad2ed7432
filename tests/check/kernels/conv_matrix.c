/*
 * conv_matrix.c: compares the convolution on the matrix units with the
 * reference.
 */

#include "../check.h"

/* Input and result have h x w pixels. past: the context is in a separate
 * buffer. add: the kernel adds its result to the numbers in the buffer. */
typedef struct Case {
    int c_in, c_out, k, kt, t, h, w;
    bool past, add, relu;
    int pad_y, pad_x;
} Case;

/* The arguments of a convolution in F32 for the reference, and those of the
 * same convolution for the kernel. */
typedef struct Both {
    VaeConvArgs wide;
    VaeConvMatrixArgs args;
    const float *x, *add, *bias;
    size_t n_y;
} Both;

/* Returns multiples of 1/8 from -1 to 1: products and sums are exact in F32. */
static float *
exact_numbers(VaeCheck *t, size_t n)
{
    float *x = vae_check_buffer(t, n * sizeof *x, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float) vae_check_range(t, -8, 8) / 8;
    return x;
}

/* Returns floats that `type` represents exactly. */
static float *
numbers(VaeCheck *t, size_t n, VaeType type, bool exact)
{
    if (exact)
        return exact_numbers(t, n);
    const float *x = vae_check_random(t, n, 1);
    return vae_check_widen(t, vae_check_narrow(t, x, n, type, 0), n, type);
}

/* Reorders [taps][in][out] to [out][taps][in]. */
static float *
reorder(VaeCheck *t, const float *w, size_t rows, size_t out)
{
    float *r = vae_check_buffer(t, rows * out * sizeof *r, sizeof *r);
    for (size_t i = 0; i < rows; i++)
        for (size_t o = 0; o < out; o++)
            r[o * rows + i] = w[i * out + o];
    return r;
}

static Both
make(VaeCheck *t, const Case *c, VaeType type, bool exact)
{
    const size_t frame = (size_t) c->h * c->w * c->c_in;
    const size_t rows = (size_t) c->kt * c->k * c->k * c->c_in;
    const size_t out = (size_t) c->c_out,
                 n_y = (size_t) c->t * c->h * c->w * out;
    const int frames = c->t + c->kt - 1;
    const float *weight = numbers(t, rows * out, type, exact);
    Both b = {.n_y = n_y,
              .x = numbers(t, (size_t) frames * frame, type, exact),
              .bias = numbers(t, out, type, exact),
              .add = c->add ? numbers(t, n_y, type, exact) : NULL};
    b.args = (VaeConvMatrixArgs){
        .x = vae_check_narrow(t, b.x, (size_t) frames * frame, type, 0),
        .weight = vae_check_narrow(t, reorder(t, weight, rows, out), rows * out,
                                   type, 0),
        .bias = vae_check_narrow(t, b.bias, out, type, 0),
        .type = type,
        .t = c->t,
        .h = c->h,
        .w = c->w,
        .c_in = c->c_in,
        .ho = c->h,
        .wo = c->w,
        .c_out = c->c_out,
        .k = c->k,
        .kt = c->kt,
        .pad_y = c->pad_y,
        .pad_x = c->pad_x,
        .relu = c->relu};
    b.wide = (VaeConvArgs){.x = b.x,
                           .add = b.add,
                           .weight = weight,
                           .bias = b.bias,
                           .t = c->t,
                           .h = c->h,
                           .w = c->w,
                           .c_in = c->c_in,
                           .ho = c->h,
                           .wo = c->w,
                           .c_out = c->c_out,
                           .k = c->k,
                           .kt = c->kt,
                           .s = 1,
                           .st = 1,
                           .pad_y = c->pad_y,
                           .pad_x = c->pad_x,
                           .relu = c->relu};
    if (c->past && c->kt > 1) { /* in separate guarded buffers */
        const size_t past = (size_t) (c->kt - 1) * frame;
        b.args.past_frames = c->kt - 1;
        b.args.past = vae_check_narrow(t, b.x, past, type, 0);
        b.args.x =
            vae_check_narrow(t, b.x + past, (size_t) c->t * frame, type, 0);
    }
    return b;
}

/* Runs the kernel. The buffer of the result first gets the numbers that are
 * added. */
static void *
compute(VaeCheck *t, const Both *b, VaeConvMatrixArgs a)
{
    const size_t n = (size_t) a.t * a.ho * a.wo * a.c_out;
    void *y = vae_check_buffer_at(t, n * 2, 0);
    if (b->add)
        memcpy(y, vae_check_narrow(t, b->add, n, a.type, 0), n * 2);
    a.y = y;
    a.add = b->add ? y : NULL;
    t->dut->conv_matrix(&t->queue, &a);
    return y;
}

static const char *
name_of(VaeType type)
{
    return type == VAE_TYPE_BF16 ? "bf16" : "f16";
}

/* All sums are exact, so the results must be equal to the bit. */
static void
one_case(VaeCheck *t, const Case *c, VaeType type, bool groups)
{
    if (!vae_check_begin(
            t, "conv_matrix_%s%s_%dto%d_%dx%dx%d_%dx%dx%d_p%d%d%s%s%s",
            groups ? "groups_" : "", name_of(type), c->c_in, c->c_out, c->kt,
            c->k, c->k, c->t, c->h, c->w, c->pad_y, c->pad_x,
            c->past ? "_past" : "", c->add ? "_add" : "",
            c->relu ? "_relu" : ""))
        return;
    Both b = make(t, c, type, true);
    b.args.warpgroups = groups;
    float *want = vae_check_buffer(t, b.n_y * sizeof *want, sizeof *want);
    b.wide.y = want;
    t->ref->conv(&t->queue, &b.wide);
    vae_check_equal(t, "y", compute(t, &b, b.args),
                    vae_check_narrow(t, want, b.n_y, type, 0), b.n_y * 2);
}

/* All instantiations of the kernel, channels that do not fill a tile, and sizes
 * near that of a tile. */
typedef void (*One)(VaeCheck *t, const Case *c, VaeType type, bool groups);

/* Runs n cases in both types; groups 2: also in groups of frames. */
static void
each(VaeCheck *t, const Case *cases, size_t n, One one, int groups)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < groups; k++) {
            one(t, &cases[i], VAE_TYPE_BF16, k);
            one(t, &cases[i], VAE_TYPE_F16, k);
        }
}

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
    each(t, cases, VAE_COUNT(cases), one_case, 2);
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
    each(t, cases, VAE_COUNT(cases), one_case, 1);
}

/* A frame alone and a strip of rows have the same bytes as the whole call, also
 * if sums are not exact. */
static void
parts(VaeCheck *t, int c_in, int w, bool groups)
{
    const Case c = {c_in, 96, 3, 3, 3, 18, w, true, false, false, 1, 1};
    if (!vae_check_begin(t, "conv_matrix%s_parts_%d", groups ? "_groups" : "",
                         c_in))
        return;
    Both b = make(t, &c, VAE_TYPE_BF16, false);
    b.args.warpgroups = groups;
    const size_t row = (size_t) c.w * c.c_in, frame = row * c.h;
    const size_t out_row = (size_t) c.w * c.c_out * 2;
    const uint8_t *all = compute(t, &b, b.args);
    const uint8_t *x =
        vae_check_narrow(t, b.x, (size_t) (c.t + 2) * frame, VAE_TYPE_BF16, 0);
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
    strip.x = vae_check_narrow(t, rows, 3 * 7 * row, VAE_TYPE_BF16, 0);
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
    parts(t, 40, 5, false);
    parts(t, 40, 5, true);
    parts(t, 3, 24, false);
}

static const float *
factors(VaeCheck *t, size_t n)
{
    return vae_check_narrow(t, vae_check_random(t, n, 1), n, VAE_TYPE_F32, 0);
}

/* The convolution also computes the norm of its result, and stores it with the
 * result or alone. The norm has the bits of the kernel for norms. */
static void
one_norm(VaeCheck *t, const Case *c, VaeType type, bool groups)
{
    if (!vae_conv_matrix_can_norm(c->c_out, groups) ||
        !vae_check_begin(t, "conv_matrix_norm_%s%s_%dto%d_%dx%dx%d%s",
                         groups ? "groups_" : "", name_of(type), c->c_in,
                         c->c_out, c->t, c->h, c->w, c->relu ? "" : "_silu"))
        return;
    Both b = make(t, c, type, false);
    b.args.warpgroups = groups;
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
        for (int groups = 0; groups < (cases[i].c_in == 3 ? 1 : 2); groups++)
            one_norm(t, &cases[i], i % 2 ? VAE_TYPE_F16 : VAE_TYPE_BF16,
                     groups);
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
joined(VaeCheck *t, const Case *c, VaeType type, bool groups)
{
    if (!vae_check_begin(t, "conv_matrix_joined_%s%s_%dto%d_%dx%dx%d",
                         groups ? "groups_" : "", name_of(type), c->c_in,
                         c->c_out, c->t, c->h, c->w))
        return;
    Both b = make(t, c, type, false);
    const size_t n = (size_t) 4 * c->c_in * c->c_out;
    const uint8_t *weight =
        vae_check_narrow(t, numbers(t, 4 * n, type, false), 4 * n, type, 0);
    VaeConvMatrixArgs all = b.args;
    all.weight = weight;
    all.phase_weights = n;
    all.y = vae_check_buffer_at(t, 4 * b.n_y * 2, 0);
    all.joined = all.up = true;
    all.pad_y = all.pad_x = 1;
    all.warpgroups = groups;
    t->dut->conv_matrix(&t->queue, &all);
    void *y = vae_check_buffer_at(t, 4 * b.n_y * 2, 0);
    for (int i = 0; i < 4; i++) {
        VaeConvMatrixArgs a = b.args;
        a.weight = weight + i * n * 2;
        a.pad_y = 1 - i / 2;
        a.pad_x = 1 - i % 2;
        a.warpgroups = groups;
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
    each(t, cases, VAE_COUNT(cases), joined, 2);
}

/* ------------------------------------------------------------------ */
/* The kernel for results of three channels. */

/* Sums are exact, so results equal the reference in both types of y. */
static void
one_head(VaeCheck *t, const Case *c, VaeType type)
{
    if (!vae_check_begin(t, "conv_matrix_head_%s_%d_%dx3x3_%dx%dx%d_p%d%d%s",
                         name_of(type), c->c_in, c->kt, c->t, c->h, c->w,
                         c->pad_y, c->pad_x, c->past ? "_past" : ""))
        return;
    Both b = make(t, c, type, true);
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
one_head_norm(VaeCheck *t, const Case *c, VaeType type)
{
    if (!vae_check_begin(t, "conv_matrix_head_norm_%s_%d_%dx3x3_%dx%dx%d%s",
                         name_of(type), c->c_in, c->kt, c->t, c->h, c->w,
                         c->relu ? "" : "_silu"))
        return;
    Case plain = *c;
    plain.relu = false;
    Both b = make(t, &plain, type, false);
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
        one_head(t, &cases[i], VAE_TYPE_BF16);
        one_head(t, &cases[i], VAE_TYPE_F16);
    }
    for (size_t i = 0; i < VAE_COUNT(norms); i++)
        one_head_norm(t, &norms[i], i % 2 ? VAE_TYPE_F16 : VAE_TYPE_BF16);
}

VAE_CHECK_MAIN(check_shapes, check_picture, check_parts, check_norm,
               check_joined, check_head)
