/*
 * test_roundtrip.c: vaeencode ! vaedecode returns as many frames as it
 * received, with the same bytes in every run and for every slice size.
 */
#include "vae_test.h"

typedef struct Seen {
    guint frames;
    GstClockTime end;
    GChecksum *sum;
} Seen;

static void
handoff(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
    Seen *seen = data;
    CHECK_INT(GST_BUFFER_PTS(buffer), seen->end);
    seen->end = GST_BUFFER_PTS(buffer) + GST_BUFFER_DURATION(buffer);
    seen->frames++;
    vae_test_sum(seen->sum, buffer);
}

/* Encodes and decodes n frames. Returns the MD5 of the result. */
static gchar *
run(guint n, const char *rate, guint slice, guint threads, const char *backend,
    Seen *out)
{
    g_autofree gchar *text = g_strdup_printf(
        "videotestsrc num-buffers=%u pattern=ball ! video/x-raw,format=RGB,"
        "width=50,height=34,framerate=%s ! vaeencode model=\"%s\" threads=%u "
        "slice-size=%u backend=%s precision=fp32 ! vaedecode model=\"%s\" "
        "threads=%u slice-size=%u backend=%s precision=fp32 name=d ! "
        "video/x-raw,format=RGB ! fakesink name=s sync=false "
        "signal-handoffs=true",
        n, rate, vae_test_weights(), threads, slice, backend,
        vae_test_weights(), threads, slice, backend);
    GstElement *pipeline = gst_parse_launch(text, NULL);
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "s");
    Seen seen = {.sum = g_checksum_new(G_CHECKSUM_MD5)};
    g_signal_connect(sink, "handoff", G_CALLBACK(handoff), &seen);
    vae_test_play(pipeline);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gchar *md5 = g_strdup(g_checksum_get_string(seen.sum));
    g_checksum_free(seen.sum);
    gst_object_unref(sink);
    gst_object_unref(pipeline);
    if (out)
        *out = seen;
    return md5;
}

TEST(counts)
{
    static const char *const rates[] = {"16/1", "24/1", "30000/1001"};
    static const gint fps[][2] = {{16, 1}, {24, 1}, {30000, 1001}};
    for (guint n = 1; n <= 17; n++)
        for (guint r = 0; r < G_N_ELEMENTS(rates); r++) {
            Seen seen;
            g_free(run(n, rates[r], 0, 1, "auto", &seen));
            CHECK_INT(seen.frames, n);
            CHECK_INT(seen.end, gst_util_uint64_scale(n, GST_SECOND * fps[r][1],
                                                      fps[r][0]));
        }
}

/* How the frames state their durations. */
typedef enum { TRUE_DURATION, RATE_DURATION, NO_DURATION } Stated;

/* Returns the time of frame i of 13 frames in 2 s, also at a variable rate. */
static GstClockTime
uneven(guint i, gboolean changes)
{
    const GstClockTime slow = gst_util_uint64_scale(i, 2 * GST_SECOND, 13);
    return changes && i > 5 ? uneven(5, FALSE) + (i - 5) * 20 * GST_MSECOND
                            : slow;
}

/* The times do not follow the rate of the caps, 16/1. The decoded frames have
 * the times of the original ones. */
static void
check_uneven(gboolean changes, Stated stated)
{
    SCOPED GstHarness *e = vae_test_harness("vaeencode", NULL);
    SCOPED GstHarness *d = vae_test_harness("vaedecode", NULL);
    GstVideoInfo info;
    GstBuffer *latent;
    GstClockTime end = 0;
    guint n = 0;
    vae_test_set_video(e, &info, 48, 32);
    for (guint i = 0; i < 13; i++) {
        GstBuffer *frame = vae_test_frame(&info, i);
        GST_BUFFER_PTS(frame) = uneven(i, changes);
        GST_BUFFER_DURATION(frame) =
            stated == TRUE_DURATION
                ? uneven(i + 1, changes) - GST_BUFFER_PTS(frame)
                : (stated == RATE_DURATION ? vae_test_time(1)
                                           : GST_CLOCK_TIME_NONE);
        CHECK_INT(gst_harness_push(e, frame), GST_FLOW_OK);
    }
    vae_test_push_eos(e);
    gst_harness_set_src_caps(
        d, gst_pad_get_current_caps(GST_PAD_PEER(e->sinkpad)));
    while ((latent = gst_harness_try_pull(e)))
        CHECK_INT(gst_harness_push(d, latent), GST_FLOW_OK);
    vae_test_push_eos(d);
    for (GstBuffer *frame; (frame = gst_harness_try_pull(d)); n++) {
        const GstClockTime expected = uneven(n, changes);
        /* A clip of one frame has the duration of the rate. */
        if (n != 1 || stated == TRUE_DURATION)
            CHECK_INT(GST_BUFFER_PTS(frame), end);
        CHECK(ABS(GST_CLOCK_DIFF(expected, GST_BUFFER_PTS(frame))) <= 4);
        end = GST_BUFFER_PTS(frame) + GST_BUFFER_DURATION(frame);
        gst_buffer_unref(frame);
    }
    CHECK_INT(n, 13);
    CHECK(ABS(GST_CLOCK_DIFF(uneven(13, changes), end)) <= 4); /* rounded */
}

TEST(uneven)
{
    check_uneven(FALSE, TRUE_DURATION);
    check_uneven(TRUE, TRUE_DURATION);
    check_uneven(FALSE, RATE_DURATION);
    check_uneven(FALSE, NO_DURATION);
}

TEST(deterministic)
{
    g_autofree gchar *first = run(14, "16/1", 0, 2, "auto", NULL);
    for (guint i = 1; i < 5; i++) {
        g_autofree gchar *again = run(14, "16/1", 0, 2, "auto", NULL);
        CHECK(strcmp(first, again) == 0);
    }
}

/* The backend is set, because the numbers depend on it. */
static void
check_slices(const char *backend)
{
    static const guint slices[] = {2, 3, 5, 8};
    g_autofree gchar *one = run(23, "16/1", 1, 1, backend, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(slices); i++) {
        g_autofree gchar *other = run(23, "16/1", slices[i], 1, backend, NULL);
        if (strcmp(one, other) != 0)
            g_printerr("%s: slices of %u: %s, of 1: %s\n", backend, slices[i],
                       other, one);
        CHECK(strcmp(one, other) == 0);
    }
}

TEST(slices)
{
    check_slices("ref");
    check_slices("auto");
}

/* The caps of raw video after a file of latents. */
static void
check_kept(const char *in, const char *out, const char *field,
           const char *expected)
{
    const gchar *path = vae_test_path("clip.safetensors");
    vae_test_run(
        "videotestsrc num-buffers=1 ! video/x-raw,width=16,height=16,"
        "framerate=16/1,%s ! vaeencode model=\"%s\" threads=1 ! latentmux ! "
        "filesink location=%s",
        in, vae_test_weights(), path);
    g_autofree gchar *read = g_strdup_printf(
        "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" "
        "threads=1 ! video/x-raw,%s ! fakesink name=s sync=false",
        path, vae_test_weights(), out);
    GstElement *pipeline = gst_parse_launch(read, NULL);
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "s");
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    CHECK(gst_element_get_state(pipeline, NULL, NULL, GST_CLOCK_TIME_NONE) ==
          GST_STATE_CHANGE_SUCCESS);
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    const GValue *value =
        gst_structure_get_value(gst_caps_get_structure(caps, 0), field);
    g_autofree gchar *found = value ? gst_value_serialize(value) : NULL;
    if (g_strcmp0(found, expected) != 0)
        g_printerr("%s to %s: %s is %s, expected %s\n", in, out, field, found,
                   expected);
    CHECK(g_strcmp0(found, expected) == 0);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pad);
    gst_object_unref(sink);
    gst_object_unref(pipeline);
}

#define MASTERING "34000:16000:13250:34500:7500:3000:15635:16450:10000000:1"
#define HDR                                                                    \
    "colorimetry=bt2100-pq,mastering-display-info=(string)" MASTERING          \
    ",content-light-level=(string)1000:400"

/* Colorimetry and pixel aspect ratio; downstream may request another
 * colorimetry. */
TEST(kept)
{
    const char *yuv = "format=I420", *ten = "format=I420_10LE";
    const char *field = "colorimetry";
    check_kept("format=I420,colorimetry=bt709", yuv, field, "bt709");
    check_kept("format=I420,colorimetry=1:4:16:4", yuv, field, "1:4:16:4");
    check_kept("format=I420_10LE,colorimetry=bt2100-pq", ten, field,
               "bt2100-pq");
    check_kept("format=I420,colorimetry=bt709", "format=RGB", field, "sRGB");
    check_kept("format=I420,colorimetry=bt709", "format=I420,colorimetry=bt601",
               field, "bt601");
    check_kept("format=RGB", yuv, field, "bt601");
    check_kept("format=I420,pixel-aspect-ratio=8/9", yuv, "pixel-aspect-ratio",
               "8/9");
    check_kept("format=I420", yuv, "pixel-aspect-ratio", "1/1");
    check_kept("format=I420,chroma-site=jpeg", yuv, "chroma-site", "jpeg");
    check_kept("format=I420,chroma-site=jpeg",
               "format=I420,chroma-site=cosited", "chroma-site", "cosited");
    check_kept("format=I420", yuv, "chroma-site", "mpeg2");
    check_kept("format=I420_10LE," HDR, ten, "mastering-display-info",
               MASTERING);
    check_kept("format=I420_10LE," HDR, "format=GBR_10LE",
               "content-light-level", "1000:400");
}
