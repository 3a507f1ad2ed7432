/*
 * vae/types.h: element types and the small enumerations that several headers
 * share. Numbers in memory are little endian, as in the files.
 */
#ifndef VAE_TYPES_H
#define VAE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vae/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A struct that the caller allocates and that may grow begins with struct_size,
 * the size of the struct in the caller's header. VAE_INIT() sets struct_size,
 * and all other members to 0:
 *
 *     VaeStreamParams params = VAE_INIT(VaeStreamParams);
 *
 * Outside of a definition, C needs a cast: params = (VaeStreamParams)
 * VAE_INIT(VaeStreamParams).
 *
 * Programs that were compiled with older headers still work: the library reads
 * members that such a program lacks as 0, and does not write them. A
 * struct_size that is too small or too large gives VAE_ERR_ARGUMENT. A member
 * that this library does not know must be 0. Otherwise the call gives
 * VAE_ERR_ARGUMENT, too.
 *
 * A struct without struct_size that only the library allocates may grow at its
 * end. Every other struct without struct_size has the same size in all versions
 * of libvae.so.0.
 */
#ifdef __cplusplus
}
template <typename T>
static inline T
vae_init_()
{
    T t = T();
    t.struct_size = sizeof(T);
    return t;
}
extern "C" {
#define VAE_INIT(type) vae_init_<type>()
#else
#define VAE_INIT(type)                                                         \
    {                                                                          \
        .struct_size = sizeof(type)                                            \
    }
#endif

typedef enum VaeType {
    VAE_TYPE_F32,
    VAE_TYPE_F16,
    VAE_TYPE_BF16,
    VAE_TYPE_U8,
    VAE_TYPE_F64 /* only in files and weights, and read as F32 */
} VaeType;

/* Bytes of one element: 4, 2, 2, 1, 8. */
VAE_API size_t vae_type_size(VaeType type);
/* Returns "float32", "float16", "bfloat16", "uint8" or "float64". */
VAE_API const char *vae_type_name(VaeType type);

typedef enum VaeDirection { VAE_DECODE, VAE_ENCODE } VaeDirection;

typedef enum VaeBackendKind {
    VAE_BACKEND_AUTO, /* the first of cuda, cpu and ref that works here */
    VAE_BACKEND_CUDA,
    VAE_BACKEND_CPU,
    VAE_BACKEND_REF
    /* A new kind is added here, so that programs compiled earlier keep their
     * meaning. */
} VaeBackendKind;

typedef enum VaePrecision {
    VAE_PRECISION_AUTO, /* the backend's fastest precision without visible
                           loss */
    VAE_PRECISION_FP32,
    VAE_PRECISION_TF32,
    VAE_PRECISION_FP16,
    VAE_PRECISION_BF16
} VaePrecision;

/* The scale of latents: raw = normalized * std + mean, per channel. */
typedef enum VaeNormalization {
    VAE_NORMALIZED, /* the input and output of the diffusion model */
    VAE_RAW,        /* the input and output of the original VAE */
    VAE_COMFYUI     /* as in a .latent file of ComfyUI: raw or normalized, which
                       depends on the latent space. A stream uses that of its
                       model */
} VaeNormalization;

/* Treatment of results that are not finite (NaN, infinite). */
typedef enum VaeNanPolicy {
    VAE_NAN_PASS,     /* results are not checked */
    VAE_NAN_FALLBACK, /* if the input of a step in 16 bits is finite and its
                         result is not, the step is computed again in fp32 */
    VAE_NAN_ERROR     /* the call fails */
} VaeNanPolicy;

/* The memory for a stream's carries and its history, the state of the network
 * between two steps. The choice does not change the output. */
typedef enum VaeSpill {
    VAE_SPILL_AUTO, /* device memory; host memory for what does not fit there */
    VAE_SPILL_OFF,  /* device memory */
    VAE_SPILL_HOST  /* host memory */
} VaeSpill;

/* Tiles for a picture that does not fit. The output of tiles is not exact. */
typedef enum VaeTiling {
    VAE_TILES_OFF,
    VAE_TILES_BLEND /* tiles that overlap are blended */
} VaeTiling;

/* The tiles of latents of a network that is exact only in tiles
 * (VaeModelInfo.in_tiles), as those of a published pipeline. The plans give
 * different results. */
typedef enum VaeTilePlan {
    VAE_TILE_PLAN_DIFFUSERS, /* 5 latents, one tile every 3: diffusers */
    VAE_TILE_PLAN_OFFICIAL   /* 17 latents, one every 12: the official code */
} VaeTilePlan;

/* Returns "auto", "cuda", "cpu" or "ref"; for other values "unknown". */
VAE_API const char *vae_backend_name(VaeBackendKind kind);
/* Returns "auto", "fp32", "tf32", "fp16" or "bf16"; for other values
 * "unknown". */
VAE_API const char *vae_precision_name(VaePrecision precision);

#ifdef __cplusplus
}
#endif
#endif
