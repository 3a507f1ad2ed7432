/*
 * choose.c: lists the backends and chooses one.
 */
#include <stdio.h>

#include "backend.h"
#include "choose.h"

/* Fastest first. REF is the last, because it always works. */
static const VaeBackendKind order[] = {VAE_BACKEND_CUDA, VAE_BACKEND_CPU,
                                       VAE_BACKEND_REF};

#define N_ORDER (sizeof order / sizeof *order)

/* NULL: there is none; `why` says why. */
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
    VaePrecision precision;
    const VaeBackendClass *c = find_class(kind, why, size);
    return c && c->usable(VAE_PRECISION_AUTO, &precision, why, size);
}

/* Sets chosen and why. False: `why` is an error. */
static bool
resolve(VaeBackendChoice *c)
{
    const VaePrecision requested =
        c->precision == VAE_PRECISION_AUTO && c->direction == VAE_ENCODE
            ? c->class->encode_precision
            : c->precision;
    c->why[0] = '\0';
    return c->class->usable(requested, &c->chosen, c->why, sizeof c->why);
}

VaeStatus
vae_backend_choose(VaeBackendChoice *c, const VaeLog *log, VaeError *error)
{
    char all[sizeof((VaeError *) 0)->message] = "";
    size_t used = 0;
    if (c->kind != VAE_BACKEND_AUTO) {
        c->class = find_class(c->kind, c->why, sizeof c->why);
        return c->class && resolve(c)
                   ? VAE_OK
                   : vae_fail(error, VAE_ERR_UNSUPPORTED, "backend %s: %s",
                              vae_backend_name(c->kind), c->why);
    }
    while ((size_t) c->next < N_ORDER) {
        const VaeBackendKind one = order[c->next++];
        c->class = find_class(one, c->why, sizeof c->why);
        if (c->class && resolve(c))
            return VAE_OK;
        vae_log(log, "backend %s is not taken: %s", vae_backend_name(one),
                c->why);
        if (used < sizeof all)
            used += (size_t) snprintf(all + used, sizeof all - used, "%s%s: %s",
                                      used ? "; " : "", vae_backend_name(one),
                                      c->why);
    }
    return vae_fail(error, VAE_ERR_UNSUPPORTED,
                    "no backend computes in %s here: %s",
                    vae_precision_name(c->precision), all);
}
