/*
 * test_hour.c: after an hour, frames still have the times of their input, so
 * that sound stays in sync. The backend computes nothing.
 */
#include "vae_test.h"

#include <stdio.h>
#include <unistd.h>

#define SIZE 16
#define HOUR (3600 * GST_SECOND)

/* The input, with times rounded to milliseconds or not. */
typedef struct Clip {
    gint fps_n, fps_d;   /* the rate in the caps */
    gint true_n, true_d; /* the true rate */
    GstClockTime unit;   /* times are rounded to this */
} Clip;

static GstClockTime
time_of(const Clip *clip, guint64 n)
{
    const GstClockTime t =
        gst_util_uint64_scale(n, GST_SECOND * clip->true_d, clip->true_n);
    return gst_util_uint64_scale_round(t, 1, clip->unit) * clip->unit;
}

typedef struct Sides {
    GstHarness *encode, *decode;
    guint64 in, out; /* frames */
} Sides;

static void
push(Sides *s, const Clip *clip, GstBuffer *pixels)
{
    GstBuffer *frame = gst_buffer_copy(pixels);
    GST_BUFFER_PTS(frame) = time_of(clip, s->in);
    GST_BUFFER_DURATION(frame) =
        time_of(clip, s->in + 1) - GST_BUFFER_PTS(frame);
    s->in++;
    CHECK_INT(gst_harness_push(s->encode, frame), GST_FLOW_OK);
}

/* Passes latents to the decoder, and checks the frames. */
static void
pull(Sides *s, const Clip *clip)
{
    const GstClockTime frame =
        gst_util_uint64_scale_int(GST_SECOND, clip->true_d, clip->true_n);
    GstBuffer *buffer;
    while ((buffer = gst_harness_try_pull(s->encode))) {
        if (!GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT))
            gst_harness_set_src_caps(
                s->decode,
                gst_pad_get_current_caps(GST_PAD_PEER(s->encode->sinkpad)));
        CHECK_INT(gst_harness_push(s->decode, buffer), GST_FLOW_OK);
    }
    while ((buffer = gst_harness_try_pull(s->decode))) {
        const GstClockTime expected = time_of(clip, s->out++);
        CHECK(ABS(GST_CLOCK_DIFF(expected, GST_BUFFER_PTS(buffer))) <
              (GstClockTimeDiff) frame);
        gst_buffer_unref(buffer);
    }
}

static void
check_hour(const Clip *clip)
{
    Sides s = {.encode = vae_test_harness("vaeencode", NULL),
               .decode = vae_test_harness("vaedecode", NULL)};
    GstVideoInfo info;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, SIZE, SIZE);
    info.fps_n = clip->fps_n;
    info.fps_d = clip->fps_d;
    gst_harness_set_src_caps(s.encode, gst_video_info_to_caps(&info));
    g_autoptr(GstBuffer) pixels =
        gst_buffer_new_allocate(NULL, info.size, NULL);
    gst_buffer_memset(pixels, 0, 99, info.size);
    while (time_of(clip, s.in) < HOUR) {
        push(&s, clip, pixels);
        pull(&s, clip);
    }
    vae_test_push_eos(s.encode);
    pull(&s, clip);
    vae_test_push_eos(s.decode);
    pull(&s, clip);
    CHECK_INT(s.out, s.in);
    vae_test_teardown(s.decode);
    vae_test_teardown(s.encode);
}

static const Clip clips[] = {
    {16, 1, 16, 1, GST_MSECOND},
    {31, 2, 16, 1, 1}, /* a rate in the caps that is wrong by 3 % */
    {10, 1, 10000, 1001, GST_USECOND} /* drifts by 3.6 s */
};

TEST(hour)
{
    for (guint i = 0; i < G_N_ELEMENTS(clips); i++)
        check_hour(&clips[i]);
}

/* ------------------------------------------------------------------ */
/* Through a file of latents. */

typedef struct Counted {
    const Clip *clip;
    guint64 n; /* frames */
} Counted;

static GstPadProbeReturn
stamp(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Counted *counted = data;
    GstBuffer *frame =
        gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_BUFFER_PTS(frame) = time_of(counted->clip, counted->n);
    GST_BUFFER_DURATION(frame) =
        time_of(counted->clip, ++counted->n) - GST_BUFFER_PTS(frame);
    GST_PAD_PROBE_INFO_DATA(info) = frame;
    return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn
compare(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Counted *counted = data;
    const Clip *clip = counted->clip;
    const GstClockTime expected = time_of(clip, counted->n++);
    const GstClockTime found = GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info));
    CHECK(ABS(GST_CLOCK_DIFF(expected, found)) <
          (GstClockTimeDiff) gst_util_uint64_scale_int(GST_SECOND, clip->true_d,
                                                       clip->true_n));
    return GST_PAD_PROBE_OK;
}

/* Plays to the end. The probe gets the buffers at element "probe". Takes text.
 * Returns the number of buffers. */
static guint64
play(gchar *text, const Clip *clip, GstPadProbeCallback probe)
{
    Counted counted = {clip, 0};
    GstElement *pipeline = gst_parse_launch(text, NULL), *element;
    CHECK(pipeline != NULL);
    element = gst_bin_get_by_name(GST_BIN(pipeline), "probe");
    GstPad *pad = gst_element_get_static_pad(element, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, probe, &counted, NULL);
    gst_object_unref(pad);
    gst_object_unref(element);
    vae_test_play(pipeline);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    g_free(text);
    return counted.n;
}

TEST(file)
{
    const gchar *path = vae_test_path("hour.safetensors");
    for (guint i = 0; i < G_N_ELEMENTS(clips); i++) {
        const Clip *clip = &clips[i];
        const guint64 n = gst_util_uint64_scale(HOUR / GST_SECOND, clip->true_n,
                                                clip->true_d);
        CHECK_INT(play(g_strdup_printf(
                           "videotestsrc pattern=black num-buffers=%d ! "
                           "video/x-raw,format=RGB,width=%d,height=%d,"
                           "framerate=%d/%d ! vaeencode name=probe "
                           "model=\"%s\" ! latentmux ! filesink location=%s",
                           (int) n, SIZE, SIZE, clip->fps_n, clip->fps_d,
                           vae_test_weights(), path),
                       clip, stamp),
                  n);
        CHECK_INT(play(g_strdup_printf("filesrc location=%s ! latentdemux ! "
                                       "vaedecode model=\"%s\" ! "
                                       "fakesink name=probe sync=false",
                                       path, vae_test_weights()),
                       clip, compare),
                  n);
    }
}

int
main(int argc, char **argv)
{
    g_setenv("VAE_FAKE_STEP_US", "0", TRUE);
    return vae_test_main(argc, argv);
}
