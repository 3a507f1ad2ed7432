/*
 * pinned.c: large blocks of pinned host memory.
 *
 * Several threads write to the pages of a mapping, and then the run time pins
 * it. On an H100 this took 0.25 s for 4 GiB. An allocation of the run time took
 * 2.1 s (docs/measurements/2026-11-27-nvidia-h100.md).
 */
#include <pthread.h>
#include <stdatomic.h>

#include "gpu.h"
#include "vae-private/os.h"

enum { MOST_THREADS = 8 };
/* The size and the alignment of a large page. */
#define LARGE_PAGE ((size_t) 2 << 20)
/* A thread asks whether to go on after each so many bytes. */
#define PART ((size_t) 16 << 20)

/* The run time allocates a smaller block in less than 33 ms, too short a time
 * to start threads for. */
static atomic_size_t least = (size_t) 64 << 20;

typedef struct Mapped {
    struct Mapped *next;
    void *map; /* of `room` bytes */
    size_t room;
    uint8_t *block; /* aligned to LARGE_PAGE */
    size_t bytes;
} Mapped;

/* All blocks of the process. */
static Mapped *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void
vae_cuda_map_from(size_t bytes)
{
    atomic_store(&least, bytes);
}

/* ------------------------------------------------------------------ */

static int
thread_count(const VaeBackend *cuda)
{
    const int usable = vae_os_processors();
    int n = cuda->params.threads;
    n = n < usable ? n : usable;
    return n < MOST_THREADS ? n : MOST_THREADS;
}

/* Writing to memory that is not there ends the process; the run time returns an
 * error instead. */
static bool
fits(const VaeBackend *cuda, size_t bytes)
{
    bool ignored;
    return bytes < SIZE_MAX - LARGE_PAGE &&
           bytes + LARGE_PAGE <= vae_mem_left(thread_count(cuda), &ignored);
}

static bool
map(Mapped *m, size_t bytes)
{
    m->room = bytes + LARGE_PAGE;
    m->bytes = bytes;
    m->map = vae_os_pages(m->room);
    if (!m->map)
        return false;
    const size_t over = (uintptr_t) m->map % LARGE_PAGE;
    m->block = (uint8_t *) m->map + (over ? LARGE_PAGE - over : 0);
    vae_os_pages_keep(m->block, bytes); /* fork() would copy pinned pages */
    return true;
}

/* ------------------------------------------------------------------ */
/* Writing.                                                            */

typedef struct Pages {
    uint8_t *block;
    size_t bytes;
    atomic_size_t next; /* offset of the next part; bytes or more: none */
} Pages;

/* Writes a zero to each page of the next part. False: there is none. */
static bool
write_part(Pages *p)
{
    const size_t page = vae_os_page();
    const size_t begin = atomic_fetch_add(&p->next, PART);
    for (size_t i = begin; i < p->bytes && i < begin + PART; i += page)
        ((volatile uint8_t *) p->block)[i] = 0;
    return begin < p->bytes;
}

static void *
write_parts(void *pages)
{
    while (write_part(pages))
        continue;
    return NULL;
}

/* If the system refuses a thread, the others do its work. Only the calling
 * thread asks whether to go on. */
static VaeStatus
write_all(const VaeBackend *cuda, const Mapped *m, VaeError *error)
{
    pthread_t threads[MOST_THREADS];
    const int wanted = thread_count(cuda) - 1;
    Pages p = {.block = m->block, .bytes = m->bytes};
    VaeStatus status;
    int n = 0;
    while (n < wanted &&
           pthread_create(&threads[n], NULL, write_parts, &p) == 0)
        n++;
    do
        status = vae_backend_goes_on(&cuda->params, error);
    while (status == VAE_OK && write_part(&p));
    atomic_store(&p.next, m->bytes); /* the threads end, also if cancelled */
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return status;
}

/* ------------------------------------------------------------------ */

static void
add(Mapped *m)
{
    pthread_mutex_lock(&lock);
    m->next = all;
    all = m;
    pthread_mutex_unlock(&lock);
}

/* Removes the entry of a block. NULL: it is of the run time. */
static Mapped *
take_out(const void *block)
{
    pthread_mutex_lock(&lock);
    Mapped **at = &all;
    while (*at && (*at)->block != block)
        at = &(*at)->next;
    Mapped *m = *at;
    if (m)
        *at = m->next;
    pthread_mutex_unlock(&lock);
    return m;
}

VaeStatus
vae_cuda_map_pinned(const VaeBackend *cuda, size_t bytes, void **out,
                    VaeError *error)
{
    *out = NULL;
    if (bytes < atomic_load(&least) || !fits(cuda, bytes))
        return VAE_OK;
    Mapped *m = vae_mem_alloc(sizeof *m);
    if (!m || !map(m, bytes)) {
        vae_mem_free(m);
        return VAE_OK;
    }
    const VaeStatus status = write_all(cuda, m, error);
    if (status == VAE_OK && vae_rt_pin(m->block, bytes) == 0) {
        add(m);
        *out = m->block;
        return VAE_OK;
    }
    vae_os_pages_free(m->map, m->room);
    vae_mem_free(m);
    return status;
}

bool
vae_cuda_unmap_pinned(void *block)
{
    Mapped *m = take_out(block);
    if (!m)
        return false;
    vae_rt_unpin(block);
    vae_os_pages_free(m->map, m->room);
    vae_mem_free(m);
    return true;
}
