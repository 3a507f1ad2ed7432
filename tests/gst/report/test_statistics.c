/*
 * test_statistics.c: a WARNING reports latents whose values contradict their
 * stated normalization, and input of one value. Other input gives none.
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
 * *overrides, which may be NULL: number of others, which say that the property
 * overrides the caps. */
static guint
count_warnings(GstBus *bus, const char *expected, guint *overrides)
{
    GstMessage *message;
    guint n = 0;
    while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING |
                                                    GST_MESSAGE_ERROR))) {
        GError *error = NULL;
        CHECK(GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING);
        gst_message_parse_warning(message, &error, NULL);
        CHECK(
            g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT));
        if (overrides && strstr(error->message, "overrides it")) {
            ++*overrides;
        } else {
            CHECK_SAYS(expected && strstr(error->message, expected), "%s",
                       error->message);
            n++;
        }
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
          "set normalization of vaedecode to normalized");
    check(1, FALSE, NULL, "raw",
          "set normalization of vaedecode to normalized");
    check(1, TRUE, NULL, NULL, "set normalization of vaedecode to raw");
    check(1, TRUE, ",normalization=raw", "normalized",
          "set normalization of vaedecode to raw");
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
          "set normalization of vaedecode to normalized");
    check(1, TRUE, NULL, NULL, "set normalization of vaedecode to raw");
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

/* Pushes n latents or frames that have one value. */
static void
push_constant(GstHarness *h, gboolean frames, guint n)
{
    GstVideoInfo info;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 8 * LW, 8 * LH);
    for (guint k = 0; k < n; k++) {
        GstBuffer *buffer =
            frames ? vae_test_frame(&info, k) : vae_test_latent(LW, LH, k);
        gst_buffer_memset(buffer, 0, 0, G_MAXSIZE);
        CHECK_INT(gst_harness_push(h, buffer), GST_FLOW_OK);
    }
}

/* Returns vaedecode or vaeencode with the small model and the caps of its
 * input. */
static GstHarness *
constant_harness(gboolean frames)
{
    GstHarness *h = vae_test_harness(frames ? "vaeencode" : "vaedecode",
                                     "model", vae_test_weights(), NULL);
    GstVideoInfo info;
    if (frames)
        vae_test_set_video(h, &info, 8 * LW, 8 * LH);
    else
        vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

static void
check_constant(gboolean frames, guint n, const gchar *words)
{
    SCOPED GstHarness *h = constant_harness(frames);
    push_constant(h, frames, n);
    vae_test_push_eos(h);
    vae_test_one_warning(h, words);
}

/* A short sequence is judged at its end. An application may stop listening at
 * EOS. */
TEST(constant)
{
    check_constant(FALSE, 1, "the first latent has only one number");
    check_constant(FALSE, 2, "first 2 latents has only one number");
    check_constant(TRUE, 1, "the first frame has only one colour");
    check_constant(TRUE, 5, "first 5 frames has only one colour");
}

/* A flush cuts the sequence: what follows in the file may vary. */
TEST(constant_then_flush)
{
    SCOPED GstHarness *h = constant_harness(FALSE);
    push_constant(h, FALSE, 1);
    gst_buffer_unref(vae_test_pull(h));
    vae_test_flush(h);
    vae_test_push_eos(h);
    vae_test_none(h, GST_MESSAGE_WARNING);
}

/* Checks that the pipeline posts one warning, about the file. */
static void
check_named(const gchar *path, const gchar *elements, const gchar *words)
{
    g_autofree gchar *text = g_strdup_printf(
        "filesrc location=\"%s\" ! %s backend=ref model=\"%s\" ! fakesink",
        path, elements, vae_test_weights());
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autofree gchar *expected = g_strdup_printf("%s: %s", path, words);
    CHECK_INT(gst_element_set_state(pipeline, GST_STATE_PLAYING),
              GST_STATE_CHANGE_ASYNC);
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE,
        GST_MESSAGE_WARNING | GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_WARNING);
    g_autoptr(GError) warning = NULL;
    gst_message_parse_warning(message, &warning, NULL);
    CHECK_STR(warning->message, expected);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

/* Writes two latents of zeros, except for the first number. */
static void
write_latents(const gchar *path, float first)
{
    static const gchar head[] =
        "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, "
        "'shape': (16, 2, 4, 8), }";
    enum { START = 128, SIZE = START + 4 * 16 * 2 * LH * LW };
    gchar file[SIZE] = {0};
    memset(file, ' ', START - 1);
    file[START - 1] = '\n';
    memcpy(file, head, sizeof head - 1);
    memcpy(file + START, &first, sizeof first);
    CHECK(g_file_set_contents(path, file, SIZE, NULL));
}

/* The warnings about latents and video say of which file, with and without
 * random access. */
TEST(named)
{
    static const guint8 black[5 * LW * 8 * LH * 8 * 3];
    const gchar *latents = vae_test_path("constant.npy");
    const gchar *video = vae_test_path("constant.rgb");
    CHECK(
        g_file_set_contents(video, (const gchar *) black, sizeof black, NULL));
    check_named(video,
                "rawvideoparse width=64 height=32 format=rgb ! videoconvert ! "
                "vaeencode",
                "each of the first 5 frames has only one colour: is this the "
                "right input?");
    write_latents(latents, 0);
    for (int queue = 0; queue <= 1; queue++)
        check_named(latents,
                    queue ? "queue ! latentdemux ! vaedecode"
                          : "latentdemux ! vaedecode",
                    "each of the first 2 latents has only one number in all "
                    "places: is this the right input?");
    write_latents(latents, NAN);
    check_named(latents, "latentdemux ! vaedecode",
                "the latents have values that are NaN, infinite or too large "
                "for float32, and the frames that these reach are wrong: the "
                "fault is in what made the latents");
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

/* A tiny network has the same statistics and takes less time. */
static void
check_real(const VaeLatentClip *clip, gboolean raw, const char *declared,
           gboolean warns)
{
    SCOPED GstHarness *h = vae_test_harness(
        "vaedecode", "model", vae_test_network("taehv/taew2_1"), NULL);
    GstBus *bus = vae_test_bus(h);
    vae_test_set_latents(h, clip->width / 2, clip->height / 2, declared);
    for (int k = 0; k < 4; k++)
        CHECK_INT(gst_harness_push(h, real_latent(clip, k, raw)), GST_FLOW_OK);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    g_free(vae_test_pull_frames(h, 0, 13));
    CHECK_INT(count_warnings(bus, "set normalization of vaedecode to ", NULL),
              warns);
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
