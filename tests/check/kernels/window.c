/*
 * window.c: compares attention over a window with its definition, and gated
 * units and noise with theirs.
 */
#include <math.h>

#include "../check.h"
#include "number.h"
#include "sample.h"

/* False: t->dut is an emulated device without them. */
static bool has_matrix_units = true;

/* Element l of q (part 0), k or v of a head of pixel i of frame f of qkv. */
static double
part_of(const VaeWindowArgs *a, const float *qkv, int f, int i, int part, int l)
{
    const size_t row = ((size_t) f * a->h * a->w + i) * 3 * a->c;
    return qkv[row + (size_t) part * a->c + l];
}

/* q or k of a head, normed and turned, in double. */
static void
prepare(const VaeWindowArgs *a, const float *qkv, int f, int i, int part,
        int head, double *out)
{
    enum { N = VAE_WINDOW_HEAD, TIME = VAE_WINDOW_TIME };
    const float *gain = part ? a->k_gain : a->q_gain;
    double x[N], sum = 0;
    for (int l = 0; l < N; l++) {
        x[l] = part_of(a, qkv, f, i, part, head * N + l);
        sum += x[l] * x[l];
    }
    for (int l = 0; l < N; l++)
        x[l] *= gain[l] / sqrt(sum / N + a->eps) * (part ? 1 : 0.125);
    for (int l = 0; l < N; l += 2) {
        const int axis = l < TIME ? 0 : 1 + (l - TIME) / VAE_WINDOW_SPACE;
        const int d = axis ? VAE_WINDOW_SPACE : TIME;
        const int first = axis ? TIME + (axis - 1) * VAE_WINDOW_SPACE : 0;
        const double at = axis == 0   ? (double) (a->place->frame + f)
                          : axis == 1 ? i / a->w
                                      : i % a->w;
        const double turn = at * (float) pow(10000, -(double) (l - first) / d);
        out[l] = x[l] * cos(turn) - x[l + 1] * sin(turn);
        out[l + 1] = x[l] * sin(turn) + x[l + 1] * cos(turn);
    }
}

/* The first of k positions around i, all of which are first..end-1. */
static int
start_of(int i, int k, int first, int end)
{
    int start = i - k / 2;
    while (start < first)
        start++;
    while (start + k > end)
        start--;
    return start;
}

/* True if the key of frame f and pixel j is in the window of the query. */
static bool
sees(const VaeWindowArgs *a, int query_frame, int i, int f, int j)
{
    const VaePlaceInVideo *p = a->place;
    const int t = start_of(query_frame, a->kt, p->first, p->end);
    const int y = start_of(i / a->w, a->kh, 0, a->h);
    const int x = start_of(i % a->w, a->kw, 0, a->w);
    return f >= t && f < t + a->kt && j / a->w >= y && j / a->w < y + a->kh &&
           j % a->w >= x && j % a->w < x + a->kw;
}

/* What a result is compared with. */
typedef struct Wanted {
    const float *qkv;
    double *keys; /* of all heads, (tx, h * w, c) */
    VaeType type; /* of q and k after they have turned */
    double bound;
} Wanted;

static void
narrow(double *x, VaeType type)
{
    for (int l = 0; l < VAE_WINDOW_HEAD && type != VAE_TYPE_F32; l++) {
        uint16_t half;
        vae_store(&half, type, 0, (float) x[l]);
        x[l] = vae_load(&half, type, 0);
    }
}

/*
 * The matrix units of a device multiply q, k and the weights in the type of
 * qkv, if it has 16 bits. A weight is then off by u = 2^-9 (BF16) or 2^-12 of
 * it, and |v| < 3.5 in these cases: 4 u. As much again is for elements of q and
 * k that a difference in fp32 rounds to another neighbour.
 */
static Wanted
wanted(VaeCheck *t, const VaeKernels *k, const VaeWindowArgs *a)
{
    enum { N = VAE_WINDOW_HEAD };
    const size_t n = (size_t) a->tx * a->h * a->w * a->c;
    Wanted w = {.qkv = vae_check_widen(t, a->qkv, 3 * n, a->x_type),
                .keys = vae_check_buffer(t, n * sizeof *w.keys, 8),
                .bound = 1e-4};
    if (t->cuda && k == t->dut && has_matrix_units) {
        w.type = a->x_type;
        w.bound = w.type == VAE_TYPE_F32   ? 1e-4
                  : w.type == VAE_TYPE_F16 ? 0x1p-9
                                           : 0x1p-6;
    }
    double *to = w.keys;
    for (int f = 0; f < a->tx; f++)
        for (int i = 0; i < a->h * a->w; i++)
            for (int head = 0; head < a->c / N; head++, to += N) {
                prepare(a, w.qkv, f, i, 1, head, to);
                narrow(to, w.type);
            }
    return w;
}

static void
definition(const VaeWindowArgs *a, const Wanted *w, int f, int i, int head,
           double *y)
{
    enum { N = VAE_WINDOW_HEAD };
    double q[N], weight = 0;
    prepare(a, w->qkv, f, i, 0, head, q);
    narrow(q, w->type);
    for (int l = 0; l < N; l++)
        y[l] = 0;
    for (int g = 0; g < a->tx; g++)
        for (int j = 0; j < a->h * a->w; j++) {
            if (!sees(a, f, i, g, j))
                continue;
            double score = 0;
            const double *k =
                w->keys + ((size_t) g * a->h * a->w + j) * a->c + head * N;
            for (int l = 0; l < N; l++)
                score += q[l] * k[l];
            weight += exp(score);
            for (int l = 0; l < N; l++)
                y[l] += exp(score) * part_of(a, w->qkv, g, j, 2, head * N + l);
        }
    for (int l = 0; l < N; l++)
        y[l] /= weight;
}

/* True if the frame has a result. */
static bool
is_there(const VaeWindowArgs *a, int f)
{
    const VaePlaceInVideo *p = a->place;
    const int at = f + a->shift, first = start_of(at, a->kt, p->first, p->end);
    return at >= p->first && at < p->end && at >= 0 && at < a->tx &&
           first >= 0 && first >= p->first && first + a->kt <= a->tx;
}

static void
compare(VaeCheck *t, const VaeWindowArgs *a, const Wanted *w)
{
    enum { N = VAE_WINDOW_HEAD };
    const float *got = a->y;
    double want[N];
    for (int f = 0; f < a->t; f++)
        for (int i = 0; i < a->h * a->w; i++)
            for (int head = 0; head < a->c / N; head++, got += N) {
                const bool there = is_there(a, f);
                memset(want, 0, sizeof want);
                if (there)
                    definition(a, w, f + a->shift, i, head, want);
                if (!vae_check_row(t, got, want, N, there ? w->bound : 0,
                                   "type %d frame %d site %d head %d",
                                   a->x_type, f, i, head))
                    return;
            }
}

/* Each frame of y in a call of its own, over only the frames of its window,
 * gives the same bytes. */
static void
agree(VaeCheck *t, const VaeKernels *k, VaeWindowArgs a, const float *y)
{
    const size_t size = vae_check_size(a.x_type);
    const size_t frame = (size_t) a.h * a.w * a.c;
    const VaePlaceInVideo *whole = a.place;
    const uint8_t *qkv = a.qkv;
    float *z = vae_check_buffer(t, frame * sizeof *z, sizeof *z);
    VaePlaceInVideo place;
    VaeWindowArgs one = a;
    one.y = z;
    one.t = 1;
    one.tx = a.kt;
    one.place = &place;
    for (int f = 0; f < a.t; f++) {
        const int at = f + a.shift;
        if (!is_there(&a, f))
            continue;
        const int from = start_of(at, a.kt, whole->first, whole->end);
        place = (VaePlaceInVideo){whole->frame + from, whole->first - from,
                                  whole->end - from};
        one.qkv = qkv + (size_t) from * 3 * frame * size;
        one.shift = at - from;
        k->window(&t->queue, &one);
        vae_check_equal(t, "one frame", z, y + (size_t) f * frame,
                        frame * sizeof *z);
    }
}

/* The number of threads changes no byte, other vector code only the rounding.
 */
static void
other_queues(VaeCheck *t, const VaeKernels *k, VaeWindowArgs a, const Wanted *w)
{
    const size_t n = (size_t) a.t * a.h * a.w * a.c;
    const float *y = a.y;
    VaeQueue q;
    a.y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    for (size_t i = 0; k != t->ref && !t->cuda && vae_check_queue(i, &q); i++) {
        memset(a.y, 0xff, n * sizeof *y);
        k->window(&q, &a);
        if (q.vectors == VAE_VECTORS_BEST)
            vae_check_equal(t, "threads", a.y, y, n * sizeof *y);
        else
            compare(t, &a, w);
    }
}

static void
run(VaeCheck *t, const VaeKernels *k, VaeWindowArgs a, const float *x)
{
    const size_t out = (size_t) a.t * a.h * a.w * a.c;
    const size_t in = (size_t) a.tx * a.h * a.w * 3 * a.c;
    const size_t bytes = out * sizeof(float);
    float *y = a.y = vae_check_buffer(t, bytes, sizeof(float));
    a.qkv = vae_check_narrow(t, x, in, a.x_type, 0);
    a.scratch = vae_check_buffer(t, k->window_scratch(a.tx, a.h, a.w, a.c), 16);
    k->window(&t->queue, &a);
    const Wanted w = wanted(t, k, &a);
    compare(t, &a, &w);
    agree(t, k, a, y);
    other_queues(t, k, a, &w);
    if (a.x_type == VAE_TYPE_F32)
        return;
    a.y_type = a.x_type;
    a.y = vae_check_buffer_at(t, bytes / 2, 2);
    a.qkv = vae_check_narrow(t, x, in, a.x_type, 2);
    k->window(&t->queue, &a);
    vae_check_equal(t, "rounded, at an odd address", a.y,
                    vae_check_narrow(t, y, out, a.y_type, 0), bytes / 2);
}

/* size: t, tx, h, w, c; window: kt, kh, kw. */
static void
one_case(VaeCheck *t, const int size[5], const int window[3],
         VaePlaceInVideo place)
{
    if (!vae_check_begin(t, "window_%dx%dx%dx%d_%dx%dx%d_%d_%d", size[1],
                         size[2], size[3], size[4], window[0], window[1],
                         window[2], place.first, place.end))
        return;
    VaePlaceInVideo *there =
        vae_check_buffer(t, sizeof place, _Alignof(VaePlaceInVideo));
    *there = place;
    const VaeWindowArgs a = {.q_gain = vae_check_random(t, VAE_WINDOW_HEAD, 2),
                             .k_gain = vae_check_random(t, VAE_WINDOW_HEAD, 2),
                             .place = there,
                             .t = size[0],
                             .tx = size[1],
                             .shift = window[0] / 2,
                             .h = size[2],
                             .w = size[3],
                             .c = size[4],
                             .kt = window[0],
                             .kh = window[1],
                             .kw = window[2],
                             .eps = 1e-6f};
    const float *x = vae_check_random(
        t, (size_t) size[1] * size[2] * size[3] * 3 * size[4], 1);
    run(t, t->ref, a, x);
    VaeWindowArgs b = a;
    for (int type = 0; t->dut && t->dut->window && type < 3; type++) {
        b.x_type = (VaeType) type;
        if (type != VAE_TYPE_F16 || t->cuda)
            run(t, t->dut, b, x);
    }
}

#ifdef VAE_CHECK_CUDA
void vae_emu_set_capability(int capability);

static void
check_old_card(VaeCheck *t)
{
    const int size[5] = {2, 4, 5, 9, 128};
    vae_emu_set_capability(75);
    has_matrix_units = false;
    one_case(t, size, (int[]){3, 5, 3}, (VaePlaceInVideo){100, -100, 9});
    has_matrix_units = true;
    vae_emu_set_capability(90);
}
#else
static void
check_old_card(VaeCheck *t)
{
}
#endif

/* In the middle of a video, at its start, at its end, and far from its start:
 * a line of 3d frames before the new ones. */
static void
check_window(VaeCheck *t)
{
    enum { FAR = 1 << 30 };
    static const int small[5] = {3, 5, 3, 4, 64}, wide[5] = {2, 4, 5, 9, 128};
    static const int tall[5] = {7, 17, 6, 5, 64};
    static const int many[5] = {1, 3, 13, 18, 64},
                     full[5] = {1, 11, 11, 12, 64};
    one_case(t, small, (int[]){3, 3, 3}, (VaePlaceInVideo){5, -5, FAR});
    one_case(t, small, (int[]){3, 3, 3}, (VaePlaceInVideo){-3, 3, FAR});
    one_case(t, small, (int[]){3, 3, 3}, (VaePlaceInVideo){-2, 2, FAR});
    one_case(t, small, (int[]){3, 1, 3}, (VaePlaceInVideo){2, -2, 4});
    one_case(t, wide, (int[]){3, 5, 5}, (VaePlaceInVideo){10000, -9999, FAR});
    one_case(t, wide, (int[]){3, 3, 7}, (VaePlaceInVideo){0, 0, 3});
    one_case(t, tall, (int[]){5, 3, 5}, (VaePlaceInVideo){-4, 4, FAR});
    one_case(t, tall, (int[]){11, 5, 5}, (VaePlaceInVideo){1, -1, 15});
    one_case(t, tall, (int[]){11, 5, 3}, (VaePlaceInVideo){0, 0, 30});
    one_case(t, many, (int[]){3, 7, 7}, (VaePlaceInVideo){3, -3, FAR});
    one_case(t, many, (int[]){3, 1, 9}, (VaePlaceInVideo){-1, 1, FAR});
    one_case(t, full, (int[]){11, 11, 11}, (VaePlaceInVideo){6, -6, FAR});
}

/* Stage 5 of LTX-2.5, of which each query reads 11x11x11 keys. */
static void
check_speed(VaeCheck *t)
{
    enum { T = 4, TX = 14, H = 48, W = 64, C = 256, K = 11 };
    const size_t n = (size_t) H * W * C;
    if (!t->bench || !t->dut)
        return;
    for (int type = 0; type < 3; type += 2) {
        if (!vae_check_begin(t, "window_speed_%d", type))
            return;
        VaePlaceInVideo *place =
            vae_check_buffer(t, sizeof *place, _Alignof(VaePlaceInVideo));
        *place = (VaePlaceInVideo){50, -50, 100};
        const float *x = vae_check_random(t, TX * n * 3, 1);
        const VaeWindowArgs a = {
            .y = vae_check_buffer(t, T * n * 4, 4),
            .qkv = vae_check_narrow(t, x, TX * n * 3, (VaeType) type, 0),
            .q_gain = vae_check_random(t, VAE_WINDOW_HEAD, 1),
            .k_gain = vae_check_random(t, VAE_WINDOW_HEAD, 1),
            .place = place,
            .scratch =
                vae_check_buffer(t, t->dut->window_scratch(TX, H, W, C), 16),
            .x_type = (VaeType) type,
            .y_type = (VaeType) type,
            .t = T,
            .tx = TX,
            .shift = K / 2,
            .h = H,
            .w = W,
            .c = C,
            .kt = K,
            .kh = K,
            .kw = K,
            .eps = 1e-6f};
        while (vae_check_bench(t, 0, 4.0 * K * K * K * T * (double) n))
            t->dut->window(&t->queue, &a);
    }
}

static void
check_glu(VaeCheck *t)
{
    enum { ROWS = 37, C = 20 };
    if (!vae_check_begin(t, "glu"))
        return;
    const VaeKernels *const kernels[] = {t->ref, t->dut};
    const float *x = vae_check_random(t, ROWS * 2 * C, 3);
    float *y = vae_check_buffer(t, ROWS * C * sizeof *y, sizeof *y);
    float *want = vae_check_buffer(t, ROWS * C * sizeof *y, sizeof *y);
    for (int i = 0; i < ROWS * C; i++) {
        const float *row = x + i / C * 2 * C;
        const double g = row[i % C], v = row[C + i % C];
        want[i] = (float) (g / (1 + exp(-g)) * v);
    }
    for (int i = 0; i < 2; i++) {
        if (!kernels[i] || !kernels[i]->glu)
            continue;
        memset(y, 0xff, ROWS * C * sizeof *y);
        kernels[i]->glu(&t->queue,
                        &(VaeGluArgs){.y = y, .x = x, .rows = ROWS, .c = C});
        vae_check_close(t, "y", y, want, ROWS * C, (VaeBound){1e-6, 1e-5});
    }
}

/* Two calls overlap by a frame and have the same numbers there; the deviation
 * is 1. */
static void
check_noise(VaeCheck *t)
{
    enum { T = 3, H = 5, W = 6, SIDE = 4, FRAME = H * W * 3 * SIDE * SIDE };
    if (!vae_check_begin(t, "noise"))
        return;
    const VaeKernels *const kernels[] = {t->ref, t->dut};
    VaePlaceInVideo *place =
        vae_check_buffer(t, sizeof *place, _Alignof(VaePlaceInVideo));
    float *y = vae_check_buffer(t, T * FRAME * sizeof *y, sizeof *y);
    for (int i = 0; i < 2; i++) {
        double sum = 0, squares = 0;
        int wrong = 0;
        if (!kernels[i] || !kernels[i]->noise)
            continue;
        *place = (VaePlaceInVideo){-1, 1, 9};
        kernels[i]->noise(&t->queue, &(VaeNoiseArgs){.y = y,
                                                     .place = place,
                                                     .seed = 7,
                                                     .t = T,
                                                     .h = H,
                                                     .w = W,
                                                     .side = SIDE});
        for (int k = 0; k < T * FRAME; k++) {
            const int f = k / FRAME - 1, l = k % (3 * SIDE * SIDE);
            const int pixel = k % FRAME / (3 * SIDE * SIDE);
            const int row = pixel / W * SIDE + l % SIDE;
            const int column = pixel % W * SIDE + l / SIDE % SIDE;
            const double want =
                f < 0 ? 0
                      : vae_normal(7, (uint64_t) f, l / (SIDE * SIDE), row,
                                   column);
            wrong += !(fabs(y[k] - want) <= 1e-6 * fabs(want));
            sum += y[k];
            squares += y[k] * y[k];
        }
        vae_check_that(t, wrong == 0, "the numbers are those of vae_normal()");
        vae_check_that(t, fabs(sum / (2 * FRAME)) < 0.1,
                       "the mean of the numbers is 0");
        vae_check_that(t, fabs(squares / (2 * FRAME) - 1) < 0.1,
                       "the variance of the numbers is 1");
    }
}

VAE_CHECK_MAIN(check_window, check_old_card, check_glu, check_noise,
               check_speed)
