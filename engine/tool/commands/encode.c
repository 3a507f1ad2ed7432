/*
 * encode.c: encodes the frames of a file to latents, a slice at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "encode.h"
#include "vae-private/model.h"
#include "vae-private/spaces.h"

/* Computes the numbers of frames and latents. */
static VaeStatus
count(Encode *e, VaeError *error)
{
    const VaeSteps *s = &e->info->encode;
    const int64_t n = e->video->dims[0];
    if (!e->info->has_encoder)
        return vae_model_lacks(e->info, VAE_ENCODE, error);
    const int64_t groups =
        n < s->first_in ? -1 : (n - s->first_in) / s->step_in;
    if (e->o->drop && groups < 0)
        return vae_fail(
            error, VAE_ERR_SIZE,
            "%s: has %s, less than a group of %d, and --tail drop keeps only "
            "whole groups",
            vae_tensor_file_name(e->file), VAE_COUNTED(n, "frame"),
            s->first_in);
    e->frames = n;
    e->latents = vae_model_latents_of(e->model, n);
    if (e->o->drop && e->info->chunk) {
        e->latents -= vae_model_frames_of(e->model, e->latents) > n;
        e->frames = vae_model_frames_of(e->model, e->latents);
    } else if (e->o->drop) {
        e->frames = s->first_in + groups * s->step_in;
        e->latents = s->first_out + groups * s->step_out;
    }
    return VAE_OK;
}

static VaeStatus
open_input(Encode *e, VaeError *error)
{
    const char *in = e->o->argument[0], *out = e->o->argument[1];
    const VaeLatentOptions reading = latent_options(e->o);
    VaeStatus status = output_format(out, "latents", &e->format, error);
    if (status == VAE_OK && e->format == OUTPUT_NPY &&
        e->o->dtype == VAE_TYPE_BF16)
        status = vae_fail(error, VAE_ERR_ARGUMENT,
                          "%s: .npy has no bfloat16 for --dtype bf16: write "
                          ".safetensors or .latent",
                          out);
    if (status == VAE_OK)
        status = output_check_place(
            out, "because latents are not written in their order", error);
    if (status == VAE_OK)
        status = open_model(e->o, &e->model, error);
    if (status == VAE_OK) {
        e->info = vae_model_info(e->model);
        status = open_tensors(in, "frames", &e->file, error);
        if (status == VAE_ERR_FORMAT)
            status = input_is_video(in, error);
    }
    if (status == VAE_OK)
        status = vae_model_check_output(e->model, e->file, out, error);
    if (status == VAE_OK)
        status = video_range_check(e->file, "--pixel-range \"LOW HIGH\"",
                                   e->o->pixel_range, error);
    if (status == VAE_OK)
        status = vae_tensor_file_framerate(e->file, &reading, &e->fps_n,
                                           &e->fps_d, error);
    if (e->o->fps_n > 0) {
        e->fps_n = e->o->fps_n;
        e->fps_d = e->o->fps_d;
    }
    if (status == VAE_OK)
        status = encode_find_video(e, error);
    return status == VAE_OK ? count(e, error) : status;
}

static VaeStatus
make_buffers(Encode *e, VaeError *error)
{
    const VaePlan *plan = vae_stream_get_plan(e->stream);
    const VaeSteps *s = &e->info->encode;
    const bool bytes = e->video->type == VAE_TYPE_U8;
    const int stored = (int) e->video->dims[3];
    const bool alpha = stored == 4 && (bytes || e->info->in_channels == 4);
    const size_t pixel = (alpha ? 4 : 3) * (bytes ? 1 : sizeof(float));
    const int channels = e->info->latent_channels;
    const int n_in = s->first_in + plan->slice_size * s->step_in;
    const int n_out = s->first_out + plan->slice_size * s->step_out;
    e->n_outputs =
        e->info->has_posterior && e->format == OUTPUT_SAFETENSORS ? 3 : 1;
    e->plane = (size_t) (plan->padded_width / e->info->spatial) *
               (size_t) (plan->padded_height / e->info->spatial) *
               sizeof(float);
    e->latent_size = e->plane * (size_t) channels;
    e->frame_size = (size_t) stored * (bytes ? 1 : sizeof(float)) *
                    (size_t) e->width * (size_t) e->height;
    e->results = calloc((size_t) n_out, sizeof *e->results);
    e->pictures = calloc((size_t) n_in, sizeof *e->pictures);
    e->latent_data = malloc((size_t) (n_out * e->n_outputs) * e->latent_size);
    if (!bytes)
        e->frame_data = malloc((size_t) n_in * e->frame_size);
    if (!e->results || !e->pictures || !e->latent_data ||
        (!bytes && !e->frame_data))
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a slice");
    for (int i = 0; i < n_out; i++) {
        const size_t n = e->latent_size / sizeof(float);
        float *at = e->latent_data + (size_t) (i * e->n_outputs) * n;
        e->results[i] = (VaeLatentOut){.type = e->o->dtype, .data = at};
        if (e->n_outputs > 1) {
            e->results[i].mean = at + n;
            e->results[i].logvar = at + 2 * n;
        }
    }
    for (int i = 0; i < n_in; i++)
        e->pictures[i] = (VaePicture){
            .pixels = bytes   ? alpha ? VAE_PIXELS_RGBA : VAE_PIXELS_RGB
                      : alpha ? VAE_PIXELS_RGBA_F32
                              : VAE_PIXELS_RGB_F32,
            .width = e->width,
            .height = e->height,
            .stride = {(ptrdiff_t) (pixel * (size_t) e->width)},
        };
    return VAE_OK;
}

/* Bytes of one channel of a latent in the file. */
static size_t
latent_plane(const Encode *e)
{
    return e->plane / sizeof(float) * vae_type_size(e->o->dtype);
}

/* Writes latent k of the clip; without tchw, its channels are `latents` planes
 * apart. The moments are floats and follow the latents. */
static VaeStatus
write_latent(Encode *e, const VaeLatentOut *result, int64_t k, VaeError *error)
{
    const void *from[3] = {result->data, result->mean, result->logvar};
    const int channels = e->info->latent_channels;
    const uint64_t planes = (uint64_t) (channels * e->latents);
    VaeStatus status = VAE_OK;
    uint64_t begin = 0; /* of the tensor */
    for (int t = 0; t < e->n_outputs; t++) {
        const size_t size = t ? e->plane : latent_plane(e);
        for (int c = 0; c < channels && status == VAE_OK; c++) {
            const uint64_t plane =
                (uint64_t) (e->tchw ? k * channels + c : c * e->latents + k);
            status = output_write(&e->out, begin + plane * size,
                                  (const uint8_t *) from[t] + (size_t) c * size,
                                  size, error);
        }
        begin += planes * size;
    }
    return status;
}

static VaeStatus
encode_slice(Encode *e, int steps, int64_t *done, int64_t *written,
             VaeError *error)
{
    int n_in, n_out;
    vae_stream_count(e->stream, steps, &n_in, &n_out);
    for (int i = 0; i < n_in; i++)
        encode_load_frame(e, i, *done + i);
    VaeStatus status = vae_stream_encode(e->stream, e->pictures, n_in,
                                         e->results, n_out, error);
    for (int i = 0; i < n_out && status == VAE_OK; i++)
        status = write_latent(e, &e->results[i], *written + i, error);
    *done += n_in;
    *written += n_out;
    return status;
}

/* Gives the latents that an encoder with a delay still has at the end. */
static VaeStatus
drain_slice(Encode *e, int steps, int64_t *written, VaeError *error)
{
    const int left = vae_stream_drain_count(e->stream, 0, NULL);
    int n_out;
    steps = steps < left ? steps : left;
    vae_stream_drain_count(e->stream, steps, &n_out);
    VaeStatus status =
        vae_stream_drain_latents(e->stream, steps, e->results, n_out, error);
    for (int i = 0; i < n_out && status == VAE_OK; i++)
        status = write_latent(e, &e->results[i], *written + i, error);
    *written += n_out;
    return status;
}

/* The largest number of steps, up to `steps`, that gives no latent too many. */
static int
steps_left(const Encode *e, int steps, int64_t left)
{
    int n_in, n_out;
    for (; steps > 1; steps--) {
        vae_stream_count(e->stream, steps, &n_in, &n_out);
        if (n_out <= left)
            break;
    }
    return steps;
}

static VaeStatus
run(Encode *e, VaeError *error)
{
    const VaePlan *plan = vae_stream_get_plan(e->stream);
    Progress progress;
    VaeStatus status = VAE_OK;
    int64_t done = 0, written = 0;
    progress_begin(&progress, "frames", e->frames);
    while (status == VAE_OK && written < e->latents) {
        const double start = now_seconds();
        const bool first = done == 0;
        const int steps =
            steps_left(e, first ? 1 : plan->slice_size, e->latents - written);
        status = done < e->frames || plan->delay == 0
                     ? encode_slice(e, steps, &done, &written, error)
                     : drain_slice(e, steps, &written, error);
        if (status == VAE_OK && interrupted())
            status = vae_fail(error, VAE_ERR_CANCELLED, "interrupted");
        if (first)
            progress_expect(plan, now_seconds() - start, e->latents - written);
        progress_show(&progress, done < e->frames ? done : e->frames);
    }
    progress_end(&progress);
    return status;
}

/* The tensors of a .latent file: a batch of images or of one video, and a mark
 * without elements. Returns their number. */
static size_t
as_comfyui(const Encode *e, VaeTensorOut *tensors)
{
    VaeTensorOut *t = &tensors[0];
    t->name = VAE_COMFYUI_TENSOR;
    if (e->tchw) {
        t->dims[1] = t->dims[0];
        t->dims[0] = e->latents;
    } else {
        memmove(t->dims + 1, t->dims, (size_t) t->n_dims * sizeof *t->dims);
        t->dims[0] = 1;
        t->n_dims++;
    }
    tensors[1] = (VaeTensorOut){
        .name = "latent_format_version_0", .type = VAE_TYPE_F32, .n_dims = 1};
    return 2;
}

/* Chooses the scale of the latents; in a .latent file it is that of ComfyUI. */
static VaeStatus
choose_scale(Encode *e, VaeError *error)
{
    const char *space = e->info->space;
    const VaeNormalization comfyui =
        vae_space_normalization(space, VAE_COMFYUI);
    e->normalization =
        vae_space_normalization(space, e->o->params.normalization);
    e->tchw = e->format == OUTPUT_LATENT && e->info->temporal == 1;
    if (e->format != OUTPUT_LATENT)
        return VAE_OK;
    if (e->o->normalization_given && e->normalization != comfyui)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%s: --normalization is %s, but ComfyUI's latents of "
                        "this space are %s",
                        e->o->argument[1],
                        vae_normalization_name(e->normalization),
                        vae_normalization_name(comfyui));
    e->normalization = comfyui;
    return VAE_OK;
}

static VaeStatus
write_latents(Encode *e, VaeError *error)
{
    static const char *const names[] = {"latent", "mean", "logvar"};
    VaeTensorOut tensors[3] = {{0}};
    char width[16], height[16], frames[32], temporal[16], rate[32];
    const VaePlan *plan = vae_stream_get_plan(e->stream);
    const int s = e->info->spatial;
    snprintf(width, sizeof width, "%d", e->width);
    snprintf(height, sizeof height, "%d", e->height);
    snprintf(frames, sizeof frames, "%lld", (long long) e->frames);
    snprintf(temporal, sizeof temporal, "%d", e->info->temporal);
    snprintf(rate, sizeof rate, "%d/%d", e->fps_n, e->fps_d);
    VaeMetadata own[8] = {
        {"vae.normalization", vae_normalization_name(e->normalization)},
        {"vae.layout", e->tchw ? "tchw" : "cthw"},
        {"vae.width", width},
        {"vae.height", height},
        {"vae.frames", frames},
        {"vae.temporal_factor", temporal},
    };
    size_t n_metadata = 6;
    if (e->fps_n > 0)
        own[n_metadata++] = (VaeMetadata){VIDEO_RATE, rate};
    if (e->info->space)
        own[n_metadata++] = (VaeMetadata){"vae.latent_space", e->info->space};
    VaeMetadata *metadata = video_metadata(e->file, own, &n_metadata);
    if (!metadata)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for metadata");
    for (int i = 0; i < e->n_outputs; i++)
        tensors[i] = (VaeTensorOut){
            .name = names[i],
            .type = i ? VAE_TYPE_F32 : e->o->dtype,
            .n_dims = 4,
            .dims = {e->info->latent_channels, e->latents,
                     plan->padded_height / s, plan->padded_width / s},
        };
    size_t n_tensors = (size_t) e->n_outputs;
    if (e->format == OUTPUT_LATENT)
        n_tensors = as_comfyui(e, tensors);
    const OutputHead head = {
        e->format, {tensors, n_tensors, metadata, n_metadata, 0}, NULL};
    VaeStatus status = output_open(&e->out, e->o->argument[1], &head, error);
    if (status == VAE_OK)
        status = run(e, error);
    if (status == VAE_OK)
        status = output_commit(&e->out, error);
    output_close(&e->out);
    free(metadata);
    return status;
}

int
command_encode(const Options *o)
{
    Encode e = {.o = o, .out = {.fd = -1}};
    VaeError error;
    VaeStatus status = open_input(&e, &error);
    if (status == VAE_OK)
        status = choose_scale(&e, &error);
    if (status == VAE_OK) {
        VaeStreamParams params =
            stream_params(o, VAE_ENCODE, e.width, e.height);
        encode_choose_range(&e);
        name_input(vae_tensor_file_name(e.file), e.video->name);
        params.normalization = e.normalization;
        params.picture_low = e.range.low;
        params.picture_high = e.range.high;
        status = vae_stream_new(e.model, &params, &e.stream, &error);
    }
    if (status == VAE_OK)
        vae_stream_word_doubts(
            e.stream, (VaeDoubtWords){.chosen = o->normalization_given});
    if (status == VAE_OK)
        status = make_buffers(&e, &error);
    if (status == VAE_OK && progress_is_shown())
        plan_print(stderr, VAE_ENCODE, vae_stream_get_plan(e.stream));
    if (status == VAE_OK && !interrupt_arm(&e.stream, 1, &error))
        status = error.status;
    else if (status == VAE_OK) {
        status = write_latents(&e, &error);
        interrupt_disarm();
        warn_nonfinite(e.stream, false);
    }
    free(e.results);
    free(e.pictures);
    free(e.latent_data);
    free(e.frame_data);
    vae_stream_free(&e.stream);
    vae_tensor_file_free(&e.file);
    vae_model_free(&e.model);
    return status == VAE_OK ? EXIT_OK : fail(&error);
}
