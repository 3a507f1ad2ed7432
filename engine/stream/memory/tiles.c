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
#include "stream.h"

/* ------------------------------------------------------------------ */
/* The grid.                                                           */

static VaeStatus
check_length(const VaeStream *s, const char *what, int64_t pixels,
             VaeError *error)
{
    const int unit = s->model->info.spatial;
    if (pixels >= 0 && pixels <= INT32_MAX && pixels % unit == 0)
        return VAE_OK;
    char found[32], expected[96];
    snprintf(found, sizeof found, "%lld pixels", (long long) pixels);
    snprintf(expected, sizeof expected,
             "a multiple of %d, a latent pixel of %s", unit,
             s->model->info.arch);
    return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                          (VaeErrorParts){NULL, found, expected},
                          "%s of %s, expected %s", what, found, expected);
}

/* Sets the grid for tiles of that size. There are no tiles if the picture is
 * not larger. */
static VaeStatus
set_grid(VaeStream *s, int64_t width, int64_t height, VaeError *error)
{
    const int unit = s->model->info.spatial;
    const int64_t shorter = width < height ? width : height;
    const int part = s->model->arch->ramp == VAE_RAMP_COSINE ? 8 : 4;
    int64_t overlap = s->params.tile_overlap;
    if (overlap == 0)
        overlap = shorter / part / unit * unit;
    if (overlap < 0)
        overlap = 0;
    if (2 * overlap > shorter) {
        char found[32], expected[96];
        snprintf(found, sizeof found, "%lld pixels", (long long) overlap);
        snprintf(expected, sizeof expected,
                 "at most half of a tile, which is %lldx%lld",
                 (long long) width, (long long) height);
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT, (VaeErrorParts){NULL, found, expected},
            "a tile overlap of %s, expected %s", found, expected);
    }
    VaeTileGrid g = {.all_w = (s->params.width + unit - 1) / unit,
                     .all_h = (s->params.height + unit - 1) / unit,
                     .overlap = (int) (overlap / unit)};
    g.w = width / unit < g.all_w ? (int) (width / unit) : g.all_w;
    g.h = height / unit < g.all_h ? (int) (height / unit) : g.all_h;
    vae_tile_grid_fill(&g, s->model->arch->ramp);
    s->grid = vae_tile_count(&g) > 1 ? g : (VaeTileGrid){0};
    return VAE_OK;
}

VaeStatus
vae_stream_set_tiles(VaeStream *s, VaeError *error)
{
    const VaeStreamParams *p = &s->params;
    const int64_t width = p->tile_width ? p->tile_width : p->tile_height;
    const int64_t height = p->tile_height ? p->tile_height : width;
    if (p->tiles == VAE_TILES_OFF)
        return VAE_OK;
    VaeStatus status = vae_check_range("tiles", p->tiles, VAE_TILES_OFF,
                                       VAE_TILES_BLEND, error);
    if (status != VAE_OK)
        return status;
    if (vae_stream_has_delay(s))
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "the decoder of %s looks ahead in time, and does not "
                        "go with tiles",
                        s->model->info.arch);
    if (p->nan_policy == VAE_NAN_FALLBACK)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "the nan-policy fallback does not go with tiles");
    status = check_length(s, "a tile width", width, error);
    if (status == VAE_OK)
        status = check_length(s, "a tile height", height, error);
    if (status == VAE_OK && p->tile_overlap != -1)
        status = check_length(s, "a tile overlap", p->tile_overlap, error);
    if (status != VAE_OK || vae_stream_may_tile(p))
        return status;
    return set_grid(s, width, height, error);
}

bool
vae_stream_shrink_tiles(VaeStream *s)
{
    static const int sizes[] = {2048, 1536, 1024, 768, 512,
                                384,  256,  192,  128, 64};
    const VaeTileGrid *g = &s->grid;
    const int unit = s->model->info.spatial;
    const bool has = vae_stream_has_tiles(s);
    const int w = (has ? g->w * unit : s->plan.padded_width);
    const int h = (has ? g->h * unit : s->plan.padded_height);
    const int now = w > h ? w : h;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (vae_stream_may_tile(&s->params) && sizes[i] < now &&
            sizes[i] % unit == 0)
            return set_grid(s, sizes[i], sizes[i], NULL) == VAE_OK;
    return false;
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

/* The numbers of units of the largest run. */
static void
count_units(const VaeStream *s, int *in, int *out)
{
    *in = *out = 0;
    for (int i = 0; i < KINDS; i++) {
        const VaeProgram *p = s->programs[i];
        if (p && p->n_in > *in)
            *in = p->n_in;
        if (p && p->n_out > *out)
            *out = p->n_out;
    }
}

/* The number of floats of a pixel of a result. */
static int
result_floats(const VaeStream *s)
{
    const VaeModelInfo *info = &s->model->info;
    return s->params.direction == VAE_DECODE ? vae_stream_pixel_floats(s)
           : info->has_posterior             ? 2 * info->latent_channels
                                             : info->latent_channels;
}

static VaeBlend
blend_of(const VaeStream *s, int unit)
{
    const bool decode = s->params.direction == VAE_DECODE;
    const VaeTileMemory *m = &s->tiles;
    VaeBlend b = {
        .grid = &s->grid,
        .ramp = s->model->arch->ramp,
        .scale = decode ? s->model->info.spatial : 1,
        .n = result_floats(s),
        .step = decode && s->model->arch->patch ? s->model->arch->patch : 1};
    if (m->block) {
        b.whole = m->whole + (size_t) unit * vae_blend_whole(&b);
        b.above = m->above + (size_t) unit * vae_blend_above(&b);
        b.left = m->left + (size_t) unit * vae_blend_left(&b);
    }
    return b;
}

/* The number of floats of a result of the largest tile. */
static size_t
tile_floats(const VaeStream *s)
{
    const VaeBlend b = blend_of(s, 0);
    return (size_t) (s->grid.w * b.scale) * (size_t) (s->grid.h * b.scale) *
           (size_t) b.n;
}

static const VaeCarrySet *
set_of_tile(const VaeStream *s, int i)
{
    const VaeTile tile = vae_tile_at(&s->grid, i);
    const int shape = vae_tile_shape(&s->grid, &tile);
    return shape ? &s->tile_sets[shape - 1] : &s->carries.set;
}

const VaeCarrySet *
vae_stream_tile_carries(const VaeStream *s, int tile, size_t *at)
{
    *at = 0;
    for (int i = 0; i < tile; i++)
        *at += set_of_tile(s, i)->bytes;
    return tile < vae_tile_count(&s->grid) ? set_of_tile(s, tile) : NULL;
}

static size_t
carry_bytes(const VaeStream *s)
{
    size_t bytes;
    vae_stream_tile_carries(s, vae_tile_count(&s->grid), &bytes);
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
lay_out(const VaeStream *s, uint8_t *block, VaeTileMemory *m)
{
    const bool decode = s->params.direction == VAE_DECODE;
    const VaeBlend b = blend_of(s, 0);
    int in, out;
    count_units(s, &in, &out);
    const size_t latent = (size_t) s->grid.w * (size_t) s->grid.h *
                          (size_t) s->model->info.latent_channels;
    const size_t n_in = (size_t) in, n_out = (size_t) out, f = sizeof(float);
    const size_t n_pictures = decode ? n_out : n_in;
    size_t at = 0;
    m->latents = next(block, &at, decode ? n_in * latent : 0, f);
    m->results = next(block, &at, n_out * tile_floats(s), f);
    m->pixels = next(block, &at, decode ? 0 : tile_floats(s), f);
    m->whole = next(block, &at, n_out * vae_blend_whole(&b), f);
    m->above = next(block, &at, n_out * vae_blend_above(&b), f);
    m->left = next(block, &at, n_out * vae_blend_left(&b), f);
    m->in = next(block, &at, decode ? n_in : 0, sizeof *m->in);
    m->out = next(block, &at, decode ? 0 : n_out, sizeof *m->out);
    m->pictures = next(block, &at, n_pictures, sizeof *m->pictures);
    return at;
}

size_t
vae_stream_tiled_bytes(const VaeStream *s)
{
    VaeTileMemory none = {0};
    return vae_stream_has_tiles(s) ? carry_bytes(s) + lay_out(s, NULL, &none)
                                   : 0;
}

VaeStatus
vae_stream_take_tiles(VaeStream *s, VaeError *error)
{
    VaeTileMemory *m = &s->tiles, none = {0};
    void *block = m->carries;
    VaeStatus status = VAE_OK;
    if (!vae_stream_has_tiles(s))
        return VAE_OK;
    if (!block)
        status = s->class->alloc(s->backend, VAE_ON_HOST, carry_bytes(s),
                                 &block, error);
    if (status != VAE_OK)
        return status;
    m->carries = block;
    const size_t bytes = lay_out(s, NULL, &none);
    block = NULL;
    status = s->class->alloc(s->backend, VAE_ON_HOST, bytes, &block, error);
    if (status != VAE_OK)
        return status;
    m->block = block;
    lay_out(s, m->block, m);
    return VAE_OK;
}

void
vae_stream_drop_tiles(VaeStream *s)
{
    uint8_t *carries = s->tiles.carries;
    if (s->tiles.block)
        s->class->free(s->backend, VAE_ON_HOST, s->tiles.block);
    s->tiles = (VaeTileMemory){.carries = carries};
}

void
vae_stream_free_tiles(VaeStream *s)
{
    vae_stream_drop_tiles(s);
    if (s->tiles.carries)
        s->class->free(s->backend, VAE_ON_HOST, s->tiles.carries);
    s->tiles = (VaeTileMemory){0};
}

/* ------------------------------------------------------------------ */
/* The units of a tile.                                                */

/* Copies the tile of a latent as floats. Returns the number of its non-finite
 * values that are in no later tile. */
static uint64_t
crop_latent(const VaeStream *s, const VaeTile *t, const VaeLatentIn *from,
            float *to)
{
    const VaeTileGrid *g = &s->grid;
    const size_t size = vae_type_size(from->type);
    const int w = t->column + 1 < g->columns ? g->w - g->overlap : t->w;
    const int h = t->row + 1 < g->rows ? g->h - g->overlap : t->h;
    uint64_t bad = 0;
    for (int c = 0; c < s->model->info.latent_channels; c++)
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
crop_picture(const VaeStream *s, const VaeTile *t, const VaePicture *from)
{
    const VaeLayout *l = vae_layout(from->pixels);
    const int unit = s->model->info.spatial;
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
set_units(VaeStream *s, const VaeProgram *p, const VaeTile *t,
          const VaeRun *run)
{
    const bool decode = s->params.direction == VAE_DECODE;
    VaeTileMemory *m = &s->tiles;
    const int unit = s->model->info.spatial;
    const size_t pixels = (size_t) t->w * (size_t) t->h;
    const size_t latent = pixels * (size_t) s->model->info.latent_channels;
    uint64_t bad = 0;
    for (int i = 0; i < p->n_in && decode; i++) {
        float *to = m->latents + (size_t) i * latent;
        bad += crop_latent(s, t, &run->latents_in[i], to);
        m->in[i] = (VaeLatentIn){.type = VAE_TYPE_F32, .data = to};
    }
    for (int i = 0; i < p->n_in && !decode; i++)
        m->pictures[i] = crop_picture(s, t, &run->pictures[i]);
    for (int i = 0; i < p->n_out; i++) {
        float *to = m->results + (size_t) i * tile_floats(s);
        if (decode)
            m->pictures[i] =
                (VaePicture){.pixels = vae_stream_floats(s),
                             .width = t->w * unit,
                             .height = t->h * unit,
                             .data = {(uint8_t *) to},
                             .stride = {(ptrdiff_t) (t->w * unit) *
                                        vae_stream_pixel_floats(s) *
                                        (ptrdiff_t) sizeof(float)}};
        else
            m->out[i] = (VaeLatentOut){
                .type = VAE_TYPE_F32,
                .data = to,
                .logvar = s->model->info.has_posterior ? to + latent : NULL};
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
blend(VaeStream *s, const VaeProgram *p, const VaeTile *t)
{
    const bool decode = s->params.direction == VAE_DECODE;
    for (int i = 0; i < p->n_out; i++) {
        const VaeBlend b = blend_of(s, i);
        float *values = s->tiles.results + (size_t) i * tile_floats(s);
        if (!decode) {
            interleave(values, (size_t) b.n, (size_t) t->w * (size_t) t->h,
                       s->tiles.pixels);
            values = s->tiles.pixels;
        }
        vae_blend_tile(&b, t, values);
    }
}

/* Delivers the blended pictures or latents. */
static void
deliver(const VaeStream *s, const VaeProgram *p, const VaeRun *run)
{
    const VaeQueue queue = {.threads = 1};
    const VaeTileGrid *g = &s->grid;
    for (int i = 0; i < p->n_out; i++) {
        const VaeBlend b = blend_of(s, i);
        if (s->params.direction == VAE_ENCODE) {
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
carries_of(VaeStream *s, int shape)
{
    VaeCarryStore store = s->carries;
    store.set = *vae_stream_carry_set(s, shape);
    store.now.split = store.set.spilled;
    return store;
}

static VaeStatus
run_tile(VaeStream *s, int which, int shape, const VaeRun *run,
         uint8_t *carries, VaeError *error)
{
    VaeRun own = *run;
    const VaeCarryStore store = carries_of(s, shape);
    VaeStatus status = VAE_OK;
    own.latents_in = run->latents_in ? s->tiles.in : NULL;
    own.latents_out = run->latents_out ? s->tiles.out : NULL;
    own.pictures = s->tiles.pictures;
    if (run->latents_out)
        own.normalise = own.sample = false;
    if (which != FIRST && which != WITHOUT_CONTEXT) /* which set all carries */
        status = vae_carries_write((VaeCarryStore *) &store, carries, error);
    if (status == VAE_OK)
        status = s->class->run(s->backend, s->execs[shape * KINDS + which],
                               &own, error);
    if (status == VAE_OK && s->class->finish)
        status = s->class->finish(s->backend, 0, VAE_FINISH_KEEP, error);
    if (status == VAE_OK)
        status = vae_carries_read(&store, carries, error);
    return status;
}

VaeStatus
vae_stream_run_tiles(VaeStream *s, int which, const VaeRun *run,
                     VaeError *error)
{
    const VaeProgram *p = s->programs[which];
    const uint64_t nonfinite = run->stats->nonfinite;
    uint8_t *carries = s->tiles.carries;
    uint64_t bad_in = 0, bad_out = 0;
    for (int i = 0; i < vae_tile_count(&s->grid); i++) {
        const VaeTile tile = vae_tile_at(&s->grid, i);
        const int shape = vae_tile_shape(&s->grid, &tile);
        bad_in += set_units(s, p, &tile, run);
        if (run->bad)
            *run->bad = 0;
        const VaeStatus status = run_tile(s, which, shape, run, carries, error);
        if (status != VAE_OK)
            return status;
        bad_out += run->bad ? *run->bad : 0;
        blend(s, p, &tile);
        carries += vae_stream_carry_set(s, shape)->bytes;
    }
    if (run->bad)
        *run->bad = bad_out;
    run->stats->nonfinite =
        nonfinite + bad_in; /* some values are in two tiles */
    const uint64_t start = vae_now_ns();
    deliver(s, p, run);
    run->stats->download_ns += vae_now_ns() - start;
    return VAE_OK;
}
