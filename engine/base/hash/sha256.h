/*
 * sha256.h: SHA-256 (FIPS 180-4).
 */
#ifndef VAE_SHA256_H
#define VAE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct VaeSha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64]; /* the last bytes % 64 bytes */
} VaeSha256;

void vae_sha256_begin(VaeSha256 *s);
void vae_sha256_add(VaeSha256 *s, const void *data, size_t n);
/* 64 hexadecimal digits and a NUL. */
void vae_sha256_end(VaeSha256 *s, char out[65]);

#endif
