/*
 * history.c: see carries.h.
 */
#include <string.h>

#include "alloc.h"
#include "carries.h"
#include "vae/stream.h"

#define MIB(bytes) ((double) (bytes) / 1048576)

static size_t
block_bytes(const VaeHistoryStore *s)
{
    return (size_t) s->each * s->bytes;
}

/* The blocks of so many latents of the sequence. */
static uint64_t
blocks_of(const VaeHistoryStore *s, uint64_t latents)
{
    const uint64_t each = (uint64_t) s->each, window = (uint64_t) s->window;
    const uint64_t n = window && latents > window ? window : latents;
    return s->bytes ? (n + each - 1) / each : 0;
}

uint64_t
vae_history_bytes(const VaeHistoryStore *s, uint64_t latents)
{
    return s->bytes ? sizeof(VaeHistoryBlocks) +
                          blocks_of(s, latents) * block_bytes(s)
                    : 0;
}

uint64_t
vae_history_staged_bytes(const VaeHistoryStore *s)
{
    return s->bytes ? sizeof(VaeHistoryBlocks) + 2 * block_bytes(s) : 0;
}

/* True if the history may become longer than planned, and then be spilled. */
static bool
may_spill(const VaeHistoryStore *s)
{
    return s->spills && (!s->window || s->window > VAE_PLANNED_LATENTS);
}

uint64_t
vae_history_planned_bytes(const VaeHistoryStore *s)
{
    if (s->spilled)
        return vae_history_staged_bytes(s);
    return vae_history_bytes(s, VAE_PLANNED_LATENTS) +
           (may_spill(s) ? 2 * block_bytes(s) : 0);
}

void
vae_history_set_room(VaeHistoryStore *s, uint64_t room)
{
    const uint64_t staged = vae_history_staged_bytes(s);
    const uint64_t fit =
        s->bytes && room > staged ? (room - staged) / block_bytes(s) : 0;
    s->most = s->spilled ? 0 : VAE_HISTORY_BLOCKS;
    if (may_spill(s) && fit < (uint64_t) s->most)
        s->most = (int) fit;
}

static VaeStatus
copy(const VaeHistoryStore *s, void *dst, const void *src, size_t n,
     VaeError *error)
{
    if (s->class->copy)
        return s->class->copy(s->backend, dst, src, n, error);
    memcpy(dst, src, n);
    return VAE_OK;
}

static VaeStatus
take(const VaeHistoryStore *s, VaePlace place, size_t n, uint8_t **out,
     VaeError *error)
{
    void *block = NULL;
    const VaeStatus status =
        s->class->alloc(s->backend, place, n, &block, error);
    *out = block;
    return status;
}

VaeStatus
vae_history_take(VaeHistoryStore *s, VaeError *error)
{
    uint8_t *table = NULL;
    if (!s->bytes || s->now)
        return VAE_OK;
    const VaeStatus status =
        take(s, VAE_ON_DEVICE, sizeof(VaeHistoryBlocks), &table, error);
    if (status != VAE_OK)
        return status;
    s->now = (void *) table;
    if (!s->class->copy)
        s->places.blocks = s->now->block;
    else if (!s->places.blocks)
        s->places.blocks =
            vae_mem_alloc(VAE_HISTORY_BLOCKS * sizeof(uint8_t *));
    return s->places.blocks
               ? VAE_OK
               : vae_fail(error, VAE_ERR_MEMORY, "out of memory for a history");
}

/* ------------------------------------------------------------------ */
/* Blocks.                                                             */

/* True if block i of `kept` is in place. */
static bool
stays(const VaeHistoryStore *s, int i)
{
    return s->kept && i < s->n_kept && s->kept[i] == s->places.blocks[i];
}

static void
free_block(const VaeHistoryStore *s, int i, VaePlace place)
{
    if (!stays(s, i))
        s->class->free(s->backend, place, s->places.blocks[i]);
}

static VaeStatus
take_stages(VaeHistoryStore *s, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (int i = 0; i < 2 && status == VAE_OK; i++)
        if (!s->places.stages[i])
            status = take(s, VAE_ON_DEVICE, block_bytes(s),
                          &s->places.stages[i], error);
    return status;
}

/* Takes the next block, or the one in `kept` if it can stay in place. If the
 * device has no room for it after all, it is spilled. */
static VaeStatus
take_block(VaeHistoryStore *s, VaePlace *place, VaeError *error)
{
    const int i = s->places.n;
    uint8_t **block = &s->places.blocks[i];
    VaeStatus status = VAE_ERR_MEMORY;
    *place = i < s->most ? VAE_ON_DEVICE : VAE_ON_HOST;
    if (*place == VAE_ON_DEVICE)
        status = take(s, *place, block_bytes(s), block, error);
    if (status != VAE_ERR_MEMORY || (i < s->most && !s->spills))
        return status;
    *place = VAE_ON_HOST;
    s->most = i < s->most ? i : s->most;
    *block = s->kept && i < s->n_kept && i >= s->n_copies ? s->kept[i] : NULL;
    status = take_stages(s, error);
    return status == VAE_OK && !*block
               ? take(s, VAE_ON_HOST, block_bytes(s), block, error)
               : status;
}

static VaeStatus
add_block(VaeHistoryStore *s, VaeError *error)
{
    VaePlace place;
    const int i = s->places.n;
    if (i == VAE_HISTORY_BLOCKS)
        return vae_fail(error, VAE_ERR_MEMORY, "it has %d blocks", i);
    VaeStatus status = take_block(s, &place, error);
    if (status != VAE_OK)
        return status;
    if (s->class->copy)
        status = copy(s, &s->now->block[i], &s->places.blocks[i],
                      sizeof(uint8_t *), error);
    if (status != VAE_OK) {
        free_block(s, i, place);
        return status;
    }
    s->places.n++;
    s->places.on_device += place == VAE_ON_DEVICE;
    return VAE_OK;
}

VaeStatus
vae_history_grow(VaeHistoryStore *s, uint64_t latents, VaeError *error)
{
    VaeStatus status = VAE_OK;
    while (status == VAE_OK && (uint64_t) s->places.n < blocks_of(s, latents))
        status = add_block(s, error);
    return status;
}

void
vae_history_shrink(VaeHistoryStore *s, uint64_t latents)
{
    VaeHistoryPlaces *p = &s->places;
    while ((uint64_t) p->n > blocks_of(s, latents)) {
        p->n--;
        free_block(s, p->n, p->n < p->on_device ? VAE_ON_DEVICE : VAE_ON_HOST);
        p->on_device = p->n < p->on_device ? p->n : p->on_device;
    }
}

void
vae_history_drop(VaeHistoryStore *s)
{
    if (!s->class)
        return;
    vae_history_shrink(s, 0);
    for (int i = 0; i < 2; i++) {
        s->class->free(s->backend, VAE_ON_DEVICE, s->places.stages[i]);
        s->places.stages[i] = NULL;
    }
    s->class->free(s->backend, VAE_ON_DEVICE, s->now);
    s->now = NULL;
}

/* ------------------------------------------------------------------ */

void
vae_history_forget(VaeHistoryStore *s)
{
    for (int i = 0; i < s->n_kept; i++)
        if (i < s->n_copies)
            vae_mem_free(s->kept[i]);
        else if (i >= s->places.n || !stays(s, i))
            s->class->free(s->backend, VAE_ON_HOST, s->kept[i]);
    vae_mem_free(s->kept);
    s->kept = NULL;
    s->n_kept = 0;
}

/* Adds the next block to `kept`: a copy, or a spilled block itself. */
static VaeStatus
keep_block(VaeHistoryStore *s, VaeError *error)
{
    const int i = s->n_kept++;
    if (i >= s->n_copies) {
        s->kept[i] = s->places.blocks[i];
        return VAE_OK;
    }
    s->kept[i] = vae_mem_alloc_lazy(block_bytes(s));
    return s->kept[i]
               ? copy(s, s->kept[i], s->places.blocks[i], block_bytes(s), error)
               : VAE_ERR_MEMORY;
}

VaeStatus
vae_history_offload(VaeHistoryStore *s, uint64_t latents, VaeError *error)
{
    const int n = (int) blocks_of(s, latents);
    VaeStatus status = VAE_OK;
    if (n == 0)
        return VAE_OK;
    s->kept = vae_mem_alloc((size_t) n * sizeof *s->kept);
    s->n_copies = s->places.on_device;
    while (s->kept && s->n_kept < n && status == VAE_OK)
        status = keep_block(s, error);
    if (!s->kept || status == VAE_ERR_MEMORY)
        status = vae_fail(error, VAE_ERR_MEMORY,
                          "out of memory: %.1f MiB of history need a copy in "
                          "host memory while the device's memory is free",
                          MIB(vae_history_bytes(s, latents)));
    if (status != VAE_OK)
        vae_history_forget(s);
    return status;
}

VaeStatus
vae_history_reload(VaeHistoryStore *s, VaeError *error)
{
    VaeStatus status = VAE_OK;
    while (status == VAE_OK && s->places.n < s->n_kept)
        status = add_block(s, error);
    for (int i = 0; i < s->n_kept && status == VAE_OK; i++)
        if (!stays(s, i))
            status =
                copy(s, s->places.blocks[i], s->kept[i], block_bytes(s), error);
    if (status == VAE_OK)
        vae_history_forget(s);
    return status;
}

void
vae_history_free(VaeHistoryStore *s)
{
    vae_history_drop(s);
    vae_history_forget(s);
    if (s->class && s->class->copy)
        vae_mem_free(s->places.blocks);
    *s = (VaeHistoryStore){0};
}

/* ------------------------------------------------------------------ */

uint64_t
vae_history_held(const VaeHistoryStore *s, uint64_t latents)
{
    const uint64_t window = (uint64_t) s->window;
    return window && latents > window ? window : latents;
}

/* The address of a latent's rows, in host memory while offloaded. */
static uint8_t *
rows(const VaeHistoryStore *s, const VaeCarry *c, uint64_t latent)
{
    const uint64_t at = s->window ? latent % (uint64_t) s->window : latent;
    uint8_t *const *blocks = s->kept ? s->kept : s->places.blocks;
    const uint64_t each = (uint64_t) s->each;
    return blocks[at / each] + at % each * s->bytes + c->place;
}

VaeStatus
vae_history_read(const VaeHistoryStore *s, const VaeCarry *c, uint64_t latents,
                 uint8_t *dst, VaeError *error)
{
    VaeStatus status = VAE_OK;
    uint64_t i = latents - vae_history_held(s, latents);
    for (; i < latents && status == VAE_OK; i++, dst += c->bytes)
        if (s->kept)
            memcpy(dst, rows(s, c, i), c->bytes);
        else
            status = copy(s, dst, rows(s, c, i), c->bytes, error);
    return status;
}

VaeStatus
vae_history_write(VaeHistoryStore *s, const VaeCarry *c, uint64_t latents,
                  const uint8_t *src, VaeError *error)
{
    VaeStatus status = VAE_OK;
    uint64_t i = latents - vae_history_held(s, latents);
    for (; i < latents && status == VAE_OK; i++, src += c->bytes)
        status = copy(s, rows(s, c, i), src, c->bytes, error);
    return status;
}
