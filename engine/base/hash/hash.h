/*
 * hash.h: FNV-1a, against damage and not against forgery.
 */
#ifndef VAE_HASH_H
#define VAE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of no bytes. */
#define VAE_HASH UINT64_C(0xcbf29ce484222325)

/* The hash of the bytes after those of `hash`. */
static inline uint64_t
vae_hash(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
