/*
 * strips.h: computes the slabs of large pictures in strips of rows.
 *
 * The input of a convolution over time is a slab: a whole picture for each
 * frame, and for each frame of its context. Only a norm, a cast or a
 * rearrangement writes it, and only the convolution reads it. A strip of its
 * rows is made, convolved and saved in the carry before the next strip is made.
 * The tensors around the slab stay whole.
 *
 * A 3x3 convolution reads one row above and one below its own. Neighbouring
 * strips both compute these rows of the slab. A strip writes to the carry only
 * the rows above the next strip's first row, because the next strip takes its
 * context from the others. A group norm adds up the whole picture before the
 * first strip. The results are the same to the byte.
 */
#ifndef VAE_STRIPS_H
#define VAE_STRIPS_H

#include "program.h"

typedef struct VaeStrips {
    int most;                                   /* strips; 0 and 1: none */
    bool (*can)(void *user, const VaeOp *conv); /* VaeFusions.can_strip */
    void *user;
} VaeStrips;

/* Replaces the large slabs of a recorded program, before it is fused and
 * planned. Sets program->strips to `most` if there is such a slab. False: out
 * of memory; the program can only be freed. */
bool vae_program_strips(VaeProgram *program, const VaeStrips *strips);

#endif
