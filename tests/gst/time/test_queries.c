/*
 * test_queries.c: latency, allocation, quality of service, renegotiation,
 * messages and missing backends.
 */
#include "vae_test.h"

#include "vae-private/stream.h"

#define LW 6
#define LH 4

static GstHarness *
decoder(void)
{
    return vae_test_decoder(NULL, LW, LH, NULL);
}

static void
query_latency(GstHarness *h, gboolean *live, GstClockTime *min,
              GstClockTime *max)
{
    g_autoptr(GstQuery) query = gst_query_new_latency();
    CHECK(gst_pad_peer_query(h->sinkpad, query));
    gst_query_parse_latency(query, live, min, max);
}

TEST(latency)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstClockTime min, max;
    gboolean live;
    gst_harness_set_upstream_latency(h, 5 * GST_MSECOND);
    vae_test_set_latents(h, LW, LH, NULL);
    query_latency(h, &live, &min, &max);
    CHECK(live);                     /* the harness is live */
    CHECK_INT(min, 5 * GST_MSECOND); /* nothing is known yet */
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_free(vae_test_pull_frames(h, 0, 9));
    query_latency(h, &live, &min, &max);
    CHECK(min > 5 * GST_MSECOND);
    CHECK_INT(min % GST_MSECOND, 0);
    CHECK(max == GST_CLOCK_TIME_NONE || max >= min);
    /* A live pipeline computes one step at a time. */
    CHECK_INT(vae_test_stat(h, "slice-size"), 1);
    CHECK_INT(vae_test_stat(h, "slices"), 3);
}

TEST(propose)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    g_autoptr(GstCaps) caps = gst_caps_from_string(
        "video/x-raw,format=I420,width=48,height=32,framerate=16/1");
    g_autoptr(GstQuery) query = gst_query_new_allocation(caps, TRUE);
    guint size, min;
    CHECK(gst_pad_peer_query(h->srcpad, query));
    CHECK(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL));
    CHECK_INT(gst_query_get_n_allocation_pools(query), 1);
    gst_query_parse_nth_allocation_pool(query, 0, NULL, &size, &min, NULL);
    CHECK_INT(size, 48 * 32 * 3 / 2);
    CHECK(min >= 8);
}

/* The last frame of the segment stays on the screen. */
TEST(qos_last)
{
    SCOPED GstHarness *h = decoder();
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.stop = vae_test_time(9);
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
    vae_test_push_latents(h, LW, LH, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    CHECK(gst_harness_push_upstream_event(
        h, gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 2.0, 10 * GST_SECOND,
                             vae_test_time(1))));
    vae_test_push_latents(h, LW, LH, 1, 3);
    GstBuffer *frame = vae_test_pull(h);
    CHECK_INT(GST_BUFFER_PTS(frame), vae_test_time(8));
    gst_buffer_unref(frame);
    vae_test_no_more(h);
    CHECK_INT(vae_test_stat(h, "dropped"), 7);
}

/* Downstream accepts only RGB, and after five frames the caps in caps_text, in
 * the middle of a sequence. Returns how many of the next sixteen frames are
 * RGB; the others are RGBA. */
static guint
rgb_frames_after(const char *caps_text)
{
    g_autoptr(GstElement) bin = gst_parse_bin_from_description(
        "vaedecode name=d threads=1 ! capsfilter name=f "
        "caps=video/x-raw,format=RGB",
        TRUE, NULL);
    GstElement *decode = gst_bin_get_by_name(GST_BIN(bin), "d");
    GstElement *filter = gst_bin_get_by_name(GST_BIN(bin), "f");
    g_autoptr(GstCaps) then = gst_caps_from_string(caps_text);
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, NULL);
    guint rgb_frames = 0;
    g_object_set(decode, "model", vae_test_weights(), NULL);
    GstHarness *h = gst_harness_new_with_element(bin, "sink", "src");
    gst_harness_set_src_caps_str(h, text);
    vae_test_push_latents(h, LW, LH, 0, 2);
    for (guint i = 0; i < 5; i++)
        gst_buffer_unref(vae_test_pull(h));
    g_object_set(filter, "caps", then, NULL);
    vae_test_push_latents(h, LW, LH, 2, 6);
    for (guint i = 5; i < 21; i++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_PTS(frame), vae_test_time(i));
        if (gst_buffer_get_size(frame) == 48 * 32 * 3)
            rgb_frames++;
        else
            CHECK_INT(gst_buffer_get_size(frame), 48 * 32 * 4);
    }
    gst_object_unref(decode);
    gst_object_unref(filter);
    gst_harness_teardown(h);
    return rgb_frames;
}

TEST(reconfigure)
{
    CHECK(rgb_frames_after("video/x-raw,format=RGBA") < 16);
}

/* A negotiated format stays if it is still accepted. */
TEST(reconfigure_keeps)
{
    CHECK_INT(rgb_frames_after("video/x-raw,format={I420,RGBA,RGB}"), 16);
}

/* Returns the number of frames in the messages before the EOS event. */
static GstPadProbeReturn
stats_before_eos(GstPad *pad, GstPadProbeInfo *info, gpointer user_data)
{
    g_autoptr(GstElement) element = gst_pad_get_parent_element(pad);
    g_autoptr(GstBus) bus = gst_element_get_bus(element);
    GstMessage *message;
    while (GST_EVENT_TYPE(info->data) == GST_EVENT_EOS &&
           (message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT))) {
        CHECK(gst_message_has_name(message, "vae-stats"));
        CHECK(gst_structure_get_uint64(gst_message_get_structure(message),
                                       "frames", user_data));
        gst_message_unref(message);
    }
    return GST_PAD_PROBE_OK;
}

TEST(stats_message)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "post-stats", TRUE, NULL);
    GstPad *pad = gst_element_get_static_pad(h->element, "src");
    guint64 frames = 0;
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
                      stats_before_eos, &frames, NULL);
    gst_object_unref(pad);
    vae_test_set_latents(h, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, 3);
    vae_test_push_eos(h);
    CHECK_INT(frames, 9);
}

/* A missing backend is an error. A backend without devices ignores the
 * device. */
TEST(backend)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "cuda-device-id", 7, NULL);
    gchar *caps = vae_test_latent_caps(LW, LH, NULL), why[256];
    gint id = 0;
    g_object_get(h->element, "cuda-device-id", &id, NULL);
    CHECK_INT(id, 7);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "ref");
    gst_harness_set_src_caps_str(h, caps);
    vae_test_push_latents(h, LW, LH, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    vae_test_teardown(h);

    h = vae_test_harness("vaeencode", NULL);
    g_object_get(h->element, "cuda-device-id", &id, NULL);
    CHECK_INT(id, -1);
    vae_test_teardown(h);

    if (vae_backend_available(VAE_BACKEND_CUDA, why, sizeof why)) {
        g_free(caps);
        return;
    }
    h = vae_test_harness("vaedecode", NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "cuda");
    gst_harness_set_src_caps_str(h, caps);
    vae_test_expect_error(h, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT,
                          "backend cuda", why);
    g_free(caps);
}
