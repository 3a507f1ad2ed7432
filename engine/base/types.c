/*
 * types.c: number types, dimensions and lists as text. See vae-private/types.h.
 */
#include "vae-private/types.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers in files are used in place");

/* Tensors in files may have any alignment. */
typedef uint16_t U16 __attribute__((aligned(1), may_alias));
typedef float F32 __attribute__((aligned(1), may_alias));
typedef double F64 __attribute__((aligned(1), may_alias));

/* The inner loops have a constant count, so that -O2 vectorises them. */
enum { BLOCK = 64 };

size_t
vae_type_size(VaeType type)
{
    switch (type) {
    case VAE_TYPE_F32:
        return 4;
    case VAE_TYPE_F16:
    case VAE_TYPE_BF16:
        return 2;
    case VAE_TYPE_U8:
        return 1;
    case VAE_TYPE_F64:
        return 8;
    }
    return 0;
}

const char *
vae_type_name(VaeType type)
{
    switch (type) {
    case VAE_TYPE_F32:
        return "float32";
    case VAE_TYPE_F16:
        return "float16";
    case VAE_TYPE_BF16:
        return "bfloat16";
    case VAE_TYPE_U8:
        return "uint8";
    case VAE_TYPE_F64:
        return "float64";
    }
    return "unknown type";
}

static inline float
float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t
bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* `take ? a : b` without a jump: gcc does not vectorise loops with jumps. */
static inline uint32_t
select_bits(bool take, uint32_t a, uint32_t b)
{
    const uint32_t mask = 0 - (uint32_t) take;
    return (a & mask) | (b & ~mask);
}

/* No operand or result here is a subnormal float, so the functions are exact
 * even if the processor flushes subnormals to zero. */
static inline float
float_of_f16(uint32_t h)
{
    const uint32_t shifted = (h & 0x7fff) << 13;
    /* Adds 112 to the exponent (bias 15 becomes 127); twice that for infinity
     * and NaN. */
    const uint32_t normal = shifted + (112u << 23);
    const uint32_t special = shifted + (224u << 23);
    /* A subnormal is m * 2^-24: (2^-14 + m * 2^-24) - 2^-14. */
    const float tiny = float_of(shifted + (113u << 23)) - 0x1p-14f;
    uint32_t bits = select_bits(shifted >= 0x0f800000, special, normal);
    bits = select_bits(shifted < 0x00800000, bits_of(tiny), bits);
    return float_of(bits | (h & 0x8000) << 16);
}

static inline uint16_t
f16_of_float(float f)
{
    const uint32_t bits = bits_of(f);
    const uint32_t a = bits & 0x7fffffff;
    const uint32_t odd = a >> 13 & 1;
    /* For 2^-14 and more. Rounding up may reach infinity. */
    const uint32_t normal = (a + 0xfff + odd - (112u << 23)) >> 13;
    /* For less than 2^-14. Adding 0.5 rounds to a multiple of 2^-24. */
    const uint32_t tiny = bits_of(float_of(a) + 0.5f) - bits_of(0.5f);
    const uint32_t nan = 0x7e00 | (a >> 13 & 0x1ff);
    uint32_t h = select_bits(a < 0x38800000, tiny, normal);
    h = select_bits(a >= 0x47800000, 0x7c00, h);
    h = select_bits(a > 0x7f800000, nan, h);
    return (uint16_t) (h | (bits >> 16 & 0x8000));
}

static inline float
float_of_bf16(uint32_t h)
{
    return float_of(h << 16);
}

static inline uint16_t
bf16_of_float(float f)
{
    const uint32_t bits = bits_of(f);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t nan = bits >> 16 | 0x40;
    return (uint16_t) ((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* NaN gives 0. */
static inline uint8_t
u8_of_float(float f)
{
    const float low = float_of(select_bits(f > 0, bits_of(f), 0));
    const uint32_t clamped = select_bits(low < 255, bits_of(low), bits_of(255));
    /* From 2^23 on, the last bit is worth 1: adding 2^23 rounds. */
    return (uint8_t) bits_of(float_of(clamped) + 0x1p23f);
}

static void
f16_to_float(float *restrict dst, const U16 *restrict src, size_t n)
{
    for (; n >= BLOCK; n -= BLOCK, dst += BLOCK, src += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            dst[i] = float_of_f16(src[i]);
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = float_of_f16(src[i]);
}

static void
bf16_to_float(float *restrict dst, const U16 *restrict src, size_t n)
{
    for (; n >= BLOCK; n -= BLOCK, dst += BLOCK, src += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            dst[i] = float_of_bf16(src[i]);
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = float_of_bf16(src[i]);
}

static void
u8_to_float(float *restrict dst, const uint8_t *restrict src, size_t n)
{
    for (; n >= BLOCK; n -= BLOCK, dst += BLOCK, src += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            dst[i] = src[i];
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i];
}

static void
f16_from_float(U16 *restrict dst, const F32 *restrict src, size_t n)
{
    for (; n >= BLOCK; n -= BLOCK, dst += BLOCK, src += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            dst[i] = f16_of_float(src[i]);
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = f16_of_float(src[i]);
}

static void
bf16_from_float(U16 *restrict dst, const F32 *restrict src, size_t n)
{
    for (; n >= BLOCK; n -= BLOCK, dst += BLOCK, src += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            dst[i] = bf16_of_float(src[i]);
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = bf16_of_float(src[i]);
}

static void
u8_from_float(uint8_t *restrict dst, const F32 *restrict src, size_t n)
{
    for (; n >= BLOCK; n -= BLOCK, dst += BLOCK, src += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            dst[i] = u8_of_float(src[i]);
    }
    for (size_t i = 0; i < n; i++)
        dst[i] = u8_of_float(src[i]);
}

void
vae_type_to_float(float *dst, const void *src, VaeType type, size_t n)
{
    if (n == 0)
        return;
    switch (type) {
    case VAE_TYPE_F32:
        memcpy(dst, src, n * sizeof *dst);
        break;
    case VAE_TYPE_F16:
        f16_to_float(dst, src, n);
        break;
    case VAE_TYPE_BF16:
        bf16_to_float(dst, src, n);
        break;
    case VAE_TYPE_U8:
        u8_to_float(dst, src, n);
        break;
    case VAE_TYPE_F64:
        for (size_t i = 0; i < n; i++)
            dst[i] = (float) ((const F64 *) src)[i];
        break;
    }
}

void
vae_type_from_float(void *dst, VaeType type, const float *src, size_t n)
{
    if (n == 0)
        return;
    switch (type) {
    case VAE_TYPE_F32:
        memcpy(dst, src, n * sizeof *src);
        break;
    case VAE_TYPE_F16:
        f16_from_float(dst, src, n);
        break;
    case VAE_TYPE_BF16:
        bf16_from_float(dst, src, n);
        break;
    case VAE_TYPE_U8:
        u8_from_float(dst, src, n);
        break;
    case VAE_TYPE_F64:
        for (size_t i = 0; i < n; i++)
            ((F64 *) dst)[i] = src[i];
        break;
    }
}

static const char *const backends[] = {
    [VAE_BACKEND_AUTO] = "auto",
    [VAE_BACKEND_CUDA] = "cuda",
    [VAE_BACKEND_CPU] = "cpu",
    [VAE_BACKEND_REF] = "ref",
};

static const char *const precisions[] = {
    [VAE_PRECISION_AUTO] = "auto", [VAE_PRECISION_FP32] = "fp32",
    [VAE_PRECISION_TF32] = "tf32", [VAE_PRECISION_FP16] = "fp16",
    [VAE_PRECISION_BF16] = "bf16",
};

static const char *const nan_policies[] = {"pass", "fallback", "error"};
static const char *const spills[] = {"auto", "off", "host"};
static const char *const normalizations[] = {
    [VAE_NORMALIZED] = "normalized",
    [VAE_RAW] = "raw",
    [VAE_COMFYUI] = "comfyui",
};

static const char *
word_at(const char *const *words, unsigned n, unsigned i)
{
    return i < n ? words[i] : "unknown";
}

/* The index of word in words; -1 if it is not there. */
static int
index_of(const char *const *words, int n, const char *word)
{
    for (int i = 0; word != NULL && i < n; i++) {
        if (strcmp(words[i], word) == 0)
            return i;
    }
    return -1;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *
vae_backend_name(VaeBackendKind kind)
{
    return word_at(backends, COUNT(backends), kind);
}

bool
vae_backend_parse(const char *word, VaeBackendKind *out)
{
    const int i = index_of(backends, COUNT(backends), word);
    if (i >= 0)
        *out = (VaeBackendKind) i;
    return i >= 0;
}

const char *
vae_precision_name(VaePrecision precision)
{
    return word_at(precisions, COUNT(precisions), precision);
}

bool
vae_precision_parse(const char *word, VaePrecision *out)
{
    const int i = index_of(precisions, COUNT(precisions), word);
    if (i >= 0)
        *out = (VaePrecision) i;
    return i >= 0;
}

bool
vae_nan_policy_parse(const char *word, VaeNanPolicy *out)
{
    const int i = index_of(nan_policies, COUNT(nan_policies), word);
    if (i >= 0)
        *out = (VaeNanPolicy) i;
    return i >= 0;
}

bool
vae_spill_parse(const char *word, VaeSpill *out)
{
    const int i = index_of(spills, COUNT(spills), word);
    if (i >= 0)
        *out = (VaeSpill) i;
    return i >= 0;
}

const char *
vae_normalization_name(VaeNormalization n)
{
    return word_at(normalizations, COUNT(normalizations), n);
}

bool
vae_normalization_parse(const char *word, VaeNormalization *out)
{
    const int i = index_of(normalizations, COUNT(normalizations), word);
    if (i >= 0)
        *out = (VaeNormalization) i;
    return i >= 0;
}

bool
vae_memory_limit_parse(const char *word, size_t *bytes, double *share)
{
    static const char units[] = "kmgt";
    char *end;
    const bool is_auto = strcmp(word, "auto") == 0;
    const double v = is_auto ? 0 : strtod(word, &end);
    double unit = 1;
    if (is_auto) {
        *bytes = 0;
        *share = 0;
        return true;
    }
    if (*word < '0' || *word > '9' || end == word || !(v > 0))
        return false;
    if (strcmp(end, "%") == 0) {
        if (v > 100)
            return false;
        *bytes = 0;
        *share = v / 100;
        return true;
    }
    const char *found = *end ? strchr(units, tolower((uint8_t) *end)) : NULL;
    if (found) {
        unit = ldexp(1, 10 * (int) (found - units + 1));
        end++;
    }
    if (found && strcmp(end, "iB") == 0)
        end += 2;
    if (*end || v * unit < 1 || v * unit >= (double) SIZE_MAX)
        return false;
    *bytes = (size_t) (v * unit);
    *share = 0;
    return true;
}
