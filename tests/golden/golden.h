/*
 * golden.h: the sets of cases of the golden test.
 */
#ifndef VAE_TEST_GOLDEN_H
#define VAE_TEST_GOLDEN_H

#include "vectors.h"

typedef struct Golden {
    VaeBackendKind backend;
    VaePrecision precision;
    int run, failed;
} Golden;

VaeModel *golden_model(const char *path);
VaeStream *golden_stream(const Golden *g, VaeModel *model,
                         VaeStreamParams params);
void golden_check(Golden *g, bool good);

/* clip.c. The margin for networks with random weights. */
TestBound golden_margin(const Golden *g, bool tiny, bool seedvr2_encoder);
/* Reads the latents from one file, and the frames from the same or another. */
void golden_decode(Golden *g, const char *folder, VaeModel *model,
                   const char *input, const char *output);
void golden_encode(Golden *g, const char *folder, VaeModel *model,
                   const char *name);

/* generated.c. Returns false if the vectors are not there. */
bool golden_generated(Golden *g);
/* The full-size networks of these names against the ref backend. */
bool golden_wide(Golden *g, const char *const *archs);

/* Every block of one short run against trace.safetensors of the folder. */
void golden_trace(Golden *g, const char *folder);

/* Clips of 1 to 33 latents against lengths.safetensors of the folder. */
void golden_lengths(Golden *g, const char *folder);

#endif
