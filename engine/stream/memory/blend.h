/*
 * blend.h: the grid of tiles of a picture, and the blending of tiles that
 * overlap.
 *
 * A tile is a part of the picture that the network computes like a whole
 * picture. Each tile begins where the one before it ends, minus the overlap.
 * All tiles have the full size, unless the picture ends inside them. With the
 * cosine ramp every tile is longer than the overlap, as in SeedVR2's own
 * pipeline. With the linear ramp the last tile may be shorter, as in Wan's.
 */
#ifndef VAE_BLEND_H
#define VAE_BLEND_H

#include <stdbool.h>
#include <stddef.h>

#include "arch.h"

/* Lengths are in latent pixels. */
typedef struct VaeTileGrid {
    int columns, rows; /* 0: no tiles */
    int all_w, all_h;  /* the picture */
    int w, h;          /* a tile of full size */
    int overlap;       /* at most half of the tile size that the caller sets */
} VaeTileGrid;

/* One tile: its place in the grid, its first pixel and its size. */
typedef struct VaeTile {
    int column, row;
    int x, y, w, h;
} VaeTile;

/* Sets columns and rows. A tile is no larger than the picture. */
void vae_tile_grid_fill(VaeTileGrid *grid, VaeRamp ramp);
VaeTile vae_tile_at(const VaeTileGrid *grid, int i);
static inline int
vae_tile_count(const VaeTileGrid *grid)
{
    return grid->columns * grid->rows;
}

/* Tiles of one width and height share programs. Along each side there are full
 * tiles, and up to two tiles in which the picture ends. Full tiles have shape
 * 0. */
enum { VAE_TILE_SHAPES = 9 };
int vae_tile_shape(const VaeTileGrid *grid, const VaeTile *tile);
/* Writes a tile of that shape to *out. False: there is none. */
bool vae_tile_of_shape(const VaeTileGrid *grid, int shape, VaeTile *out);

/*
 * Blends tiles of `n` floats a pixel, in the order of the grid. scale: pixels
 * of a result for each latent pixel. whole, above and left are memory of the
 * caller: the blended picture; the lower edge of each tile of the row above;
 * the right edge of the tile to the left.
 */
typedef struct VaeBlend {
    const VaeTileGrid *grid;
    VaeRamp ramp;
    int scale, n;
    int step; /* number of neighbouring pixels of the result with the same
                 weight */
    float *whole, *above, *left;
} VaeBlend;

/* Numbers of floats of whole, above and left for one frame. */
size_t vae_blend_whole(const VaeBlend *b);
size_t vae_blend_above(const VaeBlend *b);
size_t vae_blend_left(const VaeBlend *b);

/* Blends the tile (h, w, n) with its neighbours in place, and copies it to the
 * picture and the edges. */
void vae_blend_tile(const VaeBlend *b, const VaeTile *tile, float *values);

#endif
