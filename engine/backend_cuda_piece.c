/*
 * backend_cuda_piece.c: one block of the device's memory for the weights of a
 * program. A device gives memory in steps of 2 MiB and takes some time for
 * each block, so a block for each of a few hundred weights would be more than
 * was planned and slow to give back and to take again.
 */
#include <pthread.h>

#include "backend_cuda.h"

#define STEP ((size_t) 256)

struct VaeCudaBlock {
    VaeCudaBlock *next;
    uint8_t *data;
    size_t bytes, used;
    int device, pieces;
    bool open; /* more pieces may come */
};

/* Of all backends: a piece may outlive the one that took it. */
static VaeCudaBlock *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t
vae_cuda_piece(size_t bytes)
{
    return (bytes + STEP - 1) / STEP * STEP;
}

/* Frees the block if nobody wants it any more. Lock held. */
static void
look_at(VaeCudaBlock *b)
{
    VaeCudaBlock **at = &blocks;
    if (b->open || b->pieces > 0)
        return;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    /* A thread without a device of its own would take up the first one. */
    vae_rt_use(b->device);
    vae_rt_free(b->data);
    vae_mem_free(b);
}

void
vae_cuda_pieces_begin(VaeBackend *cuda, size_t bytes)
{
    cuda->pieces = bytes;
}

void
vae_cuda_pieces_end(VaeBackend *cuda)
{
    cuda->pieces = 0;
    if (!cuda->block)
        return;
    pthread_mutex_lock(&lock);
    cuda->block->open = false;
    look_at(cuda->block);
    pthread_mutex_unlock(&lock);
    cuda->block = NULL;
}

static VaeCudaBlock *
new_block(VaeBackend *cuda, size_t bytes)
{
    VaeCudaBlock *b = vae_mem_alloc(sizeof *b);
    void *data = NULL;
    if (!b || vae_rt_alloc(&data, bytes)) {
        vae_mem_free(b);
        return NULL;
    }
    *b = (VaeCudaBlock){
        .data = data, .bytes = bytes, .device = cuda->number, .open = true};
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&lock);
    return b;
}

void *
vae_cuda_piece_take(size_t bytes, void *user)
{
    VaeBackend *cuda = user;
    const size_t size = vae_cuda_piece(bytes ? bytes : 1);
    if (!cuda->block || cuda->block->bytes - cuda->block->used < size) {
        const size_t left = cuda->pieces;
        vae_cuda_pieces_end(cuda);
        cuda->pieces = left > size ? left : size;
        cuda->block = new_block(cuda, cuda->pieces);
    }
    VaeCudaBlock *b = cuda->block;
    if (!b)
        return NULL;
    cuda->pieces -= size;
    pthread_mutex_lock(&lock);
    void *piece = b->data + b->used;
    b->used += size;
    b->pieces++;
    pthread_mutex_unlock(&lock);
    return piece;
}

void
vae_cuda_piece_free(void *piece, int device)
{
    const uint8_t *at = piece;
    pthread_mutex_lock(&lock);
    VaeCudaBlock *b = blocks;
    while (b &&
           (b->device != device || at < b->data || at >= b->data + b->bytes))
        b = b->next;
    if (b) {
        b->pieces--;
        look_at(b);
    }
    pthread_mutex_unlock(&lock);
}
