/*
 * rearrange.c: compares rearrangements of numbered elements with their
 * definition, and tests conversions.
 *
 * The definition here starts from every element of x and computes its place in
 * y. The kernels start from y.
 */

#include "../check.h"
#include "number.h"

static int
phases(const VaeRearrangeArgs *a)
{
    return a->kind == VAE_NEAREST              ? 1
           : vae_rearrange_is_nearest(a->kind) ? a->ft
                                               : a->ft * a->fs * a->fs;
}

static size_t
in_count(const VaeRearrangeArgs *a)
{
    if (a->kind == VAE_JOIN_PHASES)
        return (size_t) (a->fs * a->fs) * a->phase;
    return (size_t) a->t * a->h * a->w * phases(a) * a->c;
}

static size_t
out_count(const VaeRearrangeArgs *a)
{
    if (vae_rearrange_is_border(a->kind))
        return (size_t) a->t * a->rows * (a->w + 2) * a->c;
    return (size_t) (a->t * a->ft - a->drop) * a->h * a->fs * a->w * a->fs *
           a->c;
}

/* Writes the places that row or column i of n has in the picture with a border,
 * with `front` of it in front and `all` in all. Returns their number. */
static int
repeats(const VaeRearrangeArgs *a, int i, int n, int front, int all,
        int places[3])
{
    const int past = a->kind == VAE_REFLECT;
    int found = 0;
    places[found++] = i + front;
    if (i == past && front)
        places[found++] = 0;
    if (i == n - 1 - past && all > n + front)
        places[found++] = n + front;
    return found;
}

static void
border_definition(const VaeRearrangeArgs *a, const float *x, float *y)
{
    int rows[3], columns[3];
    for (size_t i = 0; i < in_count(a); i++) {
        const size_t site = i / a->c, f = site / a->w / a->h;
        const int down =
            repeats(a, (int) (site / a->w % a->h), a->h, a->top, a->rows, rows);
        const int across =
            repeats(a, (int) (site % a->w), a->w, 1, a->w + 2, columns);
        for (int k = 0; k < down * across; k++) {
            const size_t row = f * a->rows + rows[k / across];
            const size_t at = row * (a->w + 2) + columns[k % across];
            y[at * a->c + i % a->c] = x[i];
        }
    }
}

/* Returns the channels of a pixel of y, or NULL if its frame is dropped. */
static float *
pixel(const VaeRearrangeArgs *a, float *y, int f, int row, int column)
{
    if (f == 1 && a->drop)
        return NULL;
    const size_t to = f > 1 ? f - a->drop : f;
    return y + ((to * a->h * a->fs + row) * a->w * a->fs + column) * a->c;
}

static void
put(float *to, int c, float v)
{
    if (to)
        to[c] = v;
}

/* x has elements behind the frames of each phase, which are not read. */
static void
joined(const VaeRearrangeArgs *a, const float *x, float *y)
{
    for (size_t i = 0; i < in_count(a); i++) {
        const int rq = (int) (i / a->phase);
        const size_t site = i % a->phase / (size_t) a->c;
        const int f = (int) (site / a->w / a->h);
        if (f < a->t)
            put(pixel(a, y, f, (int) (site / a->w % a->h) * a->fs + rq / a->fs,
                      (int) (site % a->w) * a->fs + rq % a->fs),
                (int) (i % a->phase % a->c), x[i]);
    }
}

/* Channel k of x is colour k % C of place k / C. */
static void
definition(const VaeRearrangeArgs *a, const float *x, float *y)
{
    const int n = phases(a), area = a->fs * a->fs;
    for (size_t i = 0; i < in_count(a); i++) {
        const int c = (int) (i % a->c), place = (int) (i / a->c % n);
        const size_t site = i / a->c / n;
        const int column = (int) (site % a->w);
        const int row = (int) (site / a->w % a->h);
        const int f = (int) (site / a->w / a->h);
        if (a->kind == VAE_SHUFFLE_RQTC) {
            const int z = place % a->ft, rq = place / a->ft;
            put(pixel(a, y, f * a->ft + z, row * a->fs + rq / a->fs,
                      column * a->fs + rq % a->fs),
                c, x[i]);
            continue;
        }
        if (a->kind == VAE_SHUFFLE_TRQC) {
            const int z = place / area, rq = place % area;
            put(pixel(a, y, f * a->ft + z, row * a->fs + rq / a->fs,
                      column * a->fs + rq % a->fs),
                c, x[i]);
            continue;
        }
        const int frames = a->kind == VAE_NEAREST ? a->ft : 1;
        for (int k = 0; k < frames * area; k++)
            put(pixel(a, y, f * a->ft + place + k / area,
                      row * a->fs + k % area / a->fs,
                      column * a->fs + k % a->fs),
                c, x[i]);
    }
}

static void
convert(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeRearrangeArgs a,
        const float *x, const float *want)
{
    const size_t n = out_count(&a);
    const uint16_t *half = vae_check_bf16(t, x, in_count(&a));
    float *y = vae_check_buffer(t, n * 4, 4);
    uint16_t *y16 = vae_check_buffer(t, n * 2, 2);
    a.x = x;
    a.y = y;
    k->rearrange(q, &a);
    vae_check_equal(t, "F32", y, want, n * 4);
    const uint16_t *want16 = vae_check_bf16(t, want, n);
    a.y = y16;
    a.y_type = VAE_TYPE_BF16;
    k->rearrange(q, &a);
    vae_check_equal(t, "F32 to BF16", y16, want16, n * 2);
    memset(y16, 0xff, n * 2);
    a.x = half;
    a.x_type = VAE_TYPE_BF16;
    k->rearrange(q, &a);
    vae_check_equal(t, "BF16", y16, want16, n * 2);
    memset(y, 0xff, n * 4);
    a.y = y;
    a.y_type = VAE_TYPE_F32;
    k->rearrange(q, &a);
    vae_check_equal(t, "BF16 to F32", y, vae_check_floats(t, want16, n), n * 4);
}

static void
one_case(VaeCheck *t, VaeRearrangeArgs a)
{
    static const char *const names[] = {
        [VAE_UNFOLD_NEAREST] = "nearest", [VAE_SHUFFLE_RQTC] = "shuffle",
        [VAE_SHUFFLE_TRQC] = "trqc",      [VAE_JOIN_PHASES] = "phases",
        [VAE_NEAREST] = "repeat",         [VAE_REFLECT] = "reflect",
        [VAE_REPLICATE] = "replicate"};
    if (!vae_check_begin(t, "rearrange_%s_t%d_s%d_d%d_%dx%dx%dx%d_%d_%d",
                         names[a.kind], a.ft, a.fs, a.drop, a.t, a.h, a.w, a.c,
                         a.rows, a.top))
        return;
    float *x = vae_check_random(t, in_count(&a), 0);
    for (size_t i = 0; i < in_count(&a); i++)
        x[i] = (float) i;
    float *want = vae_check_buffer(t, out_count(&a) * 4, 4);
    if (vae_rearrange_is_border(a.kind))
        border_definition(&a, x, want);
    else if (a.kind == VAE_JOIN_PHASES)
        joined(&a, x, want);
    else
        definition(&a, x, want);
    convert(t, t->ref, &t->queue, a, x, want);
    VaeQueue q;
    for (size_t i = 0; t->dut && vae_check_queue(i, &q); i++)
        convert(t, t->dut, &q, a, x, want);
}

static void
check_orders(VaeCheck *t)
{
    static const int sizes[][4] = {
        {1, 1, 1, 1}, {2, 3, 5, 3}, {3, 2, 3, 16}, {2, 4, 3, 21}};
    static const int factors[][3] = {{1, 1, 0}, {1, 2, 0}, {2, 1, 0},
                                     {2, 2, 0}, {2, 2, 1}, {2, 1, 1}};
    for (size_t i = 0; i < VAE_COUNT(sizes); i++)
        for (size_t j = 0; j < VAE_COUNT(factors); j++)
            for (int kind = VAE_UNFOLD_NEAREST; kind <= VAE_JOIN_PHASES; kind++)
                if (kind != VAE_JOIN_PHASES || factors[j][0] == 1) {
                    VaeRearrangeArgs a = {.kind = (VaeRearrange) kind,
                                          .t = sizes[i][0],
                                          .h = sizes[i][1],
                                          .w = sizes[i][2],
                                          .c = sizes[i][3],
                                          .ft = factors[j][0],
                                          .fs = factors[j][1],
                                          .drop = factors[j][2]};
                    /* there are 0, 5, 16 or 15 elements between phases */
                    a.phase = (size_t) a.t * a.h * a.w * a.c + 5 * i +
                              (i == 2 ? 6 : 0);
                    one_case(t, a);
                }
}

static void
check_borders(VaeCheck *t)
{
    static const int sizes[][4] = {
        {1, 1, 1, 1}, {1, 2, 2, 1}, {2, 3, 5, 3}, {3, 2, 7, 16}, {2, 4, 3, 21}};
    /* Rows of the border above and below: of a picture, then of its first, a
     * middle and its last strip. */
    static const int rows[][2] = {{1, 1}, {1, 0}, {0, 0}, {0, 1}};
    for (size_t i = 0; i < VAE_COUNT(sizes); i++)
        for (size_t j = 0; j < VAE_COUNT(rows) + 1; j++) {
            const bool reflect = j == VAE_COUNT(rows);
            const int *at = rows[reflect ? 0 : j];
            if (i || !reflect)
                one_case(t, (VaeRearrangeArgs){
                                .kind = reflect ? VAE_REFLECT : VAE_REPLICATE,
                                .t = sizes[i][0],
                                .h = sizes[i][1],
                                .w = sizes[i][2],
                                .c = sizes[i][3],
                                .ft = 1,
                                .fs = 1,
                                .rows = sizes[i][1] + at[0] + at[1],
                                .top = at[0]});
        }
}

static void
cast_one(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeType type,
         const float *x, size_t n)
{
    const uint16_t *half = vae_check_narrow(t, x, n, type, 0);
    const float *wide = vae_check_widen(t, half, n, type);
    uint16_t *y16 = vae_check_buffer(t, n * 2, 2);
    float *y = vae_check_buffer(t, n * 4, 4);
    VaeCastArgs a = {y16, x, VAE_TYPE_F32, type, n};
    k->cast(q, &a);
    vae_check_equal(t, "narrow", y16, half, n * 2);
    a = (VaeCastArgs){y, half, type, VAE_TYPE_F32, n};
    k->cast(q, &a);
    vae_check_equal(t, "widen", y, wide, n * 4);
}

static void
check_cast(VaeCheck *t)
{
    static const size_t sizes[] = {1, 15, 16, 255, 16384, 50021};
    for (size_t i = 0; i < VAE_COUNT(sizes); i++) {
        const size_t n = sizes[i];
        if (!vae_check_begin(t, "cast_%zu", n))
            continue;
        float *x = vae_check_buffer(t, n * 4, 4);
        for (size_t j = 0; j < n; j++) /* every kind of float, also NaN */
            x[j] = vae_from_bits((uint32_t) vae_check_bits(t));
        cast_one(t, t->ref, &t->queue, VAE_TYPE_BF16, x, n);
        VaeQueue q;
        for (size_t k = 0; t->dut && vae_check_queue(k, &q); k++) {
            cast_one(t, t->dut, &q, VAE_TYPE_BF16, x, n);
            if (t->cuda)
                cast_one(t, t->dut, &q, VAE_TYPE_F16, x, n);
        }
        for (size_t j = 0; j < n; j++) /* most of these are no F16 */
            x[j] = vae_from_f16((uint16_t) vae_check_bits(t)) * 1.0005f;
        if (t->cuda)
            cast_one(t, t->dut, &t->queue, VAE_TYPE_F16, x, n);
    }
}

static void
check_speed(VaeCheck *t)
{
    static const int channels[] = {8, 96, 384};
    if (!t->bench || !t->dut)
        return;
    for (size_t i = 0; i < 4 * VAE_COUNT(channels); i++) {
        const int c = channels[i / 4];
        const bool shuffle = i & 1, bf16 = i & 2;
        if (!vae_check_begin(t, "%s_speed_c%d_%s",
                             shuffle ? "shuffle" : "nearest", c,
                             bf16 ? "bf16" : "f32"))
            continue;
        VaeRearrangeArgs a = {.kind = shuffle ? VAE_SHUFFLE_RQTC
                                              : VAE_UNFOLD_NEAREST,
                              .y_type = bf16 ? VAE_TYPE_BF16 : VAE_TYPE_F32,
                              .t = 1,
                              .h = 120,
                              .w = 9216 / c,
                              .c = c,
                              .ft = 2,
                              .fs = 2};
        const size_t n = in_count(&a), m = out_count(&a);
        a.x = vae_check_random(t, n, 1);
        a.y = vae_check_buffer(t, m * 4, 4);
        while (vae_check_bench(t, n * 4.0 + m * (bf16 ? 2.0 : 4.0), 0))
            t->dut->rearrange(&t->queue, &a);
    }
}

VAE_CHECK_MAIN(check_orders, check_borders, check_cast, check_speed)
