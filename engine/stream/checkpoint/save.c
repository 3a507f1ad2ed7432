/*
 * save.c: saves a checkpoint: the position of a stream in its sequence, and its
 * carries.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "saved_fields.h"
#include "files.h"
#include "vae-private/model.h"
#include "vae-private/stream.h"

/* Copies the carries to a new block, which the caller frees. */
static VaeStatus
copy_carries(VaeStream *s, uint8_t **out, VaeError *error)
{
    const uint64_t latents = vae_sequence_length(&s->at);
    const size_t bytes = vae_carry_items_bytes(&s->main, latents);
    *out = vae_mem_alloc(bytes);
    if (!*out)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory: a checkpoint with carries takes %.1f "
                        "MiB",
                        (double) bytes / 1048576);
    const VaeStatus status =
        vae_carry_items_read(&s->main, latents, *out, error);
    if (status != VAE_OK) {
        vae_mem_free(*out);
        *out = NULL;
    }
    return status;
}

static uint64_t
sum_carries(uint64_t sum, const VaeStream *s, const uint8_t *block)
{
    for (int i = 0; i < vae_carry_items(&s->main); i++) {
        VaeCarryItem item;
        vae_carry_item_at(&s->main, i, vae_sequence_length(&s->at), &item);
        sum = vae_checkpoint_sum(sum, block + item.at, item.bytes);
    }
    return sum;
}

static VaeStatus
write_file(const VaeStream *s, const VaeCheckpointParams *p,
           const VaeCheckpointFields *f, const uint8_t *block, VaeError *error)
{
    VaeMetadata meta[VAE_CHECKPOINT_FIELDS + VAE_CHECKPOINT_OWN + 1];
    const int n = block ? vae_carry_items(&s->main) : 0;
    VaeTensorOut *tensors = vae_mem_alloc((size_t) (n + 1) * sizeof *tensors);
    VaeCarryItem *items = vae_mem_alloc((size_t) (n + 1) * sizeof *items);
    char text[24];
    size_t m = 0;
    uint64_t sum = VAE_CHECKPOINT_SUM;
    if (!tensors || !items) {
        vae_mem_free(tensors);
        vae_mem_free(items);
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", p->path);
    }
    for (int i = 0; i < f->n; i++)
        meta[m++] = (VaeMetadata){f->fields[i].key, f->fields[i].value};
    for (size_t i = 0; i < p->n_own; i++)
        meta[m++] = p->own[i];
    for (size_t i = 0; i < m; i++)
        sum = vae_checkpoint_sum_text(sum, meta[i].key, meta[i].value);
    if (block)
        sum = sum_carries(sum, s, block);
    snprintf(text, sizeof text, "%016" PRIx64, sum);
    meta[m++] = (VaeMetadata){"vae.checksum", text};
    for (int i = 0; i < n; i++) {
        vae_carry_item_at(&s->main, i, vae_sequence_length(&s->at), &items[i]);
        tensors[i] = (VaeTensorOut){.name = items[i].name,
                                    .type = items[i].carry->type,
                                    .n_dims = 4,
                                    .data = block + items[i].at};
        memcpy(tensors[i].dims, items[i].dims, sizeof items[i].dims);
    }
    const VaeStatus status =
        vae_tensor_file_rewrite(p->path, tensors, (size_t) n, meta, m, error);
    vae_mem_free(tensors);
    vae_mem_free(items);
    return status;
}

VaeStatus
vae_stream_save(VaeStream *s, const VaeCheckpointParams *params,
                VaeError *error)
{
    VaeCheckpointParams own;
    const VaeCheckpointParams *p = &own;
    int sent, made;
    VaeStatus status = vae_checkpoint_params(s, params, &own, error);
    if (status == VAE_OK)
        status = vae_stream_wait(s, 0, error);
    if (status == VAE_OK)
        status = vae_model_check_output(s->main.model, NULL, p->path, error);
    if (status != VAE_OK)
        return status;
    vae_stream_count_waiting(s, &sent, &made);
    if (s->at.broken)
        status =
            vae_fail(error, VAE_ERR_ARGUMENT,
                     "%s: an error has ended the sequence, so no checkpoint "
                     "can continue it",
                     p->path);
    if (status == VAE_OK && (s->at.ended || vae_stream_end_was_sent(s)))
        status = vae_fail(error, VAE_ERR_ARGUMENT,
                          "%s: the sequence has ended, so no checkpoint can "
                          "continue it",
                          p->path);
    if (status == VAE_OK && made > 0)
        status = vae_fail(error, VAE_ERR_ARGUMENT,
                          "%s: %d results wait in the stream, which a "
                          "checkpoint would lose; receive them first",
                          p->path, made);
    if (status == VAE_OK && s->at.in_fallback && p->carries)
        status =
            vae_fail(error, VAE_ERR_UNSUPPORTED,
                     "%s: the carries now hold numbers that are too large for "
                     "%s; save without carries, or some latents later",
                     p->path, vae_precision_name(s->main.plan.precision));
    if (status != VAE_OK)
        return status;
    VaeCheckpointFields f;
    uint8_t *block = NULL;
    /* before the first run, no carry has a value; a window and a tile
     * begin without */
    const bool carries = p->carries && s->at.next == NEXT &&
                         !s->main.model->windows.size &&
                         !s->main.model->info.in_tiles;
    status = vae_checkpoint_describe(
        s, p, carries ? vae_carry_items(&s->main) : 0, &f, error);
    if (carries && status == VAE_OK)
        status = copy_carries(s, &block, error);
    if (status == VAE_OK)
        status = write_file(s, p, &f, block, error);
    vae_mem_free(block);
    return status;
}
