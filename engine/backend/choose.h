/*
 * choose.h: the choice of a backend, for stream.c.
 */
#ifndef VAE_BACKEND_CHOOSE_H
#define VAE_BACKEND_CHOOSE_H

#include "backend.h"

/* The class for kind (AUTO: the first that is available and has the
 * precision) and the precision that it will use in that direction (never
 * AUTO). next: of AUTO, 0 at first, then where another call goes on when that
 * class cannot be opened. log: why AUTO passed which over. Errors:
 * VAE_ERR_UNSUPPORTED with the reason. */
VaeStatus vae_backend_choose(VaeBackendKind kind, VaePrecision precision,
                             VaeDirection direction, int *next,
                             const VaeLog *log, const VaeBackendClass **out,
                             VaePrecision *out_precision, VaeError *error);

#endif
