/*
 * norm.c: compares the reference norms with their definition in double, and the
 * norms of the table under test with the reference.
 *
 * Bounds: a sum of c squares in 16 lanes is off by at most c / 16 + 5
 * roundings, and its root by half as many. A dozen roundings follow. e^v is off
 * by at most 2 units. The derivative of v * sigmoid(v) is at most 1.1. For
 * negative v it approaches 0 faster than the value does, so |v| * derivative <=
 * 1.1 |y| + 0.2.
 */

#include "../check.h"
#include "number.h"

static double
roundings(const VaeNormArgs *a)
{
    return (a->c / 32 + 20) * 0x1p-24;
}

static size_t
count(const VaeNormArgs *a)
{
    return (size_t) a->t * a->h * a->w * a->c;
}

static double
finish(const VaeNormArgs *a, double v)
{
    if (a->relu)
        return fmax(v, 0);
    return a->silu ? v / (1 + exp(-v)) : v;
}

static void
rms_definition(const VaeNormArgs *a, float *y)
{
    const float *x = a->x;
    for (size_t p = 0; p < count(a); p += a->c) {
        long double sum = 0;
        for (int i = 0; i < a->c; i++)
            sum += (long double) x[p + i] * x[p + i];
        const double norm = fmax(sqrt((double) sum + a->eps * a->c), 1e-12);
        for (int i = 0; i < a->c; i++)
            y[p + i] = (float) finish(a, x[p + i] / norm * sqrt(a->c) *
                                                 (a->gain ? a->gain[i] : 1) +
                                             (a->offset ? a->offset[i] : 0));
    }
}

/* Collects the numbers of one group of one frame. */
static void
group_definition(const VaeNormArgs *a, float *y)
{
    const float *x = a->x;
    const size_t frame = count(a) / a->t;
    const int per = a->c / a->groups;
    for (int u = 0; u < a->t * a->groups; u++) {
        const size_t from = u / a->groups * frame;
        const int g = u % a->groups;
        long double sum = 0, squares = 0, n = 0;
        for (size_t i = from; i < from + frame; i++)
            if ((int) (i % a->c) / per == g)
                sum += x[i], n++;
        for (size_t i = from; i < from + frame; i++)
            if ((int) (i % a->c) / per == g)
                squares += (x[i] - sum / n) * (x[i] - sum / n);
        const double mean = (double) (sum / n);
        const double root = sqrt((double) (squares / n) + a->eps);
        for (size_t i = from; i < from + frame; i++)
            if ((int) (i % a->c) / per == g)
                y[i] =
                    (float) finish(a, (x[i] - mean) / root * a->gain[i % a->c] +
                                          a->offset[i % a->c]);
    }
}

/* Writes the norm to a.y, whose elements have `size` bytes. On cuda the kernel
 * also writes more than half of the frames to a tail, which must have the same
 * bytes. */
static void
norm(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeNormArgs a,
     size_t size)
{
    size_t kept = 0;
    if (a.kind == VAE_NORM_GROUP)
        a.sums = vae_check_norm_sums(t, &a);
    if (t->cuda && k == t->dut) {
        a.tail_frames = a.t / 2 + 1;
        kept = count(&a) / (size_t) a.t * (size_t) a.tail_frames * size;
        a.tail = vae_check_buffer(t, kept, size);
    }
    k->norm(q, &a);
    vae_check_equal(t, "tail", a.tail,
                    (uint8_t *) a.y + count(&a) * size - kept, kept);
}

static float *
run(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeNormArgs a)
{
    float *y = vae_check_buffer(t, count(&a) * sizeof *y, sizeof *y);
    a.y = y;
    norm(t, k, q, a, sizeof *y);
    return y;
}

static uint16_t *
run_bf16(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeNormArgs a)
{
    uint16_t *y = vae_check_buffer(t, count(&a) * sizeof *y, sizeof *y);
    a.y = y;
    a.y_type = VAE_TYPE_BF16;
    norm(t, k, q, a, sizeof *y);
    return y;
}

/* Returns the F32 result y, rounded. The SiLU of cuda for 16 bits is less
 * exact. */
static const void *
rounded(VaeCheck *t, const VaeKernels *k, const VaeNormArgs *a, const float *y,
        const uint16_t *found)
{
    return t->cuda && k == t->dut && a->silu
               ? vae_check_silu(t, found, y, count(a), VAE_TYPE_BF16)
               : vae_check_bf16(t, y, count(a));
}

/*
 * A BF16 output is the rounded F32 output. A BF16 input gives the result of the
 * same numbers in F32. A norm in place gives the same result. All are equal to
 * the bit.
 */
static void
types(VaeCheck *t, const VaeKernels *k, const VaeQueue *q, VaeNormArgs a,
      const float *y)
{
    const size_t n = count(&a);
    const uint16_t *found = run_bf16(t, k, q, a);
    vae_check_equal(t, "F32 to BF16", found, rounded(t, k, &a, y, found),
                    n * 2);

    uint16_t *x = vae_check_bf16(t, a.x, n);
    VaeNormArgs b = a;
    b.x = vae_check_floats(t, x, n);
    const float *wide = run(t, k, q, b);
    b.x = x;
    b.x_type = VAE_TYPE_BF16;
    vae_check_equal(t, "BF16 to F32", run(t, k, q, b), wide, n * 4);
    found = run_bf16(t, k, q, b);
    vae_check_equal(t, "BF16 to BF16", found, rounded(t, k, &b, wide, found),
                    n * 2);

    float *in_place = vae_check_random(t, n, 0);
    memcpy(in_place, a.x, n * sizeof *in_place);
    a.x = a.y = in_place;
    if (a.kind == VAE_NORM_GROUP)
        a.sums = vae_check_norm_sums(t, &a);
    k->norm(q, &a);
    vae_check_equal(t, "in place", in_place, y, n * 4);
}

/* Every queue gives the same bytes, and so does every single frame. */
static void
agreement(VaeCheck *t, const VaeKernels *k, VaeNormArgs a, const float *y)
{
    VaeQueue q;
    const size_t frame = count(&a) / a.t;
    for (size_t i = 0; vae_check_queue(i, &q); i++) {
        const float *z = run(t, k, &q, a);
        vae_check_equal(t, "another queue", z, y, count(&a) * 4);
        types(t, k, &q, a, y);
        vae_check_equal(t, "another queue, in BF16", run_bf16(t, k, &q, a),
                        run_bf16(t, k, &t->queue, a), count(&a) * 2);
    }
    VaeNormArgs one = a;
    one.t = 1;
    for (int f = 0; f < a.t; f++) {
        one.x = (const float *) a.x + f * frame;
        vae_check_equal(t, "one frame", run(t, k, &t->queue, one),
                        y + f * frame, frame * 4);
    }
}

/* Runs both tables, and returns the result of the one under test. */
static const float *
values(VaeCheck *t, VaeNormArgs a)
{
    const size_t n = count(&a);
    float *want = vae_check_buffer(t, n * sizeof *want, sizeof *want);
    if (a.kind == VAE_NORM_RMS)
        rms_definition(&a, want);
    else
        group_definition(&a, want);
    const double r = roundings(&a);
    const float *ref = run(t, t->ref, &t->queue, a);
    vae_check_close(t, "ref", ref, want, n,
                    (VaeBound){8 * 0x1p-24, 8 * 0x1p-24});
    if (!t->dut)
        return NULL;
    const float *dut = run(t, t->dut, &t->queue, a);
    vae_check_close(t, t->dut->name, dut, ref, n, (VaeBound){r, 1.2 * r});
    return dut;
}

static void
compare(VaeCheck *t, VaeNormArgs a)
{
    const float *dut = values(t, a);
    types(t, t->ref, &t->queue, a, run(t, t->ref, &t->queue, a));
    if (dut)
        agreement(t, t->dut, a, dut);
}

/* n: frames, height, width and channels. groups 0: an RMS norm. */
static VaeNormArgs
arguments(VaeCheck *t, const int n[4], int groups, bool silu)
{
    VaeNormArgs a = {.kind = groups ? VAE_NORM_GROUP : VAE_NORM_RMS,
                     .t = n[0],
                     .h = n[1],
                     .w = n[2],
                     .c = n[3],
                     .groups = groups,
                     .eps = groups ? 1e-6f : 0,
                     .silu = silu};
    a.x = vae_check_random(t, count(&a), 2);
    a.gain = vae_check_random(t, a.c, 3);
    if (groups)
        a.offset = vae_check_random(t, a.c, 1);
    return a;
}

static const char *const ends[] = {"", "_silu", "_relu"};

static void
check_rms(VaeCheck *t)
{
    static const int sizes[][4] = {
        {1, 1, 1, 1},   {1, 3, 3, 3},    {2, 5, 7, 8},    {1, 1, 33, 8},
        {3, 1, 31, 12}, {2, 4, 9, 16},   {1, 3, 11, 24},  {2, 9, 5, 32},
        {1, 7, 7, 37},  {3, 17, 6, 96},  {1, 5, 13, 192}, {2, 3, 5, 384},
        {1, 2, 3, 512}, {1, 1, 5, 1024},
    };
    for (size_t i = 0; i < 2 * VAE_COUNT(sizes); i++) {
        const int *n = sizes[i / 2];
        if (vae_check_begin(t, "rms%s_%dx%dx%dx%d", i % 2 ? "_silu" : "", n[0],
                            n[1], n[2], n[3]))
            compare(t, arguments(t, n, 0, i % 2));
    }
}

/* Without gains, and with an eps that changes the result: in half of the pixels
 * the mean square is as small as eps. */
static void
check_pixel(VaeCheck *t)
{
    static const int channels[] = {1, 8, 12, 37, 48, 128, 1024, 2048};
    for (size_t i = 0; i < 3 * VAE_COUNT(channels); i++) {
        const int c = channels[i / 3];
        if (!vae_check_begin(t, "rms_eps%s_c%d", ends[i % 3], c))
            continue;
        VaeNormArgs a = arguments(t, (const int[4]){2, 3, 7, c}, 0, i % 3 == 1);
        a.relu = i % 3 == 2;
        float *x = vae_check_random(t, count(&a), 2);
        for (size_t k = 0; k < count(&a); k++)
            x[k] *= k / (size_t) c % 2 ? 1e-4f : 1;
        a.x = x;
        a.gain = NULL;
        a.eps = 1e-8f;
        compare(t, a);
    }
}

/* With offsets, with and without gains. */
static void
check_offset(VaeCheck *t)
{
    static const int channels[] = {1, 8, 12, 37, 48, 128, 1024};
    for (size_t i = 0; i < 2 * VAE_COUNT(channels); i++) {
        const int c = channels[i / 2];
        if (!vae_check_begin(t, "rms_offset%s_c%d", i % 2 ? "_silu" : "", c))
            continue;
        VaeNormArgs a = arguments(t, (const int[4]){2, 3, 7, c}, 0, i % 2);
        a.offset = vae_check_random(t, (size_t) c, 1);
        a.eps = 1e-8f;
        compare(t, a);
        a.gain = NULL;
        compare(t, a);
    }
}

static void
check_group(VaeCheck *t)
{
    static const int sizes[][5] = {
        {1, 1, 2, 8, 2},      {2, 5, 7, 16, 8},    {1, 30, 35, 24, 8},
        {3, 13, 9, 32, 8},    {2, 33, 31, 32, 32}, {1, 9, 9, 128, 32},
        {2, 24, 43, 128, 32}, {1, 7, 5, 256, 32},  {1, 5, 3, 512, 32},
    };
    for (size_t i = 0; i < 3 * VAE_COUNT(sizes); i++) {
        const int *n = sizes[i / 3];
        if (!vae_check_begin(t, "group%s_%dx%dx%dx%d_%d", ends[i % 3], n[0],
                             n[1], n[2], n[3], n[4]))
            continue;
        VaeNormArgs a = arguments(t, n, n[4], i % 3 == 1);
        a.relu = i % 3 == 2;
        if (a.relu)
            a.eps = 0.25f; /* changes the result */
        compare(t, a);
    }
}

/* at 0: the mean is far from zero. Otherwise two numbers of each group are far
 * from all others, in the first pixel and in pixel `at`. Sums of squares must
 * be more exact than in fp32, and so must the mean. The bounds are those of
 * other input. */
static void
check_group_far(VaeCheck *t, int at)
{
    if (!t->dut ||
        !vae_check_begin(t, at ? "group_outlier_%d" : "group_far_mean", at))
        return;
    VaeNormArgs a = arguments(t, (const int[4]){1, 40, 40, 32}, 8, false);
    const size_t n = count(&a);
    float *x = vae_check_random(t, n, 1);
    for (size_t i = 0; !at && i < n; i++)
        x[i] += 100;
    for (int c = 0; at && c < a.c; c += a.c / a.groups)
        x[c] = x[(size_t) at * a.c + c] = 300;
    a.x = x;
    const float *ref = run(t, t->ref, &t->queue, a);
    const float *dut = run(t, t->dut, &t->queue, a);
    vae_check_close(t, t->dut->name, dut, ref, n,
                    (VaeBound){roundings(&a), 1.2 * roundings(&a)});
}

static void
check_group_mean(VaeCheck *t)
{
    check_group_far(t, 0);
}

/* Tests each pixel whose value a kernel may take as typical of its group: those
 * at one, three and five sixths of the 1600. */
static void
check_group_outlier(VaeCheck *t)
{
    static const int places[] = {266, 800, 1333};
    for (size_t i = 0; i < VAE_COUNT(places); i++)
        check_group_far(t, places[i]);
}

static void
extreme_inputs(float *x, int c)
{
    static const float values[] = {0,     1e-13f, 3e-13f, 1e-20f,   1e-30f,
                                   1e-6f, 1,      1e4f,   INFINITY, NAN};
    for (size_t p = 0; p < VAE_COUNT(values); p++)
        for (int i = 0; i < c; i++)
            x[p * c + i] = i % 3 ? values[p] : -values[p];
}

/* Pixels are all zero, tiny, large, infinite or NaN. All NaNs count as equal.
 */
static void
check_extremes(VaeCheck *t)
{
    for (int c = 8; c <= 96; c += 44) {
        if (!vae_check_begin(t, "rms_extremes_c%d", c))
            continue;
        VaeNormArgs a = arguments(t, (const int[4]){1, 1, 10, c}, 0, true);
        float *x = vae_check_random(t, count(&a), 0);
        extreme_inputs(x, c);
        a.x = x;
        values(t, a);
    }
}

/*
 * Tests only the activation: x is 1 everywhere, so gain v gives v * sigmoid(v).
 */
static void
check_silu(VaeCheck *t)
{
    if (!vae_check_begin(t, "rms_silu_range"))
        return;
    enum { C = 4096 };
    VaeNormArgs a = arguments(t, (const int[4]){1, 1, 1, C}, 0, true);
    float *x = vae_check_random(t, C, 0), *gain = vae_check_random(t, C, 0);
    static const float special[] = {0,     -0.0f, 1e-40f,   87,        88,
                                    88.5f, 89,    90,       104,       1e30f,
                                    3e38f, 1e-7f, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < C; i++) {
        x[i] = 1;
        gain[i] = (float) (i - C / 2) * (200.0f / C);
    }
    for (size_t i = 0; i < VAE_COUNT(special); i++) {
        gain[2 * i] = special[i];
        gain[2 * i + 1] = -special[i];
    }
    a.x = x;
    a.gain = gain;
    const float *ref = run(t, t->ref, &t->queue, a);
    if (!t->dut)
        return;
    /* e^v is off by at most 2 units, and three roundings follow. Below 1e-36
     * the result may be zero. */
    VaeQueue q;
    for (size_t i = 0; vae_check_queue(i, &q); i++)
        vae_check_close(t, t->dut->name, run(t, t->dut, &q, a), ref, C,
                        (VaeBound){1e-36, 5 * 0x1p-23});
}

static void
check_speed(VaeCheck *t)
{
    static const int channels[] = {8, 16, 32, 96, 192, 384};
    if (!t->bench || !t->dut)
        return;
    for (size_t i = 0; i < 4 * VAE_COUNT(channels); i++) {
        const int c = channels[i / 4];
        const bool bf16 = i % 2, group = i / 2 % 2;
        if (!vae_check_begin(t, "%s_speed_c%d_%s", group ? "group" : "rms", c,
                             bf16 ? "bf16" : "f32"))
            continue;
        VaeNormArgs a = arguments(t, (const int[4]){2, 240, 18432 / c, c},
                                  group ? 8 : 0, true);
        a.y = vae_check_buffer(t, count(&a) * 4, 4);
        a.y_type = bf16 ? VAE_TYPE_BF16 : VAE_TYPE_F32;
        a.sums = group ? vae_check_norm_sums(t, &a) : NULL;
        const double bytes = (double) count(&a) * (bf16 ? 6 : 8);
        while (vae_check_bench(t, bytes, 0))
            t->dut->norm(&t->queue, &a);
    }
}

VAE_CHECK_MAIN(check_rms, check_pixel, check_offset, check_group,
               check_group_mean, check_group_outlier, check_extremes,
               check_silu, check_speed)
