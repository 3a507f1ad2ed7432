/*
 * test_late.c: frames that come too late for the sink (QoS).
 */
#include "vae_test.h"

#define LW 6
#define LH 4
#define STEPS 12
#define FRAMES (4 * STEPS - 3)

/* Running, stream and buffer time are all different. */
#define START (3 * GST_SECOND)
#define TIME (100 * GST_SECOND)
#define BASE (7 * GST_SECOND)

static GstHarness *
decoder(gboolean qos)
{
    GstHarness *h = vae_test_harness("vaedecode", "qos", qos, NULL);
    GstSegment segment;
    vae_test_set_latents(h, LW, LH, NULL);
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = START;
    segment.time = TIME;
    segment.base = BASE;
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
    return h;
}

static void
push(GstHarness *h, guint k0, guint k1)
{
    for (guint k = k0; k < k1; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        GST_BUFFER_PTS(latent) += START;
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
}

/* Adds the checksums of the next frames to the table by OFFSET. */
static void
pull(GstHarness *h, gchar **sums, guint n)
{
    for (guint i = 0; i < n; i++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        GstMapInfo map;
        CHECK(frame != NULL);
        CHECK(GST_BUFFER_OFFSET(frame) < FRAMES);
        CHECK_INT(GST_BUFFER_PTS(frame),
                  START + vae_test_time(GST_BUFFER_OFFSET(frame)));
        CHECK(gst_buffer_map(frame, &map, GST_MAP_READ));
        CHECK(!sums[GST_BUFFER_OFFSET(frame)]);
        sums[GST_BUFFER_OFFSET(frame)] =
            g_compute_checksum_for_data(G_CHECKSUM_MD5, map.data, map.size);
        gst_buffer_unmap(frame, &map);
    }
}

static void
tell(GstHarness *h, gdouble proportion, GstClockTimeDiff diff, guint frame)
{
    CHECK(gst_harness_push_upstream_event(
        h, gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, proportion, diff,
                             BASE + vae_test_time(frame))));
}

/* One message for each frame that is not shown, in order. */
static void
check_message(GstMessage *message, guint frame, guint64 earliest, guint shown,
              guint dropped)
{
    guint64 running, stream, timestamp, duration, processed, lost;
    const guint64 at = vae_test_time(frame);
    gdouble proportion;
    gint64 jitter;
    GstFormat format;
    gboolean live;
    gint quality;
    gst_message_parse_qos(message, &live, &running, &stream, &timestamp,
                          &duration);
    CHECK(!live);
    CHECK_INT(running, BASE + at);
    CHECK_INT(stream, TIME + at);
    CHECK_INT(timestamp, START + at);
    CHECK_INT(duration, vae_test_time(frame + 1) - at);
    gst_message_parse_qos_values(message, &jitter, &proportion, &quality);
    CHECK_INT(jitter, BASE + earliest - running);
    CHECK(proportion == 1.75);
    CHECK_INT(quality, 1000000);
    gst_message_parse_qos_stats(message, &format, &processed, &lost);
    CHECK_INT(format, GST_FORMAT_BUFFERS);
    CHECK_INT(processed, shown);
    CHECK_INT(lost, dropped);
}

/* Late frames are dropped, each with a message. The other frames have the bytes
 * of a run without dropped frames. */
TEST(late)
{
    gchar *all[FRAMES] = {NULL}, *some[FRAMES] = {NULL};
    SCOPED GstHarness *h = decoder(TRUE);
    GstMessage *message;
    push(h, 0, STEPS);
    pull(h, all, FRAMES);
    vae_test_teardown(h);

    h = decoder(TRUE);
    GstBus *bus = vae_test_bus(h);
    push(h, 0, 1);
    pull(h, some, 1);
    /* Frame 2 was late by three frames, so the next useful frame is 2 + 2 * 3 +
     * 1. */
    tell(h, 1.75, (GstClockTimeDiff) vae_test_time(3), 2);
    push(h, 1, 4);
    pull(h, some, 4);
    for (guint frame = 1; frame < 9; frame++) {
        message =
            gst_bus_timed_pop_filtered(bus, 10 * GST_SECOND, GST_MESSAGE_QOS);
        CHECK(message != NULL);
        check_message(message, frame, vae_test_time(9), 1, frame);
        gst_message_unref(message);
    }
    CHECK(!gst_bus_pop_filtered(bus, GST_MESSAGE_QOS));
    CHECK_INT(vae_test_stat(h, "dropped"), 8);
    CHECK_INT(vae_test_stat(h, "frames"), 5);
    /* Then frames are in time again. */
    tell(h, 0.5, -(GstClockTimeDiff) vae_test_time(2), 12);
    push(h, 4, STEPS);
    pull(h, some, FRAMES - 13);
    CHECK_INT(vae_test_stat(h, "dropped"), 8);
    for (guint i = 0; i < FRAMES; i++) {
        CHECK(all[i] && !some[i] == (i > 0 && i < 9));
        CHECK(!some[i] || strcmp(some[i], all[i]) == 0);
        g_free(all[i]);
        g_free(some[i]);
    }
}

/* Lateness before a flush does not drop frames after it. */
TEST(flush)
{
    gchar *sums[FRAMES] = {NULL};
    SCOPED GstHarness *h = decoder(TRUE);
    push(h, 0, 1);
    pull(h, sums, 1);
    tell(h, 2, 100 * GST_SECOND, 2);
    vae_test_flush(h);
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_free(vae_test_pull_frames(h, 0, 9));
    CHECK_INT(vae_test_stat(h, "dropped"), 0);
    g_free(sums[0]);
}

/* A stream that is always late still shows a picture every second. */
TEST(always_late)
{
    gchar *sums[FRAMES] = {NULL};
    SCOPED GstHarness *h = decoder(TRUE);
    push(h, 0, 1);
    pull(h, sums, 1);
    tell(h, 2, 100 * GST_SECOND, 2);
    push(h, 1, STEPS);
    vae_test_push_eos(h);
    pull(h, sums, gst_harness_buffers_in_queue(h));
    for (guint i = 0; i < FRAMES; i++) {
        CHECK(!sums[i] == (i % VAE_TEST_FPS != 0));
        g_free(sums[i]);
    }
}

/* With qos=false no message or event is sent. With qos=true, QOS events from
 * downstream reach upstream of the encoder. */
TEST(off)
{
    gchar *sums[FRAMES] = {NULL};
    SCOPED GstHarness *h = decoder(FALSE);
    GstBus *bus = vae_test_bus(h);
    push(h, 0, 1);
    tell(h, 2, 100 * GST_SECOND, 2);
    push(h, 1, STEPS);
    pull(h, sums, FRAMES);
    CHECK(!gst_bus_pop_filtered(bus, GST_MESSAGE_QOS));
    for (guint i = 0; i < FRAMES; i++)
        g_free(sums[i]);
}

/* Pushes latents that follow each other without timestamps. */
static void
push_untimed(GstHarness *h, guint k0, guint k1)
{
    for (guint k = k0; k < k1; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        GST_BUFFER_PTS(latent) = GST_CLOCK_TIME_NONE;
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
}

/* At this rate no machine is fast enough. */
static GstHarness *
slow_decoder(gint slice)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", slice, NULL);
    vae_test_set_grid(h, 16, LW, LH, ",framerate=100000/1");
    push_untimed(h, 0, 1);
    return h;
}

/* A decoder that is too slow for the sink posts one WARNING. */
TEST(slow)
{
    for (guint late = 0; late < 2; late++) {
        SCOPED GstHarness *h = slow_decoder(4);
        tell(h, 2, late ? (GstClockTimeDiff) GST_SECOND : -1, 2);
        push_untimed(h, 1, 40);
        vae_test_push_eos(h);
        if (late)
            vae_test_one_warning(h, "times slower than real time");
        vae_test_none(h, GST_MESSAGE_WARNING);
    }
}

/* The WARNING does not advise what is set. */
TEST(slow_advice)
{
    for (gint slice = 1; slice <= 4; slice += 3) {
        SCOPED GstHarness *h = slow_decoder(slice);
        tell(h, 2, (GstClockTimeDiff) GST_SECOND, 2);
        push_untimed(h, 1, 40);
        vae_test_push_eos(h);
        g_autoptr(GstMessage) message = gst_bus_pop_filtered(
            GST_ELEMENT_BUS(h->element), GST_MESSAGE_WARNING);
        g_autoptr(GError) error = NULL;
        CHECK(message != NULL);
        gst_message_parse_warning(message, &error, NULL);
        CHECK(strstr(error->message, "and sync=false"));
        CHECK((strstr(error->message, "slice-size") == NULL) == (slice == 1));
    }
}

/* In a short clip the WARNING comes when the sink is late, without another
 * slice. */
TEST(slow_at_once)
{
    SCOPED GstHarness *h = slow_decoder(4);
    push_untimed(h, 1, 5);
    for (guint i = 0; i < 17; i++)
        gst_buffer_unref(vae_test_pull(h));
    tell(h, 2, (GstClockTimeDiff) GST_SECOND, 2);
    vae_test_one_warning(h, "times slower than real time");
}

TEST(encoder)
{
    for (guint on = 0; on < 2; on++) {
        SCOPED GstHarness *h =
            vae_test_harness("vaeencode", "qos", on > 0, NULL);
        GstEvent *event;
        guint seen = 0;
        gst_harness_set_src_caps_str(
            h, "video/x-raw,format=I420,width=48,height=32,framerate=16/1");
        tell(h, 2, GST_SECOND, 2);
        while ((event = gst_harness_try_pull_upstream_event(h))) {
            seen += GST_EVENT_TYPE(event) == GST_EVENT_QOS;
            gst_event_unref(event);
        }
        CHECK_INT(seen, on);
    }
}
