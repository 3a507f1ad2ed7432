/*
 * test_latentdemux_said.c: warnings about what a file states, or does not.
 */
#include "latent_test.h"

static const Clip small = {VAE_TYPE_F32, 4, 16, 3, 5};

/* "! vaedecode ..." with these properties. (transfer full) */
static gchar *
decoder(const gchar *network, const gchar *properties)
{
    return g_strdup_printf("! vaedecode backend=ref %s "
                           "model=\"%s/taehv/%s/weights.safetensors\"",
                           properties, g_getenv("VAE_TEST_VECTORS"), network);
}

/* A number of frames that the latents cannot be is a warning: by the decoder,
 * by the space, or by what is usual. */
TEST(wrong_frames)
{
    static const VaeMetadata wrong = {"vae.frames", "99"};
    const gchar *path = described_clip(&small, &wrong, 1);
    g_autofree gchar *decode = decoder("taehv", "");
    const gchar *const cases[][2] = {
        {decode, "\"99\", expected 10 to 13 for 4 latents of the model"},
        {"latent-space=ltx2", "expected 18 to 25 for 4 latents of ltx2"},
        {"", "is 99, but 4 latents with 4 frames each have 13; it is ignored"}};
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        Run *run = run_all("filesrc location=%s ! latentdemux layout=cthw %s ! "
                           "fakesink name=sink",
                           path, cases[i][0]);
        CHECK_SAYS(run->eos && run->warning &&
                       g_str_has_prefix(run->warning, path) &&
                       strstr(run->warning, cases[i][1]),
                   "%s", run->warning ? run->warning : run->error);
    }
}

/* A normalization that overrides a statement is a warning, and one that
 * overrides a guess is not. */
TEST(normalization)
{
    static const VaeMetadata stated = {"vae.normalization", "normalized"};
    static const VaeMetadata mark = {"latent_format_version_0", ""};
    static const VaeMetadata space = {"vae.latent_space", "hunyuan"};
    static const struct {
        const gchar *tensor;
        const VaeMetadata *metadata;
        const gchar *demux, *decode;
        const gchar *said; /* NULL: nothing of the normalization */
        gboolean notice;   /* nothing states it */
    } cases[] = {
        {"latent", NULL, "", "", NULL, TRUE},
        {"latent", NULL, "latent-space=hunyuan", "", NULL, TRUE},
        {"latent", &space, "", "", NULL, TRUE},
        {"latent", &space, "normalization=normalized", "", NULL},
        {"latent", &space, "", "normalization=normalized", NULL},
        {"latent", &stated, "", "", NULL},
        {"latent_tensor", &mark, "", "", NULL},
        {"latent", &stated, "", "normalization=raw",
         "/clip states normalization normalized; normalization raw overrides"},
        {"latent", &stated, "", "normalization=normalized", NULL},
        {"latent", NULL, "", "normalization=raw", NULL},
        {"latent", NULL, "normalization=raw", "normalization=normalized",
         "the input states normalization raw; normalization normalized"},
        {"latent", NULL, "normalization=raw", "normalization=raw", NULL},
        {"latent_tensor", &mark, "", "normalization=normalized", NULL},
        {"latent_tensor", NULL, "", "",
         "no latent_format_version_0: it is taken as normalized", TRUE},
        {"latent_tensor", NULL, "", "normalization=raw", NULL},
        {"latent_tensor", NULL, "normalization=raw", "", NULL}};
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        const gchar *path = write_clip("clip", cases[i].tensor, &small, CTHW,
                                       cases[i].metadata, !!cases[i].metadata);
        g_autofree gchar *decode = decoder("taehv", cases[i].decode);
        Run *run = run_all("filesrc location=%s ! latentdemux layout=cthw %s "
                           "%s ! fakesink name=sink",
                           path, cases[i].demux, decode);
        const gchar *said = run->warning ? run->warning : "";
        g_autofree gchar *notice = g_strdup_printf(
            "%s states no normalization: the latents are taken as normalized",
            path);
        CHECK_SAYS(!run->error, "%s", run->error);
        CHECK_SAYS(!run->info || !strstr(run->info, "overrides"), "%s",
                   run->info);
        CHECK_SAYS(cases[i].notice ==
                       (run->info && strstr(run->info, notice) != NULL),
                   "case %u: %s", i, run->info);
        CHECK_SAYS(cases[i].said ? strstr(said, cases[i].said) != NULL
                                 : !strstr(said, "overrides") &&
                                       !strstr(said, "taken as normalized"),
                   "case %u: %s", i, said);
    }
}

/* Nobody knows the scale of taecvx. The user may try both, and is then told no
 * more. */
TEST(unknown_scale)
{
    static const VaeMetadata stated = {"vae.normalization", "normalized"};
    static const struct {
        const gchar *demux, *decode;
        gboolean told;
    } cases[] = {{"", "", TRUE},
                 {"normalization=normalized", "", FALSE},
                 {"", "normalization=normalized", FALSE}};
    const gchar *path = write_clip("clip", "latent", &small, CTHW, &stated, 1);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree gchar *decode = decoder("taecvx", cases[i].decode);
        Run *run = run_all("filesrc location=%s ! latentdemux layout=cthw %s "
                           "%s ! fakesink name=sink",
                           path, cases[i].demux, decode);
        CHECK_SAYS(!run->error, "%s", run->error);
        CHECK_SAYS(
            (run->warning &&
             strstr(run->warning, "not known if taecvx works on") &&
             strstr(run->warning, "set normalization to normalized, and")) ==
                cases[i].told,
            "case %u: %s", i, run->warning);
    }
    for (gint chosen = 0; chosen < 2; chosen++) {
        Run *run = run_all(
            "videotestsrc num-buffers=5 ! video/x-raw,width=16,height=16 ! "
            "vaeencode backend=ref "
            "model=\"%s/taehv/taecvx/weights.safetensors\" ! "
            "video/x-vae-latent%s ! fakesink name=sink",
            g_getenv("VAE_TEST_VECTORS"),
            chosen ? ",normalization=normalized" : "");
        CHECK_SAYS(!run->error, "%s", run->error);
        CHECK_SAYS((run->warning == NULL) == chosen, "%s", run->warning);
    }
}
