/*
 * dict.h: the tensors in the dicts and lists of a pickle.
 */
#ifndef VAE_TORCH_DICT_H
#define VAE_TORCH_DICT_H

#include "pickle.h"

/* A tensor in a dict or list. */
typedef struct VaeTorchTensor {
    const VaePickleEntry *part; /* the dict in the dict that has it, or NULL */
    const VaePickleEntry *entry;
    size_t steps;
    bool joined; /* the dict has parts */
} VaeTorchTensor;

/* Goes to the next tensor; *t is all zeros before the first. A dict with the
 * key "encoder" or "decoder" has also those of the dicts in it. */
bool vae_torch_next(const VaePickle *p, const VaePickleValue *dict,
                    VaeTorchTensor *t);
/* The number of these tensors. *text: the bytes of their names, each with a
 * NUL. */
size_t vae_torch_count(const VaePickle *p, const VaePickleValue *dict,
                       size_t *text);

/* Replaces *dict by the dict in it that has more tensors, under a usual key or
 * two. If there are none, the error names what else in it has tensors. label:
 * the name of the file. */
VaeStatus vae_torch_enter(const VaePickle *p, const char *label,
                          VaePickleValue *dict, VaeError *error);

/* "a number", "None" ... */
const char *vae_torch_kind(const VaePickleValue *value);
/* Fails because the key of a tensor in a dict is no text. */
VaeStatus vae_torch_bad_key(const char *label, const VaePickleValue *key,
                            VaeError *error);

#endif
