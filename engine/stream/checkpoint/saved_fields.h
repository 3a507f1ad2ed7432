/*
 * saved_fields.h: the fields of a checkpoint, as metadata of its file, and its
 * checksum.
 */
#ifndef VAE_SAVED_FIELDS_H
#define VAE_SAVED_FIELDS_H

#include "stream.h"

/* A field of a checkpoint. A field with a name must be the same when it is
 * loaded. */
typedef struct VaeCheckpointField {
    const char *key;
    const char *name; /* its name in error messages; NULL: it may differ */
    char value[72];
} VaeCheckpointField;

#define VAE_CHECKPOINT_FIELDS 24
#define VAE_CHECKPOINT_OWN 16 /* most entries of the caller */

typedef struct VaeCheckpointFields {
    int n;
    VaeCheckpointField fields[VAE_CHECKPOINT_FIELDS];
} VaeCheckpointFields;

/* Checks the arguments of a call, and copies the params to *own. */
VaeStatus vae_checkpoint_params(const VaeStream *s,
                                const VaeCheckpointParams *params,
                                VaeCheckpointParams *own, VaeError *error);
/* Fills in the fields. Settings that a stream does not read stay empty. */
VaeStatus vae_checkpoint_describe(const VaeStream *s,
                                  const VaeCheckpointParams *params,
                                  int carries, VaeCheckpointFields *f,
                                  VaeError *error);

/* A checksum over the whole file, against damage and not against malice: FNV-1a
 * over words of eight bytes. Each step is one to one, so every change of a
 * single word changes the sum. */
#define VAE_CHECKPOINT_SUM UINT64_C(0xcbf29ce484222325)
uint64_t vae_checkpoint_sum(uint64_t sum, const void *data, size_t n);
uint64_t vae_checkpoint_sum_text(uint64_t sum, const char *key,
                                 const char *value);

#endif
