/*
 * test_events.c: sequences that begin by request, and the order of events and
 * tags.
 */
#include "vae_test.h"

#define W 48
#define H 32
#define LW 6
#define LH 4

static GstHarness *
encoder_of(const char *path, GstVideoInfo *info)
{
    GstHarness *h = vae_test_harness("vaeencode", "model", path, NULL);
    vae_test_set_video(h, info, W, H);
    return h;
}

static GstHarness *
encoder(GstVideoInfo *info)
{
    return encoder_of(vae_test_weights(), info);
}

static void
request(GstHarness *h, GstClockTime when, guint count)
{
    CHECK(gst_harness_push_upstream_event(
        h, gst_video_event_new_upstream_force_key_unit(when, FALSE, count)));
}

/* Pulls the latents of a sequence that begins with frame `from`. ends: the
 * number of the frame after each latent; 0 ends the list. Only the start of the
 * clip has DISCONT. */
static void
pull(GstHarness *h, guint from, const guint *ends)
{
    for (guint k = 0; ends[k]; from = ends[k++]) {
        g_autoptr(GstBuffer) latent = vae_test_pull_latent(h, k, from, ends[k]);
        CHECK_INT(GST_BUFFER_IS_DISCONT(latent), from == 0);
    }
}

/* The element keeps several requests, each until its running time. Requests for
 * the same frame begin one sequence. */
TEST(requests)
{
    GstVideoInfo info;
    GstHarness *h = encoder(&info);
    GstEvent *event;
    guint count, expected[] = {2, 3};
    request(h, vae_test_time(9), 3);
    request(h, vae_test_time(6) - 1, 1);
    request(h, vae_test_time(6), 2);
    vae_test_push_frames(h, &info, 0, 14);
    pull(h, 0, (guint[]){1, 5, 6, 0});
    pull(h, 6, (guint[]){7, 9, 0});
    pull(h, 9, (guint[]){10, 14, 0});
    for (guint i = 0; i < 2;) {
        event = gst_harness_try_pull_event(h);
        CHECK(event != NULL);
        if (gst_video_event_is_force_key_unit(event)) {
            GstClockTime pts;
            CHECK(gst_video_event_parse_downstream_force_key_unit(
                event, &pts, NULL, NULL, NULL, &count));
            CHECK_INT(count, expected[i]);
            CHECK_INT(pts, vae_test_time(i == 0 ? 6 : 9));
            i++;
        }
        gst_event_unref(event);
    }
    vae_test_end(h);
}

/* At the start of the stream a request changes nothing. A flush drops
 * requests. */
TEST(requests_gone)
{
    GstVideoInfo info;
    GstHarness *h = encoder(&info);
    request(h, GST_CLOCK_TIME_NONE, 1);
    vae_test_push_frames(h, &info, 0, 5);
    pull(h, 0, (guint[]){1, 5, 0});
    request(h, vae_test_time(7), 2);
    vae_test_flush(h);
    vae_test_push_frames(h, &info, 0, 13);
    pull(h, 0, (guint[]){1, 5, 9, 13, 0});
    vae_test_end(h);
}

/* The event from upstream: the sequence begins with the next frame. */
TEST(from_upstream)
{
    GstVideoInfo info;
    GstHarness *h = encoder(&info);
    vae_test_push_frames(h, &info, 0, 5);
    CHECK(
        gst_harness_push_event(h, gst_video_event_new_downstream_force_key_unit(
                                      vae_test_time(5), vae_test_time(5),
                                      vae_test_time(5), FALSE, 1)));
    vae_test_push_frames(h, &info, 5, 10);
    pull(h, 0, (guint[]){1, 5, 0});
    pull(h, 5, (guint[]){6, 10, 0});
    vae_test_end(h);
}

/* A family whose encoder begins with a whole group: no frame is lost. */
TEST(tae)
{
    const gchar *path = vae_test_network("taehv/taew2_1");
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder_of(path, &info);
    request(h, vae_test_time(7), 1);
    vae_test_push_frames(h, &info, 0, 12);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    pull(h, 0, (guint[]){1, 5, 7, 0});
    pull(h, 7, (guint[]){8, 12, 0});
    vae_test_wait_eos(h);
    vae_test_no_more(h);
}

/* Latents with a new sequence in the middle of a group decode to the same
 * number of frames, without gaps. The frames of the new sequence are those of a
 * clip that begins there. */
TEST(decodes)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info),
                      *d = vae_test_harness("vaedecode", NULL);
    SCOPED GstHarness *again = vae_test_harness("vaedecode", NULL);
    GstBuffer *latents[5];
    request(h, vae_test_time(7), 1);
    vae_test_push_frames(h, &info, 0, 12);
    for (guint i = 0; i < 5; i++)
        latents[i] = vae_test_pull(h);
    GstCaps *caps = gst_pad_get_current_caps(h->sinkpad);
    gst_harness_set_src_caps(d, gst_caps_ref(caps));
    gst_harness_set_src_caps(again, caps);
    for (guint i = 3; i < 5; i++)
        CHECK_INT(gst_harness_push(again, gst_buffer_ref(latents[i])),
                  GST_FLOW_OK);
    for (guint i = 0; i < 5; i++)
        CHECK_INT(gst_harness_push(d, latents[i]), GST_FLOW_OK);
    g_free(vae_test_pull_frames(d, 0, 7));
    for (guint n = 7; n < 12; n++) {
        g_autoptr(GstBuffer) a = vae_test_pull(d), b = vae_test_pull(again);
        GstMapInfo map;
        CHECK_INT(GST_BUFFER_PTS(a), vae_test_time(n));
        CHECK_INT(GST_BUFFER_PTS(a) + GST_BUFFER_DURATION(a),
                  vae_test_time(n + 1));
        CHECK_INT(GST_BUFFER_PTS(b), vae_test_time(n));
        CHECK(gst_buffer_map(a, &map, GST_MAP_READ));
        CHECK(gst_buffer_memcmp(b, 0, map.data, map.size) == 0);
        gst_buffer_unmap(a, &map);
    }
    vae_test_push_eos(d);
    vae_test_no_more(d);
}

/* ------------------------------------------------------------------ */

/* A decoder requests a sequence from upstream. An event from upstream does not
 * change what it decodes. */
TEST(decoder_requests)
{
    SCOPED GstHarness *h = vae_test_decoder(NULL, LW, LH, NULL);
    g_autoptr(GstEvent) event = NULL;
    gboolean seen = FALSE;
    request(h, vae_test_time(3), 5);
    while (!seen && (event = gst_harness_try_pull_upstream_event(h))) {
        GstClockTime when;
        guint count;
        if (gst_video_event_is_force_key_unit(event)) {
            CHECK(gst_video_event_parse_upstream_force_key_unit(event, &when,
                                                                NULL, &count));
            CHECK_INT(when, vae_test_time(3));
            CHECK_INT(count, 5);
            seen = TRUE;
        }
        gst_event_unref(event);
    }
    CHECK(seen);
    vae_test_push_latents(h, LW, LH, 0, 4);
    gchar *expected = vae_test_pull_frames(h, 0, 13);
    vae_test_teardown(h);
    h = vae_test_decoder(NULL, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, 2);
    CHECK(
        gst_harness_push_event(h, gst_video_event_new_downstream_force_key_unit(
                                      vae_test_time(5), vae_test_time(5),
                                      vae_test_time(5), FALSE, 1)));
    vae_test_push_latents(h, LW, LH, 2, 4);
    gchar *found = vae_test_pull_frames(h, 0, 13);
    vae_test_same(found, expected);
    while ((event = gst_harness_try_pull_event(h)) &&
           !gst_video_event_is_force_key_unit(event))
        gst_event_unref(event);
    CHECK(event != NULL);
}

/* ------------------------------------------------------------------ */
/* Order.                                                              */

static GstEvent *
custom(const char *name)
{
    return gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM,
                                gst_structure_new_empty(name));
}

static GstEvent *
toc_event(void)
{
    g_autoptr(GstToc) toc = gst_toc_new(GST_TOC_SCOPE_GLOBAL);
    gst_toc_append_entry(
        toc, gst_toc_entry_new(GST_TOC_ENTRY_TYPE_CHAPTER, "chapter"));
    return gst_event_new_toc(toc, FALSE);
}

static GstEvent *
collection_event(void)
{
    GstStreamCollection *collection = gst_stream_collection_new("x");
    gst_stream_collection_add_stream(
        collection, gst_stream_new("y", NULL, GST_STREAM_TYPE_VIDEO, 0));
    GstEvent *event = gst_event_new_stream_collection(collection);
    gst_object_unref(collection);
    return event;
}

static GstEvent *
protection_event(void)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    GstEvent *event = gst_event_new_protection("system", buffer, "origin");
    return event;
}

static GstEvent *
message_event(void)
{
    g_autoptr(GstMessage) message = gst_message_new_eos(NULL);
    GstEvent *event = gst_event_new_sink_message("message", message);
    return event;
}

static GstPadProbeReturn
note(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    GString *seen = data;
    const gboolean is_buffer = GST_IS_BUFFER(info->data);
    const char *name = is_buffer ? "frame" : GST_EVENT_TYPE_NAME(info->data);
    if (!is_buffer && GST_EVENT_TYPE(info->data) == GST_EVENT_CUSTOM_DOWNSTREAM)
        name = gst_structure_get_name(gst_event_get_structure(info->data));
    g_string_append_printf(seen, "%s ", name);
    return GST_PAD_PROBE_OK;
}

/* An event between two buffers leaves between their results. */
static void
check_order(GstHarness *h, GstBuffer *first, GstBuffer *second, guint out)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    GString *seen = g_string_new(NULL);
    CHECK_INT(gst_harness_push(h, first), GST_FLOW_OK);
    gst_buffer_unref(vae_test_pull(h));
    gulong probe = gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
        note, seen, NULL);
    CHECK(gst_harness_push_event(h, custom("one")));
    CHECK(gst_harness_push_event(h, toc_event()));
    CHECK(gst_harness_push_event(h, collection_event()));
    CHECK(gst_harness_push_event(
        h, gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "t", NULL))));
    CHECK(gst_harness_push_event(h, protection_event()));
    CHECK(gst_harness_push_event(h, message_event()));
    CHECK(gst_harness_push_event(h, custom("two")));
    CHECK_INT(gst_harness_push(h, second), GST_FLOW_OK);
    for (guint i = 0; i < out; i++)
        gst_buffer_unref(vae_test_pull(h));
    CHECK(gst_harness_push_event(h, custom("three")));
    CHECK(gst_harness_push_event(h, gst_event_new_stream_group_done(7)));
    vae_test_push_eos(h);
    gst_pad_remove_probe(pad, probe);
    if (!g_str_has_prefix(seen->str, "one toc stream-collection tag "
                                     "protection sink-message two frame ") ||
        !g_str_has_suffix(seen->str, "frame three stream-group-done eos "))
        g_printerr("%s\n", seen->str);
    CHECK(g_str_has_prefix(seen->str, "one toc stream-collection tag "
                                      "protection sink-message two frame "));
    CHECK(g_str_has_suffix(seen->str, "frame three stream-group-done eos "));
    g_string_free(seen, TRUE);
    vae_test_teardown(h);
}

TEST(order)
{
    GstVideoInfo info;
    GstHarness *h = encoder(&info);
    GstBuffer *second = vae_test_frame(&info, 1);
    check_order(vae_test_decoder(NULL, LW, LH, NULL),
                vae_test_latent(LW, LH, 0), vae_test_latent(LW, LH, 1), 4);
    GST_BUFFER_FLAG_SET(second, GST_BUFFER_FLAG_DISCONT);
    check_order(h, vae_test_frame(&info, 0), second, 1);
}

/* ------------------------------------------------------------------ */

static GstTagList *
last_tags(GstHarness *h, const GstTagList *in)
{
    GstTagList *out = NULL;
    GstEvent *event;
    CHECK(gst_harness_push_event(h, gst_event_new_tag(gst_tag_list_copy(in))));
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    while (!out) {
        event = gst_harness_pull_event(h);
        CHECK(event != NULL);
        if (GST_EVENT_TYPE(event) == GST_EVENT_TAG) {
            gst_event_parse_tag(event, &out);
            out = gst_tag_list_copy(out);
        }
        gst_event_unref(event);
    }
    vae_test_wait_eos(h);
    vae_test_teardown(h);
    return out;
}

/* An encoder replaces the video's tags about its codec, which do not hold for
 * latents. A decoder passes all tags on. Both pass on tags of the medium. */
TEST(tags)
{
    g_autoptr(GstTagList) in =
        gst_tag_list_new(GST_TAG_TITLE, "t", GST_TAG_VIDEO_CODEC, "H.264",
                         GST_TAG_BITRATE, 9, GST_TAG_LANGUAGE_CODE, "de", NULL);
    GstVideoInfo info;
    g_autoptr(GstTagList) out =
        last_tags(vae_test_decoder(NULL, LW, LH, NULL), in);
    CHECK(gst_tag_list_is_equal(out, in));
    gst_tag_list_unref(out);

    g_autoptr(GstTagList) expected = gst_tag_list_new(
        GST_TAG_TITLE, "t", GST_TAG_VIDEO_CODEC, "VAE latents",
        GST_TAG_LANGUAGE_CODE, "de", GST_TAG_ENCODER, "gst-vae " VERSION,
        GST_TAG_BITRATE, 16 * LW * LH * 32 * VAE_TEST_FPS / 4, NULL);
    out = last_tags(encoder(&info), in);
    CHECK(gst_tag_list_is_equal(out, expected));
    gst_tag_list_unref(out);

    gst_tag_list_set_scope(in, GST_TAG_SCOPE_GLOBAL);
    out = last_tags(encoder(&info), in);
    CHECK(gst_tag_list_is_equal(out, in));
}

/* Tags with the codec and the bitrate are sent once, also if upstream sends no
 * tags. */
TEST(own_tags)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    GstTagList *list;
    guint rate;
    vae_test_push_frames(h, &info, 0, 5);
    gst_buffer_unref(vae_test_pull(h));
    GstEvent *event = vae_test_event(h, GST_EVENT_TAG);
    CHECK(event != NULL);
    gst_event_parse_tag(event, &list);
    CHECK(gst_tag_list_get_uint(list, GST_TAG_BITRATE, &rate));
    CHECK_INT(rate, 16 * LW * LH * 32 * VAE_TEST_FPS / 4);
    gst_event_unref(event);
    vae_test_push_frames(h, &info, 5, 9);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    while ((event = gst_harness_pull_event(h)) &&
           GST_EVENT_TYPE(event) != GST_EVENT_EOS) {
        CHECK(GST_EVENT_TYPE(event) != GST_EVENT_TAG);
        gst_event_unref(event);
    }
    gst_clear_event(&event);
}
