/*
 * alloc.h: the library's allocator. All memory of the library that does not
 * come from another library goes through it.
 */
#ifndef VAE_ALLOC_H
#define VAE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed, 64-byte aligned, counted (vae_allocation_count()); NULL when out of
 * memory. vae_mem_free(NULL) is fine. */
void *vae_mem_alloc(size_t bytes);
/* The same, but the system may give its pages as they are first written, to the
 * thread that does: for what several threads fill at once. */
void *vae_mem_alloc_lazy(size_t bytes);
void vae_mem_free(void *block);

/* A block that is used again and again, and grows: new pages each time would
 * cost as much as what is done with them. Zeroed, it has none. */
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

/* At least that many bytes, of any contents; NULL when out of memory. */
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
 * Bytes that can still be taken: what the system gives without swapping, and
 * no more than the process's own limits leave (ulimit -v, -d), less what
 * `threads` threads and the code that a library makes want beside it. limited
 * tells whether the process's limits decided. UINT64_MAX where nothing says.
 */
uint64_t vae_mem_left(int threads, bool *limited);
/* A backend's threads begin or have ended. */
void vae_mem_team(bool begins);

/* For tests: allocation number n of the process, as vae_allocation_count()
 * counts, is refused; 0 (as at the start): none. */
void vae_mem_fail_at(uint64_t n);

#endif
