/*
 * alloc.c: see alloc.h.
 */
#include "alloc.h"

#include <stdatomic.h>
#include <string.h>

#include "vae-private/os.h"
#include "vae-private/stream.h"

#define ALIGNMENT ((size_t) 64)
/* Blocks of at least this size have their own mapping: freeing one returns its
 * memory to the system at once and does not fragment the heap. */
#define MAPPED ((size_t) 256 << 10)

/* The address sanitizer tracks blocks of malloc() only. */
#if defined __SANITIZE_ADDRESS__
#define MAY_MAP false
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define MAY_MAP false
#endif
#endif
#ifndef MAY_MAP
#define MAY_MAP true
#endif

/* Is ALIGNMENT bytes before each block. */
typedef struct Head {
    size_t mapped; /* bytes of the mapping; 0: from malloc() */
} Head;

static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t refused;
static atomic_uint_fast64_t asked; /* allocations at vae_mem_refuse() */

void
vae_mem_touch(void *part, size_t bytes)
{
    vae_os_touch(part, bytes);
}

static Head *
map_block(size_t bytes, bool now)
{
    Head *head = vae_os_pages(bytes);
    if (head == NULL)
        return NULL;
    if (now)
        vae_os_touch(head, bytes);
    head->mapped = bytes;
    return head;
}

static Head *
heap_block(size_t bytes)
{
    Head *head = vae_os_heap(ALIGNMENT, bytes);
    if (head != NULL)
        memset(head, 0, bytes);
    return head;
}

static void *
alloc(size_t bytes, bool now)
{
    const uint64_t number = atomic_fetch_add(&allocations, 1) + 1;
    if (number == atomic_load(&refused) || bytes > SIZE_MAX - 3 * ALIGNMENT)
        return NULL;
    /* A request for 0 bytes gets a block, too. */
    const size_t whole = (bytes + 2 * ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    Head *head =
        MAY_MAP && bytes >= MAPPED ? map_block(whole, now) : heap_block(whole);
    return head != NULL ? (uint8_t *) head + ALIGNMENT : NULL;
}

void *
vae_mem_alloc(size_t bytes)
{
    return alloc(bytes, true);
}

void *
vae_mem_alloc_lazy(size_t bytes)
{
    return alloc(bytes, false);
}

void
vae_mem_free(void *block)
{
    if (block == NULL)
        return;
    Head *head = (void *) ((uint8_t *) block - ALIGNMENT);
    if (head->mapped > 0)
        vae_os_pages_free(head, head->mapped);
    else
        vae_os_heap_free(head);
}

int
vae_mem_refuse(int n)
{
    const uint64_t now = atomic_load(&allocations);
    atomic_store(&refused, n ? now + (uint64_t) n : 0);
    return (int) (now - atomic_exchange(&asked, now));
}

uint64_t
vae_allocation_count(void)
{
    return atomic_load(&allocations);
}

/* ------------------------------------------------------------------ */

/* Thread pools of backends: how many run now, and the most that ran when one of
 * them ended. */
static atomic_int teams, most_teams;

void
vae_mem_team(bool begins)
{
    int most = atomic_load(&most_teams);
    const int all = atomic_fetch_add(&teams, begins ? 1 : -1);
    while (!begins && all > most &&
           !atomic_compare_exchange_weak(&most_teams, &most, all))
        continue;
}

/* Address space to keep for threads and other libraries: the stacks of the
 * threads and of four more; 128 MiB for a heap of the C library's threads, of
 * which 64 MiB stay reserved when the threads end; 64 MiB for other libraries.
 */
static uint64_t
reserve_for(int threads)
{
    const uint64_t least = UINT64_C(8) << 20, stack = vae_os_stack_size();
    const uint64_t one = stack > least ? stack : least;
    const int most = atomic_load(&most_teams);
    const bool kept = most > 0 && atomic_load(&teams) <= most;
    return ((uint64_t) (kept ? 128 : 192) << 20) +
           one * (uint64_t) (threads + 4);
}

uint64_t
vae_mem_left(int threads, bool *limited)
{
    const uint64_t from_system = vae_os_memory_left();
    uint64_t own = vae_os_own_limit_left();
    if (own != UINT64_MAX)
        own = own > reserve_for(threads) ? own - reserve_for(threads) : 0;
    *limited = own < from_system;
    return *limited ? own : from_system;
}
