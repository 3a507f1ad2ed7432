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
    return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                        "%s.struct_size is {%zu}, expected {=%zu to %d} bytes: "
                        "begin with VAE_INIT(%s)",
                        name, size, least, MOST, name);
}

/* Fails because byte `at`, which the library does not know, is set. */
static VaeStatus
newer(const char *name, size_t at, size_t theirs, size_t ours, VaeError *error)
{
    return vae_mismatch(
        error, VAE_ERR_ARGUMENT, NULL,
        "%s has {%zu} bytes and sets byte %zu, but this library knows only "
        "{=%zu} bytes: it is older than the program's headers",
        name, theirs, at, ours);
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
