/*
 * sized.c: see sized.h.
 */
#include "sized.h"

#include <stdio.h>
#include <string.h>

#define MOST 65536 /* a larger struct_size was never initialized */

static size_t
size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

VaeStatus
vae_sized_check(const void *sized, size_t least, const char *name,
                VaeError *error)
{
    const size_t size = size_of(sized);
    if (size >= least && size <= MOST)
        return VAE_OK;
    char found[24], expected[48];
    snprintf(found, sizeof found, "%zu", size);
    snprintf(expected, sizeof expected, "%zu to %d", least, MOST);
    return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                          (VaeErrorParts){NULL, found, expected},
                          "%s.struct_size is %s, expected %s bytes: begin with "
                          "VAE_INIT(%s)",
                          name, found, expected, name);
}

/* Fails because byte `at`, which the library does not know, is set. */
static VaeStatus
newer(const char *name, size_t at, size_t theirs, size_t ours, VaeError *error)
{
    char found[24], expected[24];
    snprintf(found, sizeof found, "%zu", theirs);
    snprintf(expected, sizeof expected, "%zu", ours);
    return vae_fail_parts(
        error, VAE_ERR_ARGUMENT, (VaeErrorParts){NULL, found, expected},
        "%s has %s bytes and sets byte %zu, but this library knows "
        "only %s bytes: it is older than the program's headers",
        name, found, at, expected);
}

VaeStatus
vae_sized_read(void *to, size_t size, const void *from, size_t least,
               const char *name, VaeError *error)
{
    const VaeStatus status = vae_sized_check(from, least, name, error);
    if (status != VAE_OK)
        return status;
    const size_t theirs = size_of(from);
    const unsigned char *bytes = from;
    for (size_t i = size; i < theirs; i++)
        if (bytes[i])
            return newer(name, i, theirs, size, error);
    memset(to, 0, size);
    memcpy(to, from, theirs < size ? theirs : size);
    memcpy(to, &size, sizeof size);
    return VAE_OK;
}

void
vae_sized_write(void *to, const void *from, size_t size)
{
    const size_t theirs = size_of(to);
    size_t *struct_size = to; /* the first member */
    memset(to, 0, theirs);
    memcpy(to, from, theirs < size ? theirs : size);
    *struct_size = theirs;
}
