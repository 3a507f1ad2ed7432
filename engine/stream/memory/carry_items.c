/*
 * carry_items.c: lists all carries of a stream, for checkpoints.
 */
#include <stdio.h>

#include "stream.h"

int
vae_carry_items(const VaeStream *s)
{
    const int tiles = s->plan.tiles;
    return s->carries.set.n * (tiles ? tiles : 1);
}

void
vae_carry_item_at(const VaeStream *s, int i, VaeCarryItem *out)
{
    const int n = s->carries.set.n, tile = i / n;
    const VaeCarrySet *set = &s->carries.set;
    out->at = 0;
    if (s->plan.tiles)
        set = vae_stream_tile_carries(s, tile, &out->at);
    out->carry = set->items[i % n];
    out->at += out->carry->offset;
    if (s->plan.tiles)
        snprintf(out->name, sizeof out->name, "tile.%d.%s", tile,
                 out->carry->name);
    else
        snprintf(out->name, sizeof out->name, "%s", out->carry->name);
}

size_t
vae_carry_items_bytes(const VaeStream *s)
{
    size_t end = (size_t) s->plan.carries;
    if (s->plan.tiles)
        vae_stream_tile_carries(s, s->plan.tiles, &end);
    return end;
}
