/*
 * decode.c: decodes the latents of a file to frames, a slice at a time. With
 * --devices, several streams decode segments of the clip.
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"

/* Finds the visible size, as the file states, else the whole grid, and checks
 * that the clip fits the model. */
static VaeStatus
check_clip(Decode *d, VaeError *error)
{
    const VaeLatentClip *c = &d->clip;
    const int s = d->info->spatial;
    const int scale = d->info->scale;
    d->width = c->width_px > 0 ? c->width_px * scale : c->width * s;
    d->height = c->height_px > 0 ? c->height_px * scale : c->height * s;
    return vae_model_check_clip(d->model, c, d->width, d->height, error);
}

/* Makes sequence i the one that is decoded. */
static void
select_sequence(Decode *d, int i)
{
    const VaeLatentSequence *s = &d->sequences.list[i];
    d->clip = d->whole;
    d->clip.t = (int) s->latents;
    d->first = (int) s->first;
    d->clip.data = (const uint8_t *) d->whole.data +
                   (uint64_t) s->first * d->whole.t_stride;
    d->frames = s->frames;
}

static VaeStatus
find_sequences(Decode *d, VaeError *error)
{
    const VaeStatus status =
        sequences_read(d->file, &d->whole, d->model, &d->sequences, error);
    if (status != VAE_OK)
        return status;
    for (int i = 0; i < d->sequences.n; i++)
        d->all += d->sequences.list[i].frames;
    select_sequence(d, 0);
    return VAE_OK;
}

/* Warns of what the output has no place for. */
static void
warn_of_lost(const Decode *d)
{
    char line[1200];
    if (vae_latents_lost(d->file, d->o->argument[1],
                         d->format == OUTPUT_SAFETENSORS, line, sizeof line))
        warn_text("%s", line);
}

static VaeStatus
open_input(Decode *d, VaeError *error)
{
    const char *out = d->o->argument[1];
    VaeStatus status = output_format(out, "frames", &d->format, error);
    if (status == VAE_OK)
        status = output_check_place(
            out,
            d->o->resume || d->o->n_devices > 1
                ? "because --resume and --devices do not write frames in their "
                  "order"
                : NULL,
            error);
    if (status == VAE_OK)
        status = open_model(d->o, &d->model, error);
    if (status == VAE_OK) {
        d->info = vae_model_info(d->model);
        status = open_tensors(d->o->argument[0], "latents", &d->file, error);
    }
    if (status == VAE_OK)
        status = vae_model_check_output(d->model, d->file, out, error);
    if (status == VAE_OK && d->o->resume)
        status = output_check_resume(out, d->file, d->model, error);
    if (status == VAE_OK)
        warn_of_lost(d);
    if (status == VAE_OK)
        status = find_clip(d->o, d->file, d->info, &d->clip, error);
    d->whole = d->clip;
    if (status == VAE_OK)
        status = check_clip(d, error);
    return status == VAE_OK ? find_sequences(d, error) : status;
}

static VaeStatus
open_streams(Decode *d, VaeError *error)
{
    const Options *o = d->o;
    VaeStreamParams params = stream_params(o, VAE_DECODE, d->width, d->height);
    const bool by_file =
        d->clip.normalization_stated && !o->normalization_given;
    VaeStatus status = VAE_OK;
    name_input(d->clip.file, d->clip.tensor);
    params.normalization = d->clip.normalization;
    /* More steps than latents would take memory for nothing. */
    if (params.slice_size > d->whole.t)
        params.slice_size = d->whole.t;
    params.restarts = o->resume || o->n_devices > 1;
    if (o->n_devices > 0)
        params.backend = o->devices_backend;
    /* A device that is not there is told before another one is opened. */
    VaePlan plan = VAE_INIT(VaePlan);
    for (int i = 0; o->n_devices > 1 && i < o->n_devices && status == VAE_OK;
         i++) {
        params.device = o->devices[i];
        status = vae_stream_plan(d->model, &params, &plan, error);
    }
    if (o->n_devices > 1 && !o->params.threads) {
        params.threads = plan.threads / o->n_devices;
        if (params.threads < 1)
            params.threads = 1;
    }
    d->n_streams = o->n_devices > 1 ? o->n_devices : 1;
    for (int i = 0; i < d->n_streams && status == VAE_OK; i++) {
        if (o->n_devices > 0)
            params.device = o->devices[i];
        if (i > 0) /* its input is that of the first one */
            params.doubt = NULL;
        status = vae_stream_new(d->model, &params, &d->streams[i], error);
        if (status == VAE_OK)
            vae_stream_word_doubts(
                d->streams[i],
                (VaeDoubtWords){.stated = by_file ? "the file states" : NULL,
                                .chosen = o->normalization_given});
        /* AUTO may measure: all take what the first one found. */
        if (status == VAE_OK)
            params.precision = vae_stream_get_plan(d->streams[i])->precision;
    }
    return status;
}

#define Y4M_FRAME "FRAME\n"

static int
half(int pixels)
{
    return (pixels + 1) / 2;
}

/* Describes the picture in a frame of the output. */
static void
make_picture(const Decode *d, uint8_t *frame, VaePicture *out)
{
    const int w = d->width, h = d->height;
    uint8_t *data = frame + d->frame_head;
    const int n = d->info->out_channels;
    *out = (VaePicture){.pixels =
                            n == 4 ? VAE_PIXELS_RGBA_F32 : VAE_PIXELS_RGB_F32,
                        .width = w,
                        .height = h,
                        .data = {data},
                        .stride = {w * n * (ptrdiff_t) sizeof(float)}};
    if (d->format != OUTPUT_Y4M)
        return;
    memcpy(frame, Y4M_FRAME, d->frame_head);
    out->pixels = VAE_PIXELS_I420;
    out->matrix = h > 576 ? VAE_MATRIX_BT709 : VAE_MATRIX_BT601;
    out->stride[0] = w;
    out->stride[1] = out->stride[2] = half(w);
    out->data[1] = data + (size_t) w * (size_t) h;
    out->data[2] = out->data[1] + (size_t) half(w) * (size_t) half(h);
}

/* Allocates latents and pictures for the longest call of a stream. */
static VaeStatus
make_buffers(const Decode *d, const VaeStream *stream, Buffers *b,
             VaeError *error)
{
    const VaeSteps *s = &d->info->decode;
    const int slice = vae_stream_get_plan(stream)->slice_size;
    const int n_in = s->first_in + slice * s->step_in;
    const int n_out = s->first_out + slice * s->step_out + d->info->held;
    b->latents = calloc((size_t) n_in, sizeof *b->latents);
    b->pictures = calloc((size_t) n_out, sizeof *b->pictures);
    b->latent_data = malloc((size_t) n_in * d->latent_size);
    b->frame_data = malloc((size_t) n_out * d->frame_size);
    if (!b->latents || !b->pictures || !b->latent_data || !b->frame_data)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a slice");
    for (int i = 0; i < n_in; i++)
        b->latents[i] =
            (VaeLatentIn){.type = d->clip.type,
                          .data = b->latent_data + (size_t) i * d->latent_size};
    for (int i = 0; i < n_out; i++)
        make_picture(d, b->frame_data + (size_t) i * d->frame_size,
                     &b->pictures[i]);
    return VAE_OK;
}

static VaeStatus
make_all_buffers(Decode *d, VaeError *error)
{
    VaeStatus status = VAE_OK;
    d->latent_size = (size_t) d->clip.channels * (size_t) d->clip.height *
                     (size_t) d->clip.width * vae_type_size(d->clip.type);
    const size_t w = (size_t) d->width, h = (size_t) d->height;
    d->frame_size = w * h * (size_t) d->info->out_channels * sizeof(float);
    if (d->format == OUTPUT_Y4M) {
        d->frame_head = strlen(Y4M_FRAME);
        d->frame_size =
            d->frame_head + w * h + 2 * ((w + 1) / 2) * ((h + 1) / 2);
    }
    for (int i = 0; i < d->n_streams && status == VAE_OK; i++)
        status = make_buffers(d, d->streams[i], &d->buffers[i], error);
    return status;
}

static VaeStatus
run_segment(void *user, int worker, const Segment *s, VaeError *error)
{
    Decode *d = user;
    Run r = {.d = d,
             .stream = d->streams[worker],
             .b = &d->buffers[worker],
             .segment = *s,
             .whole = s->first};
    if (s->first > 0)
        r.written = vae_model_frames_of(d->model, s->first);
    vae_stream_reset(r.stream);
    VaeStatus status = VAE_OK;
    if (s->begin > 0)
        status = vae_stream_restart(r.stream, (uint64_t) s->begin, error);
    vae_stream_warm_up(r.stream, s->first - s->begin);
    return status == VAE_OK ? decode_run(&r, error) : status;
}

static void
stop_segments(void *user)
{
    Decode *d = user;
    atomic_store(&d->stopped, true);
    for (int i = 0; i < d->n_streams; i++)
        vae_stream_cancel(d->streams[i]);
}

static void
warn_of_segments(const Decode *d, int n, int cost)
{
    fprintf(stderr,
            "vaetool: warning: %s %s cut into %s, so that only %d of the %d "
            "streams work%s; a later segment first computes its context, which "
            "takes as long as %s\n",
            VAE_COUNTED(d->clip.t, "latent"), d->clip.t == 1 ? "is" : "are",
            VAE_COUNTED(n, "segment"), n, d->n_streams, n == 1 ? "s" : "",
            VAE_COUNTED(cost, "latent"));
}

static VaeStatus
run_segments(Decode *d, VaeError *error)
{
    SegmentJob job = {.workers = d->n_streams,
                      .user = d,
                      .run = run_segment,
                      .stop = stop_segments};
    Segment *segments = NULL;
    int history;
    VaeStatus status =
        vae_model_looks_back(d->model, &d->o->params, &history, error);
    if (status == VAE_OK) {
        const int cost = vae_stream_warm_up_cost(d->streams[0], history);
        status = segments_cut(&(Cut){d->clip.t, d->n_streams, history, cost},
                              &segments, &job.n, error);
        if (status == VAE_OK && job.n < d->n_streams && d->first == 0)
            warn_of_segments(d, job.n, cost);
    }
    if (status == VAE_OK && d->o->resume)
        status = resume_parts(&d->resume, d->first, history, &segments, &job.n,
                              error);
    job.segments = segments;
    for (int i = 0; status == VAE_OK && i < job.n && d->o->verbose; i++)
        fprintf(stderr, "segment %d: latents %d to %d, from %d on\n", i,
                segments[i].first, segments[i].end - 1, segments[i].begin);
    if (status == VAE_OK)
        status = segments_run(&job, error);
    free(segments);
    return status;
}

static VaeStatus
run_sequence(Decode *d, VaeError *error)
{
    Run r = {.d = d,
             .stream = d->streams[0],
             .b = &d->buffers[0],
             .segment = {0, 0, d->clip.t}};
    return d->n_streams > 1 || d->o->resume ? run_segments(d, error)
                                            : decode_run(&r, error);
}

/* Counts the frames whose latents are done, and finds the end of the last one
 * in the file. */
static void
count_done(Decode *d, int64_t *written, int64_t *end)
{
    int64_t before = 0;
    *written = *end = 0;
    for (int i = 0; d->o->resume && i < d->sequences.n; i++) {
        select_sequence(d, i);
        for (int k = 0; k < d->clip.t; k++) {
            if (!d->resume.done[d->first + k])
                continue;
            *written +=
                decode_frames_before(d, k + 1) - decode_frames_before(d, k);
            *end = before + decode_frames_before(d, k + 1);
        }
        before += d->frames;
    }
}

static VaeStatus
run_all(Decode *d, VaeError *error)
{
    VaeStatus status = VAE_OK;
    int64_t end;
    count_done(d, &d->written, &end);
    progress_begin(&d->progress, "frames", d->all);
    for (int i = 0; i < d->sequences.n && status == VAE_OK; i++) {
        select_sequence(d, i);
        if (i > 0)
            vae_stream_reset(d->streams[0]);
        status = run_sequence(d, error);
        d->before += d->frames;
    }
    progress_end(&d->progress);
    return status;
}

/* The metadata of the file of frames. */
typedef struct FrameMetadata {
    VaeMetadata *list;
    size_t n;
    char range[64], rate[32];
} FrameMetadata;

static VaeStatus
fill_metadata(const Decode *d, FrameMetadata *m, VaeError *error)
{
    snprintf(m->range, sizeof m->range, "%g %g", (double) d->info->pixel_low,
             (double) d->info->pixel_high);
    snprintf(m->rate, sizeof m->rate, "%d/%d", d->clip.fps_n, d->clip.fps_d);
    const VaeMetadata own[] = {{VIDEO_RANGE, m->range}, {VIDEO_RATE, m->rate}};
    m->n = d->clip.fps_n > 0 ? 2 : 1;
    m->list = video_metadata(d->file, own, &m->n);
    return m->list ? VAE_OK
                   : vae_fail(error, VAE_ERR_MEMORY, "no memory for metadata");
}

static VaeStatus
open_resumed(Decode *d, const OutputHead *head, VaeError *error)
{
    Resume *r = &d->resume;
    const char *path = d->o->argument[1];
    VaeStatus status = resume_open(r, d->o, &d->whole, &d->sequences, error);
    if (status == VAE_OK)
        status = output_resume(&d->out, path, head, r->exists, error);
    if (status == VAE_OK && r->exists)
        status = resume_load(r, d->streams[0], error);
    int64_t written, end;
    if (status != VAE_OK || !r->exists)
        return status;
    count_done(d, &written, &end);
    return output_cut(&d->out, (uint64_t) end * d->frame_size, error);
}

/* Writes the first line of a Y4M file. */
static void
y4m_line(const Decode *d, char *line, size_t size)
{
    const char *aspect =
        vae_tensor_file_metadata(d->file, "vae.pixel_aspect_ratio");
    const bool stated = d->clip.fps_n > 0;
    int par_n, par_d, end = 0;
    if (!aspect || sscanf(aspect, "%9d/%9d%n", &par_n, &par_d, &end) != 2 ||
        aspect[end] || par_n < 1 || par_d < 1)
        par_n = par_d = 1;
    snprintf(line, size,
             "YUV4MPEG2 W%d H%d F%d:%d Ip A%d:%d C420mpeg2 XYSCSS=420MPEG2 "
             "XCOLORRANGE=LIMITED\n",
             d->width, d->height, stated ? d->clip.fps_n : d->info->fps_n,
             stated ? d->clip.fps_d : d->info->fps_d, par_n, par_d);
}

static VaeStatus
write_frames(Decode *d, VaeError *error)
{
    const VaeTensorOut frames = {
        .name = "frames",
        .type = VAE_TYPE_F32,
        .n_dims = 4,
        .dims = {d->all, d->height, d->width, d->info->out_channels},
    };
    FrameMetadata metadata = {.n = 0};
    VaeStatus status = fill_metadata(d, &metadata, error);
    if (status != VAE_OK)
        return status;
    char line[160];
    y4m_line(d, line, sizeof line);
    const OutputHead head = {
        d->format, {&frames, 1, metadata.list, metadata.n, 0}, line};
    status = d->o->resume
                 ? open_resumed(d, &head, error)
                 : output_open(&d->out, d->o->argument[1], &head, error);
    if (status == VAE_OK)
        status = run_all(d, error);
    if (status == VAE_ERR_CANCELLED && d->o->resume)
        resume_interrupted(&d->resume, error);
    if (status == VAE_OK && d->o->resume)
        status = resume_done(&d->resume, error);
    if (status == VAE_OK)
        status = output_commit(&d->out, error);
    output_close(&d->out);
    resume_close(&d->resume);
    free(metadata.list);
    return status;
}

static void
free_all(Decode *d)
{
    for (int i = 0; i < d->n_streams; i++) {
        Buffers *b = &d->buffers[i];
        free(b->latents);
        free(b->pictures);
        free(b->latent_data);
        free(b->frame_data);
        vae_stream_free(&d->streams[i]);
    }
    free(d->sequences.list);
    vae_tensor_file_free(&d->file);
    vae_model_free(&d->model);
}

int
command_decode(const Options *o)
{
    Decode d = {.o = o, .out = {.fd = -1}, .lock = PTHREAD_MUTEX_INITIALIZER};
    VaeError error;
    VaeStatus status = open_input(&d, &error);
    if (status == VAE_OK)
        status = open_streams(&d, &error);
    if (status == VAE_OK)
        status = make_all_buffers(&d, &error);
    if (status == VAE_OK && progress_is_shown())
        plan_print(stderr, VAE_DECODE, vae_stream_get_plan(d.streams[0]));
    if (status == VAE_OK && !interrupt_arm(d.streams, d.n_streams, &error))
        status = error.status;
    else if (status == VAE_OK) {
        status = write_frames(&d, &error);
        interrupt_disarm();
        for (int i = 0; i < d.n_streams; i++)
            warn_nonfinite(d.streams[i], d.whole.stored == VAE_TYPE_F64);
    }
    free_all(&d);
    return status == VAE_OK ? EXIT_OK : fail(&error);
}
