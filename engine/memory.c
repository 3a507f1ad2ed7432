#include "alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "vae/stream.h"

#define ALIGNMENT ((size_t) 64)

static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t refused;

void *
vae_mem_alloc(size_t bytes)
{
    const uint64_t number = atomic_fetch_add(&allocations, 1) + 1;
    if (number == atomic_load(&refused) || bytes > SIZE_MAX - ALIGNMENT)
        return NULL;
    /* Also for 0 bytes a block of its own. */
    const size_t whole =
        bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    void *block = aligned_alloc(ALIGNMENT, whole);
    if (block != NULL)
        memset(block, 0, whole);
    return block;
}

void
vae_mem_free(void *block)
{
    free(block);
}

void
vae_mem_fail_at(uint64_t n)
{
    atomic_store(&refused, n);
}

uint64_t
vae_allocation_count(void)
{
    return atomic_load(&allocations);
}
