/*
 * choose.c: which backends there are, and the choice among them.
 */
#include <assert.h>
#include <stdio.h>

#include "backend.h"
#include "choose.h"

/* Fastest first. */
static const VaeBackendKind order[] = {VAE_BACKEND_CUDA, VAE_BACKEND_CPU,
                                       VAE_BACKEND_REF};

#define N_ORDER (sizeof order / sizeof *order)

/* NULL and a sentence where there is none. */
static const VaeBackendClass *
find_class(VaeBackendKind kind, char *why, size_t size)
{
    if (kind == VAE_BACKEND_REF)
        return &vae_backend_ref;
#ifdef VAE_HAVE_ONEDNN
    if (kind == VAE_BACKEND_CPU)
        return &vae_backend_cpu;
#endif
    if (kind == VAE_BACKEND_CUDA)
        return vae_backend_cuda_class(why, size);
    snprintf(why, size, "this build has no %s backend", vae_backend_name(kind));
    return NULL;
}

bool
vae_backend_available(VaeBackendKind kind, char *why, size_t size)
{
    char ignored[1];
    if (!why) {
        why = ignored;
        size = sizeof ignored;
    }
    if (kind == VAE_BACKEND_AUTO)
        return true;
    const VaeBackendClass *c = find_class(kind, why, size);
    return c && c->available(why, size);
}

static bool
resolve(const VaeBackendClass *c, VaePrecision wanted, VaeDirection direction,
        VaePrecision *out, char *why, size_t size)
{
    if (wanted == VAE_PRECISION_AUTO && direction == VAE_ENCODE)
        wanted = c->encode_precision;
    return c->precision(wanted, out, why, size);
}

VaeStatus
vae_backend_choose(VaeBackendKind kind, VaePrecision precision,
                   VaeDirection direction, int *next, const VaeLog *log,
                   const VaeBackendClass **out, VaePrecision *out_precision,
                   VaeError *error)
{
    char why[512] = "", all[sizeof((VaeError *) 0)->message] = "";
    size_t used = 0;
    if (kind != VAE_BACKEND_AUTO) {
        if (!vae_backend_available(kind, why, sizeof why))
            return vae_fail(error, VAE_ERR_UNSUPPORTED, "backend %s: %s",
                            vae_backend_name(kind), why);
        *out = find_class(kind, why, sizeof why);
        if (!resolve(*out, precision, direction, out_precision, why,
                     sizeof why))
            return vae_fail(error, VAE_ERR_UNSUPPORTED, "%s", why);
        return VAE_OK;
    }
    while ((size_t) *next < N_ORDER) {
        const VaeBackendKind one = order[(*next)++];
        *out = find_class(one, why, sizeof why);
        if (*out && (*out)->available(why, sizeof why) &&
            resolve(*out, precision, direction, out_precision, why, sizeof why))
            return VAE_OK;
        vae_log(log, "backend %s is not taken: %s", vae_backend_name(one), why);
        if (used < sizeof all)
            used +=
                (size_t) snprintf(all + used, sizeof all - used, "%s%s: %s",
                                  used ? "; " : "", vae_backend_name(one), why);
    }
    return vae_fail(error, VAE_ERR_UNSUPPORTED,
                    "no backend computes in %s here: %s",
                    vae_precision_name(precision), all);
}
