#include "weights_set.h"

#include "arch.h"

Set set;
int failures;
char folder[] = "/tmp/vae-model-XXXXXX";

void
check(bool good, const char *what, const char *detail)
{
    printf("%s %s%s%s\n", good ? "ok" : "not ok", what, detail ? ": " : "",
           detail ? detail : "");
    failures += !good;
}

void
clear_set(void)
{
    for (int i = 0; i < 2; i++)
        vae_tensor_file_free(&set.files[i]);
    memset(&set, 0, sizeof set);
}

void
load(const char *model)
{
    clear_set();
    add_model(model, "");
}

const char *
golden(const char *model)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s/weights.safetensors",
             getenv("VAE_TEST_VECTORS"), model);
    return path;
}

void
add_model(const char *model, const char *prefix)
{
    VaeError error;
    VaeTensorFile **file = &set.files[set.files[0] != NULL];
    if (vae_tensor_file_open(golden(model), file, &error) != VAE_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    for (size_t i = 0; i < vae_tensor_file_count(*file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(*file, i);
        VaeTensorOut *o = &set.out[set.n];
        snprintf(set.names[set.n], sizeof set.names[0], "%s%s", prefix,
                 t->name);
        *o = (VaeTensorOut){.name = set.names[set.n],
                            .type = t->type,
                            .n_dims = t->n_dims,
                            .data = t->data};
        memcpy(o->dims, t->dims, sizeof t->dims);
        set.n++;
    }
    set.n_names = set.n;
    const char *groups = vae_tensor_file_metadata(*file, "norm_num_groups");
    if (groups)
        set.meta[set.n_meta++] = (VaeMetadata){"norm_num_groups", groups};
}

const char *
write_set(void)
{
    static char path[512];
    VaeError error;
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    if (vae_tensor_file_write(path, set.out, set.n, set.meta, set.n_meta,
                              &error) != VAE_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return path;
}

void
drop_prefix(const char *prefix)
{
    size_t kept = 0;
    for (size_t i = 0; i < set.n; i++)
        if (strncmp(set.out[i].name, prefix, strlen(prefix)) != 0)
            set.out[kept++] = set.out[i];
    set.n = kept;
}

VaeTensorOut *
find(const char *name)
{
    for (size_t i = 0; i < set.n; i++)
        if (strcmp(set.out[i].name, name) == 0)
            return &set.out[i];
    fprintf(stderr, "no tensor %s\n", name);
    exit(1);
}

void
rename_set(const char *arch, int naming)
{
    const VaeArch *const *a = vae_archs;
    while (strcmp((*a)->name, arch) != 0)
        a++;
    for (size_t i = 0; i < set.n; i++) {
        char name[256];
        if (!(*a)->rename(naming, set.names[i], name))
            exit(1);
        snprintf(set.names[i], sizeof set.names[i], "%.159s", name);
    }
}

void
add_prefix(const char *prefix)
{
    for (size_t i = 0; i < set.n; i++) {
        char name[160];
        memcpy(name, set.out[i].name, sizeof name);
        snprintf((char *) set.out[i].name, sizeof name, "%s%.120s", prefix,
                 name);
    }
}

void
add_tensor(const char *name)
{
    static const float number = 1;
    char *copy = set.names[set.n_names++];
    snprintf(copy, sizeof set.names[0], "%s", name);
    set.out[set.n++] = (VaeTensorOut){.name = copy,
                                      .type = VAE_TYPE_F32,
                                      .n_dims = 1,
                                      .dims = {1},
                                      .data = &number};
}

void
expect_error(const char *what, VaeStatus status, const char *const *words)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    const VaeStatus got = vae_model_open(write_set(), NULL, &model, &error);
    bool good = got == status && !model;
    for (int i = 0; good && words[i]; i++)
        good = strstr(error.message, words[i]) != NULL;
    check(good, what, error.message);
}

char warned[300];

static void
keep_warning(void *user, const char *message)
{
    snprintf(warned, sizeof warned, "%s", message);
}

/* Opens a stream of a file for pictures of 16x24, times scale; NULL on failure.
 */
static VaeStream *
open_stream(const char *path, VaeDirection direction, int scale,
            VaeError *error)
{
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = direction,
                                    .backend = VAE_BACKEND_REF,
                                    .doubt = keep_warning,
                                    .width = 24 * scale,
                                    .height = 16 * scale,
                                    .slice_size = 1};
    SCOPED_MODEL VaeModel *model = NULL;
    VaeStream *stream = NULL;
    if (vae_model_open(path, NULL, &model, error) == VAE_OK)
        vae_stream_new(model, &params, &stream, error);
    return stream;
}

enum { FRAMES = 5 };

static void
set_frames(VaePicture *frames, VaePixels pixels, int scale, int pixel,
           uint8_t *data)
{
    const int h = 16 * scale, w = 24 * scale;
    for (int i = 0; i < FRAMES; i++)
        frames[i] = (VaePicture){.pixels = pixels,
                                 .width = w,
                                 .height = h,
                                 .data = {data + (ptrdiff_t) i * h * w * pixel},
                                 .stride = {w * pixel}};
}

bool
decode_to(const char *path, int scale, VaePixels pixels, int pixel, void *out,
          VaeError *error)
{
    SCOPED_STREAM VaeStream *stream =
        open_stream(path, VAE_DECODE, scale, error);
    if (!stream)
        return false;
    static float latent[2][16 * 2 * 3];
    const int64_t dims[1] = {2 * 16 * 2 * 3};
    vae_generate("latent", dims, 1, latent[0]);
    const VaeLatentIn in[2] = {{.data = latent[0]}, {.data = latent[1]}};
    VaePicture frames[FRAMES];
    set_frames(frames, pixels, scale, pixel, out);
    return vae_stream_decode(stream, in, 2, frames, FRAMES, error) == VAE_OK;
}

float *
decode(const char *path, int scale, VaeError *error)
{
    float *out =
        malloc(sizeof(float) * (size_t) (FRAMES * 16 * 24 * scale * scale) * 3);
    if (!decode_to(path, scale, VAE_PIXELS_RGB_F32, 12, out, error)) {
        free(out);
        return NULL;
    }
    return out;
}

bool
encode_from(const char *path, VaePixels pixels, int pixel, void *in, float *out,
            VaeError *error)
{
    SCOPED_STREAM VaeStream *stream = open_stream(path, VAE_ENCODE, 1, error);
    VaePicture frames[FRAMES];
    VaeLatentOut latents[2] = {{.data = out}, {.data = out + 16 * 2 * 3}};
    set_frames(frames, pixels, 1, pixel, in);
    return stream && vae_stream_encode(stream, frames, FRAMES, latents, 2,
                                       error) == VAE_OK;
}

void
fingerprint(const char *path, char *out)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    out[0] = '\0';
    if (vae_model_open(path, NULL, &model, &error) != VAE_OK ||
        vae_model_fingerprint(model, out, &error) != VAE_OK)
        check(false, path, error.message);
}

void
open_variant(const char *what, const char *variant, VaeStatus status,
             const char *arch_or_word)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    const VaeModelOptions options = {.struct_size = sizeof(VaeModelOptions),
                                     .variant = variant};
    const VaeStatus got = vae_model_open(write_set(), &options, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(got == status && (info ? strcmp(info->arch, arch_or_word) == 0
                                 : strstr(error.message, arch_or_word) != NULL),
          what, info ? info->reason : error.message);
    if (info)
        check((strstr(info->reason, "assumed") != NULL) ==
                  (variant == NULL && set.n_meta == 0),
              "  and says whether that was assumed", info->reason);
}

void
write_config(const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = text ? fopen(path, "w") : NULL;
    if (f) {
        fputs(text, f);
        fclose(f);
    } else {
        remove(path);
    }
}
