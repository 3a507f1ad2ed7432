/*
 * sized.h: structs that a caller allocates and that grow with the library. The
 * first member is `size_t struct_size`, what the caller's header says.
 */
#ifndef VAE_SIZED_H
#define VAE_SIZED_H

#include "vae-private/status.h"

#include <stddef.h>

/* The bytes of a struct up to and with a member. */
#define VAE_SIZE_UP_TO(type, member)                                           \
    (offsetof(type, member) + sizeof(((type *) 0)->member))

/*
 * Checks the size that `from` states and copies it to `to`, of `size` bytes,
 * which the library's own header says. A shorter one leaves zeros; a longer one
 * must have zeros in what the library does not know. `least` bytes are needed.
 * Errors: VAE_ERR_ARGUMENT with the struct's name.
 */
VaeStatus vae_sized_read(void *to, size_t size, const void *from, size_t least,
                         const char *name, VaeError *error);
/* Only checks: for what the library is about to fill. */
VaeStatus vae_sized_check(const void *to, size_t least, const char *name,
                          VaeError *error);
/* Fills what was checked with as much of `from`, of `size` bytes, as it has
 * room for, and zeros behind that. */
void vae_sized_write(void *to, const void *from, size_t size);

#endif
