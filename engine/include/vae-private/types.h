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

/* Writes the name of a type in a file, such as "<i8", "|u1" or "I64", in words,
 * such as "int64" and "uint8"; others as they are. Returns text. */
VAE_API const char *vae_type_words(const char *name, char *text, size_t size);

#define VAE_BACKEND_KINDS (VAE_BACKEND_REF + 1)

/* A word of an enumeration, and the sentence that explains it. A list has a row
 * for each value, from 0 on, and ends with a NULL word. */
typedef struct VaeWord {
    const char *word, *sentence;
} VaeWord;

extern const VaeWord vae_backend_words[], vae_precision_words[],
    vae_normalization_words[];
/* Returns "unknown" for a value without a word. */
const char *vae_word_of(const VaeWord *words, int value);
/* Returns -1 for an unknown word. */
int vae_word_find(const VaeWord *words, const char *word);

VAE_API const char *vae_normalization_name(VaeNormalization n);
/* *_parse() returns false for an unknown word, and does not write *out. */
VAE_API bool vae_backend_parse(const char *word, VaeBackendKind *out);
VAE_API bool vae_precision_parse(const char *word, VaePrecision *out);
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
