/*
 * select.c: finds the tensor of a file that has the latents.
 */
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "statements.h"
#include "vae-private/axes.h"
#include "vae-private/spaces.h"

/* At most this many tensors are named in a message. */
#define NAMES_SHOWN 6

static bool
may_be_latents(const VaeTensorInfo *info)
{
    return info->n_dims == 4 || info->n_dims == 5;
}

static bool
ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The names of latents, the preferred ones first. */
static const char *const usual[] = {"latent", "latents", "samples",
                                    VAE_COMFYUI_TENSOR};

/* Frames are [T,H,W,3], or [H,W,3]; with the name of frames, any shape. */
static bool
is_frames(const VaeTensorInfo *info)
{
    const int n = info->n_dims;
    return strcmp(info->name, "frames") == 0 ||
           strcmp(info->name, "video_u8") == 0 ||
           ((n == 3 || n == 4) && info->dims[n - 1] == 3 &&
            !vae_axes_video_channels(info->dims[0]) &&
            (n == 3 || !vae_axes_video_channels(info->dims[1])));
}

const char *
vae_tensor_file_looks_like(const VaeTensorFile *file)
{
    bool frames = false, others = false;
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *info = vae_tensor_file_at(file, i);
        if (ends_with(info->name, ".weight") ||
            ends_with(info->name, ".bias") || ends_with(info->name, ".gamma"))
            return " (looks like model weights)";
        frames = frames || is_frames(info);
        others = others || (may_be_latents(info) && !is_frames(info));
    }
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (vae_tensor_file_find(file, usual[i]) != NULL)
            return " (looks like latents)";
    return frames && !others ? " (looks like frames)" : "";
}

const char *
vae_tensor_file_names(const VaeTensorFile *file, char buffer[VAE_NAMES])
{
    const size_t size = VAE_NAMES, n = vae_tensor_file_count(file);
    size_t used = 0;
    snprintf(buffer, size, "no tensor");
    for (size_t i = 0; i < n && i < NAMES_SHOWN && used < size; i++) {
        const VaeTensorInfo *info = vae_tensor_file_at(file, i);
        char dims[48];
        const int length = snprintf(
            buffer + used, size - used, "%s\"%.60s\" %s", i == 0 ? "" : ", ",
            info->name,
            vae_dims_text(info->dims, info->n_dims, dims, sizeof dims));
        used += length > 0 ? (size_t) length : 0;
    }
    if (n > NAMES_SHOWN && used < size)
        snprintf(buffer + used, size - used, " and %zu more", n - NAMES_SHOWN);
    return buffer;
}

VaeStatus
vae_tensor_refuse(const VaeTensorFile *file, const VaeTensorInfo *info,
                  const char *expected, const char *advice, VaeError *error)
{
    char dims[200], type[40];
    vae_dims_text(info->dims, info->n_dims, dims, sizeof dims);
    if (info->strided)
        return vae_mismatch(
            error, VAE_ERR_FORMAT, info->name,
            "%s: tensor \"%.*s\" (%s) is {not contiguous} " VAE_STRIDED
            ", expected {=contiguous} elements",
            file->label, VAE_NAME_SHOWN, info->name, dims);
    return vae_mismatch(error, VAE_ERR_FORMAT, info->name,
                        "%s: tensor \"%.*s\" (%s) has elements of type {%s}, "
                        "expected {=%s}%s",
                        file->label, VAE_NAME_SHOWN, info->name, dims,
                        vae_type_words(info->type_name, type, sizeof type),
                        expected, advice);
}

/* True if both are parts of one clip: of the same shape, but for the latents of
 * [1, C, T, h, w]. */
static bool
is_part(const VaeTensorInfo *a, const VaeTensorInfo *b)
{
    if (a->n_dims != b->n_dims || (a->n_dims > 3 && a->dims[0] != 1))
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i] && !(a->n_dims == 5 && i == 2))
            return false;
    return true;
}

/* What to do with a list of parts of one clip, or "". A clip of 5 dimensions is
 * read alike whatever their number is. */
static const char *
stack_advice(const VaeTensorFile *file)
{
    const VaeTensorInfo *first = vae_tensor_file_at(file, 0);
    const size_t n = vae_tensor_file_count(file);
    for (size_t i = 0; i < n; i++)
        if (!is_part(first, vae_tensor_file_at(file, i)))
            return "";
    switch (n > 1 ? first->n_dims : 0) {
    case 3:
        return "; if these are latents [C, h, w] of one clip, save them as "
               "one tensor [C, T, h, w], by stack(list, 1) of torch";
    case 4:
        return "; if these are latents [1, C, h, w] of one clip, save them as "
               "one tensor [1, C, T, h, w], by stack(list, 2) of torch";
    case 5:
        return "; if these are parts [1, C, T, h, w] of one clip, save them as "
               "one tensor [1, C, T, h, w], by cat(list, 2) of torch";
    default:
        return "";
    }
}

static VaeStatus
fail_missing(const VaeTensorFile *file, const char *what, const char *requested,
             VaeError *error)
{
    char names[VAE_NAMES];
    vae_tensor_file_names(file, names);
    return vae_fail_parts(
        error, VAE_ERR_NOT_FOUND,
        (VaeErrorParts){.tensor = requested,
                        .found = names,
                        .expected =
                            requested[0] != '\0' ? requested : "latents"},
        "%s: %s%.*s%s; found %s%s", file->label, what, VAE_NAME_SHOWN,
        requested, vae_tensor_file_looks_like(file), names,
        requested[0] ? "" : stack_advice(file));
}

/* Warns if the file also has other tensors of the names from usual[from] on. */
static void
tell_others(const VaeTensorFile *file, const VaeLatentOptions *o,
            const char *taken, size_t from)
{
    char line[500], others[100] = "";
    for (size_t i = from; i < sizeof usual / sizeof usual[0]; i++) {
        const VaeTensorInfo *t = vae_tensor_file_find(file, usual[i]);
        const size_t n = strlen(others);
        if (t && may_be_latents(t))
            snprintf(others + n, sizeof others - n, "%s\"%s\"",
                     n ? " and " : "", t->name);
    }
    snprintf(
        line, sizeof line,
        "%s: tensor \"%s\" is taken, but %s may also be latents: to choose "
        "another one, set tensor",
        file->label, taken, others);
    if (others[0] && o->warn)
        o->warn(o->user, line);
}

/* The index in usual[] of the tensor to take, or the number of names. One that
 * cannot be latents is taken only to say why. */
static size_t
first_usual(const VaeTensorFile *file)
{
    const size_t n = sizeof usual / sizeof usual[0];
    size_t any = n;
    for (size_t i = n; i-- > 0;)
        if (vae_tensor_file_find(file, usual[i]) != NULL)
            any = i;
    for (size_t i = any; i < n; i++) {
        const VaeTensorInfo *info = vae_tensor_file_find(file, usual[i]);
        if (info != NULL && may_be_latents(info))
            return i;
    }
    return any;
}

/* True if the only tensor has the shape of frames, but a layout or the channels
 * of a space are known that make it latents. */
static bool
may_be_narrow(const VaeTensorFile *file, const VaeLatentOptions *o)
{
    const VaeTensorInfo *info = vae_tensor_file_at(file, 0);
    bool images;
    const int64_t channels = vae_latent_channels(file, o, &images);
    return vae_tensor_file_count(file) == 1 && may_be_latents(info) &&
           strcmp(info->name, "frames") != 0 && info->type != VAE_TYPE_U8 &&
           (o->layout != VAE_LAYOUT_AUTO ||
            vae_tensor_file_metadata(file, "vae.layout") ||
            info->dims[0] == channels || info->dims[1] == channels);
}

/* The number of tensors with so many dimensions. *out: the last one. */
static size_t
count_of(const VaeTensorFile *file, int least, int most,
         const VaeTensorInfo **out)
{
    size_t n = 0;
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *info = vae_tensor_file_at(file, i);
        if (info->n_dims < least || info->n_dims > most)
            continue;
        *out = info;
        n++;
    }
    return n;
}

VaeStatus
vae_latent_tensor_select(const VaeTensorFile *file, const VaeLatentOptions *o,
                         const VaeTensorInfo **out, VaeError *error)
{
    const char *requested = o->tensor;
    *out = NULL;
    if (vae_tensor_file_count(file) == 0)
        return vae_mismatch(
            error, VAE_ERR_NOT_FOUND, requested,
            "%s: has {no tensors}, expected one with {=latents}", file->label);
    if (requested != NULL) {
        *out = vae_tensor_file_find(file, requested);
        return *out != NULL
                   ? VAE_OK
                   : fail_missing(file, "no tensor named ", requested, error);
    }
    const size_t name = first_usual(file);
    if (name < sizeof usual / sizeof usual[0]) {
        *out = vae_tensor_file_find(file, usual[name]);
        tell_others(file, o, usual[name], name + 1);
        return VAE_OK;
    }
    const char *like = vae_tensor_file_looks_like(file);
    if (*like && !(ends_with(like, "frames)") && may_be_narrow(file, o)))
        return fail_missing(file, "no latent tensor", "", error);
    size_t candidates = count_of(file, 4, 5, out);
    if (candidates == 0 && count_of(file, 3, 3, out) == 1)
        candidates = 1; /* [C, h, w] */
    /* The caller reports why the only tensor of a file does not fit. */
    if (candidates == 0 && vae_tensor_file_count(file) == 1)
        *out = vae_tensor_file_at(file, 0);
    else if (candidates == 0)
        return fail_missing(file, "no latent tensor", "", error);
    else if (candidates > 1)
        return fail_missing(file,
                            "several tensors with 4 or 5 dimensions: select "
                            "one with tensor",
                            "", error);
    return VAE_OK;
}
