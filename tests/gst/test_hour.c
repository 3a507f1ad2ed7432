/*
 * test_hour.c: after an hour, frames still have the times of their input, so
 * that sound stays in sync. The backend computes nothing.
 */
#include "vae_test.h"

#define SIZE 16
#define HOUR (3600 * GST_SECOND)

/* What came in, of a container that rounds to milliseconds or not. */
typedef struct Clip {
    gint fps_n, fps_d;   /* as the caps say */
    gint true_n, true_d; /* as it is */
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

/* Passes latents on, and looks at the frames that have come of them. */
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
        const GstClockTime wanted = time_of(clip, s->out++);

        CHECK(ABS(GST_CLOCK_DIFF(wanted, GST_BUFFER_PTS(buffer))) <
              (GstClockTimeDiff) frame);
        gst_buffer_unref(buffer);
    }
}

static void
check_hour(const Clip *clip)
{
    Sides s = {.encode = vae_test_harness("vaeencode", NULL),
               .decode = vae_test_harness("vaedecode", NULL)};
    GstBuffer *pixels;
    GstVideoInfo info;

    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, SIZE, SIZE);
    info.fps_n = clip->fps_n;
    info.fps_d = clip->fps_d;
    gst_harness_set_src_caps(s.encode, gst_video_info_to_caps(&info));
    pixels = gst_buffer_new_allocate(NULL, info.size, NULL);
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
    gst_buffer_unref(pixels);
    vae_test_teardown(s.decode);
    vae_test_teardown(s.encode);
}

TEST(hour)
{
    static const Clip clips[] = {
        {16, 1, 16, 1, GST_MSECOND},
        {31, 2, 16, 1, 1},                /* a label that is wrong by 3 % */
        {10, 1, 10000, 1001, GST_USECOND} /* drifts by 3.6 s */
    };

    for (guint i = 0; i < G_N_ELEMENTS(clips); i++)
        check_hour(&clips[i]);
}

int
main(int argc, char **argv)
{
    g_setenv("VAE_FAKE_STEP_US", "0", TRUE);
    return vae_test_main(argc, argv);
}
