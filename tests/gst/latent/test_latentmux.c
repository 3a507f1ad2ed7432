/*
 * latentmux: the files it makes, and when it refuses.
 */
#include "latent_test.h"

#include <string.h>

#include <gst/check/gstharness.h>

#include "vae-private/tensors.h"

static const Clip small = {VAE_TYPE_F16, 4, 16, 3, 5};

static const gchar *const small_caps =
    "video/x-vae-latent, type=float16, channels=16, latent-width=5, "
    "latent-height=3, width=37, height=21, latent-space=wan2.1, "
    "normalization=normalized, framerate=24/1";

/* latentmux ! filesink, fed by hand. */
typedef struct Mux {
    GstHarness *harness;
    GstBus *bus;
} Mux;

static Mux
mux_new(const gchar *path, const gchar *caps)
{
    gchar *text =
        g_strdup_printf("latentmux ! filesink async=false location=%s", path);
    Mux mux = {gst_harness_new_parse(text), gst_bus_new()};
    gst_element_set_bus(mux.harness->element, mux.bus);
    gst_harness_set_src_caps_str(mux.harness, caps);
    g_free(text);
    return mux;
}

static GstFlowReturn
mux_push(Mux *mux, const Clip *clip, gint k, gint frames)
{
    const gsize size = step_bytes(clip);
    GstBuffer *buffer = gst_buffer_new_wrapped(step_data(clip, k), size);
    GST_BUFFER_PTS(buffer) =
        gst_util_uint64_scale(k > 0 ? 4 * k - 3 : 0, GST_SECOND, 24);
    if (frames > 0)
        GST_BUFFER_DURATION(buffer) =
            gst_util_uint64_scale(frames, GST_SECOND, 24);
    if (k > 0)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    return gst_harness_push(mux->harness, buffer);
}

static void
mux_end(Mux *mux)
{
    gst_harness_push_event(mux->harness, gst_event_new_eos());
}

/* The first error or warning on the bus has the words and comes from an
 * element of that kind. */
static void
assert_posted(Mux *mux, GstMessageType type, const gchar *element,
              const gchar *words)
{
    GstMessage *message = gst_bus_pop_filtered(mux->bus, type);
    GError *error = NULL;
    fail_unless(message != NULL, "nothing posted, wanted '%s'", words);
    if (type == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    else
        gst_message_parse_warning(message, &error, NULL);
    fail_unless(strstr(error->message, words) != NULL, "'%s' lacks '%s'",
                error->message, words);
    fail_unless(g_str_has_prefix(GST_MESSAGE_SRC_NAME(message), element),
                "'%s' is from %s", error->message,
                GST_MESSAGE_SRC_NAME(message));
    g_error_free(error);
    gst_message_unref(message);
}

static void
assert_quiet(Mux *mux)
{
    GstMessage *message =
        gst_bus_pop_filtered(mux->bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);
    GError *error = NULL;
    if (!message)
        return;
    gst_message_parse_error(message, &error, NULL);
    fail("%s: %s", GST_MESSAGE_SRC_NAME(message), error->message);
}

/* Closes the file. */
static void
mux_close(Mux *mux)
{
    gst_element_set_bus(mux->harness->element, NULL);
    gst_bus_set_flushing(mux->bus, TRUE);
    gst_object_unref(mux->bus);
    gst_harness_teardown(mux->harness);
}

/* The file is the clip's first t latents and this many frames. */
static void
assert_file(const gchar *path, const Clip *clip, gint t, gint64 frames)
{
    VaeTensorFile *file;
    VaeLatentClip found = VAE_INIT(VaeLatentClip);
    VaeError error = {0};
    guint8 *data = g_malloc(step_bytes(clip));
    fail_unless(vae_tensor_file_open(path, &file, &error) == VAE_OK, "%s",
                error.message);
    fail_unless(vae_latent_clip_find(file, NULL, &found, &error) == VAE_OK,
                "%s", error.message);
    fail_unless_equals_string(found.tensor, "latent");
    fail_unless_equals_int(found.t, t);
    fail_unless_equals_int(found.channels, clip->c);
    fail_unless_equals_int(found.height, clip->h);
    fail_unless_equals_int(found.width, clip->w);
    fail_unless(found.type == clip->type);
    fail_unless_equals_int64(found.frames, frames);
    for (gint k = 0; k < t; k++) {
        guint8 *wanted = step_data(clip, k);
        vae_latent_clip_read(&found, k, data);
        fail_unless(memcmp(data, wanted, step_bytes(clip)) == 0);
        g_free(wanted);
    }
    g_free(data);
    vae_tensor_file_free(&file);
}

static void
assert_metadata(const gchar *path, const gchar *key, const gchar *wanted)
{
    VaeTensorFile *file;
    fail_unless(vae_tensor_file_open(path, &file, NULL) == VAE_OK);
    const gchar *value = vae_tensor_file_metadata(file, key);
    fail_unless(g_strcmp0(value, wanted) == 0, "%s is %s, wanted %s", key,
                value, wanted);
    vae_tensor_file_free(&file);
}

/* Files ----------------------------------------------------------------- */

GST_START_TEST(test_file)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    for (gint k = 0; k < 4; k++)
        fail_unless(mux_push(&mux, &small, k, k ? 4 : 1) == GST_FLOW_OK);
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &small, 4, 13);
    assert_metadata(path, "vae.latent_space", "wan2.1");
    assert_metadata(path, "vae.normalization", "normalized");
    assert_metadata(path, "vae.framerate", "24/1");
    assert_metadata(path, "vae.width", "37");
    assert_metadata(path, "vae.height", "21");
    assert_metadata(path, "vae.layout", "tchw");
    assert_metadata(path, "vae.temporal_factor", NULL);
    g_free(path);
}
GST_END_TEST

/* What the caps do not say, the file does not say. */
GST_START_TEST(test_plain_caps)
{
    const Clip clip = {VAE_TYPE_BF16, 1, 7, 2, 2};
    gchar *path = test_path("out");
    Mux mux = mux_new(path, "video/x-vae-latent, type=bfloat16, channels=7, "
                            "latent-width=2, latent-height=2, "
                            "temporal-factor=8");
    fail_unless(mux_push(&mux, &clip, 0, 0) == GST_FLOW_OK);
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &clip, 1, 1);
    assert_metadata(path, "vae.latent_space", NULL);
    assert_metadata(path, "vae.normalization", NULL);
    assert_metadata(path, "vae.framerate", NULL);
    assert_metadata(path, "vae.width", NULL);
    assert_metadata(path, "vae.temporal_factor", "8");
    g_free(path);
}
GST_END_TEST

/* A last latent that lasts less than four frames cuts the clip; durations
 * of the others, missing or odd ones do not matter. */
GST_START_TEST(test_frames)
{
    static const gint last[] = {1, 2, 3, 4, 0, 9},
                      wanted[] = {6, 7, 8, 9, 9, 9};
    gchar *path = test_path("out");
    for (guint i = 0; i < G_N_ELEMENTS(last); i++) {
        Mux mux = mux_new(path, small_caps);
        mux_push(&mux, &small, 0, 1);
        mux_push(&mux, &small, 1, 2);
        mux_push(&mux, &small, 2, last[i]);
        mux_end(&mux);
        mux_close(&mux);
        assert_file(path, &small, 3, wanted[i]);
    }
    g_free(path);
}
GST_END_TEST

/* The header has one size whatever follows, so the end can be written over
 * the start. */
GST_START_TEST(test_header_size)
{
    gsize sizes[2];
    for (gint i = 0; i < 2; i++) {
        const gint n = i ? 1200 : 1;
        gchar *path = test_path("out");
        Mux mux = mux_new(path, small_caps);
        for (gint k = 0; k < n; k++)
            fail_unless(mux_push(&mux, &small, k, 4) == GST_FLOW_OK);
        mux_end(&mux);
        mux_close(&mux);
        assert_file(path, &small, n, 1 + 4 * (n - 1));
        GBytes *bytes = read_bytes(path);
        sizes[i] = g_bytes_get_size(bytes) - n * step_bytes(&small);
        g_bytes_unref(bytes);
        g_free(path);
    }
    fail_unless_equals_int(sizes[0], sizes[1]);
}
GST_END_TEST

static void
transcode(const gchar *from, const gchar *to)
{
    Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                       "filesink location=%s",
                       from, to);
    fail_unless(run->eos && !run->error && !run->warning, "%s", run->error);
    run_free(run);
}

#define MASTERING "34000:16000:13250:34500:7500:3000:15635:16450:10000000:1"

/* From any layout to the muxer's, and from there on byte for byte. */
GST_START_TEST(test_round_trip)
{
    static const VaeMetadata metadata[] = {
        {"vae.latent_space", "wan2.1"},
        {"vae.normalization", "raw"},
        {"vae.framerate", "30000/1001"},
        {"vae.width", "37"},
        {"vae.height", "21"},
        {"vae.frames", "10"},
        {"vae.pixel_aspect_ratio", "8/9"},
        {"vae.colorimetry", "bt2100-pq"},
        {"vae.chroma_site", "jpeg"},
        {"vae.mastering_display_info", MASTERING},
        {"vae.content_light_level", "1000:400"},
        {"vae.title", "\"Ein Bär\""},
        {"vae.comment", "a prompt\nof two"},
        {"vae.application", "sampler 1.0"},
        {"vae.temporal_factor", "4"}};
    for (gint stated = 0; stated < 2; stated++) {
        gchar *source = write_clip("source", "samples", &small, BCTHW, metadata,
                                   stated ? G_N_ELEMENTS(metadata) : 0);
        gchar *once = test_path("once"), *twice = test_path("twice");
        transcode(source, once);
        transcode(once, twice);
        assert_file(once, &small, 4, stated ? 10 : 13);
        for (guint i = 0; i < G_N_ELEMENTS(metadata); i++) {
            const gchar *key = metadata[i].key;
            /* The demuxer says by which rate it timed them. */
            const gboolean rate = strcmp(key, "vae.framerate") == 0;
            if (strcmp(key, "vae.frames") != 0)
                assert_metadata(once, key,
                                stated ? metadata[i].value
                                : rate ? "16/1"
                                       : NULL);
        }
        GBytes *a = read_bytes(once), *b = read_bytes(twice);
        fail_unless(g_bytes_equal(a, b));
        g_bytes_unref(a);
        g_bytes_unref(b);
        g_free(twice);
        g_free(once);
        g_free(source);
    }
}
GST_END_TEST

/* Tags of the application come before those of upstream. Tags after the first
 * latent are in the file, too. */
GST_START_TEST(test_tags)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    GstTagSetter *setter =
        GST_TAG_SETTER(gst_harness_find_element(mux.harness, "latentmux"));
    GstTagList *tags =
        gst_tag_list_new(GST_TAG_TITLE, "theirs", GST_TAG_COMMENT, "a prompt",
                         GST_TAG_VIDEO_CODEC, "VAE latents", NULL);
    gst_tag_setter_add_tags(setter, GST_TAG_MERGE_REPLACE, GST_TAG_TITLE,
                            "ours", NULL);
    fail_unless(gst_harness_push_event(mux.harness, gst_event_new_tag(tags)));
    fail_unless(mux_push(&mux, &small, 0, 4) == GST_FLOW_OK);
    tags = gst_tag_list_new(GST_TAG_APPLICATION_NAME, "late", NULL);
    fail_unless(gst_harness_push_event(mux.harness, gst_event_new_tag(tags)));
    mux_end(&mux);
    assert_quiet(&mux);
    gst_object_unref(setter);
    mux_close(&mux);
    assert_metadata(path, "vae.title", "ours");
    assert_metadata(path, "vae.comment", "a prompt");
    assert_metadata(path, "vae.application", "late");
    assert_file(path, &small, 1, 1);
    g_free(path);
}
GST_END_TEST

/* Late tags for which the header has no room leave the file as it was. */
GST_START_TEST(test_long_tags)
{
    gchar *path = test_path("out"), *prompt = g_strnfill(5000, 'x');
    Mux mux = mux_new(path, small_caps);
    GstTagList *tags = gst_tag_list_new(GST_TAG_TITLE, "early", NULL);
    fail_unless(gst_harness_push_event(mux.harness, gst_event_new_tag(tags)));
    fail_unless(mux_push(&mux, &small, 0, 4) == GST_FLOW_OK);
    tags = gst_tag_list_new(GST_TAG_COMMENT, prompt, NULL);
    fail_unless(gst_harness_push_event(mux.harness, gst_event_new_tag(tags)));
    mux_end(&mux);
    assert_posted(&mux, GST_MESSAGE_WARNING, "latentmux", "too long");
    assert_quiet(&mux);
    mux_close(&mux);
    assert_metadata(path, "vae.title", "early");
    assert_metadata(path, "vae.comment", NULL);
    assert_file(path, &small, 1, 1);
    g_free(prompt);
    g_free(path);
}
GST_END_TEST

/* When latent k of four begins: at the frame rate, later, or with a gap. */
static GstClockTime
uneven(gint k)
{
    static const GstClockTime times[] = {0, 50, 250, 700};
    return times[k] * GST_MSECOND;
}

/* The last latent begins before the one in front: the rate is used. */
static void
check_impossible(const gchar *path)
{
    GBytes *bytes = read_bytes(path);
    gsize size;
    guint8 *data = g_bytes_unref_to_data(bytes, &size);
    memset(data + size - 16, 0, 16);
    gchar *other = write_bytes("impossible", data, size);
    Run *run = run_all("filesrc location=%s ! latentdemux ! fakesink name=sink",
                       other);
    assert_clip(run, &small, 0);
    fail_unless(run->warning && strstr(run->warning, "latent_times"));
    fail_unless_equals_uint64(
        GST_BUFFER_PTS((GstBuffer *) g_ptr_array_index(run->buffers, 3)),
        gst_util_uint64_scale(9, GST_SECOND, 24));
    run_free(run);
    g_free(other);
    g_free(data);
}

/* A seek finds the latent that has the position by its own time. */
static void
check_seek(const gchar *path, GstSeekFlags flags, gint ms, gint k)
{
    Run *run = run_preroll(path, "warm-up=0 key-unit-warm-up=0", "");
    gint64 duration;
    fail_unless(
        gst_element_query_duration(run->pipeline, GST_FORMAT_TIME, &duration));
    fail_unless_equals_int64(
        duration, uneven(3) + gst_util_uint64_scale(4, GST_SECOND, 24));
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(gst_element_seek_simple(run->pipeline, GST_FORMAT_TIME,
                                        flags | GST_SEEK_FLAG_FLUSH,
                                        ms * GST_MSECOND));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    assert_clip(run, &small, k);
    fail_unless_equals_uint64(
        GST_BUFFER_PTS((GstBuffer *) g_ptr_array_index(run->buffers, 0)),
        uneven(k));
    run_free(run);
}

/* Times that do not follow the frame rate come back. */
GST_START_TEST(test_times)
{
    gchar *path = test_path("out"), *twice = test_path("twice");
    Mux mux = mux_new(path, small_caps);
    for (gint k = 0; k < 4; k++) {
        GstBuffer *buffer =
            gst_buffer_new_wrapped(step_data(&small, k), step_bytes(&small));
        GST_BUFFER_PTS(buffer) = GST_SECOND + uneven(k);
        if (k > 0)
            GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
        fail_unless(gst_harness_push(mux.harness, buffer) == GST_FLOW_OK);
    }
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &small, 4, 13);
    transcode(path, twice);
    GBytes *a = read_bytes(path), *b = read_bytes(twice);
    fail_unless(g_bytes_equal(a, b));
    g_bytes_unref(a);
    g_bytes_unref(b);
    for (gint push = 0; push < 2; push++) {
        Run *run = run_all("filesrc location=%s ! %s latentdemux ! "
                           "fakesink name=sink",
                           path, push ? "queue !" : "");
        assert_clip(run, &small, 0);
        for (gint k = 0; k < 4; k++) {
            GstBuffer *buffer = g_ptr_array_index(run->buffers, k);
            fail_unless_equals_uint64(GST_BUFFER_PTS(buffer), uneven(k));
            fail_unless_equals_uint64(
                GST_BUFFER_DURATION(buffer),
                gst_util_uint64_scale(k ? 4 : 1, GST_SECOND, 24));
        }
        run_free(run);
    }
    for (gint k = 0; k < 4; k++) {
        check_seek(path, GST_SEEK_FLAG_ACCURATE, uneven(k) / GST_MSECOND, k);
        check_seek(path, GST_SEEK_FLAG_ACCURATE, uneven(k) / GST_MSECOND + 49,
                   k);
        check_seek(path, GST_SEEK_FLAG_KEY_UNIT | GST_SEEK_FLAG_SNAP_BEFORE,
                   uneven(k) / GST_MSECOND + 30, k);
    }
    check_impossible(path);
    g_free(twice);
    g_free(path);
}
GST_END_TEST

/* Without a time, or with the nominal ones, a file has none. */
GST_START_TEST(test_no_times)
{
    gchar *path = test_path("out");
    for (gint timed = 0; timed < 2; timed++) {
        Mux mux = mux_new(path, small_caps);
        VaeTensorFile *file;
        mux_push(&mux, &small, 0, 1);
        mux_push(&mux, &small, 1, 4);
        GstBuffer *buffer =
            gst_buffer_new_wrapped(step_data(&small, 2), step_bytes(&small));
        if (timed)
            GST_BUFFER_PTS(buffer) = gst_util_uint64_scale(5, GST_SECOND, 24);
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
        gst_harness_push(mux.harness, buffer);
        mux_end(&mux);
        mux_close(&mux);
        assert_file(path, &small, 3, 9);
        fail_unless(vae_tensor_file_open(path, &file, NULL) == VAE_OK);
        fail_unless(vae_tensor_file_find(file, "latent_times") == NULL);
        vae_tensor_file_free(&file);
    }
    g_free(path);
}
GST_END_TEST

/* Times that no file can hold: one warning says what helps. */
GST_START_TEST(test_times_lost)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    for (gint k = 0; k < 4; k++) {
        GstBuffer *buffer =
            gst_buffer_new_wrapped(step_data(&small, k), step_bytes(&small));
        GST_BUFFER_PTS(buffer) = GST_SECOND * (k < 2 ? k + 5 : 6 - k);
        if (k > 0)
            GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
        fail_unless(gst_harness_push(mux.harness, buffer) == GST_FLOW_OK);
    }
    mux_end(&mux);
    assert_posted(&mux, GST_MESSAGE_WARNING, "latentmux", "videorate");
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &small, 4, 13);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_flush)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    mux_push(&mux, &small, 0, 1);
    mux_push(&mux, &small, 1, 4);
    mux_push(&mux, &small, 2, 4);
    gst_harness_push_event(mux.harness, gst_event_new_flush_start());
    gst_harness_push_event(mux.harness, gst_event_new_flush_stop(TRUE));
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(mux.harness, gst_event_new_segment(&segment));
    mux_push(&mux, &small, 0, 1);
    mux_push(&mux, &small, 1, 4);
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &small, 2, 5);
    g_free(path);
}
GST_END_TEST

/* The same elements write a second file like the first. */
GST_START_TEST(test_reuse)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    for (gint i = 0; i < 3; i++) {
        const gint n = 3 - i;
        for (gint k = 0; k < n; k++)
            fail_unless(mux_push(&mux, &small, k, 4) == GST_FLOW_OK);
        mux_end(&mux);
        assert_quiet(&mux);
        gst_element_set_state(mux.harness->element, GST_STATE_NULL);
        assert_file(path, &small, n, 1 + 4 * (n - 1));
        gst_harness_play(mux.harness);
        gst_element_set_state(mux.harness->element, GST_STATE_PLAYING);
        GstSegment segment;
        gst_segment_init(&segment, GST_FORMAT_TIME);
        gst_harness_push_event(mux.harness, gst_event_new_stream_start("x"));
        gst_harness_set_src_caps_str(mux.harness, small_caps);
        gst_harness_push_event(mux.harness, gst_event_new_segment(&segment));
    }
    mux_close(&mux);
    g_free(path);
}
GST_END_TEST

/* Refusals -------------------------------------------------------------- */

static void
check_change(const gchar *caps)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    mux_push(&mux, &small, 0, 1);
    mux_push(&mux, &small, 1, 4);
    GstCaps *same = gst_caps_from_string(small_caps);
    fail_unless(gst_harness_push_event(mux.harness, gst_event_new_caps(same)));
    gst_caps_unref(same);
    fail_unless(mux_push(&mux, &small, 2, 4) == GST_FLOW_OK);
    GstCaps *other = gst_caps_from_string(caps);
    gst_harness_push_event(mux.harness, gst_event_new_caps(other));
    gst_caps_unref(other);
    assert_posted(&mux, GST_MESSAGE_ERROR, "latentmux",
                  "The latents change after 3 of them");
    fail_unless(mux_push(&mux, &small, 3, 4) != GST_FLOW_OK);
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &small, 3, 9);
    g_free(path);
}

GST_START_TEST(test_caps_change)
{
    check_change("video/x-vae-latent, type=float16, channels=16, "
                 "latent-width=3, latent-height=5, width=37, height=21, "
                 "latent-space=wan2.1, normalization=normalized, "
                 "framerate=24/1");
    check_change("video/x-vae-latent, type=float16, channels=16, "
                 "latent-width=5, latent-height=3, width=37, height=21, "
                 "latent-space=wan2.2, normalization=normalized, "
                 "framerate=24/1");
    check_change("video/x-vae-latent, type=bfloat16, channels=16, "
                 "latent-width=5, latent-height=3, width=37, height=21, "
                 "latent-space=wan2.1, normalization=normalized, "
                 "framerate=24/1");
}
GST_END_TEST

GST_START_TEST(test_wrong_size)
{
    const Clip other = {VAE_TYPE_F16, 4, 16, 3, 4};
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    mux_push(&mux, &small, 0, 1);
    fail_unless(mux_push(&mux, &other, 1, 4) == GST_FLOW_ERROR);
    assert_posted(&mux, GST_MESSAGE_ERROR, "latentmux",
                  "Latent 1 has 384 bytes, its caps ask for 480");
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &small, 1, 1);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_layout)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    GstCaps *caps = gst_caps_from_string(
        "video/x-vae-latent, type=float16, channels=16, latent-width=5, "
        "latent-height=3, layout=cthw, frames=2");
    gst_harness_push_event(mux.harness, gst_event_new_caps(caps));
    gst_caps_unref(caps);
    assert_posted(&mux, GST_MESSAGE_ERROR, "latentmux", "layout = chw");
    mux_close(&mux);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_not_seekable)
{
    gchar *source = write_clip("source", "latent", &small, CTHW, NULL, 0);
    Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                       "fakesink name=sink",
                       source);
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_MUX, "gdppay");
    fail_unless_equals_int(run->buffers->len, 0);
    run_free(run);
    g_free(source);
}
GST_END_TEST

GST_START_TEST(test_no_latents)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    mux_end(&mux);
    assert_posted(&mux, GST_MESSAGE_ERROR, "latentmux", "No latents arrived");
    mux_close(&mux);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_restart_warns)
{
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    for (gint k = 0; k < 4; k++) {
        GstBuffer *buffer =
            gst_buffer_new_wrapped(step_data(&small, k), step_bytes(&small));
        fail_unless(gst_harness_push(mux.harness, buffer) == GST_FLOW_OK);
    }
    mux_end(&mux);
    assert_posted(&mux, GST_MESSAGE_WARNING, "latentmux",
                  "Latent 1 begins a new sequence");
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &small, 4, 13);
    g_free(path);
}
GST_END_TEST

static void
push_at(Mux *mux, const Clip *clip, gint k, gint frame, gint frames,
        gboolean start)
{
    GstBuffer *buffer =
        gst_buffer_new_wrapped(step_data(clip, k), step_bytes(clip));
    GST_BUFFER_PTS(buffer) = gst_util_uint64_scale(frame, GST_SECOND, 24);
    GST_BUFFER_DURATION(buffer) = gst_util_uint64_scale(frames, GST_SECOND, 24);
    if (!start)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    fail_unless(gst_harness_push(mux->harness, buffer) == GST_FLOW_OK);
}

/* Several sequences keep their starts and their numbers of frames. */
GST_START_TEST(test_sequences)
{
    static const struct {
        gint frame, frames;
        gboolean start;
    } latents[] = {{0, 1, TRUE},  {1, 4, FALSE}, {5, 2, FALSE}, {7, 1, TRUE},
                   {8, 4, FALSE}, {12, 1, TRUE}, {13, 1, TRUE}, {14, 3, FALSE}};
    const Clip clip = {VAE_TYPE_F16, G_N_ELEMENTS(latents), 16, 3, 5};
    gchar *path = test_path("out");
    Mux mux = mux_new(path, small_caps);
    for (gint k = 0; k < clip.t; k++)
        push_at(&mux, &clip, k, latents[k].frame, latents[k].frames,
                latents[k].start);
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &clip, clip.t, 17);
    Run *run =
        run_all("filesrc location=%s ! latentdemux ! fakesink name=sink", path);
    fail_unless(run->warning == NULL, "%s", run->warning);
    fail_unless_equals_int(run->buffers->len, clip.t);
    for (gint k = 0; k < clip.t; k++) {
        const GstBuffer *b = g_ptr_array_index(run->buffers, k);
        const guint64 end = latents[k].frame + latents[k].frames;
        fail_unless_equals_uint64(
            GST_BUFFER_PTS(b),
            gst_util_uint64_scale(latents[k].frame, GST_SECOND, 24));
        fail_unless_equals_uint64(GST_BUFFER_PTS(b) + GST_BUFFER_DURATION(b),
                                  gst_util_uint64_scale(end, GST_SECOND, 24));
        fail_unless_equals_int(
            GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DELTA_UNIT),
            !latents[k].start);
    }
    run_free(run);

    /* A seek begins no earlier than the sequence. */
    run = run_preroll(path, "", "");
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(gst_element_seek_simple(run->pipeline, GST_FORMAT_DEFAULT,
                                        GST_SEEK_FLAG_FLUSH, 9));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    const GstBuffer *begin = g_ptr_array_index(run->buffers, 0);
    fail_unless_equals_uint64(GST_BUFFER_OFFSET(begin), 3);
    run_free(run);
    g_free(path);
}
GST_END_TEST

/* Many sequences, of 1, 2 and 3 latents: each latent has the right frames, and
 * a seek to a frame finds its latent. */
GST_START_TEST(test_many_sequences)
{
    const Clip clip = {VAE_TYPE_F16, 300, 16, 1, 1};
    gint frame[301], start[300];
    gchar *path = test_path("out");
    Mux mux = mux_new(path, "video/x-vae-latent, type=float16, channels=16, "
                            "latent-width=1, latent-height=1, "
                            "latent-space=wan2.1, normalization=normalized, "
                            "framerate=24/1");
    frame[0] = 0;
    for (gint k = 0, next = 0, n = 0; k < clip.t; k++) {
        const gboolean begins = k == next;
        if (begins)
            next += 1 + n++ % 3;
        start[k] = begins ? k : start[k - 1];
        frame[k + 1] = frame[k] + (begins ? 1 : 4);
        push_at(&mux, &clip, k, frame[k], frame[k + 1] - frame[k], begins);
    }
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    Run *run =
        run_all("filesrc location=%s ! latentdemux ! fakesink name=sink", path);
    fail_unless(run->eos && !run->error && !run->warning, "%s", run->error);
    fail_unless_equals_int(run->buffers->len, clip.t);
    for (gint k = 0; k < clip.t; k++) {
        const GstBuffer *b = g_ptr_array_index(run->buffers, k);
        fail_unless_equals_uint64(
            GST_BUFFER_PTS(b), gst_util_uint64_scale(frame[k], GST_SECOND, 24));
        fail_unless_equals_int(
            GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DELTA_UNIT),
            start[k] != k);
    }
    run_free(run);
    run = run_preroll(path, "", "");
    for (gint k = 1; k < clip.t; k += 23) {
        g_ptr_array_set_size(run->buffers, 0);
        fail_unless(gst_element_seek_simple(run->pipeline, GST_FORMAT_DEFAULT,
                                            GST_SEEK_FLAG_FLUSH,
                                            frame[k + 1] - 1));
        fail_unless(gst_element_get_state(run->pipeline, NULL, NULL,
                                          GST_CLOCK_TIME_NONE) !=
                    GST_STATE_CHANGE_FAILURE);
        const GstBuffer *b = g_ptr_array_index(run->buffers, 0);
        fail_unless_equals_uint64(GST_BUFFER_OFFSET(b), start[k]);
    }
    run_free(run);
    g_free(path);
}
GST_END_TEST

/* Plays the small clip with a table of sequences. */
static Run *
play_with_table(const VaeTensorOut *table)
{
    guint8 *data = clip_data(&small, TCHW);
    gchar *path = test_path("bad");
    const VaeTensorOut out[] = {{.name = "latent",
                                 .type = small.type,
                                 .data = data,
                                 .n_dims = 4,
                                 .dims = {small.t, small.c, small.h, small.w}},
                                *table};
    const VaeMetadata metadata[] = {{"vae.layout", "tchw"}};
    VaeError error;
    fail_unless(vae_tensor_file_write(path, out, 2, metadata, 1, &error) ==
                VAE_OK);
    Run *run =
        run_all("filesrc location=%s ! latentdemux ! fakesink name=sink", path);
    g_free(data);
    g_free(path);
    return run;
}

/* A table of sequences that cannot be is an error, as in vaetool. */
GST_START_TEST(test_bad_sequences)
{
    static const gint64 bad[][4] = {
        {1, 2, 2, 5},          {0, 1, 0, 9}, {0, 9, 2, 5},
        {0, 5, 4, 1},          {0, 5, 2, 0}, {0, 5, 2, -1},
        {0, 5, G_MAXINT64, 1}, {0, 5, 2, 1}, {0, 1, 2, 5}};
    static const struct {
        VaeType type;
        gint n_dims;
        gint64 dims[2];
        const gchar *found;
    } shapes[] = {{VAE_TYPE_F32, 2, {2, 4}, "F32 2x4"},
                  {VAE_TYPE_F32, 2, {1, 16}, "F32 1x16"},
                  {VAE_TYPE_U8, 2, {2, 15}, "U8 2x15"},
                  {VAE_TYPE_U8, 1, {32}, "U8 32"},
                  {VAE_TYPE_U8, 2, {5, 16}, "U8 5x16"},
                  {VAE_TYPE_U8, 2, {0, 16}, "U8 0x16"}};
    static const gint64 rows[10] = {0, 5, 2, 5};
    VaeTensorOut table = {.name = "latent_sequences",
                          .type = VAE_TYPE_U8,
                          .n_dims = 2,
                          .dims = {2, 16}};
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        table.data = bad[i];
        Run *run = play_with_table(&table);
        assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                     "latent_sequences");
        run_free(run);
    }
    for (guint i = 0; i < G_N_ELEMENTS(shapes); i++) {
        table = (VaeTensorOut){.name = "latent_sequences",
                               .type = shapes[i].type,
                               .data = rows,
                               .n_dims = shapes[i].n_dims,
                               .dims = {shapes[i].dims[0], shapes[i].dims[1]}};
        Run *run = play_with_table(&table);
        assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                     "latent_sequences");
        fail_unless(strstr(run->error, shapes[i].found) != NULL, "%s",
                    run->error);
        run_free(run);
    }
}
GST_END_TEST

/* Without temporal-factor in the caps, the latents of LTX have eight frames. */
GST_START_TEST(test_usual_frames)
{
    const Clip clip = {VAE_TYPE_F16, 4, 128, 1, 1};
    gchar *path = test_path("out");
    Mux mux = mux_new(path, "video/x-vae-latent, type=float16, channels=128, "
                            "latent-width=1, latent-height=1, "
                            "latent-space=ltx2, normalization=normalized, "
                            "framerate=24/1");
    for (gint k = 0; k < clip.t; k++)
        push_at(&mux, &clip, k,
                k == 0  ? 0
                : k < 3 ? 8 * k - 7
                        : 17,
                k % 3 == 0 ? 1 : 8, k % 3 == 0);
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    assert_file(path, &clip, clip.t, 18);
    Run *run =
        run_all("filesrc location=%s ! latentdemux ! fakesink name=sink", path);
    fail_unless(run->eos && !run->error && !run->warning, "%s", run->error);
    run_free(run);
    g_free(path);
}
GST_END_TEST

/* A recording that was killed, at any byte behind the header, gives all latents
 * that it has as a whole. */
GST_START_TEST(test_aborted)
{
    gchar *path = test_path("out"), *cut = test_path("cut");
    Mux mux = mux_new(path, small_caps);
    const gsize step = step_bytes(&small);
    VaeTensorFile *file;
    VaeError error;
    mux_push(&mux, &small, 0, 1);
    mux_push(&mux, &small, 1, 4);
    mux_close(&mux);
    GBytes *bytes = read_bytes(path);
    gsize size;
    gconstpointer data = g_bytes_get_data(bytes, &size);
    const gsize header = size - 2 * step;
    fail_unless(size > 2 * step);
    for (gsize n = header; n <= size; n += step / 3 + 1) {
        const gint whole = (gint) ((n - header) / step);
        fail_unless(g_file_set_contents(cut, data, (gssize) n, NULL));
        fail_unless(vae_tensor_file_open(cut, &file, &error) == VAE_OK, "%s",
                    error.message);
        fail_unless_equals_int64(vae_tensor_file_at(file, 0)->dims[0], whole);
        vae_tensor_file_free(&file);
        Run *run = run_all(
            "filesrc location=%s ! latentdemux ! fakesink name=sink", cut);
        if (whole == 0) {
            fail_unless(run->error != NULL);
        } else {
            Clip found = small;
            found.t = whole;
            assert_clip(run, &found, 0);
            fail_unless(run->warning && strstr(run->warning, "was not ended"));
        }
        run_free(run);
    }
    g_bytes_unref(bytes);
    g_free(cut);
    g_free(path);
}
GST_END_TEST

/* The sink's error is the only one about a full disk. */
GST_START_TEST(test_disk_full)
{
    const Clip big = {VAE_TYPE_F32, 20, 16, 32, 32};
    if (!g_file_test("/dev/full", G_FILE_TEST_EXISTS))
        return;
    for (gint i = 0; i < 2; i++) {
        const Clip *clip = i ? &big : &small; /* small: fails at the end */
        gchar *source = write_clip("source", "latent", clip, CTHW, NULL, 0);
        Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                           "filesink location=/dev/full",
                           source);
        fail_unless(run->error != NULL);
        fail_unless(g_str_has_prefix(run->source, "filesink"), "%s: %s",
                    run->source, run->error);
        fail_unless(run->domain == GST_RESOURCE_ERROR &&
                        run->code == GST_RESOURCE_ERROR_NO_SPACE_LEFT,
                    "%s", run->error);
        run_free(run);
        g_free(source);
    }
}
GST_END_TEST

static GstPadProbeReturn
fail_second(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    gint *count = data;
    if (++*count != 2)
        return GST_PAD_PROBE_OK;
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_ERROR;
    return GST_PAD_PROBE_HANDLED;
}

/* Behind a lost latent nothing is written, and the recording stays open. */
GST_START_TEST(test_failed_write)
{
    gchar *path = test_path("out");
    gint count = 0;
    Mux mux = mux_new(path, small_caps);
    VaeTensorFile *file;
    mux_push(&mux, &small, 0, 1);
    GstElement *sink = gst_bin_get_by_interface(GST_BIN(mux.harness->element),
                                                GST_TYPE_URI_HANDLER);
    fail_unless(sink != NULL);
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, fail_second, &count,
                      NULL);
    gst_object_unref(pad);
    gst_object_unref(sink);
    fail_unless(mux_push(&mux, &small, 1, 4) == GST_FLOW_OK);
    fail_unless(mux_push(&mux, &small, 2, 4) == GST_FLOW_ERROR);
    fail_unless(mux_push(&mux, &small, 3, 4) != GST_FLOW_OK);
    mux_end(&mux);
    assert_quiet(&mux);
    mux_close(&mux);
    fail_unless(vae_tensor_file_open(path, &file, NULL) == VAE_OK);
    fail_unless_equals_int64(vae_tensor_file_at(file, 0)->dims[0], 2);
    fail_unless_equals_string(vae_tensor_file_metadata(file, "vae.recording"),
                              "open");
    vae_tensor_file_free(&file);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_unwritable)
{
    gchar *source = write_clip("source", "latent", &small, CTHW, NULL, 0);
    Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                       "filesink location=%s/no/such/folder",
                       source, test_folder);
    assert_error(run, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_WRITE, "");
    run_free(run);
    g_free(source);
}
GST_END_TEST

static Suite *
latentmux_suite(void)
{
    Suite *suite = suite_create("latentmux");
    TCase *tcase = latent_tcase(suite, "files");
    tcase_add_test(tcase, test_file);
    tcase_add_test(tcase, test_plain_caps);
    tcase_add_test(tcase, test_frames);
    tcase_add_test(tcase, test_header_size);
    tcase_add_test(tcase, test_round_trip);
    tcase_add_test(tcase, test_tags);
    tcase_add_test(tcase, test_long_tags);
    tcase_add_test(tcase, test_flush);
    tcase_add_test(tcase, test_times);
    tcase_add_test(tcase, test_no_times);
    tcase_add_test(tcase, test_times_lost);
    tcase_add_test(tcase, test_reuse);
    tcase = latent_tcase(suite, "refusals");
    tcase_add_test(tcase, test_caps_change);
    tcase_add_test(tcase, test_wrong_size);
    tcase_add_test(tcase, test_layout);
    tcase_add_test(tcase, test_not_seekable);
    tcase_add_test(tcase, test_no_latents);
    tcase_add_test(tcase, test_restart_warns);
    tcase_add_test(tcase, test_sequences);
    tcase_add_test(tcase, test_bad_sequences);
    tcase_add_test(tcase, test_many_sequences);
    tcase_add_test(tcase, test_usual_frames);
    tcase_add_test(tcase, test_aborted);
    tcase_add_test(tcase, test_disk_full);
    tcase_add_test(tcase, test_failed_write);
    tcase_add_test(tcase, test_unwritable);
    return suite;
}

int
main(int argc, char **argv)
{
    gst_check_init(&argc, &argv);
    return latent_main(argc, argv, latentmux_suite());
}
