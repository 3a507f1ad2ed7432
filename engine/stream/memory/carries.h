/*
 * carries.h: the carries of one stream.
 *
 * They are in two blocks: those on the device, and the spilled ones in host
 * memory. There are up to three copies: two snapshots, and one in host memory
 * while the stream is offloaded. Offloading, the NaN fallback and checkpoints
 * use these functions.
 */
#ifndef VAE_CARRIES_H
#define VAE_CARRIES_H

#include "backend.h"
#include "build.h"

/* The two blocks. `split`: bytes of the first one. */
typedef struct VaeCarryBlocks {
    uint8_t *host, *device;
    size_t split;
} VaeCarryBlocks;

/* Snapshots: before a run whose result is checked, and before runs that compute
 * as if the sequence ended here. */
enum { VAE_BEFORE_RUN, VAE_BEFORE_GUESS, VAE_SNAPSHOTS };

typedef struct VaeCarryStore {
    const VaeBackendClass *class;
    VaeBackend *backend;
    VaeCarrySet set;    /* names, shapes and places, shared by all programs */
    size_t rest;        /* bytes on the device and on the host: those of */
    size_t spilled;     /* set, or more if other sets share the memory */
    VaeCarryBlocks now; /* empty: not allocated, or offloaded */
    VaeCarryBlocks snapshots[VAE_SNAPSHOTS]; /* empty: not allocated */
    /* While offloaded: spilled carries stay in place, and `device` is a copy in
     * host memory. Empty: there is nothing to keep. */
    VaeCarryBlocks kept;
} VaeCarryStore;

/* Allocates the memory of the carries and of the requested snapshots. After an
 * error nothing is allocated. */
VaeStatus vae_carries_take(VaeCarryStore *s,
                           const bool snapshots[VAE_SNAPSHOTS],
                           VaeError *error);
/* Frees the memory, except `kept`. */
void vae_carries_drop(VaeCarryStore *s);
/* Copies the carries to `kept`. The caller then calls vae_carries_drop().
 * Errors: VAE_ERR_MEMORY, VAE_ERR_BACKEND; after an error nothing has changed.
 */
VaeStatus vae_carries_offload(VaeCarryStore *s, VaeError *error);
/* Copies `kept` back, also if other carries are spilled now. Must be the last
 * step of resuming a stream, because `kept` is the only copy. After an error it
 * stays. */
VaeStatus vae_carries_reload(VaeCarryStore *s, VaeError *error);
/* Frees everything. The backend must still be open. */
void vae_carries_free(VaeCarryStore *s);

/* Copies the carries to or from host memory, set.bytes of it. No run may be in
 * flight. The carries may be offloaded when they are read, but not when they
 * are written. */
VaeStatus vae_carries_read(const VaeCarryStore *s, void *dst, VaeError *error);
VaeStatus vae_carries_write(VaeCarryStore *s, const void *src, VaeError *error);

/* The first copies the carries to a snapshot, the second a snapshot to the
 * carries, the third VAE_BEFORE_RUN to host memory. */
VaeStatus vae_carries_save(VaeCarryStore *s, int snapshot, VaeError *error);
VaeStatus vae_carries_restore(VaeCarryStore *s, int snapshot, VaeError *error);
VaeStatus vae_carries_read_snapshot(const VaeCarryStore *s, void *dst,
                                    VaeError *error);

#endif
