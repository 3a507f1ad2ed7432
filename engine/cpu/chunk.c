/*
 * chunk.c: computes one chunk of Winograd tiles, see winograd.c. It takes the
 * kernels row by row: the SIDE columns of products of one row, of all times,
 * are in memory at a time.
 */
#include "winograd.h"

enum { SIDE = VAE_CPU_TILE_SIDE };

/* With time, a tile has two frames of results. */
static int
frames_of_pair(const VaeConvTiles *p)
{
    return p->times == 1 ? 1 : 2;
}

/* Frame f of the pair, as one of the step's; -1: there is none. */
static int
frame_in_pair(const VaeConvTiles *p, int pair, int f)
{
    const int at = frames_of_pair(p) * pair + f - p->odd;
    return at >= 0 && at < p->frames ? at : -1;
}

/* The results in time that the frames of the pair need: from..until-1. */
static int
first_time(const VaeConvTiles *p, int pair)
{
    return frame_in_pair(p, pair, 0) < 0 ? 1 : 0;
}

static int
end_of_times(const VaeConvTiles *p, int pair)
{
    const int last = frames_of_pair(p) - 1;
    return frame_in_pair(p, pair, last) < 0 ? p->times - 1 : p->times;
}

/* Input frame f of the step. */
static const float *
frame_of(const VaeConvTiles *p, const VaeTileStep *step, int f)
{
    const size_t bytes = vae_frame_bytes(p->op->x);
    const int at = step->frame + f;
    const float *from = at < step->back ? step->context : step->x;
    const int behind = at < step->back ? at : at - step->back;
    return from + (size_t) behind * (bytes / sizeof(float));
}

/* The address of the pixel at row and column of x, and in *step the distance to
 * the next pixel. For a row outside the picture: the address of zeros. */
static const float *
row_of(const VaeConvTiles *p, const VaeTileLane *lane, const float *x, int row,
       int column, size_t *step)
{
    const VaeShape s = p->op->x->shape;
    const bool outside = row < 0 || row >= s.h;
    *step = outside ? 0 : (size_t) s.c;
    return outside ? lane->zeros
                   : x + ((size_t) row * (size_t) s.w + (size_t) column) *
                             (size_t) s.c;
}

/* Sets the rows of pixels that row r of the chunk's tiles reads. */
static void
set_rows(const VaeConvTiles *p, const VaeTileLane *lane,
         const VaeTileStep *step, int kernels, int pair, int r, VaeTileIn *t)
{
    static const int rows[SIDE][2] = {{0, 2}, {1, 2}, {2, 1}, {3, 1}};
    const int row = 2 * (step->row + r) - vae_conv_top(p->op);
    const int column = t->first ? 0 : 2 * step->column - p->op->conv.pad + 1;
    for (int f = t->from; f < t->until; f++) {
        const float *x =
            frame_of(p, step, frames_of_pair(p) * pair + f - p->odd);
        t->a[f] =
            row_of(p, lane, x, row + rows[kernels][0], column, &t->a_step);
        t->b[f] =
            row_of(p, lane, x, row + rows[kernels][1], column, &t->b_step);
    }
}

/* Computes the input of the products of row `kernels`. */
static void
chunk_in(const VaeConvTiles *p, const VaeTileLane *lane,
         const VaeTileStep *step, int kernels)
{
    const VaeShape s = p->op->x->shape;
    const VaeTileChunk *c = &p->chunk;
    const size_t line = (size_t) c->w * (size_t) s.c;
    const size_t plane = (size_t) p->pairs * (size_t) c->h * line;
    /* column of the first pixel; -1: a zero left of the picture */
    const int column = 2 * step->column - p->op->conv.pad;
    VaeTileIn t = {.minus = kernels != 1,
                   .first = column < 0,
                   .end = s.w - column,
                   .tiles = c->w,
                   .times = p->times,
                   .n = s.c};
    for (int i = 0; i < p->pairs * c->h; i++) {
        const int pair = i / c->h;
        t.from = first_time(p, pair);
        t.until = end_of_times(p, pair);
        set_rows(p, lane, step, kernels, pair, i % c->h, &t);
        for (int k = 0; k < SIDE * p->times; k++)
            t.y[k % p->times][k / p->times] =
                lane->in + (size_t) k * plane + (size_t) i * line;
        p->simd->tiles->in(&t);
    }
}

static VaeDnnlStatus
chunk_products(const VaeConvTiles *p, VaeTileLane *lane, int kernels)
{
    const size_t tiles = (size_t) p->chunk.h * (size_t) p->chunk.w;
    const size_t x_pair = tiles * (size_t) p->op->x->shape.c;
    const size_t y_pair = tiles * (size_t) p->op->y->shape.c;
    VaeDnnlPrimitive *a = &lane->product;
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int k = 0; k < SIDE * p->times; k++) {
        const size_t kernel =
            (size_t) SIDE * (size_t) p->times * (size_t) kernels + (size_t) k;
        if (s == VAE_DNNL_OK)
            s = vae_dnnl_set(a, VAE_DNNL_WEIGHTS,
                             p->kernels + kernel * p->kernel_bytes);
        for (int j = 0; j < p->pairs && s == VAE_DNNL_OK; j += p->at_once) {
            const size_t at = (size_t) k * (size_t) p->pairs + (size_t) j;
            if (k % p->times < first_time(p, j) ||
                k % p->times >= end_of_times(p, j))
                continue;
            s = vae_dnnl_set(a, VAE_DNNL_SRC, lane->in + at * x_pair);
            if (s == VAE_DNNL_OK)
                s = vae_dnnl_set(a, VAE_DNNL_DST, lane->out + at * y_pair);
            if (s == VAE_DNNL_OK)
                s = vae_dnnl_execute(&p->cpu->dnnl, a);
        }
    }
    return s;
}

/* Describes output row `half` (of two) of a row of tiles, at `row` and `frame`
 * of y. Residual and bias are added with the first products, ReLU follows the
 * last. */
static VaeTileRow
row_out(const VaeConvTiles *p, const VaeTileStep *step, int kernels, int half,
        int frame, int row)
{
    const VaeShape s = p->op->y->shape;
    const bool first = kernels == half, last = kernels == half + 2;
    if (kernels < half || kernels > half + 2 || row >= s.h || frame < 0)
        return (VaeTileRow){0};
    const size_t at =
        (size_t) frame * (vae_frame_stride(p->op->y) / sizeof(float)) +
        ((size_t) row * (size_t) s.w + 2 * (size_t) step->column) *
            (size_t) s.c;
    float *y = step->y + at;
    return (VaeTileRow){
        .y = y,
        .from = !first      ? y
                : step->add ? step->add + at
                            : NULL,
        .bias = first ? p->bias : NULL,
        .minus = half == 1 && kernels == 2,
        .relu = last && p->op->conv.relu,
    };
}

/* Adds the products of row `kernels` to the two output rows of each tile. */
static void
chunk_out(const VaeConvTiles *p, const VaeTileLane *lane,
          const VaeTileStep *step, int kernels)
{
    const VaeShape s = p->op->y->shape;
    const VaeTileChunk *c = &p->chunk;
    const size_t line = (size_t) c->w * (size_t) s.c;
    const size_t plane = (size_t) p->pairs * (size_t) c->h * line;
    const int there = s.w - 2 * step->column;
    VaeTileOut t = {.times = p->times,
                    .pixels = there < 2 * c->w ? there : 2 * c->w,
                    .n = s.c};
    for (int i = 0; i < p->pairs * c->h; i++) {
        for (int k = 0; k < SIDE * p->times; k++)
            t.m[k % p->times][k / p->times] =
                lane->out + (size_t) k * plane + (size_t) i * line;
        for (int k = 0; k < 4; k++)
            t.row[k / 2][k % 2] = row_out(p, step, kernels, k % 2,
                                          frame_in_pair(p, i / c->h, k / 2),
                                          2 * (step->row + i % c->h) + k % 2);
        p->simd->tiles->out(&t);
    }
}

VaeDnnlStatus
vae_cpu_tile_chunk(const VaeConvTiles *p, VaeTileLane *lane,
                   const VaeTileStep *step)
{
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int k = 0; k < SIDE && s == VAE_DNNL_OK; k++) {
        chunk_in(p, lane, step, k);
        s = chunk_products(p, lane, k);
        if (s == VAE_DNNL_OK)
            chunk_out(p, lane, step, k);
    }
    return s;
}
