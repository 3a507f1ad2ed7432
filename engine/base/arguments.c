/*
 * arguments.c: see arguments.h.
 */
#include "arguments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

VaeStatus
vae_check_list(VaeError *error, const char *names, const void *const *pointers)
{
    for (size_t i = 0;; i++) {
        const size_t length = strcspn(names, ",");
        if (!pointers[i])
            return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                                  (VaeErrorParts){NULL, "NULL", "a pointer"},
                                  "the argument %.*s is NULL", (int) length,
                                  names);
        if (!names[length])
            return VAE_OK;
        names += length + 2; /* the comma and the blank */
    }
}

VaeStatus
vae_check_path(const char *name, const char *path, VaeError *error)
{
    if (!path)
        return vae_check_pointers(error, name, path);
    if (path[0])
        return VAE_OK;
    return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                        "the path is {empty}, expected {=the path of a file}");
}

VaeStatus
vae_check_range(const char *what, int64_t value, int64_t least, int64_t most,
                VaeError *error)
{
    if (value >= least && value <= most)
        return VAE_OK;
    if (most == INT64_MAX)
        return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                            "%s {%" PRId64 "}, expected {=%" PRId64 " or more}",
                            what, value, least);
    return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                        "%s {%" PRId64 "}, expected {=%" PRId64 " to %" PRId64
                        "}",
                        what, value, least, most);
}
