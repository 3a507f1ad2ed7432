/*
 * winograd.c: a 3x3x3 convolution by Winograd's F(2x2x2, 3x3x3). Rows x0..x3 of
 * a tile and rows g0, g1, g2 of the kernel give two rows of the result, y0 and
 * y1:
 *
 *   m0 = (x0 - x2) g0                 y0 = m0 + m1 + m2
 *   m1 = (x1 + x2) (g0 + g1 + g2)/2   y1 = m1 - m2 + m3
 *   m2 = (x2 - x1) (g0 - g1 + g2)/2
 *   m3 = (x3 - x1) g2
 *
 * The same holds for columns and for frames. A tile of 2x2 pixels in a pair of
 * frames then takes 64 kernels of one tap, instead of 8 x 27 taps. Pairs count
 * from the first frame of a step. A frame without the other one of its pair
 * takes the three of four products in time that it needs, so its bytes are the
 * same. Winograd is used only in F32, because 16-bit types would round the sums
 * of pixels.
 *
 * The picture is divided into chunks of tiles. One thread computes a whole
 * chunk for one step. The input and output of the products therefore stay in
 * its cache, and the bytes depend neither on the number of threads nor on the
 * steps of a slice. A product is a oneDNN convolution of one tap; pairs are its
 * rows and the chunk's tiles are its columns.
 */
#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "conv.h"
#include "cpu/simd.h"

/* Side of a tile. SIDE * SIDE products are computed at a time: those of one row
 * of kernels. */
enum { SIDE = VAE_CPU_TILE_SIDE };

/* How a picture is divided into chunks. */
typedef struct Chunk {
    int across, down; /* tiles of a frame of the whole picture */
    int w, h;         /* tiles of a chunk */
} Chunk;

/* Memory objects and parts of scratch memory of a thread. */
typedef struct Lane {
    VaeDnnlPrimitive product; /* shared */
    float *zeros;             /* one pixel of zeros */
    float *in;  /* [SIDE columns][SIDE times][pairs][tiles][x.c] */
    float *out; /* the same with y.c */
} Lane;

typedef struct ConvTiles {
    VaeBackend *cpu;
    VaeExec *exec;
    const VaeOp *op; /* that is prepared or runs: strips and groups of
                        frames share the struct */
    const VaeSimd *simd;
    Chunk chunk;
    int steps;   /* of the run; a group of frames is one step, see split.h */
    int frames;  /* of a step */
    int odd;     /* of the op that runs: 1 if its first frame is the second one
                    of a pair, which only a group of an odd number has */
    int pairs;   /* of a step */
    int at_once; /* pairs in one product: all or one */
    VaeDnnlPrimitive product;
    const uint8_t *kernels; /* SIDE^3 kernels of kernel_bytes each */
    size_t kernel_bytes;
    const float *bias;
    int n_lanes;
    Lane *lanes;
    /* Offsets in the scratch memory of a lane, and its bytes. */
    size_t zeros_at, in_at, out_at, lane_bytes;
    char impl[sizeof((VaeDnnlPrimitive *) 0)->impl + 10];
} ConvTiles;

/* Input and output of a chunk. */
typedef struct Step {
    /* The input: `back` frames of context, then x. */
    const float *context, *x;
    int back;
    int frame;        /* the first input frame of the step */
    const float *add; /* residual of the step; NULL: none */
    float *y;
    int row, column; /* the chunk's first tile */
} Step;

/* ------------------------------------------------------------------ */
/* Chunks.                                                             */

/* Limits of the tiles of a chunk. The input and output of the products of two
 * pairs should fit in a thread's cache, together with the picture. Weights of
 * LARGE bytes do not stay there, so that each chunk reads them again: its tiles
 * may be MANY. From LEAST tiles on, oneDNN uses one layout of weights for any
 * number of frames. */
#define CHUNK_BYTES ((size_t) 512 << 10)
#define LARGE ((size_t) 512 << 10)
enum { LEAST = 28, FEW = 36, MANY = 104 };

static int
parts(int n, int of)
{
    return (n + of - 1) / of;
}

static bool
has_large_weights(const VaeOp *op)
{
    const size_t x_c = (size_t) op->x->shape.c, y_c = (size_t) op->y->shape.c;
    return SIDE * x_c * y_c * sizeof(float) >= LARGE;
}

static int
most_tiles(const VaeOp *op)
{
    const size_t x_c = (size_t) op->x->shape.c, y_c = (size_t) op->y->shape.c;
    const size_t tile = 2 * SIDE * SIDE * sizeof(float) * (x_c + y_c);
    const int fit = (int) (CHUNK_BYTES / tile);
    return has_large_weights(op) ? MANY : fit < FEW ? FEW : fit;
}

/* The cost of a frame in chunks of w x h tiles, in products of one tile. It is
 * the sum of the costs for 1, 2, 4 and 8 threads, because the actual number of
 * threads must not change the chunks. A thread that has no chunk left counts
 * until the last chunk is ready. Reading a pixel costs about a hundredth of a
 * product. `weights` is the cost of reading those of a chunk. */
static double
cost(const Chunk *c, int w, int h, double weights)
{
    const int chunks = parts(c->across, w) * parts(c->down, h);
    const double one = w * h + (2 * w + 2) * (2 * h + 2) / 100.0 + weights;
    int in_turn = 0;
    for (int threads = 1; threads <= 8; threads *= 2)
        in_turn += parts(chunks, threads) * threads;
    return in_turn * one;
}

/* Chooses the chunks of the whole picture, of which op may compute a strip. */
static Chunk
choose_chunk(const VaeOp *op)
{
    const VaeShape y = op->y->shape;
    Chunk c = {.across = parts(y.w, 2),
               .down = parts(vae_picture_rows(op->y), 2)};
    const int most = most_tiles(op);
    const double weights = has_large_weights(op) ? 6 : 1;
    double best = 0;
    for (int h = 1; h <= c.down && h <= most; h++)
        for (int w = 1; w <= c.across && w * h <= most; w++) {
            const bool least = w * h >= LEAST || (w == c.across && h == c.down);
            const double is = cost(&c, w, h, weights);
            if (!least || (c.w > 0 && is >= best))
                continue;
            best = is;
            c.w = w;
            c.h = h;
        }
    assert(c.w > 0);
    return c;
}

/* ------------------------------------------------------------------ */
/* One chunk.                                                          */

/* Frame f of the pair's two, as one of the step's; -1: there is none. */
static int
frame_in_pair(const ConvTiles *p, int pair, int f)
{
    const int at = 2 * pair + f - p->odd;
    return at >= 0 && at < p->frames ? at : -1;
}

/* The results in time that the frames of the pair need: from..until-1. */
static int
first_time(const ConvTiles *p, int pair)
{
    return frame_in_pair(p, pair, 0) < 0 ? 1 : 0;
}

static int
end_of_times(const ConvTiles *p, int pair)
{
    return frame_in_pair(p, pair, 1) < 0 ? SIDE - 1 : SIDE;
}

/* Input frame f of the step. */
static const float *
frame_of(const ConvTiles *p, const Step *step, int f)
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
row_of(const ConvTiles *p, const Lane *lane, const float *x, int row,
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
set_rows(const ConvTiles *p, const Lane *lane, const Step *step, int kernels,
         int pair, int r, VaeTileIn *t)
{
    static const int rows[SIDE][2] = {{0, 2}, {1, 2}, {2, 1}, {3, 1}};
    const int row = 2 * (step->row + r) - vae_conv_top(p->op);
    const int column = t->first ? 0 : 2 * step->column - p->op->conv.pad + 1;
    for (int f = t->from; f < t->until; f++) {
        const float *x = frame_of(p, step, 2 * pair + f - p->odd);
        t->a[f] =
            row_of(p, lane, x, row + rows[kernels][0], column, &t->a_step);
        t->b[f] =
            row_of(p, lane, x, row + rows[kernels][1], column, &t->b_step);
    }
}

/* Computes the input of the products of row `kernels`. */
static void
chunk_in(const ConvTiles *p, const Lane *lane, const Step *step, int kernels)
{
    const VaeShape s = p->op->x->shape;
    const Chunk *c = &p->chunk;
    const size_t line = (size_t) c->w * (size_t) s.c;
    const size_t plane = (size_t) p->pairs * (size_t) c->h * line;
    /* column of the first pixel; -1: a zero left of the picture */
    const int column = 2 * step->column - p->op->conv.pad;
    VaeTileIn t = {.minus = kernels != 1,
                   .first = column < 0,
                   .end = s.w - column,
                   .tiles = c->w,
                   .n = s.c};
    for (int i = 0; i < p->pairs * c->h; i++) {
        const int pair = i / c->h;
        t.from = first_time(p, pair);
        t.until = end_of_times(p, pair);
        set_rows(p, lane, step, kernels, pair, i % c->h, &t);
        for (int k = 0; k < SIDE * SIDE; k++)
            t.y[k % SIDE][k / SIDE] =
                lane->in + (size_t) k * plane + (size_t) i * line;
        p->simd->tile_in(&t);
    }
}

static VaeDnnlStatus
chunk_products(const ConvTiles *p, Lane *lane, int kernels)
{
    const size_t tiles = (size_t) p->chunk.h * (size_t) p->chunk.w;
    const size_t x_pair = tiles * (size_t) p->op->x->shape.c;
    const size_t y_pair = tiles * (size_t) p->op->y->shape.c;
    VaeDnnlPrimitive *a = &lane->product;
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int k = 0; k < SIDE * SIDE; k++) {
        const size_t kernel =
            (size_t) SIDE * SIDE * (size_t) kernels + (size_t) k;
        if (s == VAE_DNNL_OK)
            s = vae_dnnl_set(a, VAE_DNNL_WEIGHTS,
                             p->kernels + kernel * p->kernel_bytes);
        for (int j = 0; j < p->pairs && s == VAE_DNNL_OK; j += p->at_once) {
            const size_t at = (size_t) k * (size_t) p->pairs + (size_t) j;
            if (k % SIDE < first_time(p, j) || k % SIDE >= end_of_times(p, j))
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
row_out(const ConvTiles *p, const Step *step, int kernels, int half, int frame,
        int row)
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
chunk_out(const ConvTiles *p, const Lane *lane, const Step *step, int kernels)
{
    const VaeShape s = p->op->y->shape;
    const Chunk *c = &p->chunk;
    const size_t line = (size_t) c->w * (size_t) s.c;
    const size_t plane = (size_t) p->pairs * (size_t) c->h * line;
    const int there = s.w - 2 * step->column;
    VaeTileOut t = {.pixels = there < 2 * c->w ? there : 2 * c->w, .n = s.c};
    for (int i = 0; i < p->pairs * c->h; i++) {
        for (int k = 0; k < SIDE * SIDE; k++)
            t.m[k % SIDE][k / SIDE] =
                lane->out + (size_t) k * plane + (size_t) i * line;
        for (int k = 0; k < 4; k++)
            t.row[k / 2][k % 2] = row_out(p, step, kernels, k % 2,
                                          frame_in_pair(p, i / c->h, k / 2),
                                          2 * (step->row + i % c->h) + k % 2);
        p->simd->tile_out(&t);
    }
}

static VaeDnnlStatus
run_chunk(ConvTiles *p, Lane *lane, const Step *step)
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

/* ------------------------------------------------------------------ */

static void
enter(const ConvTiles *p, Lane *lane, int i)
{
    uint8_t *own = p->exec->memory.scratch + (size_t) i * p->lane_bytes;
    lane->zeros = (float *) (own + p->zeros_at);
    lane->in = (float *) (own + p->in_at);
    lane->out = (float *) (own + p->out_at);
    memset(lane->zeros, 0, (size_t) p->op->x->shape.c * sizeof(float));
    vae_dnnl_set(&lane->product, VAE_DNNL_SCRATCH, own);
}

static VaeStatus
winograd_run(void *own, const VaeOp *op, VaeError *error)
{
    ConvTiles *p = own;
    const VaeExec *e = p->exec;
    const Chunk *c = &p->chunk;
    const size_t x_frame = vae_frame_bytes(op->x) / sizeof(float);
    const size_t y_frame = vae_frame_stride(op->y) / sizeof(float);
    const float *x = (const float *) vae_exec_body(e, op->x);
    const float *add =
        op->add ? (const float *) vae_exec_body(e, op->add) : NULL;
    float *y = (float *) vae_exec_body(e, op->y);
    /* x may have more context than this convolution reads */
    const int back = op->y->shape.t + 2 - op->x->shape.t;
    const float *context = op->carry ? (const float *) vae_exec_carry(e, op)
                                     : x - (size_t) back * x_frame;
    const int wide = parts(c->across, c->w);
    const int high = parts(parts(op->y->shape.h, 2), c->h);
    int failed = VAE_DNNL_OK;
    p->op = op;
    p->odd = vae_op_first_frame(e->program, op) % 2;
    for (int i = 0; i < p->n_lanes; i++)
        enter(p, &p->lanes[i], i);
#pragma omp parallel for num_threads(p->n_lanes) schedule(dynamic)             \
    reduction(max                                                              \
              : failed)
    for (int i = 0; i < p->steps * high * wide; i++) {
        const int frame = i / (high * wide) * p->frames;
        const size_t at = (size_t) frame * y_frame;
        const Step step = {.context = context,
                           .x = x,
                           .back = back,
                           .frame = frame,
                           .add = add ? add + at : NULL,
                           .y = y + at,
                           .row = i / wide % high * c->h,
                           .column = i % wide * c->w};
        const int s = run_chunk(p, &p->lanes[omp_get_thread_num()], &step);
        failed = s > failed ? s : failed;
    }
    return vae_cpu_status(failed, op, "run the convolution", error);
}

static void
winograd_free(void *own)
{
    ConvTiles *p = own;
    for (int i = 0; i < p->n_lanes && p->lanes; i++)
        vae_dnnl_free(&p->lanes[i].product);
    vae_mem_free(p->lanes);
    vae_dnnl_free(&p->product);
    vae_mem_free(p);
}

/* ------------------------------------------------------------------ */

/* weights NULL: the library chooses their layout. */
static VaeDnnlStatus
make_product(ConvTiles *p, int pairs, const VaeDnnlLayout *weights, bool plan,
             VaeDnnlPrimitive *out)
{
    const int tiles = p->chunk.h * p->chunk.w;
    const VaeDnnlConv conv = {.flat = true,
                              .x_type = VAE_TYPE_F32,
                              .y_type = VAE_TYPE_F32,
                              .x_c = p->op->x->shape.c,
                              .y_c = p->op->y->shape.c,
                              .x = {1, pairs, tiles},
                              .y = {1, pairs, tiles},
                              .k = {1, 1, 1},
                              .stride = {1, 1, 1},
                              .weights = weights};
    /* Made for one thread, because one thread computes each chunk. */
    omp_set_num_threads(1);
    const VaeDnnlStatus s = vae_dnnl_conv(&p->cpu->dnnl, &conv, plan, out);
    omp_set_num_threads(p->cpu->params.threads);
    return s;
}

/* Chooses a product of all pairs if each has two frames, and if its
 * implementation, its layout of weights and its bytes are those of a product of
 * one pair. Otherwise chooses the latter. Programs with different numbers of
 * frames therefore share the weights. */
static VaeDnnlStatus
choose_product(ConvTiles *p, bool plan)
{
    VaeDnnlPrimitive one = {0}, all = {0};
    const bool several = p->pairs > 1 && p->frames == 2 * p->pairs;
    VaeDnnlStatus s = make_product(p, 1, NULL, true, &one);
    const VaeDnnlLayout *weights = one.layout[VAE_DNNL_WEIGHTS];
    if (s == VAE_DNNL_OK && several)
        s = make_product(p, p->pairs, weights, true, &all);
    if (s == VAE_DNNL_OK) {
        const bool fits = several && strcmp(one.impl, all.impl) == 0 &&
                          !vae_cpu_is_product(&one);
        p->at_once = fits ? p->pairs : 1;
        s = make_product(p, p->at_once, weights, plan, &p->product);
    }
    vae_dnnl_free(&one);
    vae_dnnl_free(&all);
    return s;
}

/* In a strip, a tile has another place in its chunk than in the whole picture.
 */
bool
vae_cpu_tiles_can_strip(VaeBackend *cpu, const VaeOp *op)
{
    ConvTiles p = {.cpu = cpu, .op = op, .chunk = choose_chunk(op)};
    VaeDnnlPrimitive one = {0};
    const VaeDnnlStatus s = make_product(&p, 1, NULL, true, &one);
    const bool can = s == VAE_DNNL_OK && !vae_cpu_is_product(&one);
    vae_dnnl_free(&one);
    return can;
}

static VaeDnnlStatus
make_lanes(ConvTiles *p)
{
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int i = 0; i < p->n_lanes && s == VAE_DNNL_OK; i++)
        s = vae_dnnl_share(&p->cpu->dnnl, &p->product, &p->lanes[i].product);
    return s;
}

static size_t
aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Sets the offsets in a lane's scratch memory. */
static void
place(ConvTiles *p)
{
    const size_t tiles =
        (size_t) p->chunk.h * (size_t) p->chunk.w * sizeof(float);
    const size_t x_c = (size_t) p->op->x->shape.c;
    const size_t y_c = (size_t) p->op->y->shape.c;
    const size_t products = (size_t) SIDE * SIDE * (size_t) p->pairs;
    p->zeros_at = aligned(p->product.scratch);
    p->in_at = p->zeros_at + aligned(x_c * sizeof(float));
    p->out_at = p->in_at + aligned(products * tiles * x_c);
    p->lane_bytes = p->out_at + aligned(products * tiles * y_c);
}

static VaeStatus
take_weights(ConvTiles *p, VaeWeightCache *cache, int i, VaeError *error)
{
    const VaeDnnlLayout *layout = p->product.layout[VAE_DNNL_WEIGHTS];
    const void *kernels = NULL;
    VaeStatus status =
        vae_cpu_tile_weight(&(VaeCpuTileWeight){p->cpu, p->exec, p->op, layout},
                            cache, &kernels, error);
    p->kernels = kernels;
    p->kernel_bytes = vae_cpu_tile_kernel(layout);
    if (status == VAE_OK && p->op->bias)
        status = vae_host_weight(p->exec, cache, p->op->bias,
                                 &p->exec->ops[i].bias, error);
    p->bias = p->exec->ops[i].bias;
    return status;
}

VaeStatus
vae_cpu_winograd(VaeBackend *cpu, VaeWeightCache *cache, VaeExec *exec, int i,
                 VaeError *error)
{
    const VaeOp *op = &exec->program->ops[i];
    assert(op->conv.k == 3 && op->conv.kt == 3 && op->conv.s == 1 &&
           op->conv.st == 1 && op->conv.pad <= 1 && !op->conv.up);
    assert(!op->carry || op->carry->frames == 2);
    assert(op->x->type == VAE_TYPE_F32 && op->y->type == VAE_TYPE_F32);
    ConvTiles *p = vae_mem_alloc(sizeof *p);
    if (!p)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    exec->ops[i].own = p;
    exec->ops[i].own_free = winograd_free;
    exec->ops[i].run = winograd_run;
    exec->ops[i].impl = p->impl;
    p->cpu = cpu;
    p->exec = exec;
    p->op = op;
    p->simd = vae_cpu_simd(&((VaeHostExec *) exec)->queue);
    p->chunk = choose_chunk(op);
    p->steps = op->group ? 1 : exec->program->steps;
    p->frames = op->y->shape.t / p->steps;
    p->odd = vae_op_first_frame(exec->program, op) % 2;
    p->pairs = (p->odd + p->frames + 1) / 2;
    p->n_lanes = cpu->params.threads;
    p->lanes = vae_mem_alloc((size_t) p->n_lanes * sizeof *p->lanes);
    if (!p->lanes)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    VaeDnnlStatus s = choose_product(p, !cache);
    if (s == VAE_DNNL_OK && cache)
        s = make_lanes(p);
    if (s != VAE_DNNL_OK)
        return vae_cpu_status(s, op, "make the convolution", error);
    snprintf(p->impl, sizeof p->impl, "%s winograd", p->product.impl);
    place(p);
    if ((size_t) p->n_lanes * p->lane_bytes > exec->scratch)
        exec->scratch = (size_t) p->n_lanes * p->lane_bytes;
    return take_weights(p, cache, i, error);
}
