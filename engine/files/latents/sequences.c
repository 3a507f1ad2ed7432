/*
 * Finds and checks the table of the sequences in a file of latents. vaetool
 * and latentdemux both read it here, so they take the same files.
 */
#include <inttypes.h>
#include <stdio.h>

#include "files.h"

static VaeStatus
check_shape(const VaeTensorFile *file, const VaeTensorInfo *t,
            const VaeLatentClip *clip, VaeError *error)
{
    char dims[200];
    if (t->supported && t->type == VAE_TYPE_U8 && t->n_dims == 2 &&
        t->dims[0] >= 1 && t->dims[0] <= clip->t &&
        t->dims[1] == VAE_SEQUENCE_ROW)
        return VAE_OK;
    return vae_mismatch(error, VAE_ERR_FORMAT, t->name,
                        "%s: tensor \"" VAE_SEQUENCES
                        "\" is {%s %s}, expected {=U8 [n, %d] "
                        "with n from 1 to %d}",
                        file->label, t->type_name,
                        vae_dims_text(t->dims, t->n_dims, dims, sizeof dims),
                        VAE_SEQUENCE_ROW, clip->t);
}

VaeStatus
vae_latent_sequences_find(const VaeTensorFile *file, const VaeLatentClip *clip,
                          const VaeTensorInfo **table, VaeError *error)
{
    *table =
        clip->batch == 1 ? vae_tensor_file_find(file, VAE_SEQUENCES) : NULL;
    return *table ? check_shape(file, *table, clip, error) : VAE_OK;
}

static int64_t
read_number(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t) bytes[i] << (8 * i);
    return (int64_t) value;
}

/* The value of sequence i, the lowest and the highest possible one. */
static VaeStatus
check_range(const VaeTensorFile *file, int64_t i, const char *what,
            const int64_t value_low_high[3], VaeError *error)
{
    const int64_t *v = value_low_high;
    char expected[64];
    if (v[0] >= v[1] && v[0] <= v[2])
        return VAE_OK;
    snprintf(expected, sizeof expected,
             v[1] == v[2] ? "%" PRId64 : "%" PRId64 " to %" PRId64, v[1], v[2]);
    return vae_mismatch(error, VAE_ERR_FORMAT, VAE_SEQUENCES,
                        "%s: tensor \"" VAE_SEQUENCES "\", sequence %" PRId64
                        ": {%s %" PRId64 "}, expected {=%s}",
                        file->label, i, what, v[0], expected);
}

VaeStatus
vae_latent_sequences_parse(const VaeTensorFile *file, const VaeLatentClip *clip,
                           const void *rows, VaeCounts counts,
                           VaeLatentSequence *out, VaeError *error)
{
    const int64_t n = vae_tensor_file_find(file, VAE_SEQUENCES)->dims[0];
    VaeStatus status = VAE_OK;
    for (int64_t i = 0; i < n && status == VAE_OK; i++) {
        const uint8_t *row = (const uint8_t *) rows + i * VAE_SEQUENCE_ROW;
        out[i] = (VaeLatentSequence){.first = read_number(row),
                                     .frames = read_number(row + 8)};
        const int64_t low = i > 0 ? out[i - 1].first + 1 : 0;
        const int64_t high = i > 0 ? clip->t - 1 : 0;
        status = check_range(file, i, "first latent",
                             (const int64_t[]){out[i].first, low, high}, error);
    }
    for (int64_t i = 0; i < n && status == VAE_OK; i++) {
        const int64_t end = i + 1 < n ? out[i + 1].first : clip->t;
        out[i].before = i > 0 ? out[i - 1].before + out[i - 1].frames : 0;
        out[i].latents = end - out[i].first;
        const int64_t most = vae_count_frames(counts, out[i].latents);
        const int64_t least = vae_count_frames(counts, out[i].latents - 1) + 1;
        status =
            check_range(file, i, "frames",
                        (const int64_t[]){out[i].frames, least, most}, error);
    }
    return status;
}
