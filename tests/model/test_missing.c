/*
 * test_missing.c: an error about weights without one of their tensors names
 * this tensor.
 */
#include "weights_set.h"

/* Describes the tensors of the set without one. */
static bool
describe(void *user, size_t i, VaeTensorInfo *out)
{
    const size_t *removed = user;
    const size_t k = i + (i >= *removed);
    if (k >= set.n)
        return false;
    const VaeTensorOut *t = &set.out[k];
    out->name = t->name;
    out->type = t->type;
    out->n_dims = t->n_dims;
    out->data = t->data;
    memcpy(out->dims, t->dims, sizeof t->dims);
    return true;
}

static bool
names_removed(size_t i)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    const VaeTensorList list = {.struct_size = sizeof list,
                                .name = "w",
                                .tensor = describe,
                                .user = &i,
                                .metadata = set.meta,
                                .n_metadata = set.n_meta};
    vae_model_open_tensors(&list, NULL, &model, &error);
    const bool good = error.status == VAE_ERR_MODEL &&
                      strstr(error.message, set.out[i].name) &&
                      !strstr(error.message, "of the wrong shape");
    if (!good)
        printf("without %s: %s\n", set.out[i].name, error.message);
    return good;
}

/* Files of one half, which may keep a convolution of the other. */
static void
test_halves(void)
{
    static const struct {
        const char *model, *arch;
        const char *other, *left; /* the other half */
    } rows[] = {
        {"wan21", "wan2.1", "encoder.", "conv1."},
        {"wan21", "wan2.1", "decoder.", "conv2."},
        {"wan22", "wan2.2", "encoder.", "conv1."},
        {"wan22", "wan2.2", "decoder.", "conv2."},
        {"kl_flux2", "flux2", "encoder.", "quant_conv."},
        {"kl_flux2", "flux2", "decoder.", "post_quant_conv."},
        {"hunyuan10", "hunyuan1.0", "encoder.", "quant_conv."},
        {"hunyuan10", "hunyuan1.0", "decoder.", "post_quant_conv."},
        {"qwenimage21", "qwenimage2.1", "encoder.", "quant_conv."},
        {"qwenimage21", "qwenimage2.1", "decoder.", "post_quant_conv."}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int keeps = 0; keeps < 2; keeps++) {
            SCOPED_MODEL VaeModel *model = NULL;
            VaeError error = {0};
            load(rows[i].model);
            drop_prefix(rows[i].other);
            if (!keeps)
                drop_prefix(rows[i].left);
            vae_model_open(write_set(), NULL, &model, &error);
            const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
            check(info && strcmp(info->arch, rows[i].arch) == 0 &&
                      info->has_encoder == (*rows[i].other == 'd') &&
                      info->has_decoder == (*rows[i].other == 'e'),
                  rows[i].left, error.message);
        }
}

/* Layers between the halves, and attention, are named where they are missing.
 */
static void
test_lost_layers(void)
{
    static const struct {
        const char *model, *half, *layer, *name, *arch;
    } rows[] = {
        {"kl_flux2", "encoder.", "post_quant_conv.", "post_quant_conv.weight",
         "flux2"},
        {"kl_flux2", "decoder.", "quant_conv.", "quant_conv.weight", "flux2"},
        {"kl_flux2", "encoder.", "bn.", "bn.running_mean", "flux2"},
        {"kl_flux2", "encoder.", "decoder.mid_block.attentions.",
         "decoder.mid_block.attentions.0.to_q.weight", "flux2"},
        {"hunyuan10", "encoder.", "post_quant_conv.", "post_quant_conv.weight",
         "hunyuan1.0"},
        {"hunyuan10", "decoder.", "quant_conv.", "quant_conv.weight",
         "hunyuan1.0"},
        {"hunyuan10", "encoder.", "decoder.mid_block.attentions.",
         "decoder.mid_block.attentions.0.to_q.weight", "hunyuan1.0"},
        {"qwenimage21", "encoder.", "post_quant_conv.",
         "post_quant_conv.weight", "qwenimage2.1"},
        {"qwenimage21", "", "decoder.mid_block.attentions.",
         "decoder.mid_block.attentions.0.to_qkv.weight", "qwenimage2.1"},
        {"wan21", "encoder.", "conv2.", "conv2.weight", "wan2.1"},
        {"wan21", "encoder.", "conv", "conv2.weight", "wan2.1"},
        {"wan21", "decoder.", "conv", "conv1.weight", "wan2.1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        load(rows[i].model);
        if (*rows[i].half)
            drop_prefix(rows[i].half);
        drop_prefix(rows[i].layer);
        expect_error(rows[i].layer, VAE_ERR_MODEL,
                     WORDS(rows[i].name, rows[i].arch));
    }
}

/* A full VAE that gst-vae lacks, not one whose names are like its own. */
static void
test_cogvideox(void)
{
    static const char *const names[][3] = {
        {"decoder.conv_in.conv.weight",
         "decoder.mid_block.resnets.0.norm1.norm_layer.weight",
         "decoder.up_blocks.0.resnets.0.conv1.conv.weight"},
        {"encoder.mid_block.resnets.0.conv1.conv.weight",
         "encoder.norm_out.weight",
         "encoder.down_blocks.0.resnets.0.conv1.conv.weight"}};
    for (int half = 0; half < 2; half++) {
        clear_set();
        for (int i = 0; i < 3; i++)
            add_tensor(names[half][i]);
        expect_error("CogVideoX", VAE_ERR_MODEL,
                     WORDS("full VAE of CogVideoX", "taecvx"));
    }
}

void
test_missing(void)
{
    static const struct {
        const char *model, *dropped, *left; /* the other half */
    } rows[] = {{"taehv/taew2_1", NULL},
                {"taehv/taew2_1", "encoder."},
                {"taehv/taew2_1", "decoder."},
                {"taehv/taew2_2_super", NULL},
                {"taehv/taew2_2_super", "encoder."},
                {"taef2", NULL},
                {"taef2", "encoder."},
                {"hunyuan10", NULL},
                {"hunyuan10", "encoder.", "quant_conv."},
                {"hunyuan10", "decoder.", "post_quant_conv."},
                {"ltx2_5_diff", NULL},
                {"ltx2_0", "decoder."},
                {"wan21", NULL}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t named = 0;
        load(rows[k].model);
        if (rows[k].dropped)
            drop_prefix(rows[k].dropped);
        if (rows[k].left)
            drop_prefix(rows[k].left);
        for (size_t i = 0; i < set.n; i++)
            named += names_removed(i);
        check(set.n > 0 && named == set.n,
              "each tensor is named if it is missing", rows[k].model);
    }
    test_halves();
    test_lost_layers();
    test_cogvideox();
}
