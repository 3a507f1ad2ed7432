/*
 * carries.h: the carries of one stream.
 *
 * They are in one or two blocks: of the device, and for those that are spilled,
 * of the host. There are up to two copies: a snapshot, taken before a run, and
 * one in host memory, while the stream's memory is offloaded. Offloading, the
 * NaN fallback and checkpoints all go through these functions.
 */
#ifndef VAE_CARRIES_H
#define VAE_CARRIES_H

#include "backend.h"
#include "build.h"

/* All carries, in two blocks: the first `split` bytes, and the rest. */
typedef struct VaeCarryBlocks {
    uint8_t *host, *device;
    size_t split;
} VaeCarryBlocks;

typedef struct VaeCarryStore {
    const VaeBackendClass *class;
    VaeBackend *backend;
    VaeCarrySet set;         /* names, shapes, places; the programs share it */
    size_t rest;             /* bytes on the device, set.spilled on the host; */
    size_t spilled;          /* or more, if other sets share the memory */
    VaeCarryBlocks now;      /* empty: not taken, or offloaded */
    VaeCarryBlocks snapshot; /* empty: none is taken */
    /* While offloaded: the spilled ones stay where they are, and `device` is a
     * copy in host memory. Empty: nothing to keep. */
    VaeCarryBlocks kept;
} VaeCarryStore;

/* Bytes of all carries. */
static inline size_t
vae_carries_bytes(const VaeCarryStore *s)
{
    return s->set.bytes;
}

/* Allocates the memory and, where asked for, that of a snapshot. On an error
 * nothing is taken. */
VaeStatus vae_carries_take(VaeCarryStore *s, bool snapshot, VaeError *error);
/* Frees the memory, but nothing that is kept. */
void vae_carries_drop(VaeCarryStore *s);
/* Keeps the carries; vae_carries_drop() comes next. Errors: VAE_ERR_MEMORY,
 * VAE_ERR_BACKEND; all stays as it is. */
VaeStatus vae_carries_offload(VaeCarryStore *s, VaeError *error);
/* Copies back what is kept, also if other carries are spilled now. Comes last
 * when a stream resumes: until then, what is kept is the only copy. On an error
 * it stays. */
VaeStatus vae_carries_reload(VaeCarryStore *s, VaeError *error);
/* Frees everything; the backend is still open. */
void vae_carries_free(VaeCarryStore *s);

/* Between the carries, offloaded or not, and vae_carries_bytes() of host
 * memory. No call is in flight. Carries that are written are not offloaded. */
VaeStatus vae_carries_read(const VaeCarryStore *s, void *dst, VaeError *error);
VaeStatus vae_carries_write(VaeCarryStore *s, const void *src, VaeError *error);

/* Copies the carries to the snapshot, back, or the snapshot to host memory. */
VaeStatus vae_carries_save(VaeCarryStore *s, VaeError *error);
VaeStatus vae_carries_restore(VaeCarryStore *s, VaeError *error);
VaeStatus vae_carries_read_snapshot(const VaeCarryStore *s, void *dst,
                                    VaeError *error);

#endif
