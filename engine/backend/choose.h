/*
 * choose.h: the choice of a backend, for stream.c.
 */
#ifndef VAE_BACKEND_CHOOSE_H
#define VAE_BACKEND_CHOOSE_H

#include "backend.h"

typedef struct VaeBackendChoice {
    VaeBackendKind kind;    /* asked for; AUTO: the fastest that works */
    VaePrecision precision; /* asked for */
    VaeDirection direction;
    int next; /* for AUTO: 0, then where the last call ended */
    /* Results. */
    const VaeBackendClass *class;
    VaePrecision chosen; /* never AUTO */
    char why[512];       /* why AUTO chose the precision, or empty */
} VaeBackendChoice;

/* Chooses a backend. For AUTO, another call chooses the next one, for a class
 * that cannot be opened. log: why AUTO did not take a backend. Errors:
 * VAE_ERR_UNSUPPORTED with the reason. */
VaeStatus vae_backend_choose(VaeBackendChoice *choice, const VaeLog *log,
                             VaeError *error);

#endif
