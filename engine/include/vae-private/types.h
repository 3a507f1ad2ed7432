/*
 * vae-private/types.h: conversion of numbers, and the words of enumerations.
 */
#ifndef VAE_PRIVATE_TYPES_H
#define VAE_PRIVATE_TYPES_H

#include "vae-private/status.h"
#include "vae/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Convert n elements of any type to float and back. Rounding is to nearest
 * even, and NaN stays NaN. U8 are the numbers 0..255; conversion to U8 clamps.
 */
VAE_API void vae_type_to_float(float *dst, const void *src, VaeType type,
                               size_t n);
VAE_API void vae_type_from_float(void *dst, VaeType type, const float *src,
                                 size_t n);

#define VAE_BACKEND_KINDS (VAE_BACKEND_REF + 1)

/* Words of the enumerations. *_parse() returns false for an unknown word, and
 * does not write *out. */
VAE_API bool vae_backend_parse(const char *word, VaeBackendKind *out);
VAE_API bool vae_precision_parse(const char *word, VaePrecision *out);
VAE_API bool vae_nan_policy_parse(const char *word, VaeNanPolicy *out);
VAE_API bool vae_spill_parse(const char *word, VaeSpill *out);
VAE_API const char *vae_normalization_name(VaeNormalization n);
VAE_API bool vae_normalization_parse(const char *word, VaeNormalization *out);

/*
 * Parses a memory limit into memory_limit and memory_share of VaeStreamParams:
 * "auto", bytes with or without a unit of 1024 ("12G", "7.5GiB", "800M"), or a
 * share of the free memory ("75%"). Returns false for any other word, and
 * writes nothing.
 */
VAE_API bool vae_memory_limit_parse(const char *word, size_t *bytes,
                                    double *share);

#ifdef __cplusplus
}
#endif
#endif
