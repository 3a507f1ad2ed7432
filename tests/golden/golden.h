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

/* Every block of one short run against trace.safetensors of the folder. */
void golden_trace(Golden *g, const char *folder);

/* Clips of 1 to 33 latents against lengths.safetensors of the folder. */
void golden_lengths(Golden *g, const char *folder);

#endif
