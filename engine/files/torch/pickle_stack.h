/*
 * pickle_stack.h: the stack, memo and values of the machine in pickle.c.
 */
#ifndef VAE_PICKLE_STACK_H
#define VAE_PICKLE_STACK_H

#include "pickle.h"

/* Fails with VAE_ERR_FORMAT, "file: data.pkl: what" and the position. */
VaeStatus vae_pickle_fail(const VaePickle *p, const char *what,
                          VaeError *error);

/* Takes the next n bytes of the pickle. */
VaeStatus vae_pickle_take(VaePickle *p, uint64_t n, const uint8_t **out,
                          VaeError *error);

VaeStatus vae_pickle_push(VaePickle *p, VaePickleValue value, VaeError *error);
/* Makes one tuple of n values; they may be those just popped. */
VaeStatus vae_pickle_push_tuple(VaePickle *p, const VaePickleValue *values,
                                size_t n, VaeError *error);
/* Pushes an empty dict or list. */
VaeStatus vae_pickle_push_dict(VaePickle *p, VaePickleKind kind,
                               VaeError *error);
/* Refuses, by name, a global that saved tensors do not need. */
VaeStatus vae_pickle_push_global(VaePickle *p, const char *module,
                                 size_t n_module, const char *name,
                                 size_t n_name, VaeError *error);

VaeStatus vae_pickle_pop(VaePickle *p, VaePickleValue *out, VaeError *error);
/* Reads the top value, which must be of this kind; `what` is the message of the
 * error. */
VaeStatus vae_pickle_peek(VaePickle *p, VaePickleKind kind, const char *what,
                          VaePickleValue *out, VaeError *error);
/* Pops the n values above the last mark, and the mark; *values is valid until
 * the next push. */
VaeStatus vae_pickle_pop_to_mark(VaePickle *p, const VaePickleValue **values,
                                 size_t *n, VaeError *error);

/* Stores the top value at index i of the memo, which has no gaps. */
VaeStatus vae_pickle_put(VaePickle *p, uint64_t i, VaeError *error);
VaeStatus vae_pickle_get(VaePickle *p, uint64_t i, VaeError *error);

VaeStatus vae_pickle_set_item(VaePickle *p, const VaePickleValue *dict,
                              const VaePickleValue *pair, VaeError *error);
/* Adds n values to a list. */
VaeStatus vae_pickle_append(VaePickle *p, const VaePickleValue *list,
                            const VaePickleValue *values, size_t n,
                            VaeError *error);

#endif
