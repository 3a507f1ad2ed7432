/*
 * generate.c: weights and inputs from a hash of their name, the same numbers
 * on every machine.
 */
#include <math.h>
#include <string.h>

#include "vae/model.h"

/* FNV-1a, 64 bits. */
static uint64_t
hash_name(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        h = (h ^ (unsigned char) *name) * UINT64_C(0x100000001b3);
    return h;
}

/* Element i of the stream h, in [-1, 1): 24 bits of splitmix64. */
static double
number(uint64_t h, uint64_t i)
{
    uint64_t z = h + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double) (z >> 40) * 0x1p-23 - 1;
}

static bool
ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* The numbers of `name` are v * scale + shift with v in [-1, 1). Weights keep
 * the variance of what they multiply, gains lie around one. */
static void
rule(const char *name, const int64_t *dims, int n_dims, double *scale,
     double *shift)
{
    *shift = 0;
    if (strcmp(name, "latent") == 0) {
        *scale = sqrt(3.0);
    } else if (strcmp(name, "video") == 0) {
        *scale = 1;
    } else if (ends_with(name, ".gamma") ||
               (n_dims == 1 && ends_with(name, "weight"))) {
        *scale = 0.2;
        *shift = 1;
    } else if (n_dims < 2) {
        *scale = 0.1;
    } else {
        double fan_in = 1;
        for (int i = 1; i < n_dims; i++)
            fan_in *= (double) dims[i];
        *scale = sqrt(3 / fan_in);
    }
}

void
vae_generate(const char *name, const int64_t *dims, int n_dims, float *dst)
{
    uint64_t n = 1;
    for (int i = 0; i < n_dims; i++)
        n *= (uint64_t) dims[i];
    double scale, shift;
    rule(name, dims, n_dims, &scale, &shift);
    const uint64_t h = hash_name(name);
    for (uint64_t i = 0; i < n; i++)
        dst[i] = (float) (number(h, i) * scale + shift);
}
