/*
 * Any bytes as what is told of weights: the small models of the tests, with
 * other dimensions, without some tensors, with other metadata, and with a
 * config.json beside them. Either the model is refused in words, or what is
 * said of it holds together.
 *
 *   byte 0     which model
 *   then       0 TENSOR TENSOR DIM VALUE VALUE   a dimension
 *              1 TENSOR TENSOR                   a tensor less
 *              2 KEY N text                      metadata
 *              3 text                            config.json: all the rest
 */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include <jansson.h>

#include "fuzz.h"
#include "vae/model.h"

enum { MOST_TENSORS = 512, MOST_META = 8, MOST_TEXT = 256 };
/* Of all tensors; the file has holes. */
#define MOST_BYTES (UINT64_C(1) << 36)

static char folder[64];

typedef struct Told {
    const uint8_t *at, *end;
    VaeTensorOut tensors[MOST_TENSORS];
    size_t n_tensors;
    VaeMetadata meta[MOST_META];
    char text[MOST_META][MOST_TEXT];
    size_t n_meta;
} Told;

static const char *
path_of(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void
clean(void)
{
    unlink(path_of("m.safetensors"));
    unlink(path_of("config.json"));
    rmdir(folder);
}

/* The models of the tests, by byte 0. */
static const VaeTensorFile *
base(unsigned which)
{
    static const char *const names[] = {"wan21", "seedvr2", "taehv/taew2_1"};
    static VaeTensorFile *files[3];
    VaeTensorFile **file = &files[which % 3];
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/weights.safetensors", FUZZ_VECTORS,
             names[which % 3]);
    if (*file == NULL && vae_tensor_file_open(path, file, NULL) != VAE_OK)
        abort();
    return *file;
}

static unsigned
byte(Told *t)
{
    return t->at < t->end ? *t->at++ : 0;
}

static unsigned
two_bytes(Told *t)
{
    const unsigned high = byte(t);
    return high << 8 | byte(t);
}

static void
copy_base(Told *t, const VaeTensorFile *file)
{
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *info = vae_tensor_file_at(file, i);
        VaeTensorOut *out = &t->tensors[t->n_tensors++];
        *out = (VaeTensorOut){.name = info->name, .n_dims = info->n_dims};
        memcpy(out->dims, info->dims, sizeof out->dims);
    }
}

static void
set_metadata(Told *t)
{
    static const char *const keys[] = {"norm_num_groups",  "scaling_factor",
                                       "vae.latents_mean", "vae.latents_std",
                                       "latents_mean",     "vae.latent_space",
                                       "vae.variant",      "vae.names"};
    const unsigned key = byte(t) % 8, n = byte(t);
    char *text = t->text[key];
    for (unsigned i = 0; i < n; i++)
        text[i] = (char) (1 + byte(t) % 127);
    text[n] = '\0';
    for (size_t i = 0; i < t->n_meta; i++)
        if (t->meta[i].key == keys[key])
            return;
    t->meta[t->n_meta++] = (VaeMetadata){keys[key], text};
}

static void
change(Told *t)
{
    const unsigned what = byte(t) % 3;
    if (what == 2) {
        set_metadata(t);
        return;
    }
    VaeTensorOut *out = &t->tensors[two_bytes(t) % t->n_tensors];
    if (what == 0) {
        const unsigned dim = byte(t);
        out->dims[dim % VAE_MAX_DIMS] = two_bytes(t);
        if (dim % VAE_MAX_DIMS >= (unsigned) out->n_dims)
            out->n_dims = (int) (dim % VAE_MAX_DIMS);
    } else if (t->n_tensors > 1) {
        *out = t->tensors[--t->n_tensors];
    }
}

/* The entry of a tensor at *end, which goes on; NULL: more than is written for
 * this. */
static json_t *
entry(const VaeTensorOut *tensor, uint64_t *end)
{
    const uint64_t begin = *end;
    uint64_t bytes = 2;
    json_t *dims = json_array();
    for (int k = 0; k < tensor->n_dims; k++) {
        bytes *= (uint64_t) tensor->dims[k]; /* 16 bits each */
        if (bytes > MOST_BYTES)
            break;
        json_array_append_new(dims, json_integer(tensor->dims[k]));
    }
    if (bytes > MOST_BYTES || (*end += bytes) > MOST_BYTES) {
        json_decref(dims);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F16", "shape", dims,
                     "data_offsets", (json_int_t) begin, (json_int_t) *end);
}

static json_t *
header(const Told *t, uint64_t *bytes)
{
    json_t *all = json_object(), *meta = json_object();
    for (size_t i = 0; i < t->n_meta; i++)
        json_object_set_new(meta, t->meta[i].key,
                            json_string(t->meta[i].value));
    json_object_set_new(all, "__metadata__", meta);
    for (size_t i = 0; i < t->n_tensors; i++) {
        json_t *tensor = entry(&t->tensors[i], bytes);
        if (tensor == NULL) {
            json_decref(all);
            return NULL;
        }
        json_object_set_new(all, t->tensors[i].name, tensor);
    }
    return all;
}

/* The numbers are a hole: opening a model reads none. */
static bool
write_model(const Told *t)
{
    uint64_t bytes = 0;
    json_t *all = header(t, &bytes);
    char *text = all != NULL ? json_dumps(all, JSON_COMPACT) : NULL;
    const uint64_t length = text != NULL ? strlen(text) : 0;
    json_decref(all);
    if (text == NULL)
        return false;
    FILE *f = fopen(path_of("m.safetensors"), "wb");
    if (f == NULL || fwrite(&length, 8, 1, f) != 1 ||
        fwrite(text, 1, length, f) != length || fflush(f) != 0 ||
        ftruncate(fileno(f), (off_t) (8 + length + bytes)) != 0 ||
        fclose(f) != 0)
        abort();
    free(text);
    return true;
}

static void
check_model(const VaeModelInfo *info)
{
    if (info->latent_channels < 1 ||
        info->latent_channels > VAE_MAX_LATENT_CHANNELS || info->spatial < 1 ||
        info->temporal < 1 ||
        info->decoder_tensors + info->encoder_tensors != info->tensor_count)
        abort();
    for (int i = 0; i < info->latent_channels; i++)
        if (!(info->std[i] > 0) || info->mean[i] - info->mean[i] != 0)
            abort();
}

static void
open_model(void)
{
    VaeError error = {0};
    VaeModel *model;
    const VaeStatus status =
        vae_model_open(path_of("m.safetensors"), NULL, &model, &error);
    if ((status == VAE_OK) != (model != NULL) ||
        (status != VAE_OK && strlen(error.message) < 20))
        abort();
    if (status == VAE_OK)
        check_model(vae_model_info(model));
    vae_model_free(&model);
}

static void
write_config(const Told *t)
{
    FILE *f = fopen(path_of("config.json"), "wb");
    const size_t n = (size_t) (t->end - t->at);
    if (f == NULL || fwrite(t->at, 1, n, f) != n || fclose(f) != 0)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Told t = {.at = data, .end = data + size};
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "%s/vae-fuzz-XXXXXX", P_tmpdir);
        if (mkdtemp(folder) == NULL)
            abort();
        atexit(clean);
    }
    copy_base(&t, base(byte(&t)));
    bool config = false;
    while (t.at < t.end && !config) {
        config = *t.at % 4 == 3;
        if (config)
            t.at++;
        else
            change(&t);
    }
    unlink(path_of("config.json"));
    unlink(path_of("m.safetensors"));
    if (config)
        write_config(&t);
    if (write_model(&t))
        open_model();
    return 0;
}
