/*
 * test_segment.c: segments, discontinuities and gaps from upstream.
 */
#include "vae_test.h"

#define LW 6
#define LH 4

static GstHarness *
decoder(void)
{
    return vae_test_decoder(NULL, LW, LH, NULL);
}

static GstHarness *
encoder(GstVideoInfo *info)
{
    GstHarness *h = vae_test_harness("vaeencode", NULL);
    vae_test_set_video(h, info, 48, 32);
    return h;
}

static void
push_segment(GstHarness *h, guint start, guint stop, guint base)
{
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = segment.time = segment.position = vae_test_time(start);
    segment.stop = vae_test_time(stop);
    segment.base = vae_test_time(base);
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
}

static void
end(GstHarness *h)
{
    vae_test_push_eos(h);
    vae_test_no_more(h);
}

/* Pushes a segment that begins with a frame. Earlier frames are dropped. */
static GstSegment
pull_segment(GstHarness *h, guint first)
{
    GstSegment segment;
    do {
        g_autoptr(GstEvent) event = vae_test_event(h, GST_EVENT_SEGMENT);
        CHECK(event != NULL);
        gst_event_copy_segment(event, &segment);
    } while (segment.start != vae_test_time(first));
    return segment;
}

/* Checks frames first .. last - 1 of a segment, and their running times. */
static void
pull_running(GstHarness *h, guint first, guint last, guint running)
{
    GstSegment segment;
    for (guint n = first; n < last; n++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        if (n == first)
            segment = pull_segment(h, first);
        CHECK_INT(GST_BUFFER_PTS(frame), vae_test_time(n));
        CHECK_INT(gst_segment_to_running_time(&segment, GST_FORMAT_TIME,
                                              GST_BUFFER_PTS(frame)),
                  vae_test_time(running + n - first));
        CHECK_INT(GST_BUFFER_IS_DISCONT(frame), n == first);
    }
}

/* Two parts of a clip, one after the other. */
TEST(parts)
{
    SCOPED GstHarness *h = decoder();
    push_segment(h, 3, 8, 0);
    vae_test_push_latents(h, LW, LH, 0, 3);
    push_segment(h, 22, 27, 5);
    GstBuffer *latent = vae_test_latent(LW, LH, 4);
    GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DISCONT);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    vae_test_push_latents(h, LW, LH, 5, 8);
    pull_running(h, 3, 8, 0);
    pull_running(h, 22, 27, 5);
    end(h);
}

/* After the stop nothing is decoded, and upstream gets EOS. A new segment
 * begins again. */
TEST(stop)
{
    SCOPED GstHarness *h = decoder();
    push_segment(h, 0, 7, 0);
    vae_test_push_latents(h, LW, LH, 0, 3);
    CHECK_INT(gst_harness_push(h, vae_test_latent(LW, LH, 3)), GST_FLOW_EOS);
    CHECK_INT(gst_harness_push(h, vae_test_latent(LW, LH, 4)), GST_FLOW_EOS);
    g_free(vae_test_pull_frames(h, 0, 7));
    push_segment(h, 17, 21, 7);
    vae_test_push_latents(h, LW, LH, 4, 6);
    /* Latent 3 is missing, so the first group gives its last frame. */
    g_free(vae_test_pull_frames(h, 17, 4));
    end(h);
    CHECK_INT(vae_test_stat(h, "steps"), 5);
}

/* Upstream marks latents as DECODE_ONLY: their frames are not made. */
TEST(decode_only)
{
    SCOPED GstHarness *h = decoder();
    for (guint k = 0; k < 4; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        if (k < 2)
            GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DECODE_ONLY);
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    g_free(vae_test_pull_frames(h, 5, 8));
    end(h);
    CHECK_INT(vae_test_stat(h, "frames"), 8);
    CHECK_INT(vae_test_stat(h, "steps"), 4);
}

/* A segment that is rounded in another way shows no sliver of the previous or
 * the next frame. */
TEST(slivers)
{
    SCOPED GstHarness *h = decoder();
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = segment.time = vae_test_time(3) - 20;
    segment.stop = vae_test_time(7) + 20;
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_free(vae_test_pull_frames(h, 3, 4));
    end(h);
}

/* At 24/1 and from any latent on, frames have the times of a clip that began at
 * 0. */
TEST(same_times)
{
    for (guint k = 1; k < 40; k += 3) {
        SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
        guint n = 4 * k;
        vae_test_set_grid(h, 16, 1, 1, ",framerate=24/1");
        for (guint i = k; i < k + 3; i++) {
            GstBuffer *latent = vae_test_latent(1, 1, i);
            GST_BUFFER_PTS(latent) =
                gst_util_uint64_scale(4 * i - 3, GST_SECOND, 24);
            GST_BUFFER_DURATION(latent) = GST_SECOND / 6;
            CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
        }
        for (guint i = 0; i < 9; i++, n++) {
            g_autoptr(GstBuffer) frame = vae_test_pull(h);
            CHECK_INT(GST_BUFFER_PTS(frame),
                      gst_util_uint64_scale(n, GST_SECOND, 24));
            CHECK_INT(GST_BUFFER_OFFSET(frame), n);
        }
    }
}

/* ------------------------------------------------------------------ */

static void
push_backwards(GstHarness *h)
{
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.rate = -1;
    segment.stop = GST_SECOND;
    gst_harness_push_event(h, gst_event_new_segment(&segment));
}

/* Each group comes forwards and begins with DISCONT. Its frames leave
 * backwards. */
TEST(reverse)
{
    static const guint groups[][2] = {{2, 4}, {0, 2}};
    SCOPED GstHarness *h = decoder();
    guint next = 13;
    push_backwards(h);
    for (guint g = 0; g < 2; g++)
        for (guint k = groups[g][0]; k < groups[g][1]; k++) {
            GstBuffer *latent = vae_test_latent(LW, LH, k);
            if (k == groups[g][0])
                GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DISCONT);
            GST_BUFFER_OFFSET(latent) = k;
            CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
        }
    gst_harness_push_event(h, gst_event_new_eos());
    while (next > 0) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        /* Latent 2 has no context and gives only its last frame. */
        next = next == 8 ? 4 : next - 1;
        CHECK_INT(GST_BUFFER_PTS(frame), vae_test_time(next));
        CHECK_INT(GST_BUFFER_OFFSET(frame), next);
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(frame, GST_BUFFER_FLAG_DISCONT),
                  next == 12 || next == 4);
    }
    vae_test_wait_eos(h);
}

/* An encoder cannot run backwards. */
TEST(reverse_encoder)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    g_autoptr(GstBuffer) buffer = vae_test_frame(&info, 0);
    push_backwards(h);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_NOT_IMPLEMENTED,
                          "backwards", "frame");
    CHECK_INT(gst_harness_push(h, gst_buffer_ref(buffer)), GST_FLOW_ERROR);
    /* The process lives on. */
    push_segment(h, 0, 100, 0);
    CHECK_INT(gst_harness_push(h, buffer), GST_FLOW_OK);
    buffer = vae_test_pull(h);
    CHECK_INT(GST_BUFFER_PTS(buffer), 0);
}

/* ------------------------------------------------------------------ */

static GstEvent *
gap_event(guint first, guint frames, GstGapFlags flags)
{
    GstEvent *event =
        gst_event_new_gap(vae_test_time(first), vae_test_time(frames));
    gst_event_set_gap_flags(event, flags);
    return event;
}

/* A GAP without flags is forwarded and changes nothing. */
TEST(gap)
{
    SCOPED GstHarness *h = decoder();
    vae_test_push_latents(h, LW, LH, 0, 4);
    gchar *expected = vae_test_pull_frames(h, 0, 13);
    vae_test_teardown(h);

    h = decoder();
    vae_test_push_latents(h, LW, LH, 0, 2);
    CHECK(gst_harness_push_event(h, gap_event(5, 0, 0)));
    vae_test_push_latents(h, LW, LH, 2, 4);
    gchar *found = vae_test_pull_frames(h, 0, 13);
    vae_test_same(found, expected);
    CHECK_INT(vae_test_expect_gap(h, 5, 0), 0);
}

/* After missing data the next latent has no context: it gives one frame, the
 * last of its group, and a GAP for the others. Later frames are as after any
 * start without context. */
TEST(missing_data)
{
    SCOPED GstHarness *h = decoder();
    vae_test_push_latents(h, LW, LH, 3, 6);
    gchar *expected = vae_test_pull_frames(h, 12, 9);
    vae_test_teardown(h);

    h = decoder();
    vae_test_push_latents(h, LW, LH, 0, 2);
    CHECK(
        gst_harness_push_event(h, gap_event(5, 4, GST_GAP_FLAG_MISSING_DATA)));
    vae_test_push_latents(h, LW, LH, 3, 6);
    g_free(vae_test_pull_frames(h, 0, 5));
    gchar *found = vae_test_pull_frames(h, 12, 9);
    vae_test_same(found, expected);
    CHECK_INT(vae_test_expect_gap(h, 5, 4), GST_GAP_FLAG_MISSING_DATA);
    CHECK_INT(vae_test_expect_gap(h, 9, 3), 0);
}

TEST(missing_frames)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    static const guint from[] = {0, 1, 8, 9}, to[] = {1, 3, 9, 13};
    for (guint n = 0; n < 13; n++)
        if (n == 3)
            CHECK(gst_harness_push_event(
                h, gap_event(3, 5, GST_GAP_FLAG_MISSING_DATA)));
        else if (n < 3 || n >= 8)
            CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)),
                      GST_FLOW_OK);
    for (guint i = 0; i < 4; i++) {
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_PTS(latent), vae_test_time(from[i]));
        CHECK_INT(GST_BUFFER_PTS(latent) + GST_BUFFER_DURATION(latent),
                  vae_test_time(to[i]));
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT),
                  i % 2);
        CHECK_INT(GST_BUFFER_IS_DISCONT(latent), i % 2 == 0);
    }
    CHECK_INT(vae_test_expect_gap(h, 3, 5), GST_GAP_FLAG_MISSING_DATA);
}
