/*
 * test_play.c: a file of latents played backwards, in trick modes, in steps and
 * in loops gives the frames and times of an undisturbed run.
 */
#include "seek_bed.h"

/* Plays [first, last] at a rate. A negative rate plays the last frame first. */
static void
play_back(gdouble rate, GstSeekFlags flags, guint first, guint last)
{
    vae_play_set(play, GST_STATE_PAUSED);
    vae_play_forget(play);
    CHECK(gst_element_seek(play->pipeline, rate, GST_FORMAT_TIME,
                           GST_SEEK_FLAG_FLUSH | flags, GST_SEEK_TYPE_SET,
                           (gint64) at(first), GST_SEEK_TYPE_SET,
                           (gint64) at(last + 1)));
    vae_play_to_end(play);
}

/* Backwards, the same frames with the same bytes come, the last one first. */
TEST(backwards)
{
    static const guint spans[][2] = {
        {0, FRAMES - 1}, {7, 12}, {150, 203}, {0, 0}, {236, 236}};
    bed_open(24, 1);
    for (guint i = 0; i < G_N_ELEMENTS(spans); i++) {
        const guint first = spans[i][0], last = spans[i][1];
        GstClockTime running = 0;
        play_back(-1, 0, first, last);
        CHECK_INT(play->shown->len, last + 1 - first);
        for (guint k = 0; k < play->shown->len; k++) {
            const VaeShown *found = frame(k);
            const VaeShown *expected = whole_frame(last - k);
            CHECK_INT(found->pts, expected->pts);
            CHECK_INT(found->end, expected->end);
            CHECK_INT(GST_BUFFER_OFFSET(found->buffer), last - k);
            CHECK(vae_play_same_bytes(found->buffer, expected->buffer));
            running += found->end - found->pts;
        }
        CHECK_INT(running, at(last + 1) - at(first));
    }
    /* Then play forwards again. */
    vae_play_set(play, GST_STATE_PAUSED);
    show(FLUSH, at(150), at(156));
    check_frames(150, 155);
}

/* A trick mode shows the first frame of some latents, forwards and backwards,
 * and decodes few latents. */
TEST(trick_mode)
{
    const GstSeekFlags trick = GST_SEEK_FLAG_TRICKMODE_KEY_UNITS;
    bed_open(16, 1);
    vae_play_to_end(play);
    gint64 before = stat_of("steps");
    /* From the middle of the group of latent 1 on. */
    play_back(8, trick, 2, FRAMES - 1);
    CHECK_INT(play->shown->len, 3); /* of latents 1, 25 and 49 */
    CHECK_INT(stat_of("steps") - before, 2 + 3 + 3);
    for (guint i = 0; i < 3; i++) {
        const VaeShown *found = frame(i);
        CHECK_INT(found->pts, at(i ? 1 + 4 * 24 * i : 2));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), 1 + 4 * 24 * i);
        CHECK_INT(found->end, at(MIN(1 + 4 * 24 * (i + 1), FRAMES)));
    }
    play_back(-8, trick, 0, FRAMES - 1);
    CHECK_INT(play->shown->len, 4); /* of latents 59, 35, 11 and 0 */
    for (guint i = 0; i < 4; i++) {
        const VaeShown *found = frame(i);
        CHECK_INT(found->pts, i < 3 ? at(FRAMES - 4 - 4 * 24 * i) : 0);
        CHECK_INT(found->end, i == 0 ? at(FRAMES) : frame(i - 1)->pts);
    }
}

/* Steps of one frame, and of several frames. */
TEST(step)
{
    guint n = 30;
    bed_open(16, 1);
    preroll(FLUSH, at(n), GST_CLOCK_TIME_NONE);
    for (guint i = 1; i < 6; i++) {
        g_autoptr(GstSample) sample = NULL;
        CHECK(gst_element_send_event(
            play->sink,
            gst_event_new_step(GST_FORMAT_BUFFERS, i, 1, TRUE, FALSE)));
        CHECK(gst_element_get_state(play->pipeline, NULL, NULL,
                                    GST_CLOCK_TIME_NONE) ==
              GST_STATE_CHANGE_SUCCESS);
        n += i;
        g_object_get(play->sink, "last-sample", &sample, NULL);
        CHECK(vae_play_same_bytes(gst_sample_get_buffer(sample),
                                  whole_frame(n)->buffer));
    }
}

/* In PAUSED, the position is that of the shown frame, also in frames, although
 * the demuxer has read further. */
TEST(position)
{
    static const guint places[] = {0, 100, 37};
    gint64 position;
    bed_open(16, 1);
    vae_play_set(play, GST_STATE_PAUSED);
    for (guint i = 0; i < G_N_ELEMENTS(places); i++) {
        preroll(FLUSH, at(places[i]), GST_CLOCK_TIME_NONE);
        CHECK(gst_element_query_position(play->pipeline, GST_FORMAT_DEFAULT,
                                         &position));
        CHECK_INT(position, places[i]);
        CHECK(gst_element_query_position(play->pipeline, GST_FORMAT_TIME,
                                         &position));
        CHECK_INT(position, at(places[i]));
    }
}

/* The answers of the demuxer itself, without the sink. */
TEST(queries)
{
    g_autoptr(GstElement) demux = NULL;
    gint64 start, stop;
    gdouble rate;
    gboolean seekable;
    bed_open(16, 1);
    demux = gst_bin_get_by_name(GST_BIN(play->pipeline), "demux");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(demux, "src");
    show(FLUSH, at(100), at(120));
    GstQuery *query = gst_query_new_segment(GST_FORMAT_TIME);
    CHECK(gst_pad_query(pad, query));
    gst_query_parse_segment(query, &rate, NULL, &start, &stop);
    gst_query_unref(query);
    CHECK(rate == 1);
    CHECK_INT(start, at(100));
    CHECK_INT(stop, at(120));
    query = gst_query_new_seeking(GST_FORMAT_TIME);
    CHECK(gst_pad_query(pad, query));
    gst_query_parse_seeking(query, NULL, &seekable, &start, &stop);
    gst_query_unref(query);
    CHECK(seekable);
    CHECK_INT(start, 0);
    CHECK_INT(stop, at(FRAMES));
    CHECK(gst_pad_query_position(pad, GST_FORMAT_TIME, &start));
    CHECK_INT(start, at(120));
    CHECK(gst_pad_query_duration(pad, GST_FORMAT_TIME, &stop));
    CHECK_INT(stop, at(FRAMES));
    CHECK(
        gst_element_query_duration(play->pipeline, GST_FORMAT_DEFAULT, &stop));
    CHECK_INT(stop, FRAMES);
    CHECK(
        gst_element_query_position(play->pipeline, GST_FORMAT_DEFAULT, &start));
    CHECK_INT(start, 120);
    CHECK(gst_element_query_convert(play->sink, GST_FORMAT_BYTES,
                                    10 * (8 * LW * 8 * LH * 3 / 2),
                                    GST_FORMAT_DEFAULT, &stop));
    CHECK_INT(stop, 10);
    CHECK(!gst_pad_query_duration(pad, GST_FORMAT_BYTES, &stop));
    CHECK(!gst_pad_query_position(pad, GST_FORMAT_BYTES, &stop));
}

/* In a loop the running time continues as if it were one clip. */
TEST(loop)
{
    const guint first = 154, last = 163, n = last + 1 - first;
    GstClockTime running = 0;
    bed_open(24, 1);
    preroll(FLUSH | GST_SEEK_FLAG_SEGMENT, at(first), at(last + 1));
    vae_play_forget(play);
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
    for (guint round = 0; round < 4; round++) {
        GstMessage *message = vae_play_wait(play);
        gint64 position;
        CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_SEGMENT_DONE);
        gst_message_parse_segment_done(message, NULL, &position);
        CHECK_INT(position, at(last + 1));
        gst_message_unref(message);
        CHECK(vae_play_seek(play, round < 3 ? GST_SEEK_FLAG_SEGMENT : 0,
                            at(first), at(last + 1)));
    }
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, 5 * n);
    for (guint i = 0; i < 5 * n; i++) {
        const VaeShown *found = frame(i);
        const VaeShown *expected = whole_frame(first + i % n);
        CHECK_INT(found->pts, expected->pts);
        CHECK_INT(found->running, running);
        CHECK(vae_play_same_bytes(found->buffer, expected->buffer));
        running += found->end - found->pts;
    }
    CHECK_INT(running, 5 * (at(last + 1) - at(first)));
}

static void
seek_segment(GstSeekFlags flags, gdouble rate)
{
    CHECK(gst_element_seek(play->pipeline, rate, GST_FORMAT_TIME,
                           flags | GST_SEEK_FLAG_SEGMENT, GST_SEEK_TYPE_SET, 0,
                           GST_SEEK_TYPE_SET, (gint64) at(33)));
}

/* Plays a segment of 33 frames five times, and checks that all its frames are
 * shown when it is done. again: flags of the seeks after the first one. */
static void
check_done(const gchar *name, GstSeekFlags again, gdouble rate)
{
    const guint n = 33;
    seek_segment(FLUSH, rate);
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
    for (guint round = 1; round <= 5; round++) {
        g_autoptr(GstMessage) message = vae_play_wait(play);
        const guint expected = again & GST_SEEK_FLAG_FLUSH ? n : round * n;
        CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_SEGMENT_DONE);
        g_mutex_lock(&play->lock);
        CHECK_SAYS(play->shown->len == expected,
                   "%s: round %u: %u frames, expected %u", name, round,
                   play->shown->len, expected);
        g_mutex_unlock(&play->lock);
        seek_segment(again, rate);
    }
}

/* A segment is done after its frames, as with a video in WebM. */
TEST(done)
{
    static const GstSeekFlags flags[] = {0, FLUSH};
    g_autoptr(GstElementFactory) encoder = gst_element_factory_find("vp8enc");
    const gchar *webm = vae_test_path("clip.webm");
    if (encoder) {
        g_autofree gchar *text = g_strdup_printf(
            "videotestsrc num-buffers=33 ! video/x-raw,width=64,height=48,"
            "framerate=16/1 ! vp8enc deadline=1 ! webmmux ! filesink "
            "location=%s",
            webm);
        g_autoptr(GstElement) make = gst_parse_launch(text, NULL);
        vae_test_play(make);
        gst_element_set_state(make, GST_STATE_NULL);
    }
    bed_open(16, 1);
    for (guint i = 0; i < G_N_ELEMENTS(flags); i++) {
        bed_play("");
        check_done("vaedecode", flags[i], 1);
        bed_play("");
        check_done("vaedecode, backwards", flags[i], -1);
        g_clear_pointer(&play, vae_play_free);
        if (!encoder)
            continue;
        play = vae_play_new("filesrc location=%s ! matroskademux ! vp8dec ! "
                            "fakesink name=s signal-handoffs=true",
                            webm);
        check_done("vp8dec", flags[i], 1);
    }
}

static GstPadProbeReturn
seek_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    GMutex *gate = data;
    g_mutex_lock(gate);
    g_mutex_unlock(gate);
    return GST_PAD_PROBE_OK;
}

/* Without a flush, the old segment is shown to its end. Then the new segment
 * follows, without a gap in the running time. */
TEST(no_flush)
{
    GMutex gate;
    guint switched = 0;
    GstClockTime running = 0;
    bed_open(24, 1);
    g_mutex_init(&gate);
    GstPad *pad = gst_element_get_static_pad(play->sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, seek_probe, &gate, NULL);
    g_mutex_lock(&gate); /* shows only a few frames meanwhile */
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
    g_mutex_unlock(&gate);
    show(0, at(210), at(220));
    while (frame(switched)->pts == at(switched))
        switched++;
    CHECK(switched > 0 && (switched - 1) % 4 == 0);
    CHECK_INT(play->shown->len, switched + 10);
    for (guint i = 0; i < play->shown->len; i++) {
        const VaeShown *found = frame(i);
        const guint n = i < switched ? i : 210 + i - switched;
        CHECK_INT(found->running, running);
        CHECK_INT(found->pts, at(n));
        CHECK(vae_play_same_bytes(found->buffer, whole_frame(n)->buffer));
        running += found->end - found->pts;
    }
    gst_object_unref(pad);
    g_mutex_clear(&gate);
}
