/*
 * golden.c: compares frames and latents with those of the official networks.
 *
 * golden SET BACKEND PRECISION [WORD...]
 *   small      the vectors of this source tree; with words: only those whose
 *              name contains one of the words
 *   more       the vectors of VAE_TEST_DATA/golden that are not in it
 *   released   those of VAE_TEST_DATA/golden/real, for released weights
 *   generated  full-size models with generated weights, against
 *              VAE_TEST_DATA/design/golden
 *   trace      the vectors of single blocks in this source tree
 *   lengths    its clips of 1 to 33 latents
 */
#include "golden.h"

#include <stdio.h>
#include <string.h>

VaeModel *
golden_model(const char *path)
{
    VaeModel *model = NULL;
    VaeError error;
    must(vae_model_open(path, NULL, &model, &error), &error);
    return model;
}

VaeStream *
golden_stream(const Golden *g, VaeModel *model, VaeStreamParams params)
{
    params.backend = g->backend;
    params.precision = g->precision;
    return test_stream(model, params);
}

void
golden_check(Golden *g, bool good)
{
    g->run++;
    g->failed += !good;
}

typedef struct Case {
    const char *model, *input, *output; /* output NULL: an encode case */
    const char *weights; /* without its end, if that is .safetensors; ".": a
                            pair of files in the folder */
    bool small;          /* in the source tree */
    const char *variant; /* or NULL */
} Case;

#define D(m, n, s)                                                             \
    {                                                                          \
        m, n, n, "weights", s, NULL                                            \
    }
#define E(m, n, s)                                                             \
    {                                                                          \
        m, n, NULL, "weights", s, NULL                                         \
    }
/* The weights under other names, rounded to bf16. */
#define N(m, n, names)                                                         \
    {                                                                          \
        m, n, n "_weights_bf16", "weights_" names, false, NULL                 \
    }
/* The weights as a variant of the same shapes. */
#define V(m, n, v)                                                             \
    {                                                                          \
        m, n "_" v, n "_" v, "weights", false, v                               \
    }
static const Case cases[] = {
    D("wan21", "decode_t1_6x10", true),
    D("wan21", "decode_t2_6x10", true),
    D("wan21", "decode_t5_6x10", false),
    E("wan21", "encode_f1_48x80", true),
    E("wan21", "encode_f17_48x80", true),
    {"wan21", "decode_t2_6x10", "decode_t2_6x10_weights_fp16", "weights_fp16",
     false, NULL},
    {"wan21", "decode_t2_6x10", "decode_t2_6x10_weights_bf16", "weights_bf16",
     false, NULL},
    D("seedvr2", "decode_t1_6x10", true),
    D("seedvr2", "decode_t5_6x10", true),
    E("seedvr2", "encode_f1_48x80", true),
    E("seedvr2", "encode_f17_48x80", true),
    D("wan22", "decode_t1_5x7", true),
    D("wan22", "decode_t5_3x5", true),
    E("wan22", "encode_f1_80x112", true),
    E("wan22", "encode_f17_48x80", true),
    D("hunyuan10", "decode_t1_3x5", true),
    D("hunyuan10", "decode_t4_2x3", false),
    D("hunyuan10", "decode_t5_2x3", true),
    D("hunyuan10", "decode_t11_2x3", false),
    D("hunyuan10", "decode_t18_1x2_official_tiles", false),
    D("hunyuan10", "decode_t39_1x1_official_tiles", true),
    E("hunyuan10", "encode_f1_24x40", true),
    E("hunyuan10", "encode_f9_24x40", false),
    E("hunyuan10", "encode_f17_16x24", true),
    E("hunyuan10", "encode_f29_16x24", true),
    E("hunyuan10", "encode_f153_8x16_official_tiles", true),
    D("hunyuan15", "decode_t1_3x5", true),
    D("hunyuan15", "decode_t2_2x3", true),
    D("hunyuan15", "decode_t3_1x2_window1", true),
    D("hunyuan15", "decode_t5_2x2", false),
    E("hunyuan15", "encode_f1_48x80", true),
    E("hunyuan15", "encode_f9_48x32", true),
    E("hunyuan15", "encode_f9_32x32_window1", true),
    E("hunyuan15", "encode_f17_32x48", false),
    D("taehv/taew2_1", "decode_t1_6x10", true),
    D("taehv/taew2_1", "decode_t5_6x10", true),
    E("taehv/taew2_1", "encode_f1_48x80", true),
    E("taehv/taew2_1", "encode_f17_48x80", true),
    D("taehv/taew2_2", "decode_t1_5x7", true),
    D("taehv/taew2_2", "decode_t3_3x5", true),
    E("taehv/taew2_2", "encode_f1_80x112", true),
    E("taehv/taew2_2", "encode_f17_48x80", true),
    D("taehv/taew2_2_super", "decode_t3_3x5", true),
    D("taehv/taehv", "decode_t2_2x2", true),
    E("taehv/taehv", "encode_f5_16x16", true),
    D("taehv/taehv1_5", "decode_t2_1x2", true),
    E("taehv/taehv1_5", "encode_f5_16x32", true),
    D("taehv/taehv1_5_super", "decode_t2_1x2", true),
    D("taehv/taecvx", "decode_t3_2x2", true),
    E("taehv/taecvx", "encode_f9_16x16", true),
    D("taehv/taeos1_3", "decode_t2_2x3", true),
    E("taehv/taeos1_3", "encode_f5_16x24", true),
    D("taehv/taeh3", "decode_t7_1x1", true),
    E("taehv/taeh3", "encode_f22_16x32", true),
    D("taehv/taeltx_2", "decode_t1_2x1", true),
    E("taehv/taeltx_2", "encode_f9_32x32", true),
    D("taehv/taeltx2_3", "decode_t1_1x2", true),
    E("taehv/taeltx2_3", "encode_f9_32x32", true),
    D("taehv/taeltx2_3_wide", "decode_t2_1x1", true),
    E("ltx2_0", "encode_f1_96x160", true),
    E("ltx2_0", "encode_f13_32x64", false),
    E("ltx2_0", "encode_f17_64x96", false),
    E("ltx2_0", "encode_f33_32x64", true),
    E("ltx2_3", "encode_f1_96x160", true),
    E("ltx2_3", "encode_f13_64x32", false),
    E("ltx2_3", "encode_f17_64x96", false),
    E("ltx2_3", "encode_f33_32x64", true),
    D("ltx2_0", "decode_t1_3x5", true),
    D("ltx2_0", "decode_t2_2x3", true),
    D("ltx2_0", "decode_t5_2x2", false),
    D("ltx2_0", "decode_t25_2x2_sparse", true),
    D("ltx2_0_timestep", "decode_t2_2x2", true),
    D("ltx2_3", "decode_t1_3x5", true),
    D("ltx2_3", "decode_t2_1x3", true),
    D("ltx2_3", "decode_t5_2x2", false),
    D("ltx2_3", "decode_t17_1x2_sparse", true),
    D("kl_sd", "decode_t1_5x7", false),
    D("kl_sd", "decode_t3_4x6", false),
    N("kl_sd", "decode_t1_5x7", "ldm"),
    N("kl_sd", "decode_t1_5x7", "old"),
    V("kl_sd", "decode_t1_5x7", "sdxl"),
    E("kl_sd", "encode_f1_40x56", false),
    E("kl_sd", "encode_f3_32x48", false),
    D("kl_flux1", "decode_t1_5x7", false),
    D("kl_flux1", "decode_t3_4x6", false),
    N("kl_flux1", "decode_t1_5x7", "ldm"),
    V("kl_flux1", "decode_t1_5x7", "sd3"),
    E("kl_flux1", "encode_f1_40x56", false),
    E("kl_flux1", "encode_f3_32x48", false),
    D("kl_flux2", "decode_t1_3x5", true),
    D("kl_flux2", "decode_t3_2x3", false),
    N("kl_flux2", "decode_t1_3x5", "ldm"),
    E("kl_flux2", "encode_f1_48x80", true),
    E("kl_flux2", "encode_f3_32x48", false),
    D("taesd", "decode_t1_5x7", false),
    D("taesd", "decode_t3_4x6", false),
    N("taesd", "decode_t1_5x7", "comfy"),
    N("taesd", "decode_t1_5x7", "decoder"),
    N("taesd", "decode_t1_5x7", "diffusers"),
    E("taesd", "encode_f1_40x56", false),
    E("taesd", "encode_f3_32x48", false),
    D("taef1", "decode_t1_5x7", false),
    D("taef1", "decode_t3_4x6", false),
    N("taef1", "decode_t1_5x7", "diffusers"),
    E("taef1", "encode_f1_40x56", false),
    E("taef1", "encode_f3_32x48", false),
    D("taef2", "decode_t1_3x5", true),
    D("taef2", "decode_t3_2x3", false),
    N("taef2", "decode_t1_3x5", "comfy"),
    N("taef2", "decode_t1_3x5", "decoder"),
    N("taef2", "decode_t1_3x5", "diffusers"),
    E("taef2", "encode_f1_48x80", true),
    E("taef2", "encode_f3_32x48", false),
    D("taesana", "decode_t1_3x2", false),
    D("taesana", "decode_t3_1x2", false),
    N("taesana", "decode_t1_3x2", "diffusers"),
    E("taesana", "encode_f1_96x64", false),
    E("taesana", "encode_f3_32x64", false),
    D("magi2_turbo", "decode_t1_2x3", false),
    D("magi2_turbo", "decode_t3_3x4", true),
    D("magi2_turbo", "decode_t15_1x2", true),
    D("magi2_turbo_dw", "decode_t6_2x1", true),
    D("ltx2_5_diff", "decode_t1_3x5", true),
    D("ltx2_5_diff", "decode_t3_3x5", false),
    D("ltx2_5_diff", "decode_t4_4x6", false),
    D("ltx2_5_diff", "decode_t10_3x5", true),
    D("qwenimage21", "decode_t1_5x7", false),
    D("qwenimage21", "decode_t3_2x3", true),
    E("qwenimage21", "encode_f1_48x80", false),
    E("qwenimage21", "encode_f2_32x48", true),
    {"real/taef2", "decode_t1_7x5", "decode_t1_7x5", "taef2_decoder.pth", false,
     NULL},
    {"real/taef2", "decode_t2_8x13", "decode_t2_8x13", ".", false, NULL},
    {"real/taef2", "encode_f1_112x80", NULL, "taef2_encoder.pth", false, NULL},
    {"real/taef2", "encode_f2_128x208", NULL, ".", false, NULL},
};
#undef D
#undef E
#undef N
#undef V

static bool
is_in(const Case *c, const char *set)
{
    if (strcmp(set, "small") == 0)
        return c->small;
    const bool released = strncmp(c->model, "real/", 5) == 0;
    return !c->small && released == (strcmp(set, "released") == 0);
}

static bool
is_left_out(const Golden *g, const Case *c)
{
    /* Its windows take minutes on an emulated device. */
    if (g->backend == VAE_BACKEND_CUDA &&
        strcmp(c->input, "decode_t10_3x5") == 0)
        return true;
    /* One of its pixels is almost zero before a norm of four channels, which
     * enlarges the rounding of shorter types. */
    return g->precision != VAE_PRECISION_FP32 &&
           strcmp(c->input, "decode_t1_2x3") == 0;
}

/* Returns true if the case's name, MODEL/INPUT, contains one of the words, or
 * if there are no words. */
static bool
is_wanted(const Case *c, char *const *words)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", c->model, c->input);
    bool wanted = !*words;
    for (; *words; words++)
        wanted |= strstr(name, *words) != NULL;
    return wanted;
}

static VaeModel *
open_variant(const char *path, const char *variant)
{
    const VaeModelOptions options = {.struct_size = sizeof options,
                                     .variant = variant};
    VaeModel *model = NULL;
    VaeError error;
    must(vae_model_open(path, &options, &model, &error), &error);
    return model;
}

/* In fp16 these networks overflow. */
static void
refused_case(Golden *g, VaeModel *model, const char *name)
{
    const VaeStreamParams params = {.struct_size = sizeof params,
                                    .precision = VAE_PRECISION_FP16,
                                    .width = 32,
                                    .height = 32};
    VaeStream *stream = NULL;
    VaeError error = {0};
    const bool good = vae_stream_new(model, &params, &stream, &error) ==
                          VAE_ERR_UNSUPPORTED &&
                      strstr(error.message, "65504");
    printf("%s %s refuses fp16: %s\n", good ? "ok  " : "FAIL", name,
           error.message);
    golden_check(g, good);
    vae_stream_free(&stream);
}

static bool
run_cases(Golden *g, const char *set, char *const *words)
{
    const bool small = strcmp(set, "small") == 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const Case *c = &cases[i];
        char folder[256], path[512];
        if (!is_in(c, set) || !is_wanted(c, words) || is_left_out(g, c))
            continue;
        if (!test_path(folder, sizeof folder,
                       small ? "VAE_TEST_VECTORS" : "VAE_TEST_DATA", "%s%s",
                       small ? "" : "golden/", c->model))
            return false;
        snprintf(path, sizeof path, "%s/%s%s", folder, c->weights,
                 strchr(c->weights, '.') ? "" : ".safetensors");
        SCOPED_MODEL VaeModel *model = open_variant(path, c->variant);
        if (g->precision == VAE_PRECISION_FP16 &&
            strncmp(c->model, "kl_", 3) == 0)
            refused_case(g, model, c->model);
        else if (c->output)
            golden_decode(g, folder, model, c->input, c->output);
        else
            golden_encode(g, folder, model, c->input);
    }
    return true;
}

/* Runs one set of vectors of the source tree for each of the models. */
static bool
run_folders(Golden *g, void (*set)(Golden *, const char *),
            const char *const *models)
{
    for (; *models; models++) {
        char folder[256];
        if (!test_path(folder, sizeof folder, "VAE_TEST_VECTORS", "%s",
                       *models))
            return false;
        set(g, folder);
    }
    return true;
}

int
main(int argc, char **argv)
{
    static const char *const traced[] = {"wan21", "seedvr2", "hunyuan15", NULL};
    static const char *const delayed[] = {"ltx2_0", "ltx2_3", "ltx2_0_timestep",
                                          NULL};
    Golden g = {0};
    char why[256];
    bool there = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || !vae_backend_parse(argv[2], &g.backend) ||
        !vae_precision_parse(argv[3], &g.precision)) {
        fprintf(
            stderr,
            "usage: golden small|more|released|generated|wide|trace|lengths "
            "BACKEND PRECISION [WORD...]\n");
        return 2;
    }
    if (!vae_backend_available(g.backend, why, sizeof why))
        test_skip(why);
    if (strcmp(argv[1], "small") == 0 || strcmp(argv[1], "more") == 0 ||
        strcmp(argv[1], "released") == 0)
        there = run_cases(&g, argv[1], argv + 4);
    else if (strcmp(argv[1], "generated") == 0)
        there = golden_generated(&g);
    else if (strcmp(argv[1], "wide") == 0)
        there = golden_wide(&g, (const char *const *) argv + 4);
    else if (strcmp(argv[1], "trace") == 0)
        there = run_folders(&g, golden_trace, traced);
    else if (strcmp(argv[1], "lengths") == 0)
        there = run_folders(&g, golden_lengths, delayed);
    if (!there)
        test_skip("vectors not found (VAE_TEST_DATA or VAE_TEST_VECTORS)");
    printf("%d of %d comparisons failed\n", g.failed, g.run);
    return g.failed || !g.run;
}
