/*
 * format.c: the formats in which vaetool writes frames and latents.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tool.h"
#include "vae-private/os.h"

#define TORCH_ADVICE                                                           \
    "; of a .safetensors, torch.save(safetensors.torch.load_file("             \
    "\"OUT.safetensors\"), \"OUT.pt\") makes one"
#define ARRAY_ADVICE                                                           \
    "; safetensors.numpy.load_file(\"OUT.safetensors\") gives the arrays to "  \
    "store"

const char *
suffix_of(const char *path)
{
    const char *dot = strrchr(vae_os_file_name(path), '.');
    return dot && dot[1] ? dot + 1 : NULL;
}

/* Suffixes of files that hold no video. */
static const struct {
    const char *suffix;
    const char *advice; /* how to make one of what is written; or "" */
} others[] = {
    {"safetensors", ""},
    {"npy", ""},
    {"latent", ""},
    {"pt", TORCH_ADVICE},
    {"pth", TORCH_ADVICE},
    {"ckpt", TORCH_ADVICE},
    {"bin", TORCH_ADVICE},
    {"npz", "; of a .safetensors, numpy.savez(\"OUT.npz\", "
            "**safetensors.numpy.load_file(\"OUT.safetensors\")) makes one"},
    {"pkl", ARRAY_ADVICE},
    {"h5", ARRAY_ADVICE},
    {"hdf5", ARRAY_ADVICE},
    {"mat", ARRAY_ADVICE},
    {"gguf", ""},
    {"onnx", ""},
    {"json", ""},
    {"txt", ""},
};

/* The row of the suffix in others; -1: it has none. */
static int
other_suffix(const char *suffix)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasecmp(suffix, others[i].suffix) == 0)
            return (int) i;
    return -1;
}

bool
is_tensor_suffix(const char *suffix)
{
    return other_suffix(suffix) >= 0;
}

VaeStatus
output_format(const char *path, const char *what, OutputFormat *out,
              VaeError *error)
{
    static const char *const suffixes[] = {[OUTPUT_SAFETENSORS] = "safetensors",
                                           [OUTPUT_NPY] = "npy",
                                           [OUTPUT_LATENT] = "latent",
                                           [OUTPUT_Y4M] = "y4m"};
    const bool frames = strcmp(what, "frames") == 0;
    const bool weights = strcmp(what, "weights") == 0;
    const bool standard = strcmp(path, "-") == 0;
    const char *suffix = standard ? suffixes[OUTPUT_Y4M] : suffix_of(path);
    *out = OUTPUT_SAFETENSORS;
    for (int i = 0; suffix && i <= OUTPUT_Y4M; i++)
        if (strcasecmp(suffix, suffixes[i]) == 0)
            *out = (OutputFormat) i;
    if ((!suffix || strcasecmp(suffix, suffixes[*out]) == 0) &&
        *out != (frames ? OUTPUT_LATENT : OUTPUT_Y4M) &&
        (!weights || *out == OUTPUT_SAFETENSORS))
        return VAE_OK;
    if (!frames && standard)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "-: name a file for the %s: they are not written from "
                        "its start to its end, as standard output needs",
                        what);
    const int other = other_suffix(suffix);
    const bool video = frames && other < 0;
    return vae_fail(
        error, VAE_ERR_ARGUMENT,
        "%s: vaetool writes %s as .safetensors%s, not as .%s%s%s", path, what,
        frames    ? ", .npy or .y4m"
        : weights ? ""
                  : ", .npy or .latent",
        suffix,
        other >= 0 ? others[other].advice
        : video    ? "; for another video use pipelines/latents-to-video.sh, "
                     "gst-launch-1.0 with vaedecode, or vaetool decode ... - | "
                     "ffmpeg -i - OUT."
                   : "",
        video ? suffix : "");
}

bool
output_is_pipe(const char *path)
{
    return strcmp(path, "-") == 0 || vae_os_is_kind(path, VAE_FILE_PIPE);
}

static const char *
npy_type(VaeType type)
{
    return type == VAE_TYPE_F16 ? "<f2" : type == VAE_TYPE_U8 ? "|u1" : "<f4";
}

/* The data of an npy file begins at a multiple of 64 bytes. */
static void *
npy_head(const VaeTensorOut *t, size_t *size)
{
    char dict[400] = "";
    int n = snprintf(dict, sizeof dict,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     npy_type(t->type));
    for (int i = 0; i < t->n_dims; i++)
        n += snprintf(dict + n, sizeof dict - (size_t) n, "%lld, ",
                      (long long) t->dims[i]);
    n += snprintf(dict + n, sizeof dict - (size_t) n, "), }");
    *size = (size_t) (10 + n + 1 + 63) / 64 * 64;
    char *bytes = malloc(*size);
    if (!bytes)
        return NULL;
    memset(bytes, ' ', *size);
    memcpy(bytes, "\x93NUMPY\x01", 8); /* version 1.0 */
    bytes[8] = (char) ((*size - 10) & 255);
    bytes[9] = (char) ((*size - 10) >> 8);
    memcpy(bytes + 10, dict, (size_t) n);
    bytes[*size - 1] = '\n';
    return bytes;
}

VaeStatus
output_head(const OutputHead *head, void **out, size_t *size, VaeError *error)
{
    if (head->format == OUTPUT_SAFETENSORS || head->format == OUTPUT_LATENT)
        return vae_tensor_header_make(&head->tensors, out, size, error);
    if (head->format == OUTPUT_NPY) {
        *out = npy_head(head->tensors.tensors, size);
    } else {
        *out = strdup(head->line);
        *size = strlen(head->line);
    }
    return *out ? VAE_OK : vae_fail(error, VAE_ERR_MEMORY, "no memory");
}
