/*
 * test_latentmux.c: the files that latentmux makes.
 */
#include "mux_test.h"

TEST(file)
{
    mux_open(small_caps);
    for (gint k = 0; k < 4; k++)
        CHECK(mux_push(&small, k, k ? 4 : 1) == GST_FLOW_OK);
    mux_finish();
    assert_file(OUT, &small, 4, 13);
    assert_metadata(OUT, "vae.latent_space", "wan2.1");
    assert_metadata(OUT, "vae.normalization", "normalized");
    assert_metadata(OUT, "vae.framerate", "24/1");
    assert_metadata(OUT, "vae.width", "37");
    assert_metadata(OUT, "vae.height", "21");
    assert_metadata(OUT, "vae.layout", "tchw");
    assert_metadata(OUT, "vae.temporal_factor", NULL);
}

/* The file states only what the caps state. */
TEST(plain_caps)
{
    const Clip clip = {VAE_TYPE_BF16, 1, 7, 2, 2};
    mux_open("video/x-vae-latent, type=bfloat16, channels=7, "
             "latent-width=2, latent-height=2, "
             "temporal-factor=8");
    CHECK(mux_push(&clip, 0, 0) == GST_FLOW_OK);
    mux_finish();
    assert_file(OUT, &clip, 1, 1);
    assert_metadata(OUT, "vae.latent_space", NULL);
    assert_metadata(OUT, "vae.normalization", NULL);
    assert_metadata(OUT, "vae.framerate", NULL);
    assert_metadata(OUT, "vae.width", NULL);
    assert_metadata(OUT, "vae.temporal_factor", "8");
}

/* If the last latent lasts less than four frames, the clip is shorter.
 * Durations of the other latents do not matter, also if they are missing or
 * odd. */
TEST(frames)
{
    static const gint last[] = {1, 2, 3, 4, 0, 9},
                      expected[] = {6, 7, 8, 9, 9, 9};
    for (guint i = 0; i < G_N_ELEMENTS(last); i++) {
        mux_open(small_caps);
        mux_push(&small, 0, 1);
        mux_push(&small, 1, 2);
        mux_push(&small, 2, last[i]);
        mux_end();
        mux_close();
        assert_file(OUT, &small, 3, expected[i]);
    }
}

/* The header has a fixed size, so the last header fits over the first one. */
TEST(header_size)
{
    gsize sizes[2];
    for (gint i = 0; i < 2; i++) {
        const gint n = i ? 1200 : 1;
        mux_open(small_caps);
        for (gint k = 0; k < n; k++)
            CHECK(mux_push(&small, k, 4) == GST_FLOW_OK);
        mux_end();
        mux_close();
        assert_file(OUT, &small, n, 1 + 4 * (n - 1));
        g_autoptr(GBytes) bytes = read_bytes(OUT);
        sizes[i] = g_bytes_get_size(bytes) - n * step_bytes(&small);
    }
    CHECK_INT(sizes[0], sizes[1]);
}

static void
transcode(const gchar *from, const gchar *to)
{
    Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                       "filesink location=%s",
                       from, to);
    CHECK_SAYS(run->eos && !run->error && !run->warning, "%s", run->error);
}

/* The latent space tells the layout. Without it the layout is a guess: the new
 * file does not state it, nor the frames that follow from it. It is read as the
 * old one is, also a second time. */
TEST(guessed_layout)
{
    static const Clip images = {VAE_TYPE_F32, 16, 4, 2, 2},
                      square = {VAE_TYPE_F32, 16, 16, 2, 2};
    static const struct {
        const Clip *clip;
        Order order;
        const gchar *properties, *frames; /* NULL: the layout is a guess */
    } cases[] = {{&images, TCHW, "", NULL},
                 {&images, TCHW, "latent-space=sd", "16"},
                 {&square, CTHW, "latent-space=wan2.1", NULL},
                 {&square, CTHW, "latent-space=wan2.1 layout=cthw", "61"}};
    const gchar *const paths[] = {
        vae_test_path("source"), vae_test_path("once"), vae_test_path("twice")};
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        const gboolean guessed = !cases[i].frames;
        write_clip("source", "x", cases[i].clip, cases[i].order, NULL, 0);
        for (gint k = 0; k < 2; k++) {
            Run *run =
                run_all("filesrc location=%s ! latentdemux %s ! "
                        "latentmux ! filesink location=%s",
                        paths[k], k ? "" : cases[i].properties, paths[k + 1]);
            CHECK_SAYS(run->eos && !run->error && guessed == !!run->warning,
                       "%s", run->warning ? run->warning : run->error);
            CHECK(!guessed ||
                  strstr(run->warning, "is a guess: set layout to"));
            assert_metadata(paths[k + 1], "vae.layout",
                            guessed ? NULL : "tchw");
            assert_metadata(paths[k + 1], "vae.layout_guess",
                            guessed ? "tchw" : NULL);
            assert_metadata(paths[k + 1], "vae.frames", cases[i].frames);
            assert_metadata(paths[k + 1], "vae.recording", NULL);
        }
        g_autoptr(GBytes) once = read_bytes(paths[1]);
        g_autoptr(GBytes) twice = read_bytes(paths[2]);
        CHECK(g_bytes_equal(once, twice));
    }
}

#define MASTERING "34000:16000:13250:34500:7500:3000:15635:16450:10000000:1"

#define PNG                                                                    \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhg"   \
    "GAWjR9awAAAABJRU5ErkJggg=="

/* From any layout to that of the muxer, and from there without a change. */
TEST(round_trip)
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
        {"vae.tag.image-orientation", "rotate-90"},
        {"vae.tag.artist", "A; \"B\""},
        {"vae.tag.artist.2", "C, D"},
        {"vae.tag.encoder", "another"},
        {"vae.tag.track-number", "3"},
        {"vae.tag.geo-location-latitude", "-48.5"},
        {"vae.tag.datetime", "2026-02-03T04:05:06Z"},
        {"vae.tag.image", PNG},
        {"vae.temporal_factor", "4"}};
    for (gint stated = 0; stated < 2; stated++) {
        const gchar *source =
            write_clip("source", "samples", &small, BCTHW, metadata,
                       stated ? G_N_ELEMENTS(metadata) : 0);
        const gchar *once = vae_test_path("once"),
                    *twice = vae_test_path("twice");
        transcode(source, once);
        transcode(once, twice);
        assert_file(once, &small, 4, stated ? 10 : 0);
        for (guint i = 0; i < G_N_ELEMENTS(metadata); i++) {
            const gchar *key = metadata[i].key;
            if (strcmp(key, "vae.frames") != 0)
                assert_metadata(once, key, stated ? metadata[i].value : NULL);
        }
        g_autoptr(GBytes) a = read_bytes(once), b = read_bytes(twice);
        CHECK(g_bytes_equal(a, b));
    }
}

/* Tags of the application come before those of upstream, and those of the
 * stream before those of the medium. Tags after the first latent are in the
 * file, too. Tags about the stream itself are not. */
TEST(tags)
{
    mux_open(small_caps);
    GstTagSetter *setter =
        GST_TAG_SETTER(gst_harness_find_element(mux, "latentmux"));
    GstTagList *tags =
        gst_tag_list_new(GST_TAG_TITLE, "theirs", GST_TAG_COMMENT, "a prompt",
                         GST_TAG_VIDEO_CODEC, "VAE latents", GST_TAG_BITRATE, 9,
                         GST_TAG_LANGUAGE_CODE, "und", GST_TAG_EXTENDED_COMMENT,
                         "DURATION=00:00:03.023000000",
                         GST_TAG_EXTENDED_COMMENT, "MOOD=calm", NULL);
    GstTagList *medium =
        gst_tag_list_new(GST_TAG_COMMENT, "of the medium", GST_TAG_ALBUM, "a",
                         GST_TAG_CONTAINER_FORMAT, "Quicktime", NULL);
    gst_tag_list_set_scope(medium, GST_TAG_SCOPE_GLOBAL);
    CHECK(gst_harness_push_event(mux, gst_event_new_tag(medium)));
    gst_tag_setter_add_tags(setter, GST_TAG_MERGE_REPLACE, GST_TAG_TITLE,
                            "ours", NULL);
    CHECK(gst_harness_push_event(mux, gst_event_new_tag(tags)));
    CHECK(mux_push(&small, 0, 4) == GST_FLOW_OK);
    tags = gst_tag_list_new(GST_TAG_APPLICATION_NAME, "late", NULL);
    CHECK(gst_harness_push_event(mux, gst_event_new_tag(tags)));
    mux_end();
    assert_quiet();
    gst_object_unref(setter);
    mux_close();
    assert_metadata(OUT, "vae.title", "ours");
    assert_metadata(OUT, "vae.comment", "a prompt");
    assert_metadata(OUT, "vae.application", "late");
    assert_metadata(OUT, "vae.tag.album", "a");
    assert_metadata(OUT, "vae.tag.bitrate", NULL);
    assert_metadata(OUT, "vae.tag.language-code", NULL);
    assert_metadata(OUT, "vae.tag.extended-comment", NULL);
    assert_metadata(OUT, "vae.tag.extended-comment.2", "MOOD=calm");
    assert_metadata(OUT, "vae.tag.video-codec", NULL);
    assert_metadata(OUT, "vae.tag.container-format", NULL);
    assert_file(OUT, &small, 1, 1);
}

/* A tag that has no text is named in a WARNING. */
TEST(lost_tags)
{
    mux_open(small_caps);
    g_autoptr(GstBuffer) bytes = gst_buffer_new_allocate(NULL, 9, NULL);
    g_autoptr(GstSample) sample = gst_sample_new(bytes, NULL, NULL, NULL);
    CHECK(gst_harness_push_event(
        mux, gst_event_new_tag(gst_tag_list_new(GST_TAG_ATTACHMENT, sample,
                                                GST_TAG_TITLE, "t", NULL))));
    CHECK(mux_push(&small, 0, 4) == GST_FLOW_OK);
    mux_end();
    assert_posted(GST_MESSAGE_WARNING, "are left out: attachment");
    assert_quiet();
    mux_close();
    assert_metadata(OUT, "vae.title", "t");
    assert_file(OUT, &small, 1, 1);
}

/* Late tags that do not fit in the header change nothing in the file. */
TEST(long_tags)
{
    g_autofree gchar *prompt = g_strnfill(5000, 'x');
    mux_open(small_caps);
    GstTagList *tags = gst_tag_list_new(GST_TAG_TITLE, "early", NULL);
    CHECK(gst_harness_push_event(mux, gst_event_new_tag(tags)));
    CHECK(mux_push(&small, 0, 4) == GST_FLOW_OK);
    tags = gst_tag_list_new(GST_TAG_COMMENT, prompt, NULL);
    CHECK(gst_harness_push_event(mux, gst_event_new_tag(tags)));
    mux_end();
    assert_posted(GST_MESSAGE_WARNING, "too long");
    assert_quiet();
    mux_close();
    assert_metadata(OUT, "vae.title", "early");
    assert_metadata(OUT, "vae.comment", NULL);
    assert_file(OUT, &small, 1, 1);
}

/* Returns the begin of latent k of four: at the frame rate, later, or with a
 * gap. */
static GstClockTime
uneven(gint k)
{
    static const GstClockTime times[] = {0, 50, 250, 700};
    return times[k] * GST_MSECOND;
}

/* The last latent begins before the previous one, so the frame rate is used. */
static void
check_impossible(const gchar *path)
{
    GBytes *bytes = read_bytes(path);
    gsize size;
    g_autofree guint8 *data = g_bytes_unref_to_data(bytes, &size);
    memset(data + size - 16, 0, 16);
    const gchar *other = write_bytes("impossible", data, size);
    Run *run = run_all(PLAY_FILE, other);
    assert_clip(run, &small, 0);
    CHECK(run->warning && strstr(run->warning, "latent_times"));
    CHECK_INT(GST_BUFFER_PTS((GstBuffer *) g_ptr_array_index(run->buffers, 3)),
              frame_time(9));
}

/* A seek finds the latent by the times in the file. */
static void
check_seek(GstSeekFlags flags, gint ms, gint k)
{
    Run *run = run_preroll(OUT, "warm-up=0 key-unit-warm-up=0", "");
    gint64 duration;
    CHECK(
        gst_element_query_duration(run->pipeline, GST_FORMAT_TIME, &duration));
    CHECK_INT(duration, uneven(3) + frame_time(4));
    g_ptr_array_set_size(run->buffers, 0);
    CHECK(gst_element_seek_simple(run->pipeline, GST_FORMAT_TIME,
                                  flags | GST_SEEK_FLAG_FLUSH,
                                  ms * GST_MSECOND));
    run_play(run);
    assert_clip(run, &small, k);
    CHECK_INT(GST_BUFFER_PTS((GstBuffer *) g_ptr_array_index(run->buffers, 0)),
              uneven(k));
}

/* Times that do not follow the frame rate are restored. */
TEST(times)
{
    const gchar *twice = vae_test_path("twice");
    mux_open(small_caps);
    for (gint k = 0; k < 4; k++) {
        CHECK(push_timed(&small, k, GST_SECOND + uneven(k), GST_CLOCK_TIME_NONE,
                         k == 0) == GST_FLOW_OK);
    }
    mux_finish();
    assert_file(OUT, &small, 4, 13);
    transcode(OUT, twice);
    GBytes *a = read_bytes(OUT), *b = read_bytes(twice);
    CHECK(g_bytes_equal(a, b));
    g_bytes_unref(a);
    g_bytes_unref(b);
    for (gint push = 0; push < 2; push++) {
        Run *run = run_all("filesrc location=%s ! %s latentdemux ! "
                           "fakesink name=sink",
                           OUT, push ? "queue !" : "");
        assert_clip(run, &small, 0);
        for (gint k = 0; k < 4; k++) {
            GstBuffer *buffer = g_ptr_array_index(run->buffers, k);
            CHECK_INT(GST_BUFFER_PTS(buffer), uneven(k));
            CHECK_INT(GST_BUFFER_DURATION(buffer), frame_time(k ? 4 : 1));
        }
    }
    for (gint k = 0; k < 4; k++) {
        check_seek(GST_SEEK_FLAG_ACCURATE, uneven(k) / GST_MSECOND, k);
        check_seek(GST_SEEK_FLAG_ACCURATE, uneven(k) / GST_MSECOND + 49, k);
        check_seek(GST_SEEK_FLAG_KEY_UNIT | GST_SEEK_FLAG_SNAP_BEFORE,
                   uneven(k) / GST_MSECOND + 30, k);
    }
    check_impossible(OUT);
}

/* Without times, or with nominal times, the file has no table of times. */
TEST(no_times)
{
    for (gint timed = 0; timed < 2; timed++) {
        mux_open(small_caps);
        VaeTensorFile *file;
        mux_push(&small, 0, 1);
        mux_push(&small, 1, 4);
        push_timed(&small, 2, timed ? frame_time(5) : GST_CLOCK_TIME_NONE,
                   GST_CLOCK_TIME_NONE, FALSE);
        mux_end();
        mux_close();
        assert_file(OUT, &small, 3, 9);
        CHECK(vae_tensor_file_open(OUT, &file, NULL) == VAE_OK);
        CHECK(vae_tensor_file_find(file, "latent_times") == NULL);
        vae_tensor_file_free(&file);
    }
}

/* Times that a file cannot store: one WARNING says how to correct them. */
TEST(times_lost)
{
    mux_open(small_caps);
    for (gint k = 0; k < 4; k++) {
        CHECK(push_timed(&small, k, GST_SECOND * (k < 2 ? k + 5 : 6 - k),
                         GST_CLOCK_TIME_NONE, k == 0) == GST_FLOW_OK);
    }
    mux_end();
    assert_posted(GST_MESSAGE_WARNING, "videorate");
    assert_quiet();
    mux_close();
    assert_file(OUT, &small, 4, 13);
}

/* The same for latents with equal times. */
TEST(times_equal)
{
    mux_open(small_caps);
    for (gint k = 0; k < 4; k++)
        CHECK(push_timed(&small, k, GST_SECOND, frame_time(k ? 4 : 1),
                         k == 0) == GST_FLOW_OK);
    mux_end();
    assert_posted(GST_MESSAGE_WARNING, "videorate");
    assert_quiet();
    mux_close();
    Run *run = run_all(PLAY_FILE, OUT);
    assert_clip(run, &small, 0);
}

/* A segment whose timestamps restart continues by its running time. */
TEST(segments)
{
    GstSegment segment;
    mux_open(small_caps);
    mux_push(&small, 0, 1);
    mux_push(&small, 1, 4);
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.base = GST_SECOND;
    gst_harness_push_event(mux, gst_event_new_segment(&segment));
    push_timed(&small, 2, 0, frame_time(1), TRUE);
    push_timed(&small, 3, frame_time(1), frame_time(4), FALSE);
    mux_finish();
    Run *run = run_all(PLAY_FILE, OUT);
    CHECK_INT(run->buffers->len, 4);
    for (gint k = 0; k < 4; k++)
        CHECK_INT(
            GST_BUFFER_PTS((GstBuffer *) g_ptr_array_index(run->buffers, k)),
            (k < 2 ? 0 : GST_SECOND) + frame_time(k % 2));
}

TEST(flush)
{
    mux_open(small_caps);
    mux_push(&small, 0, 1);
    mux_push(&small, 1, 4);
    mux_push(&small, 2, 4);
    gst_harness_push_event(mux, gst_event_new_flush_start());
    gst_harness_push_event(mux, gst_event_new_flush_stop(TRUE));
    vae_test_push_segment(mux);
    mux_push(&small, 0, 1);
    mux_push(&small, 1, 4);
    mux_finish();
    assert_file(OUT, &small, 2, 5);
}

/* The same elements can write a second file. */
TEST(reuse)
{
    mux_open(small_caps);
    for (gint i = 0; i < 3; i++) {
        const gint n = 3 - i;
        for (gint k = 0; k < n; k++)
            CHECK(mux_push(&small, k, 4) == GST_FLOW_OK);
        mux_end();
        assert_quiet();
        gst_element_set_state(mux->element, GST_STATE_NULL);
        assert_file(OUT, &small, n, 1 + 4 * (n - 1));
        gst_harness_play(mux);
        gst_element_set_state(mux->element, GST_STATE_PLAYING);
        gst_harness_push_event(mux, gst_event_new_stream_start("x"));
        gst_harness_set_src_caps_str(mux, small_caps);
        vae_test_push_segment(mux);
    }
    mux_close();
}
