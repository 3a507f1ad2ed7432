/*
 * load.c: loads a checkpoint: the position of a stream in its sequence, and its
 * carries.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "saved_fields.h"
#include "files.h"
#include "sized.h"
#include "vae-private/stream.h"

static VaeStatus
damaged(const VaeTensorFile *file, const char *what, VaeError *error)
{
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: the checkpoint is damaged: %s; start anew without it",
                    vae_file_label(vae_tensor_file_name(file)), what);
}

static VaeStatus
other(const VaeTensorFile *file, const char *name, const char *found,
      const char *expected, VaeError *error)
{
    return vae_mismatch(
        error, VAE_ERR_ARGUMENT, NULL,
        "%s: the checkpoint is of another run: %s is \"{%.*s}\" there, "
        "expected \"{=%.*s}\"",
        vae_file_label(vae_tensor_file_name(file)), name, VAE_NAME_SHOWN, found,
        VAE_NAME_SHOWN, expected);
}

/* Compares the checksum with that of the file. */
static VaeStatus
check_sum(const VaeTensorFile *file, VaeError *error)
{
    const char *stated = vae_tensor_file_metadata(file, "vae.checksum");
    uint64_t sum = VAE_CHECKPOINT_SUM;
    VaeMetadata m;
    char text[24];
    if (!stated)
        return damaged(file, "it has no checksum", error);
    for (size_t i = 0; vae_tensor_file_metadata_at(file, i, &m); i++)
        if (strcmp(m.key, "vae.checksum") != 0)
            sum = vae_checkpoint_sum_text(sum, m.key, m.value);
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        const VaeStatus status = vae_tensor_file_fetch(file, t, error);
        if (status != VAE_OK)
            return status;
        sum = vae_checkpoint_sum(sum, t->data, (size_t) t->bytes);
    }
    snprintf(text, sizeof text, "%016" PRIx64, sum);
    if (strcmp(text, stated) != 0)
        return damaged(file, "its checksum is another", error);
    return VAE_OK;
}

static VaeStatus
check_fields(const VaeTensorFile *file, const VaeCheckpointFields *fields,
             const VaeCheckpointParams *p, VaeError *error)
{
    for (int i = 0; i < fields->n; i++) {
        const VaeCheckpointField *f = &fields->fields[i];
        const char *found = vae_tensor_file_metadata(file, f->key);
        if (!found)
            return damaged(file, f->key, error);
        if (f->name && strcmp(found, f->value) != 0)
            return other(file, f->name, found, f->value, error);
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

/* The type and shape that the stream requires. */
static const char *
expected_text(const VaeCarryItem *item, char text[CARRY_TEXT])
{
    char shape[96];
    vae_dims_text(item->dims, 4, shape, sizeof shape);
    snprintf(text, CARRY_TEXT, "%s %s", vae_type_name(item->carry->type),
             shape);
    return text;
}

/* Checks that the file has each carry with its type and shape, and no other
 * tensor. */
static VaeStatus
check_carries(const VaeStream *s, const VaeTensorFile *file,
              const VaeSequence *at, VaeError *error)
{
    if (vae_tensor_file_count(file) != (size_t) vae_carry_items(&s->main))
        return vae_mismatch(
            error, VAE_ERR_ARGUMENT, NULL,
            "%s: the checkpoint has {%zu carries}, expected {=%d}",
            vae_file_label(vae_tensor_file_name(file)),
            vae_tensor_file_count(file), vae_carry_items(&s->main));
    for (int i = 0; i < vae_carry_items(&s->main); i++) {
        VaeCarryItem item;
        vae_carry_item_at(&s->main, i, vae_sequence_length(at), &item);
        const VaeTensorInfo *t = vae_tensor_file_find(file, item.name);
        char found[CARRY_TEXT], expected[CARRY_TEXT];
        if (t && t->supported && t->type == item.carry->type &&
            t->n_dims == 4 && memcmp(t->dims, item.dims, sizeof item.dims) == 0)
            continue;
        return vae_mismatch(error, VAE_ERR_ARGUMENT, item.name,
                            "%s: carry \"%s\" is {%s} there, expected {=%s}",
                            vae_file_label(vae_tensor_file_name(file)),
                            item.name, carry_text(t, found),
                            expected_text(&item, expected));
    }
    return VAE_OK;
}

static VaeStatus
load_carries(VaeStream *s, const VaeTensorFile *file, const VaeSequence *at,
             VaeError *error)
{
    VaeMachine *m = &s->main;
    const uint64_t latents = vae_sequence_length(at);
    const size_t bytes = vae_carry_items_bytes(m, latents);
    VaeStatus status = vae_stream_grow_history(s, (int) latents, error);
    if (status != VAE_OK)
        return status;
    uint8_t *block = vae_mem_alloc(bytes);
    if (!block)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory: the checkpoint's carries take %.1f MiB",
                        (double) bytes / 1048576);
    for (int i = 0; i < vae_carry_items(m); i++) {
        VaeCarryItem item;
        vae_carry_item_at(m, i, latents, &item);
        const VaeTensorInfo *t = vae_tensor_file_find(file, item.name);
        memcpy(block + item.at, t->data, item.bytes);
    }
    status = vae_carry_items_write(m, latents, block, error);
    vae_mem_free(block);
    return status;
}

/* What the file says, checked. */
typedef struct Saved {
    uint64_t latents, frames, before;
    bool carries;
    VaeSequence at; /* the place at which the stream continues */
} Saved;

/* Moves the place back to the latent at which a stream without saved carries
 * must begin. */
static VaeStatus
move_back(const VaeStream *s, VaeSequence *at, VaeError *error)
{
    int history = 0;
    const VaeStatus status =
        vae_model_looks_back(s->main.model, &s->main.params, &history, error);
    if (status != VAE_OK)
        return status;
    /* the next frames are those of latents that came look_ahead latents earlier
     */
    if (vae_machine_has_delay(&s->main))
        history += s->main.reach.look_ahead;
    const uint64_t back = (uint64_t) history;
    const VaeOrigin origin = at->origin;
    const bool whole = at->latents <= origin.latent + back;
    const VaeOrigin begin =
        whole ? origin : (VaeOrigin){at->latents - back, true};
    if (begin.restart && !s->main.params.restarts)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the checkpoint has no carries and the stream was not "
                        "made for restarts");
    *at = vae_sequence_from(begin);
    at->origin = origin;
    return VAE_OK;
}

/* Sets the stream to that position. */
static VaeStatus
take(VaeStream *s, const VaeTensorFile *file, Saved *p, VaeError *error)
{
    VaeStatus status =
        p->carries ? vae_stream_resume(s, error) : move_back(s, &p->at, error);
    if (status != VAE_OK)
        return status;
    vae_stream_reset(s);
    if (p->carries)
        status =
            vae_stream_resume(s, error); /* a reset may have freed the memory */
    if (p->carries && status == VAE_OK)
        status = load_carries(s, file, &p->at, error);
    if (status == VAE_OK)
        s->at = p->at;
    return status;
}

static VaeStatus
read_place(const VaeTensorFile *file, Saved *p, VaeError *error)
{
    uint64_t carries = 0;
    VaeOrigin origin = {0};
    VaeStatus status = read_count(file, "vae.latents", &p->latents, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.frames", &p->frames, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.before", &p->before, error);
    if (status == VAE_OK)
        status = read_count(file, "vae.carries", &carries, error);
    p->carries = carries > 0;
    origin.restart =
        strcmp(vae_tensor_file_metadata(file, "vae.origin"), "start") != 0;
    if (status == VAE_OK && origin.restart)
        status = read_count(file, "vae.origin", &origin.latent, error);
    if (status == VAE_OK && origin.latent > p->latents)
        status = damaged(file, "vae.origin", error);
    p->at = vae_sequence_from(origin);
    p->at.next = NEXT;
    p->at.latents = p->latents;
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
           const VaeCheckpointParams *params, Saved *place, VaeError *error)
{
    VaeCheckpointFields f;
    VaeStatus status = vae_checkpoint_describe(s, params, 0, &f, error);
    if (status == VAE_OK)
        status = vae_checkpoint_check(file, error);
    if (status == VAE_OK)
        status = check_fields(file, &f, params, error);
    if (status == VAE_OK)
        status = read_place(file, place, error);
    place->carries |= vae_carry_items(&s->main) == 0;
    if (status == VAE_OK && place->carries)
        status = check_carries(s, file, &place->at, error);
    return status;
}

VaeStatus
vae_stream_load(VaeStream *s, const VaeCheckpointParams *params,
                VaeCheckpoint *out, VaeError *error)
{
    VaeTensorFile *file = NULL;
    VaeCheckpointParams own;
    Saved p = {0};
    VaeStatus status = vae_checkpoint_params(s, params, &own, error);
    if (status == VAE_OK)
        status = vae_check_pointers(error, "out", out);
    if (status == VAE_OK)
        status = vae_sized_check(out, VAE_SIZE_UP_TO(VaeCheckpoint, carries),
                                 "VaeCheckpoint", error);
    if (status == VAE_OK)
        status = vae_tensor_file_open(own.path, &file, error);
    if (status == VAE_OK)
        status = check_file(s, file, &own, &p, error);
    if (status == VAE_OK)
        status = take(s, file, &p, error);
    vae_tensor_file_free(&file);
    if (status != VAE_OK)
        return status;
    const uint64_t next = vae_stream_units_before(s, p.at.latents);
    const bool decode = s->main.params.direction == VAE_DECODE;
    const VaeCheckpoint found = {
        .latents = p.latents,
        .begin = p.at.latents,
        .frames = p.frames,
        .carries = p.carries,
        .before = p.before,
        .next = next,
        .frame = decode ? (uint64_t) vae_stream_frames_so_far(s) : next};
    vae_sized_write(out, &found, sizeof found);
    return VAE_OK;
}
