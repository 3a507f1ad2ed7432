/*
 * sequence.h: the place of a stream in its sequence, as a value.
 */
#ifndef VAE_SEQUENCE_H
#define VAE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of programs. NEXT computes a slice, the others a single step. */
typedef enum VaeKind { FIRST, NEXT, NEXT1, WITHOUT_CONTEXT, KINDS } VaeKind;

/* Where a sequence began: at a restart, or at latent 0. */
typedef struct VaeOrigin {
    uint64_t latent;
    bool restart;
} VaeOrigin;

typedef struct VaeSequence {
    VaeKind next;     /* FIRST or WITHOUT_CONTEXT before the first step;
                         NEXT after it */
    bool broken;      /* an error has ended the sequence */
    int step;         /* runs of the sequence so far */
    int warm_up;      /* next steps whose results are discarded */
    uint64_t latents; /* index of the next latent in or out */
    VaeOrigin origin; /* of the sequence; a checkpoint keeps it */
    VaeOrigin lines;  /* of the delay lines; it is later than that of the
                         sequence after a checkpoint without carries */
    bool ended;       /* no latent follows; the delay lines are drained */
    int drained;      /* steps since the last latent, if the sequence ended */
    bool in_fallback; /* only the fp32 machine has the carries, see nan.c */
} VaeSequence;

/* The latents that have left something in the stream. */
static inline uint64_t
vae_sequence_length(const VaeSequence *at)
{
    return at->latents - at->lines.latent;
}

/* The place before the first step. */
static inline VaeSequence
vae_sequence_from(VaeOrigin origin)
{
    return (VaeSequence){.next = origin.restart ? WITHOUT_CONTEXT : FIRST,
                         .latents = origin.latent,
                         .origin = origin,
                         .lines = origin};
}

#endif
