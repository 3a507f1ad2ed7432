/*
 * test_ltx2.c: LTX-2's files: their variants, names, decoders, configurations
 * and timesteps.
 */
#include "weights_set.h"

static void
test_ltx_variants(void)
{
    load("taehv/taeltx2_3");
    open_variant("128 channels without a variant", NULL, VAE_OK, "taeltx_2");
    open_variant("taeltx_2", "taeltx_2", VAE_OK, "taeltx_2");
    open_variant("taeltx2_3", "taeltx2_3", VAE_OK, "taeltx2_3");
    load("taehv/taeltx2_3_wide");
    open_variant("wide blocks", "taeltx2_3_wide", VAE_OK, "taeltx2_3_wide");
    open_variant(
        "wide blocks, named without them", "taeltx2_3", VAE_ERR_MODEL,
        "set to taeltx2_3, but the weights are those of taeltx2_3_wide");
    open_variant("wide blocks as another variant", "taeltx_2", VAE_ERR_MODEL,
                 "variants that fit: taeltx2_3_wide");
    VaeModel *model = NULL;
    VaeError error = {0};
    check(vae_model_open(write_set(), NULL, &model, &error) == VAE_OK &&
              strcmp(vae_model_info(model)->arch, "taeltx2_3_wide") == 0 &&
              !strstr(vae_model_info(model)->reason, "assumed"),
          "wide blocks need no variant", error.message);
    vae_model_free(&model);
    VaeTensorOut *t = find("decoder.3.conv.2.weight");
    t->dims[0] = 6; /* the same bytes, groups of other sizes */
    t->dims[1] = 8;
    expect_error("groups that do not fit", VAE_ERR_MODEL,
                 WORDS("decoder.3.conv.2.weight is 6x8x3x3"));
}

static bool
has_prefix(const char *prefix)
{
    for (size_t i = 0; i < set.n; i++)
        if (strncmp(set.out[i].name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* Opens LTX-2's weights. Checks the model's name and a word of its reason. */
static void
open_ltx2(const char *what, const char *names, const char *reason)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    const VaeStatus status = vae_model_open(write_set(), NULL, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(status == VAE_OK && strcmp(info->names, names) == 0 &&
              strstr(info->reason, reason) && info->spatial == 32 &&
              info->temporal == 8 && strcmp(info->space, "ltx2") == 0 &&
              info->has_encoder != has_prefix("decoder.timestep_scale") &&
              info->std[0] > 0.5f && info->std[0] != 1,
          what, info ? info->reason : error.message);
}

/* Renames the tensors as diffusers does. */
static void
ltx2_to_diffusers(void)
{
    for (size_t i = 0; i < set.n; i++) {
        char *name = set.names[i], part[8], rest[96];
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

static void
test_ltx2_names(void)
{
    load("ltx2_0");
    drop_prefix("decoder.");
    open_ltx2("LTX-2.0, official names", "official", "names");
    add_tensor("per_channel_statistics.mean-of-stds");
    add_tensor("decoder.det_stages.0.weight");
    expect_error("a part of LTX-2.5's decoder", VAE_ERR_MODEL,
                 WORDS("stage 1 of the decoder has 0 blocks"));

    load("ltx2_3");
    drop_prefix("decoder.");
    add_prefix("vae.");
    add_tensor("model.diffusion_model.patchify_proj.weight");
    add_tensor("audio_vae.decoder.conv_in.conv.weight");
    open_ltx2("LTX-2.3 beside its diffusion model", "official",
              "prefix \"vae.\", 2 other tensors ignored");

    load("ltx2_3");
    ltx2_to_diffusers();
    drop_prefix("decoder.");
    open_ltx2("LTX-2.3, diffusers names", "diffusers", "names");
    set.meta[0] = (VaeMetadata){"variant", "ltx2.0"};
    set.n_meta = 1;
    open_variant("LTX-2.3's encoder by another variant", NULL, VAE_OK,
                 "ltx2.0");
}

/* Opens LTX-2.5's decoder with this configuration. */
static void
expect_config(const char *what, const char *decoder, const char *const *words)
{
    char config[300];
    load("ltx2_5_diff_time");
    snprintf(config, sizeof config, "{\"vae\": {\"decoder\": {%s}}}", decoder);
    set.meta[0] = (VaeMetadata){"config", config};
    set.n_meta = 1;
    expect_error(what, VAE_ERR_UNSUPPORTED, words);
}

enum { SIDE = 32 };

/* Decodes one latent of LTX-2.5 to one frame. */
static bool
decode_one(float out[SIDE * SIDE * 3], VaeError *error)
{
    static const float latent[8] = {1, -1, 0.5f, 2, -0.5f, 0, 1.5f, -2};
    const VaeStreamParams params = {.struct_size = sizeof params,
                                    .backend = VAE_BACKEND_REF,
                                    .slice_size = 1,
                                    .width = SIDE,
                                    .height = SIDE};
    const VaeLatentIn in = {VAE_TYPE_F32, latent};
    const VaePicture picture = {.pixels = VAE_PIXELS_RGB_F32,
                                .width = SIDE,
                                .height = SIDE,
                                .data = {(uint8_t *) out},
                                .stride = {SIDE * 3 * sizeof *out}};
    SCOPED_MODEL VaeModel *model = NULL;
    SCOPED_STREAM VaeStream *stream = NULL;
    return vae_model_open(write_set(), NULL, &model, error) == VAE_OK &&
           vae_stream_new(model, &params, &stream, error) == VAE_OK &&
           vae_stream_decode(stream, &in, 1, NULL, 0, error) == VAE_OK &&
           vae_stream_drain(stream, vae_stream_drain_count(stream, 0, NULL),
                            &picture, 1, error) == VAE_OK;
}

/* Multiplies a tensor of bf16 by 2, or by 1/2. */
static void
scale_tensor(const char *name, bool twice)
{
    enum { MOST = 64 * 256, EXPONENT = 0x80 };
    static uint16_t room[8][MOST]; /* of all calls */
    static int used;
    VaeTensorOut *t = find(name);
    size_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= (size_t) t->dims[i];
    uint16_t *to = room[used++];
    memcpy(to, t->data, n * sizeof *to);
    for (size_t i = 0; i < n; i++)
        to[i] = (uint16_t) (to[i] + (twice ? EXPONENT : -EXPONENT));
    t->data = to;
}

/* A gate multiplies a layer: a gate twice as large and weights half as large
 * give the same bytes. */
static void
test_ltx2_gates(void)
{
    static const char *const gates[][3] = {
        {"gate_msa", "attn.proj.weight", "attn.proj.bias"},
        {"gate_mlp", "mlp.w_down.weight", NULL},
        {"gate_ctx", "context_proj.weight", "context_proj.bias"}};
    static float want[SIDE * SIDE * 3], got[SIDE * SIDE * 3];
    VaeError error = {0};
    load("ltx2_5_diff_time");
    set.meta[set.n_meta++] = (VaeMetadata){
        "config", vae_tensor_file_metadata(set.files[0], "config")};
    bool good = decode_one(want, &error);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3 && gates[i][k]; k++) {
            char name[80];
            snprintf(name, sizeof name, "decoder.diff_blocks.0.%s",
                     gates[i][k]);
            scale_tensor(name, k == 0);
            good = good && decode_one(got, &error);
            const bool last = k == 2 || !gates[i][k + 1];
            check(good && (memcmp(want, got, sizeof want) == 0) == last,
                  last ? "  the same bytes" : name, error.message);
        }
}

/* LTX-2.5's decoder beside the encoder of LTX-2.3. */
static void
test_ltx2_diffusion(void)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    load("ltx2_5_diff_time");
    add_tensor("decoder.coarse_proj.weight");
    add_tensor("decoder.type_emb");
    set.meta[set.n_meta++] = (VaeMetadata){
        "config", vae_tensor_file_metadata(set.files[0], "config")};
    const VaeStatus status = vae_model_open(write_set(), NULL, &model, &error);
    const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
    check(status == VAE_OK && strcmp(info->arch, "ltx2.5_diff") == 0 &&
              info->has_encoder && info->has_decoder && info->has_posterior &&
              info->delay == 26 && info->look_ahead == 4 && info->held == 2,
          "LTX-2.5's decoder and its encoder", error.message);
    vae_model_free(&model);
    int steps = 0;
    const bool known =
        vae_model_outline("ltx2.5_diff", &model, &error) == VAE_OK &&
        vae_model_history(model, VAE_DECODE, &steps, &error) == VAE_OK;
    info = known ? vae_model_info(model) : NULL;
    check(known && steps == 18 && info->look_ahead == 18 &&
              info->delay == 140 && info->held == 5,
          "  released: 13 frames after 20 latents, 18 latents on each side",
          error.message);
    expect_config("two steps", "\"default_num_inference_steps\": 2",
                  WORDS("default_num_inference_steps is 2", "expected 1"));
    expect_config("another result", "\"model_output_type\": \"v\"",
                  WORDS("model_output_type is v", "expected x0"));
    expect_config("another width", "\"stage5_channels\": 128",
                  WORDS("stage5_channels"));
    expect_config("heads of another size", "\"head_dim\": 32",
                  WORDS("head_dim is 32", "expected 64"));
    expect_config("an even window", "\"stage5_kernel\": [4, 1, 1]",
                  WORDS("stage5_kernel", "odd sizes"));
    expect_config("windows missing", "\"stage_kernels\": [[3, 1, 1]]",
                  WORDS("stage_kernels", "4 windows"));
    expect_config("strides of 3", "\"upsamples\": [[[1, 3, 3], 2]]",
                  WORDS("upsamples", "1 or 2"));
    load("ltx2_5_diff_time");
    drop_prefix("decoder.diff_blocks.1.gate_mlp");
    expect_error("a gate missing", VAE_ERR_MODEL,
                 WORDS("missing", "decoder.diff_blocks.1.gate_mlp"));
}

static void
test_ltx2_decoders(void)
{
    static const struct {
        const char *set, *padding;
        int look_ahead, delay;
    } known[] = {{"ltx2_0", "with reflections around", 22, 173},
                 {"ltx2_3", "with zeros around", 14, 108}};
    for (int i = 0; i < 2; i++) {
        SCOPED_MODEL VaeModel *model = NULL;
        VaeError error = {0};
        load(known[i].set);
        open_ltx2("LTX-2 with its decoder", "official", known[i].padding);
        ltx2_to_diffusers();
        open_ltx2("  and with diffusers names", "diffusers", known[i].padding);
        const VaeStatus status =
            vae_model_open(write_set(), NULL, &model, &error);
        const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
        check(status == VAE_OK && info->look_ahead == known[i].look_ahead &&
                  info->delay == known[i].delay,
              "  has the delay of its convolutions", error.message);
    }
}

/* The decoder's padding and shortcuts come from the file, from the variant or
 * from an assumption. */
static void
test_ltx2_stated(void)
{
    load("ltx2_3");
    open_ltx2("LTX-2.3 without a configuration", "official",
              "with zeros around pictures and no shortcuts around upsamplers: "
              "assumed");
    const char *config = vae_tensor_file_metadata(set.files[0], "config");
    set.meta[set.n_meta++] = (VaeMetadata){"config", config};
    open_ltx2("LTX-2.3 with one", "official", "stated by the file");
    set.meta[set.n_meta++] = (VaeMetadata){"variant", "ltx2.0"};
    open_ltx2("LTX-2.3 by another variant", "official",
              "with reflections around pictures and shortcuts around "
              "upsamplers: by the variant given");
    load("ltx2_0");
    open_ltx2("LTX-2.0 without a configuration", "official",
              "with reflections around pictures and shortcuts around "
              "upsamplers: assumed");
    set.meta[set.n_meta++] =
        (VaeMetadata){"config", "{\"_class_name\": \"AutoencoderKLLTX2Video\", "
                                "\"upsample_residual\": [false, false, false], "
                                "\"decoder_spatial_padding_mode\": \"zeros\"}"};
    open_ltx2("LTX-2.0 with another one", "official",
              "with zeros around pictures and no shortcuts around upsamplers: "
              "stated by the file");
}

static void
test_ltx2_timestep(void)
{
    char plain[65], other[65];
    load("ltx2_0_timestep");
    open_ltx2("LTX-2 with a timestep", "official",
              "the decoder, at timestep 0.05, with reflections");
    set.meta[0] = (VaeMetadata){"decode_timestep", "0"};
    set.n_meta = 1;
    open_ltx2("  which the file states", "official", "at timestep 0,");
    ltx2_to_diffusers();
    open_ltx2("  and with diffusers names", "diffusers", "at timestep 0,");
    set.meta[0].value = "0";
    fingerprint(write_set(), plain);
    set.meta[0].value = "0.25";
    fingerprint(write_set(), other);
    check(strcmp(plain, other) != 0, "  and the fingerprint covers it", other);
    set.meta[0] = (VaeMetadata){"config", "{\"vae\": {\"_class_name\": "
                                          "\"CausalVideoAutoencoder\", "
                                          "\"decode_timestep\": 0.25}}"};
    open_ltx2("  which its configuration states", "diffusers",
              "at timestep 0.25,");
    set.meta[0].value = "{\"decode_timestep\": \"soon\"}";
    expect_error("  as no number", VAE_ERR_MODEL,
                 WORDS("decode_timestep is nan"));
    set.meta[1] = (VaeMetadata){"decode_timestep", "0.5"};
    set.n_meta = 2;
    open_ltx2("  unless the metadata do", "diffusers", "at timestep 0.5,");
    set.n_meta = 1;
    set.meta[0] = (VaeMetadata){"decode_timestep", "2"};
    expect_error("  out of range", VAE_ERR_MODEL,
                 WORDS("decode_timestep is 2"));
    set.meta[0].value = "0,05";
    expect_error("  no number", VAE_ERR_MODEL, WORDS("decode_timestep is nan"));
    drop_prefix("decoder.time_embedder.timestep_embedder.linear_1");
    set.n_meta = 0;
    expect_error("  without a part", VAE_ERR_MODEL,
                 WORDS("2 missing", "decoder.time_embedder"));
}

/* Configurations that do not match the network, and words of the error. */
static const char *const bad_configs[][2] = {
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
    {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
     "\"decoder_spatial_padding_mode\": 1}",
     "decoder_spatial_padding_mode is \"not a text\""},
    {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
     "\"encoder_causal\": false}",
     "encoder_causal is \"false\""},
    {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
     "\"upsample_residual\": [true, true, true]}",
     "upsample_residual has 3 in the configuration; expected 4, the "
     "upsamplers of decoder.up_blocks"},
    {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
     "\"upsample_residual\": true}",
     "upsample_residual has 0 "},
    {"{\"vae\": {\"_class_name\": \"CausalVideoAutoencoder\", "
     "\"decoder_blocks\": [[\"res_x\", 4], [\"compress_all\", {}], "
     "[\"res_x\", 4]]}}",
     "decoder_blocks has 3 in the configuration; expected 9, the blocks of "
     "decoder.up_blocks"},
    {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
     "\"latent_channels\": 128}",
     "latent_channels has 128 in the configuration; expected 6"},
    {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
     "\"patch_size\": 2}",
     "patch_size has 2 in the configuration; expected 4"},
    {"{\"_class_name\": \"AutoencoderKLLTX2Video\", "
     "\"timestep_conditioning\": true}",
     "the file has no decoder.timestep_scale_multiplier"},
    {"{\"vae\": ", "JSON"}};

static void
test_ltx2_bad_configs(void)
{
    load("ltx2_3");
    for (size_t i = 0; i < sizeof bad_configs / sizeof *bad_configs; i++) {
        SCOPED_MODEL VaeModel *model = NULL;
        VaeError error = {0};
        set.meta[0] = (VaeMetadata){"config", bad_configs[i][0]};
        set.n_meta = 1;
        check(vae_model_open(write_set(), NULL, &model, &error) != VAE_OK &&
                  strstr(error.message, bad_configs[i][1]),
              bad_configs[i][1], error.message);
    }
}

/* A configuration of another model is ignored. */
static void
test_ltx2_other_config(void)
{
    load("ltx2_3");
    set.meta[0] = (VaeMetadata){"config", "{\"vae\": {\"_class_name\": "
                                          "\"SomeTransformer\", "
                                          "\"norm_layer\": \"layer_norm\"}}"};
    set.n_meta = 1;
    open_ltx2("a configuration of another model", "official", "names");
}

static void
test_ltx2_bad_resampler(void)
{
    load("ltx2_3");
    set.n_meta = 0;
    find("encoder.down_blocks.3.conv.conv.bias")->dims[0] = 1;
    find("encoder.down_blocks.3.conv.conv.weight")->dims[0] = 5;
    find("encoder.down_blocks.3.conv.conv.weight")->dims[1] = 1;
    drop_prefix("encoder.down_blocks.3.conv.conv.bias");
    expect_error("a resampler of unknown factors", VAE_ERR_MODEL,
                 WORDS("encoder.down_blocks.3.conv.conv",
                       "expected a ratio of 2, 4 or 8"));
}

void
test_ltx2(void)
{
    test_ltx_variants();
    test_ltx2_names();
    test_ltx2_diffusion();
    test_ltx2_gates();
    test_ltx2_decoders();
    test_ltx2_stated();
    test_ltx2_timestep();
    test_ltx2_bad_configs();
    test_ltx2_other_config();
    test_ltx2_bad_resampler();
}
