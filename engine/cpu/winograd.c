/*
 * winograd.c: a 3x3x3 convolution by Winograd's F(2x2x2, 3x3x3), or one of 3x3
 * by F(2x2, 3x3). Rows x0..x3 of a tile and rows g0, g1, g2 of the kernel give
 * two rows of the result, y0 and y1:
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
 * same. Without time, a tile takes 16 kernels instead of 4 x 9 taps: there is
 * one product in time instead of four, and a "pair" is a single frame. Winograd
 * is used only in F32, because 16-bit types would round the sums of pixels.
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

#include "winograd.h"

enum { SIDE = VAE_CPU_TILE_SIDE };

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
    return (size_t) vae_tile_times(op) * x_c * y_c * sizeof(float) >= LARGE;
}

static int
most_tiles(const VaeOp *op)
{
    const size_t x_c = (size_t) op->x->shape.c, y_c = (size_t) op->y->shape.c;
    const size_t products = SIDE * (size_t) vae_tile_times(op);
    const size_t tile = 2 * products * sizeof(float) * (x_c + y_c);
    const int fit = (int) (CHUNK_BYTES / tile);
    return has_large_weights(op) ? MANY : fit < FEW ? FEW : fit;
}

/* The cost of a frame in chunks of w x h tiles, in products of one tile. It is
 * the sum of the costs for 1, 2, 4 and 8 threads, because the actual number of
 * threads must not change the chunks. A thread that has no chunk left counts
 * until the last chunk is ready. Reading a pixel costs about a hundredth of a
 * product. `weights` is the cost of reading those of a chunk. */
static double
cost(const VaeTileChunk *c, int w, int h, double weights)
{
    const int chunks = parts(c->across, w) * parts(c->down, h);
    const double one = w * h + (2 * w + 2) * (2 * h + 2) / 100.0 + weights;
    int in_turn = 0;
    for (int threads = 1; threads <= 8; threads *= 2)
        in_turn += parts(chunks, threads) * threads;
    return in_turn * one;
}

/* Chooses the chunks of the whole picture, of which op may compute a strip. */
static VaeTileChunk
choose_chunk(const VaeOp *op)
{
    const VaeShape y = op->y->shape;
    VaeTileChunk c = {.across = parts(y.w, 2),
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

static void
enter(const VaeConvTiles *p, VaeTileLane *lane, int i)
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
    VaeConvTiles *p = own;
    const VaeExec *e = p->exec;
    const VaeTileChunk *c = &p->chunk;
    const size_t x_frame = vae_frame_bytes(op->x) / sizeof(float);
    const size_t y_frame = vae_frame_stride(op->y) / sizeof(float);
    const float *x = (const float *) vae_exec_body(e, op->x);
    const float *add =
        op->add ? (const float *) vae_exec_body(e, op->add) : NULL;
    float *y = (float *) vae_exec_body(e, op->y);
    /* x may have more context than this convolution reads */
    const int back = op->y->shape.t + op->conv.kt - 1 - op->x->shape.t;
    const float *context = op->carry ? (const float *) vae_exec_carry(e, op)
                                     : x - (size_t) back * x_frame;
    const int wide = parts(c->across, c->w);
    const int high = parts(parts(op->y->shape.h, 2), c->h);
    int failed = VAE_DNNL_OK;
    p->op = op;
    p->odd = vae_tile_odd(e->program, op);
    for (int i = 0; i < p->n_lanes; i++)
        enter(p, &p->lanes[i], i);
#pragma omp parallel for num_threads(p->n_lanes) schedule(dynamic)             \
    reduction(max                                                              \
              : failed)
    for (int i = 0; i < p->steps * high * wide; i++) {
        const int frame = i / (high * wide) * p->frames;
        const size_t at = (size_t) frame * y_frame;
        const VaeTileStep step = {.context = context,
                                  .x = x,
                                  .back = back,
                                  .frame = frame,
                                  .add = add ? add + at : NULL,
                                  .y = y + at,
                                  .row = i / wide % high * c->h,
                                  .column = i % wide * c->w};
        const int s =
            vae_cpu_tile_chunk(p, &p->lanes[omp_get_thread_num()], &step);
        failed = s > failed ? s : failed;
    }
    return vae_cpu_status(failed, op, "run the convolution", error);
}

static void
winograd_free(void *own)
{
    VaeConvTiles *p = own;
    for (int i = 0; i < p->n_lanes && p->lanes; i++)
        vae_dnnl_free(&p->lanes[i].product);
    vae_mem_free(p->lanes);
    vae_dnnl_free(&p->product);
    vae_mem_free(p);
}

/* ------------------------------------------------------------------ */

/* weights NULL: the library chooses their layout. */
static VaeDnnlStatus
make_product(VaeConvTiles *p, int pairs, const VaeDnnlLayout *weights,
             bool plan, VaeDnnlPrimitive *out)
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

/* Chooses a product of all pairs if each has all its frames, and if its
 * implementation, its layout of weights and its bytes are those of a product of
 * one pair. Otherwise chooses the latter. Programs with different numbers of
 * frames therefore share the weights. */
static VaeDnnlStatus
choose_product(VaeConvTiles *p, bool plan)
{
    VaeDnnlPrimitive one = {0}, all = {0};
    const bool whole = p->times == 1 || p->frames == 2 * p->pairs;
    const bool several = p->pairs > 1 && whole;
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
    VaeConvTiles p = {.cpu = cpu, .op = op, .chunk = choose_chunk(op)};
    VaeDnnlPrimitive one = {0};
    const VaeDnnlStatus s = make_product(&p, 1, NULL, true, &one);
    const bool can = s == VAE_DNNL_OK && !vae_cpu_is_product(&one);
    vae_dnnl_free(&one);
    return can;
}

static VaeDnnlStatus
make_lanes(VaeConvTiles *p)
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
place(VaeConvTiles *p)
{
    const size_t tiles =
        (size_t) p->chunk.h * (size_t) p->chunk.w * sizeof(float);
    const size_t x_c = (size_t) p->op->x->shape.c;
    const size_t y_c = (size_t) p->op->y->shape.c;
    const size_t products = SIDE * (size_t) p->times * (size_t) p->pairs;
    p->zeros_at = aligned(p->product.scratch);
    p->in_at = p->zeros_at + aligned(x_c * sizeof(float));
    p->out_at = p->in_at + aligned(products * tiles * x_c);
    p->lane_bytes = p->out_at + aligned(products * tiles * y_c);
}

static VaeStatus
take_weights(VaeConvTiles *p, VaeWeightCache *cache, int i, VaeError *error)
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
    assert(vae_can_winograd(op));
    assert(!op->carry || op->carry->frames == op->conv.kt - 1);
    VaeConvTiles *p = vae_mem_alloc(sizeof *p);
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
    p->steps = vae_op_steps(exec->program, op);
    p->frames = op->y->shape.t / p->steps;
    assert(p->frames * p->steps == op->y->shape.t);
    p->times = vae_tile_times(op);
    p->odd = vae_tile_odd(exec->program, op);
    p->pairs = p->times == 1 ? p->frames : (p->odd + p->frames + 1) / 2;
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
