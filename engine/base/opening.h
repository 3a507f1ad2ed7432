/*
 * opening.h: the time that each part of opening a stream takes, for the log.
 */
#ifndef VAE_OPENING_H
#define VAE_OPENING_H

#include <stddef.h>

#include "clock.h"

typedef enum VaeOpeningPart {
    VAE_OPENING_BACKEND,  /* loads and checks the backend and its libraries */
    VAE_OPENING_DEVICE,   /* opens the device or the processor */
    VAE_OPENING_LIBRARY,  /* opens the library of convolutions */
    VAE_OPENING_TEST,     /* tests the device */
    VAE_OPENING_PROGRAMS, /* builds the programs and plans their memory */
    VAE_OPENING_CHOICES,  /* makes the choice of each layer */
    VAE_OPENING_PLANS,    /* makes the plans of convolutions */
    VAE_OPENING_WEIGHTS,  /* reads and converts weights */
    VAE_OPENING_UPLOAD,   /* copies them to the device */
    VAE_OPENING_PREPARE,  /* the rest of preparing the programs */
    VAE_OPENING_CODE,     /* loads the code of kernels */
    VAE_OPENING_MEMORY,   /* the rest of allocating and binding memory */
    VAE_OPENING_PARTS
} VaeOpeningPart;

/* The time of a part excludes that of parts inside it. */
typedef struct VaeOpening {
    uint64_t ns[VAE_OPENING_PARTS];
    uint64_t total; /* of all parts that have ended */
} VaeOpening;

typedef struct VaeOpeningMark {
    uint64_t now, total;
} VaeOpeningMark;

/* o may be NULL: no times are needed. */
static inline VaeOpeningMark
vae_opening_begin(const VaeOpening *o)
{
    return (VaeOpeningMark){vae_now_ns(), o ? o->total : 0};
}

static inline void
vae_opening_end(VaeOpening *o, VaeOpeningPart part, VaeOpeningMark begin)
{
    if (!o)
        return;
    const uint64_t ns = vae_now_ns() - begin.now;
    o->ns[part] += ns - (o->total - begin.total);
    o->total = begin.total + ns;
}

#endif
