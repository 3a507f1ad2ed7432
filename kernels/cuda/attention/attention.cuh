/*
 * attention.cuh: the attention kernels, for their launcher.
 */
#ifndef VAE_ATTENTION_CUH
#define VAE_ATTENTION_CUH

#include "common.cuh"

/* Launches a kernel for the matrix units, whose blocks have so many queries and
 * bytes of shared memory. Its scale makes scores exponents of two. */
static inline void
vae_launch_attention(const VaeQueue *q, const VaeAttentionArgs *a,
                     void (*kernel)(VaeAttentionArgs, float), int rows,
                     size_t bytes)
{
    vae_launch(kernel, dim3(vae_blocks((size_t) a->n, rows), (unsigned) a->t),
               VAE_THREADS, bytes, q->stream, *a,
               1.44269504f / sqrtf((float) a->c));
}

/* The keys that the queries read: n rows for each of `latents`, from `first`
 * on. Without a history there is one, the frame itself. Latents of a part count
 * from its first one. */
struct VaeKeys {
    uint64_t first;
    int latents;
};

/* Rows K | V of a latent: K, and elements from row to row. */
struct VaeRows {
    const uint8_t *k;
    int row;
};

template <bool SO_FAR>
VAE_DEVICE VaeKeys
vae_keys(const VaeAttentionArgs &a)
{
    VaeKeys keys = {0, 1};
    if constexpr (SO_FAR) {
        if (a.part.rows)
            return {0, a.part.latents};
        keys.first = vae_history_first(&a.history);
        keys.latents = (int) (vae_history_last(&a.history) + 1 - keys.first);
    }
    return keys;
}

/* The rows of a latent. The compiler cannot see that an address that is read
 * from memory is one of global memory. */
VAE_DEVICE uint8_t *
vae_rows_of(const VaeAttentionArgs &a, uint64_t latent)
{
    uint8_t *rows = a.part.rows ? a.part.rows + latent * a.part.bytes
                                : vae_history_rows(&a.history, latent);
#ifdef __CUDA_ARCH__
    __builtin_assume(__isGlobal(rows));
#endif
    return rows;
}

/* The sums of a query after the parts before: the result, undivided, its
 * largest score and its sum of weights. */
VAE_DEVICE float *
vae_sums_of(const VaeAttentionArgs &a, int row)
{
    return a.part.sums + (size_t) row * (a.c + 2);
}

/* True if the sums of the parts before are read, and those of this part are
 * written for the next one. */
template <bool SO_FAR>
VAE_DEVICE bool
vae_continues(const VaeAttentionArgs &a)
{
    return SO_FAR && a.part.rows && !a.part.first;
}
template <bool SO_FAR>
VAE_DEVICE bool
vae_goes_on(const VaeAttentionArgs &a)
{
    return SO_FAR && a.part.rows && !a.part.last;
}

/* size: of an element. */
template <bool SO_FAR>
VAE_DEVICE VaeRows
vae_rows(const VaeAttentionArgs &a, const VaeKeys &keys, int i, int size)
{
    if constexpr (SO_FAR)
        return {vae_rows_of(a, keys.first + i), 2 * a.c};
    const size_t at = ((size_t) blockIdx.y * a.n * 3 + 1) * a.c;
    return {static_cast<const uint8_t *>(a.qkv) + at * size, 3 * a.c};
}

/* On the matrix units: x_type of 16 bits, c a multiple of 8,
 * compute capability 8.0 or more. */
void vae_cuda_attention_matrix(const VaeQueue *q, const VaeAttentionArgs *a);

/* On the matrix units of compute capability 9.0: x_type of 16 bits, 256 < c <=
 * 640, c a multiple of 8; qkv is aligned to 16 bytes. */
void vae_cuda_attention_wgmma(const VaeQueue *q, const VaeAttentionArgs *a);

/* For F32, multiplied as TF32; qkv is aligned to 16 bytes. */
void vae_cuda_attention_tf32(const VaeQueue *q, const VaeAttentionArgs *a);

/* Stores two neighbours of the result. */
VAE_DEVICE void
vae_store_pair(const VaeAttentionArgs &a, size_t at, float x, float y)
{
    if (a.y_type == VAE_TYPE_F32) {
        static_cast<float *>(a.y)[at] = x;
        static_cast<float *>(a.y)[at + 1] = y;
        return;
    }
    uint16_t *const to = static_cast<uint16_t *>(a.y) + at;
    const uint32_t two = a.y_type == VAE_TYPE_BF16
                             ? vae_pair<VAE_TYPE_BF16>(x, y)
                             : vae_pair<VAE_TYPE_F16>(x, y);
    if ((uintptr_t) a.y % 4 == 0) {
        *reinterpret_cast<uint32_t *>(to) = two;
    } else {
        to[0] = (uint16_t) two;
        to[1] = (uint16_t) (two >> 16);
    }
}

#endif
