/*
 * test_image.c: recognises the networks of images.
 */
#include <math.h>

#include "weights_set.h"

/* Fills the set with generated weights of the network; widths that are
 * multiples of `width` become those of `narrow`. Free them with
 * free_generated(). */
static void
generate(const char *arch, int width, int narrow)
{
    SCOPED_MODEL VaeModel *full = NULL;
    VaeError error;
    const VaeTensorInfo *t;
    clear_set();
    if (vae_model_outline(arch, &full, &error) != VAE_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    while ((t = vae_model_tensor(full, set.n)) != NULL) {
        VaeTensorOut *o = &set.out[set.n];
        size_t n = 1;
        snprintf(set.names[set.n], sizeof set.names[0], "%s", t->name);
        *o = (VaeTensorOut){.name = set.names[set.n],
                            .type = VAE_TYPE_F32,
                            .n_dims = t->n_dims};
        for (int d = 0; d < t->n_dims; d++) {
            o->dims[d] =
                t->dims[d] % width ? t->dims[d] : t->dims[d] / width * narrow;
            n *= (size_t) o->dims[d];
        }
        float *data = malloc(n * sizeof *data);
        vae_generate(o->name, o->dims, o->n_dims, data);
        o->data = data;
        set.n++;
    }
}

static void
free_generated(void)
{
    for (size_t i = 0; i < set.n; i++)
        free((void *) set.out[i].data);
    clear_set();
}

/* Opens the set under the name of a file. */
static VaeModel *
open_as(const char *name, VaeError *error)
{
    VaeModel *model = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (rename(write_set(), path) != 0)
        exit(1);
    vae_model_open(path, NULL, &model, error);
    remove(path);
    return model;
}

/* Equal shapes: the variant stated decides, or the factor, or the file's name.
 */
static void
test_equal_shapes(void)
{
    static const struct {
        const char *weights, *file, *arch, *by, *key, *value;
    } rows[] = {
        {"taesd", "w.safetensors", "taesd", "variant taesd assumed"},
        {"taesd", "taesdxl_decoder.safetensors", "taesdxl", "name of the file"},
        {"taesd", "sd.safetensors", "taesd", "name of the file"},
        {"taesdxl", "sdxl.safetensors", "taesdxl", "name of the file"},
        {"taesdxl", "sdxl-taesd.safetensors", "taesdxl", "name of the file"},
        {"taesdxl", "taesd-sdxl.safetensors", "taesdxl", "name of the file"},
        {"taesd", "my-taesd-sd.safetensors", "taesd", "name of the file"},
        {"taesd", "taesd.safetensors", "taesdxl", "variant stated",
         "vae.variant", "taesdxl"},
        {"taesd3", "w.safetensors", "taef1", "variant taef1 assumed"},
        {"taef1", "taesd3.safetensors", "taesd3", "name of the file"},
        {"taef1", "flux-taesd3.safetensors", "taef1", "assumed"},
        {"taef2", "taesd.safetensors", "taef2", "shapes"},
        {"taesana", "taesd.safetensors", "taesana", "shapes"},
        {"sdxl", "w.safetensors", "sd", "variant sd assumed"},
        {"sd", "sdxl_vae.safetensors", "sdxl", "name of the file"},
        {"sd", "my_xl.safetensors", "sdxl", "name of the file"},
        {"sdxl", "sd_xl_base_1.0.safetensors", "sdxl", "name of the file"},
        {"sdxl", "sdXL_v10VAEFix.safetensors", "sdxl", "name of the file"},
        {"sd", "vae-sd-35000.safetensors", "sd", "name of the file"},
        {"sdxl", "dreamsXL_sd.safetensors", "sd", "variant sd assumed"},
        {"sd3", "SD3-vae.safetensors", "sd3", "name of the file"},
        {"sd", "w.safetensors", "sdxl", "shapes", "scaling_factor", "0.13025"},
        {"sd", "w.safetensors", "sd", "variant stated", "vae.variant", "sd"},
        {"sd3", "ae.safetensors", "flux1", "variant flux1 assumed"},
        {"flux1", "sd3_vae.safetensors", "sd3", "name of the file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        VaeError error = {0};
        const bool tiny = rows[i].weights[0] == 't';
        generate(rows[i].weights, tiny ? 64 : 128, tiny ? 4 : 32);
        if (rows[i].key)
            set.meta[set.n_meta++] = (VaeMetadata){rows[i].key, rows[i].value};
        SCOPED_MODEL VaeModel *model = open_as(rows[i].file, &error);
        const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
        check(info && strcmp(info->arch, rows[i].arch) == 0 &&
                  strstr(info->reason, rows[i].by),
              rows[i].file, info ? info->reason : error.message);
        free_generated();
    }
}

/* A variant does not replace a factor that no variant has. */
static void
test_factor(void)
{
    static const struct {
        const char *stated;
        double factor;
    } rows[] = {{"0.5", 0.5}, {"0.13025", 0.18215}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        VaeError error = {0};
        generate("sd", 128, 32);
        set.meta[set.n_meta++] = (VaeMetadata){"vae.variant", "sd"};
        set.meta[set.n_meta++] =
            (VaeMetadata){"scaling_factor", rows[i].stated};
        SCOPED_MODEL VaeModel *model = open_as("w.safetensors", &error);
        check(model &&
                  fabs((double) vae_model_info(model)->std[0] * rows[i].factor -
                       1) < 1e-6,
              rows[i].stated, model ? "another factor" : error.message);
        free_generated();
    }
}

/* fp16 is refused, unless the file says that its weights allow it. */
static void
test_fp16(void)
{
    static const struct {
        const char *file, *upcast;
        bool refused;
    } rows[] = {{"w.safetensors", NULL, true},
                {"w.safetensors", "true", true},
                {"w.safetensors", "false", false},
                {"sdxl-vae-fp16-fix.safetensors", NULL, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const VaeStreamParams params = {.struct_size = sizeof params,
                                        .backend = VAE_BACKEND_REF,
                                        .precision = VAE_PRECISION_FP16,
                                        .width = 16,
                                        .height = 16};
        VaeStream *stream = NULL;
        VaeError error = {0};
        generate("sdxl", 128, 32);
        if (rows[i].upcast)
            set.meta[set.n_meta++] =
                (VaeMetadata){"force_upcast", rows[i].upcast};
        SCOPED_MODEL VaeModel *model = open_as(rows[i].file, &error);
        check(model &&
                  vae_stream_new(model, &params, &stream, &error) != VAE_OK &&
                  (strstr(error.message, "65504") != NULL) == rows[i].refused,
              rows[i].refused ? "fp16 overflows" : "fp16 is allowed",
              error.message);
        free_generated();
    }
}

/* The name of an official tensor elsewhere: side, number and rest. shift: less
 * in the number of the decoder's layers. */
static void
rename_tiny(const char *before, const char *after, bool bare, int shift)
{
    for (size_t i = 0; i < set.n; i++) {
        char *name = (char *) set.out[i].name, old[160], *rest;
        snprintf(old, sizeof old, "%s", name);
        const long index = strtol(old + 8, &rest, 10);
        snprintf(name, sizeof set.names[0], "%s%.*s%s%ld%s", before,
                 bare ? 0 : 8, old, after, index - (old[0] == 'd' ? shift : 0),
                 rest);
    }
}

/* Names of other projects give the same tensors, and so the same fingerprint.
 */
static void
test_tiny_names(void)
{
    static const struct {
        const char *what, *model, *before, *after, *without;
        bool bare;
        int shift;
    } rows[] = {
        {"diffusers", "taef2", "", "layers.", "none.", false, 1},
        {"ComfyUI", "taef2", "taesd_", "", "none.", false, 0},
        {"a decoder", "taef2", "", "", "encoder.", true, 0},
        {"an encoder", "taef2", "", "", "decoder.", true, 0},
        {"a decoder of TAEHV", "taehv/taew2_1", "", "", "encoder.", true, 0},
        {"an encoder of TAEHV", "taehv/taew2_1", "", "", "decoder.", true, 0},
        {"other blocks", "taehv/taew2_2_super", "", "", "encoder.", true, 0},
    };
    static const float one = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char want[65], got[65];
        load(rows[i].model);
        drop_prefix(rows[i].without);
        fingerprint(write_set(), want);
        rename_tiny(rows[i].before, rows[i].after, rows[i].bare, rows[i].shift);
        if (rows[i].before[0])
            set.out[set.n++] = (VaeTensorOut){
                .name = "vae_scale", .type = VAE_TYPE_F32, .data = &one};
        fingerprint(write_set(), got);
        check(want[0] && strcmp(want, got) == 0, rows[i].what, NULL);
    }
}

/* Writes half of a network under its bare official names. */
static const char *
write_half(const char *model, const char *name, const char *without)
{
    static char path[512];
    load(model);
    drop_prefix(without);
    rename_tiny("", "", true, 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (rename(write_set(), path) != 0)
        exit(1);
    return path;
}

static void
expect_pair_error(const char *what, const char *path, const char *word)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    check(vae_model_open(path, NULL, &model, &error) != VAE_OK &&
              strstr(error.message, word),
          what, error.message);
}

/* Two files for one model: a comma between them, or their folder. */
static void
test_pair(void)
{
    char want[65], got[65], both[1200], second[512], third[512];
    load("taef2");
    fingerprint(write_set(), want);
    remove(write_set());
    snprintf(second, sizeof second, "%s",
             write_half("taef2", "t_decoder.safetensors", "encoder."));
    const char *first =
        write_half("taef2", "t_encoder.safetensors", "decoder.");
    snprintf(both, sizeof both, "%s,%s", second, first);
    fingerprint(both, got);
    check(strcmp(got, want) == 0, "a decoder and an encoder, by a comma", NULL);
    fingerprint(folder, got);
    check(strcmp(got, want) == 0, "both in a folder", NULL);
    snprintf(both, sizeof both, "%s,%s/none.pth", second, folder);
    expect_pair_error("one of two is missing", both, "none.pth");
    snprintf(both, sizeof both, "%s,%s", second, second);
    expect_pair_error("a decoder twice", both, "names one file twice");
    snprintf(third, sizeof third, "%s/half.safetensors", folder);
    rename(first, third);
    snprintf(both, sizeof both, "%s,%s", second, third);
    expect_pair_error("a name without a half", both, "half.safetensors");
    write_half("taef2", "t_encoder.safetensors", "decoder.");
    write_half("taef2", "u_encoder.safetensors", "decoder.");
    rename(third, write_half("taef2", "u_decoder.safetensors", "encoder."));
    expect_pair_error("two pairs in a folder", folder, "2 pairs");
    static const char *const names[] = {"t_encoder", "t_decoder", "u_encoder",
                                        "u_decoder"};
    for (int i = 0; i < 4; i++) {
        snprintf(both, sizeof both, "%s/%s.safetensors", folder, names[i]);
        remove(both);
    }
}

/* Halves of two networks, also of equal shapes. */
static void
test_mixed_pairs(void)
{
    static const struct {
        const char *model, *encoder, *other, *decoder, *words;
    } rows[] = {
        {"taef2", "a_encoder.pth", "taehv/taew2_1", "b_decoder.pth",
         "a_encoder.pth is the encoder of taef2, and "},
        {"taef2", "a_encoder.pth", "taehv/taew2_1", "b_decoder.pth",
         "b_decoder.pth is the decoder of taew2_1; expected"},
        {"taehv/taew2_1", "taehv_encoder.pth", "taehv/taew2_1",
         "taecvx_decoder.pth",
         "taehv_encoder.pth is the encoder of taehv, and "},
        {"taehv/taew2_1", "encoder", "taehv/taew2_1", "taecvx_decoder", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char first[512], second[512], both[1200];
        snprintf(first, sizeof first, "%s",
                 write_half(rows[i].model, rows[i].encoder, "decoder."));
        snprintf(second, sizeof second, "%s",
                 write_half(rows[i].other, rows[i].decoder, "encoder."));
        snprintf(both, sizeof both, "%s,%s", first, second);
        if (rows[i].words) {
            expect_pair_error("halves of two networks", both, rows[i].words);
            expect_pair_error("both in a folder", folder, rows[i].words);
        } else {
            SCOPED_MODEL VaeModel *model = NULL;
            VaeError error = {0};
            check(vae_model_open(both, NULL, &model, &error) == VAE_OK &&
                      strcmp(vae_model_info(model)->arch, "taecvx") == 0,
                  "one file names the network", error.message);
        }
        remove(first);
        remove(second);
    }
}

/* ComfyUI's file has Wan's official names, and kernels of one frame. */
static void
test_qwen_names(void)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    const VaeTensorInfo *t;
    char want[65], got[65];
    clear_set();
    fingerprint(golden("qwenimage21"), want);
    vae_model_open(golden("qwenimage21"), NULL, &model, &error);
    check(model && vae_model_info(model)->tensor_count == 238 - 12,
          "convolutions over time are not used", error.message);
    while (model && (t = vae_model_tensor(model, set.n)) != NULL) {
        VaeTensorOut *o = &set.out[set.n];
        const bool kernel = strstr(t->name, "residual.") && t->n_dims == 4;
        snprintf(set.names[set.n], sizeof set.names[0], "%s", t->name);
        *o = (VaeTensorOut){.name = set.names[set.n++],
                            .type = t->type,
                            .n_dims = t->n_dims + kernel,
                            .data = t->data};
        for (int d = 0; d < o->n_dims; d++)
            o->dims[d] = kernel && d == 2 ? 1 : t->dims[d - (kernel && d > 2)];
    }
    fingerprint(write_set(), got);
    check(strcmp(got, want) == 0, "ComfyUI's names of Qwen-Image-2.1", NULL);
    VaeTensorOut *wrong = find("decoder.middle.0.residual.2.weight");
    wrong->dims[2] = 3;
    wrong->dims[3] = 1;
    expect_error("a kernel of three frames", VAE_ERR_MODEL,
                 WORDS("decoder.middle.0.residual.2.weight", "x3x1x3"));
    clear_set();
}

/* The fast decoder of MAGI-2, as a training keeps it. */
static void
test_magi(void)
{
    char want[65], got[65];
    load("magi2_turbo");
    fingerprint(write_set(), want);
    for (size_t i = 0; i < set.n; i++) {
        char *name = (char *) set.out[i].name;
        memmove(name, name + 8, strlen(name + 8) + 1);
    }
    fingerprint(write_set(), got);
    check(strcmp(got, want) == 0, "names without decoder.", NULL);
    add_prefix("module.");
    add_tensor("module.discriminator.weight");
    fingerprint(write_set(), got);
    check(strcmp(got, want) == 0, "other tensors of a training", NULL);
    load("magi2_turbo");
    set.meta[set.n_meta++] = (VaeMetadata){"resnet_norm_eps", "1e-5"};
    fingerprint(write_set(), got);
    check(strcmp(got, want) != 0, "another eps, another fingerprint", NULL);
    set.meta[set.n_meta++] = (VaeMetadata){"step_size", "16"};
    expect_error("windows of another size", VAE_ERR_MODEL,
                 WORDS("step_size is 16, expected 1 to 15"));
    load("magi2_turbo_dw");
    find("decoder.mid_block.resnets.0.conv1.depthwise_conv.weight")->dims[2] =
        7;
    expect_error("other depthwise convolutions", VAE_ERR_UNSUPPORTED,
                 WORDS("7 taps on each axis", "3 or 5"));
    load("magi2_turbo");
    drop_prefix("decoder.up_blocks.1.resnets.1.conv2.");
    expect_error(
        "a missing convolution", VAE_ERR_MODEL,
        WORDS("missing", "decoder.up_blocks.1.resnets.1.conv2.conv.weight"));
    clear_set();
}

/* A configuration of a network that is not the one here; no words: it is. */
static void
test_fixed(void)
{
    static const struct {
        const char *model, *config, *key, *values;
    } rows[] = {
        {"sd", "{\"act_fn\": \"relu\"}", "act_fn",
         "relu; gst-vae has silu only"},
        {"sd", "{\"mid_block_add_attention\": false}",
         "mid_block_add_attention", "false; gst-vae has true only"},
        {"kl_flux2", "{\"batch_norm_eps\": 0.5}", "batch_norm_eps",
         "0.5; gst-vae has 0.0001 only"},
        {"kl_flux2", "{\"batch_norm_eps\": 1e-4, \"patch_size\": [2, 2]}"},
        {"hunyuan10", "{\"act_fn\": \"relu\"}", "act_fn",
         "relu; gst-vae has silu only"},
        {"hunyuan10", "{\"temporal_compression_ratio\": 8}",
         "temporal_compression_ratio", "8; gst-vae has 4 only"},
        {"taef2", "{\"act_fn\": \"gelu\"}", "act_fn",
         "gelu; gst-vae has relu only"},
        {"taef2", "{\"upsample_fn\": \"bilinear\"}", "upsample_fn",
         "bilinear; gst-vae has nearest only"},
        {"taef2", "{\"upsampling_scaling_factor\": 4}",
         "upsampling_scaling_factor", "4; gst-vae has 2 only"},
        {"wan21",
         "{\"_class_name\": \"AutoencoderKLWan\", "
         "\"patch_size\": 2}",
         "patch_size", "2; gst-vae has null only"},
        {"wan21", "{\"_class_name\": \"AutoencoderKLWan\", "
                  "\"patch_size\": null}"},
        {"wan21", "{\"_class_name\": \"WanModel\", \"patch_size\": 2}"},
        {"wan22", "{\"patch_size\": null}", "patch_size",
         "null; gst-vae has 2 only"},
        {"wan22", "{\"patch_size\": 2}"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        VaeError error = {0};
        SCOPED_MODEL VaeModel *model = NULL;
        const bool generated = strcmp(rows[i].model, "sd") == 0;
        if (generated)
            generate("sd", 128, 32);
        else
            load(rows[i].model);
        write_config(rows[i].config);
        if (rows[i].key)
            expect_error(
                rows[i].config, VAE_ERR_MODEL,
                WORDS("config.json states", rows[i].key, rows[i].values));
        else
            check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK,
                  rows[i].config, error.message);
        if (generated)
            free_generated();
    }
    write_config(NULL);
}

void
test_image(void)
{
    test_magi();
    test_qwen_names();
    test_pair();
    test_mixed_pairs();
    test_equal_shapes();
    test_factor();
    test_fp16();
    test_fixed();
    test_tiny_names();
    load("taef2");
    find("decoder.3.pool.1.weight")->dims[0]--;
    expect_error("a gain too short", VAE_ERR_MODEL,
                 WORDS("decoder.3.pool.1.weight", "47", "48"));
    load("kl_flux2");
    find("bn.running_var")->dims[0]--;
    expect_error("a statistic too short", VAE_ERR_MODEL,
                 WORDS("bn.running_var", "127", "128"));
    load("taef2");
    drop_prefix("encoder.7.");
    expect_error("a missing block", VAE_ERR_MODEL,
                 WORDS("missing", "encoder.7.conv.0.weight"));
}
