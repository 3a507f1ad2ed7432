/*
 * test_statistics.c: a WARNING reports latents whose values contradict their
 * stated normalization. Other latents give none.
 */
#include "vae_test.h"

#include "vae-private/tensors.h"
#include "vae-private/model.h"

#define LW 8
#define LH 4

static const char *model; /* of the next decoder */
static float mean[VAE_MAX_LATENT_CHANNELS], std[VAE_MAX_LATENT_CHANNELS];

/* The small model has the statistics of the real one. */
static void
read_model(void)
{
    VaeModel *opened = NULL;
    VaeError error;
    model = vae_test_weights();
    CHECK(vae_model_open(model, NULL, &opened, &error) == VAE_OK);
    memcpy(mean, vae_model_info(opened)->mean,
           (gsize) vae_model_info(opened)->latent_channels * sizeof *mean);
    memcpy(std, vae_model_info(opened)->std,
           (gsize) vae_model_info(opened)->latent_channels * sizeof *std);
    vae_model_free(&opened);
}

/* Values as from a diffusion model: variance 1, a part of it common to the
 * clip. */
static GstBuffer *
latent(guint k, gdouble gain, gboolean raw)
{
    GstBuffer *buffer = vae_test_latent(LW, LH, k);
    GRand *clip = g_rand_new_with_seed(1), *own = g_rand_new_with_seed(2 + k);
    GstMapInfo map;
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
    for (guint c = 0; c < 16; c++) {
        const gdouble shift = g_rand_double_range(clip, -0.7, 0.7);
        for (guint i = 0; i < LW * LH; i++) {
            gdouble v = gain * (shift + g_rand_double_range(own, -1.6, 1.6));
            if (raw)
                v = v * std[c] + mean[c];
            ((float *) map.data)[c * LW * LH + i] = (float) v;
        }
    }
    gst_buffer_unmap(buffer, &map);
    g_rand_free(clip);
    g_rand_free(own);
    return buffer;
}

/* Returns the number of warnings. Each must name the property to set.
 * *overrides, which may be NULL: number of INFO messages that the property
 * overrides the caps. */
static guint
count_warnings(GstBus *bus, const char *expected, guint *overrides)
{
    GstMessage *message;
    guint n = 0;
    while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_INFO |
                                                    GST_MESSAGE_WARNING |
                                                    GST_MESSAGE_ERROR))) {
        GError *error = NULL;
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_INFO) {
            gst_message_parse_info(message, &error, NULL);
            if (overrides && strstr(error->message, "overrides it"))
                ++*overrides;
            g_error_free(error);
            gst_message_unref(message);
            continue;
        }
        CHECK(GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING);
        gst_message_parse_warning(message, &error, NULL);
        CHECK(
            g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT));
        CHECK_SAYS(expected && strstr(error->message, expected), "%s",
                   error->message);
        n++;
        g_error_free(error);
        gst_message_unref(message);
    }
    return n;
}

/* Sends two sequences of four latents. expected: a text that the warning must
 * have, or NULL for no warning. The same warning for the second sequence is not
 * posted: each image of a live stream is a sequence. */
static void
check(gdouble gain, gboolean raw, const char *caps, const char *property,
      const char *expected)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", "model", model, NULL);
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, caps);
    GstBus *bus = vae_test_bus(h);
    guint overrides = 0;
    if (property)
        gst_util_set_object_arg(G_OBJECT(h->element), "normalization",
                                property);
    gst_harness_set_src_caps_str(h, text);
    for (guint n = 0; n < 8; n++) {
        GstBuffer *buffer = latent(n % 4, gain, raw);
        GST_BUFFER_PTS(buffer) = GST_CLOCK_TIME_NONE;
        CHECK_INT(gst_harness_push(h, buffer), GST_FLOW_OK);
    }
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    g_free(vae_test_pull_frames(h, 0, 26));
    CHECK_INT(count_warnings(bus, expected, &overrides), expected ? 1 : 0);
    CHECK_INT(overrides, caps && property ? 1 : 0);
}

TEST(warning)
{
    read_model();
    check(1, FALSE, NULL, NULL, NULL);
    check(1, FALSE, ",normalization=normalized", NULL, NULL);
    check(1, FALSE, ",normalization=raw", NULL,
          "set normalization to normalized");
    check(1, FALSE, NULL, "raw", "set normalization to normalized");
    check(1, TRUE, NULL, NULL, "set normalization to raw");
    check(1, TRUE, ",normalization=raw", "normalized",
          "set normalization to raw");
    check(1, TRUE, ",normalization=raw", NULL, NULL);
}

/* A tiny model has the statistics of its latent space. */
TEST(tiny)
{
    g_autofree gchar *path =
        g_build_filename(g_getenv("VAE_TEST_VECTORS"),
                         "taehv/taew2_1/weights.safetensors", NULL);
    read_model();
    model = path;
    check(1, FALSE, NULL, NULL, NULL);
    check(1, FALSE, ",normalization=raw", NULL,
          "set normalization to normalized");
    check(1, TRUE, NULL, NULL, "set normalization to raw");
    check(1, TRUE, ",normalization=raw", NULL, NULL);
}

/* Flat and rich pictures with the right normalization give no warning. */
TEST(gain)
{
    static const gdouble gains[] = {0.25, 0.3, 0.6, 2};
    read_model();
    for (guint i = 0; i < G_N_ELEMENTS(gains); i++) {
        check(gains[i], FALSE, NULL, NULL, NULL);
        check(gains[i], TRUE, ",normalization=raw", NULL, NULL);
    }
}

/* Latents that were scaled twice: those of a grey picture have a spread of
 * 0.23.
 */
TEST(scaled)
{
    read_model();
    check(0.1, FALSE, NULL, NULL, "0.1 times the spread");
    check(0.1, TRUE, ",normalization=raw", NULL, "0.1 times the spread");
}

/* Returns latent k of the real Wan 2.1, with every second pixel in each
 * direction: normalized, as in the file, or raw. */
static GstBuffer *
real_latent(const VaeLatentClip *clip, int k, gboolean raw)
{
    const int h = clip->height / 2, w = clip->width / 2;
    const gsize n = (gsize) 16 * clip->height * clip->width;
    GstBuffer *buffer = vae_test_latent(w, h, k);
    g_autofree guint8 *packed = g_malloc(n * vae_type_size(clip->type));
    g_autofree float *values = g_new(float, n);
    GstMapInfo map;
    vae_latent_clip_read(clip, k, packed);
    vae_type_to_float(values, packed, clip->type, n);
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
    for (int i = 0; i < 16 * h * w; i++) {
        const int c = i / (h * w), y = i / w % h, x = i % w;
        const float v =
            values[(c * clip->height + 2 * y) * clip->width + 2 * x];
        ((float *) map.data)[i] = raw ? v * std[c] + mean[c] : v;
    }
    gst_buffer_unmap(buffer, &map);
    return buffer;
}

static void
check_real(const VaeLatentClip *clip, gboolean raw, const char *declared,
           gboolean warns)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstBus *bus = vae_test_bus(h);
    vae_test_set_latents(h, clip->width / 2, clip->height / 2, declared);
    for (int k = 0; k < 4; k++)
        CHECK_INT(gst_harness_push(h, real_latent(clip, k, raw)), GST_FLOW_OK);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    g_free(vae_test_pull_frames(h, 0, 13));
    CHECK_INT(count_warnings(bus, "set normalization to ", NULL), warns);
}

TEST(real)
{
    const char *folder = g_getenv("VAE_TEST_DATA");
    g_autofree gchar *path =
        g_build_filename(folder ? folder : "/nowhere", "golden", "real",
                         "wan21_latents.safetensors", NULL);
    VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    VaeError error;
    read_model();
    if (vae_tensor_file_open(path, &file, &error) != VAE_OK) {
        g_print("no real latents: %s\n", error.message);
        return;
    }
    CHECK(vae_latent_clip_find(file, NULL, &clip, &error) == VAE_OK);
    CHECK_INT(clip.channels, 16);
    check_real(&clip, FALSE, NULL, FALSE);
    check_real(&clip, FALSE, ",normalization=raw", TRUE);
    check_real(&clip, TRUE, NULL, TRUE);
    check_real(&clip, TRUE, ",normalization=raw", FALSE);
    vae_tensor_file_free(&file);
}
