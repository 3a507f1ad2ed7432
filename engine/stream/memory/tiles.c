/*
 * tiles.c: computes a picture in tiles, see stream.h and blend.h.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "arguments.h"
#include "clock.h"
#include "kernels.h"
#include "pixels.h"
#include "machine.h"

/* ------------------------------------------------------------------ */
/* The grid.                                                           */

static VaeStatus
check_length(const VaeMachine *m, const char *what, int64_t pixels,
             VaeError *error)
{
    const int unit = m->model->info.spatial;
    if (pixels >= 0 && pixels <= INT32_MAX && pixels % unit == 0)
        return VAE_OK;
    return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                        "%s of {%lld pixels}, expected {=a multiple of %d, a "
                        "latent pixel of %s}",
                        what, (long long) pixels, unit, m->model->info.arch);
}

/* Sets the grid for tiles of that size. There are no tiles if the picture is
 * not larger. */
static VaeStatus
set_grid(VaeMachine *m, int64_t width, int64_t height, VaeError *error)
{
    const int unit = m->model->info.spatial;
    const int64_t shorter = width < height ? width : height;
    const int part = m->model->arch->ramp == VAE_RAMP_COSINE ? 8 : 4;
    int64_t overlap = m->params.tile_overlap;
    if (overlap == 0)
        overlap = shorter / part / unit * unit;
    if (overlap < 0)
        overlap = 0;
    if (2 * overlap > shorter)
        return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                            "a tile overlap of {%lld pixels}, expected {=at "
                            "most half of a tile, which is %lldx%lld}",
                            (long long) overlap, (long long) width,
                            (long long) height);
    VaeTileGrid g = {.all_w = (m->params.width + unit - 1) / unit,
                     .all_h = (m->params.height + unit - 1) / unit,
                     .overlap = (int) (overlap / unit)};
    g.w = width / unit < g.all_w ? (int) (width / unit) : g.all_w;
    g.h = height / unit < g.all_h ? (int) (height / unit) : g.all_h;
    vae_tile_grid_fill(&g, m->model->arch->ramp);
    m->grid = vae_tile_count(&g) > 1 ? g : (VaeTileGrid){0};
    return VAE_OK;
}

VaeStatus
vae_machine_set_tiles(VaeMachine *m, VaeError *error)
{
    const VaeStreamParams *p = &m->params;
    const int64_t width = p->tile_width ? p->tile_width : p->tile_height;
    const int64_t height = p->tile_height ? p->tile_height : width;
    if (p->tiles == VAE_TILES_OFF)
        return VAE_OK;
    VaeStatus status = vae_check_range("tiles", p->tiles, VAE_TILES_OFF,
                                       VAE_TILES_BLEND, error);
    if (status != VAE_OK)
        return status;
    if (vae_machine_has_delay(m))
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "the %sr of %s looks ahead in time, and does not go "
                        "with tiles",
                        vae_machine_direction(m), m->model->info.arch);
    if (p->nan_policy == VAE_NAN_FALLBACK)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "the nan-policy fallback does not go with tiles");
    status = check_length(m, "a tile width", width, error);
    if (status == VAE_OK)
        status = check_length(m, "a tile height", height, error);
    if (status == VAE_OK && p->tile_overlap != -1)
        status = check_length(m, "a tile overlap", p->tile_overlap, error);
    if (status != VAE_OK || vae_may_tile(p))
        return status;
    return set_grid(m, width, height, error);
}

bool
vae_machine_shrink_tiles(VaeMachine *m)
{
    static const int sizes[] = {2048, 1536, 1024, 768, 512,
                                384,  256,  192,  128, 64};
    const VaeTileGrid *g = &m->grid;
    const int unit = m->model->info.spatial;
    const bool has = vae_machine_has_tiles(m);
    const int w = (has ? g->w * unit : m->plan.padded_width);
    const int h = (has ? g->h * unit : m->plan.padded_height);
    const int now = w > h ? w : h;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (vae_may_tile(&m->params) && sizes[i] < now && sizes[i] % unit == 0)
            return set_grid(m, sizes[i], sizes[i], NULL) == VAE_OK;
    return false;
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

/* The numbers of units of the largest run. */
static void
count_units(const VaeMachine *m, int *in, int *out)
{
    *in = *out = 0;
    for (int i = 0; i < KINDS; i++) {
        const VaeProgram *p = m->programs[i];
        if (p && p->n_in > *in)
            *in = p->n_in;
        if (p && p->n_out > *out)
            *out = p->n_out;
    }
}

/* The number of floats of a pixel of a result. */
static int
result_floats(const VaeMachine *m)
{
    const VaeModelInfo *info = &m->model->info;
    return m->params.direction == VAE_DECODE ? vae_machine_pixel_floats(m)
           : info->has_posterior             ? 2 * info->latent_channels
                                             : info->latent_channels;
}

static VaeBlend
blend_of(const VaeMachine *m, int unit)
{
    const bool decode = m->params.direction == VAE_DECODE;
    const VaeTileMemory *mem = &m->tiles;
    VaeBlend b = {
        .grid = &m->grid,
        .ramp = m->model->arch->ramp,
        .scale = decode ? m->model->info.spatial : 1,
        .n = result_floats(m),
        .step = decode && m->model->arch->patch ? m->model->arch->patch : 1};
    if (mem->block) {
        b.whole = mem->whole + (size_t) unit * vae_blend_whole(&b);
        b.above = mem->above + (size_t) unit * vae_blend_above(&b);
        b.left = mem->left + (size_t) unit * vae_blend_left(&b);
    }
    return b;
}

/* The number of floats of a result of the largest tile. */
static size_t
tile_floats(const VaeMachine *m)
{
    const VaeBlend b = blend_of(m, 0);
    return (size_t) (m->grid.w * b.scale) * (size_t) (m->grid.h * b.scale) *
           (size_t) b.n;
}

static const VaeCarrySet *
set_of_tile(const VaeMachine *m, int i)
{
    const VaeTile tile = vae_tile_at(&m->grid, i);
    const int shape = vae_tile_shape(&m->grid, &tile);
    return shape ? &m->tile_sets[shape - 1] : &m->carries.set;
}

const VaeCarrySet *
vae_machine_tile_carries(const VaeMachine *m, int tile, size_t *at)
{
    *at = 0;
    for (int i = 0; i < tile; i++)
        *at += set_of_tile(m, i)->bytes;
    return tile < vae_tile_count(&m->grid) ? set_of_tile(m, tile) : NULL;
}

static size_t
carry_bytes(const VaeMachine *m)
{
    size_t bytes;
    vae_machine_tile_carries(m, vae_tile_count(&m->grid), &bytes);
    return bytes > 0 ? bytes : 1; /* a network without carries: not NULL */
}

/* Reserves n elements of the block. NULL: block is NULL, and only bytes are
 * counted. */
static void *
next(uint8_t *block, size_t *at, size_t n, size_t size)
{
    const size_t from = *at;
    *at += (n * size + 63) / 64 * 64;
    return block ? block + from : NULL;
}

/* Places all memory except the carries in a block. Returns its bytes. */
static size_t
lay_out(const VaeMachine *m, uint8_t *block, VaeTileMemory *mem)
{
    const bool decode = m->params.direction == VAE_DECODE;
    const VaeBlend b = blend_of(m, 0);
    int in, out;
    count_units(m, &in, &out);
    const size_t latent = (size_t) m->grid.w * (size_t) m->grid.h *
                          (size_t) m->model->info.latent_channels;
    const size_t n_in = (size_t) in, n_out = (size_t) out, f = sizeof(float);
    const size_t n_pictures = decode ? n_out : n_in;
    size_t at = 0;
    mem->latents = next(block, &at, decode ? n_in * latent : 0, f);
    mem->results = next(block, &at, n_out * tile_floats(m), f);
    mem->pixels = next(block, &at, decode ? 0 : tile_floats(m), f);
    mem->whole = next(block, &at, n_out * vae_blend_whole(&b), f);
    mem->above = next(block, &at, n_out * vae_blend_above(&b), f);
    mem->left = next(block, &at, n_out * vae_blend_left(&b), f);
    mem->in = next(block, &at, decode ? n_in : 0, sizeof *mem->in);
    mem->out = next(block, &at, decode ? 0 : n_out, sizeof *mem->out);
    mem->pictures = next(block, &at, n_pictures, sizeof *mem->pictures);
    return at;
}

size_t
vae_machine_tiled_bytes(const VaeMachine *m)
{
    VaeTileMemory none = {0};
    return vae_machine_has_tiles(m) ? carry_bytes(m) + lay_out(m, NULL, &none)
                                    : 0;
}

VaeStatus
vae_machine_take_tiles(VaeMachine *m, VaeError *error)
{
    VaeTileMemory *mem = &m->tiles, none = {0};
    void *block = mem->carries;
    VaeStatus status = VAE_OK;
    if (!vae_machine_has_tiles(m))
        return VAE_OK;
    if (!block)
        status = m->class->alloc(m->backend, VAE_ON_HOST, carry_bytes(m),
                                 &block, error);
    if (status != VAE_OK)
        return status;
    mem->carries = block;
    const size_t bytes = lay_out(m, NULL, &none);
    block = NULL;
    status = m->class->alloc(m->backend, VAE_ON_HOST, bytes, &block, error);
    if (status != VAE_OK)
        return status;
    mem->block = block;
    lay_out(m, mem->block, mem);
    return VAE_OK;
}

void
vae_machine_drop_tiles(VaeMachine *m)
{
    uint8_t *carries = m->tiles.carries;
    if (m->tiles.block)
        m->class->free(m->backend, VAE_ON_HOST, m->tiles.block);
    m->tiles = (VaeTileMemory){.carries = carries};
}

void
vae_machine_free_tiles(VaeMachine *m)
{
    vae_machine_drop_tiles(m);
    if (m->tiles.carries)
        m->class->free(m->backend, VAE_ON_HOST, m->tiles.carries);
    m->tiles = (VaeTileMemory){0};
}

/* ------------------------------------------------------------------ */
/* The units of a tile.                                                */

/* Copies the tile of a latent as floats. Returns the number of its non-finite
 * values that are in no later tile. */
static uint64_t
crop_latent(const VaeMachine *m, const VaeTile *t, const VaeLatentIn *from,
            float *to)
{
    const VaeTileGrid *g = &m->grid;
    const size_t size = vae_type_size(from->type);
    const int w = t->column + 1 < g->columns ? g->w - g->overlap : t->w;
    const int h = t->row + 1 < g->rows ? g->h - g->overlap : t->h;
    uint64_t bad = 0;
    for (int c = 0; c < m->model->info.latent_channels; c++)
        for (int y = 0; y < t->h; y++, to += t->w) {
            const size_t row =
                (size_t) c * (size_t) g->all_h + (size_t) (t->y + y);
            const size_t at = row * (size_t) g->all_w + (size_t) t->x;
            vae_type_to_float(to, (const uint8_t *) from->data + at * size,
                              from->type, (size_t) t->w);
            for (int x = 0; x < w && y < h; x++)
                bad += !isfinite(to[x]);
        }
    return bad;
}

/* The tile of a picture, in place. The picture may end inside the tile. */
static VaePicture
crop_picture(const VaeMachine *m, const VaeTile *t, const VaePicture *from)
{
    const VaeLayout *l = vae_layout(from->pixels);
    const int unit = m->model->info.spatial;
    const int x = t->x * unit, y = t->y * unit;
    bool done[3] = {false};
    VaePicture p = *from;
    for (int c = 0; c < 3; c++) {
        const int plane = l->part[c].plane;
        if (done[plane])
            continue;
        done[plane] = true;
        p.data[plane] +=
            (ptrdiff_t) (y >> (c ? l->sub_y : 0)) * from->stride[plane] +
            (ptrdiff_t) (x >> (c ? l->sub_x : 0)) * l->part[c].step;
    }
    p.width = t->w * unit < from->width - x ? t->w * unit : from->width - x;
    p.height = t->h * unit < from->height - y ? t->h * unit : from->height - y;
    return p;
}

/* Sets the units of a tile. Returns the number of non-finite values of the
 * latents. */
static uint64_t
set_units(VaeMachine *m, const VaeProgram *p, const VaeTile *t,
          const VaeRun *run)
{
    const bool decode = m->params.direction == VAE_DECODE;
    VaeTileMemory *mem = &m->tiles;
    const int unit = m->model->info.spatial;
    const size_t pixels = (size_t) t->w * (size_t) t->h;
    const size_t latent = pixels * (size_t) m->model->info.latent_channels;
    uint64_t bad = 0;
    for (int i = 0; i < p->n_in && decode; i++) {
        float *to = mem->latents + (size_t) i * latent;
        bad += crop_latent(m, t, &run->latents_in[i], to);
        mem->in[i] = (VaeLatentIn){.type = VAE_TYPE_F32, .data = to};
    }
    for (int i = 0; i < p->n_in && !decode; i++)
        mem->pictures[i] = crop_picture(m, t, &run->pictures[i]);
    for (int i = 0; i < p->n_out; i++) {
        float *to = mem->results + (size_t) i * tile_floats(m);
        if (decode)
            mem->pictures[i] =
                (VaePicture){.pixels = vae_machine_floats(m),
                             .width = t->w * unit,
                             .height = t->h * unit,
                             .data = {(uint8_t *) to},
                             .stride = {(ptrdiff_t) (t->w * unit) *
                                        vae_machine_pixel_floats(m) *
                                        (ptrdiff_t) sizeof(float)}};
        else
            mem->out[i] = (VaeLatentOut){
                .type = VAE_TYPE_F32,
                .data = to,
                .logvar = m->model->info.has_posterior ? to + latent : NULL};
    }
    return bad;
}

/* [n, pixels] -> [pixels, n] */
static const float *
interleave(const float *from, size_t n, size_t pixels, float *to)
{
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < pixels; i++)
            to[i * n + c] = *from++;
    return to;
}

static void
blend(VaeMachine *m, const VaeProgram *p, const VaeTile *t)
{
    const bool decode = m->params.direction == VAE_DECODE;
    for (int i = 0; i < p->n_out; i++) {
        const VaeBlend b = blend_of(m, i);
        float *values = m->tiles.results + (size_t) i * tile_floats(m);
        if (!decode) {
            interleave(values, (size_t) b.n, (size_t) t->w * (size_t) t->h,
                       m->tiles.pixels);
            values = m->tiles.pixels;
        }
        vae_blend_tile(&b, t, values);
    }
}

/* Delivers the blended pictures or latents. */
static void
deliver(const VaeMachine *m, const VaeProgram *p, const VaeRun *run)
{
    const VaeQueue queue = {.threads = 1};
    const VaeTileGrid *g = &m->grid;
    for (int i = 0; i < p->n_out; i++) {
        const VaeBlend b = blend_of(m, i);
        if (m->params.direction == VAE_ENCODE) {
            const VaeLatentOut *to = &run->latents_out[i];
            vae_kernels_ref.latent_out(
                &queue,
                &(VaeLatentOutArgs){.x = b.whole,
                                    .x_type = VAE_TYPE_F32,
                                    .dst = to->data,
                                    .dst_type = to->type,
                                    .mean_out = to->mean,
                                    .logvar_out = to->logvar,
                                    .mean = run->mean,
                                    .std = run->std,
                                    .normalise = run->normalise,
                                    .sample = run->sample,
                                    .seed = run->seed,
                                    .index = run->index + (uint64_t) i,
                                    .h = g->all_h,
                                    .w = g->all_w,
                                    .c = run->channels,
                                    .cx = b.n,
                                    .nonfinite = &run->stats->nonfinite});
        } else if (run->pictures[i].data[0]) {
            vae_kernels_ref.picture_out(
                &queue, &(VaePictureOutArgs){.picture = &run->pictures[i],
                                             .x = b.whole,
                                             .x_type = VAE_TYPE_F32,
                                             .h = g->all_h * b.scale,
                                             .w = g->all_w * b.scale,
                                             .low = run->low,
                                             .high = run->high,
                                             .alpha = run->alpha});
        }
    }
}

/* ------------------------------------------------------------------ */

/* The carries of a shape of tiles, in the memory of the stream. */
static VaeCarryStore
carries_of(VaeMachine *m, int shape)
{
    VaeCarryStore store = m->carries;
    store.set = *vae_machine_carry_set(m, shape);
    store.now.split = store.set.spilled;
    return store;
}

static VaeStatus
run_tile(VaeMachine *m, int which, int shape, const VaeRun *run,
         uint8_t *carries, VaeError *error)
{
    VaeRun own = *run;
    const VaeCarryStore store = carries_of(m, shape);
    VaeStatus status = VAE_OK;
    own.latents_in = run->latents_in ? m->tiles.in : NULL;
    own.latents_out = run->latents_out ? m->tiles.out : NULL;
    own.pictures = m->tiles.pictures;
    if (run->latents_out)
        own.normalise = own.sample = false;
    if (which != FIRST && which != WITHOUT_CONTEXT) /* which set all carries */
        status = vae_carries_write((VaeCarryStore *) &store, carries, error);
    if (status == VAE_OK)
        status = m->class->run(m->backend, m->execs[shape * KINDS + which],
                               &own, error);
    if (status == VAE_OK && m->class->finish)
        status = m->class->finish(m->backend, 0, VAE_FINISH_KEEP, error);
    if (status == VAE_OK)
        status = vae_carries_read(&store, carries, error);
    return status;
}

VaeStatus
vae_machine_run_tiles(VaeMachine *m, int which, const VaeRun *run,
                      VaeError *error)
{
    const VaeProgram *p = m->programs[which];
    const uint64_t nonfinite = run->stats->nonfinite;
    uint8_t *carries = m->tiles.carries;
    uint64_t bad_in = 0, bad_out = 0;
    for (int i = 0; i < vae_tile_count(&m->grid); i++) {
        const VaeTile tile = vae_tile_at(&m->grid, i);
        const int shape = vae_tile_shape(&m->grid, &tile);
        bad_in += set_units(m, p, &tile, run);
        if (run->bad)
            *run->bad = 0;
        const VaeStatus status = run_tile(m, which, shape, run, carries, error);
        if (status != VAE_OK)
            return status;
        bad_out += run->bad ? *run->bad : 0;
        blend(m, p, &tile);
        carries += vae_machine_carry_set(m, shape)->bytes;
    }
    if (run->bad)
        *run->bad = bad_out;
    run->stats->nonfinite =
        nonfinite + bad_in; /* some values are in two tiles */
    const uint64_t start = vae_now_ns();
    deliver(m, p, run);
    run->stats->download_ns += vae_now_ns() - start;
    return VAE_OK;
}
