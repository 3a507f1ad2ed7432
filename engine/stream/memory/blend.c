/*
 * blend.c: see blend.h.
 */
#include <math.h>
#include <string.h>

#include "blend.h"

static int
tiles_along(int all, int size, int overlap, VaeRamp ramp)
{
    if (all <= size)
        return 1;
    const int step = size - overlap;
    if (ramp == VAE_RAMP_COSINE)
        all -= overlap;
    return (all + step - 1) / step;
}

void
vae_tile_grid_fill(VaeTileGrid *g, VaeRamp ramp)
{
    g->columns = tiles_along(g->all_w, g->w, g->overlap, ramp);
    g->rows = tiles_along(g->all_h, g->h, g->overlap, ramp);
}

static int
smaller(int a, int b)
{
    return a < b ? a : b;
}

VaeTile
vae_tile_at(const VaeTileGrid *g, int i)
{
    VaeTile t = {.column = i % g->columns, .row = i / g->columns};
    t.x = t.column * (g->w - g->overlap);
    t.y = t.row * (g->h - g->overlap);
    t.w = smaller(g->w, g->all_w - t.x);
    t.h = smaller(g->h, g->all_h - t.y);
    return t;
}

/* 0: a full tile; 1: the last tile; 2: the tile before the last one, if the
 * picture ends inside it as well. */
static int
class_of(int length, int full, bool last)
{
    return length == full ? 0 : last ? 1 : 2;
}

int
vae_tile_shape(const VaeTileGrid *g, const VaeTile *t)
{
    return class_of(t->w, g->w, t->column + 1 == g->columns) +
           3 * class_of(t->h, g->h, t->row + 1 == g->rows);
}

bool
vae_tile_of_shape(const VaeTileGrid *g, int shape, VaeTile *out)
{
    for (int i = 0; i < vae_tile_count(g); i++) {
        *out = vae_tile_at(g, i);
        if (vae_tile_shape(g, out) == shape)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ */

size_t
vae_blend_whole(const VaeBlend *b)
{
    const VaeTileGrid *g = b->grid;
    return (size_t) b->scale * (size_t) b->scale * (size_t) g->all_w *
           (size_t) g->all_h * (size_t) b->n;
}

/* The edges of full tiles. */
static size_t
edge(const VaeBlend *b, int length)
{
    return (size_t) b->scale * (size_t) b->scale * (size_t) length *
           (size_t) b->grid->overlap * (size_t) b->n;
}

size_t
vae_blend_above(const VaeBlend *b)
{
    return (size_t) b->grid->columns * edge(b, b->grid->w);
}

size_t
vae_blend_left(const VaeBlend *b)
{
    return edge(b, b->grid->h);
}

/* The weight of the new tile in row or column i of an overlap of n. */
static float
weight(const VaeBlend *b, int i, int n)
{
    i /= b->step;
    n /= b->step;
    if (b->ramp == VAE_RAMP_LINEAR)
        return (float) i / (float) n;
    const double t = n > 1 ? (double) i / (n - 1) : 0.5;
    return (float) (0.5 - 0.5 * cos(3.14159265358979323846 * t));
}

/* Mixes `count` floats of a tile with those of the tile before it. */
static void
mix(float *values, const float *before, size_t count, float part)
{
    for (size_t i = 0; i < count; i++)
        values[i] = before[i] * (1 - part) + values[i] * part;
}

/* The geometry of a tile in pixels of the result. */
typedef struct Part {
    size_t row;      /* floats of a row */
    int h, overlap;  /* height, and overlap of full tiles, in pixels */
    int over_x;      /* overlap with the tile on the left */
    int over_y;      /* overlap with the tile above */
    size_t step;     /* floats of a row before the overlap on its right */
    int step_y;      /* rows before the overlap below */
    size_t full_row; /* floats of a full tile's row */
} Part;

static Part
measure(const VaeBlend *b, const VaeTile *t)
{
    const VaeTileGrid *g = b->grid;
    const size_t n = (size_t) b->n * (size_t) b->scale;
    return (Part){.row = (size_t) t->w * n,
                  .h = t->h * b->scale,
                  .overlap = g->overlap * b->scale,
                  .over_x = smaller(t->w, g->overlap) * b->scale,
                  .over_y = smaller(t->h, g->overlap) * b->scale,
                  .step = (size_t) (g->w - g->overlap) * n,
                  .step_y = (g->h - g->overlap) * b->scale,
                  .full_row = (size_t) g->w * n};
}

static float *
edge_above(const VaeBlend *b, const VaeTile *t)
{
    return b->above + (size_t) t->column * edge(b, b->grid->w);
}

static void
blend_rows(const VaeBlend *b, const VaeTile *t, const Part *p, float *values)
{
    const float *before = edge_above(b, t);
    for (int y = 0; y < p->over_y && t->row > 0; y++)
        mix(values + (size_t) y * p->row, before + (size_t) y * p->full_row,
            p->row, weight(b, y, p->over_y));
}

static void
blend_columns(const VaeBlend *b, const VaeTile *t, const Part *p, float *values)
{
    const size_t n = (size_t) b->n, wide = (size_t) p->overlap * n;
    for (int x = 0; x < p->over_x && t->column > 0; x++) {
        const float part = weight(b, x, p->over_x);
        for (int y = 0; y < p->h; y++)
            mix(values + (size_t) y * p->row + (size_t) x * n,
                b->left + (size_t) y * wide + (size_t) x * n, n, part);
    }
}

static void
keep_below(const VaeBlend *b, const VaeTile *t, const Part *p,
           const float *values)
{
    float *to = edge_above(b, t);
    for (int y = p->step_y; y < p->h && t->row + 1 < b->grid->rows; y++)
        memcpy(to + (size_t) (y - p->step_y) * p->full_row,
               values + (size_t) y * p->row, p->row * sizeof *to);
}

static void
keep_right(const VaeBlend *b, const VaeTile *t, const Part *p,
           const float *values)
{
    const size_t wide = (size_t) p->overlap * (size_t) b->n;
    for (int y = 0; y < p->h && t->column + 1 < b->grid->columns; y++)
        memcpy(b->left + (size_t) y * wide,
               values + (size_t) y * p->row + p->step,
               (p->row - p->step) * sizeof *values);
}

/* Stores the part of the tile that no later tile overlaps. */
static void
store(const VaeBlend *b, const VaeTile *t, const Part *p, const float *values)
{
    const VaeTileGrid *g = b->grid;
    const size_t n = (size_t) b->n * (size_t) b->scale;
    const size_t stride = (size_t) g->all_w * n;
    const size_t row = t->column + 1 < g->columns ? p->step : p->row;
    const int rows = t->row + 1 < g->rows ? p->step_y : p->h;
    float *to =
        b->whole + (size_t) (t->y * b->scale) * stride + (size_t) t->x * n;
    for (int y = 0; y < rows; y++)
        memcpy(to + (size_t) y * stride, values + (size_t) y * p->row,
               row * sizeof *to);
}

/*
 * At a corner four tiles overlap. With the linear ramp the lower edge of a tile
 * is saved after it is blended with its left neighbour, as in diffusers. With
 * the cosine ramp it is saved before, so that the weight of a tile is the
 * product of the weights of its column and its row.
 */
void
vae_blend_tile(const VaeBlend *b, const VaeTile *t, float *values)
{
    const Part p = measure(b, t);
    blend_rows(b, t, &p, values);
    if (b->ramp == VAE_RAMP_COSINE)
        keep_below(b, t, &p, values);
    blend_columns(b, t, &p, values);
    if (b->ramp == VAE_RAMP_LINEAR)
        keep_below(b, t, &p, values);
    keep_right(b, t, &p, values);
    store(b, t, &p, values);
}
