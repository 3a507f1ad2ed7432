/*
 * test_model.c: recognises models by their tensors and refuses faulty files
 * with a clear error. The test writes the small golden weights under other
 * names and with faults, and opens them.
 */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights_set.h"

static void
expect_same(const char *what, const char *model)
{
    VaeError error = {0};
    SCOPED_BLOCK float *a = decode(golden(model), 1, &error);
    SCOPED_BLOCK float *b = decode(write_set(), 1, &error);
    const size_t bytes = sizeof(float) * 5 * 16 * 24 * 3;
    check(a && b && memcmp(a, b, bytes) == 0, what, b ? NULL : error.message);
}

static void
test_diffusers(const char *tsv)
{
    load("wan21");
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
    expect_same("diffusers names decode to the same bytes", "wan21");
}

static void
test_old_attention_names(void)
{
    load("seedvr2");
    rename_set("seedvr2", 1);
    find("decoder.mid_block.attentions.0.query.weight");
    find("encoder.mid_block.attentions.0.proj_attn.bias");
    expect_same("old attention names decode to the same bytes", "seedvr2");
}

/* A VAE inside a larger file is the VAE of a file of its own. */
static void
test_prefixes(void)
{
    enum { OTHERS = 2000 };
    static const char *const prefixes[] = {"vae.",       "first_stage_model.",
                                           "module.",    "model.",
                                           "_orig_mod.", "model.vae."};
    static const char *const models[] = {"wan21", "wan22", "seedvr2", "ltx2_0",
                                         "taehv/taew2_1"};
    for (size_t k = 0; k < 6 + 4; k++) {
        char plain[65], part[65], words[80], name[64];
        const char *from = models[k < 6 ? 0 : k - 5];
        const char *prefix = prefixes[k % 6];
        VaeError error = {0};
        SCOPED_MODEL VaeModel *model = NULL;
        fingerprint(golden(from), plain);
        load(from);
        add_prefix(prefix);
        for (int i = 0; i < OTHERS; i++) {
            snprintf(name, sizeof name, "transformer.%d.encoder.q", i);
            add_tensor(name);
        }
        snprintf(words, sizeof words, "\"%s\", %d other tensors ignored",
                 prefix, OTHERS);
        vae_model_open(write_set(), NULL, &model, &error);
        const char *reason = model ? vae_model_info(model)->reason : "";
        check(model && strstr(reason, words) &&
                  vae_model_fingerprint(model, part, &error) == VAE_OK &&
                  strcmp(plain, part) == 0,
              from, model ? reason : error.message);
    }
    load("wan21");
    add_prefix("vae.");
    find("vae.decoder.head.2.weight")->dims[2] = 1;
    find("vae.decoder.head.2.weight")->dims[0] = 9;
    strcpy((char *) find("vae.encoder.conv1.bias")->name, "vae.encoder.odd");
    expect_error("errors name the tensors as in the file", VAE_ERR_MODEL,
                 WORDS("(vae.encoder.conv1.bias)", "(vae.encoder.odd)",
                       "(vae.decoder.head.2.weight is 9x8x1x3x3"));
    load("wan21");
    drop_prefix("conv");
    add_prefix("my.own.");
    add_tensor("text.encoder.q");
    expect_error("a prefix that is not known", VAE_ERR_MODEL,
                 WORDS("the prefix \"my.own.\" of its tensors is not known; "
                       "if they are a VAE, set variant to the prefix; known "
                       "are vae., first_stage_model., ",
                       "_orig_mod."));
}

/* What training leaves beside a network is ignored, also under its prefix. Any
 * other tensor is an error. */
static void
test_training(void)
{
    static const char *const names[] = {"loss.discriminator.w",
                                        "ema.conv1.bias", "model_ema.decay",
                                        "discriminator.w"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int k = 0; k < 2; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", k ? "model." : "", names[i]);
            load("wan21");
            add_prefix(k ? "model." : "");
            add_tensor(name);
            expect_same(name, "wan21");
        }
    load("wan21");
    add_tensor("fish.w");
    expect_error("a tensor of no network", VAE_ERR_MODEL,
                 WORDS("1 not part of it (fish.w)"));
}

/* float64 weights that hold float32 numbers. */
static void
test_wide(void)
{
    static const char *const models[] = {"wan21", "seedvr2", "taehv/taew2_1"};
    for (int k = 0; k < 3; k++) {
        load(models[k]);
        size_t bytes = 0;
        for (size_t i = 0; i < set.n; i++)
            bytes += 2 * (size_t) vae_tensor_file_at(set.files[0], i)->bytes;
        SCOPED_BLOCK float *doubles = malloc(bytes);
        double *at = (double *) (void *) doubles;
        for (size_t i = 0; i < set.n; i++) {
            const VaeTensorInfo *t = vae_tensor_file_at(set.files[0], i);
            set.out[i].type = VAE_TYPE_F64;
            set.out[i].data = at;
            for (size_t j = 0; j < t->bytes / sizeof(float); j++)
                *at++ = (double) ((const float *) t->data)[j];
        }
        expect_same("float64 weights decode to the same bytes", models[k]);
    }
}

static void
test_halves(void)
{
    VaeError error = {0};
    SCOPED_MODEL VaeModel *model = NULL;
    load("wan21");
    drop_prefix("encoder.");
    drop_prefix("conv1.");
    check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK &&
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
    error.message[0] = '\0';
    load("seedvr2");
    drop_prefix("decoder.");
    check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK &&
              !vae_model_info(model)->has_decoder &&
              vae_model_info(model)->has_encoder &&
              vae_model_info(model)->latent_channels == 16,
          "an encoder alone opens", error.message);
}

static void
test_mismatches(void)
{
    load("wan21");
    drop_prefix("decoder.middle.0.residual.3.");
    VaeTensorOut *t = find("decoder.head.2.weight");
    t->dims[0] = 9; /* same bytes, another shape */
    t->dims[2] = 1;
    t = find("encoder.conv1.bias");
    strcpy((char *) t->name, "encoder.conv9.bias");
    expect_error("missing, wrong and extra tensors are named", VAE_ERR_MODEL,
                 WORDS("wan2.1", "2 missing",
                       "decoder.middle.0.residual.3.gamma",
                       "decoder.head.2.weight is 9x8x1x3x3, "
                       "expected 3x8x3x3x3",
                       "encoder.conv9.bias"));

    load("wan21");
    for (size_t i = 0; i < set.n; i++)
        memcpy(set.names[i], "q", 1);
    expect_error("weights of no known model", VAE_ERR_MODEL,
                 WORDS("no known VAE", "it holds 194 tensors"));
    load("wan21");
    set.n = 1;
    t = &set.out[0];
    strcpy((char *) t->name, "latent");
    for (; t->n_dims < 4; t->n_dims++)
        t->dims[t->n_dims] = 1;
    expect_error("latents", VAE_ERR_MODEL,
                 WORDS("no known VAE (looks like latents)", "(latent)"));

    load("wan21");
    t = find("decoder.conv1.weight");
    t->type = VAE_TYPE_U8;
    t->dims[0] *= 4;
    expect_error("weights of a type that is no float", VAE_ERR_MODEL,
                 WORDS("decoder.conv1.weight"));
}

/* Shortens each vector of a model by one, except those whose name contains
 * `unused`. The error names only this vector. */
static void
test_wrong_length(const char *model, const char *unused)
{
    int others = 0, vectors = 0;
    load(model);
    for (size_t i = 0; i < set.n; i++) {
        SCOPED_MODEL VaeModel *none = NULL;
        VaeError error = {0};
        char words[200];
        if (set.out[i].n_dims != 1 || (unused && strstr(set.names[i], unused)))
            continue;
        vectors++;
        set.out[i].dims[0]--;
        vae_model_open(write_set(), NULL, &none, &error);
        snprintf(words, sizeof words, "1 of the wrong shape or type (%s is %d,",
                 set.names[i], (int) set.out[i].dims[0]);
        if (!strstr(error.message, words)) {
            others++;
            printf("%s\n", error.message);
        }
        set.out[i].dims[0]++;
    }
    check(vectors > 0 && others == 0, "a vector of the wrong length is named",
          model);
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
    SCOPED_STREAM VaeStream *stream = NULL;
    const VaeStatus status = vae_stream_new(model, &params, &stream, error);
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
    load("wan21");
    const char *path = write_set();
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
    load("seedvr2");
    for (size_t i = 0; i < set.n; i++)
        if (strstr(set.names[i], "mid_block") || strstr(set.names[i], "up_"))
            memcpy(set.names[i], "q", 1);
    expect_error("the nearest model and what differs", VAE_ERR_MODEL,
                 WORDS("no known VAE", "nearest is seedvr2", "250 tensors",
                       "missing", "not part of it", "qncoder.mid_block"));
}

/* LightVAE is Wan2.1 with a quarter of its channels. */
static void
test_pruned(void)
{
    VaeError error = {0};
    SCOPED_MODEL VaeModel *full = NULL, *model = NULL;
    const VaeTensorInfo *t;
    clear_set();
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
    const char *path = write_set();
    check(vae_model_open(path, NULL, &model, &error) == VAE_OK &&
              strcmp(vae_model_info(model)->arch, "wan2.1") == 0 &&
              strcmp(vae_model_info(model)->space, "wan2.1") == 0,
          "Wan2.1 with 25 % of its channels opens", error.message);
    float *frames = decode(path, 1, &error);
    bool finite = frames != NULL;
    for (int i = 0; finite && i < 5 * 16 * 24 * 3; i++)
        finite = isfinite(frames[i]);
    check(finite, "and decodes", error.message);
    free(frames);
    for (size_t i = 0; i < set.n; i++)
        free((void *) set.out[i].data);
}

static void
test_stated(void)
{
    VaeError error = {0};
    VaeModel *model = NULL;
    load("seedvr2");
    set.n_meta = 0;
    expect_error("a missing group count that matters", VAE_ERR_MODEL,
                 WORDS("norm_num_groups", "32 groups"));
    write_config("{\"norm_num_groups\": 8, \"latents_std\": null, "
                 "\"latents_mean\": [1,2,3,4,5,6,7,8,"
                 "9,10,11,12,13,14,15,16]}");
    check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK &&
              vae_model_info(model)->mean[15] == 16,
          "config.json states groups and statistics", error.message);
    vae_model_free(&model);
    write_config(NULL);
    set.meta[set.n_meta++] = (VaeMetadata){"norm_num_groups", "8"};
    set.meta[set.n_meta++] = (VaeMetadata){"scaling_factor", "0.5"};
    set.meta[set.n_meta++] = (VaeMetadata){"vae.latent_space", "mine"};
    check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK &&
              vae_model_info(model)->std[3] == 2 &&
              strcmp(vae_model_info(model)->space, "mine") == 0,
          "metadata states scale and space", error.message);
    vae_model_free(&model);
    set.meta[set.n_meta++] = (VaeMetadata){"vae.latents_std", "[1, 2]"};
    expect_error("statistics of a wrong length", VAE_ERR_MODEL,
                 WORDS("latents_std", "16"));
    set.meta[set.n_meta - 1].value = "[1, 2";
    expect_error("statistics that are no JSON", VAE_ERR_MODEL,
                 WORDS("latents_std", "16"));
}

int
main(int argc, char **argv)
{
    static const char *const networks[] = {
        "wan21", "wan22",    "seedvr2",     "hunyuan15",
        "taef2", "kl_flux2", "magi2_turbo", "ltx2_5_diff"};
    if (argc != 2 || !getenv("VAE_TEST_VECTORS") || !mkdtemp(folder))
        return 77;
    test_diffusers(argv[1]);
    test_old_attention_names();
    test_prefixes();
    test_training();
    test_layers();
    test_wide();
    test_halves();
    test_mismatches();
    test_nearest();
    test_missing();
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        test_wrong_length(networks[i], NULL);
    test_wrong_length("qwenimage21", ".time_conv.");
    test_cut_short(VAE_BACKEND_REF, VAE_TYPE_F32);
    test_cut_short(VAE_BACKEND_CPU, VAE_TYPE_F32);
    test_cut_short(VAE_BACKEND_CPU, VAE_TYPE_BF16);
    test_fingerprint();
    test_choice();
    test_ltx2();
    test_hunyuan();
    test_image();
    test_memory();
    test_pruned();
    test_stated();
    clear_set();
    char path[512];
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    unlink(path);
    rmdir(folder);
    return failures ? 1 : 0;
}
