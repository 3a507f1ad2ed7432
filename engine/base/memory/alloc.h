/*
 * alloc.h: the library's allocator. All memory of the library that does not
 * come from another library goes through it.
 */
#ifndef VAE_ALLOC_H
#define VAE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocates zeroed memory, aligned to 64 bytes, and counts the allocation
 * (vae_allocation_count()). NULL when out of memory. vae_mem_free(NULL) does
 * nothing. */
void *vae_mem_alloc(size_t bytes);
/* The same, but the system may allocate each page when a thread first writes to
 * it: for blocks that several threads fill in parallel. */
void *vae_mem_alloc_lazy(size_t bytes);
/* Makes the system allocate the pages of a part of a lazy block now. All bytes
 * of the part are still 0. */
void vae_mem_touch(void *part, size_t bytes);
void vae_mem_free(void *block);

/* A block that is reused and grows, because new pages would cost as much as the
 * work on them. All zeros: no block yet. */
typedef struct VaeRoom {
    void *block;
    size_t bytes;
} VaeRoom;

static inline void
vae_room_free(VaeRoom *room)
{
    vae_mem_free(room->block);
    *room = (VaeRoom){0};
}

/* Returns at least that many bytes, not initialized; NULL when out of memory.
 */
static inline void *
vae_room_take(VaeRoom *room, size_t bytes)
{
    if (room->bytes < bytes) {
        vae_room_free(room);
        room->block = vae_mem_alloc(bytes);
        room->bytes = room->block ? bytes : 0;
    }
    return room->block;
}

/*
 * Bytes that can still be allocated: at most the memory available without
 * swapping, also in the process's control groups (a container's limit), and at
 * most the process's own limits (ulimit -v, -d) less a reserve
 * for `threads` threads and other libraries. *limited is true if the process's
 * limits are the smaller. UINT64_MAX if neither is known.
 */
uint64_t vae_mem_left(int threads, bool *limited);
/* A backend calls this before it starts its threads and after they end. */
void vae_mem_team(bool begins);

/* For tests: makes the n-th allocation of the process from now on fail; none if
 * n is 0. Returns the number of allocations since the last call. */
int vae_mem_refuse(int n);

#endif
