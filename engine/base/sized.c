/*
 * sized.c: see sized.h.
 */
#include "sized.h"

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
    if (size < least || size > MOST)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%s.struct_size is %zu, expected sizeof(%s): begin "
                        "with VAE_INIT(%s)",
                        name, size, name, name);
    return VAE_OK;
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
            return vae_fail(error, VAE_ERR_ARGUMENT,
                            "%s sets byte %zu of %zu; this library knows %zu "
                            "bytes and is older than the program's headers",
                            name, i, theirs, size);
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
