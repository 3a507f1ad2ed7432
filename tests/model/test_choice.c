/*
 * test_choice.c: which network a file is opened as, if it fits several or holds
 * two.
 */
#include <unistd.h>

#include "weights_set.h"

/* A file with two networks. The set has no metadata, so that nothing else names
 * one. */
static void
test_two_networks(void)
{
    static const struct {
        const char *first, *second, *variant, *arch;
        const char *words[3];
        const char *model; /* the second; NULL: taew2_1 */
        bool both;         /* the variant fits both */
        const char *base;  /* the first model; NULL: wan21 */
    } rows[] = {
        {"vae.",
         "model.",
         "foo",
         NULL,
         {"set to foo, but the weights are those of taew2_1 (prefix "
          "\"model.\") and wan2.1 (prefix \"vae.\"); ",
          "named foo is known"}},
        {"vae.",
         "model.",
         "foo",
         NULL,
         {"those of wan2.1 (prefix \"model.\") and wan2.1 (prefix \"vae.\")"},
         "wan21"},
        {"vae.",
         "mine.",
         NULL,
         "wan2.1",
         {"those of taew2_1 (prefix \"mine.\"); to use taew2_1, set variant"}},
        {"vae.", "mine.", "mine.", "taew2_1", {"\"mine.\", 194 other tensors"}},
        {"vae.",
         "mine.",
         "taehv1_5",
         "taehv1_5",
         {"\"mine.\", 128 other tensors"},
         "taehv/taehv1_5",
         .base = "taehv/taew2_1"},
        {"his.", "mine.", "mine.", "taew2_1", {"\"mine.\", 194 other tensors"}},
        {"vae.",
         "model.",
         NULL,
         "wan2.1",
         {"prefix \"model.\"", "to use these, set variant to \"vae.\""},
         "wan21"},
        {"vae.",
         "model.",
         "wan2.1",
         "wan2.1",
         {"prefix \"model.\"", "to use these, set variant to \"vae.\""},
         "wan21",
         true},
        {"vae.",
         "model.",
         "vae.",
         "wan2.1",
         {"prefix \"vae.\"", "to use these, set variant to \"model.\""},
         "wan21"},
        {"vae.",
         "first_stage_model.",
         NULL,
         "taew2_1",
         {"\"first_stage_model.\", 194 other tensors ignored",
          "those of wan2.1 (prefix \"vae.\"); to use wan2.1, set variant"}},
        {"vae.",
         "first_stage_model.",
         "wan2.1",
         "wan2.1",
         {"\"vae.\", 128 other tensors ignored"}},
        {"",
         "vae.",
         NULL,
         "wan2.1",
         {"no prefix, 194 other tensors ignored",
          "to use these, set variant to \"vae.\""},
         "wan21"},
        {"",
         "model.",
         NULL,
         "wan2.1",
         {"those of taew2_1 (prefix \"model.\")"}},
        {"",
         "model.",
         "taehv",
         "taehv",
         {"those of wan2.1; to use wan2.1, set variant"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const VaeModelOptions options = {.struct_size = sizeof options,
                                         .variant = rows[i].variant};
        SCOPED_MODEL VaeModel *model = NULL;
        VaeError error = {0};
        clear_set();
        add_model(rows[i].base ? rows[i].base : "wan21", rows[i].first);
        add_model(rows[i].model ? rows[i].model : "taehv/taew2_1",
                  rows[i].second);
        vae_model_open(write_set(), &options, &model, &error);
        const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
        const char *arch = info ? info->arch : "none";
        const char *wanted = rows[i].arch ? rows[i].arch : "none";
        const char *text = info ? info->reason : error.message;
        char choice[VAE_CHOICE];
        bool good = strcmp(arch, wanted) == 0 &&
                    (!model || vae_model_choice(model, choice) ==
                                   (!rows[i].variant || rows[i].both));
        for (int k = 0; good && rows[i].words[k]; k++)
            good = strstr(text, rows[i].words[k]) != NULL;
        check(good, wanted, text);
    }
}

static void
test_variants(void)
{
    static const char *const same[] = {"taew2_1", "taehv", "taecvx", "taeos1_3",
                                       "lighttaew2_1"};
    load("taehv/taew2_1");
    open_variant("16 channels without a variant", NULL, VAE_OK, "taew2_1");
    for (int i = 0; i < 5; i++)
        open_variant(same[i], same[i], VAE_OK, same[i]);
    open_variant("a variant of other channels", "taew2_2", VAE_ERR_MODEL,
                 "taew2_1, taehv, taecvx, taeos1_3, lighttaew2_1");
    open_variant("an unknown variant", "taefly", VAE_ERR_MODEL, "taefly");
    set.meta[set.n_meta++] = (VaeMetadata){"vae.variant", "taehv"};
    open_variant("a variant in the metadata", NULL, VAE_OK, "taehv");
    open_variant("the caller's comes first", "taecvx", VAE_OK, "taecvx");
    set.n_meta = 0;
    VaeTensorOut *t = find("decoder.1.weight");
    t->dims[0] = t->dims[0] * t->dims[1] / 24; /* the same bytes */
    t->dims[1] = 24;
    open_variant("taeh3 with other patches", "taeh3", VAE_ERR_MODEL,
                 "24 latent channels and 1x1 pixel patches");
    load("taehv/taew2_2");
    open_variant("48 channels without a variant", NULL, VAE_OK, "taew2_2");
    open_variant("lighttaew2_2", "lighttaew2_2", VAE_OK, "lighttaew2_2");
    load("taehv/taew2_2_super");
    open_variant("lighttaew2_2 with other blocks", "lighttaew2_2",
                 VAE_ERR_MODEL, "variants that fit: taew2_2_super");
    load("taehv/taeh3");
    open_variant("taeh3 by name", "taeh3", VAE_OK, "taeh3");
    load("wan21");
    open_variant("a variant of another family", "taehv", VAE_ERR_MODEL,
                 "set to taehv, but the weights are those of wan2.1");
}

/* The name of the file decides between variants of the same shapes only. */
static void
test_file_names(void)
{
    static const struct {
        const char *weights, *file, *arch, *by, *stated;
    } rows[] = {
        {"taew2_1", "taecvx.safetensors", "taecvx", "name of the file"},
        {"taew2_1", "TAE-CVX.safetensors", "taecvx", "name of the file"},
        {"taew2_1", "my-taew2.1.safetensors", "taew2_1", "name of the file"},
        {"taew2_1", "my_taehv_v2.safetensors", "taehv", "name of the file"},
        {"taew2_1", "taehv-taeos1_3.safetensors", "taeos1_3",
         "name of the file"},
        {"taew2_1", "lighttaew2_1.safetensors", "lighttaew2_1",
         "name of the file"},
        {"taew2_1", "cogvideox.safetensors", "taecvx", "name of the file"},
        {"taew2_1", "hunyuan.safetensors", "taehv", "name of the file"},
        {"taew2_1", "wan2.1.safetensors", "taew2_1", "assumed"},
        {"taew2_1", "TAEHV-Wan21.safetensors", "taew2_1", "assumed"},
        {"taew2_1", "wan_taehv.safetensors", "taew2_1", "assumed"},
        {"taew2_1", "cogvideox-taehv.safetensors", "taecvx",
         "name of the file"},
        {"taew2_1", "hunyuan_taehv.safetensors", "taehv", "name of the file"},
        {"taew2_1", "taew2_1-wan2.1.safetensors", "taew2_1",
         "name of the file"},
        {"taew2_1", "hunyuan.taehv-wan.safetensors", "taew2_1", "assumed"},
        {"taew2_1", "hunyuan.taecvx.safetensors", "taew2_1", "assumed"},
        {"taew2_1", "taew2_2.safetensors", "taew2_1", "assumed"},
        {"taeltx2_3", "taeltx2_3.safetensors", "taeltx2_3", "name of the file"},
        {"taeltx2_3", "ltx2.safetensors", "taeltx_2", "assumed"},
        {"taeltx2_3_wide", "taeltx_2.safetensors", "taeltx2_3_wide", "shapes"},
        {"taeh3", "taehv.safetensors", "taeh3", "shapes"},
        {"taew2_1", "taecvx.safetensors", "taehv", "variant stated", "taehv"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SCOPED_MODEL VaeModel *model = NULL;
        VaeError error = {0};
        char from[64], path[512];
        snprintf(from, sizeof from, "taehv/%s", rows[i].weights);
        load(from);
        if (rows[i].stated)
            set.meta[set.n_meta++] =
                (VaeMetadata){"vae.variant", rows[i].stated};
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].file);
        if (rename(write_set(), path) != 0)
            exit(1);
        vae_model_open(path, NULL, &model, &error);
        const VaeModelInfo *info = model ? vae_model_info(model) : NULL;
        check(info && strcmp(info->arch, rows[i].arch) == 0 &&
                  strstr(info->reason, rows[i].by),
              path, info ? info->reason : error.message);
        unlink(path);
    }
}

/* The file that diffusers' name selects is no VAE, but the one beside it is. */
static void
test_folder(void)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    char vae[512], other[512];
    snprintf(vae, sizeof vae, "%s/Wan2.1_VAE.safetensors", folder);
    snprintf(other, sizeof other, "%s/diffusion_pytorch_model.safetensors",
             folder);
    load("wan21");
    if (rename(write_set(), vae) != 0)
        exit(1);
    add_prefix("blocks.");
    drop_prefix("blocks.encoder");
    drop_prefix("blocks.decoder");
    if (rename(write_set(), other) != 0)
        exit(1);
    check(vae_model_open(folder, NULL, &model, &error) == VAE_ERR_MODEL &&
              strstr(error.message, "no known VAE") &&
              strstr(error.message,
                     "; beside it: Wan2.1_VAE.safetensors (wan2.1): give"),
          "a VAE beside another model", error.message);
    remove(vae);
    remove(other);
}

void
test_choice(void)
{
    test_folder();
    test_two_networks();
    test_variants();
    test_file_names();
}
