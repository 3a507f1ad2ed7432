/*
 * conv.c: compares the reference convolution with its definition.
 */
#include <sys/mman.h>

#include "../check.h"

/* All values of k, kt, s, st and pads that are allowed. */
typedef struct Shape {
    int k, kt, s, st, pad_y, pad_x;
} Shape;

static int
out_size(int n, const Shape *p, int extra)
{
    return p->k == 2 ? n : (n + 2 * p->pad_y + extra - p->k) / p->s + 1;
}

static size_t
weights(const VaeConvArgs *a)
{
    return (size_t) a->kt * a->k * a->k * a->c_in * a->c_out;
}

static int
frames_in(const VaeConvArgs *a)
{
    return (a->t - 1) * a->st + a->kt;
}

static size_t
in_count(const VaeConvArgs *a)
{
    return (size_t) frames_in(a) * a->h * a->w * a->c_in;
}

static size_t
out_count(const VaeConvArgs *a)
{
    return (size_t) a->t * a->ho * a->wo * a->c_out;
}

/* extra: rows and columns of zeros past the right and bottom edges. */
typedef struct Size {
    int t, h, w, c_in, c_out, extra;
} Size;

static VaeConvArgs
arguments(const Shape *p, Size n)
{
    return (VaeConvArgs){.t = n.t,
                         .h = n.h,
                         .w = n.w,
                         .c_in = n.c_in,
                         .c_out = n.c_out,
                         .ho = out_size(n.h, p, n.extra),
                         .wo = out_size(n.w, p, n.extra),
                         .k = p->k,
                         .kt = p->kt,
                         .s = p->s,
                         .st = p->st,
                         .pad_y = p->pad_y,
                         .pad_x = p->pad_x};
}

/* Adds input element i times its weights to all outputs that use it. */
static void
scatter(const VaeConvArgs *a, double *sum, double *size, size_t i)
{
    const size_t site = i / a->c_in;
    const int c = (int) (i % a->c_in), x = (int) (site % a->w);
    const int y = (int) (site / a->w % a->h), f = (int) (site / a->w / a->h);
    const double v = ((const float *) a->x)[i];
    for (int n = 0; n < a->kt * a->k * a->k; n++) {
        const int ft = f - n / (a->k * a->k);
        const int yt = y + a->pad_y - n / a->k % a->k;
        const int xt = x + a->pad_x - n % a->k;
        if (ft < 0 || yt < 0 || xt < 0 || ft % a->st || yt % a->s ||
            xt % a->s || ft / a->st >= a->t || yt / a->s >= a->ho ||
            xt / a->s >= a->wo)
            continue;
        const size_t at =
            (((size_t) (ft / a->st) * a->ho + yt / a->s) * a->wo + xt / a->s) *
            a->c_out;
        const float *w = a->weight + ((size_t) n * a->c_in + c) * a->c_out;
        for (int o = 0; o < a->c_out; o++) {
            sum[at + o] += v * w[o];
            size[at + o] += fabs(v * w[o]);
        }
    }
}

/* Computes the result, and the sum of the absolute values of its terms, from
 * which the bound for rounding follows. */
static void
definition(VaeCheck *t, const VaeConvArgs *a, double *want, double *size)
{
    const size_t n = out_count(a);
    const float *add = a->add;
    for (size_t i = 0; i < n; i++) {
        want[i] = (a->bias ? a->bias[i % a->c_out] : 0) + (add ? add[i] : 0);
        size[i] = fabs(want[i]) + (add ? fabsf(add[i]) : 0);
    }
    for (size_t i = 0; i < in_count(a); i++)
        scatter(a, want, size, i);
}

/* The error of a sum of n terms in fp32 is at most n roundings of the sum of
 * their absolute values. */
static void
compare(VaeCheck *t, const VaeConvArgs *a, const float *got)
{
    const size_t n = out_count(a);
    double *want = vae_check_buffer(t, n * sizeof *want, sizeof *want);
    double *size = vae_check_buffer(t, n * sizeof *size, sizeof *size);
    const double terms = (double) a->kt * a->k * a->k * a->c_in + 2;
    definition(t, a, want, size);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= terms * 0x1p-24 * size[i])) {
            vae_check_fail(t, "element %zu: found %.9g, expected %.9g", i,
                           got[i], want[i]);
            return;
        }
}

static void
one_case(VaeCheck *t, const Shape *p, Size size)
{
    if (!vae_check_begin(t, "conv_k%d_kt%d_s%d_st%d_p%d%d_%dx%dx%d_%dto%d_e%d",
                         p->k, p->kt, p->s, p->st, p->pad_y, p->pad_x, size.t,
                         size.h, size.w, size.c_in, size.c_out, size.extra))
        return;
    VaeConvArgs a = arguments(p, size);
    const size_t n = out_count(&a);
    float *y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    a.x = vae_check_random(t, in_count(&a), 1);
    a.weight = vae_check_random(t, weights(&a), 0.5f);
    a.y = y;
    t->ref->conv(&t->queue, &a); /* has neither bias nor add */
    compare(t, &a, y);
    a.bias = vae_check_random(t, size.c_out, 1);
    a.add = vae_check_random(t, n, 1);
    t->ref->conv(&t->queue, &a);
    compare(t, &a, y);

    float *in_place = vae_check_random(t, n, 1);
    memcpy(in_place, a.add, n * sizeof *in_place);
    a.add = a.y = in_place;
    t->ref->conv(&t->queue, &a);
    vae_check_equal(t, "y as add", in_place, y, n * sizeof *y);
}

static const Shape shapes[] = {
    {1, 1, 1, 1, 0, 0}, {3, 1, 1, 1, 1, 1}, {3, 3, 1, 1, 1, 1},
    {1, 3, 1, 1, 0, 0}, {1, 3, 1, 2, 0, 0}, {3, 1, 2, 1, 0, 0},
    {3, 3, 2, 2, 1, 1}, {3, 3, 2, 2, 0, 0}, {2, 1, 1, 1, 1, 1},
    {2, 1, 1, 1, 1, 0}, {2, 1, 1, 1, 0, 1}, {2, 1, 1, 1, 0, 0},
    {5, 5, 1, 1, 2, 2},
};

static void
check_random(VaeCheck *t)
{
    static const int sizes[][5] = {
        {1, 3, 3, 1, 1},  {2, 4, 5, 3, 8},   {3, 7, 3, 16, 5},
        {1, 5, 9, 7, 70}, {2, 3, 6, 33, 32}, {2, 6, 4, 8, 130},
    };
    for (size_t i = 0; i < VAE_COUNT(shapes); i++)
        for (size_t j = 0; j < VAE_COUNT(sizes); j++) {
            const int *n = sizes[j];
            const int most = shapes[i].s == 2 && shapes[i].pad_y == 0 ? 1 : 0;
            for (int extra = 0; extra <= most; extra++)
                one_case(t, &shapes[i],
                         (Size){n[0], n[1], n[2], n[3], n[4], extra});
        }
}

/* An input with a single 1 gives the weights without rounding. */
static void
check_one_hot(VaeCheck *t)
{
    for (size_t i = 0; i < VAE_COUNT(shapes); i++) {
        const Shape *p = &shapes[i];
        if (!vae_check_begin(t, "conv_one_hot_k%d_kt%d_s%d_st%d_p%d%d", p->k,
                             p->kt, p->s, p->st, p->pad_y, p->pad_x))
            continue;
        VaeConvArgs a =
            arguments(p, (Size){2, 4, 5, 2, 3, p->s == 2 && !p->pad_y});
        const size_t n = out_count(&a), n_in = in_count(&a);
        float *x = vae_check_random(t, n_in, 0);
        double *want = vae_check_buffer(t, n * sizeof *want, 8);
        double *size = vae_check_buffer(t, n * sizeof *size, 8);
        a.x = x;
        a.weight = vae_check_random(t, weights(&a), 1);
        float *y = vae_check_buffer(t, n * sizeof *y, 4);
        a.y = y;
        for (size_t hot = 0; hot < n_in; hot++) {
            memset(x, 0, n_in * sizeof *x);
            x[hot] = 1;
            t->ref->conv(&t->queue, &a);
            definition(t, &a, want, size);
            for (size_t j = 0; j < n; j++)
                if (y[j] != (float) want[j]) {
                    vae_check_fail(
                        t, "1 at %zu, element %zu: found %g, expected %g", hot,
                        j, y[j], want[j]);
                    return;
                }
        }
    }
}

/* The bytes of a frame do not depend on the number of frames in the call. */
static void
check_frames(VaeCheck *t)
{
    const Shape p = {3, 3, 1, 1, 1, 1};
    if (!vae_check_begin(t, "conv_frames"))
        return;
    VaeConvArgs a = arguments(&p, (Size){5, 6, 7, 24, 40, 0});
    const size_t n = out_count(&a), frame = n / 5;
    const size_t step = in_count(&a) / 7;
    float *all = vae_check_buffer(t, n * sizeof *all, 4);
    float *one = vae_check_buffer(t, frame * sizeof *one, 4);
    const float *x = vae_check_random(t, in_count(&a), 1);
    a.x = x;
    a.weight = vae_check_random(t, weights(&a), 0.1f);
    a.y = all;
    t->ref->conv(&t->queue, &a);
    a.t = 1;
    for (int f = 0; f < 5; f++) {
        a.x = x + f * step;
        a.y = one;
        t->ref->conv(&t->queue, &a);
        vae_check_equal(t, "frame", one, all + f * frame, frame * sizeof *one);
    }
}

/* Reads elements beyond 2^31 of a mapped input of which few pages are used. */
static void
check_far(VaeCheck *t)
{
    if (sizeof(size_t) < 8 || !vae_check_begin(t, "conv_far"))
        return;
    const size_t side = 32768, frame = side * side * 2;
    const size_t bytes = (3 * frame) * sizeof(float);
    float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x == MAP_FAILED) {
        printf("%s: not run, no address space for %zu bytes\n", t->name, bytes);
        return;
    }
    const float weight[6] = {1, 10, 100, 1000, 1e4f, 1e5f};
    float y[1] = {-1};
    const VaeConvArgs a = {.y = y,
                           .x = x,
                           .weight = weight,
                           .t = 1,
                           .h = (int) side,
                           .w = (int) side,
                           .c_in = 2,
                           .ho = 1,
                           .wo = 1,
                           .c_out = 1,
                           .k = 1,
                           .kt = 3,
                           .s = 1,
                           .st = 1};
    x[0] = 1;
    x[frame + 1] = 2;
    x[2 * frame] = 3;
    t->ref->conv(&t->queue, &a);
    vae_check_that(t, y[0] == 32001, "offsets of far frames are wrong");
    munmap(x, bytes);
}

static void
check_speed(VaeCheck *t)
{
    const Shape p = {3, 3, 1, 1, 1, 1};
    if (!t->bench || !vae_check_begin(t, "conv_speed_96"))
        return;
    VaeConvArgs a = arguments(&p, (Size){1, 64, 64, 96, 96, 0});
    a.x = vae_check_random(t, in_count(&a), 1);
    a.weight = vae_check_random(t, weights(&a), 0.1f);
    a.y = vae_check_buffer(t, out_count(&a) * 4, 4);
    const double flop = 2.0 * (double) out_count(&a) * 27 * 96;
    while (vae_check_bench(t, 0, flop))
        t->ref->conv(&t->queue, &a);
}

VAE_CHECK_MAIN(check_random, check_one_hot, check_frames, check_far,
               check_speed)
