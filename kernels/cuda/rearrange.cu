/*
 * rearrange.cu: moves and converts elements; the soft clamp.
 */
#include "common.cuh"
#include "cuda.h"

/* ----------------------------------------------------------- unfold */

/* The first element of x for phase i of a pixel. *step: distance to that of
 * the next of its fs x fs pixels. */
VAE_DEVICE size_t
source(const VaeRearrangeArgs &a, size_t pixel, int i, size_t *step)
{
    *step = 0;
    if (a.kind == VAE_UNFOLD_NEAREST)
        return (pixel * a.ft + i) * a.c;
    if (a.kind == VAE_NEAREST)
        return pixel * a.c;
    *step = (size_t) a.c;
    if (a.kind == VAE_SHUFFLE_TRQC)
        return (pixel * a.ft + i) * a.fs * a.fs * a.c;
    *step = (size_t) a.c * a.ft;
    if (a.kind == VAE_SHUFFLE_RQTC)
        return pixel * a.fs * a.fs * *step + (size_t) i * a.c;
    *step = a.phase;
    return pixel * a.c;
}

/*
 * A thread writes one octet of the fs x fs pixels of y for pixel (blockIdx.y,
 * i / octets) of x, in frame blockIdx.z of y. For nearest it reads once.
 */
template <int X, int Y>
VAE_KERNEL void
unfold(VaeRearrangeArgs a)
{
    const int octets = (a.c + 7) / 8;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int column = i / octets, first = i % octets * 8;
    if (column >= a.w)
        return;
    const int to = (int) blockIdx.z, k = a.drop && to ? to + 1 : to;
    const int row = (int) blockIdx.y, n = vae_octet_valid(first, a.c);
    const size_t pixel = ((size_t) (k / a.ft) * a.h + row) * a.w + column;
    const size_t line = (size_t) a.w * a.fs * a.c;
    size_t step;
    size_t from = source(a, pixel, k % a.ft, &step) + first;
    size_t at = ((size_t) to * a.h + row) * a.fs * line +
                (size_t) column * a.fs * a.c + first;
    VaeOctet<X> x;
    VaeOctet<Y> y;
    for (int r = 0; r < a.fs; r++, at += line)
        for (int q = 0; q < a.fs; q++, from += step) {
            if (step || r + q == 0) {
                vae_octet_load<X>(x, a.x, a.x_type, from, n);
                vae_octet_convert<X, Y>(y, x);
            }
            vae_octet_store<Y>(a.y, a.y_type, at + (size_t) q * a.c, y, n);
        }
}

static void
launch_unfold(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    const size_t c = (size_t) a->c;
    const unsigned columns =
        vae_blocks((c + 7) / 8 * (size_t) a->w, VAE_THREADS);
    const dim3 grid(columns, (unsigned) a->h,
                    (unsigned) (a->t * a->ft - a->drop));
    const auto run = [&](auto x, auto y) {
        vae_launch(unfold<decltype(x)::value, decltype(y)::value>, grid,
                   VAE_THREADS, 0, q->stream, *a);
    };
    if (vae_octets_aligned(a->x, c) && vae_octets_aligned(a->y, c) &&
        a->phase % 8 == 0)
        vae_with_types(a->x_type, a->y_type, run);
    else
        run(VaeTypeIs<VAE_ANY>(), VaeTypeIs<VAE_ANY>());
}

/* ------------------------------------- borders, and folding in runs */

/* The row or column, of n, that is number i with a border in front. */
VAE_DEVICE int
inside(const VaeRearrangeArgs &a, int i, int n)
{
    const int past = a.kind == VAE_REFLECT;
    return i < 0 ? past : i >= n ? n - 1 - past : i;
}

/* The pixel of x whose channels run i of row blockIdx.y of frame blockIdx.z of
 * y has. */
VAE_DEVICE size_t
pixel_of(const VaeRearrangeArgs &a, int i)
{
    int f = (int) blockIdx.z, row = (int) blockIdx.y, column;
    if (a.kind != VAE_FOLD_TRQC) {
        row = inside(a, row - a.top, a.h);
        column = inside(a, i - 1, a.w);
    } else {
        const int area = a.fs * a.fs, k = i % (a.ft * area);
        f = f * a.ft + k / area - (a.ft - a.t % a.ft) % a.ft;
        f = f < 0 ? 0 : f;
        row = row * a.fs + k / a.fs % a.fs;
        column = i / (a.ft * area) * a.fs + k % a.fs;
    }
    return ((size_t) f * a.h + row) * a.w + column;
}

/* A thread writes octet i % octets of run i / octets, of `runs` of c channels,
 * of row blockIdx.y of frame blockIdx.z of y. */
template <int X, int Y>
VAE_KERNEL void
move_runs(VaeRearrangeArgs a, int runs, int c)
{
    const int octets = (c + 7) / 8;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int run = i / octets, first = i % octets * 8;
    if (run >= runs)
        return;
    const int n = vae_octet_valid(first, c);
    const size_t from = pixel_of(a, run) * c + first;
    const size_t row = (size_t) blockIdx.z * gridDim.y + blockIdx.y;
    const size_t to = (row * runs + run) * c + first;
    VaeOctet<X> x;
    VaeOctet<Y> y;
    vae_octet_load<X>(x, a.x, a.x_type, from, n);
    vae_octet_convert<X, Y>(y, x);
    vae_octet_store<Y>(a.y, a.y_type, to, y, n);
}

static void
launch_runs(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    const bool fold = a->kind == VAE_FOLD_TRQC;
    const int block = a->ft * a->fs * a->fs;
    const size_t c = (size_t) (fold ? a->c / block : a->c);
    const int runs = fold ? a->w / a->fs * block : a->w + 2;
    const dim3 grid(vae_blocks((c + 7) / 8 * (size_t) runs, VAE_THREADS),
                    (unsigned) (fold ? a->h / a->fs : a->rows),
                    (unsigned) ((a->t + a->ft - 1) / a->ft));
    const auto run = [&](auto x, auto y) {
        vae_launch(move_runs<decltype(x)::value, decltype(y)::value>, grid,
                   VAE_THREADS, 0, q->stream, *a, runs, (int) c);
    };
    if (vae_octets_aligned(a->x, c) && vae_octets_aligned(a->y, c))
        vae_with_types(a->x_type, a->y_type, run);
    else
        run(VaeTypeIs<VAE_ANY>(), VaeTypeIs<VAE_ANY>());
}

/* ------------------------------------------------------------- fold */

/*
 * Moves element i of the folded row blockIdx.y of frame blockIdx.z, with
 * `colours` of p x p pixels of ft frames, to or from the flat pictures.
 */
VAE_KERNEL void
fold(VaeRearrangeArgs a, int w, int colours, bool back, bool column_first)
{
    const int p = a.fs, area = p * p, block = a.ft * area;
    const int deep = colours * block;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    if (i >= w * deep)
        return;
    const int x = i / deep, k = i % deep;
    const int slow = k / p % p, fast = k % p;
    const int r = column_first ? fast : slow;
    const int q = column_first ? slow : fast;
    const size_t row = (size_t) blockIdx.z * gridDim.y + blockIdx.y;
    const size_t f = (size_t) blockIdx.z * a.ft + k / area % a.ft;
    const size_t flat_row = (f * gridDim.y + blockIdx.y) * p + r;
    const size_t flat =
        (flat_row * w * p + (size_t) x * p + q) * colours + k / block;
    const size_t folded = row * w * deep + i;
    vae_store(a.y, a.y_type, back ? flat : folded,
              vae_load(a.x, a.x_type, back ? folded : flat));
}

/*
 * The same for common cases with x and y of one type: in whole words, two
 * 16-bit values at a time, and without a division.
 */

/* Element i of `word`, in the low part of a word. */
template <int T>
VAE_DEVICE uint32_t
number(const uint32_t *word, int i)
{
    return T == VAE_TYPE_F32 ? word[i] : word[i / 2] >> i % 2 * 16 & 0xffffu;
}

template <int T>
VAE_DEVICE uint32_t
numbers(const uint32_t *word, int i, int next)
{
    const uint32_t low = number<T>(word, i);
    return T == VAE_TYPE_F32 ? low : low | number<T>(word, next) << 16;
}

/* For three colours: the index of element i of a folded pixel in its P x P
 * flat pixels; with BACK the reverse. */
template <int P, bool BACK, bool COLUMN_FIRST>
VAE_DEVICE int
place_of(int i)
{
    const int area = P * P, line = 3 * P;
    const int slow = BACK ? i / line : i / P % P,
              fast = BACK ? i / 3 % P : i % P;
    const int r = COLUMN_FIRST && !BACK ? fast : slow;
    const int q = COLUMN_FIRST && !BACK ? slow : fast;
    if (!BACK)
        return r * line + q * 3 + i / area;
    return i % 3 * area + (COLUMN_FIRST ? q * P + r : r * P + q);
}

/* Moves folded pixel (blockIdx.y, thread) of frame blockIdx.z, in words. */
template <int T, int P, bool BACK, bool COLUMN_FIRST>
VAE_KERNEL void
fold_three(VaeRearrangeArgs a, int w)
{
    const int EACH = T == VAE_TYPE_F32 ? 1 : 2, LINE = 3 * P / EACH;
    const int x = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    if (x >= w)
        return;
    const size_t row = (size_t) blockIdx.z * gridDim.y + blockIdx.y;
    const size_t folded = (row * w + x) * P * LINE;
    const size_t flat = (row * P * w + x) * LINE, line = (size_t) w * LINE;
    const uint32_t *from = static_cast<const uint32_t *>(a.x);
    uint32_t *to = static_cast<uint32_t *>(a.y);
    uint32_t word[P * LINE];
    VAE_UNROLL
    for (int i = 0; i < P * LINE; i++)
        word[i] = from[BACK ? folded + i : flat + i / LINE * line + i % LINE];
    VAE_UNROLL
    for (int i = 0; i < P * LINE; i++)
        to[BACK ? flat + i / LINE * line + i % LINE : folded + i] =
            numbers<T>(word, place_of<P, BACK, COLUMN_FIRST>(i * EACH),
                       place_of<P, BACK, COLUMN_FIRST>(i * EACH + 1));
}

/* Unfolds eight colours of 2 x 2 pixels: octet i % octets of folded pixel
 * (blockIdx.y, i / octets) of frame blockIdx.z. */
template <int T>
VAE_KERNEL void
unfold_octets(VaeRearrangeArgs a, bool column_first)
{
    const int WORDS = VaeOctet<T>::WORDS, octets = a.c / 8;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int column = i / octets, first = i % octets * 8;
    if (column >= a.w)
        return;
    const size_t row = (size_t) blockIdx.z * a.h + blockIdx.y;
    const size_t from = ((row * a.w + column) * a.c + first) * 4;
    const size_t line = (size_t) a.w * 2 * a.c;
    size_t at = row * 2 * line + (size_t) column * 2 * a.c + first;
    uint32_t word[4 * WORDS];
    VaeOctet<T> o;
    VAE_UNROLL
    for (int k = 0; k < 4; k++) {
        vae_octet_load<T>(o, a.x, a.x_type, from + 8 * k, 8);
        VAE_UNROLL
        for (int j = 0; j < WORDS; j++)
            word[k * WORDS + j] = o.word[j];
    }
    VAE_UNROLL
    for (int k = 0; k < 4; k++) {
        const int r = column_first ? k % 2 : k / 2;
        const int q = column_first ? k / 2 : k % 2;
        const int next = 32 / WORDS; /* elements per word */
        VAE_UNROLL
        for (int j = 0; j < WORDS; j++)
            o.word[j] = numbers<T>(word, next * j + k, next * j + k + 4);
        vae_octet_store<T>(a.y, a.y_type, at + r * line + (size_t) q * a.c, o,
                           8);
    }
}

template <int T, int P>
static void
launch_three(const VaeQueue *q, const VaeRearrangeArgs *a, dim3 grid, int w)
{
    vae_launch(a->kind == VAE_FOLD_CQR     ? fold_three<T, P, false, true>
               : a->kind == VAE_FOLD_CRQ   ? fold_three<T, P, false, false>
               : a->kind == VAE_UNFOLD_CQR ? fold_three<T, P, true, true>
                                           : fold_three<T, P, true, false>,
               grid, VAE_THREADS, 0, q->stream, *a, w);
}

/* Launches one of the above for w by h folded pixels; false if none fits. */
static bool
launch_fold_words(const VaeQueue *q, const VaeRearrangeArgs *a, int w, int h,
                  int colours)
{
    const bool wide = a->x_type == VAE_TYPE_F32;
    const bool back = a->kind == VAE_UNFOLD_CQR || a->kind == VAE_UNFOLD_CRQ;
    const bool octets = colours % 8 == 0 && back && a->fs == 2 &&
                        vae_octets_aligned(a->x, 8) &&
                        vae_octets_aligned(a->y, 8);
    const bool words = ((uintptr_t) a->x | (uintptr_t) a->y) % 4 == 0;
    dim3 grid(vae_blocks((size_t) w, VAE_THREADS), (unsigned) h,
              (unsigned) a->t);
    if (a->x_type != a->y_type || a->ft > 1)
        return false;
    if (octets) {
        grid.x = vae_blocks((size_t) w * colours / 8, VAE_THREADS);
        vae_launch(
            wide ? unfold_octets<VAE_TYPE_F32> : unfold_octets<VAE_TYPE_BF16>,
            grid, VAE_THREADS, 0, q->stream, *a, a->kind == VAE_UNFOLD_CQR);
        return true;
    }
    if (colours != 3 || (a->fs != 2 && a->fs != 4) || !words)
        return false;
    if (wide && a->fs == 2)
        launch_three<VAE_TYPE_F32, 2>(q, a, grid, w);
    else if (wide)
        launch_three<VAE_TYPE_F32, 4>(q, a, grid, w);
    else if (a->fs == 2)
        launch_three<VAE_TYPE_BF16, 2>(q, a, grid, w);
    else
        launch_three<VAE_TYPE_BF16, 4>(q, a, grid, w);
    return true;
}

static void
launch_fold(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    const bool back = a->kind == VAE_UNFOLD_CQR || a->kind == VAE_UNFOLD_CRQ;
    const bool column_first =
        a->kind == VAE_FOLD_CQR || a->kind == VAE_UNFOLD_CQR;
    const int p = a->fs, block = a->ft * p * p;
    const int h = back ? a->h : a->h / p, w = back ? a->w : a->w / p;
    const int colours = back ? a->c : a->c / block;
    const dim3 grid(vae_blocks((size_t) w * colours * block, VAE_THREADS),
                    (unsigned) h, (unsigned) (back ? a->t : a->t / a->ft));
    if (launch_fold_words(q, a, w, h, colours))
        return;
    vae_launch(fold, grid, VAE_THREADS, 0, q->stream, *a, w, colours, back,
               column_first);
}

void
vae_cuda_rearrange(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    if (a->t * a->ft - a->drop < 1)
        return;
    if (vae_rearrange_is_border(a->kind) || a->kind == VAE_FOLD_TRQC)
        launch_runs(q, a);
    else if (a->kind >= VAE_FOLD_CQR)
        launch_fold(q, a);
    else
        launch_unfold(q, a);
}

/* --------------------------------------------- cast and soft clamp */

/* Converts n elements from element `start` on. */
template <int X, int Y, bool CLAMP>
VAE_KERNEL void
convert(VaeCastArgs a, size_t start)
{
    const size_t i =
        8 * ((size_t) blockIdx.x * VAE_THREADS + threadIdx.x) + start;
    if (i >= a.n)
        return;
    const int n = a.n - i < 8 ? (int) (a.n - i) : 8;
    VaeOctet<X> x;
    VaeOctet<Y> y;
    vae_octet_load<X>(x, a.x, a.x_type, i, n);
    if (CLAMP) {
        float v[8];
        VAE_UNROLL
        for (int l = 0; l < 8; l++)
            v[l] = 3 * tanhf(vae_octet_get<X>(x, l) * (1 / 3.0f));
        vae_octet_set<Y>(y, v);
    } else {
        vae_octet_convert<X, Y>(y, x);
    }
    vae_octet_store<Y>(a.y, a.y_type, i, y, n);
}

/* Converts whole octets if the addresses are aligned, then the rest. */
template <bool CLAMP>
static void
launch_convert(const VaeQueue *q, const VaeCastArgs *a)
{
    const bool aligned =
        vae_octets_aligned(a->x, 8) && vae_octets_aligned(a->y, 8);
    const size_t whole = aligned ? a->n / 8 * 8 : 0;
    VaeCastArgs first = *a;
    first.n = whole;
    if (whole)
        vae_with_types(a->x_type, a->y_type, [&](auto x, auto y) {
            vae_launch(convert<decltype(x)::value, decltype(y)::value, CLAMP>,
                       vae_blocks(whole, 8 * VAE_THREADS), VAE_THREADS, 0,
                       q->stream, first, 0);
        });
    if (whole < a->n)
        vae_launch(convert<VAE_ANY, VAE_ANY, CLAMP>,
                   vae_blocks(a->n - whole, 8 * VAE_THREADS), VAE_THREADS, 0,
                   q->stream, *a, whole);
}

void
vae_cuda_cast(const VaeQueue *q, const VaeCastArgs *a)
{
    launch_convert<false>(q, a);
}

void
vae_cuda_clamp(const VaeQueue *q, const VaeClampArgs *a)
{
    const VaeCastArgs as_cast = {a->y, a->x, a->x_type, a->y_type, a->n};
    launch_convert<true>(q, &as_cast);
}
