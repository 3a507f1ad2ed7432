/*
 * diffvae.c: recognises LTX-2.5's decoder by names, shapes and the
 * configuration of the file.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "../video/diffvae.h"
#include "arch.h"

/* The released configuration, for what shapes do not show. */
static const VaeDiff released = {.z = 128,
                                 .patch = 4,
                                 .embedding = 384,
                                 .multiplier = 1000,
                                 .stages = {{2048, 4, {3, 7, 7}, 1, 2},
                                            {1024, 6, {3, 7, 7}, 2, 1},
                                            {512, 4, {3, 5, 5}, 2, 2},
                                            {512, 2, {3, 5, 5}, 2, 2},
                                            {256, 8, {11, 11, 11}, 1, 1}}};

/* ------------------------------------------------------------------ */
/* The configuration in the file.                                      */

static bool
refuse(VaeError *error, const char *key, const char *found,
       const char *expected)
{
    vae_fail(error, VAE_ERR_UNSUPPORTED,
             "%s is %s in the configuration, expected %s", key, found,
             expected);
    return false;
}

/* The value of the key in the decoder's part, else in the part `vae`. */
static const json_t *
find(const json_t *root, const char *key)
{
    const json_t *vae = json_object_get(root, "vae");
    const json_t *value = json_object_get(json_object_get(vae, "decoder"), key);
    return value ? value : json_object_get(vae, key);
}

/* Reads n whole numbers, each from 1 to 64. False if the list is another one.
 */
static bool
read_list(const json_t *list, int n, int *out)
{
    if ((int) json_array_size(list) != n)
        return false;
    for (int i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, (size_t) i);
        const json_int_t number = json_integer_value(value);
        if (number < 1 || number > 64)
            return false;
        out[i] = (int) number;
    }
    return true;
}

static bool
read_window(const json_t *list, VaeAttentionWindow *w)
{
    int k[3];
    if (!list)
        return true;
    if (!read_list(list, 3, k) || k[0] < 3 || !(k[0] & k[1] & k[2] & 1) ||
        k[1] * k[2] > VAE_WINDOW_KEYS)
        return false;
    *w = (VaeAttentionWindow){k[0], k[1], k[2]};
    return true;
}

static bool
read_windows(const json_t *root, VaeDiff *a, VaeError *error)
{
    const json_t *list = find(root, "stage_kernels");
    bool good = !list || json_array_size(list) >= VAE_DIFF_STAGES;
    for (size_t i = 0; i < VAE_DIFF_STAGES && good; i++)
        good = read_window(json_array_get(list, i), &a->stages[i].window);
    if (!good)
        return refuse(error, "stage_kernels", "another list",
                      "4 windows [frames, rows, columns] of odd sizes, at "
                      "least 3 frames and at most 121 pixels");
    if (!read_window(find(root, "stage5_kernel"),
                     &a->stages[VAE_DIFF_STAGES].window))
        return refuse(error, "stage5_kernel", "another list",
                      "[frames, rows, columns] of odd sizes, at least 3 frames "
                      "and at most 121 pixels");
    return true;
}

static bool
read_upsamples(const json_t *root, VaeDiff *a, VaeError *error)
{
    const json_t *list = find(root, "upsamples");
    for (size_t i = 0; list && i < VAE_DIFF_STAGES; i++) {
        int s[3];
        if (!read_list(json_array_get(json_array_get(list, i), 0), 3, s) ||
            s[0] > 2 || s[1] > 2 || s[1] != s[2])
            return refuse(error, "upsamples", "another list",
                          "4 strides [frames, rows, columns] of 1 or 2, the "
                          "same for rows and columns");
        a->stages[i].ft = s[0];
        a->stages[i].fs = s[1];
    }
    return true;
}

/* False if the number under the key is there and another one. */
static bool
expect(const json_t *root, const char *key, int only, VaeError *error)
{
    const json_t *value = find(root, key);
    char found[40], expected[24];
    if (!value || json_is_null(value) || json_number_value(value) == only)
        return true;
    snprintf(found, sizeof found, "%g", json_number_value(value));
    snprintf(expected, sizeof expected, "%d", only);
    return refuse(error, key, found, expected);
}

/* Versions of the network that the released one is not. */
static bool
check_kind(const json_t *root, VaeError *error)
{
    const json_t *type = find(root, "model_output_type");
    const char *text = json_is_string(type) ? json_string_value(type) : "";
    if (type && strcmp(text, "x0") != 0)
        return refuse(error, "model_output_type", text[0] ? text : "no text",
                      "x0");
    if (find(root, "stage5_channels"))
        return refuse(error, "stage5_channels", "stated", "no such key");
    return expect(root, "default_num_inference_steps", 1, error) &&
           expect(root, "num_inference_steps", 1, error) &&
           expect(root, "head_dim", VAE_WINDOW_HEAD, error);
}

static bool
read_config(const VaeModel *m, VaeDiff *a, VaeError *error)
{
    json_t *root = NULL;
    bool good = vae_model_config(m, &root, error);
    if (good && root) {
        const json_t *multiplier = find(root, "timestep_scale_multiplier");
        if (json_is_number(multiplier))
            a->multiplier = json_number_value(multiplier);
        good = check_kind(root, error) && read_windows(root, a, error) &&
               read_upsamples(root, a, error) &&
               expect(root, "patch_size", a->patch, error);
    }
    json_decref(root);
    return good;
}

/* ------------------------------------------------------------------ */
/* Shapes.                                                             */

static void
read_shapes(const VaeModel *m, VaeDiff *a)
{
    enum { MOST_BLOCKS = 64 };
    a->z = vae_model_dim(m, 1, "decoder.conv_in.weight");
    a->patch = vae_patch_side(vae_model_dim(m, 0, "decoder.conv_out.weight"));
    a->embedding = vae_model_dim(m, 0, "decoder.t_embedder.mlp.0.weight");
    a->gated = vae_model_find(m, "decoder.diff_blocks.0.gate_msa") != NULL;
    for (int i = 0; i <= VAE_DIFF_STAGES; i++) {
        const bool last = i == VAE_DIFF_STAGES;
        char path[40] = "decoder.diff_blocks";
        VaeDiffStage *stage = &a->stages[i];
        if (!last)
            snprintf(path, sizeof path, "decoder.det_stages.%d", i);
        stage->n = 0;
        while (stage->n < MOST_BLOCKS &&
               vae_model_has_block(m, "%s.%d.", path, stage->n))
            stage->n++;
        stage->c = vae_model_width(m, "%s.0.attn.proj", path);
    }
}

static bool
check_shapes(const VaeModel *m, const VaeDiff *a, VaeError *error)
{
    if (vae_model_has_block(m, "decoder.det_stages.0.0.attn.to_q.")) {
        vae_mismatch(error, VAE_ERR_UNSUPPORTED, NULL,
                     "the decoder has {diffusers' names} of tensors, such as "
                     "attn.to_q, expected {=those of the released file}, such "
                     "as attn.qkv");
        return false;
    }
    for (int i = 0; i <= VAE_DIFF_STAGES; i++)
        if (a->stages[i].n < 1 || a->stages[i].c < 1 ||
            a->stages[i].c % VAE_WINDOW_HEAD) {
            vae_fail(error, VAE_ERR_MODEL,
                     "stage %d of the decoder has %d blocks of %d channels, "
                     "expected at least one block of a multiple of %d channels",
                     i + 1, a->stages[i].n, a->stages[i].c, VAE_WINDOW_HEAD);
            return false;
        }
    if (a->z < 1 || a->z > VAE_MAX_LATENT_CHANNELS || !a->patch ||
        a->embedding < 1 || a->embedding > VAE_MODULATION_WIDTH)
        vae_fail(error, VAE_ERR_MODEL,
                 "decoder.conv_in.weight has %d inputs, "
                 "decoder.t_embedder.mlp.0.weight %d outputs, and "
                 "decoder.conv_out.weight patches of %dx%d pixels; expected 1 "
                 "to %d, 1 to %d and a side of 1 to 8",
                 a->z, a->embedding, a->patch, a->patch,
                 VAE_MAX_LATENT_CHANNELS, VAE_MODULATION_WIDTH);
    return error->status == VAE_OK;
}

/* Latents of which each stage has as many frames as its windows. */
static int
least_latents(const VaeDiff *a)
{
    int least = 1;
    for (int i = 0, rate = 1; i <= VAE_DIFF_STAGES; i++) {
        const int latents = (a->stages[i].window.kt + rate - 2) / rate + 1;
        least = latents > least ? latents : least;
        rate *= a->stages[i].ft;
    }
    return least;
}

static void
describe(VaeRecognise *r, const VaeDiff *a)
{
    int space = a->patch, time = 1;
    for (int i = 0; i < VAE_DIFF_STAGES; i++) {
        space *= a->stages[i].fs;
        time *= a->stages[i].ft;
    }
    const bool encodes = r->info->has_encoder;
    vae_describe_causal(r, "ltx2", a->z, space, time);
    r->info->has_posterior = encodes && a->ltx2.head > a->z;
    *r->least = least_latents(a);
}

/* ------------------------------------------------------------------ */

static bool
ignores(const VaeModelInfo *info, const char *name)
{
    return strncmp(name, "per_channel_statistics.", 23) == 0 ||
           strncmp(name, "decoder.coarse_", 15) == 0 ||
           strncmp(name, "decoder.type_emb", 16) == 0;
}

static bool
recognise(VaeRecognise *r, VaeError *error)
{
    VaeDiff *a = r->data;
    if (!vae_model_has_block(r->model, "decoder.diff_blocks.") &&
        !vae_model_has_block(r->model, "decoder.det_stages."))
        return false;
    *a = released;
    read_shapes(r->model, a);
    if (r->info->has_encoder)
        vae_ltx2_recognise(r, error);
    r->info->arch = r->arch->name;
    r->info->names = "official";
    r->info->reason = "decoder.det_stages, decoder.diff_blocks";
    r->info->has_decoder = true;
    if (error->status == VAE_OK && check_shapes(r->model, a, error) &&
        read_config(r->model, a, error))
        describe(r, a);
    return true;
}

static void
settings(const void *data, char *out, size_t size)
{
    const VaeDiff *a = data;
    int at = snprintf(out, size, "timestep %.17g windows", a->multiplier);
    for (int i = 0; i <= VAE_DIFF_STAGES && at < (int) size; i++) {
        const VaeDiffStage *s = &a->stages[i];
        at += snprintf(out + at, size - (size_t) at, " %dx%dx%d/%dx%d",
                       s->window.kt, s->window.kh, s->window.kw, s->ft, s->fs);
    }
}

static void
preset(VaeRecognise *r)
{
    *(VaeDiff *) r->data = released;
    r->info->has_decoder = true;
    r->info->has_encoder = false;
    r->info->reason = "generated";
    describe(r, r->data);
}

const VaeArch vae_arch_ltx2_5_diff = {.name = "ltx2.5_diff",
                                      .encode_by = "ltx2.3",
                                      .data_size = sizeof(VaeDiff),
                                      .mean = VAE_LTX2_MEAN,
                                      .std = VAE_LTX2_STD,
                                      .ignores = ignores,
                                      .recognise = recognise,
                                      .settings = settings,
                                      .preset = preset,
                                      .decode = vae_diff_decode,
                                      .encode = vae_ltx2_encode};
