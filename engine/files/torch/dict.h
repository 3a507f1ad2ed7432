/*
 * dict.h: the tensors in the dicts and lists of a pickle.
 */
#ifndef VAE_TORCH_DICT_H
#define VAE_TORCH_DICT_H

#include "pickle.h"

/* The number of tensors among the values of a dict or list. *text: the bytes of
 * their names, each with a NUL. */
size_t vae_torch_count(const VaePickle *p, const VaePickleValue *dict,
                       size_t *text);

/* Replaces *dict, which has no tensors, by the one dict in it that has, under a
 * usual key. Otherwise the error names what else in it has tensors. label: the
 * name of the file. */
VaeStatus vae_torch_enter(const VaePickle *p, const char *label,
                          VaePickleValue *dict, VaeError *error);

/* "a number", "None" ... */
const char *vae_torch_kind(const VaePickleValue *value);
/* Fails because the key of a tensor in a dict is no text. */
VaeStatus vae_torch_bad_key(const char *label, const VaePickleValue *key,
                            VaeError *error);

#endif
