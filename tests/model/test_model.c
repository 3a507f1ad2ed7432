/*
 * test_model.c: recognises models by their tensors and refuses faulty files
 * with a clear error. The test writes the small golden weights under other
 * names and with faults, and opens them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vae-private/stream.h"

#define MAX_TENSORS 300

typedef struct Set {
    VaeTensorFile *file;
    VaeTensorOut out[MAX_TENSORS];
    char names[MAX_TENSORS][160];
    size_t n;
    VaeMetadata meta[8];
    size_t n_meta;
} Set;

static int failures;
static char folder[] = "/tmp/vae-model-XXXXXX";

static void
check(bool good, const char *what, const char *detail)
{
    printf("%s %s%s%s\n", good ? "ok" : "not ok", what, detail ? ": " : "",
           detail ? detail : "");
    failures += !good;
}

static void
load(Set *set, const char *model)
{
    char path[512];
    VaeError error;
    memset(set, 0, sizeof *set);
    snprintf(path, sizeof path, "%s/%s/weights.safetensors",
             getenv("VAE_TEST_VECTORS"), model);
    if (vae_tensor_file_open(path, &set->file, &error) != VAE_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    for (size_t i = 0; i < vae_tensor_file_count(set->file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(set->file, i);
        VaeTensorOut *o = &set->out[set->n];
        snprintf(set->names[set->n], sizeof set->names[0], "%s", t->name);
        *o = (VaeTensorOut){.name = set->names[set->n],
                            .type = t->type,
                            .n_dims = t->n_dims,
                            .data = t->data};
        memcpy(o->dims, t->dims, sizeof t->dims);
        set->n++;
    }
    const char *groups = vae_tensor_file_metadata(set->file, "norm_num_groups");
    if (groups)
        set->meta[set->n_meta++] = (VaeMetadata){"norm_num_groups", groups};
}

static const char *
write_set(const Set *set)
{
    static char path[512];
    VaeError error;
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    if (vae_tensor_file_write(path, set->out, set->n, set->meta, set->n_meta,
                              &error) != VAE_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return path;
}

static void
drop_prefix(Set *set, const char *prefix)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->n; i++)
        if (strncmp(set->out[i].name, prefix, strlen(prefix)) != 0)
            set->out[kept++] = set->out[i];
    set->n = kept;
}

static VaeTensorOut *
find(Set *set, const char *name)
{
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->out[i].name, name) == 0)
            return &set->out[i];
    fprintf(stderr, "no tensor %s\n", name);
    exit(1);
}

/* Decodes two latents of 16x24 pixels; NULL and *error on failure. */
static float *
decode(const char *path, VaeError *error)
{
    enum { H = 16, W = 24, FRAMES = 5 };
    VaeModel *model;
    VaeStream *stream = NULL;
    float *out = NULL;
    if (vae_model_open(path, NULL, &model, error) != VAE_OK)
        return NULL;
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .backend = VAE_BACKEND_REF,
                                    .width = W,
                                    .height = H,
                                    .slice_size = 1};
    if (vae_stream_new(model, &params, &stream, error) == VAE_OK) {
        static float latent[2][16 * 2 * 3];
        const int64_t dims[1] = {2 * 16 * 2 * 3};
        vae_generate("latent", dims, 1, latent[0]);
        const VaeLatentIn in[2] = {{.data = latent[0]}, {.data = latent[1]}};
        VaePicture frames[FRAMES];
        out = malloc(sizeof(float) * FRAMES * H * W * 3);
        for (int i = 0; i < FRAMES; i++)
            frames[i] =
                (VaePicture){.width = W,
                             .height = H,
                             .data = {(uint8_t *) (out + i * H * W * 3)},
                             .stride = {W * 12}};
        if (vae_stream_decode(stream, in, 2, frames, FRAMES, error) != VAE_OK)
            check(false, "decode", error->message);
    }
    vae_stream_free(&stream);
    vae_model_free(&model);
    return out;
}

static void
expect_same(const char *what, const char *path_a_model, Set *renamed)
{
    char path[512];
    VaeError error = {0};
    snprintf(path, sizeof path, "%s/%s/weights.safetensors",
             getenv("VAE_TEST_VECTORS"), path_a_model);
    float *a = decode(path, &error);
    float *b = decode(write_set(renamed), &error);
    const size_t bytes = sizeof(float) * 5 * 16 * 24 * 3;
    check(a && b && memcmp(a, b, bytes) == 0, what, b ? NULL : error.message);
    free(a);
    free(b);
}

static void
expect_error(const char *what, const Set *set, VaeStatus status,
             const char *const *words)
{
    VaeModel *model = NULL;
    VaeError error = {0};
    const VaeStatus got = vae_model_open(write_set(set), NULL, &model, &error);
    bool good = got == status && !model;
    for (int i = 0; good && words[i]; i++)
        good = strstr(error.message, words[i]) != NULL;
    check(good, what, error.message);
    vae_model_free(&model);
}

static void
test_diffusers(const char *tsv)
{
    Set set;
    load(&set, "wan21");
    FILE *f = fopen(tsv, "r");
    char from[160], to[160];
    int renamed = 0;
    while (f && fscanf(f, "%159s %159s", from, to) == 2)
        for (size_t i = 0; i < set.n; i++)
            if (strcmp(set.names[i], from) == 0) {
                snprintf(set.names[i], sizeof set.names[i], "%s", to);
                renamed++;
                break;
            }
    if (f)
        fclose(f);
    check((size_t) renamed == set.n, "every tensor has a diffusers name", NULL);
    expect_same("diffusers names decode to the same bytes", "wan21", &set);
    vae_tensor_file_free(&set.file);
}

static void
test_old_attention_names(void)
{
    static const char *const pairs[][2] = {{".to_q.", ".query."},
                                           {".to_k.", ".key."},
                                           {".to_v.", ".value."},
                                           {".to_out.0.", ".proj_attn."}};
    Set set;
    load(&set, "seedvr2");
    for (size_t i = 0; i < set.n; i++)
        for (int k = 0; k < 4; k++) {
            char *at = strstr(set.names[i], pairs[k][0]), rest[160];
            if (!at)
                continue;
            snprintf(rest, sizeof rest, "%s", at + strlen(pairs[k][0]));
            snprintf(at, sizeof set.names[i] - (size_t) (at - set.names[i]),
                     "%s%s", pairs[k][1], rest);
        }
    expect_same("old attention names decode to the same bytes", "seedvr2",
                &set);
    vae_tensor_file_free(&set.file);
}

static void
test_halves(void)
{
    Set set;
    VaeError error = {0};
    VaeModel *model = NULL;
    load(&set, "wan21");
    drop_prefix(&set, "encoder.");
    drop_prefix(&set, "conv1.");
    check(vae_model_open(write_set(&set), NULL, &model, &error) == VAE_OK &&
              vae_model_info(model)->has_decoder &&
              !vae_model_info(model)->has_encoder,
          "a decoder alone opens", error.message);
    VaeStream *stream = NULL;
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = VAE_ENCODE,
                                    .backend = VAE_BACKEND_REF,
                                    .width = 16,
                                    .height = 16};
    check(model &&
              vae_stream_new(model, &params, &stream, &error) ==
                  VAE_ERR_MODEL &&
              strstr(error.message, "no encoder"),
          "and says that it cannot encode", error.message);
    vae_stream_free(&stream);
    vae_model_free(&model);
    vae_tensor_file_free(&set.file);
    error.message[0] = '\0';
    load(&set, "seedvr2");
    drop_prefix(&set, "decoder.");
    check(vae_model_open(write_set(&set), NULL, &model, &error) == VAE_OK &&
              !vae_model_info(model)->has_decoder &&
              vae_model_info(model)->has_encoder &&
              vae_model_info(model)->latent_channels == 16,
          "an encoder alone opens", error.message);
    vae_model_free(&model);
    vae_tensor_file_free(&set.file);
}

static void
test_mismatches(void)
{
    Set set;
    load(&set, "wan21");
    drop_prefix(&set, "decoder.middle.0.residual.3.");
    VaeTensorOut *t = find(&set, "decoder.head.2.weight");
    t->dims[0] = 9; /* same bytes, another shape */
    t->dims[2] = 1;
    t = find(&set, "encoder.conv1.bias");
    strcpy((char *) t->name, "encoder.conv9.bias");
    expect_error("missing, wrong and extra tensors are named", &set,
                 VAE_ERR_MODEL,
                 (const char *[]){"wan2.1", "2 missing",
                                  "decoder.middle.0.residual.3.gamma",
                                  "decoder.head.2.weight is 9x8x1x3x3, "
                                  "expected 3x8x3x3x3",
                                  "encoder.conv9.bias", NULL});
    vae_tensor_file_free(&set.file);

    load(&set, "wan21");
    for (size_t i = 0; i < set.n; i++)
        memcpy(set.names[i], "q", 1);
    expect_error("weights of no known model", &set, VAE_ERR_MODEL,
                 (const char *[]){"no known VAE", "wan2.1", "seedvr2", NULL});
    vae_tensor_file_free(&set.file);

    load(&set, "wan21");
    t = find(&set, "decoder.conv1.weight");
    t->type = VAE_TYPE_U8;
    t->dims[0] *= 4;
    expect_error("weights of a type that is no float", &set, VAE_ERR_MODEL,
                 (const char *[]){"decoder.conv1.weight", NULL});
    vae_tensor_file_free(&set.file);
}

/* Shortens each vector of a model by one. The error names only this vector. */
static void
test_wrong_length(const char *model)
{
    Set set;
    int others = 0, vectors = 0;
    load(&set, model);
    for (size_t i = 0; i < set.n; i++) {
        VaeModel *none = NULL;
        VaeError error = {0};
        char words[200];
        if (set.out[i].n_dims != 1)
            continue;
        vectors++;
        set.out[i].dims[0]--;
        vae_model_open(write_set(&set), NULL, &none, &error);
        snprintf(words, sizeof words, "1 of the wrong shape or type (%s is %d,",
                 set.names[i], (int) set.out[i].dims[0]);
        if (!strstr(error.message, words)) {
            others++;
            printf("%s\n", error.message);
        }
        set.out[i].dims[0]++;
        vae_model_free(&none);
    }
    check(vectors > 0 && others == 0, "a vector of the wrong length is named",
          model);
    vae_tensor_file_free(&set.file);
}

/* Opens a stream of the model on a backend. */
static VaeStatus
open_stream(VaeModel *model, VaeBackendKind backend, VaeError *error)
{
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .backend = backend,
                                    .width = 16,
                                    .height = 16,
                                    .slice_size = 1};
    VaeStream *stream = NULL;
    const VaeStatus status = vae_stream_new(model, &params, &stream, error);
    vae_stream_free(&stream);
    return status;
}

/* Truncates the file of an open model to its first half. Reading the rest
 * through a mapping would kill this process with SIGBUS. */
static void
test_cut_short(VaeBackendKind backend, VaeType type)
{
    VaeModel *model = NULL, *half = NULL;
    VaeError error = {0};
    char digits[65];
    Set set;
    load(&set, "wan21");
    const char *path = write_set(&set);
    vae_tensor_file_free(&set.file);
    if (vae_model_open(path, NULL, &model, &error) == VAE_OK)
        vae_model_write(model, path, type, &error);
    vae_model_free(&model);
    struct stat st;
    if (vae_model_open(path, NULL, &half, &error) != VAE_OK ||
        stat(path, &st) != 0 || truncate(path, st.st_size / 2) != 0) {
        check(false, "a file can be cut short", error.message);
        return;
    }
    check(open_stream(half, backend, &error) == VAE_ERR_READ &&
              strstr(error.message, "w.safetensors: was cut short"),
          "weights that were cut short are an error", error.message);
    check(vae_model_fingerprint(half, digits, &error) == VAE_ERR_READ &&
              strstr(error.message, "w.safetensors: was cut short"),
          "also for their fingerprint", error.message);
    vae_model_free(&half);
}

/* Writes a file with half of SeedVR2's tensors. */
static void
test_nearest(void)
{
    Set set;
    load(&set, "seedvr2");
    for (size_t i = 0; i < set.n; i++)
        if (strstr(set.names[i], "mid_block") || strstr(set.names[i], "up_"))
            memcpy(set.names[i], "q", 1);
    expect_error("the nearest model and what differs", &set, VAE_ERR_MODEL,
                 (const char *[]){"no known VAE", "nearest is seedvr2",
                                  "250 tensors", "missing", "not part of it",
                                  "qncoder.mid_block", NULL});
    vae_tensor_file_free(&set.file);
}

static void
fingerprint(const char *path, char *out)
{
    VaeModel *model = NULL;
    VaeError error = {0};
    out[0] = '\0';
    if (vae_model_open(path, NULL, &model, &error) != VAE_OK ||
        vae_model_fingerprint(model, out, &error) != VAE_OK)
        check(false, path, error.message);
    vae_model_free(&model);
}

/* Values beside the tensors change the fingerprint too, if they are not those
 * of the file without them. */
static void
test_fingerprint_stated(const char *plain)
{
    static const struct {
        VaeMetadata stated;
        bool same;
    } rows[] = {
        {{"scaling_factor", "0.9152"}, true},
        {{"scaling_factor", "0.9153"}, false},
        {{"norm_num_groups", "4"}, false},
        {{"latents_mean", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"}, true},
        {{"latents_mean", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]"}, false},
        {{"latents_std", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"}, false},
    };
    Set set;
    char other[65], what[96];
    load(&set, "seedvr2");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const VaeMetadata *m = &rows[i].stated;
        const bool groups = strcmp(m->key, "norm_num_groups") == 0;
        set.meta[groups ? 0 : 1] = *m;
        set.n_meta = groups ? 1 : 2;
        fingerprint(write_set(&set), other);
        snprintf(what, sizeof what, "%s %s: %s", m->key, m->value,
                 rows[i].same ? "the same fingerprint" : "another one");
        check(other[0] && (strcmp(plain, other) == 0) == rows[i].same, what,
              other);
        set.meta[0] = (VaeMetadata){"norm_num_groups", "8"};
    }
    vae_tensor_file_free(&set.file);
}

static void
test_fingerprint(void)
{
    Set set;
    char plain[65], other[65], path[512];
    snprintf(path, sizeof path, "%s/seedvr2/weights.safetensors",
             getenv("VAE_TEST_VECTORS"));
    fingerprint(path, plain);
    check(strlen(plain) == 64 && strspn(plain, "0123456789abcdef") == 64,
          "a fingerprint has 64 digits", plain);
    load(&set, "seedvr2");
    for (size_t i = 0; i < set.n / 2; i++) { /* another order in the file */
        const VaeTensorOut t = set.out[i];
        set.out[i] = set.out[set.n - 1 - i];
        set.out[set.n - 1 - i] = t;
    }
    fingerprint(write_set(&set), other);
    check(strcmp(plain, other) == 0, "the order in the file is nothing to it",
          other);
    VaeTensorOut *t = find(&set, "decoder.conv_out.bias");
    float changed[3];
    memcpy(changed, t->data, sizeof changed);
    ((uint8_t *) changed)[11] ^= 1;
    t->data = changed;
    fingerprint(write_set(&set), other);
    check(other[0] && strcmp(plain, other) != 0, "one bit changes it", other);
    vae_tensor_file_free(&set.file);
    test_fingerprint_stated(plain);
}

static void
open_variant(const char *what, const Set *set, const char *variant,
             VaeStatus status, const char *arch_or_word)
{
    VaeModel *model = NULL;
    VaeError error = {0};
    const VaeModelOptions options = {.struct_size = sizeof(VaeModelOptions),
                                     .variant = variant};
    const VaeStatus got =
        vae_model_open(write_set(set), &options, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(got == status && (info ? strcmp(info->arch, arch_or_word) == 0
                                 : strstr(error.message, arch_or_word) != NULL),
          what, info ? info->reason : error.message);
    if (info)
        check((strstr(info->reason, "assumed") != NULL) ==
                  (variant == NULL && set->n_meta == 0),
              "  and says whether that was assumed", info->reason);
    vae_model_free(&model);
}

static void
test_variants(void)
{
    static const char *const same[] = {"taew2_1", "taehv", "taecvx", "taeos1_3",
                                       "lighttaew2_1"};
    Set set;
    load(&set, "taehv/taew2_1");
    open_variant("16 channels without a variant", &set, NULL, VAE_OK,
                 "taew2_1");
    for (int i = 0; i < 5; i++)
        open_variant(same[i], &set, same[i], VAE_OK, same[i]);
    open_variant("a variant of other channels", &set, "taew2_2", VAE_ERR_MODEL,
                 "taew2_1, taehv, taecvx, taeos1_3, lighttaew2_1");
    open_variant("an unknown variant", &set, "taefly", VAE_ERR_MODEL, "taefly");
    set.meta[set.n_meta++] = (VaeMetadata){"vae.variant", "taehv"};
    open_variant("a variant in the metadata", &set, NULL, VAE_OK, "taehv");
    open_variant("the caller's comes first", &set, "taecvx", VAE_OK, "taecvx");
    set.n_meta = 0;
    VaeTensorOut *t = find(&set, "decoder.1.weight");
    t->dims[0] = t->dims[0] * t->dims[1] / 24; /* the same bytes */
    t->dims[1] = 24;
    open_variant("taeh3 with other patches", &set, "taeh3", VAE_ERR_MODEL,
                 "24 latent channels and 1x1 pixel patches");
    vae_tensor_file_free(&set.file);
    load(&set, "taehv/taew2_2");
    open_variant("48 channels without a variant", &set, NULL, VAE_OK,
                 "taew2_2");
    open_variant("lighttaew2_2", &set, "lighttaew2_2", VAE_OK, "lighttaew2_2");
    vae_tensor_file_free(&set.file);
    load(&set, "taehv/taew2_2_super");
    open_variant("lighttaew2_2 with other blocks", &set, "lighttaew2_2",
                 VAE_ERR_MODEL, "variants that fit: taew2_2_super");
    vae_tensor_file_free(&set.file);
    load(&set, "taehv/taeh3");
    open_variant("taeh3 by name", &set, "taeh3", VAE_OK, "taeh3");
    vae_tensor_file_free(&set.file);
    load(&set, "wan21");
    open_variant("a variant of another family", &set, "taehv", VAE_ERR_MODEL,
                 "holds wan2.1, which is no taehv");
    vae_tensor_file_free(&set.file);
}

static void
test_ltx_variants(void)
{
    Set set;
    load(&set, "taehv/taeltx2_3");
    open_variant("128 channels without a variant", &set, NULL, VAE_OK,
                 "taeltx_2");
    open_variant("taeltx_2", &set, "taeltx_2", VAE_OK, "taeltx_2");
    open_variant("taeltx2_3", &set, "taeltx2_3", VAE_OK, "taeltx2_3");
    vae_tensor_file_free(&set.file);
    load(&set, "taehv/taeltx2_3_wide");
    open_variant("wide blocks", &set, "taeltx2_3_wide", VAE_OK,
                 "taeltx2_3_wide");
    open_variant("wide blocks, named without them", &set, "taeltx2_3",
                 VAE_ERR_MODEL, "holds taeltx2_3_wide, which is no taeltx2_3");
    open_variant("wide blocks as another variant", &set, "taeltx_2",
                 VAE_ERR_MODEL, "variants that fit: taeltx2_3_wide");
    VaeModel *model = NULL;
    VaeError error = {0};
    check(vae_model_open(write_set(&set), NULL, &model, &error) == VAE_OK &&
              strcmp(vae_model_info(model)->arch, "taeltx2_3_wide") == 0 &&
              !strstr(vae_model_info(model)->reason, "assumed"),
          "wide blocks need no variant", error.message);
    vae_model_free(&model);
    VaeTensorOut *t = find(&set, "decoder.3.conv.2.weight");
    t->dims[0] = 6; /* the same bytes, groups of other sizes */
    t->dims[1] = 8;
    expect_error("groups that do not fit", &set, VAE_ERR_MODEL,
                 (const char *[]){"decoder.3.conv.2.weight is 6x8x3x3", NULL});
    vae_tensor_file_free(&set.file);
}

static bool
has_prefix(const Set *set, const char *prefix)
{
    for (size_t i = 0; i < set->n; i++)
        if (strncmp(set->out[i].name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* Opens LTX-2's weights. Checks the model's name and a word of its reason. */
static void
open_ltx2(const char *what, const Set *set, const char *names,
          const char *reason)
{
    VaeModel *model = NULL;
    VaeError error = {0};
    const VaeStatus status =
        vae_model_open(write_set(set), NULL, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(status == VAE_OK && strcmp(info->names, names) == 0 &&
              strstr(info->reason, reason) && info->spatial == 32 &&
              info->temporal == 8 && strcmp(info->space, "ltx2") == 0 &&
              info->has_encoder != has_prefix(set, "decoder.timestep_scale") &&
              info->std[0] > 0.5f && info->std[0] != 1,
          what, info ? info->reason : error.message);
    vae_model_free(&model);
}

/* Renames the tensors as diffusers does. */
static void
ltx2_to_diffusers(Set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        char *name = set->names[i], part[8], rest[96];
        int n, end = 0;
        if (strncmp(name, "per_channel_statistics.", 23) == 0) {
            strcpy(name, name[23] == 'm' ? "latents_mean" : "latents_std");
        } else if (strncmp(name, "decoder.last_", 13) == 0) {
            memmove(name + 8, name + 13, strlen(name + 13) + 1);
        } else if (sscanf(name, "%7[a-z].%*[a-z]_blocks.%d.%n", part, &n,
                          &end) == 2 &&
                   end) {
            const bool enc = part[0] == 'e';
            const bool timed = strncmp(name + end, "time_", 5) == 0;
            snprintf(rest, sizeof rest, "%.95s", name + end);
            if (n == (enc ? 8 : 0))
                snprintf(name, 160, "%scoder.mid_block.%s%s", enc ? "en" : "de",
                         timed ? "" : "resnets.", rest + (timed ? 0 : 11));
            else
                snprintf(name, 160, "%scoder.%s_blocks.%d.%s%s",
                         enc ? "en" : "de", enc ? "down" : "up",
                         enc ? n / 2 : (n - 1) / 2,
                         timed        ? ""
                         : n % 2 == 0 ? "resnets."
                         : enc        ? "downsamplers.0."
                                      : "upsamplers.0.",
                         n % 2 || timed ? rest : rest + 11);
        }
    }
}

/* Adds one tensor. */
static void
add_tensor(Set *set, const char *name)
{
    static const float number = 1;
    set->out[set->n++] = (VaeTensorOut){.name = name,
                                        .type = VAE_TYPE_F32,
                                        .n_dims = 1,
                                        .dims = {1},
                                        .data = &number};
}

static void
test_ltx2_names(void)
{
    Set set;
    load(&set, "ltx2_0");
    drop_prefix(&set, "decoder.");
    open_ltx2("LTX-2.0, official names", &set, "official", "names");
    add_tensor(&set, "per_channel_statistics.mean-of-stds");
    add_tensor(&set, "decoder.det_stages.0.weight");
    open_ltx2("LTX-2.5, whose decoder is a diffusion model", &set, "official",
              "CausalDiffusionVAE");
    drop_prefix(&set, "encoder.");
    expect_error("  and nothing else", &set, VAE_ERR_UNSUPPORTED,
                 (const char *[]){"no encoder", "CausalDiffusionVAE",
                                  "conv file decodes", NULL});
    vae_tensor_file_free(&set.file);

    load(&set, "ltx2_3");
    drop_prefix(&set, "decoder.");
    for (size_t i = 0; i < set.n; i++) {
        char name[160];
        memcpy(name, set.out[i].name, sizeof name);
        snprintf((char *) set.out[i].name, sizeof name, "vae.%.150s", name);
    }
    add_tensor(&set, "model.diffusion_model.patchify_proj.weight");
    add_tensor(&set, "audio_vae.decoder.conv_in.conv.weight");
    open_ltx2("LTX-2.3 beside its diffusion model", &set, "official, with vae.",
              "names");
    vae_tensor_file_free(&set.file);

    load(&set, "ltx2_3");
    ltx2_to_diffusers(&set);
    drop_prefix(&set, "decoder.");
    open_ltx2("LTX-2.3, diffusers names", &set, "diffusers", "names");
    set.meta[0] = (VaeMetadata){"variant", "ltx2.0"};
    set.n_meta = 1;
    open_variant("LTX-2.3's encoder by another variant", &set, NULL, VAE_OK,
                 "ltx2.0");
    vae_tensor_file_free(&set.file);
}

static void
test_ltx2_decoders(void)
{
    static const struct {
        const char *set, *padding;
        int look_ahead, delay;
    } known[] = {{"ltx2_0", "with reflections around", 22, 173},
                 {"ltx2_3", "with zeros around", 14, 108}};
    Set set;
    for (int i = 0; i < 2; i++) {
        VaeModel *model = NULL;
        VaeError error = {0};
        load(&set, known[i].set);
        open_ltx2("LTX-2 with its decoder", &set, "official", known[i].padding);
        ltx2_to_diffusers(&set);
        open_ltx2("  and with diffusers names", &set, "diffusers",
                  known[i].padding);
        const VaeStatus status =
            vae_model_open(write_set(&set), NULL, &model, &error);
        const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
        check(status == VAE_OK && info->look_ahead == known[i].look_ahead &&
                  info->delay == known[i].delay,
              "  has the delay of its convolutions", error.message);
        vae_model_free(&model);
        vae_tensor_file_free(&set.file);
    }
}

/* The decoder's padding and shortcuts come from the file, from the variant or
 * from an assumption. */
static void
test_ltx2_stated(void)
{
    Set set;
    load(&set, "ltx2_3");
    open_ltx2("LTX-2.3 without a configuration", &set, "official",
              "with zeros around pictures and no shortcuts around upsamplers: "
              "assumed");
    const char *config = vae_tensor_file_metadata(set.file, "config");
    set.meta[set.n_meta++] = (VaeMetadata){"config", config};
    open_ltx2("LTX-2.3 with one", &set, "official", "stated by the file");
    set.meta[set.n_meta++] = (VaeMetadata){"variant", "ltx2.0"};
    open_ltx2("LTX-2.3 by another variant", &set, "official",
              "with reflections around pictures and shortcuts around "
              "upsamplers: by the variant given");
    vae_tensor_file_free(&set.file);
    load(&set, "ltx2_0");
    open_ltx2("LTX-2.0 without a configuration", &set, "official",
              "with reflections around pictures and shortcuts around "
              "upsamplers: assumed");
    set.meta[set.n_meta++] =
        (VaeMetadata){"config", "{\"_class_name\": \"AutoencoderKLLTX2Video\", "
                                "\"upsample_residual\": [false, false, false], "
                                "\"decoder_spatial_padding_mode\": \"zeros\"}"};
    open_ltx2("LTX-2.0 with another one", &set, "official",
              "with zeros around pictures and no shortcuts around upsamplers: "
              "stated by the file");
    vae_tensor_file_free(&set.file);
}

static void
test_ltx2_timestep(void)
{
    Set set;
    char plain[65], other[65];
    load(&set, "ltx2_0_timestep");
    open_ltx2("LTX-2 with a timestep", &set, "official",
              "the decoder, at timestep 0.05, with reflections");
    set.meta[0] = (VaeMetadata){"decode_timestep", "0"};
    set.n_meta = 1;
    open_ltx2("  which the file states", &set, "official", "at timestep 0,");
    ltx2_to_diffusers(&set);
    open_ltx2("  and with diffusers names", &set, "diffusers",
              "at timestep 0,");
    set.meta[0].value = "0";
    fingerprint(write_set(&set), plain);
    set.meta[0].value = "0.25";
    fingerprint(write_set(&set), other);
    check(strcmp(plain, other) != 0, "  and the fingerprint covers it", other);
    set.meta[0] = (VaeMetadata){"config", "{\"vae\": {\"_class_name\": "
                                          "\"CausalVideoAutoencoder\", "
                                          "\"decode_timestep\": 0.25}}"};
    open_ltx2("  which its configuration states", &set, "diffusers",
              "at timestep 0.25,");
    set.meta[0].value = "{\"decode_timestep\": \"soon\"}";
    expect_error("  as no number", &set, VAE_ERR_MODEL,
                 (const char *[]){"decode_timestep is nan", NULL});
    set.meta[1] = (VaeMetadata){"decode_timestep", "0.5"};
    set.n_meta = 2;
    open_ltx2("  unless the metadata do", &set, "diffusers",
              "at timestep 0.5,");
    set.n_meta = 1;
    set.meta[0] = (VaeMetadata){"decode_timestep", "2"};
    expect_error("  out of range", &set, VAE_ERR_MODEL,
                 (const char *[]){"decode_timestep is 2", NULL});
    set.meta[0].value = "0,05";
    expect_error("  no number", &set, VAE_ERR_MODEL,
                 (const char *[]){"decode_timestep is nan", NULL});
    drop_prefix(&set, "decoder.time_embedder.timestep_embedder.linear_1");
    set.n_meta = 0;
    expect_error("  without a part", &set, VAE_ERR_MODEL,
                 (const char *[]){"2 missing", "decoder.time_embedder", NULL});
    vae_tensor_file_free(&set.file);
}

/* A configuration that does not match the network is refused. */
static void
test_ltx2_refused(void)
{
    static const char *const configs[][2] = {
        {"{\"vae\": {\"_class_name\": \"CausalVideoAutoencoder\", "
         "\"norm_layer\": \"group_norm\"}}",
         "norm_layer is \"group_norm\""},
        {"{\"vae\": {\"_class_name\": \"CausalVideoAutoencoder\", "
         "\"encoder_blocks\": [[\"res_x\", 4], [\"attn_res_x\", {}]]}}",
         "encoder_blocks is \"attn_res_x\""},
        {"{\"vae\": {\"_class_name\": \"CausalVideoAutoencoder\", "
         "\"encoder_blocks\": [[\"compress_all\", {}]]}}",
         "expected res_x and compress_*_res"},
        {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
         "\"encoder_spatial_padding_mode\": \"reflect\"}",
         "encoder_spatial_padding_mode is \"reflect\""},
        {"{\"vae\": {\"_class_name\": \"CausalVideoAutoencoder\", "
         "\"causal_decoder\": true}}",
         "causal_decoder is \"true\""},
        {"{\"vae\": {\"_class_name\": \"CausalVideoAutoencoder\", "
         "\"decoder_blocks\": [[\"res_x\", {\"inject_noise\": true}]]}}",
         "decoder_blocks is \"inject_noise\""},
        {"{\"vae\": {\"_class_name\": \"CausalVideoAutoencoder\", "
         "\"spatial_padding_mode\": \"replicate\"}}",
         "spatial_padding_mode is \"replicate\""},
        {"{\"vae\": ", "JSON"}};
    Set set;
    load(&set, "ltx2_3");
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        VaeModel *model = NULL;
        VaeError error = {0};
        set.meta[0] = (VaeMetadata){"config", configs[i][0]};
        set.n_meta = 1;
        check(vae_model_open(write_set(&set), NULL, &model, &error) != VAE_OK &&
                  strstr(error.message, configs[i][1]),
              configs[i][1], error.message);
        vae_model_free(&model);
    }
    set.meta[0].value = "{\"vae\": {\"_class_name\": \"SomeTransformer\", "
                        "\"norm_layer\": \"layer_norm\"}}";
    open_ltx2("a configuration of another model", &set, "official", "names");
    set.n_meta = 0;
    find(&set, "encoder.down_blocks.3.conv.conv.bias")->dims[0] = 1;
    find(&set, "encoder.down_blocks.3.conv.conv.weight")->dims[0] = 5;
    find(&set, "encoder.down_blocks.3.conv.conv.weight")->dims[1] = 1;
    drop_prefix(&set, "encoder.down_blocks.3.conv.conv.bias");
    expect_error("a resampler of unknown factors", &set, VAE_ERR_MODEL,
                 (const char *[]){"encoder.down_blocks.3.conv.conv",
                                  "expected a ratio of 2, 4 or 8", NULL});
    vae_tensor_file_free(&set.file);
}

/* LightVAE is Wan2.1 with a quarter of its channels. */
static void
test_pruned(void)
{
    Set set = {0};
    VaeError error = {0};
    VaeModel *full, *model = NULL;
    const VaeTensorInfo *t;
    if (vae_model_outline("wan2.1", &full, &error) != VAE_OK)
        exit(1);
    while ((t = vae_model_tensor(full, set.n)) != NULL) {
        VaeTensorOut *o = &set.out[set.n++];
        size_t n = 1;
        *o = (VaeTensorOut){
            .name = t->name, .type = VAE_TYPE_F32, .n_dims = t->n_dims};
        for (int d = 0; d < t->n_dims; d++) {
            const bool width = t->dims[d] % 96 == 0;
            o->dims[d] = width ? t->dims[d] / 4 : t->dims[d];
            n *= (size_t) o->dims[d];
        }
        float *data = malloc(n * sizeof *data);
        vae_generate(o->name, o->dims, o->n_dims, data);
        o->data = data;
    }
    const char *path = write_set(&set);
    check(vae_model_open(path, NULL, &model, &error) == VAE_OK &&
              strcmp(vae_model_info(model)->arch, "wan2.1") == 0 &&
              strcmp(vae_model_info(model)->space, "wan2.1") == 0,
          "Wan2.1 with 25 % of its channels opens", error.message);
    float *frames = decode(path, &error);
    bool finite = frames != NULL;
    for (int i = 0; finite && i < 5 * 16 * 24 * 3; i++)
        finite = isfinite(frames[i]);
    check(finite, "and decodes", error.message);
    free(frames);
    for (size_t i = 0; i < set.n; i++)
        free((void *) set.out[i].data);
    vae_model_free(&model);
    vae_model_free(&full);
}

static void
test_stated(void)
{
    Set set;
    VaeError error = {0};
    VaeModel *model = NULL;
    load(&set, "seedvr2");
    set.n_meta = 0;
    expect_error("a missing group count that matters", &set, VAE_ERR_MODEL,
                 (const char *[]){"norm_num_groups", "32 groups", NULL});
    char config[512];
    snprintf(config, sizeof config, "%s/config.json", folder);
    FILE *f = fopen(config, "w");
    if (f) {
        fputs("{\"norm_num_groups\": 8, \"latents_mean\": [1,2,3,4,5,6,7,8,"
              "9,10,11,12,13,14,15,16]}",
              f);
        fclose(f);
    }
    check(vae_model_open(write_set(&set), NULL, &model, &error) == VAE_OK &&
              vae_model_info(model)->mean[15] == 16,
          "config.json states groups and statistics", error.message);
    vae_model_free(&model);
    unlink(config);
    set.meta[set.n_meta++] = (VaeMetadata){"norm_num_groups", "8"};
    set.meta[set.n_meta++] = (VaeMetadata){"scaling_factor", "0.5"};
    set.meta[set.n_meta++] = (VaeMetadata){"vae.latent_space", "mine"};
    check(vae_model_open(write_set(&set), NULL, &model, &error) == VAE_OK &&
              vae_model_info(model)->std[3] == 2 &&
              strcmp(vae_model_info(model)->space, "mine") == 0,
          "metadata states scale and space", error.message);
    vae_model_free(&model);
    set.meta[set.n_meta++] = (VaeMetadata){"vae.latents_std", "[1, 2]"};
    expect_error("statistics of a wrong length", &set, VAE_ERR_MODEL,
                 (const char *[]){"latents_std", "16", NULL});
    set.meta[set.n_meta - 1].value = "[1, 2";
    expect_error("statistics that are no JSON", &set, VAE_ERR_MODEL,
                 (const char *[]){"latents_std", "16", NULL});
    vae_tensor_file_free(&set.file);
}

int
main(int argc, char **argv)
{
    if (argc != 2 || !getenv("VAE_TEST_VECTORS") || !mkdtemp(folder))
        return 77;
    test_diffusers(argv[1]);
    test_old_attention_names();
    test_halves();
    test_mismatches();
    test_nearest();
    test_wrong_length("wan21");
    test_wrong_length("wan22");
    test_wrong_length("seedvr2");
    test_cut_short(VAE_BACKEND_REF, VAE_TYPE_F32);
    test_cut_short(VAE_BACKEND_CPU, VAE_TYPE_F32);
    test_cut_short(VAE_BACKEND_CPU, VAE_TYPE_BF16);
    test_fingerprint();
    test_variants();
    test_ltx_variants();
    test_ltx2_names();
    test_ltx2_decoders();
    test_ltx2_stated();
    test_ltx2_timestep();
    test_ltx2_refused();
    test_pruned();
    test_stated();
    char path[512];
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    unlink(path);
    rmdir(folder);
    return failures ? 1 : 0;
}
