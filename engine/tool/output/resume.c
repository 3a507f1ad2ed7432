/*
 * resume.c: decode --resume keeps OUT.part, with the frames so far, and
 * OUT.checkpoint, and continues from them.
 *
 * The checkpoint lists the latents whose frames are written: one range, or one
 * for each segment. Frames are synced to disk before it lists their latents, so
 * that OUT.part always has them. Frames after the last range are cut off.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "vae-private/os.h"
#include "vae-private/stream.h"

/* Continues a hash (FNV-1a). */
static uint64_t
hash_bytes(uint64_t hash, const void *data, size_t n)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Identifies the clip: sizes and a hash of all latents, and of where its
 * sequences begin. */
static VaeStatus
describe_clip(const VaeLatentClip *clip, const Sequences *sequences, char *out,
              size_t size, VaeError *error)
{
    const size_t bytes = (size_t) clip->channels * (size_t) clip->height *
                         (size_t) clip->width * vae_type_size(clip->type);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    int64_t frames = 0;
    uint8_t *one = malloc(bytes);
    if (!one)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a latent");
    for (int k = 0; k < clip->t; k++) {
        vae_latent_clip_read(clip, k, one);
        hash = hash_bytes(hash, one, bytes);
    }
    free(one);
    for (int i = 0; i < sequences->n; i++) {
        const VaeLatentSequence *s = &sequences->list[i];
        frames += s->frames;
        if (i > 0)
            hash = hash_bytes(hash, s, sizeof *s);
    }
    snprintf(out, size,
             "%d latents of %dx%dx%d %s, %" PRId64 " frames, %016" PRIx64,
             clip->t, clip->channels, clip->height, clip->width,
             vae_type_name(clip->type), frames, hash);
    return VAE_OK;
}

/* A name that is not UTF-8 has no place in JSON. */
static char *
command_text(const Options *o)
{
    json_t *command =
        json_pack("{s:O, s:s}", "options", o->given, "latents", o->argument[0]);
    char *text = command ? json_dumps(command, JSON_COMPACT) : strdup("");
    json_decref(command);
    return text;
}

VaeStatus
resume_open(Resume *r, const Options *o, const VaeLatentClip *clip,
            const Sequences *sequences, VaeError *error)
{
    const char *out = o->argument[1];
    *r = (Resume){.every = o->every > 0 ? o->every : RESUME_EVERY,
                  .t = clip->t,
                  .command = command_text(o)};
    r->done = calloc((size_t) clip->t, sizeof *r->done);
    if (!r->done || !r->command)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for %d latents",
                        clip->t);
    if (asprintf(&r->path, "%s.checkpoint", out) < 0) {
        r->path = NULL;
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", out);
    }
    r->exists = vae_os_facts(r->path, &(VaeFileFacts){0});
    return describe_clip(clip, sequences, r->clip, sizeof r->clip, error);
}

/* The first latent from k on that differs from k in being done; at most end. */
static int
end_of_run(const Resume *r, int k, int end)
{
    const bool done = r->done[k];
    while (k < end && r->done[k] == done)
        k++;
    return k;
}

/* "0-33,60-70"; the caller frees it. */
static char *
done_text(const Resume *r)
{
    enum { RANGE = 24 }; /* bytes of two numbers, '-' and ',' */
    char *text = calloc((size_t) r->t + 1, RANGE), *to = text;
    for (int k = 0, end; text && k < r->t; k = end) {
        end = end_of_run(r, k, r->t);
        if (r->done[k])
            to += snprintf(to, RANGE, "%s%d-%d", to > text ? "," : "", k,
                           end - 1);
    }
    return text;
}

bool
resume_next_range(const char **text, int64_t *first, int64_t *last)
{
    char *at;
    *first = strtoll(*text, &at, 10);
    if (*at != '-')
        return false;
    *last = strtoll(at + 1, &at, 10);
    if (*first < 0 || *last < *first || (*at && *at != ','))
        return false;
    *text = at + (*at == ',');
    return true;
}

static bool
read_done(Resume *r, const char *text)
{
    int64_t first, last;
    while (*text) {
        if (!resume_next_range(&text, &first, &last) || last >= r->t)
            return false;
        for (int64_t k = first; k <= last; k++)
            resume_mark(r, (int) k);
    }
    return true;
}

void
resume_mark(Resume *r, int latent)
{
    r->count += !r->done[latent];
    r->done[latent] = true;
}

static VaeStatus
read_ranges(Resume *r, VaeError *error)
{
    VaeTensorFile *file = NULL;
    VaeStatus status = vae_tensor_file_open(r->path, &file, error);
    if (status != VAE_OK)
        return status;
    const char *text = vae_tensor_file_metadata(file, RESUME_DONE);
    if (!text || !read_done(r, text))
        status = vae_fail(error, VAE_ERR_FORMAT,
                          "%s: does not say which of the %d latents are done; "
                          "remove it to start again",
                          r->path, r->t);
    vae_tensor_file_free(&file);
    r->saved = r->count;
    return status;
}

VaeStatus
resume_load(Resume *r, VaeStream *stream, VaeError *error)
{
    const VaeMetadata own = {"latents", r->clip};
    const VaeCheckpointParams p = {
        .struct_size = sizeof p, .path = r->path, .own = &own, .n_own = 1};
    VaeCheckpoint c = VAE_INIT(VaeCheckpoint);
    VaeError why = {0};
    const VaeStatus status = vae_stream_load(stream, &p, &c, &why);
    if (status == VAE_ERR_FORMAT)
        return vae_fail(error, status, "%s; remove it to start again",
                        why.message);
    if (status != VAE_OK)
        return vae_fail(
            error, status,
            "%s (vaetool info %s prints the command that continues it; remove "
            "it to start again)",
            why.message, r->path);
    return read_ranges(r, error);
}

VaeStatus
resume_parts(Resume *r, int first, int history, Segment **list, int *n,
             VaeError *error)
{
    Segment *parts = calloc((size_t) r->t + 1, sizeof *parts);
    int count = 0, again = 0;
    if (!parts)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for %d latents",
                        r->t);
    for (int i = 0; i < *n; i++) {
        const int last = (*list)[i].end;
        for (int k = (*list)[i].first, end; k < last; k = end) {
            end = end_of_run(r, first + k, first + last) - first;
            if (r->done[first + k])
                continue;
            const int begin = k > history ? k - history : 0;
            again += k - begin;
            parts[count++] = (Segment){begin, k, end};
        }
    }
    if (r->exists && count > 0 && !r->told) {
        fprintf(stderr,
                "vaetool: continuing: %d of %s are done (%s computed "
                "again)\n",
                r->count, VAE_COUNTED(r->t, "latent"),
                VAE_COUNTED(again, "latent"));
        r->told = true;
    }
    free(*list);
    *list = parts;
    *n = count;
    return VAE_OK;
}

VaeStatus
resume_save(Resume *r, VaeStream *stream, Output *out, int64_t frames,
            VaeError *error)
{
    if (r->count - r->saved < r->every)
        return VAE_OK;
    char *text = done_text(r);
    if (!text)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", r->path);
    const VaeMetadata own[] = {{"latents", r->clip},
                               {RESUME_DONE, text},
                               {RESUME_COMMAND, r->command}};
    const VaeCheckpointParams p = {.struct_size = sizeof p,
                                   .path = r->path,
                                   .frames = (uint64_t) frames,
                                   .own = own,
                                   .n_own = 3};
    VaeStatus status = output_sync(out, error);
    if (status == VAE_OK)
        status = vae_stream_save(stream, &p, error);
    if (status == VAE_OK)
        r->saved = r->count;
    free(text);
    return status;
}

void
resume_interrupted(const Resume *r, VaeError *error)
{
    if (r->saved > 0)
        vae_fail(error, VAE_ERR_CANCELLED,
                 "interrupted; %d of %s saved: run the same command again to "
                 "continue (%s)",
                 r->saved, VAE_COUNTED(r->t, "latent"), r->path);
    else
        vae_fail(error, VAE_ERR_CANCELLED,
                 "interrupted before the first checkpoint, which follows %s: "
                 "the same command starts again",
                 VAE_COUNTED(r->every, "latent"));
}

VaeStatus
resume_done(Resume *r, VaeError *error)
{
    /* Called before OUT.part is renamed: without a checkpoint, the next run
     * starts again. */
    if (vae_os_remove(r->path) != 0 && errno != ENOENT)
        return vae_fail(error, VAE_ERR_WRITE, "%s: cannot remove: %s", r->path,
                        strerror(errno));
    return VAE_OK;
}

void
resume_close(Resume *r)
{
    free(r->path);
    free(r->done);
    free(r->command);
    r->path = r->command = NULL;
    r->done = NULL;
}
