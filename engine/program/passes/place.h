/*
 * place.h: memory of the arena that some ops of a program use.
 */
#ifndef VAE_PLACE_H
#define VAE_PLACE_H

#include "program.h"

typedef struct VaePlaced {
    size_t offset, size;
    int first, last; /* ops between which it is in use */
    VaeTensor *root; /* or NULL */
} VaePlaced;

/* The lowest multiple of 64 bytes at which b overlaps none of the n blocks that
 * are in use at the same time. */
static inline size_t
vae_lowest_offset(const VaePlaced *blocks, int n, const VaePlaced *b)
{
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const VaePlaced *o = &blocks[i];
            if (o->last < b->first || b->last < o->first ||
                offset >= o->offset + o->size || o->offset >= offset + b->size)
                continue;
            offset = (o->offset + o->size + 63) / 64 * 64;
            moved = true;
        }
    }
    return offset;
}

#endif
