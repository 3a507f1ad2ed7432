/*
 * fold.c: compares some kernels with their definition, which is written here in
 * the other direction. The kernels move space and time to depth and back,
 * compute shortcuts, the soft clamp, the depthwise convolution, and the ReLU of
 * a convolution.
 */

#include "../check.h"
#include "number.h"

/* ------------------------------------------------------------------ */
/* Folding.                                                            */

typedef struct Fold {
    int t, h, w, colours, p; /* t, h, w: those of the folded side */
    bool column_first;
    int ft; /* frames of the flat side for each folded one; 0 means 1 */
    bool channels_fast;
} Fold;

static int
frames_of(const Fold *f)
{
    return f->ft ? f->ft : 1;
}

static size_t
values(const Fold *f)
{
    return (size_t) f->t * frames_of(f) * f->h * f->w * f->colours * f->p *
           f->p;
}

/* Copies every pixel of the flat side to its channel of the deep side. */
static void
fold_definition(const Fold *f, const float *flat, float *deep)
{
    const int p = f->p, wide = f->w * p, high = f->h * p;
    const int ft = frames_of(f);
    for (int t = 0; t < f->t * ft; t++)
        for (int y = 0; y < high; y++)
            for (int x = 0; x < wide; x++)
                for (int c = 0; c < f->colours; c++) {
                    const int r = y % p, q = x % p;
                    const int i = c * ft + t % ft;
                    const int k =
                        f->column_first ? (i * p + q) * p + r
                        : f->channels_fast
                            ? ((t % ft * p + r) * p + q) * f->colours + c
                            : (i * p + r) * p + q;
                    const size_t site =
                        ((size_t) (t / ft) * f->h + y / p) * f->w + x / p;
                    deep[site * f->colours * ft * p * p + k] =
                        flat[(((size_t) t * high + y) * wide + x) * f->colours +
                             c];
                }
}

/* Folds the first frame alone, which takes the places of all ft frames. */
static void
fold_first(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, const Fold *f,
           const float *flat)
{
    Fold one = *f;
    one.t = 1;
    const size_t n = values(&one), frame = n / frames_of(f);
    float *copies = vae_check_buffer(t, n * 4, 4);
    float *want = vae_check_buffer(t, n * 4, 4);
    float *y = vae_check_buffer(t, n * 4, 4);
    for (size_t i = 0; i < n; i++)
        copies[i] = flat[i % frame];
    fold_definition(&one, copies, want);
    k->rearrange(q, &(VaeRearrangeArgs){.kind = VAE_FOLD_TRQC,
                                        .y = y,
                                        .x = flat,
                                        .t = 1,
                                        .h = f->h * f->p,
                                        .w = f->w * f->p,
                                        .c = (int) (n / ((size_t) f->h * f->w)),
                                        .ft = frames_of(f),
                                        .fs = f->p});
    vae_check_equal(t, "fold first", y, want, n * 4);
}

/* Runs F32 in both directions and to BF16, then BF16 in both directions. */
static void
fold_one(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, const Fold *f,
         const float *flat, const float *deep)
{
    const size_t n = values(f);
    float *y = vae_check_buffer(t, n * 4, 4);
    uint16_t *y16 = vae_check_buffer(t, n * 2, 2);
    const uint16_t *deep16 = vae_check_bf16(t, deep, n);
    const uint16_t *flat16 = vae_check_bf16(t, flat, n);
    VaeRearrangeArgs a = {.kind = f->column_first    ? VAE_FOLD_CQR
                                  : f->channels_fast ? VAE_FOLD_TRQC
                                                     : VAE_FOLD_CRQ,
                          .y = y,
                          .x = flat,
                          .t = f->t * frames_of(f),
                          .h = f->h * f->p,
                          .w = f->w * f->p,
                          .c = f->colours * frames_of(f) * f->p * f->p,
                          .ft = frames_of(f),
                          .fs = f->p};
    VaeRearrangeArgs back = {.kind = f->column_first    ? VAE_UNFOLD_CQR
                                     : f->channels_fast ? VAE_SHUFFLE_TRQC
                                                        : VAE_UNFOLD_CRQ,
                             .y = vae_check_buffer(t, n * 4, 4),
                             .x = deep,
                             .t = f->t,
                             .h = f->h,
                             .w = f->w,
                             .c = f->colours,
                             .ft = frames_of(f),
                             .fs = f->p};
    k->rearrange(q, &a);
    vae_check_equal(t, "fold", y, deep, n * 4);
    a.y = y16;
    a.y_type = VAE_TYPE_BF16;
    k->rearrange(q, &a);
    vae_check_equal(t, "fold to BF16", y16, deep16, n * 2);
    memset(y16, 0xff, n * 2);
    a.x = flat16;
    a.x_type = VAE_TYPE_BF16;
    k->rearrange(q, &a);
    vae_check_equal(t, "fold BF16", y16, deep16, n * 2);
    k->rearrange(q, &back);
    vae_check_equal(t, "unfold", back.y, flat, n * 4);
    back.x = deep16;
    back.y = y16;
    back.x_type = back.y_type = VAE_TYPE_BF16;
    memset(y16, 0xff, n * 2);
    k->rearrange(q, &back);
    vae_check_equal(t, "unfold BF16", y16, flat16, n * 2);
    if (f->channels_fast)
        fold_first(t, k, q, f, flat);
}

static void
check_fold(VaeCheck *t)
{
    static const Fold cases[] = {
        {1, 1, 1, 3, 2, true},
        {2, 3, 5, 3, 2, true},
        {2, 3, 5, 3, 2, false},
        {1, 2, 3, 3, 4, false},
        {2, 1, 5, 3, 4, true},
        {3, 5, 1, 7, 2, false},
        {1, 4, 4, 1, 1, true},
        {1, 2, 261, 3, 2, false},
        {2, 3, 5, 16, 2, false},
        {1, 2, 3, 24, 2, true},
        {3, 2, 5, 7, 1, false, 2},
        {2, 3, 5, 16, 2, false, 2},
        {2, 1, 3, 3, 2, true, 2},
        {2, 3, 5, 3, 2, false, 2, true},
        {3, 1, 2, 16, 2, false, 1, true},
    };
    for (size_t i = 0; i < VAE_COUNT(cases); i++) {
        const Fold *f = &cases[i];
        const size_t n = values(f);
        if (!vae_check_begin(t, "fold_%s_p%dx%d_%dx%dx%dx%d",
                             f->column_first    ? "cqr"
                             : f->channels_fast ? "trqc"
                                                : "crq",
                             frames_of(f), f->p, f->t, f->h, f->w, f->colours))
            continue;
        float *flat = vae_check_random(t, n, 1);
        float *deep = vae_check_buffer(t, n * 4, 4);
        fold_definition(f, flat, deep);
        fold_one(t, t->ref, &t->queue, f, flat, deep);
        VaeQueue q;
        for (size_t j = 0; t->dut && vae_check_queue(j, &q); j++)
            fold_one(t, t->dut, &q, f, flat, deep);
    }
}

/* ------------------------------------------------------------------ */
/* Shortcuts.                                                          */

/* Returns number k of the block of c channels times ft x fs x fs elements. */
static float
block_value(const VaeShortcutArgs *a, int f, int r, int q, int k, int front)
{
    const int area = a->fs * a->fs, deep = area * a->ft;
    const int c = a->channels_fast ? k % a->cx : k / deep;
    k = a->channels_fast ? k / a->cx : k % deep;
    int frame = f * a->ft + k / area - front;
    if (frame < 0 && !a->repeat)
        return 0;
    frame = frame < 0 ? 0 : frame;
    const size_t at =
        ((size_t) frame * a->h + r * a->fs + k / a->fs % a->fs) * a->w +
        (size_t) q * a->fs + k % a->fs;
    return ((const float *) a->x)[at * a->cx + c];
}

static void
average_definition(const VaeShortcutArgs *a, double *y)
{
    const int t = (a->t + a->ft - 1) / a->ft, h = a->h / a->fs,
              w = a->w / a->fs;
    const int elements = a->cx * a->ft * a->fs * a->fs, g = elements / a->cy;
    for (int f = 0; f < t; f++)
        for (int r = 0; r < h; r++)
            for (int q = 0; q < w; q++)
                for (int k = 0; k < elements; k++)
                    y[(((size_t) f * h + r) * w + q) * a->cy + k / g] +=
                        (double) block_value(a, f, r, q, k, t * a->ft - a->t) /
                        g;
}

/* Repeats each channel rep times, then distributes them like a shuffle of (o,
 * i, r, q) or (i, r, q, o). */
static void
dup_definition(const VaeShortcutArgs *a, double *y)
{
    const int h = a->h * a->fs, w = a->w * a->fs;
    const int rep = a->cy * a->ft * a->fs * a->fs / a->cx;
    for (size_t i = 0; i < (size_t) a->t * a->h * a->w * a->cx * rep; i++) {
        const int k = (int) (i % ((size_t) a->cx * rep));
        const size_t site = i / ((size_t) a->cx * rep);
        const int deep = a->fs * a->fs * a->ft;
        const int o = a->channels_fast ? k % a->cy : k / deep;
        const int place = a->channels_fast ? k / a->cy : k % deep;
        const int q = place % a->fs, r = place / a->fs % a->fs;
        const int z = place / (a->fs * a->fs);
        const int f = (int) (site / a->w / a->h) * a->ft + z - a->drop;
        const size_t row = site / a->w % a->h * a->fs + r;
        const size_t column = site % a->w * a->fs + q;
        if (f >= 0)
            y[(((size_t) f * h + row) * w + column) * a->cy + o] +=
                ((const float *) a->x)[site * a->cx + k / rep];
    }
}

static void
tile_definition(const VaeShortcutArgs *a, double *y)
{
    const size_t sites = (size_t) a->t * a->h * a->w;
    for (size_t i = 0; i < sites * a->cx; i++)
        for (int k = 0; k < a->cy / a->cx; k++)
            y[i / a->cx * a->cy + k * a->cx + i % a->cx] +=
                ((const float *) a->x)[i];
}

static size_t
shortcut_count(const VaeShortcutArgs *a)
{
    if (a->kind != VAE_SHORTCUT_AVERAGE)
        return (size_t) (a->t * a->ft - a->drop) * a->h * a->fs * a->w * a->fs *
               a->cy;
    return (size_t) ((a->t + a->ft - 1) / a->ft) * (a->h / a->fs) *
           (a->w / a->fs) * a->cy;
}

static void
shortcut_case(VaeCheck *t, VaeShortcutArgs a)
{
    static const char *const names[] = {"dup", "average", "tile"};
    if (!vae_check_begin(t, "shortcut_%s%s%s_t%d_s%d_d%d_%dx%dx%d_%d_%d",
                         names[a.kind], a.repeat ? "_repeat" : "",
                         a.channels_fast ? "_fast" : "", a.ft, a.fs, a.drop,
                         a.t, a.h, a.w, a.cx, a.cy))
        return;
    const size_t n = shortcut_count(&a);
    a.x = vae_check_random(t, (size_t) a.t * a.h * a.w * a.cx, 1);
    const float *main_path = vae_check_random(t, n, 1);
    double *sum = vae_check_buffer(t, n * 8, 8);
    float *want = vae_check_buffer(t, n * 4, 4);
    for (size_t i = 0; i < n; i++)
        sum[i] = main_path[i];
    if (a.kind == VAE_SHORTCUT_DUP)
        dup_definition(&a, sum);
    else if (a.kind == VAE_SHORTCUT_TILE)
        tile_definition(&a, sum);
    else
        average_definition(&a, sum);
    for (size_t i = 0; i < n; i++)
        want[i] = (float) sum[i];
    a.y = vae_check_buffer(t, n * 4, 4);
    memcpy(a.y, main_path, n * 4);
    t->ref->shortcut(&t->queue, &a);
    vae_check_close(t, "ref", a.y, want, n, (VaeBound){1e-6, 1e-6});
    VaeQueue q;
    for (size_t i = 0; t->dut && vae_check_queue(i, &q); i++) {
        memcpy(a.y, main_path, n * 4);
        t->dut->shortcut(&q, &a);
        vae_check_close(t, t->dut->name, a.y, want, n, (VaeBound){1e-6, 1e-6});
    }
}

static void
check_shortcut(VaeCheck *t)
{
    static const VaeShortcutArgs cases[] = {
        {VAE_SHORTCUT_DUP, .t = 1, .h = 2, .w = 3, .cx = 8, .cy = 8, .ft = 2,
         .fs = 2, .drop = 1},
        {VAE_SHORTCUT_DUP, .t = 3, .h = 3, .w = 2, .cx = 8, .cy = 8, .ft = 2,
         .fs = 2},
        {VAE_SHORTCUT_DUP, .t = 4, .h = 1, .w = 5, .cx = 32, .cy = 16, .ft = 1,
         .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 4, .h = 4, .w = 6, .cx = 5, .cy = 5,
         .ft = 1, .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 4, .h = 6, .w = 2, .cx = 8, .cy = 16,
         .ft = 2, .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 1, .h = 2, .w = 2, .cx = 8, .cy = 16,
         .ft = 2, .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 3, .h = 4, .w = 6, .cx = 24, .cy = 48,
         .ft = 2, .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 3, .h = 4, .w = 6, .cx = 24, .cy = 48,
         .ft = 2, .fs = 2, .repeat = true},
        {VAE_SHORTCUT_AVERAGE, .t = 1, .h = 2, .w = 4, .cx = 16, .cy = 16,
         .ft = 2, .fs = 2, .repeat = true},
        {VAE_SHORTCUT_AVERAGE, .t = 1, .h = 2, .w = 4, .cx = 16, .cy = 32,
         .ft = 2, .fs = 1, .repeat = true},
        {VAE_SHORTCUT_AVERAGE, .t = 2, .h = 2, .w = 258, .cx = 24, .cy = 24,
         .ft = 1, .fs = 2},
        {VAE_SHORTCUT_AVERAGE, .t = 3, .h = 3, .w = 3, .cx = 7, .cy = 7,
         .ft = 1, .fs = 1},
        {VAE_SHORTCUT_DUP, .t = 3, .h = 3, .w = 2, .cx = 16, .cy = 8, .ft = 2,
         .fs = 2, .channels_fast = true},
        {VAE_SHORTCUT_DUP, .t = 1, .h = 2, .w = 3, .cx = 6, .cy = 3, .ft = 1,
         .fs = 2, .channels_fast = true},
        {VAE_SHORTCUT_AVERAGE, .t = 4, .h = 4, .w = 6, .cx = 8, .cy = 16,
         .ft = 2, .fs = 2, .channels_fast = true},
        {VAE_SHORTCUT_AVERAGE, .t = 2, .h = 4, .w = 6, .cx = 6, .cy = 8,
         .ft = 1, .fs = 2, .channels_fast = true},
        {VAE_SHORTCUT_TILE, .t = 2, .h = 3, .w = 5, .cx = 6, .cy = 24, .ft = 1,
         .fs = 1},
        {VAE_SHORTCUT_TILE, .t = 1, .h = 2, .w = 3, .cx = 16, .cy = 64, .ft = 1,
         .fs = 1}};
    for (size_t i = 0; i < VAE_COUNT(cases); i++)
        shortcut_case(t, cases[i]);
}

/* ------------------------------------------------------------------ */
/* Clamp, depthwise, ReLU.                                             */

static void
check_clamp(VaeCheck *t)
{
    static const size_t sizes[] = {1, 17, 4099};
    for (size_t i = 0; i < VAE_COUNT(sizes); i++) {
        const size_t n = sizes[i];
        if (!vae_check_begin(t, "clamp_%zu", n))
            continue;
        float *x = vae_check_random(t, n, 4);
        float *want = vae_check_buffer(t, n * 4, 4);
        float *got = vae_check_buffer(t, n * 4, 4);
        x[0] = NAN;
        for (size_t j = 0; j < n; j++) {
            const double e = exp(x[j] * 2.0 / 3);
            want[j] = (float) (3 * (e - 1) / (e + 1));
        }
        const VaeClampArgs a = {.y = got, .x = x, .n = n};
        t->ref->clamp(&t->queue, &a);
        vae_check_close(t, "ref", got, want, n, (VaeBound){1e-6, 1e-6});
        VaeQueue q;
        for (size_t j = 0; t->dut && vae_check_queue(j, &q); j++) {
            memset(got, 0xff, n * 4);
            t->dut->clamp(&q, &a);
            vae_check_close(t, t->dut->name, got, want, n,
                            (VaeBound){1e-6, 1e-6});
        }
    }
}

static void
depthwise_definition(const VaeDepthwiseArgs *a, const float *x, double *y)
{
    /* adds every input pixel to all outputs that use it */
    for (int f = 0; f <= a->t; f++)
        for (int r = 0; r < a->h * a->w * 49; r++) {
            const int tap = r % 49, row = r / 49 / a->w, column = r / 49 % a->w;
            const int to_y = row - (tap / 7 - 3), to_x = column - (tap % 7 - 3);
            if (to_y < 0 || to_y >= a->h || to_x < 0 || to_x >= a->w)
                continue;
            const float *from =
                x + (((size_t) f * a->h + row) * a->w + column) * a->n;
            for (int half = 0; half < 2; half++) {
                const int out = f - 1 + half;
                if (out < 0 || out >= a->t)
                    continue;
                double *to =
                    y +
                    (((size_t) out * a->h + to_y) * a->w + to_x) * 2 * a->n +
                    half * a->n;
                for (int c = 0; c < a->n; c++)
                    to[c] += (double) from[c] *
                             a->weight[tap * 2 * a->n + half * a->n + c];
            }
        }
}

static void
check_depthwise(VaeCheck *t)
{
    static const int cases[][4] = {
        {1, 1, 1, 3}, {2, 5, 9, 8}, {1, 8, 3, 70}, {3, 7, 7, 64}};
    for (size_t i = 0; i < VAE_COUNT(cases); i++) {
        VaeDepthwiseArgs a = {.t = cases[i][0],
                              .h = cases[i][1],
                              .w = cases[i][2],
                              .n = cases[i][3]};
        if (!vae_check_begin(t, "depthwise_%dx%dx%dx%d", a.t, a.h, a.w, a.n))
            continue;
        const size_t out = (size_t) a.t * a.h * a.w * 2 * a.n;
        float *x = vae_check_random(t, (size_t) (a.t + 1) * a.h * a.w * a.n, 1);
        double *sum = vae_check_buffer(t, out * 8, 8);
        float *want = vae_check_buffer(t, out * 4, 4);
        float *got = vae_check_buffer(t, out * 4, 4);
        a.weight = vae_check_random(t, (size_t) 49 * 2 * a.n, 0.2f);
        a.x = x;
        a.y = got;
        memset(sum, 0, out * 8);
        depthwise_definition(&a, x, sum);
        for (size_t j = 0; j < out; j++)
            want[j] = (float) sum[j];
        t->ref->depthwise(&t->queue, &a);
        vae_check_close(t, "ref", got, want, out, (VaeBound){5e-6, 1e-6});
        VaeQueue q;
        for (size_t j = 0; t->dut && vae_check_queue(j, &q); j++) {
            memset(got, 0xff, out * 4);
            t->dut->depthwise(&q, &a);
            vae_check_close(t, t->dut->name, got, want, out,
                            (VaeBound){5e-6, 1e-6});
        }
    }
}

static void
check_relu(VaeCheck *t)
{
    enum { N = 5 * 7, C = 6 };
    if (!vae_check_begin(t, "conv_relu"))
        return;
    float *x = vae_check_random(t, N * C, 1);
    const float *weight = vae_check_random(t, C * C, 1);
    float *plain = vae_check_buffer(t, N * C * 4, 4);
    float *got = vae_check_buffer(t, N * C * 4, 4);
    x[C] = NAN;
    VaeConvArgs a = {.y = plain,
                     .x = x,
                     .add = x,
                     .weight = weight,
                     .t = 1,
                     .h = 5,
                     .w = 7,
                     .c_in = C,
                     .ho = 5,
                     .wo = 7,
                     .c_out = C,
                     .k = 1,
                     .kt = 1,
                     .s = 1,
                     .st = 1};
    t->ref->conv(&t->queue, &a);
    a.y = got;
    a.relu = true;
    t->ref->conv(&t->queue, &a);
    for (int i = 0; i < N * C; i++)
        if (plain[i] < 0)
            plain[i] = 0;
    vae_check_close(t, "relu after the sum", got, plain, N * C,
                    vae_no_difference);
}

VAE_CHECK_MAIN(check_fold, check_shortcut, check_clamp, check_depthwise,
               check_relu)
