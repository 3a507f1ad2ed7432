/*
 * carry_items.c: lists all carries of a stream, for checkpoints.
 */
#include <stdio.h>

#include "machine.h"

int
vae_carry_items(const VaeMachine *m)
{
    const int tiles = m->plan.tiles;
    return m->carries.set.n * (tiles ? tiles : 1);
}

void
vae_carry_item_at(const VaeMachine *m, int i, VaeCarryItem *out)
{
    const int n = m->carries.set.n, tile = i / n;
    const VaeCarrySet *set = &m->carries.set;
    out->at = 0;
    if (m->plan.tiles)
        set = vae_machine_tile_carries(m, tile, &out->at);
    out->carry = set->items[i % n];
    out->at += out->carry->offset;
    if (m->plan.tiles)
        snprintf(out->name, sizeof out->name, "tile.%d.%s", tile,
                 out->carry->name);
    else
        snprintf(out->name, sizeof out->name, "%s", out->carry->name);
}

size_t
vae_carry_items_bytes(const VaeMachine *m)
{
    size_t end = (size_t) m->plan.carries;
    if (m->plan.tiles)
        vae_machine_tile_carries(m, m->plan.tiles, &end);
    return end;
}
