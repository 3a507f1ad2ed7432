/*
 * ptx.cuh: the PTX instructions of the kernels, one function each, with a C++
 * version for the emulation. The C++ versions are exact if PTX defines the
 * result exactly; else they give the value that PTX approximates.
 */
#ifndef VAE_PTX_CUH
#define VAE_PTX_CUH

#include <math.h>

#include "launch.h"
#include "number.h"

#define VAE_DEVICE static __device__ __forceinline__

/* Loads and stores 16 bytes at an address that is a multiple of 16. */
VAE_DEVICE void
vae_load16(uint32_t *word, const void *p)
{
#ifdef __CUDACC__
    const uint4 v = *static_cast<const uint4 *>(p);
    word[0] = v.x;
    word[1] = v.y;
    word[2] = v.z;
    word[3] = v.w;
#else
    vae_emu_load16(word, p);
#endif
}

VAE_DEVICE void
vae_store16(void *p, const uint32_t *word)
{
#ifdef __CUDACC__
    *static_cast<uint4 *>(p) = make_uint4(word[0], word[1], word[2], word[3]);
#else
    vae_emu_store16(p, word);
#endif
}

/* Loads and stores 8 bytes at an address that is a multiple of 8. */
VAE_DEVICE void
vae_load8(uint32_t *word, const void *p)
{
#ifdef __CUDACC__
    const uint2 v = *static_cast<const uint2 *>(p);
    word[0] = v.x;
    word[1] = v.y;
#else
    if ((uintptr_t) p % 8)
        vae_emu_fail("%p is no multiple of 8", p);
    memcpy(word, p, 8);
#endif
}

VAE_DEVICE void
vae_store8(void *p, const uint32_t *word)
{
#ifdef __CUDACC__
    *static_cast<uint2 *>(p) = make_uint2(word[0], word[1]);
#else
    if ((uintptr_t) p % 8)
        vae_emu_fail("%p is no multiple of 8", p);
    memcpy(p, word, 8);
#endif
}

/* Returns v. The compiler recomputes values from the result instead of keeping
 * the ones from before in registers. */
VAE_DEVICE uint32_t
vae_ptx_anew(uint32_t v)
{
#ifdef __CUDACC__
    asm volatile("" : "+r"(v));
#endif
    return v;
}

/* v of the warp's first lane. The compiler knows that all lanes have it. */
VAE_DEVICE int
vae_ptx_uniform(int v)
{
#ifdef __CUDACC__
    return __shfl_sync(~0u, v, 0);
#else
    return v;
#endif
}

/* 2^v, within 2 units of the last place; results below 2^-126 are 0. */
VAE_DEVICE float
vae_ptx_ex2(float v)
{
#ifdef __CUDACC__
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
#else
    return v < -126 ? 0 : exp2f(v);
#endif
}

/* 1 / v, within 1 unit of the last place; results below 2^-126 are 0. */
VAE_DEVICE float
vae_ptx_rcp(float v)
{
#ifdef __CUDACC__
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
#else
    const float r = 1 / v;
    return fabsf(r) < 0x1p-126f ? copysignf(0, r) : r;
#endif
}

/* F16 to F32, exact; any NaN becomes some NaN. */
VAE_DEVICE float
vae_ptx_from_f16(uint32_t bits)
{
#ifdef __CUDACC__
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((uint16_t) bits));
    return r;
#else
    const float r = vae_from_f16((uint16_t) bits);
    return r != r ? vae_from_bits(0x7fffffffu) : r;
#endif
}

/* a (low half) and b as F16, nearest even; any NaN becomes 7fff. */
VAE_DEVICE uint32_t
vae_ptx_f16x2(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
#elif defined(__CUDACC__)
    uint16_t low, high;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(a));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(b));
    return low | (uint32_t) high << 16;
#else
    const uint32_t low = a != a ? 0x7fff : vae_to_f16(a);
    const uint32_t high = b != b ? 0x7fff : vae_to_f16(b);
    return low | high << 16;
#endif
}

/* a (low half) and b as BF16, nearest even; any NaN becomes 7fff. */
VAE_DEVICE uint32_t
vae_ptx_bf16x2(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
#else
    const uint32_t low = a != a ? 0x7fff : vae_to_bf16(a);
    const uint32_t high = b != b ? 0x7fff : vae_to_bf16(b);
    return low | high << 16;
#endif
}

/* v rounded to ten bits of mantissa, halves away from zero, which is TF32; any
 * NaN becomes some NaN. Traps before sm_80. */
VAE_DEVICE uint32_t
vae_ptx_tf32(float v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
#elif defined(__CUDACC__)
    (void) v;
    asm volatile("trap;");
    return 0;
#else
    return v != v ? 0x7fffe000u : (vae_bits(v) + 0x1000u) & ~0x1fffu;
#endif
}

/* v as the matrix units read TF32: they ignore the lower 13 bits, which the
 * assembler's cvt.rna.tf32 also leaves. */
VAE_DEVICE uint32_t
vae_ptx_tf32_cut(float v)
{
#ifdef __CUDACC__
    return vae_bits(v);
#else
    return v != v ? 0x7fffe000u : vae_bits(v) & ~0x1fffu;
#endif
}

/* --------------------------------------------- copies to shared memory */

/* Starts to copy 16 bytes, or writes 16 zeros; both addresses are multiples of
 * 16. Traps before sm_80. */
VAE_DEVICE void
vae_ptx_copy_async(void *shared, const void *global, bool zero)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned) __cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(__cvta_generic_to_global(global)), "r"(zero ? 0 : 16)
                 : "memory");
#elif defined(__CUDACC__)
    (void) shared, (void) global, (void) zero;
    asm volatile("trap;");
#else
    vae_emu_copy_async(shared, global, zero);
#endif
}

/* Makes a group of all copies that the thread started since the last such
 * call. */
VAE_DEVICE void
vae_ptx_copy_commit(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#elif !defined(__CUDACC__)
    vae_emu_copy_commit();
#endif
}

/* Waits for all of this thread's groups except the latest LEFT. */
template <int LEFT>
VAE_DEVICE void
vae_ptx_copy_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#elif !defined(__CUDACC__)
    vae_emu_copy_wait(LEFT);
#endif
}

#endif
