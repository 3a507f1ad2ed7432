/*
 * arguments.h: checks of the arguments of public functions.
 */
#ifndef VAE_ARGUMENTS_H
#define VAE_ARGUMENTS_H

#include "vae-private/status.h"

#include <stdint.h>

/* Fails if one of the pointers is NULL. The error names it as the header does:
 * names is the list of them, "model, params, out". */
#define vae_check_pointers(error, names, ...)                                  \
    vae_check_list(error, names, (const void *const[]){__VA_ARGS__})
VaeStatus vae_check_list(VaeError *error, const char *names,
                         const void *const *pointers);
/* Fails if a path is NULL or empty. `name` is that of the argument. */
VaeStatus vae_check_path(const char *name, const char *path, VaeError *error);
/* Fails if value is not from least to most. INT64_MAX: no most. */
VaeStatus vae_check_range(const char *what, int64_t value, int64_t least,
                          int64_t most, VaeError *error);

#endif
