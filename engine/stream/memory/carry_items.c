/*
 * carry_items.c: lists all carries of a stream, for checkpoints.
 */
#include <stdio.h>
#include <string.h>

#include "machine.h"

int
vae_carry_items(const VaeMachine *m)
{
    const int tiles = m->plan.tiles;
    return m->carries.set.n * (tiles ? tiles : 1);
}

/* Histories are in the block after all other carries. */
void
vae_carry_item_at(const VaeMachine *m, int i, uint64_t latents,
                  VaeCarryItem *out)
{
    const int n = m->carries.set.n, tile = i / n;
    const VaeCarrySet *set = &m->carries.set;
    const uint64_t held = vae_history_held(&m->history, latents);
    out->at = 0;
    if (m->plan.tiles)
        set = vae_machine_tile_carries(m, tile, &out->at);
    const VaeCarry *c = out->carry = set->items[i % n];
    out->bytes = c->bytes * (c->grows ? (size_t) held : 1);
    out->at += c->grows ? set->bytes + (size_t) held * c->place : c->offset;
    out->dims[0] = c->grows ? (int64_t) held : c->frames;
    out->dims[1] = c->h;
    out->dims[2] = c->w;
    out->dims[3] = c->c;
    if (m->plan.tiles)
        snprintf(out->name, sizeof out->name, "tile.%d.%s", tile, c->name);
    else
        snprintf(out->name, sizeof out->name, "%s", c->name);
}

size_t
vae_carry_items_bytes(const VaeMachine *m, uint64_t latents)
{
    const uint64_t held = vae_history_held(&m->history, latents);
    size_t end = (size_t) m->plan.carries;
    if (m->plan.tiles)
        vae_machine_tile_carries(m, m->plan.tiles, &end);
    return end + (size_t) held * m->history.bytes;
}

VaeStatus
vae_carry_items_read(const VaeMachine *m, uint64_t latents, uint8_t *dst,
                     VaeError *error)
{
    if (m->plan.tiles) {
        memcpy(dst, m->tiles.carries, vae_carry_items_bytes(m, latents));
        return VAE_OK;
    }
    VaeStatus status = vae_carries_read(&m->carries, dst, error);
    for (int i = 0; i < vae_carry_items(m) && status == VAE_OK; i++) {
        VaeCarryItem item;
        vae_carry_item_at(m, i, latents, &item);
        if (item.carry->grows)
            status = vae_history_read(&m->history, item.carry, latents,
                                      dst + item.at, error);
    }
    return status;
}

VaeStatus
vae_carry_items_write(VaeMachine *m, uint64_t latents, const uint8_t *src,
                      VaeError *error)
{
    if (m->plan.tiles) {
        memcpy(m->tiles.carries, src, vae_carry_items_bytes(m, latents));
        return VAE_OK;
    }
    VaeStatus status = vae_carries_write(&m->carries, src, error);
    for (int i = 0; i < vae_carry_items(m) && status == VAE_OK; i++) {
        VaeCarryItem item;
        vae_carry_item_at(m, i, latents, &item);
        if (item.carry->grows)
            status = vae_history_write(&m->history, item.carry, latents,
                                       src + item.at, error);
    }
    return status;
}
