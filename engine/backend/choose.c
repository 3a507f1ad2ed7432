/*
 * choose.c: lists the backends and chooses one.
 */
#include <assert.h>
#include <stdio.h>

#include "backend.h"
#include "choose.h"

/* Fastest first. */
static const VaeBackendKind order[] = {VAE_BACKEND_CUDA, VAE_BACKEND_CPU,
                                       VAE_BACKEND_REF};

#define N_ORDER (sizeof order / sizeof *order)

/* NULL and a sentence if there is none. */
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
resolve(VaeBackendChoice *c, char *why, size_t size)
{
    const VaePrecision wanted =
        c->precision == VAE_PRECISION_AUTO && c->direction == VAE_ENCODE
            ? c->class->encode_precision
            : c->precision;
    return c->class->precision(wanted, &c->chosen, why, size);
}

VaeStatus
vae_backend_choose(VaeBackendChoice *c, const VaeLog *log, VaeError *error)
{
    char why[512] = "", all[sizeof((VaeError *) 0)->message] = "";
    size_t used = 0;
    if (c->kind != VAE_BACKEND_AUTO) {
        if (!vae_backend_available(c->kind, why, sizeof why))
            return vae_fail(error, VAE_ERR_UNSUPPORTED, "backend %s: %s",
                            vae_backend_name(c->kind), why);
        c->class = find_class(c->kind, why, sizeof why);
        assert(c->class);
        if (!resolve(c, why, sizeof why))
            return vae_fail(error, VAE_ERR_UNSUPPORTED, "%s", why);
        return VAE_OK;
    }
    while ((size_t) c->next < N_ORDER) {
        const VaeBackendKind one = order[c->next++];
        c->class = find_class(one, why, sizeof why);
        if (c->class && c->class->available(why, sizeof why) &&
            resolve(c, why, sizeof why))
            return VAE_OK;
        vae_log(log, "backend %s is not taken: %s", vae_backend_name(one), why);
        if (used < sizeof all)
            used +=
                (size_t) snprintf(all + used, sizeof all - used, "%s%s: %s",
                                  used ? "; " : "", vae_backend_name(one), why);
    }
    return vae_fail(error, VAE_ERR_UNSUPPORTED,
                    "no backend computes in %s here: %s",
                    vae_precision_name(c->precision), all);
}
