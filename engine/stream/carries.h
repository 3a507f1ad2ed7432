/*
 * carries.h: the carries of one stream, as one block of device memory.
 *
 * The block has up to two copies: a snapshot on the device, taken before a run,
 * and one in host memory, while the block is offloaded. Offloading, the NaN
 * fallback and checkpoints all go through these functions.
 */
#ifndef VAE_CARRIES_H
#define VAE_CARRIES_H

#include "backend.h"
#include "build.h"

typedef struct VaeCarryBlock {
    const VaeBackendClass *class;
    VaeBackend *backend;
    VaeCarrySet set;   /* names, shapes, offsets; the programs share it */
    uint8_t *device;   /* NULL: not taken, or offloaded */
    uint8_t *snapshot; /* on the device; NULL: none is taken */
    uint8_t *host;     /* the copy while offloaded; NULL: nothing to keep */
} VaeCarryBlock;

/* Bytes of the block. */
static inline size_t
vae_carries_bytes(const VaeCarryBlock *b)
{
    return b->set.bytes;
}

/* Allocates the block and, where asked for, room for a snapshot. On an error
 * nothing is taken. */
VaeStatus vae_carries_take(VaeCarryBlock *b, bool snapshot, VaeError *error);
/* Frees the device's memory. */
void vae_carries_drop(VaeCarryBlock *b);
/* Copies the block to host memory; vae_carries_drop() comes next. Errors:
 * VAE_ERR_MEMORY, VAE_ERR_BACKEND; the block stays as it is. */
VaeStatus vae_carries_offload(VaeCarryBlock *b, VaeError *error);
/* Copies the block back and frees the host copy. Comes last when a stream
 * resumes: until then, the host copy is the only one. On an error it stays. */
VaeStatus vae_carries_reload(VaeCarryBlock *b, VaeError *error);
/* Frees everything; the backend is still open. */
void vae_carries_free(VaeCarryBlock *b);

/* Between the block, offloaded or not, and vae_carries_bytes() of host
 * memory. No call is in flight. A block that is written is not offloaded. */
VaeStatus vae_carries_read(const VaeCarryBlock *b, void *dst, VaeError *error);
VaeStatus vae_carries_write(VaeCarryBlock *b, const void *src, VaeError *error);

/* Copies the block to the snapshot, back, or the snapshot to host memory. */
VaeStatus vae_carries_save(VaeCarryBlock *b, VaeError *error);
VaeStatus vae_carries_restore(VaeCarryBlock *b, VaeError *error);
VaeStatus vae_carries_read_snapshot(const VaeCarryBlock *b, void *dst,
                                    VaeError *error);

#endif
