/*
 * ltx2.c: recognises LTX-2's weights by names, shapes and their configuration.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "ltx2.h"

enum { OFFICIAL, DIFFUSERS };

/* The encoder's last block, which diffusers calls mid_block, in all files. */
enum { MID_DOWN = 8 };

/* The name after "down_blocks." or "up_blocks.", block n. */
static void
rename_block(bool enc, int n, const char *rest, char *out)
{
    const bool mid = enc ? n == MID_DOWN : n == 0;
    const int i = enc ? n / 2 : (n - 1) / 2;
    const char *list = enc ? "down_blocks" : "up_blocks";
    if (mid)
        out += sprintf(out, "mid_block.");
    else
        out += sprintf(out, "%s.%d.", list, i);
    if (n % 2)
        sprintf(out, "%s.0.%s", enc ? "downsamplers" : "upsamplers", rest);
    else if (strncmp(rest, "res_blocks.", 11) == 0)
        sprintf(out, "resnets.%s", rest + 11);
    else
        strcpy(out, rest);
}

bool
vae_ltx2_rename(int naming, const char *name, char *out)
{
    if (strlen(name) < 8 || strlen(name) > 200)
        return false;
    const bool enc = strncmp(name, "encoder.", 8) == 0;
    int n, end = 0;
    if (strcmp(name, VAE_LTX2_MEAN) == 0)
        strcpy(out, "latents_mean");
    else if (strcmp(name, VAE_LTX2_STD) == 0)
        strcpy(out, "latents_std");
    else if (strncmp(name + 8, "last_", 5) == 0)
        sprintf(out, "decoder.%s", name + 13);
    else if (sscanf(name + 8, enc ? "down_blocks.%d.%n" : "up_blocks.%d.%n", &n,
                    &end) == 1 &&
             end) {
        memcpy(out, name, 8);
        rename_block(enc, n, name + 8 + end, out + 8);
    } else {
        strcpy(out, name);
    }
    return true;
}

/* Tensors beside the network: further statistics, and a decoder of another
 * kind. */
bool
vae_ltx2_ignores(const VaeModelInfo *info, const char *name)
{
    static const char statistics[] = "per_channel_statistics.";
    return strncmp(name, statistics, strlen(statistics)) == 0 ||
           (!info->has_decoder && strncmp(name, "decoder.", 8) == 0);
}

/* ------------------------------------------------------------------ */
/* Shapes.                                                             */

static int
res_width(const VaeModel *m, const char *list, int block, int j)
{
    return vae_model_likelier(
        m, vae_model_width(m, "%s.%d.res_blocks.%d.conv1.conv", list, block, j),
        vae_model_width(m, "%s.%d.res_blocks.%d.conv2.conv", list, block, j));
}

/* The factors of a resampler, from the channels between which it moves pixels
 * and frames. */
static bool
set_factors(VaeLtx2Stage *stage, int deep, int flat)
{
    const int block = flat > 0 && deep % flat == 0 ? deep / flat : 0;
    stage->ft = block == 2 || block == 8 ? 2 : 1;
    stage->fs = block == 4 || block == 8 ? 2 : 1;
    return block == 2 || block == 4 || block == 8;
}

static bool
read_side(const VaeModel *m, bool enc, VaeLtx2Side *side, VaeError *error)
{
    const char *list = enc ? "encoder.down_blocks" : "decoder.up_blocks";
    int out = 0;
    for (int i = 0; i < VAE_LTX2_STAGES; i++) {
        VaeLtx2Stage *stage = &side->stages[i];
        while (stage->n_res < 32 &&
               vae_model_has_block(m, "%s.%d.res_blocks.%d.", list, 2 * i,
                                   stage->n_res))
            stage->n_res++;
        stage->c = res_width(m, list, 2 * i, 0);
        const int deep = enc ? stage->c : out, flat = enc ? out : stage->c;
        if (i > 0 && !set_factors(stage - 1, deep, flat)) {
            vae_fail(error, VAE_ERR_MODEL,
                     "%s.%d.conv.conv makes %d channels for residual blocks "
                     "of %d; expected a ratio of 2, 4 or 8",
                     list, 2 * i - 1, out, stage->c);
            return false;
        }
        side->n = i + 1;
        out = vae_model_width(m, "%s.%d.conv.conv", list, 2 * i + 1);
        if (!out)
            return true;
    }
    vae_fail(error, VAE_ERR_MODEL, "more than %d stages in %s", VAE_LTX2_STAGES,
             list);
    return false;
}

/* Latent channels, the encoder's result and the patches. */
static bool
read_ends(VaeRecognise *r, VaeLtx2 *a, VaeError *error)
{
    const VaeModel *m = r->model;
    const bool enc = r->info->has_encoder, dec = r->info->has_decoder;
    a->z = vae_model_dim(m, 0, VAE_LTX2_MEAN);
    if (!a->z)
        a->z = vae_model_dim(m, 1, "decoder.conv_in.conv.weight");
    a->head = vae_model_width(m, "encoder.conv_out.conv");
    a->patch = vae_patch_side(
        dec ? vae_model_width(m, "decoder.conv_out.conv")
            : vae_model_dim(m, 1, "encoder.conv_in.conv.weight"));
    if (a->z < 1 || a->z > VAE_MAX_LATENT_CHANNELS)
        vae_fail(error, VAE_ERR_MODEL,
                 VAE_LTX2_MEAN " does not state 1 to %d latent channels",
                 VAE_MAX_LATENT_CHANNELS);
    else if (enc && a->head != a->z && a->head != a->z + 1 &&
             a->head != 2 * a->z)
        vae_fail(error, VAE_ERR_MODEL,
                 "encoder.conv_out.conv makes %d channels, expected %d means "
                 "and no, one or %d log-variances",
                 a->head, a->z, a->z);
    else if (!a->patch &&
             (dec || vae_model_needs(m, "encoder.conv_in.conv.weight", error)))
        vae_fail(error, VAE_ERR_MODEL,
                 "the pixels of %s are no square patches of three colours",
                 dec ? "decoder.conv_out.conv" : "encoder.conv_in.conv");
    return error->status == VAE_OK;
}

/* ------------------------------------------------------------------ */
/* The configuration in the file.                                      */

static bool
refuse(VaeError *error, const char *key, const char *found,
       const char *expected)
{
    vae_fail(error, VAE_ERR_UNSUPPORTED,
             "%s is \"%s\" in the configuration, which is not supported; "
             "expected %s",
             key, found, expected);
    return false;
}

/* False if the text under that key is neither of two. */
static bool
expect(const json_t *vae, const char *key, const char *one, const char *other,
       VaeError *error)
{
    const json_t *value = json_object_get(vae, key);
    const char *text =
        json_is_string(value) ? json_string_value(value) : "not a text";
    char expected[80];
    if (!value || json_is_null(value) || strcmp(text, one) == 0 ||
        (other && strcmp(text, other) == 0))
        return true;
    snprintf(expected, sizeof expected, "%s%s%s", one, other ? " or " : "",
             other ? other : "");
    return refuse(error, key, text, expected);
}

/* False if the configuration has another number, or a list of another length,
 * than the tensors have. */
static bool
agrees(const json_t *vae, const char *key, int n, const char *what,
       VaeError *error)
{
    const json_t *value = json_object_get(vae, key);
    const json_int_t found = json_is_array(value)
                                 ? (json_int_t) json_array_size(value)
                                 : json_integer_value(value);
    if (!value || json_is_null(value) || found == n)
        return true;
    vae_fail(error, VAE_ERR_MODEL,
             "%s has %" JSON_INTEGER_FORMAT
             " in the configuration; expected %d, the %s",
             key, found, n, what);
    return false;
}

/* Values that the tensors show, too. */
static bool
check_shapes(const json_t *vae, const VaeLtx2 *a, VaeError *error)
{
    if (json_is_true(json_object_get(vae, "timestep_conditioning")) &&
        !a->timed) {
        vae_fail(error, VAE_ERR_MODEL,
                 "timestep_conditioning is true in the configuration, but the "
                 "file has no " VAE_LTX2_MULTIPLIER);
        return false;
    }
    return agrees(vae, "latent_channels", a->z,
                  "channels of decoder.conv_in.conv.weight", error) &&
           agrees(vae, "patch_size", a->patch,
                  "side of the patches of decoder.conv_out.conv.weight",
                  error) &&
           agrees(vae, "decoder_blocks", 2 * a->dec.n - 1,
                  "blocks of decoder.up_blocks", error) &&
           agrees(vae, "upsample_residual", a->dec.n - 1,
                  "upsamplers of decoder.up_blocks", error);
}

/* Item i of a list of the configuration that is in the order of the encoder, as
 * the decoder runs. */
static const json_t *
reversed(const json_t *list, size_t i)
{
    const size_t n = json_array_size(list);
    return i < n ? json_array_get(list, n - 1 - i) : NULL;
}

/* Blocks that this network does not have, or that add noise. */
static bool
check_blocks(const json_t *vae, bool enc, VaeError *error)
{
    static const char *const known[2][4] = {
        {"res_x", "compress_space", "compress_time", "compress_all"},
        {"res_x", "compress_space_res", "compress_time_res",
         "compress_all_res"}};
    const char *key = enc ? "encoder_blocks" : "decoder_blocks";
    const json_t *list = json_object_get(vae, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *block = json_array_get(list, i);
        const json_t *name = json_array_get(block, 0);
        const json_t *with = json_array_get(block, 1);
        const char *text = json_is_string(name) ? json_string_value(name) : "";
        int k = 0;
        while (k < 4 && strcmp(text, known[enc][k]) != 0)
            k++;
        if (k == 4)
            return refuse(error, key, text,
                          enc ? "res_x and compress_*_res"
                              : "res_x and compress_*");
        if (json_is_true(json_object_get(with, "inject_noise")))
            return refuse(error, key, "inject_noise", "no noise");
    }
    return true;
}

/* The shortcuts of the decoder's upsamplers, true where the file states
 * them. */
static bool
read_shortcuts(const json_t *vae, VaeLtx2Side *dec)
{
    const json_t *blocks = json_object_get(vae, "decoder_blocks");
    const json_t *list = json_object_get(vae, "upsample_residual");
    for (int i = 0; i + 1 < dec->n; i++) {
        const json_t *block = reversed(blocks, 2 * (size_t) i + 1);
        const json_t *flag =
            list ? reversed(list, (size_t) i)
                 : json_object_get(json_array_get(block, 1), "residual");
        dec->stages[i].shortcut = json_is_true(flag);
    }
    return blocks || list;
}

static bool
check_decoder(const json_t *vae, VaeLtx2 *a, VaeError *error)
{
    static const char old[] = "decoder_spatial_padding_mode";
    const char *key = json_object_get(vae, old) ? old : "spatial_padding_mode";
    const json_t *noise = json_object_get(vae, "decoder_inject_noise");
    const char *pad = json_string_value(json_object_get(vae, key));
    a->reflect = !pad || strcmp(pad, "reflect") == 0;
    for (size_t i = 0; i < json_array_size(noise); i++)
        if (json_is_true(json_array_get(noise, i)))
            return refuse(error, "decoder_inject_noise", "true", "false");
    if (json_is_true(json_object_get(vae, "causal_decoder")))
        return refuse(error, "causal_decoder", "true", "false");
    if (json_is_true(json_object_get(vae, "decoder_causal")))
        return refuse(error, "decoder_causal", "true", "false");
    return check_blocks(vae, false, error) &&
           expect(vae, key, "reflect", "zeros", error);
}

/* Reads the configuration of this network, and sets *stated if it has the
 * decoder's padding and shortcuts. False on an error. */
static bool
read_config(VaeRecognise *r, VaeLtx2 *a, const json_t *root, bool *stated,
            VaeError *error)
{
    const json_t *inner = json_object_get(root, "vae");
    const json_t *vae = inner ? inner : root;
    const char *class = json_string_value(json_object_get(vae, "_class_name"));
    *stated = false;
    if (!class || (strcmp(class, "CausalVideoAutoencoder") != 0 &&
                   strcmp(class, "CausalDiffusionVAE") != 0 &&
                   strcmp(class, "AutoencoderKLLTX2Video") != 0))
        return true; /* of another model beside this one */
    const char *logvar =
        json_string_value(json_object_get(vae, "latent_log_var"));
    r->info->has_posterior =
        r->info->has_posterior && (!logvar || strcmp(logvar, "constant") != 0);
    if (!expect(vae, "norm_layer", "pixel_norm", NULL, error))
        return false;
    if (r->info->has_encoder &&
        (!check_blocks(vae, true, error) ||
         !expect(vae, "encoder_spatial_padding_mode", "zeros", NULL, error)))
        return false;
    if (r->info->has_encoder &&
        json_is_false(json_object_get(vae, "encoder_causal")))
        return refuse(error, "encoder_causal", "false", "true");
    if (!r->info->has_decoder)
        return true;
    *stated = read_shortcuts(vae, &a->dec);
    return check_decoder(vae, a, error) && check_shapes(vae, a, error);
}

/* ------------------------------------------------------------------ */

static bool
is_2_0(const VaeRecognise *r, const VaeLtx2 *a)
{
    const VaeLtx2Side *enc = &a->enc;
    if (r->info->has_decoder)
        return a->dec.n <= 4;
    return enc->n < 2 || enc->stages[enc->n - 1].c != enc->stages[enc->n - 2].c;
}

/* Sets the name and, unless the file states them or `variant` decides, the
 * decoder's padding and shortcuts of that version. */
static void
choose(VaeRecognise *r, VaeLtx2 *a, bool stated)
{
    const char *variant = vae_model_variant(r->model);
    bool old = is_2_0(r, a);
    const bool given = variant && (strcmp(variant, "ltx2.0") == 0 ||
                                   strcmp(variant, "ltx2.3") == 0);
    if (given)
        old = strcmp(variant, "ltx2.0") == 0;
    r->info->arch = old ? "ltx2.0" : "ltx2.3";
    if (!stated || given) {
        a->reflect = old;
        for (int i = 0; i + 1 < a->dec.n; i++)
            a->dec.stages[i].shortcut = old;
    }
    const char *by = given    ? "by the variant given"
                     : stated ? "stated by the file"
                              : "assumed, the variant ltx2.0 or ltx2.3 sets it";
    char timed[40] = "";
    if (a->timed)
        snprintf(timed, sizeof timed, ", at timestep %g,", a->timestep);
    if (r->info->has_decoder)
        snprintf(a->reason, sizeof a->reason,
                 "names of its blocks and shapes; the decoder%s with %s around "
                 "pictures and %s: %s",
                 timed, a->reflect ? "reflections" : "zeros",
                 a->dec.stages[0].shortcut ? "shortcuts around upsamplers"
                                           : "no shortcuts around upsamplers",
                 by);
    else if (!a->reason[0])
        snprintf(a->reason, sizeof a->reason, "names of its blocks and shapes");
}

static void
product(const VaeLtx2Side *side, int *space, int *time)
{
    *space = *time = 1;
    for (int i = 0; i + 1 < side->n; i++) {
        *space *= side->stages[i].fs;
        *time *= side->stages[i].ft;
    }
}

static bool
describe(VaeRecognise *r, VaeLtx2 *a, VaeError *error)
{
    int space[2], time[2];
    VaeModelInfo *info = r->info;
    product(&a->enc, &space[0], &time[0]);
    product(&a->dec, &space[1], &time[1]);
    if (info->has_decoder && info->has_encoder &&
        (space[0] != space[1] || time[0] != time[1])) {
        vae_fail(error, VAE_ERR_MODEL,
                 "the encoder has %dx%d pixels and %d frames per latent, the "
                 "decoder %dx%d and %d",
                 a->patch * space[0], a->patch * space[0], time[0],
                 a->patch * space[1], a->patch * space[1], time[1]);
        return false;
    }
    const int side = info->has_decoder;
    vae_describe_causal(r, "ltx2", a->z, a->patch * space[side], time[side]);
    info->has_posterior = info->has_encoder && a->head > a->z;
    info->reason = a->reason;
    return true;
}

/* The decoder of LTX-2.5's other file, see diffvae.c. */
static bool
has_diffusion(const VaeModel *m)
{
    return vae_model_has_block(m, "decoder.det_stages.") ||
           vae_model_has_block(m, "decoder.diff_blocks.");
}

/* The naming whose first residual block the file has, or a decoder that is a
 * diffusion model; -1: none. */
static int
find_naming(VaeRecognise *r)
{
    for (int i = OFFICIAL; i <= DIFFUSERS; i++) {
        *r->naming = i;
        if (vae_model_find(r->model,
                           "encoder.down_blocks.0.res_blocks.0.conv1.conv."
                           "weight") ||
            vae_model_find(r->model, "decoder.up_blocks.0.res_blocks.0.conv1."
                                     "conv.weight") ||
            has_diffusion(r->model))
            return i;
    }
    return -1;
}

static void
find_sides(VaeRecognise *r, VaeLtx2 *a)
{
    const VaeModel *m = r->model;
    const bool diffusion = has_diffusion(m);
    r->info->has_encoder =
        r->arch->encode && vae_model_has_block(m, "encoder.");
    r->info->has_decoder =
        r->arch->decode && vae_model_has_block(m, "decoder.") && !diffusion;
}

/* The number under that key of the configuration, of its part `vae` first; NaN
 * if it is none. It stays as it is where neither has the key. */
static void
read_number(const json_t *root, const char *key, double *out)
{
    const json_t *value = json_object_get(json_object_get(root, "vae"), key);
    if (!value || json_is_null(value))
        value = json_object_get(root, key);
    if (value && !json_is_null(value))
        *out = json_is_number(value) ? json_number_value(value) : (double) NAN;
}

/* A file whose decoder also takes the time of the diffusion: that of the
 * official code, unless the file states another one. */
static bool
read_timestep(const VaeRecognise *r, VaeLtx2 *a, const json_t *root,
              VaeError *error)
{
    double t = 0.05;
    a->timed = r->info->has_decoder &&
               vae_model_find(r->model, VAE_LTX2_MULTIPLIER) != NULL;
    read_number(root, "decode_timestep", &t);
    vae_model_meta_number(r->model, "decode_timestep", &t);
    if (a->timed && !(t >= 0 && t <= 1))
        vae_fail(error, VAE_ERR_MODEL, "decode_timestep is %g, expected 0 to 1",
                 t);
    a->timestep = t;
    return error->status == VAE_OK;
}

bool
vae_ltx2_recognise(VaeRecognise *r, VaeError *error)
{
    VaeLtx2 *a = r->data;
    json_t *root = NULL;
    bool stated = false;
    const int naming = find_naming(r);
    if (naming < 0)
        return false;
    r->info->names = naming == DIFFUSERS ? "diffusers" : "official";
    find_sides(r, a);
    if (vae_model_config(r->model, &root, error) &&
        read_timestep(r, a, root, error) && read_ends(r, a, error) &&
        (!r->info->has_encoder || read_side(r->model, true, &a->enc, error)) &&
        (!r->info->has_decoder || read_side(r->model, false, &a->dec, error)) &&
        describe(r, a, error) && read_config(r, a, root, &stated, error))
        choose(r, a, stated);
    json_decref(root);
    return true;
}

void
vae_ltx2_settings(const void *data, char *out, size_t size)
{
    const VaeLtx2 *a = data;
    char shortcuts[VAE_LTX2_STAGES + 1] = "";
    out[0] = '\0';
    for (int i = 0; i + 1 < a->dec.n; i++)
        shortcuts[i] = a->dec.stages[i].shortcut ? '1' : '0';
    if (a->dec.n)
        snprintf(out, size, "padding %s shortcuts %s timestep %.17g\n",
                 a->reflect ? "reflect" : "zeros", shortcuts,
                 a->timed ? a->timestep : 0);
}

/* ------------------------------------------------------------------ */
/* The released configurations.                                        */

void
vae_ltx2_preset(VaeRecognise *r)
{
    static const VaeLtx2Side enc_2_0 = {5,
                                        {{128, 4, 1, 2, true},
                                         {256, 6, 2, 1, true},
                                         {512, 6, 2, 2, true},
                                         {1024, 2, 2, 2, true},
                                         {2048, 2, 1, 1, false}}},
                             dec_2_0 = {4,
                                        {{1024, 5, 2, 2, true},
                                         {512, 5, 2, 2, true},
                                         {256, 5, 2, 2, true},
                                         {128, 5, 1, 1, false}}},
                             dec_2_3 = {5,
                                        {{1024, 2, 2, 2, false},
                                         {512, 2, 2, 2, false},
                                         {512, 4, 2, 1, false},
                                         {256, 6, 1, 2, false},
                                         {128, 4, 1, 1, false}}};
    VaeLtx2 *a = r->data;
    VaeError error = {0};
    const bool old = strcmp(r->arch->name, "ltx2.0") == 0;
    *a = (VaeLtx2){.z = 128,
                   .patch = 4,
                   .head = 129,
                   .reflect = old,
                   .enc = enc_2_0,
                   .dec = old ? dec_2_0 : dec_2_3,
                   .reason = "generated"};
    if (!old) {
        a->enc.stages[2].n_res = 4;
        a->enc.stages[4].c = 1024;
    }
    describe(r, a, &error);
}
