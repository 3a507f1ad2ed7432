/*
 * alloc.c: see alloc.h.
 */
#include "alloc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vae-private/stream.h"

#define ALIGNMENT ((size_t) 64)
/* Blocks of at least this size have their own mapping: freeing one returns its
 * memory to the system at once and does not fragment the heap. */
#define MAPPED ((size_t) 256 << 10)
/* The size of a large page. */
#define LARGE ((size_t) 2 << 20)

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

/* Stored ALIGNMENT bytes before each block. */
typedef struct Head {
    size_t mapped; /* bytes of the mapping; 0: from malloc() */
} Head;

static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t refused;

void
vae_mem_touch(void *part, size_t bytes)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
#ifdef MADV_POPULATE_WRITE
    const size_t before = (uintptr_t) part % page;
    if (madvise((uint8_t *) part - before, before + bytes,
                MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (size_t i = 0; i < bytes; i += page)
        ((volatile uint8_t *) part)[i] = 0;
}

static Head *
map_block(size_t bytes, bool now)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    /* A hint: a system without large pages uses small ones. */
    if (bytes >= LARGE)
        madvise(map, bytes, MADV_HUGEPAGE);
#endif
    if (now)
        vae_mem_touch(map, bytes);
    Head *head = map;
    head->mapped = bytes;
    return head;
}

static Head *
heap_block(size_t bytes)
{
    Head *head = aligned_alloc(ALIGNMENT, bytes);
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
        munmap(head, head->mapped);
    else
        free(head);
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

/* ------------------------------------------------------------------ */

/* Memory that is available without swapping. */
static uint64_t
system_left(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    const uint64_t left = kib ? (uint64_t) kib << 10 : UINT64_MAX;
    const uint64_t group =
        vae_cgroup_left("/proc/self/cgroup", "/sys/fs/cgroup");
    return group < left ? group : left;
}

/* The process's address space and data size. */
static bool
process_size(uint64_t *space, uint64_t *data)
{
    unsigned long long pages[2];
    FILE *f = fopen("/proc/self/statm", "re");
    const bool good =
        f && fscanf(f, "%llu %*u %*u %*u %*u %llu", &pages[0], &pages[1]) == 2;
    if (f)
        fclose(f);
    if (!good)
        return false;
    const uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
    *space = pages[0] * page;
    *data = pages[1] * page;
    return true;
}

static uint64_t
limit_left(int which, uint64_t used)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

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
    struct rlimit stack;
    uint64_t one = UINT64_C(8) << 20;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 &&
        stack.rlim_cur != RLIM_INFINITY && stack.rlim_cur > one)
        one = stack.rlim_cur;
    const int most = atomic_load(&most_teams);
    const bool kept = most > 0 && atomic_load(&teams) <= most;
    return ((uint64_t) (kept ? 128 : 192) << 20) +
           one * (uint64_t) (threads + 4);
}

uint64_t
vae_mem_left(int threads, bool *limited)
{
    const uint64_t from_system = system_left();
    uint64_t space, data, own = UINT64_MAX;
    if (process_size(&space, &data)) {
        const uint64_t a = limit_left(RLIMIT_AS, space);
        const uint64_t b = limit_left(RLIMIT_DATA, data);
        own = a < b ? a : b;
    }
    if (own != UINT64_MAX)
        own = own > reserve_for(threads) ? own - reserve_for(threads) : 0;
    *limited = own < from_system;
    return *limited ? own : from_system;
}
