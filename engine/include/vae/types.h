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
 * A struct that may grow in a later version begins with struct_size, which the
 * caller sets to the sizeof of its own header. Programs that were compiled with
 * older headers go on to work: members that they do not have are taken as 0,
 * and are not written. VAE_INIT() sets it, and all other members to 0:
 *
 *     VaeStreamParams params = VAE_INIT(VaeStreamParams);
 *
 * Another size is VAE_ERR_ARGUMENT. Structs without struct_size have the same
 * size in all versions of libvae.so.0, or are allocated by the library alone,
 * where new members come last.
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
    VAE_TYPE_U8
} VaeType;

/* Bytes of one element: 4, 2, 2, 1. */
VAE_API size_t vae_type_size(VaeType type);
/* "float32", "float16", "bfloat16", "uint8": the words of the caps. */
VAE_API const char *vae_type_name(VaeType type);

typedef enum VaeDirection { VAE_DECODE, VAE_ENCODE } VaeDirection;

typedef enum VaeBackendKind {
    VAE_BACKEND_AUTO, /* the fastest that works here: cuda, cpu, ref */
    VAE_BACKEND_CUDA,
    VAE_BACKEND_CPU,
    VAE_BACKEND_REF
} VaeBackendKind;

typedef enum VaePrecision {
    VAE_PRECISION_AUTO, /* what the backend does best without loss to see */
    VAE_PRECISION_FP32,
    VAE_PRECISION_TF32,
    VAE_PRECISION_FP16,
    VAE_PRECISION_BF16
} VaePrecision;

/* On which side of the model's latent statistics the caller stands. */
typedef enum VaeNormalization {
    VAE_NORMALIZED, /* what the diffusion model sees */
    VAE_RAW         /* what the VAE of the space itself takes or gives */
} VaeNormalization;

/* What is done about results that are not finite (NaN, infinite). */
typedef enum VaeNanPolicy {
    VAE_NAN_PASS,     /* nothing; results are not looked at */
    VAE_NAN_FALLBACK, /* a step that gave such from finite numbers is computed
                         once more in fp32, where it was computed in 16 bits */
    VAE_NAN_ERROR     /* the call fails */
} VaeNanPolicy;

/* Where the carries of a stream on a device are. The bytes of the output are
 * the same. */
typedef enum VaeSpill {
    VAE_SPILL_AUTO, /* on the device; as many in the host's memory as is needed
                       for the stream to fit */
    VAE_SPILL_OFF,  /* on the device */
    VAE_SPILL_HOST  /* in the host's memory */
} VaeSpill;

/* "auto", "cuda", "cpu", "ref" and the like. */
VAE_API const char *vae_backend_name(VaeBackendKind kind);
VAE_API const char *vae_precision_name(VaePrecision precision);

#ifdef __cplusplus
}
#endif
#endif
