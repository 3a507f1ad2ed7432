/*
 * test_latentseek.c: seeks and early ends of latentdemux, and the recognition
 * of its files.
 */
#include "latent_test.h"

#include <gst/base/gsttypefindhelper.h>

static const Clip small = {VAE_TYPE_F32, 4, 16, 3, 5};

/* Seeks ----------------------------------------------------------------- */

static const Clip lengthy = {VAE_TYPE_F16, 60, 16, 2, 2};

/* Pauses for a seek, see run_preroll(). */
static Run *
lengthy_run(const gchar *properties, const gchar *more)
{
    Run *run = run_preroll(plain_clip(&lengthy), properties, more);
    g_ptr_array_set_size(run->buffers, 0);
    return run;
}

/* Returns the begin of latent k at 16 frames a second. */
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
    CHECK(
        gst_element_get_state(run->pipeline, NULL, NULL, GST_CLOCK_TIME_NONE) ==
        GST_STATE_CHANGE_SUCCESS);
}

TEST(seek_refused)
{
    Run *run = lengthy_run("", "");
    GstQuery *query = gst_query_new_seeking(GST_FORMAT_TIME);
    gboolean seekable;
    gint64 end;
    CHECK(gst_element_query(run->pipeline, query));
    gst_query_parse_seeking(query, NULL, &seekable, NULL, &end);
    CHECK(seekable);
    CHECK_INT(end, at(60));
    gst_query_unref(query);
    CHECK(!gst_element_seek(run->pipeline, 1, GST_FORMAT_BYTES,
                            GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET, 0,
                            GST_SEEK_TYPE_NONE, -1));
    /* The inner latentmux sends its file once. */
    run = run_new("filesrc location=%s ! latentdemux ! latentmux "
                  "max-kept-size=0 ! latentdemux ! fakesink name=sink",
                  vae_test_path("a"));
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    wait_preroll(run);
    query = gst_query_new_seeking(GST_FORMAT_TIME);
    CHECK(gst_element_query(run->pipeline, query));
    gst_query_parse_seeking(query, NULL, &seekable, NULL, NULL);
    CHECK(!seekable);
    gst_query_unref(query);
    CHECK(!seek_to(run, GST_SEEK_FLAG_FLUSH, 0, -1));
}

static void
play(Run *run, gdouble rate, GstSeekFlags flags, GstClockTime start,
     GstClockTime stop)
{
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    wait_preroll(run);
    g_ptr_array_set_size(run->buffers, 0);
    CHECK(gst_element_seek(run->pipeline, rate, GST_FORMAT_TIME,
                           flags | GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET,
                           (gint64) start, GST_SEEK_TYPE_SET, (gint64) stop));
    wait_preroll(run);
    run->eos = FALSE;
    run_play(run);
    CHECK(run->eos && run->error == NULL);
}

/* Checks the numbers of the latents that were sent. Latents that are only
 * decoded are in brackets. A bar is before a latent that does not follow the
 * previous one. */
static void
check_order(Run *run, const gchar *expected)
{
    GString *found = g_string_new(NULL);
    for (guint i = 0; i < run->buffers->len; i++) {
        const GstBuffer *b = g_ptr_array_index(run->buffers, i);
        const gboolean hidden =
            GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DECODE_ONLY);
        const gboolean cut = GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DISCONT);
        CHECK(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DELTA_UNIT) != cut);
        g_string_append_printf(found, hidden ? "%s(%d)" : "%s%d",
                               cut ? "|" : " ", (gint) GST_BUFFER_OFFSET(b));
    }
    CHECK_STR(found->str, expected);
    g_string_free(found, TRUE);
}

/* A quick seek decodes less than a tenth of the latents of an exact one. */
TEST(key_unit)
{
    Run *run = lengthy_run("", "");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT, at(50) + 5, at(52));
    check_order(run, "|(48) (49) 50 51");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT, at(1), at(2));
    check_order(run, "|(0) 1");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT | GST_SEEK_FLAG_ACCURATE, at(50),
         at(51));
    CHECK_INT(run->buffers->len, 39);
    run = lengthy_run("key-unit-warm-up=9 warm-up=1", "");
    play(run, 1, GST_SEEK_FLAG_KEY_UNIT, at(50), at(52));
    check_order(run, "|(49) 50 51");
}

/* Checks the bytes of what was sent. */
static void
check_bytes(const Run *run)
{
    for (guint i = 0; i < run->buffers->len; i++) {
        GstBuffer *buffer = g_ptr_array_index(run->buffers, i);
        g_autofree guint8 *data =
            step_data(&lengthy, (gint) GST_BUFFER_OFFSET(buffer));
        CHECK(gst_buffer_memcmp(buffer, 0, data, step_bytes(&lengthy)) == 0);
    }
}

/* Without random access, upstream seeks by bytes, or a file that is in memory
 * needs no seek. */
TEST(pushed)
{
    static const VaeMetadata tchw[] = {{"vae.layout", "tchw"}};
    static const Order orders[] = {TCHW, CTHW};
    for (guint i = 0; i < G_N_ELEMENTS(orders); i++) {
        const gboolean kept = orders[i] == CTHW;
        const gchar *path =
            write_clip("a", "latent", &lengthy, orders[i], tchw, kept ? 0 : 1);
        Run *run = run_new("filesrc location=%s blocksize=300 ! queue "
                           "max-size-buffers=2 ! latentdemux warm-up=2 ! "
                           "fakesink name=sink",
                           path);
        play(run, 1, 0, at(50) + 5, at(52));
        check_order(run, "|(48) (49) 50 51");
        check_bytes(run);
        play(run, 1, 0, at(1), at(2));
        check_order(run, "|(0) 1");
        check_bytes(run);
        play(run, 1, GST_SEEK_FLAG_TRICKMODE_KEY_UNITS, at(40), at(50));
        check_order(run, "|(38) (39) 40|(44) (45) 46");
        play(run, 1, GST_SEEK_FLAG_KEY_UNIT, at(58) + 1, -1);
        check_order(run, "|(56) (57) 58 59");
        check_bytes(run);
        gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
        CHECK(gst_element_seek(run->pipeline, -1, GST_FORMAT_TIME,
                               GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET, 0,
                               GST_SEEK_TYPE_SET, 1) == kept);
        if (!kept)
            continue;
        play(run, -1, 0, at(8), at(22) + 1);
        check_order(run, "|(13) (14) 15 16 17 18 19 20 21 22"
                         "|(6) (7) 8 9 10 11 12 13 14");
        check_bytes(run);
    }
}

/* The shortest clip for which docs/streaming.md states that quick seeks to all
 * latents decode at most a tenth of the latents. */
static const Clip scrubbed = {VAE_TYPE_F16, 79, 16, 2, 2};

static guint
latents_of_scrub(GstSeekFlags flags)
{
    Run *run = run_preroll(plain_clip(&scrubbed), "", "");
    guint sum = 0;
    for (gint k = 0; k < scrubbed.t; k++) {
        play(run, 1, flags, at(k), at(k) + 1);
        sum += run->buffers->len;
    }
    return sum;
}

TEST(scrub)
{
    const guint exact = latents_of_scrub(GST_SEEK_FLAG_ACCURATE);
    const guint quick = latents_of_scrub(GST_SEEK_FLAG_KEY_UNIT);
    CHECK_INT(exact, 38 * 39 / 2 + (scrubbed.t - 38) * 39);
    CHECK_INT(quick, 1 + 2 + (scrubbed.t - 2) * 3);
    CHECK(10 * quick <= exact);
}

TEST(trick_mode)
{
    const GstSeekFlags trick = GST_SEEK_FLAG_TRICKMODE_KEY_UNITS;
    Run *run = lengthy_run("", "");
    play(run, 1, trick, at(40), at(50));
    check_order(run, "|(38) (39) 40|(44) (45) 46");
    play(run, 4, trick, at(20), -1);
    check_order(run, "|(18) (19) 20|(30) (31) 32|(42) (43) 44|(54) (55) 56");
    play(run, -4, trick, 0, at(30));
    check_order(run, "|(27) (28) 29|(15) (16) 17|(3) (4) 5|0");
    /* With the interval of the application, unless all latents would be
     * decoded. */
    GstEvent *seek = gst_event_new_seek(
        1, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH | trick, GST_SEEK_TYPE_SET,
        (gint64) at(10), GST_SEEK_TYPE_SET, (gint64) at(30));
    gst_event_set_seek_trickmode_interval(seek, 2 * GST_SECOND);
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    wait_preroll(run);
    g_ptr_array_set_size(run->buffers, 0);
    CHECK(gst_element_send_event(run->pipeline, seek));
    run_play(run);
    check_order(run, "|(8) (9) 10|(16) (17) 18|(24) (25) 26");
    run = lengthy_run("key-unit-warm-up=0", "");
    play(run, 1, trick, at(10), at(15));
    check_order(run, "|10|12|14");
}

/* The sink gets the factor to the rate of the segment. No latent is sent
 * again. */
TEST(instant_rate)
{
    Run *run = run_preroll(plain_clip(&lengthy), "", "");
    g_autoptr(GstElement) sink =
        gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
    for (gint rate = 4; rate >= 2; rate -= 2) {
        gdouble factor;
        CHECK(gst_element_seek(run->pipeline, rate, GST_FORMAT_TIME,
                               GST_SEEK_FLAG_INSTANT_RATE_CHANGE,
                               GST_SEEK_TYPE_NONE, 0, GST_SEEK_TYPE_NONE, 0));
        g_autoptr(GstEvent) event =
            gst_pad_get_sticky_event(pad, GST_EVENT_INSTANT_RATE_CHANGE, 0);
        CHECK(event != NULL);
        gst_event_parse_instant_rate_change(event, &factor, NULL);
        CHECK(factor == rate);
    }
    CHECK(!gst_element_seek(run->pipeline, -2, GST_FORMAT_TIME,
                            GST_SEEK_FLAG_INSTANT_RATE_CHANGE,
                            GST_SEEK_TYPE_NONE, 0, GST_SEEK_TYPE_NONE, 0));
    run_play(run);
    assert_clip(run, &lengthy, 0);
}

/* Backwards, groups of eight come, each in forward order. */
TEST(backwards)
{
    Run *run = lengthy_run("warm-up=2", "");
    gint64 position;
    play(run, -1, 0, at(8), at(22) + 1);
    check_order(run, "|(13) (14) 15 16 17 18 19 20 21 22"
                     "|(6) (7) 8 9 10 11 12 13 14");
    CHECK(
        gst_element_query_position(run->pipeline, GST_FORMAT_TIME, &position));
    play(run, -2, GST_SEEK_FLAG_KEY_UNIT, 0, at(3));
    check_order(run, "|0 1 2");
    play(run, -1, 0, 0, 0);
    CHECK_INT(run->buffers->len, 0);
    play(run, -1, 0, at(58) + 1, -1);
    check_order(run, "|(56) (57) 58 59");
}

static gint64
asked(GstElement *element, GstFormat from, gint64 value, GstFormat to)
{
    gint64 result = -1;
    if (!gst_element_query_convert(element, from, value, to, &result))
        return -1;
    return result;
}

/* Queries and seeks in frames. */
TEST(frames)
{
    const GstFormat t = GST_FORMAT_TIME, f = GST_FORMAT_DEFAULT;
    Run *run = lengthy_run("warm-up=0", "");
    g_autoptr(GstElement) demux =
        gst_bin_get_by_name(GST_BIN(run->pipeline), "demux");
    gint64 start, end;
    gboolean seekable;
    CHECK(gst_element_query_duration(demux, f, &end));
    CHECK_INT(end, 237);
    GstQuery *query = gst_query_new_seeking(f);
    CHECK(gst_element_query(demux, query));
    gst_query_parse_seeking(query, NULL, &seekable, &start, &end);
    CHECK(seekable && start == 0 && end == 237);
    gst_query_unref(query);
    CHECK_INT(asked(demux, t, at(3), f), 9);
    CHECK_INT(asked(demux, t, at(3) - 1, f), 8);
    CHECK_INT(asked(demux, f, 9, t), at(3));
    CHECK_INT(asked(demux, f, 999, t), at(60));
    CHECK_INT(asked(demux, f, 7, f), 7);
    CHECK_INT(asked(demux, GST_FORMAT_BYTES, 7, f), -1);
    g_ptr_array_set_size(run->buffers, 0);
    CHECK(gst_element_seek(run->pipeline, 1, f, GST_SEEK_FLAG_FLUSH,
                           GST_SEEK_TYPE_SET, 9, GST_SEEK_TYPE_SET, 17));
    run_play(run);
    check_order(run, "|3 4");
    CHECK(gst_element_query_position(demux, f, &end));
    CHECK_INT(end, 17);
    g_ptr_array_set_size(run->buffers, 0);
    CHECK(gst_element_seek(run->pipeline, 1, f, GST_SEEK_FLAG_FLUSH,
                           GST_SEEK_TYPE_END, -8, GST_SEEK_TYPE_SET, -1));
    run_wait(run);
    check_order(run, "|58 59");
}

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

/* The pad is an always pad, so a pipeline plays again without new links, also
 * with a seek at any time. */
TEST(replay)
{
    static const GstState states[] = {GST_STATE_PLAYING, GST_STATE_READY,
                                      GST_STATE_PAUSED,  GST_STATE_NULL,
                                      GST_STATE_PLAYING, GST_STATE_NULL};
    const gchar *path = plain_clip(&lengthy);
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
        CHECK(run->eos);
        assert_clip(run, &lengthy, 0);
    }
}

/* Typefinding ----------------------------------------------------------- */

/* expected NULL: not a type of latents. GStreamer 1.26 accepts almost any bytes
 * as AV1. */
static void
check_type(gconstpointer data, gsize size, const gchar *expected)
{
    GstTypeFindProbability probability;
    GstCaps *caps =
        gst_type_find_helper_for_data(NULL, data, size, &probability);
    gchar *text = caps ? gst_caps_to_string(caps) : NULL;
    if (text && g_str_has_prefix(text, "video/x-av1"))
        g_clear_pointer(&text, g_free);
    CHECK_SAYS(g_strcmp0(text, expected) == 0, "found %s, expected %s", text,
               expected);
    g_free(text);
    gst_clear_caps(&caps);
}

TEST(typefind)
{
    static const gchar *const none[] = {
        "\x40\0\0\0\0\0\0\0{\"key\": 1}                                    ",
        "\x40\0\0\0\0\0\0\0[\"dtype\"]                                     ",
        "\x01\0\0\0\0\0\0\0{\"dtype\"}                                     ",
        "\x40\0\0\0\0\0\0\x01{\"dtype\"}                                   "};
    const gchar *path = plain_clip(&small);
    const gchar *npy = write_npy("b", &small, CTHW);
    g_autoptr(GBytes) bytes = read_bytes(path);
    g_autoptr(GBytes) npy_bytes = read_bytes(npy);
    gsize size;
    gconstpointer data = g_bytes_get_data(bytes, &size);
    check_type(data, size, "application/x-safetensors");
    check_type(data, 64, "application/x-safetensors");
    data = g_bytes_get_data(npy_bytes, &size);
    check_type(data, size, "application/x-npy");
    for (guint i = 0; i < G_N_ELEMENTS(none); i++)
        check_type(none[i], 48, NULL);
}

/* A file of torch.save() begins with such a zip entry. */
TEST(torch)
{
    g_autofree gchar *path =
        g_build_filename(g_getenv("VAE_TEST_VECTORS"), "..", "..", "files",
                         "torch", "data", "latent.pt", NULL);
    g_autoptr(GBytes) bytes = read_bytes(path);
    gsize size;
    const guint8 *data = g_bytes_get_data(bytes, &size);
    g_autofree guint8 *other = g_memdup2(data, size);
    check_type(data, size, "application/x-pytorch");
    other[44]++; /* the last letter of data.pkl */
    g_autoptr(GstCaps) zip =
        gst_type_find_helper_for_data(NULL, other, size, NULL);
    CHECK(!zip || !gst_structure_has_name(gst_caps_get_structure(zip, 0),
                                          "application/x-pytorch"));
    if (!gst_registry_check_feature_version(gst_registry_get(), "decodebin", 1,
                                            0, 0))
        return;
    Run *run = run_all("filesrc location=%s ! "
                       "decodebin caps=video/x-vae-latent ! "
                       "fakesink name=sink",
                       path);
    CHECK_SAYS(run->eos && !run->error, "%s", run->error);
    CHECK(run->buffers->len > 0);
}

/* decodebin recognises the type and selects the demuxer. */
TEST(decodebin)
{
    const gchar *const paths[] = {plain_clip(&small),
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
    }
}

/* An EOS event to the pipeline ends the stream, as with gst-launch-1.0 -e. */
TEST(told_to_end)
{
    const Clip clip = {VAE_TYPE_F32, 6, 16, 8, 8};
    const gchar *path = write_clip("a", "latent", &clip, TCHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    CHECK(gst_element_send_event(run->pipeline, gst_event_new_eos()));
    run_play(run);
    CHECK(run->error == NULL);
    CHECK(run->buffers->len < 6);
}
