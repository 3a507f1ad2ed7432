/*
 * sequences.c: the sequences of a file of latents. Each one is decoded without
 * the latents before it.
 */
#include <stdlib.h>

#include "tool.h"

VaeStatus
sequences_read(const VaeTensorFile *file, const VaeLatentClip *clip,
               const VaeModel *model, Sequences *out, VaeError *error)
{
    const VaeTensorInfo *table;
    const VaeStatus status =
        vae_latent_sequences_find(file, clip, &table, error);
    if (status != VAE_OK)
        return status;
    out->n = table ? (int) table->dims[0] : 1;
    out->list = calloc((size_t) out->n, sizeof *out->list);
    if (!out->list)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for %d sequences",
                        out->n);
    if (table)
        return vae_latent_sequences_parse(
            file, clip, table->data, vae_model_counts(vae_model_info(model)),
            out->list, error);
    const int64_t frames = vae_model_frames_of(model, clip->t);
    out->list[0] = (VaeLatentSequence){
        .latents = clip->t,
        .frames =
            clip->frames > 0 && clip->frames < frames ? clip->frames : frames};
    return VAE_OK;
}
