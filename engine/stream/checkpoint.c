/*
 * checkpoint.c: saves the place of a stream in its sequence to a file, and
 * loads it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "sized.h"
#include "stream.h"
#include "vae-private/stream.h"

#define FORMAT "1"
#define MAX_OWN 16

/* One field of the file. Fields that decide the bytes must not change. */
typedef struct Field {
    const char *key;
    const char *name; /* for error messages; NULL: may differ */
    char value[72];
} Field;

enum {
    FIELD_FORMAT,
    FIELD_DIRECTION,
    FIELD_ARCH,
    FIELD_WEIGHTS,
    FIELD_BACKEND,
    FIELD_PRECISION,
    FIELD_SIZE,
    FIELD_NORMALIZATION,
    FIELD_POSTERIOR,
    FIELD_SEED,
    FIELD_THREADS,
    FIELD_DETERMINISTIC,
    FIELD_NAN_POLICY,
    FIELD_DELAY,
    FIELD_CARRIES,
    FIELD_ORIGIN,
    FIELD_LATENTS,
    FIELD_FRAMES,
    FIELD_BEFORE,
    FIELDS
};

static void set(Field *field, const char *key, const char *name,
                const char *format, ...) VAE_PRINTF(4, 5);

static void
set(Field *field, const char *key, const char *name, const char *format, ...)
{
    va_list args;
    *field = (Field){.key = key, .name = name};
    va_start(args, format);
    vsnprintf(field->value, sizeof field->value, format, args);
    va_end(args);
}

/* Sets all fields but FIELD_CARRIES. Settings that a backend does not read stay
 * empty. */
static VaeStatus
describe(const VaeStream *s, const VaeCheckpointParams *params, Field f[FIELDS],
         VaeError *error)
{
    const VaeStreamParams *p = &s->params;
    const bool encode = p->direction == VAE_ENCODE;
    const bool sample = encode && p->posterior == VAE_POSTERIOR_SAMPLE;
    char weights[65];
    const VaeStatus status = vae_model_fingerprint(s->model, weights, error);
    set(&f[FIELD_FORMAT], "vae.checkpoint", "the format", FORMAT);
    set(&f[FIELD_DIRECTION], "vae.direction", "the direction", "%s",
        encode ? "encode" : "decode");
    set(&f[FIELD_ARCH], "vae.arch", "the network", "%s", s->model->info.arch);
    set(&f[FIELD_WEIGHTS], "vae.weights", "the fingerprint of the weights",
        "%s", weights);
    set(&f[FIELD_BACKEND], "vae.backend", "the backend", "%s", s->class->name);
    set(&f[FIELD_PRECISION], "vae.precision", "the precision", "%s",
        vae_precision_name(s->plan.precision));
    set(&f[FIELD_SIZE], "vae.size", "the size", "%dx%d", p->width, p->height);
    if (s->plan.tiles)
        set(&f[FIELD_SIZE], "vae.size", "the size",
            "%dx%d in tiles of %dx%d, overlap %d", p->width, p->height,
            s->plan.tile_width, s->plan.tile_height, s->plan.tile_overlap);
    set(&f[FIELD_NORMALIZATION], "vae.normalization", "the normalization", "%s",
        vae_normalization_name(p->normalization));
    set(&f[FIELD_POSTERIOR], "vae.posterior", "the posterior", "%s",
        !encode  ? ""
        : sample ? "sample"
                 : "mean");
    set(&f[FIELD_SEED], "vae.seed", "the seed", "%s", "");
    if (sample)
        set(&f[FIELD_SEED], "vae.seed", "the seed", "%" PRIu64, p->seed);
    set(&f[FIELD_THREADS], "vae.threads", "the number of threads", "%s", "");
    if (s->class->kind == VAE_BACKEND_CPU)
        set(&f[FIELD_THREADS], "vae.threads", "the number of threads", "%d",
            s->plan.threads);
    set(&f[FIELD_DETERMINISTIC], "vae.deterministic", "deterministic", "%s",
        s->class->kind != VAE_BACKEND_CUDA ? ""
        : p->deterministic                 ? "true"
                                           : "false");
    /* all other policies compute the same */
    set(&f[FIELD_NAN_POLICY], "vae.nan-policy", "the nan-policy", "%s",
        s->fallback ? "fallback" : "");
    set(&f[FIELD_DELAY], "vae.delay", "the delay in frames", "%d",
        s->plan.delay);
    set(&f[FIELD_ORIGIN], "vae.origin", NULL, "%s", "start");
    if (s->from_cold)
        set(&f[FIELD_ORIGIN], "vae.origin", NULL, "%" PRIu64, s->origin);
    set(&f[FIELD_LATENTS], "vae.latents", NULL, "%" PRIu64, s->latents);
    set(&f[FIELD_FRAMES], "vae.frames", NULL, "%" PRIu64, params->frames);
    set(&f[FIELD_BEFORE], "vae.before", NULL, "%" PRIu64, params->before);
    return status;
}

/* ------------------------------------------------------------------ */
/* A checksum over the whole file, against damage and not against malice: FNV-1a
 * over words of eight bytes. Each step is one to one, so every change of a
 * single word changes the sum. */

#define SUM_BEGIN UINT64_C(0xcbf29ce484222325)

static uint64_t
sum_bytes(uint64_t sum, const void *data, size_t n)
{
    const uint8_t *p = data;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        sum = (sum ^ word) * UINT64_C(0x100000001b3);
        sum ^= sum >> 32;
    }
    for (; n > 0; n--, p++)
        sum = (sum ^ *p) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t
sum_text(uint64_t sum, const char *key, const char *value)
{
    sum = sum_bytes(sum, key, strlen(key) + 1);
    return sum_bytes(sum, value, strlen(value) + 1);
}

/* ------------------------------------------------------------------ */
/* Carries as tensors.                                                 */

static void
carry_dims(const VaeCarry *c, int64_t dims[4])
{
    dims[0] = c->frames;
    dims[1] = c->h;
    dims[2] = c->w;
    dims[3] = c->c;
}

/* Copies the carries to a new block, which the caller frees. */
static VaeStatus
copy_carries(VaeStream *s, uint8_t **out, VaeError *error)
{
    const size_t bytes = vae_carry_items_bytes(s);
    *out = vae_mem_alloc(bytes);
    if (!*out)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory: a checkpoint with carries takes %.1f "
                        "MiB",
                        (double) bytes / 1048576);
    if (s->plan.tiles) {
        memcpy(*out, s->tiles.carries, bytes);
        return VAE_OK;
    }
    const VaeStatus status = vae_carries_read(&s->carries, *out, error);
    if (status != VAE_OK) {
        vae_mem_free(*out);
        *out = NULL;
    }
    return status;
}

static uint64_t
sum_carries(uint64_t sum, const VaeStream *s, const uint8_t *block)
{
    for (int i = 0; i < vae_carry_items(s); i++) {
        VaeCarryItem item;
        vae_carry_item_at(s, i, &item);
        sum = sum_bytes(sum, block + item.at, item.carry->bytes);
    }
    return sum;
}

/* ------------------------------------------------------------------ */
/* Saving.                                                             */

static VaeStatus
write_file(const VaeStream *s, const VaeCheckpointParams *p,
           const Field f[FIELDS], const uint8_t *block, VaeError *error)
{
    VaeMetadata meta[FIELDS + MAX_OWN + 1];
    const int n = block ? vae_carry_items(s) : 0;
    VaeTensorOut *tensors = vae_mem_alloc((size_t) (n + 1) * sizeof *tensors);
    VaeCarryItem *items = vae_mem_alloc((size_t) (n + 1) * sizeof *items);
    char text[24];
    size_t m = 0;
    uint64_t sum = SUM_BEGIN;
    if (!tensors || !items) {
        vae_mem_free(tensors);
        vae_mem_free(items);
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", p->path);
    }
    for (int i = 0; i < FIELDS; i++)
        meta[m++] = (VaeMetadata){f[i].key, f[i].value};
    for (size_t i = 0; i < p->n_own; i++)
        meta[m++] = p->own[i];
    for (size_t i = 0; i < m; i++)
        sum = sum_text(sum, meta[i].key, meta[i].value);
    if (block)
        sum = sum_carries(sum, s, block);
    snprintf(text, sizeof text, "%016" PRIx64, sum);
    meta[m++] = (VaeMetadata){"vae.checksum", text};
    for (int i = 0; i < n; i++) {
        vae_carry_item_at(s, i, &items[i]);
        tensors[i] = (VaeTensorOut){.name = items[i].name,
                                    .type = items[i].carry->type,
                                    .n_dims = 4,
                                    .data = block + items[i].at};
        carry_dims(items[i].carry, tensors[i].dims);
    }
    const VaeStatus status =
        vae_tensor_file_rewrite(p->path, tensors, (size_t) n, meta, m, error);
    vae_mem_free(tensors);
    vae_mem_free(items);
    return status;
}

static VaeStatus
read_params(const VaeCheckpointParams *params, VaeCheckpointParams *own,
            VaeError *error)
{
    return vae_sized_read(own, sizeof *own, params,
                          VAE_SIZE_UP_TO(VaeCheckpointParams, n_own),
                          "VaeCheckpointParams", error);
}

VaeStatus
vae_stream_save(VaeStream *s, const VaeCheckpointParams *params,
                VaeError *error)
{
    VaeCheckpointParams own;
    const VaeCheckpointParams *p = &own;
    const VaeStatus size = read_params(params, &own, error);
    if (size != VAE_OK)
        return size;
    if (p->n_own > MAX_OWN)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%zu fields of the application, expected at most %d",
                        p->n_own, MAX_OWN);
    VaeStatus status = vae_stream_wait(s, 0, error);
    if (status == VAE_OK && s->broken)
        status =
            vae_fail(error, VAE_ERR_ARGUMENT,
                     "%s: an error has ended the sequence, so no checkpoint "
                     "can continue it",
                     p->path);
    if (status == VAE_OK && s->ended)
        status = vae_fail(error, VAE_ERR_ARGUMENT,
                          "%s: the sequence has ended, so no checkpoint can "
                          "continue it",
                          p->path);
    if (status == VAE_OK && s->in_fallback && p->carries)
        status =
            vae_fail(error, VAE_ERR_UNSUPPORTED,
                     "%s: the carries now hold numbers that are too large for "
                     "%s; save without carries, or some latents later",
                     p->path, vae_precision_name(s->plan.precision));
    if (status != VAE_OK)
        return status;
    Field f[FIELDS];
    uint8_t *block = NULL;
    /* before the first run, no carry has a value */
    const bool carries = p->carries && !s->at_start && !s->cold;
    status = describe(s, p, f, error);
    set(&f[FIELD_CARRIES], "vae.carries", NULL, "%d",
        carries ? vae_carry_items(s) : 0);
    if (carries && status == VAE_OK)
        status = copy_carries(s, &block, error);
    if (status == VAE_OK)
        status = write_file(s, p, f, block, error);
    vae_mem_free(block);
    return status;
}

/* ------------------------------------------------------------------ */
/* Loading.                                                            */

static VaeStatus
damaged(const VaeTensorFile *file, const char *what, VaeError *error)
{
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: the checkpoint is damaged: %s; start anew without it",
                    vae_file_label(vae_tensor_file_name(file)), what);
}

static VaeStatus
other(const VaeTensorFile *file, const char *name, const char *found,
      const char *wanted, VaeError *error)
{
    return vae_fail_parts(
        error, VAE_ERR_ARGUMENT,
        (VaeErrorParts){.found = found, .wanted = wanted},
        "%s: the checkpoint is of another run: %s is \"%.*s\" "
        "there, wanted \"%.*s\"",
        vae_file_label(vae_tensor_file_name(file)), name, VAE_NAME_SHOWN, found,
        VAE_NAME_SHOWN, wanted);
}

/* Compares the checksum with that of the file. */
static VaeStatus
check_sum(const VaeTensorFile *file, VaeError *error)
{
    const char *stated = vae_tensor_file_metadata(file, "vae.checksum");
    uint64_t sum = SUM_BEGIN;
    VaeMetadata m;
    char text[24];
    if (!stated)
        return damaged(file, "it has no checksum", error);
    for (size_t i = 0; vae_tensor_file_metadata_at(file, i, &m); i++)
        if (strcmp(m.key, "vae.checksum") != 0)
            sum = sum_text(sum, m.key, m.value);
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        const VaeStatus status = vae_tensor_file_fetch(file, t, error);
        if (status != VAE_OK)
            return status;
        sum = sum_bytes(sum, t->data, (size_t) t->bytes);
    }
    snprintf(text, sizeof text, "%016" PRIx64, sum);
    if (strcmp(text, stated) != 0)
        return damaged(file, "its checksum is another", error);
    return VAE_OK;
}

static VaeStatus
check_fields(const VaeTensorFile *file, const Field f[FIELDS],
             const VaeCheckpointParams *p, VaeError *error)
{
    for (int i = 0; i < FIELDS; i++) {
        const char *found = vae_tensor_file_metadata(file, f[i].key);
        if (!found)
            return damaged(file, f[i].key, error);
        if (f[i].name && strcmp(found, f[i].value) != 0)
            return other(file, f[i].name, found, f[i].value, error);
    }
    for (size_t i = 0; i < p->n_own; i++) {
        const char *found = vae_tensor_file_metadata(file, p->own[i].key);
        if (!found || strcmp(found, p->own[i].value) != 0)
            return other(file, p->own[i].key, found ? found : "",
                         p->own[i].value, error);
    }
    return VAE_OK;
}

static VaeStatus
read_count(const VaeTensorFile *file, const char *key, uint64_t *out,
           VaeError *error)
{
    const char *text = vae_tensor_file_metadata(file, key);
    char *end = NULL;
    if (text && *text >= '0' && *text <= '9')
        *out = strtoull(text, &end, 10);
    return end && !*end ? VAE_OK : damaged(file, key, error);
}

#define CARRY_TEXT 128

/* The type and shape of a carry in a file; t NULL: it is missing. */
static const char *
carry_text(const VaeTensorInfo *t, char text[CARRY_TEXT])
{
    char dims[96] = "";
    if (t)
        vae_dims_text(t->dims, t->n_dims, dims, sizeof dims);
    snprintf(text, CARRY_TEXT, "%s %s", t ? t->type_name : "not", dims);
    return text;
}

/* The type and shape that the stream wants. */
static const char *
wanted_text(const VaeCarry *c, char text[CARRY_TEXT])
{
    char shape[96];
    int64_t dims[4];
    carry_dims(c, dims);
    vae_dims_text(dims, 4, shape, sizeof shape);
    snprintf(text, CARRY_TEXT, "%s %s", vae_type_name(c->type), shape);
    return text;
}

/* Checks that the file has each carry with its type and shape, and no other
 * tensor. */
static VaeStatus
check_carries(const VaeStream *s, const VaeTensorFile *file, VaeError *error)
{
    if (vae_tensor_file_count(file) != (size_t) vae_carry_items(s))
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%s: the checkpoint has %zu carries, wanted %d",
                        vae_file_label(vae_tensor_file_name(file)),
                        vae_tensor_file_count(file), vae_carry_items(s));
    for (int i = 0; i < vae_carry_items(s); i++) {
        VaeCarryItem item;
        vae_carry_item_at(s, i, &item);
        const VaeCarry *c = item.carry;
        const VaeTensorInfo *t = vae_tensor_file_find(file, item.name);
        int64_t dims[4];
        char found[CARRY_TEXT], wanted[CARRY_TEXT];
        carry_dims(c, dims);
        if (t && t->supported && t->type == c->type && t->n_dims == 4 &&
            memcmp(t->dims, dims, sizeof dims) == 0)
            continue;
        return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                              (VaeErrorParts){item.name, carry_text(t, found),
                                              wanted_text(c, wanted)},
                              "%s: carry \"%s\" is %s there, wanted %s",
                              vae_file_label(vae_tensor_file_name(file)),
                              item.name, found, wanted);
    }
    return VAE_OK;
}

static VaeStatus
load_carries(VaeStream *s, const VaeTensorFile *file, VaeError *error)
{
    uint8_t *block = vae_mem_alloc(vae_carry_items_bytes(s));
    if (!block)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory: the checkpoint's carries take %.1f MiB",
                        (double) vae_carry_items_bytes(s) / 1048576);
    for (int i = 0; i < vae_carry_items(s); i++) {
        VaeCarryItem item;
        vae_carry_item_at(s, i, &item);
        const VaeTensorInfo *t = vae_tensor_file_find(file, item.name);
        memcpy(block + item.at, t->data, item.carry->bytes);
    }
    VaeStatus status = VAE_OK;
    if (s->plan.tiles)
        memcpy(s->tiles.carries, block, vae_carry_items_bytes(s));
    else
        status = vae_carries_write(&s->carries, block, error);
    vae_mem_free(block);
    return status;
}

/* The place in the sequence, read from the file and checked. */
typedef struct Place {
    uint64_t latents, frames, origin, before;
    bool carries, from_cold;
    uint64_t begin;
} Place;

/* Finds the latent at which a stream without carries has to begin. */
static VaeStatus
find_begin(const VaeStream *s, Place *p, VaeError *error)
{
    int history = 0;
    const VaeStatus status =
        vae_model_history(s->model, s->params.direction, &history, error);
    if (status != VAE_OK)
        return status;
    /* the next frames belong to latents that came look_ahead earlier */
    if (vae_stream_has_delay(s))
        history += s->model->info.look_ahead;
    const uint64_t back = (uint64_t) history;
    p->begin = p->latents > p->origin + back ? p->latents - back : p->origin;
    if ((p->begin > p->origin || p->from_cold) && !s->params.restarts)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the checkpoint has no carries and the stream was not "
                        "made for restarts");
    return VAE_OK;
}

/* Moves the stream to that place. */
static VaeStatus
take(VaeStream *s, const VaeTensorFile *file, Place *p, VaeError *error)
{
    p->begin = p->latents;
    VaeStatus status =
        p->carries ? vae_stream_resume(s, error) : find_begin(s, p, error);
    if (status != VAE_OK)
        return status;
    vae_stream_reset(s);
    if (p->carries)
        status = vae_stream_resume(
            s, error); /* because a reset may have freed the memory */
    if (p->carries && status == VAE_OK)
        status = load_carries(s, file, error);
    if (!p->carries && (p->begin > p->origin || p->from_cold))
        status = vae_stream_restart(s, p->begin, error);
    if (status != VAE_OK)
        return status;
    if (p->carries) {
        s->at_start = false;
        s->began = p->origin;
        s->began_cold = p->from_cold;
    }
    s->latents = p->begin;
    /* from here on, the stream continues the sequence that began at p->origin
     */
    s->origin = p->origin;
    s->from_cold = p->from_cold;
    return VAE_OK;
}

static VaeStatus
read_place(const VaeTensorFile *file, Place *p, VaeError *error)
{
    uint64_t carries = 0;
    VaeStatus status = read_count(file, "vae.latents", &p->latents, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.frames", &p->frames, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.before", &p->before, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.carries", &carries, error);
    p->carries = carries > 0;
    p->from_cold =
        strcmp(vae_tensor_file_metadata(file, "vae.origin"), "start") != 0;
    if (status == VAE_OK && p->from_cold)
        status = read_count(file, "vae.origin", &p->origin, error);
    if (status == VAE_OK && p->origin > p->latents)
        status = damaged(file, "vae.origin", error);
    return status;
}

VaeStatus
vae_checkpoint_check(const VaeTensorFile *file, VaeError *error)
{
    if (!vae_tensor_file_metadata(file, "vae.checkpoint"))
        return vae_fail(error, VAE_ERR_FORMAT, "%s: is no checkpoint",
                        vae_file_label(vae_tensor_file_name(file)));
    return check_sum(file, error);
}

static VaeStatus
check_file(const VaeStream *s, const VaeTensorFile *file,
           const VaeCheckpointParams *params, Place *place, VaeError *error)
{
    Field f[FIELDS];
    VaeStatus status = describe(s, params, f, error);
    set(&f[FIELD_CARRIES], "vae.carries", NULL, "%s", "");
    if (status == VAE_OK)
        status = vae_checkpoint_check(file, error);
    if (status == VAE_OK)
        status = check_fields(file, f, params, error);
    if (status == VAE_OK)
        status = read_place(file, place, error);
    if (status == VAE_OK && place->carries)
        status = check_carries(s, file, error);
    return status;
}

VaeStatus
vae_stream_load(VaeStream *s, const VaeCheckpointParams *params,
                VaeCheckpoint *out, VaeError *error)
{
    VaeTensorFile *file = NULL;
    VaeCheckpointParams own;
    Place p = {0};
    VaeStatus status = vae_sized_check(
        out, VAE_SIZE_UP_TO(VaeCheckpoint, carries), "VaeCheckpoint", error);
    if (status == VAE_OK)
        status = read_params(params, &own, error);
    if (status == VAE_OK)
        status = vae_tensor_file_open(own.path, &file, error);
    if (status == VAE_OK)
        status = check_file(s, file, &own, &p, error);
    if (status == VAE_OK)
        status = take(s, file, &p, error);
    vae_tensor_file_free(&file);
    if (status != VAE_OK)
        return status;
    const VaeCheckpoint found = {.latents = p.latents,
                                 .begin = p.begin,
                                 .frames = p.frames,
                                 .carries = p.carries,
                                 .before = p.before};
    vae_sized_write(out, &found, sizeof found);
    return VAE_OK;
}
