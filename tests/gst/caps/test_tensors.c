/*
 * test_tensors.c: latents as other/tensors of NNStreamer, which the test does
 * not need.
 */
#include "vae_test.h"

#define LW 6
#define LH 4
#define WIDTH (8 * LW)
#define HEIGHT (8 * LH)
#define LATENTS 4
#define FRAMES (4 * LATENTS - 3)

#define TENSORS(dimensions, types, rate)                                       \
    "other/tensors,format=static,num_tensors=1,types=" types                   \
    ",dimensions=(string)" dimensions ",framerate=" rate

/* Returns latents k .. k + n - 1 in one buffer, without flags. */
static GstBuffer *
plain(guint k, guint n)
{
    GstBuffer *buffer = vae_test_latent(LW, LH, k);
    GST_BUFFER_DURATION(buffer) =
        vae_test_time(4 * (k + n - 1) + 1) - GST_BUFFER_PTS(buffer);
    for (guint i = 1; i < n; i++)
        buffer = gst_buffer_append(buffer, vae_test_latent(LW, LH, k + i));
    GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    return buffer;
}

/* Returns the MD5 of the frames. at_once: number of latents in a buffer without
 * flags; 0: one latent in a buffer, with flags. */
static gchar *
decoded(const char *caps, guint at_once)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    gint n, d;
    gst_harness_set_src_caps_str(h, caps);
    if (at_once == 0)
        vae_test_push_latents(h, LW, LH, 0, LATENTS);
    for (guint k = 0; at_once > 0 && k < LATENTS; k += at_once)
        CHECK_INT(gst_harness_push(h, plain(k, at_once)), GST_FLOW_OK);
    gchar *sum = vae_test_pull_frames(h, 0, FRAMES);
    vae_test_push_eos(h);
    vae_test_no_more(h);
    g_autoptr(GstCaps) out = gst_pad_get_current_caps(h->sinkpad);
    CHECK(gst_structure_get_fraction(gst_caps_get_structure(out, 0),
                                     "framerate", &n, &d));
    CHECK_INT(n, VAE_TEST_FPS * d);
    return sum;
}

TEST(decode)
{
    g_autofree gchar *caps = vae_test_latent_caps(LW, LH, NULL);
    g_autofree gchar *expected = decoded(caps, 0);
    static const struct {
        const char *caps;
        guint at_once;
    } cases[] = {{TENSORS("6:4:16:1", "float32", "4/1"), 1},
                 {TENSORS("6:4:16", "float32", "4/1"), 1},
                 {TENSORS("6:4:16:1:1:1", "float32", "0/1"), 1},
                 {TENSORS("6:4:16:2", "float32", "2/1"), 2}};
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree gchar *found = decoded(cases[i].caps, cases[i].at_once);
        g_print("%s\n", cases[i].caps);
        CHECK(strcmp(found, expected) == 0);
    }
}

/* DISCONT begins a sequence, as with latents. */
TEST(discont)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstBuffer *again = plain(0, 1);
    gst_harness_set_src_caps_str(h, TENSORS("6:4:16", "float32", "4/1"));
    CHECK_INT(gst_harness_push(h, plain(0, 1)), GST_FLOW_OK);
    CHECK_INT(gst_harness_push(h, plain(1, 1)), GST_FLOW_OK);
    g_free(vae_test_pull_frames(h, 0, 5));
    GST_BUFFER_FLAG_SET(again, GST_BUFFER_FLAG_DISCONT);
    CHECK_INT(gst_harness_push(h, again), GST_FLOW_OK);
    vae_test_push_eos(h);
    gst_buffer_unref(vae_test_pull(h));
    vae_test_no_more(h);
}

TEST(refused)
{
    static const char *const cases[][3] = {
        {TENSORS("6:4:15:1", "float32", "4/1"), "channels = 15", "16"},
        {TENSORS("16:6:4:1", "float32", "4/1"), "channels = 4", "16"},
        {TENSORS("6:4", "float32", "4/1"), "dimensions = 6:4", "innermost"},
        {TENSORS("6:4:16:1:2", "float32", "4/1"), "6:4:16:1:2", "channels"},
        {TENSORS("6:0:16", "float32", "4/1"), "6:0:16", "width:height"},
        {TENSORS("6:4:many", "float32", "4/1"), "many", "width:height"},
        {TENSORS("6:4:16", "int8", "4/1"), "int8", "float16"},
        {TENSORS("6:4:16", "float32", "1/2147483647"), "4/2147483647",
         "1/3600"},
        {TENSORS("6:4:16", "float32", "2147483647/1"), "2147483647/1",
         "100000/1"},
        {TENSORS("6:4:16", "float32", "50000/1"), "200000/1", "100000/1"},
        {"other/tensors,format=flexible,framerate=4/1", "flexible", "static"},
        {"other/tensors,format=static,num_tensors=2", "num_tensors = 2", "1"},
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
        vae_test_start(h, cases[i][0]);
        vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                              cases[i][1], cases[i][2]);
    }
}

/* Encodes five frames for these downstream caps. Returns the MD5 of the bytes,
 * and the chosen caps. */
static gchar *
encoded(const char *downstream, GstCaps **chosen)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    GstVideoInfo info;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, WIDTH, HEIGHT);
    info.fps_n = VAE_TEST_FPS;
    info.fps_d = 1;
    gst_harness_set_sink_caps_str(h, downstream);
    gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
    for (guint n = 0; n < 5; n++)
        CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)), GST_FLOW_OK);
    for (guint k = 0; k < 2; k++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(h);
        vae_test_sum(sum, buffer);
    }
    *chosen = gst_pad_get_current_caps(h->sinkpad);
    return g_strdup(g_checksum_get_string(sum));
}

TEST(encode)
{
    static const char *const types[] = {"float32", "float16"};
    static const char *const dimensions[] = {"6:4:16:1", "6:4:16"};
    for (guint i = 0; i < 2; i++) {
        g_autofree gchar *latents =
            g_strdup_printf("video/x-vae-latent,type=%s", types[i]);
        g_autofree gchar *tensors = g_strdup_printf(
            "other/tensors,format=static,num_tensors=1,types=%s,"
            "dimensions=(string)%s,framerate=[0/1,100/1]",
            types[i], dimensions[i]);
        g_autoptr(GstCaps) caps = NULL;
        gchar *right = encoded(latents, &caps), *found;
        gst_caps_unref(caps);
        found = encoded(tensors, &caps);
        vae_test_same(found, right);
        g_autoptr(GstCaps) expected = gst_caps_from_string(tensors);
        gst_caps_set_simple(expected, "framerate", GST_TYPE_FRACTION, 4, 1,
                            NULL);
        CHECK(gst_caps_is_equal(caps, expected));
    }
}

/* Downstream that accepts both gets caps of latents, which have more fields. */
TEST(preferred)
{
    g_autoptr(GstCaps) caps = NULL;
    g_free(encoded("other/tensors,format=static;video/x-vae-latent", &caps));
    CHECK(gst_structure_has_name(gst_caps_get_structure(caps, 0),
                                 "video/x-vae-latent"));
}

TEST(encode_refused)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    gst_harness_set_sink_caps_str(h, TENSORS("6:4:48:1", "float32", "4/1"));
    vae_test_start(h,
                   "video/x-raw,format=RGB,width=48,height=32,framerate=16/1");
    vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                          "(string)6:4:16 }, it expects", "6:4:48:1");
}
