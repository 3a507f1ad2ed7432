/*
 * decode.c: decodes the latents of a file to frames, a slice at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

typedef struct Decode {
    const Options *o;
    const VaeModelInfo *info;
    VaeModel *model;
    VaeTensorFile *file;
    VaeLatentClip clip;
    VaeStream *stream;
    Output out;
    Resume resume;
    int width, height;  /* visible */
    int64_t frames;     /* to write in all */
    size_t latent_size; /* bytes of one latent */
    size_t frame_size;  /* bytes of one frame */
    /* Buffers for one slice. */
    uint8_t *latent_data, *frame_data;
    VaeLatentIn *latents;
    VaePicture *pictures;
} Decode;

/* Finds the visible size: as the file states, else the whole grid. */
static VaeStatus
find_size(Decode *d, VaeError *error)
{
    const VaeLatentClip *c = &d->clip;
    const int s = d->info->spatial;
    d->width = c->width_px > 0 ? c->width_px : c->width * s;
    d->height = c->height_px > 0 ? c->height_px : c->height * s;
    const int width = (d->width - 1) / s + 1;
    const int height = (d->height - 1) / s + 1;
    if (width == c->width && height == c->height)
        return VAE_OK;
    return vae_fail(error, VAE_ERR_SIZE,
                    "%s: the latents have a grid of %dx%d for %dx%d pixels, "
                    "the model %s wants %dx%d",
                    vae_tensor_file_name(d->file), c->width, c->height,
                    d->width, d->height, d->info->path, width, height);
}

/* Checks that the clip fits the model. Its metadata may crop and trim it. */
static VaeStatus
check_clip(Decode *d, VaeError *error)
{
    const VaeLatentClip *c = &d->clip;
    const VaeModelInfo *info = d->info;
    if (!info->has_decoder)
        return vae_fail(error, VAE_ERR_MODEL, "%s: has no decoder", info->path);
    if (c->channels != info->latent_channels)
        return vae_fail(error, VAE_ERR_SIZE,
                        "%s: tensor \"%s\" has %d channels, the model %s "
                        "(%s) wants %d",
                        vae_tensor_file_name(d->file), c->tensor, c->channels,
                        info->path, info->arch, info->latent_channels);
    if (c->space && info->space && strcmp(c->space, info->space) != 0)
        return vae_fail(error, VAE_ERR_MODEL,
                        "%s: states the latent space %s, the model %s wants "
                        "%s",
                        vae_tensor_file_name(d->file), c->space, info->path,
                        info->space);
    d->frames = vae_model_frames_of(d->model, c->t);
    if (c->frames > 0 && c->frames < d->frames)
        d->frames = c->frames;
    return find_size(d, error);
}

static VaeStatus
open_input(Decode *d, VaeError *error)
{
    const VaeLatentOptions options = {.struct_size = sizeof(VaeLatentOptions),
                                      .tensor = d->o->tensor,
                                      .batch_index = d->o->batch_index};
    const char *out = d->o->argument[1];
    VaeStatus status = output_suffix(
        out, "frames",
        "a video is made by pipelines/latents-to-video.sh, or by "
        "gst-launch-1.0 "
        "filesrc location=LATENTS ! latentdemux ! vaedecode model=WEIGHTS ! "
        "videoconvert ! x264enc ! mp4mux ! filesink location=OUT.mp4",
        error);
    if (status == VAE_OK)
        status = output_check(out, d->o->argument[0], d->o->model, error);
    if (status == VAE_OK && d->o->resume)
        status =
            output_check_resume(out, d->o->argument[0], d->o->model, error);
    if (status == VAE_OK)
        status = output_check_place(out, error);
    if (status == VAE_OK)
        status = open_model(d->o, &d->model, error);
    if (status == VAE_OK) {
        d->info = vae_model_info(d->model);
        status = vae_tensor_file_open(d->o->argument[0], &d->file, error);
    }
    d->clip = (VaeLatentClip) VAE_INIT(VaeLatentClip);
    if (status == VAE_OK)
        status = vae_latent_clip_find(d->file, &options, &d->clip, error);
    return status == VAE_OK ? check_clip(d, error) : status;
}

static VaeStatus
open_stream(Decode *d, VaeError *error)
{
    VaeStreamParams params =
        stream_params(d->o, VAE_DECODE, d->width, d->height);
    if (!d->o->normalization_given)
        params.normalization = d->clip.normalization;
    params.restarts = d->o->resume;
    return vae_stream_new(d->model, &params, &d->stream, error);
}

/* Allocates latents and pictures for the longest call. */
static VaeStatus
make_buffers(Decode *d, VaeError *error)
{
    const VaeSteps *s = &d->info->decode;
    const int slice = vae_stream_get_plan(d->stream)->slice_size;
    const int n_in = s->first_in + slice * s->step_in;
    const int n_out = s->first_out + slice * s->step_out;
    const size_t row = (size_t) d->width * 3 * sizeof(float);
    d->latent_size = (size_t) d->clip.channels * (size_t) d->clip.height *
                     (size_t) d->clip.width * vae_type_size(d->clip.type);
    d->frame_size = row * (size_t) d->height;
    d->latents = calloc((size_t) n_in, sizeof *d->latents);
    d->pictures = calloc((size_t) n_out, sizeof *d->pictures);
    d->latent_data = malloc((size_t) n_in * d->latent_size);
    d->frame_data = malloc((size_t) n_out * d->frame_size);
    if (!d->latents || !d->pictures || !d->latent_data || !d->frame_data)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a slice");
    for (int i = 0; i < n_in; i++)
        d->latents[i] =
            (VaeLatentIn){.type = d->clip.type,
                          .data = d->latent_data + (size_t) i * d->latent_size};
    for (int i = 0; i < n_out; i++)
        d->pictures[i] = (VaePicture){
            .pixels = VAE_PIXELS_RGB_F32,
            .width = d->width,
            .height = d->height,
            .data = {d->frame_data + (size_t) i * d->frame_size},
            .stride = {(ptrdiff_t) row},
        };
    return VAE_OK;
}

/* Decodes latents from *done on. Frames that the output already has are
 * discarded. */
static VaeStatus
decode_latents(Decode *d, int steps, int *done, int *n_out, VaeError *error)
{
    const bool wanted = *done >= d->resume.latents;
    int n_in;
    vae_stream_count(d->stream, steps, &n_in, n_out);
    for (int i = 0; i < n_in; i++)
        vae_latent_clip_read(&d->clip, *done + i,
                             d->latent_data + (size_t) i * d->latent_size);
    for (int i = 0; i < *n_out; i++)
        d->pictures[i].data[0] =
            wanted ? d->frame_data + (size_t) i * d->frame_size : NULL;
    *done += n_in;
    return vae_stream_decode(d->stream, d->latents, n_in, d->pictures, *n_out,
                             error);
}

/* Runs one call: reads latents from *done on, writes frames from *written on.
 */
static VaeStatus
decode_slice(Decode *d, int steps, int *done, int64_t *written, VaeError *error)
{
    const bool wanted = *done >= d->resume.latents;
    int n_out;
    VaeStatus status = decode_latents(d, steps, done, &n_out, error);
    if (status != VAE_OK || !wanted)
        return status;
    int64_t keep = d->frames - *written;
    if (keep > n_out)
        keep = n_out;
    status = output_write(&d->out, (uint64_t) *written * d->frame_size,
                          d->frame_data, (size_t) keep * d->frame_size, error);
    *written += keep;
    if (status == VAE_OK && d->o->resume)
        status =
            resume_save(&d->resume, d->stream, &d->out, *done, *written, error);
    return status;
}

/* The largest number of steps, up to `steps`, for the remaining latents. */
static int
steps_left(const Decode *d, int steps, int left)
{
    int n_in, n_out;
    for (; steps > 0; steps--) {
        vae_stream_count(d->stream, steps, &n_in, &n_out);
        if (n_in <= left)
            break;
    }
    return steps;
}

static VaeStatus
run(Decode *d, VaeError *error)
{
    const VaePlan *plan = vae_stream_get_plan(d->stream);
    Progress progress;
    VaeStatus status = VAE_OK;
    const int begin = d->resume.begin;
    int done = begin;
    int64_t written = d->resume.frames;
    progress_begin(&progress, "frames", d->frames);
    while (status == VAE_OK && done < d->clip.t) {
        const double start = now_seconds();
        const bool first = done == begin;
        /* No call contains both latents that are computed again and new
         * ones. */
        const int end =
            done < d->resume.latents ? d->resume.latents : d->clip.t;
        const int steps =
            steps_left(d, first ? 1 : plan->slice_size, end - done);
        if (steps == 0)
            status = vae_fail(error, VAE_ERR_SIZE,
                              "%d latents are no whole step of %s",
                              d->clip.t - done, d->info->arch);
        else
            status = decode_slice(d, steps, &done, &written, error);
        if (status == VAE_OK && interrupted())
            status = vae_fail(error, VAE_ERR_CANCELLED, "interrupted");
        if (first)
            progress_expect(plan, now_seconds() - start, d->clip.t - done);
        progress_show(&progress, written);
    }
    progress_end(&progress);
    return status;
}

/* The metadata of the file of frames. */
typedef struct FrameMetadata {
    VaeMetadata list[2];
    size_t n;
    char range[64], rate[32];
} FrameMetadata;

static void
fill_metadata(const Decode *d, FrameMetadata *m)
{
    snprintf(m->range, sizeof m->range, "%g %g", (double) d->info->pixel_low,
             (double) d->info->pixel_high);
    snprintf(m->rate, sizeof m->rate, "%d/%d", d->clip.fps_n, d->clip.fps_d);
    m->list[0] = (VaeMetadata){VIDEO_RANGE, m->range};
    m->list[1] = (VaeMetadata){VIDEO_RATE, m->rate};
    m->n = d->clip.fps_n > 0 ? 2 : 1;
}

static VaeStatus
open_resumed(Decode *d, const VaeTensorHeader *header, VaeError *error)
{
    Resume *r = &d->resume;
    const char *path = d->o->argument[1];
    VaeStatus status =
        resume_open(r, path, d->o->every, &d->clip, d->frames, error);
    if (status == VAE_OK)
        status = output_resume(&d->out, path, header, r->exists, error);
    if (status == VAE_OK)
        status = resume_load(r, d->stream, &d->out, d->frame_size, error);
    return status;
}

static VaeStatus
write_frames(Decode *d, VaeError *error)
{
    const VaeTensorOut frames = {
        .name = "frames",
        .type = VAE_TYPE_F32,
        .n_dims = 4,
        .dims = {d->frames, d->height, d->width, 3},
    };
    FrameMetadata metadata = {.n = 0};
    fill_metadata(d, &metadata);
    const VaeTensorHeader header = {&frames, 1, metadata.list, metadata.n, 0};
    VaeStatus status =
        d->o->resume ? open_resumed(d, &header, error)
                     : output_open(&d->out, d->o->argument[1], &header, error);
    if (status == VAE_OK)
        status = run(d, error);
    if (status == VAE_ERR_CANCELLED && d->o->resume)
        resume_interrupted(&d->resume, d->clip.t, error);
    if (status == VAE_OK && d->o->resume)
        status = resume_done(&d->resume, error);
    if (status == VAE_OK)
        status = output_commit(&d->out, error);
    output_close(&d->out);
    resume_close(&d->resume);
    return status;
}

int
command_decode(const Options *o)
{
    Decode d = {.o = o, .out = {.fd = -1}};
    VaeError error;
    VaeStatus status = open_input(&d, &error);
    if (status == VAE_OK)
        status = open_stream(&d, &error);
    if (status == VAE_OK)
        status = make_buffers(&d, &error);
    if (status == VAE_OK && progress_wanted())
        plan_print(stderr, VAE_DECODE, vae_stream_get_plan(d.stream));
    if (status == VAE_OK && !interrupt_arm(d.stream, &error))
        status = error.status;
    else if (status == VAE_OK) {
        status = write_frames(&d, &error);
        interrupt_disarm();
        warn_nonfinite(d.stream);
    }
    free(d.latents);
    free(d.pictures);
    free(d.latent_data);
    free(d.frame_data);
    vae_stream_free(&d.stream);
    vae_tensor_file_free(&d.file);
    vae_model_free(&d.model);
    return status == VAE_OK ? EXIT_OK : fail(&error);
}
