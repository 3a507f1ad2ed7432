/*
 * depthwise.cu: the depthwise 7x7 over two frames.
 */
#include "common.cuh"
#include "cuda.h"

enum { SIZE = 7, REACH = 3, PIXELS = 4 }; /* pixels of a row per thread */

typedef struct Row {
    float v[PIXELS][8];
} Row;

/* Moves the window by one column. The new last column is `column`, which
 * begins at element `at` of x. */
template <int X>
VAE_DEVICE void
shift_in(const VaeDepthwiseArgs &a, Row &window, int column, size_t at, int n)
{
    VaeOctet<X> x;
    VAE_UNROLL
    for (int p = 0; p + 1 < PIXELS; p++)
        VAE_UNROLL
    for (int i = 0; i < 8; i++)
        window.v[p][i] = window.v[p + 1][i];
    vae_octet_load<X>(x, a.x, a.x_type, at,
                      (unsigned) column < (unsigned) a.w ? n : 0);
    VAE_UNROLL
    for (int i = 0; i < 8; i++)
        window.v[PIXELS - 1][i] = vae_octet_get<X>(x, i);
}

/* Blocks per multiprocessor; an octet of F32 takes twice the registers. */
template <int X> struct Blocks {
    static const int N = X == VAE_TYPE_F32 ? 1 : 2;
};

/*
 * Computes octet o of 2 * octets, for PIXELS columns of row blockIdx.y of
 * frame blockIdx.z. The second half of the channels reads the previous frame.
 * Columns outside are zeros.
 */
template <int X, int Y>
VAE_GLOBAL
__launch_bounds__(VAE_THREADS, Blocks<X>::N) void depthwise(VaeDepthwiseArgs a)
{
    const int W = X == VAE_ANY ? VAE_ANY : VAE_TYPE_F32;
    const int octets = (a.n + 7) / 8;
    const int index = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int left = index / (2 * octets) * PIXELS, o = index % (2 * octets);
    if (left >= a.w)
        return;
    const int half = o / octets, first = o % octets * 8;
    const int n = X == VAE_ANY ? vae_octet_valid(first, a.n) : 8;
    const int channel = half * a.n + first;
    const size_t frame = (size_t) blockIdx.z + 1 - half;
    Row sum = {}, window = {};
    VAE_NO_UNROLL
    for (int i = 0; i < SIZE; i++) {
        const int y = (int) blockIdx.y + i - REACH;
        if (y < 0 || y >= a.h)
            continue;
        int column = left - REACH;
        size_t at = ((frame * a.h + y) * a.w + column) * a.n + first;
        size_t tap = (size_t) (i * SIZE * 2 * a.n + channel);
        VAE_UNROLL
        for (int p = 1; p < PIXELS; p++, column++, at += a.n)
            shift_in<X>(a, window, column, at, n);
        /* After PIXELS columns the window is in the same registers again. */
        VAE_NO_UNROLL
        for (int j = 0; j < SIZE; j += PIXELS)
            VAE_UNROLL
        for (int k = 0; k < PIXELS; k++, column++, at += a.n, tap += 2 * a.n) {
            VaeOctet<W> w;
            if (j + k == SIZE)
                break;
            vae_octet_load<W>(w, a.weight, VAE_TYPE_F32, tap, n);
            shift_in<X>(a, window, column, at, n);
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
