/*
 * suballoc.c: one block of device memory for the weights of a program. A device
 * allocates in steps of 2 MiB, and each allocation takes time. A block for each
 * of a few hundred weights would need more memory than planned, and would be
 * slow to free and to allocate again. A memory pool of the driver is no way
 * out: the driver chooses the size of its blocks, so the plan could not predict
 * the memory of a stream to the byte, and a device may have no pools.
 *
 * Several streams may load the same weights at the same time, each in its own
 * thread. Any of them may make the next weight. Each has counted all missing
 * bytes, so the first open block is large enough for the other streams, too.
 */
#include <pthread.h>

#include "gpu.h"

#define STEP ((size_t) 256)

struct VaeCudaBlock {
    VaeCudaBlock *next;
    uint8_t *data;
    size_t bytes, used;
    int device, parts;
    VaeCudaLoad load;
    VaePrecision precision;
    bool open; /* more suballocations may follow */
};

/* Blocks of all backends, because a suballocation may outlive its backend. */
static VaeCudaBlock *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t
vae_cuda_suballoc_bytes(size_t bytes)
{
    return (bytes + STEP - 1) / STEP * STEP;
}

/* Selects the device itself, because freeing a model does not enter the class.
 */
static void
free_data(const VaeCudaBlock *b)
{
    VaeRtCaller caller;
    vae_rt_enter(b->device, &caller);
    vae_rt_free(b->data);
    vae_rt_leave(&caller);
}

/* Frees the block if it is closed and empty. The lock is held. */
static void
look_at(VaeCudaBlock *b)
{
    VaeCudaBlock **at = &blocks;
    if (b->open || b->parts > 0)
        return;
    while (*at && *at != b)
        at = &(*at)->next;
    if (*at)
        *at = b->next;
    free_data(b);
    vae_mem_free(b);
}

void
vae_cuda_suballoc_begin(VaeBackend *cuda, const VaeCudaLoad *load, size_t bytes)
{
    cuda->load = *load;
    cuda->missing = bytes;
}

void
vae_cuda_suballoc_end(VaeBackend *cuda)
{
    cuda->missing = 0;
    if (!cuda->block)
        return;
    pthread_mutex_lock(&lock);
    cuda->block->open = false;
    look_at(cuda->block);
    pthread_mutex_unlock(&lock);
    cuda->block = NULL;
}

/* True if the block is open, has room, and its owner loads the same weights as
 * cuda. The lock is held. */
static bool
serves(const VaeCudaBlock *b, const VaeBackend *cuda, size_t size)
{
    return b->open && b->device == cuda->number &&
           b->load.cache == cuda->load.cache &&
           b->load.decode == cuda->load.decode &&
           b->precision == cuda->params.precision && b->bytes - b->used >= size;
}

/* Adds a suballocation to the block. The lock is held. */
static void *
add_part(VaeCudaBlock *b, size_t size)
{
    void *part = b->data + b->used;
    b->used += size;
    b->parts++;
    return part;
}

/* Suballocates from an open block. NULL: there is none. */
static void *
take_from_open(const VaeBackend *cuda, size_t size)
{
    pthread_mutex_lock(&lock);
    VaeCudaBlock *b = blocks;
    while (b && !serves(b, cuda, size))
        b = b->next;
    void *part = b ? add_part(b, size) : NULL;
    pthread_mutex_unlock(&lock);
    return part;
}

/* Suballocates from a new block that has room for all missing bytes. */
static void *
take_from_new(VaeBackend *cuda, size_t size)
{
    const size_t bytes = cuda->missing > size ? cuda->missing : size;
    vae_cuda_suballoc_end(cuda);
    VaeCudaBlock *b = vae_mem_alloc(sizeof *b);
    void *data = NULL;
    cuda->refused = b ? vae_rt_alloc(&data, bytes) : 0;
    if (!data) {
        vae_mem_free(b);
        return NULL;
    }
    *b = (VaeCudaBlock){.data = data,
                        .bytes = bytes,
                        .device = cuda->number,
                        .load = cuda->load,
                        .precision = cuda->params.precision,
                        .open = true};
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    void *part = add_part(b, size);
    pthread_mutex_unlock(&lock);
    cuda->block = b;
    cuda->missing = bytes;
    return part;
}

void *
vae_cuda_suballoc(size_t bytes, void *user)
{
    VaeBackend *cuda = user;
    const size_t size = vae_cuda_suballoc_bytes(bytes ? bytes : 1);
    void *part = take_from_open(cuda, size);
    if (!part)
        part = take_from_new(cuda, size);
    if (part)
        cuda->missing -= size < cuda->missing ? size : cuda->missing;
    return part;
}

void
vae_cuda_suballoc_free(void *part, int device)
{
    const uint8_t *at = part;
    pthread_mutex_lock(&lock);
    VaeCudaBlock *b = blocks;
    while (b &&
           (b->device != device || at < b->data || at >= b->data + b->bytes))
        b = b->next;
    if (b) {
        b->parts--;
        look_at(b);
    }
    pthread_mutex_unlock(&lock);
}
