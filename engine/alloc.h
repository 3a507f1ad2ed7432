/*
 * alloc.h: the library's allocator. All memory of the library that does not
 * come from another library goes through it.
 */
#ifndef VAE_ALLOC_H
#define VAE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed, 64-byte aligned, counted (vae_allocation_count()); NULL when out of
 * memory. vae_mem_free(NULL) is fine. */
void *vae_mem_alloc(size_t bytes);
void vae_mem_free(void *block);

/* For tests: allocation number n of the process, as vae_allocation_count()
 * counts, is refused; 0 (as at the start): none. */
void vae_mem_fail_at(uint64_t n);

#endif
