/*
 * test_decode.c: tests vaedecode in a harness: frames, times and caps.
 */
#include "vae_test.h"

#define LW 6
#define LH 4

static GstHarness *
decoder(void)
{
    return vae_test_decoder(NULL, LW, LH, NULL);
}

/* Returns the MD5 of the frames of latents k0 .. k1 - 1 in a new stream. */
static gchar *
reference(guint n)
{
    SCOPED GstHarness *h = decoder();
    vae_test_push_latents(h, LW, LH, 0, n);
    gchar *sum = vae_test_last_frames(h, 0, 1 + 4 * (n - 1));
    return sum;
}

TEST(frames)
{
    SCOPED GstHarness *h = decoder();
    vae_test_push_latents(h, LW, LH, 0, 10);
    g_free(vae_test_last_frames(h, 0, 37));
    CHECK_INT(vae_test_stat(h, "steps"), 10);
    CHECK_INT(vae_test_stat(h, "frames"), 37);
    CHECK_INT(vae_test_stat(h, "in-flight"), 0);
    CHECK_INT(vae_test_stat(h, "nonfinite"), 0);
    CHECK(vae_test_stat(h, "bytes-total") > 0);
    CHECK(gst_harness_push(h, vae_test_latent(LW, LH, 10)) == GST_FLOW_EOS);
}

/* Latents without times are counted from the start of the segment. */
TEST(no_pts)
{
    SCOPED GstHarness *h = decoder();
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = segment.time = 2 * GST_SECOND;
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
    for (guint k = 0; k < 3; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        GST_BUFFER_PTS(latent) = GST_BUFFER_DURATION(latent) =
            GST_CLOCK_TIME_NONE;
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    for (guint i = 0; i < 9; i++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_PTS(frame), 2 * GST_SECOND + vae_test_time(i));
        CHECK_INT(GST_BUFFER_OFFSET(frame), i);
    }
}

/* At 24/1 most times are no whole number of nanoseconds, but there are no gaps
 * between frames. */
TEST(touching)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstClockTime end = 0;
    vae_test_set_grid(h, 16, LW, LH, ",framerate=24/1");
    for (guint k = 0; k < 8; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        const guint n = k == 0 ? 0 : 4 * k - 3;
        /* Each time is rounded down separately, as some senders do. */
        GST_BUFFER_PTS(latent) = n * (GST_SECOND / 24);
        GST_BUFFER_DURATION(latent) = (k == 0 ? 1 : 4) * (GST_SECOND / 24);
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    for (guint i = 0; i < 29; i++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_PTS(frame), end);
        end = GST_BUFFER_PTS(frame) + GST_BUFFER_DURATION(frame);
    }
    CHECK_INT(end, gst_util_uint64_scale(29, GST_SECOND, 24));
}

TEST(trim)
{
    SCOPED GstHarness *h = decoder();
    GstBuffer *latent = vae_test_latent(LW, LH, 2);
    vae_test_push_latents(h, LW, LH, 0, 2);
    GST_BUFFER_DURATION(latent) = vae_test_time(2);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    g_free(vae_test_last_frames(h, 0, 7));
}

/* A sequence that begins with latent 3 gives only frame 12, the last of its
 * four frames. A GAP event covers frames 9 to 11. */
static void
check_without_context(GstBuffer *first)
{
    SCOPED GstHarness *h = decoder();
    CHECK_INT(gst_harness_push(h, first), GST_FLOW_OK);
    vae_test_push_latents(h, LW, LH, 4, 5);
    g_free(vae_test_pull_frames(h, 12, 5));
    vae_test_expect_gap(h, 9, 3);
}

TEST(start_without_context)
{
    GstBuffer *first = vae_test_latent(LW, LH, 3);
    check_without_context(gst_buffer_copy(first));
    GST_BUFFER_FLAG_UNSET(first, GST_BUFFER_FLAG_DELTA_UNIT);
    check_without_context(first);
}

/* The start of a sequence gives the bytes of a new stream. */
static void
check_restart(void (*begin)(GstHarness *h, GstBuffer **first))
{
    SCOPED GstHarness *h = decoder();
    GstBuffer *first = vae_test_latent(LW, LH, 0);
    gchar *expected = reference(2), *found;
    GstBuffer *second = vae_test_latent(LW, LH, 1);
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_free(vae_test_pull_frames(h, 0, 9));
    begin(h, &first);
    GST_BUFFER_PTS(first) = vae_test_time(9);
    GST_BUFFER_PTS(second) = vae_test_time(10);
    CHECK_INT(gst_harness_push(h, first), GST_FLOW_OK);
    CHECK_INT(gst_harness_push(h, second), GST_FLOW_OK);
    found = vae_test_pull_frames(h, 9, 5);
    vae_test_same(found, expected);
}

static void
begin_by_flag(GstHarness *h, GstBuffer **first)
{
    CHECK(!GST_BUFFER_FLAG_IS_SET(*first, GST_BUFFER_FLAG_DELTA_UNIT));
}

static void
begin_by_discont(GstHarness *h, GstBuffer **first)
{
    GST_BUFFER_FLAG_SET(*first, GST_BUFFER_FLAG_DISCONT);
}

TEST(restart)
{
    check_restart(begin_by_flag);
    check_restart(begin_by_discont);
}

/* The check above can fail: without a start the bytes differ. */
TEST(no_restart)
{
    SCOPED GstHarness *h = decoder();
    g_autofree gchar *expected = reference(2), *found = NULL;
    vae_test_push_latents(h, LW, LH, 0, 2);
    found = vae_test_pull_frames(h, 0, 5);
    CHECK(strcmp(found, expected) == 0);
    g_free(found);
    GstBuffer *latent = vae_test_latent(LW, LH, 1);
    GST_BUFFER_PTS(latent) = vae_test_time(5);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    found = vae_test_pull_frames(h, 5, 4);
    CHECK(strcmp(found, expected) != 0);
}

TEST(clip)
{
    SCOPED GstHarness *h = decoder();
    GstSegment segment;
    GstBuffer *frame;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = segment.time = vae_test_time(3);
    segment.stop = vae_test_time(7) + vae_test_time(1) / 2;
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
    vae_test_push_latents(h, LW, LH, 0, 3);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    g_free(vae_test_pull_frames(h, 3, 4));
    frame = vae_test_pull(h); /* clipped to half of its duration */
    CHECK_INT(GST_BUFFER_PTS(frame), vae_test_time(7));
    CHECK_INT(GST_BUFFER_DURATION(frame), vae_test_time(1) / 2);
    gst_buffer_unref(frame);
    vae_test_wait_eos(h);
    vae_test_no_more(h);
}

TEST(visible_size)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstVideoInfo info;
    vae_test_set_latents(h, 7, 5, ",width=50,height=34");
    vae_test_push_latents(h, 7, 5, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
    g_autoptr(GstCaps) out = gst_pad_get_current_caps(h->sinkpad);
    CHECK(gst_video_info_from_caps(&info, out));
    CHECK_INT(info.width, 50);
    CHECK_INT(info.height, 34);
    CHECK_INT(info.fps_n, 16);
}

static void
check_format(const char *expected, int latent_height, const char *field,
             const char *value)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstVideoInfo info;
    gst_harness_set_sink_caps_str(h, expected);
    vae_test_set_latents(h, 1, latent_height, NULL);
    vae_test_push_latents(h, 1, latent_height, 0, 1);
    g_autoptr(GstBuffer) frame = vae_test_pull(h);
    g_autoptr(GstCaps) out = gst_pad_get_current_caps(h->sinkpad);
    CHECK(gst_video_info_from_caps(&info, out));
    CHECK_INT(gst_buffer_get_size(frame), info.size);
    CHECK_STR(gst_structure_get_string(gst_caps_get_structure(out, 0), field),
              value);
}

TEST(formats)
{
    check_format("video/x-raw", 4, "format", "I420");
    check_format("video/x-raw,format={NV12,RGB}", 4, "format", "NV12");
    check_format("video/x-raw,format=RGB", 4, "colorimetry", "sRGB");
    check_format("video/x-raw,format=RGBA", 4, "colorimetry", "sRGB");
    check_format("video/x-raw,format=BGRx", 4, "colorimetry", "sRGB");
    check_format("video/x-raw,format=I420", 72, "colorimetry", "bt601");
    check_format("video/x-raw,format=I420", 73, "colorimetry", "bt709");
    check_format("video/x-raw,format=NV12", 73, "chroma-site", "mpeg2");
    check_format("video/x-raw,format=I420", 4, "chroma-site", "mpeg2");
    check_format("video/x-raw,format=I420,colorimetry=bt709", 4, "colorimetry",
                 "bt709");
    check_format("video/x-raw,format=I420,colorimetry=1:4:16:3", 4,
                 "colorimetry", "1:4:16:3");
    check_format("video/x-raw,format=I420,chroma-site=jpeg", 4, "chroma-site",
                 "jpeg");
    check_format("video/x-raw", 4, "interlace-mode", "progressive");
    check_format("video/x-raw,format=RGB", 4, "chroma-site", NULL);
}

TEST(framerate)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "framerate", 25, 1, NULL);
    vae_test_set_grid(h, 16, LW, LH, "");
    vae_test_push_latents(h, LW, LH, 0, 1);
    GstBuffer *frame = vae_test_pull(h);
    CHECK_INT(GST_BUFFER_DURATION(frame), GST_SECOND / 25);
    gst_buffer_unref(frame);
    vae_test_teardown(h);

    h = vae_test_harness("vaedecode", NULL);
    vae_test_set_grid(h, 16, LW, LH, "");
    vae_test_push_latents(h, LW, LH, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1)); /* 16/1 is the rate of Wan 2.1 */
}

TEST(nonfinite)
{
    SCOPED GstHarness *h = decoder();
    for (guint k = 0; k < 2; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        GstMapInfo map;
        CHECK(gst_buffer_map(latent, &map, GST_MAP_WRITE));
        ((float *) map.data)[5] = NAN;
        ((float *) map.data)[6] = INFINITY;
        gst_buffer_unmap(latent, &map);
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    g_free(vae_test_last_frames(h, 0, 5));
    CHECK_INT(vae_test_stat(h, "nonfinite"), 4);
    vae_test_one_warning(h, "NaN, infinite or too large for float32");
}

/* Several latents in a buffer, with time outside and inside of channels. */
static void
check_layout(const char *layout, gboolean time_first)
{
    const gsize plane = LW * LH * 4, step = 16 * plane;
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autofree gchar *more = g_strdup_printf(",layout=%s,frames=3", layout);
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, 3 * step, NULL);
    gchar *expected = reference(3), *found;
    GstMapInfo to, from;
    CHECK(gst_buffer_map(buffer, &to, GST_MAP_WRITE));
    for (guint k = 0; k < 3; k++) {
        g_autoptr(GstBuffer) latent = vae_test_latent(LW, LH, k);
        CHECK(gst_buffer_map(latent, &from, GST_MAP_READ));
        for (guint c = 0; c < 16; c++)
            memcpy(to.data + (time_first ? k * step + c * plane
                                         : (c * 3 + k) * plane),
                   from.data + c * plane, plane);
        gst_buffer_unmap(latent, &from);
    }
    gst_buffer_unmap(buffer, &to);
    GST_BUFFER_PTS(buffer) = 0;
    GST_BUFFER_DURATION(buffer) = vae_test_time(9);
    vae_test_set_latents(h, LW, LH, more);
    CHECK_INT(gst_harness_push(h, buffer), GST_FLOW_OK);
    found = vae_test_pull_frames(h, 0, 9);
    vae_test_same(found, expected);
}

TEST(layouts)
{
    check_layout("tchw", TRUE);
    check_layout("cthw", FALSE);
}

/* At the highest rate each frame has a different time, and at the lowest rate
 * no frame is lost. */
TEST(rates_taken)
{
    static const gint rates[][2] = {{1, 3600}, {100000, 1}};
    for (guint i = 0; i < G_N_ELEMENTS(rates); i++) {
        SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
        const GstClockTime time = GST_SECOND * rates[i][1] / rates[i][0];
        g_autofree gchar *caps = g_strdup_printf(
            "video/x-vae-latent,type=float32,channels=16,latent-width=6,"
            "latent-height=4,framerate=%d/%d",
            rates[i][0], rates[i][1]);
        gst_harness_set_src_caps_str(h, caps);
        for (guint k = 0; k < 3; k++) {
            GstBuffer *latent = vae_test_latent(LW, LH, k);
            GST_BUFFER_PTS(latent) = (k == 0 ? 0 : 4 * k - 3) * time;
            GST_BUFFER_DURATION(latent) = (k == 0 ? 1 : 4) * time;
            CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
        }
        for (guint k = 0; k < 9; k++) {
            g_autoptr(GstBuffer) frame = vae_test_pull(h);
            CHECK_INT(GST_BUFFER_PTS(frame), k * time);
            CHECK_INT(GST_BUFFER_DURATION(frame), time);
        }
    }
}
