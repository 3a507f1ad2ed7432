/*
 * backend.c: which backends there are, and the choice among them.
 */
#include <assert.h>
#include <stdio.h>

#include "backend.h"
#include "backend_choose.h"

/* Fastest first. */
static const VaeBackendClass *const classes[] = {
#ifdef VAE_HAVE_ONEDNN
    &vae_backend_cpu,
#endif
    &vae_backend_ref};

#define N_CLASSES (sizeof classes / sizeof *classes)

static const VaeBackendClass *
find_class(VaeBackendKind kind)
{
    for (size_t i = 0; i < N_CLASSES; i++)
        if (classes[i]->kind == kind)
            return classes[i];
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
    const VaeBackendClass *c = find_class(kind);
    if (!c) {
        snprintf(why, size, "this build has no %s backend",
                 vae_backend_name(kind));
        return false;
    }
    return c->available(why, size);
}

VaeStatus
vae_backend_choose(VaeBackendKind kind, VaePrecision precision,
                   const VaeBackendClass **out, VaePrecision *out_precision,
                   VaeError *error)
{
    char why[512] = "";
    if (kind != VAE_BACKEND_AUTO) {
        if (!vae_backend_available(kind, why, sizeof why))
            return vae_fail(error, VAE_ERR_UNSUPPORTED, "backend %s: %s",
                            vae_backend_name(kind), why);
        *out = find_class(kind);
        assert(*out);
        if (!(*out)->precision(precision, out_precision, why, sizeof why))
            return vae_fail(error, VAE_ERR_UNSUPPORTED, "%s", why);
        return VAE_OK;
    }
    for (size_t i = 0; i < N_CLASSES; i++) {
        *out = classes[i];
        if ((*out)->available(why, sizeof why) &&
            (*out)->precision(precision, out_precision, why, sizeof why))
            return VAE_OK;
    }
    return vae_fail(error, VAE_ERR_UNSUPPORTED,
                    "no backend computes in %s "
                    "here: %s",
                    vae_precision_name(precision), why);
}
