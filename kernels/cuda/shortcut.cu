/*
 * shortcut.cu: the shortcuts without weights.
 */
#include "common.cuh"
#include "cuda.h"

/* n channels of y from `o` on, at position `place` of the block, to which
 * values of the pixel of x at element `from` are added. */
struct Site {
    size_t from;
    int o, n, place;
};

/* Loads channels o..o+n-1 of x, which repeats. */
template <int X>
VAE_DEVICE void
tile(const VaeShortcutArgs &a, float *v, const Site &s)
{
    VaeOctet<X> x;
    if (a.cx % 8 == 0)
        vae_octet_load<X>(x, a.x, a.x_type, s.from + s.o % a.cx, s.n);
    VAE_UNROLL
    for (int l = 0; l < 8; l++)
        if (a.cx % 8 == 0)
            v[l] = vae_octet_get<X>(x, l);
        else
            v[l] = l < s.n
                       ? vae_load(a.x, X == VAE_ANY ? a.x_type : (VaeType) X,
                                  s.from + (s.o + l) % a.cx)
                       : 0;
}

/*
 * Loads the values to add. If each channel of x
 * fills a whole block, the channels are in the order of y; if it fills a whole
 * fraction of one, they are at a constant distance.
 */
template <int X>
VAE_DEVICE void
sources(const VaeShortcutArgs &a, float *v, const Site &s, int rep)
{
    const VaeType type = X == VAE_ANY ? a.x_type : (VaeType) X;
    const int step = a.ft * a.fs * a.fs, each = step / rep;
    if (a.channels_fast) {
        VAE_UNROLL
        for (int l = 0; l < 8; l++) {
            const int channel = (s.place * a.cy + s.o + l) / rep;
            v[l] = l < s.n ? vae_load(a.x, type, s.from + channel) : 0;
        }
    } else if (rep == step) {
        VaeOctet<X> x;
        vae_octet_load<X>(x, a.x, a.x_type, s.from + s.o, s.n);
        VAE_UNROLL
        for (int l = 0; l < 8; l++)
            v[l] = vae_octet_get<X>(x, l);
    } else if (each * rep == step) {
        const size_t first = s.from + (size_t) s.o * each + s.place / rep;
        VAE_UNROLL
        for (int l = 0; l < 8; l++)
            v[l] = l < s.n ? vae_load(a.x, type, first + l * each) : 0;
    } else {
        VAE_UNROLL
        for (int l = 0; l < 8; l++) {
            const int channel = ((s.o + l) * step + s.place) / rep;
            v[l] = l < s.n ? vae_load(a.x, type, s.from + channel) : 0;
        }
    }
}

/* Adds to one octet of pixel (blockIdx.y, i / octets) of frame blockIdx.z of
 * y. */
template <int X, int Y>
VAE_KERNEL void
dup(VaeShortcutArgs a, int rep)
{
    const int octets = (a.cy + 7) / 8;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int column = i / octets, o = i % octets * 8;
    if (column >= a.w * a.fs)
        return;
    const int f = (int) blockIdx.z + a.drop, row = (int) blockIdx.y;
    const int n = vae_octet_valid(o, a.cy);
    const int place = (f % a.ft * a.fs + row % a.fs) * a.fs + column % a.fs;
    const size_t from =
        (((size_t) (f / a.ft) * a.h + row / a.fs) * a.w + column / a.fs) * a.cx;
    const size_t line = (size_t) blockIdx.z * a.h * a.fs + row;
    const size_t at = (line * a.w * a.fs + column) * a.cy + o;
    VaeOctet<Y> y;
    float v[8];
    vae_octet_load<Y>(y, a.y, a.y_type, at, n);
    if (a.kind == VAE_SHORTCUT_TILE)
        tile<X>(a, v, {from, o, n, place});
    else
        sources<X>(a, v, {from, o, n, place}, rep);
    VAE_UNROLL
    for (int l = 0; l < 8; l++)
        v[l] += vae_octet_get<Y>(y, l);
    vae_octet_set<Y>(y, v);
    vae_octet_store<Y>(a.y, a.y_type, at, y, n);
}

static void
launch_dup(const VaeQueue *q, const VaeShortcutArgs *a, int frames)
{
    const size_t octets = (size_t) (a->cy + 7) / 8;
    const int rep = a->cy * a->ft * a->fs * a->fs / a->cx;
    const dim3 grid(vae_blocks(octets * (size_t) (a->w * a->fs), VAE_THREADS),
                    (unsigned) (a->h * a->fs), (unsigned) frames);
    const auto run = [&](auto x, auto y) {
        vae_launch(dup<decltype(x)::value, decltype(y)::value>, grid,
                   VAE_THREADS, 0, q->stream, *a, rep);
    };
    if (vae_octets_aligned(a->x, (size_t) a->cx) &&
        vae_octets_aligned(a->y, (size_t) a->cy))
        vae_with_types(a->x_type, a->y_type, run);
    else
        run(VaeTypeIs<VAE_ANY>(), VaeTypeIs<VAE_ANY>());
}

/* Frame f of x with the frames in front, from -front on; -1: zeros. */
VAE_DEVICE int
frame_of(const VaeShortcutArgs &a, int f)
{
    return f >= 0 ? f : a.repeat ? 0 : -1;
}

/* Adds to one element of row blockIdx.y of frame blockIdx.z; `front` frames are
 * in front. */
VAE_KERNEL void
average(VaeShortcutArgs a, int g, int front)
{
    const int area = a.fs * a.fs, deep = a.ft * area, w = a.w / a.fs;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int column = i / a.cy, o = i % a.cy;
    if (column >= w)
        return;
    const bool fast = a.channels_fast;
    int c = fast ? o * g % a.cx : o * g / deep;
    const int place = fast ? o * g / a.cx : o * g % deep;
    int t = place / area, r = place % area / a.fs, q = place % a.fs;
    float sum = 0;
    VAE_NO_UNROLL
    for (int j = 0; j < g; j++) {
        const int f = frame_of(a, (int) blockIdx.z * a.ft + t - front);
        const size_t row = (size_t) blockIdx.y * a.fs + r;
        const size_t x = (size_t) column * a.fs + q;
        const size_t site = ((size_t) f * a.h + row) * a.w + x;
        if (f >= 0)
            sum += vae_load(a.x, a.x_type, site * a.cx + c);
        if (fast && ++c < a.cx)
            continue;
        c = fast ? 0 : c;
        q = q + 1 < a.fs ? q + 1 : 0;
        r = q ? r : r + 1 < a.fs ? r + 1 : 0;
        t = q || r ? t : t + 1 < a.ft ? t + 1 : 0;
        c += !fast && !q && !r && !t;
    }
    const size_t line = (size_t) blockIdx.z * (a.h / a.fs) + blockIdx.y;
    const size_t at = line * w * a.cy + i;
    vae_store(a.y, a.y_type, at, vae_load(a.y, a.y_type, at) + sum / (float) g);
}

/*
 * The same for one type and means over 2 x 2 pixels of one frame and channel,
 * as in models. A thread has eight channels of x; the F means of each are
 * adjacent in y.
 */
template <int T, int F>
VAE_KERNEL void
average_octets(VaeShortcutArgs a, int front)
{
    const int octets = a.cx / 8, w = a.w / 2;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int column = i / octets, first = i % octets * 8;
    if (column >= w)
        return;
    VaeOctet<T> x[F][4], y[F];
    const size_t line = (size_t) blockIdx.z * (a.h / 2) + blockIdx.y;
    const size_t at = (line * w + column) * a.cy + first * F;
    VAE_UNROLL
    for (int t = 0; t < F; t++) {
        const int f = frame_of(a, (int) blockIdx.z * F + t - front);
        VAE_UNROLL
        for (int k = 0; k < 4; k++) {
            const size_t row = (size_t) f * a.h + 2 * blockIdx.y + k / 2;
            const size_t site = row * a.w + 2 * column + k % 2;
            vae_octet_load<T>(x[t][k], a.x, a.x_type, site * a.cx + first,
                              f >= 0 ? 8 : 0);
        }
        vae_octet_load<T>(y[t], a.y, a.y_type, at + 8 * t, 8);
    }
    VAE_UNROLL
    for (int o = 0; o < F; o++) {
        float v[8];
        VAE_UNROLL
        for (int l = 0; l < 8; l++) {
            const int t = (8 * o + l) % F, c = (8 * o + l) / F;
            float sum = 0;
            VAE_UNROLL
            for (int k = 0; k < 4; k++)
                sum += vae_octet_get<T>(x[t][k], c);
            v[l] = vae_octet_get<T>(y[o], l) + sum / 4;
        }
        vae_octet_set<T>(y[o], v);
        vae_octet_store<T>(a.y, a.y_type, at + 8 * o, y[o], 8);
    }
}

/* Launches it; false if it does not fit. */
static bool
launch_average_octets(const VaeQueue *q, const VaeShortcutArgs *a, dim3 grid,
                      int front)
{
    if (a->channels_fast || a->fs != 2 || a->ft > 2 || a->cy != a->cx * a->ft ||
        a->x_type != a->y_type || !vae_octets_aligned(a->x, (size_t) a->cx) ||
        !vae_octets_aligned(a->y, (size_t) a->cy))
        return false;
    grid.x = vae_blocks((size_t) (a->w / 2) * a->cx / 8, VAE_THREADS);
    vae_with_type(a->x_type, [&](auto x) {
        const int T = decltype(x)::value;
        vae_launch(a->ft == 1 ? average_octets<T, 1> : average_octets<T, 2>,
                   grid, VAE_THREADS, 0, q->stream, *a, front);
    });
    return true;
}

void
vae_cuda_shortcut(const VaeQueue *q, const VaeShortcutArgs *a)
{
    const bool add = a->kind == VAE_SHORTCUT_AVERAGE && a->ft == 1 &&
                     a->fs == 1 && a->cx == a->cy;
    if (a->kind != VAE_SHORTCUT_AVERAGE || add) {
        const int frames = a->t * a->ft - (add ? 0 : a->drop);
        if (frames > 0)
            launch_dup(q, a, frames);
        return;
    }
    const int t = (a->t + a->ft - 1) / a->ft, h = a->h / a->fs;
    const size_t row = (size_t) (a->w / a->fs) * a->cy;
    if (!t || !h || !row)
        return;
    const dim3 grid(vae_blocks(row, VAE_THREADS), (unsigned) h, (unsigned) t);
    const int front = t * a->ft - a->t;
    if (launch_average_octets(q, a, grid, front))
        return;
    vae_launch(average, grid, VAE_THREADS, 0, q->stream, *a,
               a->cx * a->ft * a->fs * a->fs / a->cy, front);
}
