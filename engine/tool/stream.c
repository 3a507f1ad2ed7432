/*
 * stream.c: opens a model, and fills the parameters of a stream, by the
 * options.
 */
#include "tool.h"

#include <string.h>

#include "vae-private/os.h"
#include "vae-private/spaces.h"

/* 'FILE: tensor "NAME": ', or "". */
static char input[1024];

void
name_input(const char *file, const char *tensor)
{
    snprintf(input, sizeof input, "%s: tensor \"%.100s\": ", file, tensor);
}

static void
warn_input(void *user, const char *line)
{
    warn_text("%s%s", input, line);
}

void
warn_nonfinite(const VaeStream *stream, bool wide)
{
    const VaeStreamStats stats = *vae_stream_stats(stream);
    if (stats.nonfinite > 0)
        warn_text("%s%s of the latents %s not finite%s", input,
                  VAE_COUNTED(stats.nonfinite, "value"),
                  stats.nonfinite == 1 ? "is" : "are",
                  wide ? ", or too large for float32" : "");
    if (stats.nonfinite_steps > 0)
        warn_text("%s%s gave results that are not finite; %llu of them were "
                  "recovered in fp32",
                  input, VAE_COUNTED(stats.nonfinite_steps, "step"),
                  (unsigned long long) stats.recovered_steps);
}

VaeStatus
open_model(const Options *o, VaeModel **out, VaeError *error)
{
    const VaeModelOptions options = {.struct_size = sizeof(VaeModelOptions),
                                     .variant = o->variant};
    char choice[VAE_CHOICE];
    if (!o->model)
        return vae_model_generate(o->arch, out, error);
    const double start = now_seconds();
    const VaeStatus status = vae_model_open(o->model, &options, out, error);
    if (o->verbose)
        fprintf(stderr, "model opened in %.3f s\n", now_seconds() - start);
    if (status == VAE_OK && vae_model_choice(*out, choice))
        warn_text("%s: %s", o->model, choice);
    return status;
}

VaeStatus
open_tensors(const char *path, const char *what, VaeTensorFile **out,
             VaeError *error)
{
    const VaeStatus status = vae_tensor_file_open(path, out, error);
    if (status == VAE_ERR_NOT_FOUND && vae_os_is_kind(path, VAE_FILE_FOLDER))
        return vae_fail(error, status,
                        "%s: is a directory, expected a file of %s", path,
                        what);
    return status;
}

static void
warn(void *user, const char *line)
{
    warn_text("%s", line);
}

VaeLatentOptions
latent_options(const Options *o)
{
    return (VaeLatentOptions){.struct_size = sizeof(VaeLatentOptions),
                              .tensor = o->tensor,
                              .layout = o->layout,
                              .batch_index = o->batch_index,
                              .space = o->space,
                              .own_normalization = o->normalization_given,
                              .own_framerate = o->fps_n > 0,
                              .warn = warn};
}

const char *
normalization_note(const VaeLatentClip *clip)
{
    if (clip->normalization_stated)
        return "";
    return clip->normalization == VAE_COMFYUI
               ? " (not stated, but usual in files of ComfyUI)"
               : " (not stated)";
}

VaeStatus
find_clip(const Options *o, const VaeTensorFile *file, const VaeModelInfo *info,
          VaeLatentClip *out, VaeError *error)
{
    VaeLatentOptions options = latent_options(o);
    options.channels = info ? info->latent_channels : 0;
    options.temporal = info ? info->temporal : 0;
    options.chunk = info ? info->chunk : 0;
    *out = (VaeLatentClip) VAE_INIT(VaeLatentClip);
    const VaeStatus status = vae_latent_clip_find(file, &options, out, error);
    if (status != VAE_OK)
        return status;
    char line[700];
    if (info && o->verbose)
        fprintf(stderr, "tensor \"%s\" is read as %s: %s of %s\n", out->tensor,
                vae_layout_name(out), VAE_COUNTED(out->t, "latent"),
                VAE_COUNTED(out->channels, "channel"));
    /* vaetool info prints the layout and what is not stated. */
    if (info && vae_layout_doubt(out, line, sizeof line))
        warn_text("%s", line);
    if (o->space) {
        if (vae_overrides(out->file, "latent-space", out->space, o->space, line,
                          sizeof line))
            warn_text("%s", line);
        out->space = o->space;
    }
    if (o->normalization_given) {
        if (out->normalization_stated &&
            vae_normalization_overrides(
                info ? info->space : out->space, out->file, out->normalization,
                o->params.normalization, line, sizeof line))
            warn_text("%s", line);
        out->normalization = o->params.normalization;
        out->normalization_stated = true;
    } else if (info && vae_normalization_assumed(out)) {
        tell_text(VAE_NO_NORMALIZATION, out->file);
    }
    if (o->fps_n > 0) {
        out->fps_n = o->fps_n;
        out->fps_d = o->fps_d;
    }
    return VAE_OK;
}

static void
log_line(void *user, const char *line)
{
    fprintf(stderr, "%s\n", line);
}

VaeStreamParams
stream_params(const Options *o, VaeDirection direction, int width, int height)
{
    VaeStreamParams params = o->params;
    params.direction = direction;
    params.width = width;
    params.height = height;
    params.log = o->verbose ? log_line : NULL;
    params.warn = warn;
    params.doubt = warn_input;
    return params;
}
