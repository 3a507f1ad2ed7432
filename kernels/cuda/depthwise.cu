/*
 * depthwise.cu: the depthwise 7x7 over two frames.
 */
#include "common.cuh"
#include "cuda.h"

enum { SIZE = 7, REACH = 3, PIXELS = 4 }; /* pixels of a row in one thread */

typedef struct Row {
    float v[PIXELS][8];
} Row;

/* Moves the window one column on, its new last column is `column`. */
template <int X>
VAE_DEVICE void
shift_in(const VaeDepthwiseArgs &a, Row &window, size_t line, int column,
         int first, int n)
{
    VaeOctet<X> x;
    const bool inside = column >= 0 && column < a.w;
    VAE_UNROLL
    for (int p = 0; p + 1 < PIXELS; p++)
        VAE_UNROLL
    for (int i = 0; i < 8; i++)
        window.v[p][i] = window.v[p + 1][i];
    vae_octet_load<X>(x, a.x, a.x_type,
                      (line + (inside ? column : 0)) * a.n + first,
                      inside ? n : 0);
    VAE_UNROLL
    for (int i = 0; i < 8; i++)
        window.v[PIXELS - 1][i] = vae_octet_get<X>(x, i);
}

/*
 * Octet o of 2 * octets of PIXELS columns of row blockIdx.y of frame
 * blockIdx.z; the second half of the channels looks at the frame before.
 * Columns outside count as zeros.
 */
template <int X, int Y>
VAE_KERNEL void
depthwise(VaeDepthwiseArgs a)
{
    const int W = X == VAE_ANY ? VAE_ANY : VAE_TYPE_F32;
    const int octets = (a.n + 7) / 8;
    const int index = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int left = index / (2 * octets) * PIXELS, o = index % (2 * octets);
    if (left >= a.w)
        return;
    const int half = o / octets, first = o % octets * 8;
    const int n = vae_octet_valid(first, a.n), channel = half * a.n + first;
    const size_t frame = (size_t) blockIdx.z + 1 - half;
    Row sum = {}, window = {};
    for (int i = 0; i < SIZE; i++) {
        const int y = (int) blockIdx.y + i - REACH;
        if (y < 0 || y >= a.h)
            continue;
        const size_t line = (frame * a.h + y) * a.w;
        for (int p = 1; p < PIXELS; p++)
            shift_in<X>(a, window, line, left + p - 1 - REACH, first, n);
        for (int j = 0; j < SIZE; j++) {
            VaeOctet<W> w;
            vae_octet_load<W>(w, a.weight, VAE_TYPE_F32,
                              (size_t) (i * SIZE + j) * 2 * a.n + channel, n);
            shift_in<X>(a, window, line, left + j + PIXELS - 1 - REACH, first,
                        n);
            VAE_UNROLL
            for (int p = 0; p < PIXELS; p++)
                VAE_UNROLL
            for (int l = 0; l < 8; l++)
                sum.v[p][l] =
                    fmaf(vae_octet_get<W>(w, l), window.v[p][l], sum.v[p][l]);
        }
    }
    const size_t line = ((size_t) blockIdx.z * a.h + blockIdx.y) * a.w;
    VAE_UNROLL
    for (int p = 0; p < PIXELS; p++) {
        VaeOctet<Y> y;
        vae_octet_set<Y>(y, sum.v[p]);
        if (left + p < a.w)
            vae_octet_store<Y>(a.y, a.y_type,
                               (line + left + p) * 2 * a.n + channel, y, n);
    }
}

void
vae_cuda_depthwise(const VaeQueue *q, const VaeDepthwiseArgs *a)
{
    const size_t n = (size_t) a->n;
    const size_t row = (n + 7) / 8 * 2 * vae_blocks((size_t) a->w, PIXELS);
    const dim3 grid(vae_blocks(row, VAE_THREADS), (unsigned) a->h,
                    (unsigned) a->t);
    const auto run = [&](auto x, auto y) {
        vae_launch(depthwise<decltype(x)::value, decltype(y)::value>, grid,
                   VAE_THREADS, 0, q->stream, *a);
    };
    if (!a->t || !a->h || !row)
        return;
    if (vae_octets_aligned(a->x, n) && vae_octets_aligned(a->y, n) &&
        vae_octets_aligned(a->weight, n))
        vae_with_types(a->x_type, a->y_type, run);
    else
        run(VaeTypeIs<VAE_ANY>(), VaeTypeIs<VAE_ANY>());
}
