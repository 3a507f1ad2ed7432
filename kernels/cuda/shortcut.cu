/*
 * shortcut.cu: Wan2.2's shortcuts without weights.
 */
#include "common.cuh"
#include "cuda.h"

/*
 * One octet of pixel (blockIdx.y, i / octets) of frame blockIdx.z of y. Where
 * every channel of x goes to as many places as y has for it, its channels lie
 * as those of y do.
 */
template <int X, int Y>
VAE_KERNEL void
dup(VaeShortcutArgs a, int rep)
{
    const int octets = (a.cy + 7) / 8, step = a.ft * a.fs * a.fs;
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
    VaeOctet<X> x;
    VaeOctet<Y> y;
    float v[8];
    vae_octet_load<Y>(y, a.y, a.y_type, at, n);
    if (rep == step)
        vae_octet_load<X>(x, a.x, a.x_type, from + o, n);
    VAE_UNROLL
    for (int l = 0; l < 8; l++) {
        const int channel = ((o + l) * step + place) / rep;
        v[l] = vae_octet_get<Y>(y, l);
        if (rep == step)
            v[l] += vae_octet_get<X>(x, l);
        else if (l < n)
            v[l] += vae_load(a.x, a.x_type, from + channel);
    }
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

/* One element of row blockIdx.y of frame blockIdx.z; `front` zero frames. */
VAE_KERNEL void
average(VaeShortcutArgs a, int g, int front)
{
    const int area = a.fs * a.fs, deep = a.ft * area, w = a.w / a.fs;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int column = i / a.cy, o = i % a.cy;
    if (column >= w)
        return;
    float sum = 0;
    for (int j = o * g; j < (o + 1) * g; j++) {
        const int f = (int) blockIdx.z * a.ft + j / area % a.ft - front;
        if (f < 0)
            continue;
        const size_t row = (size_t) blockIdx.y * a.fs + j / a.fs % a.fs;
        const size_t x = (size_t) column * a.fs + j % a.fs;
        const size_t site = ((size_t) f * a.h + row) * a.w + x;
        sum += vae_load(a.x, a.x_type, site * a.cx + j / deep);
    }
    const size_t line = (size_t) blockIdx.z * (a.h / a.fs) + blockIdx.y;
    const size_t at = line * w * a.cy + i;
    vae_store(a.y, a.y_type, at, vae_load(a.y, a.y_type, at) + sum / (float) g);
}

void
vae_cuda_shortcut(const VaeQueue *q, const VaeShortcutArgs *a)
{
    const bool add = a->kind == VAE_SHORTCUT_AVERAGE && a->ft == 1 &&
                     a->fs == 1 && a->cx == a->cy;
    if (a->kind == VAE_SHORTCUT_DUP || add) {
        const int frames = a->t * a->ft - (add ? 0 : a->drop);
        if (frames > 0)
            launch_dup(q, a, frames);
        return;
    }
    const int t = (a->t + a->ft - 1) / a->ft, h = a->h / a->fs;
    const size_t row = (size_t) (a->w / a->fs) * a->cy;
    if (!t || !h || !row)
        return;
    vae_launch(average,
               dim3(vae_blocks(row, VAE_THREADS), (unsigned) h, (unsigned) t),
               VAE_THREADS, 0, q->stream, *a,
               a->cx * a->ft * a->fs * a->fs / a->cy, t * a->ft - a->t);
}
