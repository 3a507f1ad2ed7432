/*
 * rearrange.cu: moving and converting elements, the soft clamp.
 */
#include "common.cuh"
#include "cuda.h"

/* ----------------------------------------------------------- unfold */

/* Where a pixel of x begins, frame i of those made of it, and how far it is
 * from there to what the next of the fs x fs pixels is made of. */
VAE_DEVICE size_t
source(const VaeRearrangeArgs &a, size_t pixel, int i, size_t *step)
{
    *step = 0;
    if (a.kind == VAE_UNFOLD_NEAREST)
        return (pixel * a.ft + i) * a.c;
    *step = (size_t) a.c * a.ft;
    if (a.kind == VAE_SHUFFLE_RQTC)
        return pixel * a.fs * a.fs * *step + (size_t) i * a.c;
    *step = (size_t) a.c * a.t * a.h * a.w;
    return pixel * a.c;
}

/*
 * A thread has one octet of the fs x fs pixels of y that come of pixel
 * (blockIdx.y, i / octets) of x; frame blockIdx.z of y. Nearest is read once.
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
    if (vae_octets_aligned(a->x, c) && vae_octets_aligned(a->y, c))
        vae_with_types(a->x_type, a->y_type, run);
    else
        run(VaeTypeIs<VAE_ANY>(), VaeTypeIs<VAE_ANY>());
}

/* ------------------------------------------------------------- fold */

/*
 * Element i of the folded row blockIdx.y of frame blockIdx.z, `colours` deep
 * in p x p pixels, to or from the flat picture.
 */
VAE_KERNEL void
fold(VaeRearrangeArgs a, int w, int colours, bool back, bool column_first)
{
    const int p = a.fs, deep = colours * p * p;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    if (i >= w * deep)
        return;
    const int x = i / deep, k = i % deep;
    const int slow = k / p % p, fast = k % p;
    const int r = column_first ? fast : slow;
    const int q = column_first ? slow : fast;
    const size_t row = (size_t) blockIdx.z * gridDim.y + blockIdx.y;
    const size_t flat =
        ((row * p + r) * w * p + (size_t) x * p + q) * colours + k / (p * p);
    const size_t folded = row * w * deep + i;
    vae_store(a.y, a.y_type, back ? flat : folded,
              vae_load(a.x, a.x_type, back ? folded : flat));
}

static void
launch_fold(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    const bool back = a->kind == VAE_UNFOLD_CQR || a->kind == VAE_UNFOLD_CRQ;
    const bool column_first =
        a->kind == VAE_FOLD_CQR || a->kind == VAE_UNFOLD_CQR;
    const int p = a->fs, area = p * p;
    const int h = back ? a->h : a->h / p, w = back ? a->w : a->w / p;
    const int colours = back ? a->c : a->c / area;
    const dim3 grid(vae_blocks((size_t) w * colours * area, VAE_THREADS),
                    (unsigned) h, (unsigned) a->t);
    vae_launch(fold, grid, VAE_THREADS, 0, q->stream, *a, w, colours, back,
               column_first);
}

void
vae_cuda_rearrange(const VaeQueue *q, const VaeRearrangeArgs *a)
{
    if (a->t * a->ft - a->drop < 1)
        return;
    if (a->kind >= VAE_FOLD_CQR)
        launch_fold(q, a);
    else
        launch_unfold(q, a);
}

/* --------------------------------------------- cast and soft clamp */

/* n elements from element `start` on. */
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

/* Whole octets first, where the addresses allow, then the rest. */
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
