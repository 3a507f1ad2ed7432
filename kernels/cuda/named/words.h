/*
 * words.h: the words of CUDA in kernels, for compilers other than nvcc. The
 * emulation of the tests defines what is only declared here; dim3 is defined
 * before.
 */
#ifndef VAE_WORDS_H
#define VAE_WORDS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define VAE_UNROLL
#define VAE_NO_UNROLL

#define VAE_EMU_TEXT_OF(x) #x
#define VAE_EMU_TEXT(x) VAE_EMU_TEXT_OF(x)
#define VAE_EMU_HERE __FILE__ ":" VAE_EMU_TEXT(__LINE__)

struct VaeEmuPlace {
    dim3 grid, block, block_at, thread;
};

extern __thread const VaeEmuPlace *vae_emu_place;
void *vae_emu_shared(void);
[[noreturn]] void vae_emu_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#define gridDim (vae_emu_place->grid)
#define blockDim (vae_emu_place->block)
#define blockIdx (vae_emu_place->block_at)
#define threadIdx (vae_emu_place->thread)

#define VAE_SHARED(type, name)                                                 \
    type *const name = static_cast<type *>(vae_emu_shared())

void vae_emu_barrier(const char *where);
#define __syncthreads() vae_emu_barrier(VAE_EMU_HERE)

/*
 * The base of all warp functions. Each lane passes `bytes` bytes, at most 64,
 * and gets the bytes of all 32 lanes in order. The result is valid until the
 * lane's next call. mask must name all lanes.
 */
const void *vae_emu_exchange(const char *where, unsigned mask, const void *mine,
                             size_t bytes);
/* The same, but all lanes get the result of combine() for the 32 lanes, at most
 * 1024 bytes. combine() is called once. */
typedef void (*VaeEmuCombine)(const void *all, void *result);
const void *vae_emu_combine(const char *where, const void *mine, size_t bytes,
                            VaeEmuCombine combine);
unsigned vae_emu_lane(void);

template <typename T>
static inline T
vae_emu_shuffle(const char *where, unsigned mask, T v, unsigned from)
{
    const char *all =
        static_cast<const char *>(vae_emu_exchange(where, mask, &v, sizeof v));
    memcpy(&v, all + from % 32 * sizeof v, sizeof v);
    return v;
}

#define __shfl_xor_sync(mask, v, with)                                         \
    vae_emu_shuffle(VAE_EMU_HERE, mask, v, vae_emu_lane() ^ (unsigned) (with))
#define __shfl_sync(mask, v, from)                                             \
    vae_emu_shuffle(VAE_EMU_HERE, mask, v, (unsigned) (from))
#define __syncwarp() (void) vae_emu_exchange(VAE_EMU_HERE, ~0u, "", 1)
#define __ballot_sync(mask, v) vae_emu_ballot(VAE_EMU_HERE, mask, v)

static inline unsigned
vae_emu_ballot(const char *where, unsigned mask, bool v)
{
    const char *all =
        static_cast<const char *>(vae_emu_exchange(where, mask, &v, 1));
    unsigned bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= (unsigned) (all[i] != 0) << i;
    return bits;
}

static inline int
__popc(unsigned v)
{
    return __builtin_popcount(v);
}

static inline unsigned long long
atomicAdd(unsigned long long *p, unsigned long long v)
{
    const unsigned long long old = *p;
    *p += v;
    return old;
}

/* ---------------------------------------------------------- memory */

/* Move 16 bytes. p must be a multiple of 16. */
void vae_emu_load16(void *to, const void *p);
void vae_emu_store16(void *p, const void *from);

/* Asynchronous copies, see ptx.cuh. The destination is full of 0xff until the
 * wait for the copy. zero: writes 16 zeros instead. */
void vae_emu_copy_async(void *to, const void *from, bool zero);
void vae_emu_copy_commit(void);
void vae_emu_copy_wait(unsigned groups_left);

#endif
