/*
 * test_hunyuan.c: the files of HunyuanVideo 1.0 and 1.5, and those of a network
 * with the same tensors.
 */
#include "weights_set.h"

/* Fails the program if the set lacks one of these names of a public file. */
static void
expect_names(const char *const *names)
{
    for (; *names; names++)
        find(*names);
}

/* ComfyUI's names. It keeps the weights of attention as convolutions. */
static void
test_comfyui_names(void)
{
    VaeError error = {0};
    SCOPED_MODEL VaeModel *model = NULL;
    load("hunyuan10");
    for (size_t i = 0; i < set.n; i++) {
        VaeTensorOut *t = find(set.names[i]);
        if (t->n_dims == 2) {
            t->n_dims = 5;
            t->dims[2] = t->dims[3] = t->dims[4] = 1;
        }
    }
    rename_set("hunyuan1.0", 1);
    expect_names(WORDS(
        "decoder.mid.block_2.conv1.conv.weight",
        "decoder.mid.attn_1.norm.weight", "decoder.mid.attn_1.q.weight",
        "decoder.mid.attn_1.proj_out.weight",
        "decoder.up.3.block.0.conv1.conv.weight",
        "decoder.up.1.block.0.nin_shortcut.conv.weight",
        "decoder.norm_out.weight", "encoder.down.1.downsample.conv.conv.weight",
        "encoder.down.2.block.0.nin_shortcut.conv.weight",
        "encoder.mid.attn_1.proj_out.weight"));
    const VaeStatus status = vae_model_open(write_set(), NULL, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(status == VAE_OK && strcmp(info->arch, "hunyuan1.0") == 0 &&
              strcmp(info->names, "ComfyUI") == 0 && info->has_encoder &&
              info->has_posterior && info->delay == 13 && info->in_tiles,
          "HunyuanVideo 1.0 with ComfyUI's names", error.message);
    find("decoder.up.2.upsample.conv.conv.bias")->dims[0] -= 1;
    expect_error("  and a bias of the wrong length", VAE_ERR_MODEL,
                 WORDS("decoder.up.2.upsample.conv.conv.bias is 15"));
    load("hunyuan10");
    set.meta[0] = (VaeMetadata){"norm_num_groups", "0"};
    expect_error("HunyuanVideo 1.0 with 0 groups", VAE_ERR_MODEL,
                 WORDS("norm_num_groups is 0"));
}

static void
test_hunyuan_names(void)
{
    char plain[65], other[65] = "";
    VaeError error = {0};
    SCOPED_MODEL VaeModel *model = NULL;
    fingerprint(golden("hunyuan15"), plain);
    load("hunyuan15");
    rename_set("hunyuan1.5", 1);
    expect_names(WORDS("encoder.down_blocks.0.resnets.1.conv1.conv.weight",
                       "encoder.down_blocks.0.downsamplers.0.conv.conv.weight",
                       "decoder.mid_block.resnets.1.norm1.gamma",
                       "decoder.mid_block.attentions.0.to_q.weight",
                       "decoder.mid_block.attentions.0.proj_out.weight",
                       "decoder.mid_block.attentions.0.norm.gamma",
                       "decoder.up_blocks.4.resnets.2.conv2.conv.bias"));
    check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK &&
              strcmp(vae_model_info(model)->names, "diffusers") == 0 &&
              vae_model_fingerprint(model, other, &error) == VAE_OK &&
              strcmp(plain, other) == 0,
          "HunyuanVideo 1.5 with diffusers names", error.message);
    find("decoder.up_blocks.1.upsamplers.0.conv.conv.bias")->dims[0] -= 1;
    expect_error(
        "  and a bias of the wrong length", VAE_ERR_MODEL,
        WORDS("decoder.up_blocks.1.upsamplers.0.conv.conv.bias is 63"));
}

/* Opens the set from a file of this name. */
static void
open_as(const char *file, const char *word)
{
    char path[512];
    VaeError error = {0};
    SCOPED_MODEL VaeModel *model = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (rename(write_set(), path) != 0)
        exit(1);
    vae_model_open(path, NULL, &model, &error);
    const char *text = model ? vae_model_info(model)->reason : error.message;
    check(strstr(text, word), file, text);
    remove(path);
}

/* The refiner of HunyuanImage has the same tensors. */
static void
test_refiner(void)
{
    load("hunyuan15");
    open_variant("HunyuanVideo 1.5 without a variant", NULL, VAE_OK,
                 "hunyuan1.5");
    open_variant("hunyuan1.5", "hunyuan1.5", VAE_OK, "hunyuan1.5");
    open_variant("the refiner by its name", "hunyuanimage-refiner",
                 VAE_ERR_MODEL, "HunyuanImage 2.1's refiner");
    open_as("hunyuanvideo15_vae_fp16.safetensors", "name of the file");
    open_as("hunyuan_image_refiner_vae_fp16.safetensors",
            "HunyuanImage 2.1's refiner");
    set.meta[set.n_meta++] = (VaeMetadata){
        "config", "{\"_class_name\": \"AutoencoderKLHunyuanImageRefiner\"}"};
    expect_error("the refiner by its class", VAE_ERR_MODEL,
                 WORDS("HunyuanImage 2.1's refiner", "HunyuanVideo 1.5"));
    set.meta[set.n_meta - 1].value =
        "{\"_class_name\": \"AutoencoderKLHunyuanVideo15\"}";
    open_as("hunyuan_image_refiner.safetensors", "and its _class_name");
}

/* The factor that a folder states is above that of the network. */
static void
test_factors(void)
{
    static const char *const models[] = {"hunyuan10", "hunyuan15"};
    for (int i = 0; i < 2; i++) {
        SCOPED_MODEL VaeModel *model = NULL;
        VaeError error = {0};
        load(models[i]);
        set.n_meta = 0;
        write_config("{\"norm_num_groups\": 4, \"scaling_factor\": 0.25}");
        check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK &&
                  vae_model_info(model)->std[3] == 4,
              "config.json states scaling_factor", error.message);
        write_config(NULL);
    }
}

void
test_hunyuan(void)
{
    test_comfyui_names();
    test_hunyuan_names();
    test_factors();
    test_refiner();
}
