/*
 * types.c: number types, dimensions and lists as text. See vae-private/types.h.
 */
#include "vae-private/types.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
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

const char *
vae_type_words(const char *name, char *text, size_t size)
{
    /* Those of npy count bytes, the others bits. */
    static const struct {
        const char *letters, *word;
        int bits;
    } kinds[] = {{"f", "float", 8}, {"F", "float", 1},   {"BF", "bfloat", 1},
                 {"i", "int", 8},   {"I", "int", 1},     {"u", "uint", 8},
                 {"U", "uint", 1},  {"c", "complex", 8}, {"C", "complex", 1}};
    const bool npy = *name && strchr("<>|=", *name);
    const char *at = name + npy;
    const size_t n = strcspn(at, "0123456789");
    char *end;
    const long number = strtol(at + n, &end, 10);
    snprintf(text, size, "%s", name);
    if (strcmp(at, "BOOL") == 0 || (npy && strcmp(at, "b1") == 0))
        snprintf(text, size, "bool");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const long bits = number < 100 ? number * kinds[i].bits : 0;
        if (strlen(kinds[i].letters) == n && npy == (kinds[i].bits == 8) &&
            bits >= 8 && bits <= 128 && (bits & (bits - 1)) == 0 && !*end &&
            strncmp(kinds[i].letters, at, n) == 0)
            snprintf(text, size, "%s%s%ld", *name == '>' ? "big-endian " : "",
                     kinds[i].word, bits);
    }
    return text;
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

const VaeWord vae_backend_words[] = {
    [VAE_BACKEND_AUTO] = {"auto", "First of cuda, cpu and ref that works on "
                                  "this machine"},
    [VAE_BACKEND_CUDA] = {"cuda", "NVIDIA GPU; needs the cuda module of "
                                  "gst-vae, a driver and cuDNN"},
    [VAE_BACKEND_CPU] = {"cpu", "CPU; needs a build with oneDNN"},
    [VAE_BACKEND_REF] = {"ref", "CPU in plain C, the reference; always "
                                "available, but slow"},
    {0}};

const VaeWord vae_precision_words[] = {
    [VAE_PRECISION_AUTO] = {"auto", "Decodes in bf16 where it is faster, else "
                                    "in fp32; encodes in tf32 on cuda, else in "
                                    "fp32"},
    [VAE_PRECISION_FP32] = {"fp32", "32-bit floats, on every backend"},
    [VAE_PRECISION_TF32] = {"tf32", "32-bit floats, products in TF32 (cuda)"},
    [VAE_PRECISION_FP16] = {"fp16", "IEEE half floats (cuda)"},
    [VAE_PRECISION_BF16] = {"bf16", "bfloat16 (cuda, and cpu where the "
                                    "processor has it)"},
    {0}};

const VaeWord vae_normalization_words[] = {
    [VAE_NORMALIZED] = {"normalized", "As the diffusion model emits them"},
    [VAE_RAW] = {"raw", "normalized * deviation + mean of each channel"},
    [VAE_COMFYUI] = {"comfyui", "As in a .latent of ComfyUI: raw or "
                                "normalized, by the latent space"},
    {0}};

const char *
vae_word_of(const VaeWord *words, int value)
{
    int i = 0;
    while (words[i].word && i != value)
        i++;
    return words[i].word ? words[i].word : "unknown";
}

int
vae_word_find(const VaeWord *words, const char *word)
{
    for (int i = 0; word && words[i].word; i++)
        if (strcmp(words[i].word, word) == 0)
            return i;
    return -1;
}

const char *
vae_backend_name(VaeBackendKind value)
{
    return vae_word_of(vae_backend_words, (int) value);
}

const char *
vae_precision_name(VaePrecision value)
{
    return vae_word_of(vae_precision_words, (int) value);
}

const char *
vae_normalization_name(VaeNormalization value)
{
    return vae_word_of(vae_normalization_words, (int) value);
}

bool
vae_backend_parse(const char *word, VaeBackendKind *out)
{
    const int i = vae_word_find(vae_backend_words, word);
    if (i >= 0)
        *out = (VaeBackendKind) i;
    return i >= 0;
}

bool
vae_precision_parse(const char *word, VaePrecision *out)
{
    const int i = vae_word_find(vae_precision_words, word);
    if (i >= 0)
        *out = (VaePrecision) i;
    return i >= 0;
}

bool
vae_normalization_parse(const char *word, VaeNormalization *out)
{
    const int i = vae_word_find(vae_normalization_words, word);
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
