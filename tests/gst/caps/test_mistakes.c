/*
 * test_mistakes.c: common mistakes of users. The element posts one message that
 * says what is wrong and how to correct it.
 */
#include "vae_test.h"

#define LW 6
#define LH 4
#define LATENTS 6
#define FRAMES (1 + 4 * (LATENTS - 1))

/* ------------------------------------------------------------------ */
/* Latents without DELTA_UNIT.                                         */

static GstHarness *
decoder(const char *sequence)
{
    GstHarness *h = vae_test_harness("vaedecode", NULL);
    if (sequence)
        gst_util_set_object_arg(G_OBJECT(h->element), "sequence", sequence);
    vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

/* Returns latent k as an application sends it that sets no flags. */
static GstBuffer *
plain(guint k)
{
    GstBuffer *latent = vae_test_latent(LW, LH, k);
    GST_BUFFER_FLAG_UNSET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
    GST_BUFFER_OFFSET(latent) = GST_BUFFER_OFFSET_NONE;
    return latent;
}

static void
push_plain(GstHarness *h)
{
    for (guint k = 0; k < LATENTS; k++)
        CHECK_INT(gst_harness_push(h, plain(k)), GST_FLOW_OK);
}

/* The times show that the latents continue. One WARNING names both
 * corrections. */
TEST(flags)
{
    SCOPED GstHarness *h = decoder(NULL);
    push_plain(h);
    vae_test_push_eos(h);
    CHECK_INT(gst_harness_buffers_received(h), LATENTS);
    vae_test_one_warning(h, "DELTA_UNIT on every latent but the first, or "
                            "sequence=continuous");
}

/* The same for latents that all have several frames, and for several latents in
 * a buffer. */
TEST(groups)
{
    for (guint n = 1; n <= 2; n++) {
        SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
        vae_test_set_latents(h, LW, LH,
                             n == 2 ? ",layout=tchw,frames=2" : NULL);
        for (guint k = 0; k < 3; k++) {
            GstBuffer *latent = plain(1);
            if (n == 2)
                latent = gst_buffer_append(latent, plain(2));
            GST_BUFFER_PTS(latent) = vae_test_time((guint64) k * n * 4);
            GST_BUFFER_DURATION(latent) = vae_test_time((guint64) n * 4);
            CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
        }
        vae_test_push_eos(h);
        vae_test_one_warning(h, "sequence=continuous");
    }
}

/* Pushes three latents without flags and durations, at times in frames. */
static void
push_without_durations(GstHarness *h, guint64 first, guint64 second)
{
    const guint64 times[] = {0, first, second};
    for (guint k = 0; k < G_N_ELEMENTS(times); k++) {
        GstBuffer *latent = plain(k);
        GST_BUFFER_DURATION(latent) = GST_CLOCK_TIME_NONE;
        GST_BUFFER_PTS(latent) = times[k] == GST_CLOCK_TIME_NONE
                                     ? GST_CLOCK_TIME_NONE
                                     : vae_test_time(times[k]);
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
}

/* The same for latents whose times are a whole group apart, without times, and
 * with the times of their arrival. */
TEST(without_durations)
{
    static const guint64 times[][2] = {
        {1, 5},
        {4, 8},
        {GST_CLOCK_TIME_NONE, GST_CLOCK_TIME_NONE},
        {0, 0},
        {7, 13}};
    for (guint i = 0; i < G_N_ELEMENTS(times); i++) {
        SCOPED GstHarness *h = decoder(NULL);
        push_without_durations(h, times[i][0], times[i][1]);
        vae_test_push_eos(h);
        vae_test_one_warning(h, "sequence=continuous");
    }
}

/* No WARNING for sequences of one latent: each latent has the duration of one
 * frame, or the distance of one frame, or does not begin at the end of the
 * previous one. */
TEST(no_mistake)
{
    SCOPED GstHarness *h = decoder(NULL);
    push_without_durations(h, 1, 2);
    for (guint k = 0; k < LATENTS; k++) {
        GstBuffer *latent = plain(0);
        GST_BUFFER_PTS(latent) = vae_test_time(k);
        GST_BUFFER_DURATION(latent) = vae_test_time(1);
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    for (guint k = 10; k < 40; k += 10)
        CHECK_INT(gst_harness_push(h, plain(k)), GST_FLOW_OK);
    vae_test_push_eos(h);
    vae_test_none(h, GST_MESSAGE_WARNING);
}

/* Pushes latents with flags. Each latent from `first` to `last` begins a second
 * after the end of the previous one. */
static void
push_with_jumps(GstHarness *h, guint first, guint last)
{
    GstClockTime later = 0;
    for (guint k = 0; k < LATENTS; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        if (k >= first && k <= last)
            later += GST_SECOND;
        GST_BUFFER_PTS(latent) += later;
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    vae_test_push_eos(h);
    CHECK_INT(gst_harness_buffers_received(h), FRAMES);
}

/* Latents whose times do not follow the rate, and that have lost their meta
 * (gdppay): one WARNING. A single jump is a pause. */
TEST(times)
{
    SCOPED GstHarness *h = decoder(NULL);
    push_with_jumps(h, 1, 5);
    vae_test_one_warning(h, "videorate");
    vae_test_teardown(h);
    h = decoder(NULL);
    push_with_jumps(h, 3, 3);
    vae_test_none(h, GST_MESSAGE_WARNING);
}

/* sequence=continuous gives the frames of latents with flags ... */
TEST(continuous)
{
    SCOPED GstHarness *h = decoder("flags");
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    vae_test_push_eos(h);
    g_autofree gchar *expected = vae_test_pull_frames(h, 0, FRAMES);
    vae_test_teardown(h);

    h = decoder("continuous");
    push_plain(h);
    vae_test_push_eos(h);
    g_autofree gchar *found = vae_test_pull_frames(h, 0, FRAMES);
    CHECK(g_strcmp0(found, expected) == 0);
    vae_test_none(h, GST_MESSAGE_WARNING);
}

/* ... until a discontinuity. */
TEST(discontinuity)
{
    SCOPED GstHarness *h = decoder("continuous");
    GstBuffer *latent = plain(2);
    CHECK_INT(gst_harness_push(h, plain(0)), GST_FLOW_OK);
    CHECK_INT(gst_harness_push(h, plain(1)), GST_FLOW_OK);
    GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DISCONT);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    CHECK_INT(gst_harness_push(h, plain(3)), GST_FLOW_OK);
    vae_test_push_eos(h);
    CHECK_INT(gst_harness_buffers_received(h), 1 + 4 + 1 + 4);
}

/* ------------------------------------------------------------------ */
/* Video that the encoder refuses, or of which it loses a part. */

static GstHarness *
encoder(const char *video)
{
    GstHarness *h = vae_test_harness("vaeencode", NULL);
    vae_test_start(h, video);
    return h;
}

#define SMALL "width=48,height=32,framerate=16/1"

TEST(interlaced)
{
    static const char *const caps[] = {
        "video/x-raw,format=I420,interlace-mode=interleaved," SMALL,
        "video/x-raw,format=I420,interlace-mode=mixed," SMALL,
        "video/x-raw(format:Interlaced),format=I420,interlace-mode=alternate,"
        "field-order=top-field-first," SMALL};
    static const char *const words[] = {"interleaved", "mixed", "alternate"};
    for (guint i = 0; i < G_N_ELEMENTS(caps); i++) {
        SCOPED GstHarness *h = encoder(caps[i]);
        vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                              words[i], "put deinterlace before vaeencode");
    }
}

TEST(format)
{
    SCOPED GstHarness *h = encoder("video/x-raw,format=GRAY8," SMALL);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "GRAY8",
                          "put videoconvert before vaeencode");
}

TEST(short_frame)
{
    SCOPED GstHarness *h = encoder("video/x-raw,format=I420," SMALL);
    GstBuffer *frame = gst_buffer_new_allocate(NULL, 10, NULL);
    vae_test_push_segment(h);
    GST_BUFFER_PTS(frame) = 0;
    gst_harness_push(h, frame);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                          "10 bytes", "expected 2304");
}

/* The CAPS query allows the video, so that the encoder can post its error. If
 * upstream has a choice, it selects other video. */
TEST(interlaced_query)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    g_autoptr(GstCaps) filter = gst_caps_from_string(
        "video/x-raw,format=I420,interlace-mode=interleaved," SMALL
        "; video/x-raw(format:Interlaced),format=I420,"
        "interlace-mode=alternate," SMALL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "sink");
    g_autoptr(GstCaps) found = gst_pad_query_caps(pad, filter);
    CHECK(gst_caps_is_equal(found, filter));
    gst_caps_unref(found);
    found = gst_caps_fixate(gst_pad_query_caps(pad, NULL));
    CHECK_STR(gst_structure_get_string(gst_caps_get_structure(found, 0),
                                       "interlace-mode"),
              "progressive");
}

/* Sends frames. The second frame has a pixel with this alpha. */
static void
check_alpha(const char *format, guint8 alpha, gboolean warns)
{
    g_autofree gchar *text =
        g_strdup_printf("video/x-raw,format=%s," SMALL, format);
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    gst_harness_set_src_caps_str(h, text);
    for (guint n = 0; n < 5; n++) {
        GstBuffer *frame = gst_buffer_new_allocate(NULL, 48 * 32 * 4, NULL);
        gst_buffer_memset(frame, 0, 255, 48 * 32 * 4);
        gst_buffer_memset(frame, 0, 0, 1); /* another colour */
        if (n > 0)
            gst_buffer_memset(frame, 48 * 4 * 7 + 11, alpha, 1);
        GST_BUFFER_PTS(frame) = vae_test_time(n);
        CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
    }
    vae_test_push_eos(h);
    if (warns)
        vae_test_one_warning(h, "alpha");
    vae_test_none(h, GST_MESSAGE_WARNING);
}

TEST(alpha)
{
    check_alpha("RGBA", 254, TRUE);
    check_alpha("BGRA", 0, TRUE);
    check_alpha("RGBA", 255, FALSE);
    check_alpha("RGBx", 0, FALSE);
}

/* ------------------------------------------------------------------ */
/* Downstream that does not accept the latents. */

static GstHarness *
refused_encoder(GstVideoInfo *info)
{
    GstHarness *h = vae_test_harness("vaeencode", NULL);
    gst_harness_set_sink_caps_str(
        h, "video/x-vae-latent,pixel-aspect-ratio=1/1,type=float32");
    gst_video_info_set_format(info, GST_VIDEO_FORMAT_I420, 48, 32);
    info->fps_n = VAE_TEST_FPS;
    info->par_n = 16;
    info->par_d = 11;
    g_autoptr(GstCaps) caps = gst_video_info_to_caps(info);
    gst_harness_push_event(h, gst_event_new_stream_start("refused"));
    gst_harness_push_event(h, gst_event_new_caps(caps));
    vae_test_push_segment(h);
    return h;
}

TEST(pixel_aspect_ratio)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = refused_encoder(&info);
    vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                          "16/11",
                          "put \"videoscale ! "
                          "video/x-raw,pixel-aspect-ratio=1/1\" before "
                          "vaeencode");
}

/* Downstream of the decoder accepts other pixels, rates or formats. The error
 * names the field and the element that changes it. */
TEST(decoder_refused)
{
    static const struct {
        const char *takes, *says;
    } cases[] = {
        {"pixel-aspect-ratio=1/1",
         "pixel-aspect-ratio is 16/11, it expects 1/1: put videoscale after "
         "vaedecode"},
        {"framerate=30/1",
         "framerate is 16/1, it expects 30/1: put videorate after vaedecode"},
        {"format=GRAY8", "it expects GRAY8: put videoconvert after vaedecode"}};
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
        g_autofree gchar *caps =
            vae_test_latent_caps(LW, LH, ",pixel-aspect-ratio=16/11");
        g_autofree gchar *takes =
            g_strdup_printf("video/x-raw,%s", cases[i].takes);
        gst_harness_set_sink_caps_str(h, takes);
        vae_test_start(h, caps);
        vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                              "Downstream does not take", cases[i].says);
    }
}

/* Later buffers get the same flow return without a message. */
TEST(refused_once)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = refused_encoder(&info);
    for (guint n = 0; n < 3; n++)
        CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)),
                  GST_FLOW_NOT_NEGOTIATED);
    vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                          "16/11", "1/1");
    vae_test_none(h, GST_MESSAGE_ERROR);
}

/* ------------------------------------------------------------------ */
/* Invalid times. */

/* A negative time as an unsigned number. The frame gets the counted time. */
TEST(huge_time)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstVideoInfo info;
    vae_test_set_video(h, &info, 48, 32);
    for (guint n = 0; n < 5; n++) {
        GstBuffer *frame = vae_test_frame(&info, n);
        if (n < 2)
            GST_BUFFER_PTS(frame) = -((GstClockTime) n + 1) * GST_SECOND;
        if (n == 3)
            GST_BUFFER_DURATION(frame) = -(GstClockTime) GST_SECOND;
        CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
    }
    vae_test_push_eos(h);
    gst_buffer_unref(vae_test_pull_latent(h, 0, 0, 1));
    gst_buffer_unref(vae_test_pull_latent(h, 1, 1, 5));
    vae_test_one_warning(h, "negative");
    vae_test_teardown(h);

    h = decoder(NULL);
    for (guint k = 0; k < 2; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        GST_BUFFER_PTS(latent) = -((GstClockTime) k + 1) * GST_SECOND;
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    vae_test_push_eos(h);
    g_free(vae_test_pull_frames(h, 0, 5));
    vae_test_one_warning(h, "negative");
}
