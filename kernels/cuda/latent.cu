/*
 * latent.cu: converts latents to and from the network's layout.
 */
#include "colour.h"
#include "common.cuh"
#include "cuda.h"
#include "sample.h"

/* Adds the number of lanes with a v that is not finite; all lanes must call
 * it. */
VAE_DEVICE void
count_nonfinite(uint64_t *counter, bool live, float v)
{
    const unsigned bad =
        __ballot_sync(VAE_ALL_LANES, live && !vae_is_finite(v));
    if (bad && threadIdx.x % 32 == 0)
        atomicAdd(reinterpret_cast<unsigned long long *>(counter),
                  (unsigned long long) __popc(bad));
}

/* One element of y. */
VAE_KERNEL void
latent_in(VaeLatentInArgs a)
{
    const size_t pixels = (size_t) a.h * a.w;
    const size_t i = (size_t) blockIdx.x * VAE_THREADS + threadIdx.x;
    const bool live = i < pixels * a.c;
    const int c = (int) (i % a.c);
    const float v =
        live ? vae_load(a.src, a.src_type, c * pixels + i / a.c) : 0;
    count_nonfinite(a.nonfinite, live, v);
    if (live)
        vae_store(a.y, a.y_type, i,
                  VAE_ADD(VAE_MUL(v, a.scale[c]), a.shift[c]));
}

/* One element of dst. */
VAE_KERNEL void
latent_out(VaeLatentOutArgs a)
{
    const size_t pixels = (size_t) a.h * a.w;
    const size_t i = (size_t) blockIdx.x * VAE_THREADS + threadIdx.x;
    const bool live = i < pixels * a.c;
    const int c = live ? (int) (i / pixels) : 0;
    const int p = live ? (int) (i % pixels) : 0;
    const size_t at = (size_t) p * a.cx + c;
    const float mean = vae_load(a.x, a.x_type, at);
    const float logvar =
        a.cx > a.c
            ? vae_load(a.x, a.x_type,
                       (size_t) p * a.cx + vae_logvar_channel(c, a.c, a.cx))
            : 0;
    const float v =
        a.sample ? vae_sample(mean, logvar,
                              vae_normal(a.seed, a.index, c, p / a.w, p % a.w))
                 : mean;
    count_nonfinite(a.nonfinite, live, v);
    if (!live)
        return;
    vae_store(a.dst, a.dst_type, i,
              a.normalise ? VAE_DIV(VAE_ADD(v, -a.mean[c]), a.std[c]) : v);
    if (a.mean_out)
        a.mean_out[i] = mean;
    if (a.logvar_out && a.cx > a.c)
        a.logvar_out[i] = logvar;
}

void
vae_cuda_latent_in(const VaeQueue *q, const VaeLatentInArgs *a)
{
    const size_t n = (size_t) a->h * a->w * a->c;
    if (n)
        vae_launch(latent_in, vae_blocks(n, VAE_THREADS), VAE_THREADS, 0,
                   q->stream, *a);
}

void
vae_cuda_latent_out(const VaeQueue *q, const VaeLatentOutArgs *a)
{
    const size_t n = (size_t) a->h * a->w * a->c;
    if (n)
        vae_launch(latent_out, vae_blocks(n, VAE_THREADS), VAE_THREADS, 0,
                   q->stream, *a);
}

/* Blocks of the grid; each reads many numbers. */
#define NONFINITE_BLOCKS 1024

VAE_KERNEL void
nonfinite(VaeNonfiniteArgs a)
{
    const size_t step = (size_t) gridDim.x * VAE_THREADS;
    unsigned long long bad = 0;
    for (size_t i = (size_t) blockIdx.x * VAE_THREADS + threadIdx.x; i < a.n;
         i += step)
        bad += !vae_is_finite(vae_load(a.x, a.x_type, i));
    if (bad)
        atomicAdd(reinterpret_cast<unsigned long long *>(a.counter), bad);
}

void
vae_cuda_nonfinite(const VaeQueue *q, const VaeNonfiniteArgs *a)
{
    const unsigned most = vae_blocks(a->n, VAE_THREADS);
    if (a->n)
        vae_launch(nonfinite, most < NONFINITE_BLOCKS ? most : NONFINITE_BLOCKS,
                   VAE_THREADS, 0, q->stream, *a);
}
