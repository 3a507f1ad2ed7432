/*
 * sequences.c: the sequences of a file of latents. Each one is decoded without
 * the latents before it.
 */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define TABLE "latent_sequences"

long long
sequences_count(const VaeTensorFile *file)
{
    const VaeTensorInfo *t = vae_tensor_file_find(file, TABLE);
    return t && t->n_dims == 2 ? (long long) t->dims[0] : 1;
}

static VaeStatus
damaged(const VaeTensorFile *file, VaeError *error)
{
    return vae_fail_parts(
        error, VAE_ERR_FORMAT, (VaeErrorParts){.tensor = TABLE},
        "%s: tensor \"" TABLE "\" does not fit the latents: wanted, for each "
        "sequence in order, its first latent and the number of its frames as "
        "64-bit integers (U8 [n, 16])",
        vae_tensor_file_name(file));
}

/* Reads row i of the table. `end`: the latent after the sequence. */
static Sequence
read_row(const VaeTensorInfo *table, int64_t i, int64_t *end)
{
    const uint8_t *row = (const uint8_t *) table->data + i * 16;
    int64_t first, frames;
    memcpy(&first, row, sizeof first);
    memcpy(&frames, row + 8, sizeof frames);
    if (i + 1 < table->dims[0])
        memcpy(end, row + 16, sizeof *end);
    return (Sequence){.first = first, .frames = frames};
}

static VaeStatus
read_table(const VaeTensorFile *file, const VaeTensorInfo *table,
           const VaeLatentClip *clip, const VaeModel *model, Sequence *out,
           VaeError *error)
{
    int64_t next = 0;
    for (int64_t i = 0; i < table->dims[0]; i++) {
        int64_t end = clip->t;
        Sequence *s = &out[i];
        *s = read_row(table, i, &end);
        if (s->first != next || end <= s->first || end > clip->t)
            return damaged(file, error);
        s->latents = (int) (end - s->first);
        if (s->frames < 1 || s->frames > vae_model_frames_of(model, s->latents))
            return damaged(file, error);
        next = end;
    }
    return VAE_OK;
}

VaeStatus
sequences_read(const VaeTensorFile *file, const VaeLatentClip *clip,
               const VaeModel *model, Sequences *out, VaeError *error)
{
    const VaeTensorInfo *t = vae_tensor_file_find(file, TABLE);
    if (clip->batch != 1)
        t = NULL;
    if (t && (t->type != VAE_TYPE_U8 || !t->supported || !t->data ||
              t->n_dims != 2 || t->dims[1] != 16 || t->dims[0] < 1 ||
              t->dims[0] > clip->t))
        return damaged(file, error);
    out->n = t ? (int) t->dims[0] : 1;
    out->list = calloc((size_t) out->n, sizeof *out->list);
    if (!out->list)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for %d sequences",
                        out->n);
    if (t)
        return read_table(file, t, clip, model, out->list, error);
    const int64_t frames = vae_model_frames_of(model, clip->t);
    out->list[0] = (Sequence){
        .latents = clip->t,
        .frames =
            clip->frames > 0 && clip->frames < frames ? clip->frames : frames};
    return VAE_OK;
}
