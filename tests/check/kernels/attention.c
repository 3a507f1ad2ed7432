/*
 * attention.c: compares attention with its definition.
 */

#include "../check.h"

/* Computes the output of one site with a softmax over all sites, in double. */
static void
definition(const float *qkv, int n, int c, int site, double *y)
{
    const float *q = qkv + (size_t) site * 3 * c;
    double sum = 0, most = -INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c; i++)
            y[i] = 0;
        sum = 0;
        for (int j = 0; j < n; j++) {
            const float *k = qkv + (size_t) j * 3 * c + c, *v = k + c;
            double score = 0;
            for (int i = 0; i < c; i++)
                score += (double) q[i] * k[i];
            score /= sqrt(c);
            if (!pass) {
                most = fmax(most, score);
                continue;
            }
            const double p = exp(score - most);
            sum += p;
            for (int i = 0; i < c; i++)
                y[i] += p * v[i];
        }
    }
    for (int i = 0; i < c; i++)
        y[i] /= sum;
}

/*
 * A score is off by up to c / 16 + 20 roundings of its terms, whose deviation
 * is d^2. The relative error of e^score is as large. Then n terms are added. If
 * weights are rounded to 16 bits, the sum over V has one more rounding.
 *
 * TF32 has 10 bits after the point. Rounding to nearest changes a number by at
 * most 2^-11 of it, and rounding of K and V by less than 2^-10. Together they
 * change a product of q and k by a deviation below 2^-10 of it. The c errors of
 * a score are independent, so their deviation is at most 2^-10 d^2 sqrt(c) /
 * sqrt(c). The errors of the scores are independent of V, so y is off by at
 * most as much as one score changes one V. Six deviations do not occur in
 * practice. Rounding of the weights changes y by 2^-11 of the distance of V and
 * y, rounding of V by less than 2^-10 of V.
 */
static double
bound(int n, int c, double d, VaeType type, bool tf32)
{
    const double most =
        2 * sqrt(3) * d; /* the largest number of vae_check_random() */
    const double terms = c / 16 + 20;
    const double wide = (terms * d * d * sqrt(c) + n) * 0x1p-24 * 4 * d;
    if (type == VAE_TYPE_BF16)
        return wide + 0x1p-9 * most;
    if (type == VAE_TYPE_F16) /* below 2^-14 a rounding is 2^-25 */
        return wide + (0x1p-12 + n * 0x1p-25) * most;
    return wide + (tf32 ? 6 * 0x1p-10 * d * d * d + 4 * 0x1p-11 * most : 0);
}

static void
compare(VaeCheck *t, const char *what, const VaeAttentionArgs *a,
        const float *qkv, double bound)
{
    const int n = a->n, c = a->c;
    const size_t in = (size_t) n * 3 * c;
    const float *got = a->y;
    double *want = vae_check_buffer(t, c * sizeof *want, sizeof *want);
    for (int f = 0; f < a->t; f++)
        for (int i = 0; i < n; i++, got += c) {
            definition(qkv + in * f, n, c, i, want);
            if (!vae_check_row(t, got, want, c, bound, "%s: frame %d site %d",
                               what, f, i))
                return;
        }
}

/* Every order of threads gives the same bytes, and so does a single frame. */
static void
agreement(VaeCheck *t, VaeAttentionArgs a, const float *y)
{
    const size_t frame = (size_t) a.n * a.c, n = frame * (size_t) a.t;
    VaeQueue q;
    float *z = vae_check_buffer(t, n * sizeof *z, sizeof *z);
    a.y = z;
    const size_t again = vae_check_order_varies() ? 2 : 0;
    for (size_t i = 0; i < again && vae_check_queue(i, &q); i++) {
        memset(z, 0xff, n * sizeof *z);
        t->dut->attention(&q, &a);
        vae_check_equal(t, "again", z, y, n * sizeof *z);
    }
    const size_t step = 3 * frame * vae_check_size(a.x_type);
    VaeAttentionArgs one = a;
    one.t = 1;
    for (int f = 0; a.t > 1 && f < a.t; f++) {
        one.qkv = (const uint8_t *) a.qkv + f * step;
        t->dut->attention(&t->queue, &one);
        vae_check_equal(t, "one frame", z, y + f * frame, frame * sizeof *z);
    }
}

/* a: the sizes, the type and tf32. d: the deviation of x. */
static void
under_test(VaeCheck *t, VaeAttentionArgs a, const float *x, double d)
{
    static const char *const names[] = {"F32", "F16", "BF16"};
    const VaeType type = a.x_type;
    const size_t out = (size_t) a.t * a.n * a.c, in = 3 * out;
    float *y = vae_check_buffer(t, out * sizeof *y, sizeof *y);
    a.y = y;
    a.qkv = vae_check_narrow(t, x, in, type, 0);
    t->dut->attention(&t->queue, &a);
    compare(t, a.tf32 ? "TF32" : names[type], &a,
            vae_check_widen(t, a.qkv, in, type),
            bound(a.n, a.c, d, type, a.tf32));
    agreement(t, a, y);
}

static void
one_case(VaeCheck *t, int frames, int n, int c, float deviation)
{
    if (!vae_check_begin(t, "attention_%dx%dx%d_d%g", frames, n, c, deviation))
        return;
    const size_t in = (size_t) frames * n * 3 * c;
    const size_t out = (size_t) frames * n * c;
    const size_t bytes = vae_attention_scratch_ref(n, c);
    const float *qkv = vae_check_random(t, in, deviation);
    float *y = vae_check_buffer(t, out * sizeof *y, sizeof *y);
    VaeAttentionArgs a = {.y = y,
                          .qkv = qkv,
                          .scratch = vae_check_buffer(t, bytes, 4),
                          .t = frames,
                          .n = n,
                          .c = c};
    t->ref->attention(&t->queue, &a);
    compare(t, "ref", &a, qkv, bound(n, c, deviation, VAE_TYPE_F32, false));
    /* In the emulation more sites take seconds and test nothing new. */
    const int types = t->cuda && n < 200 ? 3 : 0;
    for (int type = 0; type < types; type++)
        under_test(t,
                   (VaeAttentionArgs){
                       .t = frames, .n = n, .c = c, .x_type = (VaeType) type},
                   qkv, deviation);
    if (types)
        under_test(
            t, (VaeAttentionArgs){.t = frames, .n = n, .c = c, .tf32 = true},
            qkv, deviation);
}

/* ------------------------------------------------------------------ */
/* With a history.                                                     */

/* Computes site `site` of the last of `frames` frames, over the keys of the
 * frames from `first` on, by copying these keys into one row. */
static void
so_far(VaeCheck *t, const float *qkv, int first, int frames, const int size[2],
       int site, double *y)
{
    const int n = size[0], c = size[1], m = n * (frames - first);
    float *all = vae_check_buffer(t, (size_t) m * 3 * c * sizeof *all, 4);
    memcpy(all, qkv + (size_t) first * n * 3 * c,
           (size_t) m * 3 * c * sizeof *all);
    definition(all, m, c, m - n + site, y);
}

/* Runs all frames one after another, each with its own call; blocks of two
 * latents. Compares some sites with the definition. */
static void
run_so_far(VaeCheck *t, const VaeKernels *k, VaeAttentionArgs a,
           const float *qkv, double bound)
{
    enum { FRAMES = 5, EACH = 2 };
    const size_t frame = (size_t) a.n * 3 * a.c,
                 size = vae_check_size(a.x_type);
    const int sizes[2] = {a.n, a.c};
    const uint8_t *x = a.qkv;
    float *y = vae_check_buffer(t, frame / 3 * sizeof *y, sizeof *y);
    double *want = vae_check_buffer(t, a.c * sizeof *want, sizeof *want);
    VaeHistoryBlocks *blocks =
        vae_check_buffer(t, sizeof *blocks, _Alignof(VaeHistoryBlocks));
    a.y = y;
    a.history.blocks = blocks;
    a.history.each = EACH;
    a.history.place = 64;
    a.history.bytes = 64 + (frame / 3 * 2 * size + 63) / 64 * 64;
    memset(blocks, 0, sizeof *blocks);
    for (int i = 0; i < (FRAMES + EACH - 1) / EACH; i++)
        blocks->block[i] = vae_check_buffer_at(t, EACH * a.history.bytes, 0);
    for (int f = 0; f < FRAMES; f++) {
        const int window = a.history.window;
        const int first = window && f >= window ? f - window + 1 : 0;
        blocks->count = (uint64_t) f / 2; /* frame f / 2 of the run */
        a.history.frame = f - f / 2;
        a.qkv = x + (size_t) f * frame * size;
        memset(y, 0xff, frame / 3 * sizeof *y);
        k->attention(&t->queue, &a);
        for (int i = 0; i<a.n; i += a.n> 40 ? 13 : 1) {
            so_far(t, qkv, first, f + 1, sizes, i, want);
            if (!vae_check_row(t, y + (size_t) i * a.c, want, a.c, bound,
                               "%s: frame %d site %d", k->name, f, i))
                return;
        }
    }
}

/* shift: bytes by which the input is not aligned. */
static void
one_so_far(VaeCheck *t, int n, int c, int window, size_t shift)
{
    enum { FRAMES = 5 };
    if (!vae_check_begin(t, "attention_so_far_%dx%d_%d_%zu", n, c, window,
                         shift))
        return;
    const size_t in = (size_t) FRAMES * n * 3 * c;
    const float *x = vae_check_random(t, in, 1);
    VaeAttentionArgs a = {
        .qkv = x,
        .scratch = vae_check_buffer(t, vae_attention_scratch_ref(n, c), 4),
        .t = 1,
        .n = n,
        .c = c,
        .history = {.window = window}};
    run_so_far(t, t->ref, a, x, bound(FRAMES * n, c, 1, VAE_TYPE_F32, false));
    for (int type = 0; t->cuda && type < 3; type++) {
        a.x_type = (VaeType) type;
        a.qkv = vae_check_narrow(t, x, in, a.x_type, shift);
        run_so_far(t, t->dut, a, vae_check_widen(t, a.qkv, in, a.x_type),
                   bound(FRAMES * n, c, 1, a.x_type, false));
    }
}

static void
check_so_far(VaeCheck *t)
{
    one_so_far(t, 1, 8, 0, 0);
    one_so_far(t, 35, 24, 0, 0);
    one_so_far(t, 9, 5, 2, 0);
    one_so_far(t, 66, 64, 3, 0);
    one_so_far(t, 11, 16, 0, 4);
}

/* ------------------------------------------------------------------ */

/* Large scores, and scores so different that only one site matters. */
static void
check_sharp(VaeCheck *t)
{
    if (!vae_check_begin(t, "attention_sharp"))
        return;
    enum { N = 9, C = 5 };
    float *qkv = vae_check_random(t, N * 3 * C, 0);
    float *y = vae_check_buffer(t, N * C * sizeof *y, sizeof *y);
    for (int i = 0; i < N; i++) {
        qkv[i * 3 * C] = 1000;
        qkv[i * 3 * C + C] = i == 4 ? 900 : 100;
        for (int l = 0; l < C; l++)
            qkv[i * 3 * C + 2 * C + l] = (float) (10 * i + l);
    }
    VaeAttentionArgs a = {.y = y, .qkv = qkv, .t = 1, .n = N, .c = C};
    a.scratch = vae_check_buffer(t, vae_attention_scratch_ref(N, C), 4);
    t->ref->attention(&t->queue, &a);
    for (int i = 0; i < N * C; i++)
        vae_check_that(t, y[i] == (float) (40 + i % C),
                       "the result is not V of site 4");
    if (!t->cuda)
        return;
    memset(y, 0xff, N * C * sizeof *y);
    t->dut->attention(&t->queue, &a);
    for (int i = 0; i < N * C; i++)
        vae_check_that(t, y[i] == (float) (40 + i % C),
                       "the result is not V of site 4");
}

/* Scores are minus infinity for more keys than a kernel computes at once. */
static void
one_hidden(VaeCheck *t, int c, VaeType type, bool tf32)
{
    const int n = type == VAE_TYPE_F32 ? 70 : 130;
    const int hidden = n / 2 + 5, seen = n / 4 * 3;
    if (!vae_check_begin(t, "attention_hidden_%d_%d%s", c, (int) type,
                         tf32 ? "_tf32" : ""))
        return;
    float *qkv = vae_check_random(t, (size_t) n * 3 * c, 0);
    float *y = vae_check_buffer(t, (size_t) n * c * sizeof *y, sizeof *y);
    for (int i = 0; i < n; i++) {
        float *q = qkv + (size_t) i * 3 * c, *k = q + c, *v = k + c;
        q[0] = 1000;
        k[0] = i < hidden ? -3e38f : i == seen ? 900 : 100;
        for (int l = 0; l < c; l++)
            v[l] = (float) (i + l % 64);
    }
    const VaeAttentionArgs a = {
        .y = y,
        .qkv = vae_check_narrow(t, qkv, (size_t) n * 3 * c, type, 0),
        .t = 1,
        .n = n,
        .c = c,
        .x_type = type,
        .tf32 = tf32};
    memset(y, 0xff, (size_t) n * c * sizeof *y);
    t->dut->attention(&t->queue, &a);
    int same = 0;
    for (int i = 0; i < n * c; i++)
        same += y[i] == (float) (seen + i % c % 64);
    vae_check_that(t, same == n * c, "the result is not V of the visible site");
}

/* Checks that the results of one query in every `every` are NaN, as in the
 * reference, and no others. */
static void
not_finite(VaeCheck *t, const VaeKernels *k, const VaeAttentionArgs *a,
           int every)
{
    const float *y = a->y;
    int wrong = 0;
    k->attention(&t->queue, a);
    for (int i = 0; i < a->n * a->c; i++)
        wrong += isnan(y[i]) != (i / a->c % every == every / 2) || isinf(y[i]);
    vae_check_that(t, wrong == 0, k->name);
}

/* In every fifth query all scores are minus infinity, infinity or NaN. In the
 * second round the last key is also NaN, and so is one score of each query. */
static void
one_not_finite(VaeCheck *t, int c, VaeType type, bool tf32)
{
    enum { N = 70 };
    static const float numbers[] = {-INFINITY, INFINITY, NAN, -3e38f};
    if (!vae_check_begin(t, "attention_not_finite_%d_%d%s", c, (int) type,
                         tf32 ? "_tf32" : ""))
        return;
    const size_t n = (size_t) N * 3 * c;
    float *x = vae_check_random(t, n, 1);
    for (int i = 0; i < N; i++) {
        float *q = x + (size_t) i * 3 * c;
        q[c] = 1000; /* for each key */
        if (i % 5 == 2)
            q[0] = numbers[i / 5 % 4];
    }
    const VaeAttentionArgs a = {.y = vae_check_buffer(t, n / 3 * 4, 4),
                                .scratch = vae_check_buffer(t, N * 4, 4),
                                .qkv = x,
                                .t = 1,
                                .n = N,
                                .c = c};
    VaeAttentionArgs b = a;
    b.x_type = type;
    b.tf32 = tf32;
    for (int every = 5; every > 0; every -= 4) {
        b.qkv = vae_check_narrow(t, x, n, type, 0);
        not_finite(t, t->ref, &a, every);
        not_finite(t, t->dut, &b, every);
        x[n - (size_t) c - 1] = NAN;
    }
}

/* The widths cover all kernels. */
static void
check_extremes(VaeCheck *t)
{
    static const int widths[] = {5, 64, 384, 512, 640, 1024, 1152};
    for (size_t i = 0; t->cuda && i < VAE_COUNT(widths); i++)
        for (int kind = 0; kind < 4; kind++) {
            const VaeType type = (VaeType) (kind % 3);
            one_hidden(t, widths[i], type, kind == 3);
            one_not_finite(t, widths[i], type, kind == 3);
        }
}

/* Tests all widths of the CUDA kernels, and sizes at the edges of their tiles.
 */
static void
check_widths(VaeCheck *t)
{
    static const int cases[][3] = {{1, 31, 8},    {2, 33, 96},   {1, 130, 384},
                                   {2, 65, 512},  {1, 64, 640},  {1, 33, 1016},
                                   {1, 97, 1024}, {1, 65, 1152}, {1, 17, 520},
                                   {2, 9, 600},   {3, 1, 384}};
    for (size_t i = 0; t->cuda && i < VAE_COUNT(cases); i++)
        one_case(t, cases[i][0], cases[i][1], cases[i][2], 1);
}

/* At unaligned addresses the kernel computes in fp32 although TF32 is allowed.
 */
static void
check_odd_address(VaeCheck *t)
{
    enum { N = 33, C = 64, ALL = N * 3 * C };
    if (!t->cuda || !vae_check_begin(t, "attention_odd_address"))
        return;
    const float *x = vae_check_random(t, ALL, 1);
    float *y = vae_check_buffer(t, N * C * sizeof *y, sizeof *y);
    const VaeAttentionArgs a = {.y = y,
                                .qkv = vae_check_narrow(t, x, ALL, 0, 4),
                                .t = 1,
                                .n = N,
                                .c = C,
                                .tf32 = true};
    t->dut->attention(&t->queue, &a);
    compare(t, "odd", &a, x, bound(N, C, 1, VAE_TYPE_F32, false));
}

#ifdef VAE_CHECK_CUDA
void vae_emu_set_capability(int capability);

/* A GPU without matrix instructions uses the plain kernel. A GPU without those
 * for groups of warps uses the kernel for single warps. */
static void
check_old_card(VaeCheck *t)
{
    vae_emu_set_capability(80);
    one_case(t, 1, 131, 384, 1);
    one_case(t, 2, 66, 512, 1);
    one_case(t, 1, 63, 640, 1);
    vae_emu_set_capability(75);
    one_case(t, 1, 33, 104, 1);
    one_case(t, 1, 18, 400, 1);
    one_case(t, 2, 17, 640, 1);
    one_case(t, 1, 9, 1152, 1);
    vae_emu_set_capability(90);
}
#else
static void
check_old_card(VaeCheck *t)
{
}
#endif

static void
check_random(VaeCheck *t)
{
    one_case(t, 1, 1, 1, 1);
    one_case(t, 1, 7, 3, 1);
    one_case(t, 2, 15, 16, 1);
    one_case(t, 3, 35, 33, 2);
    one_case(t, 1, 60, 384, 1);
    one_case(t, 2, 35, 40, 2);
    one_case(t, 1, 1001, 32, 1);
    one_case(t, 1, 5, 401, 1);
    one_case(t, 1, 5, 517, 1);
    one_case(t, 1, 5, 1029, 1);
}

static void
check_speed(VaeCheck *t)
{
    if (!t->bench || !vae_check_begin(t, "attention_speed_1560x384"))
        return;
    enum { N = 1560, C = 384 };
    VaeAttentionArgs a = {.t = 1, .n = N, .c = C};
    a.qkv = vae_check_random(t, (size_t) N * 3 * C, 1);
    a.y = vae_check_buffer(t, (size_t) N * C * 4, 4);
    a.scratch = vae_check_buffer(t, vae_attention_scratch_ref(N, C), 4);
    while (vae_check_bench(t, 0, 4.0 * N * N * C))
        t->ref->attention(&t->queue, &a);
}

VAE_CHECK_MAIN(check_random, check_so_far, check_sharp, check_extremes,
               check_widths, check_odd_address, check_old_card, check_speed)
