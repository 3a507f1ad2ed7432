/*
 * carries.h: the carries of one stream.
 *
 * They are in two blocks: those on the device, and the spilled ones in host
 * memory. There are up to three copies: two snapshots, and one in host memory
 * while the stream is offloaded. Offloading, the NaN fallback and checkpoints
 * use these functions.
 *
 * A history is a carry that grows with each latent. All histories of a stream
 * share blocks of memory, which are added one after another (history.c). The
 * first blocks are on the device, and those for which it has no room are
 * spilled.
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
    VaeCarrySet set; /* names, shapes and places, shared by all programs */
    /* Bytes allocated on the device, and in host memory for spilled carries.
     * Sets of other shapes of tiles share this memory, which has room for the
     * largest. */
    size_t rest, spilled;
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

/* Copies the carries to a snapshot. */
VaeStatus vae_carries_save(VaeCarryStore *s, int snapshot, VaeError *error);
/* Copies a snapshot to the carries. */
VaeStatus vae_carries_restore(VaeCarryStore *s, int snapshot, VaeError *error);
/* Copies the snapshot VAE_BEFORE_RUN to host memory. */
VaeStatus vae_carries_read_snapshot(const VaeCarryStore *s, void *dst,
                                    VaeError *error);

/* ------------------------------------------------------------------ */

typedef struct VaeHistoryStore {
    const VaeBackendClass *class;
    VaeBackend *backend;
    size_t bytes; /* of a latent in all histories; 0: there is none */
    int each;     /* latents of a block */
    int window;   /* most latents of a history; 0: all of the sequence */
    bool spills;  /* blocks may be spilled */
    bool spilled; /* all are */
    int most;     /* blocks on the device; the next ones are spilled */
    VaeHistoryBlocks *now; /* in the memory of the backend, or NULL */
    VaeHistoryPlaces places;
    /* While offloaded: n_kept blocks in host memory. The first ones are copies,
     * the others are spilled and stay in place. */
    uint8_t **kept;
    int n_kept, n_copies;
} VaeHistoryStore;

/* Numbers of latents are those of the sequence so far. */

/* The bytes of the blocks for so many latents, and of their list. */
uint64_t vae_history_bytes(const VaeHistoryStore *s, uint64_t latents);
/* The bytes on the device if all blocks are spilled: the list and the stages.
 */
uint64_t vae_history_staged_bytes(const VaeHistoryStore *s);
/* The bytes on the device for VAE_PLANNED_LATENTS, with the stages if the
 * history may need them later. */
uint64_t vae_history_planned_bytes(const VaeHistoryStore *s);
/* Sets `most`: list, stages and blocks on the device have at most `room` bytes.
 */
void vae_history_set_room(VaeHistoryStore *s, uint64_t room);
/* Allocates the list of blocks, if the stream has a history. */
VaeStatus vae_history_take(VaeHistoryStore *s, VaeError *error);
/* Adds blocks until there are enough for so many latents, and the stages for
 * the first one that is spilled. After an error the store keeps the blocks that
 * could be added. */
VaeStatus vae_history_grow(VaeHistoryStore *s, uint64_t latents,
                           VaeError *error);
/* Frees the blocks that so many latents do not need. No run may be in flight.
 */
void vae_history_shrink(VaeHistoryStore *s, uint64_t latents);
/* Frees the memory, except `kept`. */
void vae_history_drop(VaeHistoryStore *s);
void vae_history_free(VaeHistoryStore *s);
/* As vae_carries_offload() and vae_carries_reload(). */
VaeStatus vae_history_offload(VaeHistoryStore *s, uint64_t latents,
                              VaeError *error);
/* Frees `kept`. */
void vae_history_forget(VaeHistoryStore *s);
VaeStatus vae_history_reload(VaeHistoryStore *s, VaeError *error);
/* The number of latents that a history has. They are the last ones. */
uint64_t vae_history_held(const VaeHistoryStore *s, uint64_t latents);
/* Copies one history of these latents to or from host memory. */
VaeStatus vae_history_read(const VaeHistoryStore *s, const VaeCarry *carry,
                           uint64_t latents, uint8_t *dst, VaeError *error);
VaeStatus vae_history_write(VaeHistoryStore *s, const VaeCarry *carry,
                            uint64_t latents, const uint8_t *src,
                            VaeError *error);

#endif
