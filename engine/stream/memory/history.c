/*
 * history.c: see carries.h.
 */
#include <string.h>

#include "alloc.h"
#include "carries.h"

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

static VaeStatus
copy(const VaeHistoryStore *s, void *dst, const void *src, size_t n,
     VaeError *error)
{
    if (s->class->copy)
        return s->class->copy(s->backend, dst, src, n, error);
    memcpy(dst, src, n);
    return VAE_OK;
}

VaeStatus
vae_history_take(VaeHistoryStore *s, VaeError *error)
{
    void *table = NULL;
    if (!s->bytes || s->now)
        return VAE_OK;
    const VaeStatus status = s->class->alloc(
        s->backend, VAE_ON_DEVICE, sizeof(VaeHistoryBlocks), &table, error);
    if (status != VAE_OK)
        return status;
    s->now = table;
    if (!s->class->copy)
        s->blocks = s->now->block;
    else if (!s->blocks)
        s->blocks = vae_mem_alloc(VAE_HISTORY_BLOCKS * sizeof *s->blocks);
    return s->blocks
               ? VAE_OK
               : vae_fail(error, VAE_ERR_MEMORY, "out of memory for a history");
}

static VaeStatus
add_block(VaeHistoryStore *s, VaeError *error)
{
    void *block = NULL;
    if (s->n == VAE_HISTORY_BLOCKS)
        return vae_fail(error, VAE_ERR_MEMORY, "it has %d blocks", s->n);
    VaeStatus status = s->class->alloc(s->backend, VAE_ON_DEVICE,
                                       block_bytes(s), &block, error);
    if (status != VAE_OK)
        return status;
    s->blocks[s->n] = block;
    if (s->class->copy)
        status = copy(s, &s->now->block[s->n], &s->blocks[s->n],
                      sizeof *s->blocks, error);
    if (status == VAE_OK)
        s->n++;
    else
        s->class->free(s->backend, VAE_ON_DEVICE, block);
    return status;
}

VaeStatus
vae_history_grow(VaeHistoryStore *s, uint64_t latents, VaeError *error)
{
    VaeStatus status = VAE_OK;
    while (status == VAE_OK && (uint64_t) s->n < blocks_of(s, latents))
        status = add_block(s, error);
    return status;
}

void
vae_history_shrink(VaeHistoryStore *s, uint64_t latents)
{
    while ((uint64_t) s->n > blocks_of(s, latents))
        s->class->free(s->backend, VAE_ON_DEVICE, s->blocks[--s->n]);
}

void
vae_history_drop(VaeHistoryStore *s)
{
    if (!s->class)
        return;
    vae_history_shrink(s, 0);
    s->class->free(s->backend, VAE_ON_DEVICE, s->now);
    s->now = NULL;
}

void
vae_history_forget(VaeHistoryStore *s)
{
    for (int i = 0; i < s->n_kept; i++)
        vae_mem_free(s->kept[i]);
    vae_mem_free(s->kept);
    s->kept = NULL;
    s->n_kept = 0;
}

VaeStatus
vae_history_offload(VaeHistoryStore *s, uint64_t latents, VaeError *error)
{
    const int n = (int) blocks_of(s, latents);
    VaeStatus status = VAE_OK;
    if (n == 0)
        return VAE_OK;
    s->kept = vae_mem_alloc((size_t) n * sizeof *s->kept);
    for (int i = 0; s->kept && i < n && status == VAE_OK; i++) {
        s->kept[i] = vae_mem_alloc_lazy(block_bytes(s));
        s->n_kept = i + 1;
        if (s->kept[i])
            status = copy(s, s->kept[i], s->blocks[i], block_bytes(s), error);
        else
            status = VAE_ERR_MEMORY;
    }
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
    while (status == VAE_OK && s->n < s->n_kept)
        status = add_block(s, error);
    for (int i = 0; i < s->n_kept && status == VAE_OK; i++)
        status = copy(s, s->blocks[i], s->kept[i], block_bytes(s), error);
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
        vae_mem_free(s->blocks);
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
    uint8_t *const *blocks = s->kept ? s->kept : s->blocks;
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
