/*
 * saved_fields.c: see saved_fields.h.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "files.h"
#include "saved_fields.h"
#include "sized.h"
#include "vae-private/settings.h"
#include "vae-private/stream.h"

#define FORMAT "1"

static void add(VaeCheckpointFields *f, const char *key, const char *name,
                const char *format, ...) VAE_PRINTF(4, 5);

static void
add(VaeCheckpointFields *f, const char *key, const char *name,
    const char *format, ...)
{
    va_list args;
    assert(f->n < VAE_CHECKPOINT_FIELDS);
    VaeCheckpointField *field = &f->fields[f->n++];
    *field = (VaeCheckpointField){.key = key, .name = name};
    va_start(args, format);
    vsnprintf(field->value, sizeof field->value, format, args);
    va_end(args);
}

/* True if the stream computes random numbers. */
static bool
uses_seed(const VaeStream *s)
{
    const VaeStreamParams *p = &s->main.params;
    return p->direction == VAE_ENCODE ? p->posterior == VAE_POSTERIOR_SAMPLE
                                      : s->main.model->noisy;
}

/* The value of a setting, or "" if the results of the stream do not depend on
 * it. */
static const char *
value_of(const VaeSetting *row, const VaeStream *s, char text[24])
{
    const VaeStreamParams *p = &s->main.params;
    const int64_t value = vae_setting_get(row, p);
    if (row->only_encode && p->direction != VAE_ENCODE)
        return "";
    if ((row->offset == offsetof(VaeStreamParams, deterministic) &&
         !s->main.class->by_timing) ||
        (row->offset == offsetof(VaeStreamParams, seed) && !uses_seed(s)) ||
        (row->offset == offsetof(VaeStreamParams, tile_plan) &&
         !s->main.model->info.in_tiles))
        return "";
    if (row->kind == VAE_SETTING_WORD)
        return vae_word_of(row->words, (int) value);
    if (row->kind == VAE_SETTING_SWITCH)
        return value ? "true" : "false";
    snprintf(text, 24, "%" PRIu64, (uint64_t) value);
    return text;
}

static void
add_settings(VaeCheckpointFields *f, const VaeStream *s)
{
    const VaeSetting *row;
    char tiles[64] = "", text[24], threads[16] = "";
    if (s->main.plan.tiles)
        snprintf(tiles, sizeof tiles, " in tiles of %dx%d, overlap %d",
                 s->main.plan.tile_width, s->main.plan.tile_height,
                 s->main.plan.tile_overlap);
    if (s->main.class->by_threads)
        snprintf(threads, sizeof threads, "%d", s->main.plan.threads);
    add(f, "vae.size", "the size", "%dx%d%s", s->main.params.width,
        s->main.params.height, tiles);
    for (int i = 0; (row = vae_setting_at(i)); i++)
        if (row->saved)
            add(f, row->saved, row->name, "%s", value_of(row, s, text));
    add(f, "vae.threads", "the number of threads", "%s", threads);
    /* all other policies give the same bytes */
    add(f, "vae.nan-policy", "the nan-policy", "%s",
        s->main.wide ? "fallback" : "");
    add(f, "vae.delay", "the delay in frames", "%d", s->main.plan.delay);
}

VaeStatus
vae_checkpoint_params(const VaeStream *s, const VaeCheckpointParams *params,
                      VaeCheckpointParams *own, VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "stream, params", s, params);
    if (status == VAE_OK)
        status = vae_sized_read(own, sizeof *own, params,
                                VAE_SIZE_UP_TO(VaeCheckpointParams, n_own),
                                "VaeCheckpointParams", error);
    if (status == VAE_OK)
        status = vae_check_path("params->path", own->path, error);
    if (status == VAE_OK)
        status = vae_check_range(
            "n_own", own->n_own < INT64_MAX ? (int64_t) own->n_own : INT64_MAX,
            0, VAE_CHECKPOINT_OWN, error);
    if (status == VAE_OK && own->n_own)
        status = vae_check_pointers(error, "params->own", own->own);
    for (size_t i = 0; status == VAE_OK && i < own->n_own; i++) {
        const VaeMetadata *m = &own->own[i];
        status =
            vae_check_pointers(error, "own->key, own->value", m->key, m->value);
        if (status == VAE_OK && strncmp(m->key, "vae.", 4) == 0)
            status = vae_fail_parts(
                error, VAE_ERR_ARGUMENT,
                (VaeErrorParts){NULL, m->key, "a key without \"vae.\""},
                "%s: the key \"%.*s\" of an own entry begins with \"vae.\", "
                "as only those of the library do",
                own->path, VAE_NAME_SHOWN, m->key);
    }
    return status;
}

VaeStatus
vae_checkpoint_describe(const VaeStream *s, const VaeCheckpointParams *params,
                        int carries, VaeCheckpointFields *f, VaeError *error)
{
    char weights[65], origin[24] = "start";
    const VaeStatus status =
        vae_model_fingerprint(s->main.model, weights, error);
    if (status != VAE_OK)
        return status;
    if (s->at.origin.restart)
        snprintf(origin, sizeof origin, "%" PRIu64, s->at.origin.latent);
    f->n = 0;
    add(f, "vae.checkpoint", "the format", FORMAT);
    add(f, "vae.direction", "the direction", "%s",
        s->main.params.direction == VAE_ENCODE ? "encode" : "decode");
    add(f, "vae.arch", "the network", "%s", s->main.model->info.arch);
    add(f, "vae.weights", "the fingerprint of the weights", "%s", weights);
    add(f, "vae.backend", "the backend", "%s", s->main.class->name);
    add(f, "vae.precision", "the precision", "%s",
        vae_precision_name(s->main.plan.precision));
    add_settings(f, s);
    add(f, "vae.carries", NULL, "%d", carries);
    add(f, "vae.origin", NULL, "%s", origin);
    add(f, "vae.latents", NULL, "%" PRIu64, s->at.latents);
    add(f, "vae.frames", NULL, "%" PRIu64, params->frames);
    add(f, "vae.before", NULL, "%" PRIu64, params->before);
    return VAE_OK;
}

/* ------------------------------------------------------------------ */
uint64_t
vae_checkpoint_sum(uint64_t sum, const void *data, size_t n)
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

uint64_t
vae_checkpoint_sum_text(uint64_t sum, const char *key, const char *value)
{
    sum = vae_checkpoint_sum(sum, key, strlen(key) + 1);
    return vae_checkpoint_sum(sum, value, strlen(value) + 1);
}
