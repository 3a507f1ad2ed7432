/*
 * test_hunyuan.c: the files of HunyuanVideo 1.0 and 1.5, and those of a network
 * with the same tensors.
 */
#include "weights_set.h"

/* Replaces the first `from` in the name. */
static void
replace(char *name, const char *from, const char *to)
{
    char rest[160];
    char *at = strstr(name, from);
    if (!at)
        return;
    snprintf(rest, sizeof rest, "%s", at + strlen(from));
    snprintf(at, sizeof set.names[0] - (size_t) (at - name), "%s%s", to, rest);
}

/* ComfyUI's names. It keeps the weights of attention as convolutions. */
static void
test_comfyui_names(void)
{
    static const char *const pairs[][2] = {
        {".mid_block.resnets.0.", ".mid.block_1."},
        {".mid_block.resnets.1.", ".mid.block_2."},
        {".mid_block.attentions.0.", ".mid.attn_1."},
        {".group_norm.", ".norm."},
        {".to_q.", ".q."},
        {".to_k.", ".k."},
        {".to_v.", ".v."},
        {".to_out.0.", ".proj_out."},
        {".conv_norm_out.", ".norm_out."},
        {".conv_shortcut.", ".nin_shortcut."},
        {".resnets.", ".block."},
        {".downsamplers.0.", ".downsample."},
        {".upsamplers.0.", ".upsample."},
        {".down_blocks.", ".down."},
        {".up_blocks.0.", ".up.c."},
        {".up_blocks.1.", ".up.b."},
        {".up_blocks.2.", ".up.1."},
        {".up_blocks.3.", ".up.0."},
        {".up.c.", ".up.3."},
        {".up.b.", ".up.2."}};
    VaeError error = {0};
    SCOPED_MODEL VaeModel *model = NULL;
    load("hunyuan10");
    for (size_t i = 0; i < set.n; i++) {
        VaeTensorOut *t = find(set.names[i]);
        if (t->n_dims == 2) {
            t->n_dims = 5;
            t->dims[2] = t->dims[3] = t->dims[4] = 1;
        }
        for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
            replace(set.names[i], pairs[k][0], pairs[k][1]);
    }
    const VaeStatus status = vae_model_open(write_set(), NULL, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(status == VAE_OK && strcmp(info->arch, "hunyuan1.0") == 0 &&
              strcmp(info->names, "ComfyUI") == 0 && !info->has_encoder &&
              info->delay == 13 && info->in_tiles,
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
    static const char *const pairs[][2] = {{".block_1.", ".resnets.0."},
                                           {".block_2.", ".resnets.1."},
                                           {".attn_1.q.", ".attn_1.to_q."},
                                           {".attn_1.k.", ".attn_1.to_k."},
                                           {".attn_1.v.", ".attn_1.to_v."},
                                           {".attn_1.", ".attentions.0."},
                                           {".mid.", ".mid_block."},
                                           {".block.", ".resnets."},
                                           {".downsample.", ".downsamplers.0."},
                                           {".upsample.", ".upsamplers.0."},
                                           {".down.", ".down_blocks."},
                                           {".up.", ".up_blocks."}};
    char path[512], plain[65], other[65] = "";
    VaeError error = {0};
    SCOPED_MODEL VaeModel *model = NULL;
    snprintf(path, sizeof path, "%s/hunyuan15/weights.safetensors",
             getenv("VAE_TEST_VECTORS"));
    fingerprint(path, plain);
    load("hunyuan15");
    for (size_t i = 0; i < set.n; i++)
        for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
            replace(set.names[i], pairs[k][0], pairs[k][1]);
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

void
test_hunyuan(void)
{
    test_comfyui_names();
    test_hunyuan_names();
    test_refiner();
}
