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
    int next; /* state of AUTO: 0 in the first call */
    /* Results. */
    const VaeBackendClass *class;
    VaePrecision chosen; /* never AUTO */
    char why[512];       /* why AUTO chose the precision, or empty */
} VaeBackendChoice;

/* Chooses a backend. If it cannot be opened, another call chooses AUTO's next
 * one. log: gets the reasons why AUTO skips backends. Errors:
 * VAE_ERR_UNSUPPORTED with the reason. */
VaeStatus vae_backend_choose(VaeBackendChoice *choice, const VaeLog *log,
                             VaeError *error);

#endif
