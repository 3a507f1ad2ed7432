/*
 * synthetic_weights.c: generates weights and inputs from a hash of their name,
 * the same numbers on every machine, and models with such weights.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "hash.h"
#include "distance.h"
#include "model.h"

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

/* The values of `name` are v * scale + shift, with v in [-1, 1). Weights keep
 * the variance of their input; gains are around 1. */
static void
value_range(const char *name, const int64_t *dims, int n_dims, double *scale,
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

/* gain: the values are around 1, whatever the name is. */
static void
generate(const char *name, const int64_t *dims, int n_dims, bool gain,
         float *dst)
{
    uint64_t n = 1;
    for (int i = 0; i < n_dims; i++)
        n *= (uint64_t) dims[i];
    double scale, shift;
    value_range(gain ? ".gamma" : name, dims, n_dims, &scale, &shift);
    const uint64_t h = vae_hash(VAE_HASH, name, strlen(name));
    for (uint64_t i = 0; i < n; i++)
        dst[i] = (float) (number(h, i) * scale + shift);
}

void
vae_generate(const char *name, const int64_t *dims, int n_dims, float *dst)
{
    generate(name, dims, n_dims, false, dst);
}

/* ------------------------------------------------------------------ */

static uint64_t
count(const VaeRequiredTensor *d)
{
    uint64_t n = 1;
    for (int i = 0; i < d->n_dims; i++)
        n *= (uint64_t) d->dims[i];
    return n;
}

static const VaeArch *
find_arch(const char *name, VaeError *error)
{
    const VaeArch *nearest = NULL;
    for (int i = 0; vae_archs[i]; i++) {
        const VaeArch *a = vae_archs[i];
        if (strcmp(a->name, name) == 0)
            return a;
        if (!nearest ||
            vae_distance(name, a->name) < vae_distance(name, nearest->name))
            nearest = a;
    }
    vae_fail(error, VAE_ERR_ARGUMENT,
             "no architecture \"%s\"; the nearest is %s (vaetool make-weights "
             "--help lists all)",
             name, nearest ? nearest->name : "none");
    return NULL;
}

static VaeStatus
outline(const VaeArch *arch, VaeModel **out, VaeError *error)
{
    VaeModel *m;
    const VaeStatus status = vae_model_preset(arch, true, true, &m, error);
    if (status != VAE_OK)
        return status;
    for (size_t i = 0; i < m->n_required; i++) {
        VaeRequiredTensor *d = &m->required[i];
        d->found = (VaeTensorInfo){.name = d->name,
                                   .type = VAE_TYPE_F32,
                                   .supported = true,
                                   .type_name = "F32",
                                   .n_dims = d->n_dims,
                                   .bytes = count(d) * sizeof(float)};
        memcpy(d->found.dims, d->dims, sizeof d->dims);
    }
    m->outline = true;
    vae_model_summarise(m);
    *out = m;
    return VAE_OK;
}

static VaeStatus
generate_weights(VaeModel *m, VaeError *error)
{
    m->generated = calloc(m->n_required, sizeof *m->generated);
    for (size_t i = 0; i < m->n_required; i++) {
        VaeRequiredTensor *d = &m->required[i];
        const size_t bytes = (size_t) d->found.bytes;
        float *data = m->generated ? vae_mem_alloc(bytes) : NULL;
        if (!data)
            return vae_fail(error, VAE_ERR_MEMORY,
                            "out of memory for the generated tensor %s (%zu "
                            "bytes)",
                            d->name, bytes);
        m->generated[i] = data;
        d->found.data = data;
        /* Deviations of latents are positive. */
        generate(d->name, d->dims, d->n_dims,
                 m->arch->std && strcmp(d->name, m->arch->std) == 0, data);
    }
    m->outline = false;
    return VAE_OK;
}

VaeStatus
vae_model_generate_arch(const VaeArch *arch, VaeModel **out, VaeError *error)
{
    *out = NULL;
    VaeStatus status = outline(arch, out, error);
    if (status == VAE_OK)
        status = generate_weights(*out, error);
    if (status == VAE_OK)
        status = vae_model_read_statistics(*out, error);
    if (status != VAE_OK)
        vae_model_free(out);
    return status;
}

VaeStatus
vae_model_outline(const char *arch, VaeModel **out, VaeError *error)
{
    *out = NULL;
    const VaeArch *found = find_arch(arch, error);
    return found ? outline(found, out, error) : VAE_ERR_ARGUMENT;
}

VaeStatus
vae_model_generate(const char *arch, VaeModel **out, VaeError *error)
{
    *out = NULL;
    const VaeArch *found = find_arch(arch, error);
    return found ? vae_model_generate_arch(found, out, error)
                 : VAE_ERR_ARGUMENT;
}
