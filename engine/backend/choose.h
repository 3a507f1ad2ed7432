/*
 * choose.h: chooses the backend of a stream.
 */
#ifndef VAE_BACKEND_CHOOSE_H
#define VAE_BACKEND_CHOOSE_H

#include "backend.h"

typedef struct VaeBackendChoice {
    VaeBackendKind kind;    /* asked for; AUTO: the fastest that works */
    VaePrecision precision; /* asked for */
    VaeDirection direction;
    int next; /* for AUTO: 0 in the first call; each call sets it for the next
                 one */
    /* Results. */
    const VaeBackendClass *class;
    VaePrecision chosen; /* never AUTO */
    char why[512];       /* why AUTO chose the precision, or empty */
} VaeBackendChoice;

/* Chooses a backend. If a backend that AUTO chose cannot be opened, another
 * call chooses the next one. log: why AUTO did not take a backend. Errors:
 * VAE_ERR_UNSUPPORTED with the reason. */
VaeStatus vae_backend_choose(VaeBackendChoice *choice, const VaeLog *log,
                             VaeError *error);

#endif
