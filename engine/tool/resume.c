/*
 * resume.c: decode --resume keeps OUT.part, with the frames so far, and
 * OUT.checkpoint, and continues from them.
 *
 * Frames are synced to disk before the checkpoint counts them. Therefore
 * OUT.part always has all frames that the checkpoint counts; later ones are cut
 * off.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"
#include "vae-private/stream.h"

/* Identifies the clip: sizes and a hash (FNV-1a) of all latents. */
static VaeStatus
describe_clip(const VaeLatentClip *clip, int64_t frames, char *out, size_t size,
              VaeError *error)
{
    const size_t bytes = (size_t) clip->channels * (size_t) clip->height *
                         (size_t) clip->width * vae_type_size(clip->type);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    uint8_t *one = malloc(bytes);
    if (!one)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a latent");
    for (int k = 0; k < clip->t; k++) {
        vae_latent_clip_read(clip, k, one);
        for (size_t i = 0; i < bytes; i++)
            hash = (hash ^ one[i]) * UINT64_C(0x100000001b3);
    }
    free(one);
    snprintf(out, size,
             "%d latents of %dx%dx%d %s, %" PRId64 " frames, %016" PRIx64,
             clip->t, clip->channels, clip->height, clip->width,
             vae_type_name(clip->type), frames, hash);
    return VAE_OK;
}

VaeStatus
resume_open(Resume *r, const char *out, int every, const VaeLatentClip *clip,
            int64_t frames, VaeError *error)
{
    *r = (Resume){.every = every > 0 ? every : RESUME_EVERY};
    if (asprintf(&r->path, "%s.checkpoint", out) < 0) {
        r->path = NULL;
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", out);
    }
    r->exists = access(r->path, F_OK) == 0;
    return describe_clip(clip, frames, r->clip, sizeof r->clip, error);
}

static VaeCheckpointParams
params_of(const Resume *r, VaeMetadata *own)
{
    *own = (VaeMetadata){"latents", r->clip};
    return (VaeCheckpointParams){.struct_size = sizeof(VaeCheckpointParams),
                                 .path = r->path,
                                 .own = own,
                                 .n_own = 1};
}

VaeStatus
resume_load(Resume *r, VaeStream *stream, Output *out, uint64_t frame_size,
            VaeError *error)
{
    VaeMetadata own;
    VaeCheckpoint c = VAE_INIT(VaeCheckpoint);
    const VaeCheckpointParams p = params_of(r, &own);
    if (!r->exists)
        return VAE_OK;
    VaeError why = {0};
    VaeStatus status = vae_stream_load(stream, &p, &c, &why);
    if (status != VAE_OK)
        return vae_fail(
            error, status,
            "%s (continue with the same settings, or remove it to start again)",
            why.message);
    status = output_cut(out, c.frames * frame_size, error);
    if (status != VAE_OK)
        return status;
    r->begin = (int) c.begin;
    r->latents = r->saved = (int) c.latents;
    r->frames = (int64_t) c.frames;
    fprintf(stderr,
            "vaetool: continuing from frame %" PRIu64 " (%" PRIu64
            " latents are computed again)\n",
            c.frames, c.latents - c.begin);
    return VAE_OK;
}

VaeStatus
resume_save(Resume *r, VaeStream *stream, Output *out, int latents,
            int64_t frames, VaeError *error)
{
    VaeMetadata own;
    VaeCheckpointParams p = params_of(r, &own);
    if (latents - r->saved < r->every)
        return VAE_OK;
    p.frames = (uint64_t) frames;
    VaeStatus status = output_sync(out, error);
    if (status == VAE_OK)
        status = vae_stream_save(stream, &p, error);
    if (status == VAE_OK)
        r->saved = latents;
    return status;
}

void
resume_interrupted(const Resume *r, int latents, VaeError *error)
{
    if (r->saved > 0)
        vae_fail(
            error, VAE_ERR_CANCELLED,
            "interrupted; %d of %d latents are saved: run the same command "
            "again to continue (%s)",
            r->saved, latents, r->path);
    else
        vae_fail(error, VAE_ERR_CANCELLED,
                 "interrupted before the first checkpoint, which follows %d "
                 "latents: the same command starts again",
                 r->every);
}

VaeStatus
resume_done(Resume *r, VaeError *error)
{
    /* Called before OUT.part is renamed: without a checkpoint, the next run
     * starts again. */
    if (unlink(r->path) != 0 && errno != ENOENT)
        return vae_fail(error, VAE_ERR_WRITE, "%s: cannot remove: %s", r->path,
                        strerror(errno));
    return VAE_OK;
}

void
resume_close(Resume *r)
{
    free(r->path);
    r->path = NULL;
}
