/*
 * sized.h: structs that a caller allocates and that grow with the library. The
 * first member is `size_t struct_size`, the size in the caller's header.
 */
#ifndef VAE_SIZED_H
#define VAE_SIZED_H

#include "vae-private/status.h"

#include <stddef.h>

/* The bytes of a struct up to the end of a member. */
#define VAE_SIZE_UP_TO(type, member)                                           \
    (offsetof(type, member) + sizeof(((type *) 0)->member))

/*
 * Checks the struct_size of `from`, at least `least`, and copies the struct to
 * `to`, which has the library's `size` bytes. The end of `to` is zero if `from`
 * is shorter. If `from` is longer, the bytes that the library does not know
 * must be zero. Errors: VAE_ERR_ARGUMENT with the struct's name.
 */
VaeStatus vae_sized_read(void *to, size_t size, const void *from, size_t least,
                         const char *name, VaeError *error);
/* Only checks the size, for a struct that the library fills. */
VaeStatus vae_sized_check(const void *to, size_t least, const char *name,
                          VaeError *error);
/* Fills the checked struct `to` from `from`, which has `size` bytes: as much as
 * fits, then zeros. */
void vae_sized_write(void *to, const void *from, size_t size);

#endif
