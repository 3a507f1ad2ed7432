/*
 * test_latentseek.c: latentdemux seeks, ends on request, and its files are
 * recognised.
 */
#include "latent_test.h"

#include <gst/base/gsttypefindhelper.h>

static const Clip small = {VAE_TYPE_F32, 4, 16, 3, 5};

/* Seeks ----------------------------------------------------------------- */

static const Clip lengthy = {VAE_TYPE_F16, 60, 16, 2, 2};

/* When latent k begins, at 16 frames a second. */
static GstClockTime
at(gint k)
{
    return k > 0 ? gst_util_uint64_scale(1 + 4 * (k - 1), GST_SECOND, 16) : 0;
}

static gboolean
seek_to(Run *run, GstSeekFlags flags, GstClockTime start, GstClockTime stop)
{
    return gst_element_seek(run->pipeline, 1, GST_FORMAT_TIME, flags,
                            GST_SEEK_TYPE_SET, start, GST_SEEK_TYPE_SET, stop);
}

static void
wait_preroll(Run *run)
{
    fail_unless(
        gst_element_get_state(run->pipeline, NULL, NULL, GST_CLOCK_TIME_NONE) ==
        GST_STATE_CHANGE_SUCCESS);
}

static GstSegment
sink_segment(Run *run)
{
    GstElement *sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    GstEvent *event = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
    GstSegment segment;
    fail_unless(event != NULL);
    gst_event_copy_segment(event, &segment);
    gst_event_unref(event);
    gst_object_unref(pad);
    gst_object_unref(sink);
    return segment;
}

static void
check_seek(const gchar *path, gint target, gint from)
{
    Run *run = run_preroll(path, "", "");
    gint64 position;
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(seek_to(run, GST_SEEK_FLAG_FLUSH, at(target) + 1, -1));
    wait_preroll(run);
    const GstSegment segment = sink_segment(run);
    fail_unless_equals_uint64(segment.start, at(target) + 1);
    fail_unless_equals_uint64(segment.time, at(target) + 1);
    fail_unless(
        gst_element_query_position(run->pipeline, GST_FORMAT_TIME, &position));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    assert_clip(run, &lengthy, from);
    GstBuffer *buffer = g_ptr_array_index(run->buffers, 0);
    fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT));
    fail_unless_equals_uint64(GST_BUFFER_PTS(buffer), at(from));
    run_free(run);
}

GST_START_TEST(test_seek)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    check_seek(path, 50, 12);
    check_seek(path, 59, 21);
    check_seek(path, 38, 0);
    check_seek(path, 5, 0);
    check_seek(path, 0, 0);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_seek_stop)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(seek_to(run, GST_SEEK_FLAG_FLUSH, at(1), at(3)));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    fail_unless(run->eos);
    fail_unless_equals_int(run->buffers->len, 3); /* latents 0, 1 and 2 */
    run_free(run);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_seek_segment)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    fail_unless(
        seek_to(run, GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_SEGMENT, 0, at(4)));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    fail_unless(run->segment_done && !run->eos);
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(seek_to(run, 0, at(55), -1)); /* without a flush */
    run_wait(run);
    fail_unless(run->eos);
    assert_clip(run, &lengthy, 17);
    run_free(run);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_seek_after_end)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    g_ptr_array_set_size(run->buffers, 0);
    run->eos = FALSE;
    fail_unless(seek_to(run, GST_SEEK_FLAG_FLUSH, 0, -1));
    run_wait(run);
    fail_unless(run->eos);
    assert_clip(run, &lengthy, 0);
    run_free(run);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_seek_refused)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    GstQuery *query = gst_query_new_seeking(GST_FORMAT_TIME);
    gboolean seekable;
    gint64 end;
    fail_unless(gst_element_query(run->pipeline, query));
    gst_query_parse_seeking(query, NULL, &seekable, NULL, &end);
    fail_unless(seekable);
    fail_unless_equals_int64(end, at(60));
    gst_query_unref(query);
    fail_if(gst_element_seek(run->pipeline, 1, GST_FORMAT_BYTES,
                             GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET, 0,
                             GST_SEEK_TYPE_NONE, -1));
    run_free(run);

    run = run_new("filesrc location=%s ! queue ! latentdemux ! "
                  "fakesink name=sink",
                  path);
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    wait_preroll(run);
    query = gst_query_new_seeking(GST_FORMAT_TIME);
    fail_unless(gst_element_query(run->pipeline, query));
    gst_query_parse_seeking(query, NULL, &seekable, NULL, NULL);
    fail_if(seekable);
    gst_query_unref(query);
    fail_if(seek_to(run, GST_SEEK_FLAG_FLUSH, 0, -1));
    run_free(run);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_seek_storm)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "queue max-size-buffers=3 !");
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    for (gint i = 0; i < 50; i++) {
        fail_unless(seek_to(run, GST_SEEK_FLAG_FLUSH, at((i * 17) % 60), -1));
        g_usleep(i % 7 * 300);
    }
    /* Ends of earlier runs may have been posted before their flush. */
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    fail_unless(seek_to(run, GST_SEEK_FLAG_FLUSH, 0, -1));
    wait_preroll(run);
    GstBus *bus = gst_element_get_bus(run->pipeline);
    gst_bus_set_flushing(bus, TRUE);
    gst_bus_set_flushing(bus, FALSE);
    gst_object_unref(bus);
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(seek_to(run, GST_SEEK_FLAG_FLUSH, at(50), -1));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    assert_clip(run, &lengthy, 12);
    run_free(run);
    g_free(path);
}
GST_END_TEST

static void
play(Run *run, gdouble rate, GstSeekFlags flags, GstClockTime start,
     GstClockTime stop)
{
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    wait_preroll(run);
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(gst_element_seek(
        run->pipeline, rate, GST_FORMAT_TIME, flags | GST_SEEK_FLAG_FLUSH,
        GST_SEEK_TYPE_SET, (gint64) start, GST_SEEK_TYPE_SET, (gint64) stop));
    wait_preroll(run);
    run->eos = FALSE;
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    fail_unless(run->eos && run->error == NULL);
}

/* What was sent: numbers of latents; in brackets those that are decoded only,
 * behind a bar those that do not follow the latent before. */
static void
check_order(Run *run, const gchar *wanted)
{
    GString *found = g_string_new(NULL);
    for (guint i = 0; i < run->buffers->len; i++) {
        const GstBuffer *b = g_ptr_array_index(run->buffers, i);
        const gboolean hidden =
            GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DECODE_ONLY);
        const gboolean cut = GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DISCONT);
        fail_unless(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DELTA_UNIT) !=
                    cut);
        g_string_append_printf(found, hidden ? "%s(%d)" : "%s%d",
                               cut ? "|" : " ", (gint) GST_BUFFER_OFFSET(b));
    }
    fail_unless_equals_string(found->str, wanted);
    g_string_free(found, TRUE);
}

/* A scrub costs less than a tenth of an accurate seek. */
GST_START_TEST(test_key_unit)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT, at(50) + 5, at(52));
    check_order(run, "|(48) (49) 50 51");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT, at(1), at(2));
    check_order(run, "|(0) 1");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT | GST_SEEK_FLAG_ACCURATE, at(50),
         at(51));
    fail_unless_equals_int(run->buffers->len, 39);
    run_free(run);
    run = run_preroll(path, "key-unit-warm-up=9 warm-up=1", "");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT, at(50), at(52));
    check_order(run, "|(49) 50 51");
    run_free(run);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_trick_mode)
{
    const GstSeekFlags trick = GST_SEEK_FLAG_TRICKMODE_KEY_UNITS;
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    play(run, 1, trick, at(40), at(50));
    check_order(run, "|(38) (39) 40|(44) (45) 46");
    play(run, 4, trick, at(20), -1);
    check_order(run, "|(18) (19) 20|(30) (31) 32|(42) (43) 44|(54) (55) 56");
    play(run, -4, trick, 0, at(30));
    check_order(run, "|(27) (28) 29|(15) (16) 17|(3) (4) 5|0");
    /* As often as the application wishes, unless all would be decoded. */
    GstEvent *seek = gst_event_new_seek(
        1, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH | trick, GST_SEEK_TYPE_SET,
        (gint64) at(10), GST_SEEK_TYPE_SET, (gint64) at(30));
    gst_event_set_seek_trickmode_interval(seek, 2 * GST_SECOND);
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    wait_preroll(run);
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(gst_element_send_event(run->pipeline, seek));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    check_order(run, "|(8) (9) 10|(16) (17) 18|(24) (25) 26");
    run_free(run);
    run = run_preroll(path, "key-unit-warm-up=0", "");
    play(run, 1, trick, at(10), at(15));
    check_order(run, "|10|12|14");
    run_free(run);
    g_free(path);
}
GST_END_TEST

/* Backwards come groups of eight, each in its order. */
GST_START_TEST(test_backwards)
{
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "warm-up=2", "");
    gint64 position;
    play(run, -1, 0, at(8), at(22) + 1);
    check_order(run, "|(13) (14) 15 16 17 18 19 20 21 22"
                     "|(6) (7) 8 9 10 11 12 13 14");
    fail_unless(
        gst_element_query_position(run->pipeline, GST_FORMAT_TIME, &position));
    play(run, -2, GST_SEEK_FLAG_KEY_UNIT, 0, at(3));
    check_order(run, "|0 1 2");
    play(run, -1, 0, 0, 0);
    fail_unless_equals_int(run->buffers->len, 0);
    play(run, -1, 0, at(58) + 1, -1);
    check_order(run, "|(56) (57) 58 59");
    run_free(run);
    g_free(path);
}
GST_END_TEST

static gint64
asked(GstElement *element, GstFormat from, gint64 value, GstFormat to)
{
    gint64 result = -1;
    if (!gst_element_query_convert(element, from, value, to, &result))
        return -1;
    return result;
}

/* Frames as a format, of queries and seeks. */
GST_START_TEST(test_frames)
{
    const GstFormat t = GST_FORMAT_TIME, f = GST_FORMAT_DEFAULT;
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_preroll(path, "warm-up=0", "");
    GstElement *demux = gst_bin_get_by_name(GST_BIN(run->pipeline), "demux");
    gint64 start, end;
    gboolean seekable;
    fail_unless(gst_element_query_duration(demux, f, &end));
    fail_unless_equals_int64(end, 237);
    GstQuery *query = gst_query_new_seeking(f);
    fail_unless(gst_element_query(demux, query));
    gst_query_parse_seeking(query, NULL, &seekable, &start, &end);
    fail_unless(seekable && start == 0 && end == 237);
    gst_query_unref(query);
    fail_unless_equals_int64(asked(demux, t, at(3), f), 9);
    fail_unless_equals_int64(asked(demux, t, at(3) - 1, f), 8);
    fail_unless_equals_int64(asked(demux, f, 9, t), at(3));
    fail_unless_equals_int64(asked(demux, f, 999, t), at(60));
    fail_unless_equals_int64(asked(demux, f, 7, f), 7);
    fail_unless_equals_int64(asked(demux, GST_FORMAT_BYTES, 7, f), -1);
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(gst_element_seek(run->pipeline, 1, f, GST_SEEK_FLAG_FLUSH,
                                 GST_SEEK_TYPE_SET, 9, GST_SEEK_TYPE_SET, 17));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    check_order(run, "|3 4");
    fail_unless(gst_element_query_position(demux, f, &end));
    fail_unless_equals_int64(end, 17);
    g_ptr_array_set_size(run->buffers, 0);
    fail_unless(gst_element_seek(run->pipeline, 1, f, GST_SEEK_FLAG_FLUSH,
                                 GST_SEEK_TYPE_END, -8, GST_SEEK_TYPE_SET, -1));
    run_wait(run);
    check_order(run, "|58 59");
    gst_object_unref(demux);
    run_free(run);
    g_free(path);
}
GST_END_TEST

static gpointer
seek_often(gpointer data)
{
    Run *run = data;
    for (gint i = 0; i < 300; i++) {
        gst_element_seek(run->pipeline, i % 5 ? 1 : -1, GST_FORMAT_TIME,
                         GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET,
                         (gint64) at((i * 17) % 60), GST_SEEK_TYPE_SET, -1);
        g_usleep(i % 7 * 100);
    }
    return NULL;
}

/* The pad stays, so a pipeline that was linked once plays again, whenever a
 * seek comes. */
GST_START_TEST(test_replay)
{
    static const GstState states[] = {GST_STATE_PLAYING, GST_STATE_READY,
                                      GST_STATE_PAUSED,  GST_STATE_NULL,
                                      GST_STATE_PLAYING, GST_STATE_NULL};
    gchar *path = write_clip("a", "latent", &lengthy, CTHW, NULL, 0);
    Run *run = run_new("filesrc location=%s ! latentdemux warm-up=3 ! "
                       "queue max-size-buffers=3 ! fakesink name=sink",
                       path);
    GThread *thread = g_thread_new("seeks", seek_often, run);
    for (gint i = 0; i < 120; i++) {
        gst_element_set_state(run->pipeline, states[i % 6]);
        g_usleep(i % 5 * 400);
    }
    g_thread_join(thread);
    for (gint i = 0; i < 3; i++) {
        gst_element_set_state(run->pipeline, GST_STATE_NULL);
        g_ptr_array_set_size(run->buffers, 0);
        gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
        run->eos = FALSE;
        run_wait(run);
        fail_unless(run->eos);
        assert_clip(run, &lengthy, 0);
    }
    run_free(run);
    g_free(path);
}
GST_END_TEST

/* Typefinding ----------------------------------------------------------- */

/* wanted NULL: none of ours. GStreamer 1.26 takes almost any bytes for AV1. */
static void
check_type(gconstpointer data, gsize size, const gchar *wanted)
{
    GstTypeFindProbability probability;
    GstCaps *caps =
        gst_type_find_helper_for_data(NULL, data, size, &probability);
    gchar *text = caps ? gst_caps_to_string(caps) : NULL;
    if (text && g_str_has_prefix(text, "video/x-av1"))
        g_clear_pointer(&text, g_free);
    fail_unless(g_strcmp0(text, wanted) == 0, "found %s, wanted %s", text,
                wanted);
    g_free(text);
    gst_clear_caps(&caps);
}

GST_START_TEST(test_typefind)
{
    static const gchar *const none[] = {
        "\x40\0\0\0\0\0\0\0{\"key\": 1}                                    ",
        "\x40\0\0\0\0\0\0\0[\"dtype\"]                                     ",
        "\x01\0\0\0\0\0\0\0{\"dtype\"}                                     ",
        "\x40\0\0\0\0\0\0\x01{\"dtype\"}                                   "};
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    gchar *npy = write_npy("b", &small, CTHW);
    GBytes *bytes = read_bytes(path), *npy_bytes = read_bytes(npy);
    gsize size;
    gconstpointer data = g_bytes_get_data(bytes, &size);
    check_type(data, size, "application/x-safetensors");
    check_type(data, 64, "application/x-safetensors");
    data = g_bytes_get_data(npy_bytes, &size);
    check_type(data, size, "application/x-npy");
    for (guint i = 0; i < G_N_ELEMENTS(none); i++)
        check_type(none[i], 48, NULL);
    g_bytes_unref(bytes);
    g_bytes_unref(npy_bytes);
    g_free(npy);
    g_free(path);
}
GST_END_TEST

/* decodebin finds the type and the demuxer by themselves. */
GST_START_TEST(test_decodebin)
{
    gchar *paths[] = {write_clip("a", "latent", &small, CTHW, NULL, 0),
                      write_npy("b", &small, CTHW)};
    if (!gst_registry_check_feature_version(gst_registry_get(), "decodebin", 1,
                                            0, 0))
        return;
    for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
        Run *run = run_all("filesrc location=%s ! "
                           "decodebin caps=video/x-vae-latent ! "
                           "fakesink name=sink",
                           paths[i]);
        assert_clip(run, &small, 0);
        run_free(run);
        g_free(paths[i]);
    }
}
GST_END_TEST

/* As gst-launch-1.0 -e does it: an EOS event to the pipeline ends the stream.
 */
GST_START_TEST(test_told_to_end)
{
    const Clip clip = {VAE_TYPE_F32, 6, 16, 8, 8};
    gchar *path = write_clip("a", "latent", &clip, TCHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    fail_unless(gst_element_send_event(run->pipeline, gst_event_new_eos()));
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    fail_unless(run->error == NULL);
    fail_unless(run->buffers->len < 6);
    run_free(run);
    g_free(path);
}
GST_END_TEST

static Suite *
latentseek_suite(void)
{
    Suite *suite = suite_create("latentseek");
    TCase *tcase = latent_tcase(suite, "seeks");
    tcase_add_test(tcase, test_seek);
    tcase_add_test(tcase, test_seek_stop);
    tcase_add_test(tcase, test_seek_segment);
    tcase_add_test(tcase, test_seek_after_end);
    tcase_add_test(tcase, test_seek_refused);
    tcase_add_test(tcase, test_seek_storm);
    tcase_add_test(tcase, test_key_unit);
    tcase_add_test(tcase, test_trick_mode);
    tcase_add_test(tcase, test_backwards);
    tcase_add_test(tcase, test_frames);
    tcase_add_test(tcase, test_replay);
    tcase = latent_tcase(suite, "typefind");
    tcase_add_test(tcase, test_typefind);
    tcase_add_test(tcase, test_decodebin);
    tcase_add_test(tcase, test_told_to_end);
    return suite;
}

int
main(int argc, char **argv)
{
    gst_check_init(&argc, &argv);
    return latent_main(argc, argv, latentseek_suite());
}
