/*
 * test_seek.c: a file of latents played from anywhere gives the frames and
 * times of an undisturbed run, and decodes no more than it has to.
 */
#include "vae_play.h"

#include "vae-private/model.h"

#define LW 6
#define LH 4
#define LATENTS 60
#define FRAMES (4 * LATENTS - 3)
#define WARM_UP 38
#define FLUSH (GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE)

/* A clip and what an undisturbed run of it shows. */
typedef struct Bed {
    gchar *path;
    gint fps_n, fps_d;
    VaePlay *whole;
} Bed;

/* Not started yet. */
static VaePlay *
make_player(const Bed *bed, const char *demux)
{
    gchar *text = g_strdup_printf(
        "filesrc location=%s ! latentdemux name=demux %s ! vaedecode "
        "model=\"%s\" threads=1 name=d ! fakesink name=s sync=false "
        "signal-handoffs=true",
        bed->path, demux, vae_test_weights());
    VaePlay *play = vae_play_make(text);

    g_free(text);
    return play;
}

static VaePlay *
player(const Bed *bed, const char *demux)
{
    VaePlay *play = make_player(bed, demux);

    vae_play_set(play, GST_STATE_PAUSED);
    return play;
}

static void
bed_open(Bed *bed, gint fps_n, gint fps_d)
{
    gchar *rate = g_strdup_printf("%d/%d", fps_n, fps_d);

    *bed = (Bed){vae_play_write(LATENTS, LW, LH, rate), fps_n, fps_d, NULL};
    bed->whole = player(bed, "");
    vae_play_to_end(bed->whole);
    CHECK_INT(bed->whole->shown->len, FRAMES);
    g_free(rate);
}

static void
bed_close(Bed *bed)
{
    vae_play_free(bed->whole);
    vae_play_remove(bed->path);
}

/* When frame n begins. */
static GstClockTime
at(const Bed *bed, guint n)
{
    return gst_util_uint64_scale(n, GST_SECOND * bed->fps_d, bed->fps_n);
}

/* The shown frames are `first` to `last`, the first of them from start on, and
 * the last until stop. */
static void
check_frames_from(const Bed *bed, VaePlay *play, guint first, guint last,
                  GstClockTime start, GstClockTime stop)
{
    CHECK_INT(play->shown->len, last + 1 - first);
    for (guint n = first; n <= last; n++) {
        const VaeShown *wanted = vae_play_frame(bed->whole, n);
        const VaeShown *found = vae_play_frame(play, n - first);

        CHECK_INT(wanted->pts, at(bed, n));
        CHECK_INT(found->pts, MAX(wanted->pts, start));
        CHECK_INT(found->end, MIN(wanted->end, stop));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), n);
        CHECK_INT(
            GST_BUFFER_FLAG_IS_SET(found->buffer, GST_BUFFER_FLAG_DISCONT),
            n == first);
        CHECK(vae_play_same_bytes(found->buffer, wanted->buffer));
    }
}

static void
check_frames(const Bed *bed, VaePlay *play, guint first, guint last)
{
    check_frames_from(bed, play, first, last, 0, GST_CLOCK_TIME_NONE);
}

static void
check_position(VaePlay *play, GstClockTime wanted)
{
    gint64 position;

    CHECK(
        gst_element_query_position(play->pipeline, GST_FORMAT_TIME, &position));
    CHECK_INT(position, wanted);
}

/* ------------------------------------------------------------------ */

/* Around the borders of groups, of the warm-up and of the clip. */
static const guint targets[] = {0,   1,   2,   4,   5,   148, 149, 150, 152,
                                153, 154, 156, 157, 158, 201, 231, 235, 236};

static void
check_exact(gint fps_n, gint fps_d, guint every)
{
    Bed bed;
    VaePlay *play;

    bed_open(&bed, fps_n, fps_d);
    play = player(&bed, "");
    vae_play_set(play, GST_STATE_PLAYING);
    for (guint i = 0; i < G_N_ELEMENTS(targets); i += every) {
        const guint n = targets[i], last = MIN(n + 5, FRAMES - 1);
        const GstClockTime inside = at(&bed, n) + GST_SECOND / 100;

        if (i % 2) {
            vae_play_set(play, GST_STATE_PAUSED);
            CHECK(vae_play_seek(play, FLUSH, at(&bed, n), at(&bed, last + 1)));
            vae_play_set(play, GST_STATE_PAUSED);
            check_position(play, at(&bed, n));
            vae_play_forget(play);
            vae_play_to_end(play);
            check_frames(&bed, play, n, last);
            continue;
        }
        /* While it plays, and into a frame. */
        vae_play_forget(play);
        CHECK(vae_play_seek(play, FLUSH, inside, at(&bed, last + 1)));
        vae_play_to_end(play);
        check_frames_from(&bed, play, n, last, inside, GST_CLOCK_TIME_NONE);
    }
    vae_play_forget(play);
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 155), GST_CLOCK_TIME_NONE));
    vae_play_to_end(play);
    check_frames(&bed, play, 155, FRAMES - 1);
    vae_play_free(play);
    bed_close(&bed);
}

TEST(exact)
{
    check_exact(16, 1, 1);
    check_exact(24, 1, 5);
    check_exact(30000, 1001, 5);
}

static gint64
stat_of(VaePlay *play, const char *field)
{
    GstElement *decode = gst_bin_get_by_name(GST_BIN(play->pipeline), "d");
    GstStructure *stats = NULL;
    guint64 value = 0;

    g_object_get(decode, "stats", &stats, NULL);
    CHECK(gst_structure_get_uint64(stats, field, &value));
    gst_structure_free(stats);
    gst_object_unref(decode);
    return (gint64) value;
}

/* Of the latents in front only the state is made, no frame. */
TEST(only_what_is_needed)
{
    Bed bed;
    VaePlay *play;
    gint64 steps, frames;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    vae_play_to_end(play);
    steps = stat_of(play, "steps");
    frames = stat_of(play, "frames");
    vae_play_forget(play);
    /* Frame 202 is in latent 51, 207 in 52. */
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 202), at(&bed, 207)));
    vae_play_to_end(play);
    check_frames(&bed, play, 202, 206);
    CHECK_INT(stat_of(play, "frames") - frames, 5);
    CHECK_INT(stat_of(play, "steps") - steps, WARM_UP + 2);
    vae_play_free(play);
    bed_close(&bed);
}

/* With a shorter warm-up it is faster, times are right, and pictures are not
 * those of an undisturbed run. */
static void
check_warm_up(const Bed *bed, const char *property, gint steps)
{
    VaePlay *play = player(bed, property);
    const guint n = 202;
    gint64 before;

    vae_play_to_end(play);
    before = stat_of(play, "steps");
    vae_play_forget(play);
    CHECK(vae_play_seek(play, FLUSH, at(bed, n), at(bed, n + 3)));
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, 3);
    CHECK_INT(stat_of(play, "steps") - before, steps);
    for (guint i = 0; i < 3; i++) {
        const VaeShown *found = vae_play_frame(play, i);

        CHECK_INT(found->pts, at(bed, n + i));
        CHECK(!vae_play_same_bytes(found->buffer,
                                   vae_play_frame(bed->whole, n + i)->buffer));
    }
    vae_play_free(play);
}

TEST(warm_up)
{
    Bed bed;
    VaePlay *play;
    VaeModel *model;
    VaeError error;
    gint history;

    /* By default as far as this network looks back. */
    CHECK(vae_model_open(vae_test_weights(), NULL, &model, &error) == VAE_OK);
    CHECK(vae_model_history(model, VAE_DECODE, &history, &error) == VAE_OK);
    CHECK_INT(history, WARM_UP);
    vae_model_free(&model);

    bed_open(&bed, 16, 1);
    check_warm_up(&bed, "warm-up=1", 2);
    check_warm_up(&bed, "warm-up=3", 4);

    /* Without any, the first group shows its last frame only. */
    play = player(&bed, "warm-up=0");
    vae_play_to_end(play);
    vae_play_forget(play);
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 202), at(&bed, 207)));
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, 3);
    CHECK_INT(vae_play_frame(play, 0)->pts, at(&bed, 204));
    CHECK_INT(vae_play_frame(play, 1)->pts, at(&bed, 205));
    vae_play_free(play);
    bed_close(&bed);
}

/* ------------------------------------------------------------------ */

TEST(stop)
{
    Bed bed;
    VaePlay *play;
    GstClockTime stop;

    bed_open(&bed, 24, 1);
    play = player(&bed, "");
    /* Into the middle of a group, the last frame cut. */
    stop = at(&bed, 159) + GST_SECOND / 100;
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 150), stop));
    vae_play_to_end(play);
    check_frames_from(&bed, play, 150, 159, 0, stop);
    vae_play_forget(play);
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 150), at(&bed, 150)));
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, 0);
    vae_play_free(play);
    bed_close(&bed);
}

static gboolean
seek_end(VaePlay *play, GstClockTimeDiff start, GstSeekType stop_type,
         GstClockTimeDiff stop)
{
    return gst_element_seek(play->pipeline, 1, GST_FORMAT_TIME, FLUSH,
                            GST_SEEK_TYPE_END, start, stop_type, stop);
}

/* From the end, at it and behind it; what contradicts itself disturbs
 * nothing. */
TEST(ends)
{
    Bed bed;
    VaePlay *play;
    const GstClockTime s = GST_SECOND;
    gint64 duration, steps;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    CHECK(
        gst_element_query_duration(play->pipeline, GST_FORMAT_TIME, &duration));
    CHECK_INT(duration, at(&bed, FRAMES));
    CHECK(!vae_play_seek(play, FLUSH, 9 * s, 8 * s));
    CHECK(!vae_play_seek(play, FLUSH | GST_SEEK_FLAG_SEGMENT, 30 * s, 8 * s));
    vae_play_to_end(play);
    check_frames(&bed, play, 0, FRAMES - 1);

    vae_play_forget(play);
    CHECK(seek_end(play, -(gint64) s, GST_SEEK_TYPE_NONE, 0));
    vae_play_to_end(play);
    check_frames(&bed, play, FRAMES - 16, FRAMES - 1);
    vae_play_forget(play);
    CHECK(seek_end(play, -(gint64) s, GST_SEEK_TYPE_END, -(gint64) s / 2));
    vae_play_to_end(play);
    check_frames(&bed, play, FRAMES - 16, FRAMES - 9);

    vae_play_forget(play);
    steps = stat_of(play, "steps");
    /* The stop of the seek before is kept, unless told otherwise. */
    CHECK(!seek_end(play, 0, GST_SEEK_TYPE_NONE, 0));
    CHECK(seek_end(play, 0, GST_SEEK_TYPE_SET, -1));
    vae_play_to_end(play);
    CHECK(vae_play_seek(play, FLUSH, 99 * s, GST_CLOCK_TIME_NONE));
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, 0);
    CHECK_INT(stat_of(play, "steps"), steps);
    vae_play_free(play);
    bed_close(&bed);
}

static void
check_snap(const Bed *bed, VaePlay *play, GstSeekFlags snap, GstClockTime to,
           guint first)
{
    vae_play_forget(play);
    CHECK(vae_play_seek(play, FLUSH | GST_SEEK_FLAG_KEY_UNIT | snap, to,
                        at(bed, 220)));
    vae_play_to_end(play);
    check_frames(bed, play, first, 219);
}

/* A scrub costs less than a tenth of an exact seek, and shows the same frames
 * at the same times, with bytes of their own. */
TEST(scrub)
{
    const guint n = 205;
    Bed bed;
    VaePlay *play;
    gint64 before;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    vae_play_to_end(play);
    before = stat_of(play, "steps");
    vae_play_forget(play);
    CHECK(vae_play_seek(play, GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_KEY_UNIT,
                        at(&bed, n + 2), at(&bed, n + 4)));
    vae_play_to_end(play);
    CHECK(10 * (stat_of(play, "steps") - before) <= WARM_UP + 1);
    CHECK_INT(play->shown->len, 4);
    for (guint i = 0; i < 4; i++) {
        const VaeShown *found = vae_play_frame(play, i);

        CHECK_INT(found->pts, at(&bed, n + i));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), n + i);
        CHECK(!vae_play_same_bytes(found->buffer,
                                   vae_play_frame(bed.whole, n + i)->buffer));
    }
    vae_play_free(play);
    bed_close(&bed);
}

/* Plays [first, last] at a rate, backwards with the last frame first. */
static void
play_back(const Bed *bed, VaePlay *play, gdouble rate, GstSeekFlags flags,
          guint first, guint last)
{
    vae_play_set(play, GST_STATE_PAUSED);
    vae_play_forget(play);
    CHECK(gst_element_seek(play->pipeline, rate, GST_FORMAT_TIME,
                           GST_SEEK_FLAG_FLUSH | flags, GST_SEEK_TYPE_SET,
                           (gint64) at(bed, first), GST_SEEK_TYPE_SET,
                           (gint64) at(bed, last + 1)));
    vae_play_to_end(play);
}

/* Backwards come the same frames, with the same bytes, the last one first. */
TEST(backwards)
{
    static const guint spans[][2] = {
        {0, FRAMES - 1}, {7, 12}, {150, 203}, {0, 0}, {236, 236}};
    Bed bed;
    VaePlay *play;

    bed_open(&bed, 24, 1);
    play = player(&bed, "");
    for (guint i = 0; i < G_N_ELEMENTS(spans); i++) {
        const guint first = spans[i][0], last = spans[i][1];
        GstClockTime running = 0;

        play_back(&bed, play, -1, 0, first, last);
        CHECK_INT(play->shown->len, last + 1 - first);
        for (guint k = 0; k < play->shown->len; k++) {
            const VaeShown *found = vae_play_frame(play, k);
            const VaeShown *wanted = vae_play_frame(bed.whole, last - k);

            CHECK_INT(found->pts, wanted->pts);
            CHECK_INT(found->end, wanted->end);
            CHECK_INT(GST_BUFFER_OFFSET(found->buffer), last - k);
            CHECK(vae_play_same_bytes(found->buffer, wanted->buffer));
            running += found->end - found->pts;
        }
        CHECK_INT(running, at(&bed, last + 1) - at(&bed, first));
    }
    /* And forwards again. */
    vae_play_set(play, GST_STATE_PAUSED);
    vae_play_forget(play);
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 150), at(&bed, 156)));
    vae_play_to_end(play);
    check_frames(&bed, play, 150, 155);
    vae_play_free(play);
    bed_close(&bed);
}

/* A trick mode shows the first frame of every so many latents, forwards and
 * backwards, and decodes little. */
TEST(trick_mode)
{
    const GstSeekFlags trick = GST_SEEK_FLAG_TRICKMODE_KEY_UNITS;
    Bed bed;
    VaePlay *play;
    gint64 before;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    vae_play_to_end(play);
    before = stat_of(play, "steps");
    /* From within the group of latent 1 on. */
    play_back(&bed, play, 8, trick, 2, FRAMES - 1);
    CHECK_INT(play->shown->len, 3); /* of latents 1, 25 and 49 */
    CHECK_INT(stat_of(play, "steps") - before, 2 + 3 + 3);
    for (guint i = 0; i < 3; i++) {
        const VaeShown *found = vae_play_frame(play, i);

        CHECK_INT(found->pts, at(&bed, i ? 1 + 4 * 24 * i : 2));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), 1 + 4 * 24 * i);
        CHECK_INT(found->end, at(&bed, MIN(1 + 4 * 24 * (i + 1), FRAMES)));
    }
    play_back(&bed, play, -8, trick, 0, FRAMES - 1);
    CHECK_INT(play->shown->len, 4); /* of latents 59, 35, 11 and 0 */
    for (guint i = 0; i < 4; i++) {
        const VaeShown *found = vae_play_frame(play, i);

        CHECK_INT(found->pts, i < 3 ? at(&bed, FRAMES - 4 - 4 * 24 * i) : 0);
        CHECK_INT(found->end,
                  i == 0 ? at(&bed, FRAMES) : vae_play_frame(play, i - 1)->pts);
    }
    vae_play_free(play);
    bed_close(&bed);
}

/* Single frames, and several at once. */
TEST(step)
{
    Bed bed;
    VaePlay *play;
    guint n = 30;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    CHECK(vae_play_seek(play, FLUSH, at(&bed, n), GST_CLOCK_TIME_NONE));
    vae_play_set(play, GST_STATE_PAUSED);
    for (guint i = 1; i < 6; i++) {
        GstSample *sample = NULL;

        CHECK(gst_element_send_event(
            play->sink,
            gst_event_new_step(GST_FORMAT_BUFFERS, i, 1, TRUE, FALSE)));
        CHECK(gst_element_get_state(play->pipeline, NULL, NULL,
                                    GST_CLOCK_TIME_NONE) ==
              GST_STATE_CHANGE_SUCCESS);
        n += i;
        g_object_get(play->sink, "last-sample", &sample, NULL);
        CHECK(vae_play_same_bytes(gst_sample_get_buffer(sample),
                                  vae_play_frame(bed.whole, n)->buffer));
        gst_sample_unref(sample);
    }
    vae_play_free(play);
    bed_close(&bed);
}

/* In PAUSED the position is that of the frame which is shown, also in frames,
 * however far the demuxer has read on. */
TEST(position)
{
    static const guint places[] = {0, 100, 37};
    Bed bed;
    VaePlay *play;
    gint64 position;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    vae_play_set(play, GST_STATE_PAUSED);
    for (guint i = 0; i < G_N_ELEMENTS(places); i++) {
        CHECK(vae_play_seek(play, FLUSH, at(&bed, places[i]),
                            GST_CLOCK_TIME_NONE));
        vae_play_set(play, GST_STATE_PAUSED);
        CHECK(gst_element_query_position(play->pipeline, GST_FORMAT_DEFAULT,
                                         &position));
        CHECK_INT(position, places[i]);
        CHECK(gst_element_query_position(play->pipeline, GST_FORMAT_TIME,
                                         &position));
        CHECK_INT(position, at(&bed, places[i]));
    }
    vae_play_free(play);
    bed_close(&bed);
}

/* What the demuxer says of itself, without the sink. */
TEST(queries)
{
    Bed bed;
    VaePlay *play;
    GstElement *demux;
    GstPad *pad;
    GstQuery *query;
    gint64 start, stop;
    gdouble rate;
    gboolean seekable;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    demux = gst_bin_get_by_name(GST_BIN(play->pipeline), "demux");
    pad = gst_element_get_static_pad(demux, "src");
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 100), at(&bed, 120)));
    vae_play_to_end(play);
    query = gst_query_new_segment(GST_FORMAT_TIME);
    CHECK(gst_pad_query(pad, query));
    gst_query_parse_segment(query, &rate, NULL, &start, &stop);
    gst_query_unref(query);
    CHECK(rate == 1);
    CHECK_INT(start, at(&bed, 100));
    CHECK_INT(stop, at(&bed, 120));
    query = gst_query_new_seeking(GST_FORMAT_TIME);
    CHECK(gst_pad_query(pad, query));
    gst_query_parse_seeking(query, NULL, &seekable, &start, &stop);
    gst_query_unref(query);
    CHECK(seekable);
    CHECK_INT(start, 0);
    CHECK_INT(stop, at(&bed, FRAMES));
    CHECK(gst_pad_query_position(pad, GST_FORMAT_TIME, &start));
    CHECK_INT(start, at(&bed, 120));
    CHECK(gst_pad_query_duration(pad, GST_FORMAT_TIME, &stop));
    CHECK_INT(stop, at(&bed, FRAMES));
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
    gst_object_unref(pad);
    gst_object_unref(demux);
    vae_play_free(play);
    bed_close(&bed);
}

TEST(key_unit)
{
    Bed bed;
    VaePlay *play;
    GstClockTime ms = GST_MSECOND;

    bed_open(&bed, 24, 1);
    play = player(&bed, "");
    /* Latents begin at 205 and 209. */
    check_snap(&bed, play, 0, at(&bed, 208), 205);
    check_snap(&bed, play, GST_SEEK_FLAG_SNAP_BEFORE, at(&bed, 206) + ms, 205);
    check_snap(&bed, play, GST_SEEK_FLAG_SNAP_AFTER, at(&bed, 205) + ms, 209);
    check_snap(&bed, play, GST_SEEK_FLAG_SNAP_NEAREST, at(&bed, 206), 205);
    check_snap(&bed, play, GST_SEEK_FLAG_SNAP_NEAREST, at(&bed, 208), 209);
    check_snap(&bed, play, GST_SEEK_FLAG_SNAP_AFTER, at(&bed, 205), 205);
    check_snap(&bed, play, GST_SEEK_FLAG_SNAP_AFTER, at(&bed, 218), 217);
    vae_play_free(play);
    bed_close(&bed);
}

/* ------------------------------------------------------------------ */

/* A loop: running time goes on as if it were one clip. */
TEST(loop)
{
    const guint first = 154, last = 163, n = last + 1 - first;
    Bed bed;
    VaePlay *play;
    GstClockTime running = 0;

    bed_open(&bed, 24, 1);
    play = player(&bed, "");
    CHECK(vae_play_seek(play, FLUSH | GST_SEEK_FLAG_SEGMENT, at(&bed, first),
                        at(&bed, last + 1)));
    vae_play_set(play, GST_STATE_PAUSED);
    vae_play_forget(play);
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
    for (guint round = 0; round < 4; round++) {
        GstMessage *message = vae_play_wait(play);
        gint64 position;

        CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_SEGMENT_DONE);
        gst_message_parse_segment_done(message, NULL, &position);
        CHECK_INT(position, at(&bed, last + 1));
        gst_message_unref(message);
        CHECK(vae_play_seek(play, round < 3 ? GST_SEEK_FLAG_SEGMENT : 0,
                            at(&bed, first), at(&bed, last + 1)));
    }
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, 5 * n);
    for (guint i = 0; i < 5 * n; i++) {
        const VaeShown *found = vae_play_frame(play, i);
        const VaeShown *wanted = vae_play_frame(bed.whole, first + i % n);

        CHECK_INT(found->pts, wanted->pts);
        CHECK_INT(found->running, running);
        CHECK(vae_play_same_bytes(found->buffer, wanted->buffer));
        running += found->end - found->pts;
    }
    CHECK_INT(running, 5 * (at(&bed, last + 1) - at(&bed, first)));
    vae_play_free(play);
    bed_close(&bed);
}

static GstPadProbeReturn
seek_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    GMutex *gate = data;

    g_mutex_lock(gate);
    g_mutex_unlock(gate);
    return GST_PAD_PROBE_OK;
}

/* Without a flush what was sent before is shown to its end, then the new
 * segment, without a gap in the running time. */
TEST(no_flush)
{
    Bed bed;
    VaePlay *play;
    GstPad *pad;
    GMutex gate;
    guint switched = 0;
    GstClockTime running = 0;

    bed_open(&bed, 24, 1);
    play = player(&bed, "");
    g_mutex_init(&gate);
    pad = gst_element_get_static_pad(play->sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, seek_probe, &gate, NULL);
    g_mutex_lock(&gate); /* shows no more than a few frames meanwhile */
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
    g_mutex_unlock(&gate);
    CHECK(vae_play_seek(play, 0, at(&bed, 210), at(&bed, 220)));
    vae_play_to_end(play);
    while (vae_play_frame(play, switched)->pts == at(&bed, switched))
        switched++;
    CHECK(switched > 0 && (switched - 1) % 4 == 0);
    CHECK_INT(play->shown->len, switched + 10);
    for (guint i = 0; i < play->shown->len; i++) {
        const VaeShown *found = vae_play_frame(play, i);
        const guint n = i < switched ? i : 210 + i - switched;

        CHECK_INT(found->running, running);
        CHECK_INT(found->pts, at(&bed, n));
        CHECK(vae_play_same_bytes(found->buffer,
                                  vae_play_frame(bed.whole, n)->buffer));
        running += found->end - found->pts;
    }
    gst_object_unref(pad);
    g_mutex_clear(&gate);
    vae_play_free(play);
    bed_close(&bed);
}

/* ------------------------------------------------------------------ */

TEST(refused)
{
    Bed bed;
    VaePlay *play;

    bed_open(&bed, 16, 1);
    play = player(&bed, "");
    CHECK(!gst_element_seek(play->pipeline, 1, GST_FORMAT_BYTES, FLUSH,
                            GST_SEEK_TYPE_SET, 0, GST_SEEK_TYPE_NONE, 0));
    CHECK(!gst_element_seek(play->pipeline, 2, GST_FORMAT_TIME,
                            GST_SEEK_FLAG_INSTANT_RATE_CHANGE,
                            GST_SEEK_TYPE_NONE, 0, GST_SEEK_TYPE_NONE, 0));
    vae_play_to_end(play);
    check_frames(&bed, play, 0, FRAMES - 1);
    vae_play_free(play);
    bed_close(&bed);
}

/* Seeks in any state and at any moment; the last one counts. */
TEST(storm)
{
    const char *given = g_getenv("VAE_TEST_SEED");
    const guint32 seed =
        given ? (guint32) g_ascii_strtoull(given, NULL, 10) : g_random_int();
    GRand *rand = g_rand_new_with_seed(seed);
    Bed bed;
    VaePlay *play;

    g_print("VAE_TEST_SEED=%u\n", seed);
    bed_open(&bed, 24, 1);
    play = player(&bed, "");
    for (guint i = 0; i < 60; i++) {
        const guint n = (guint) g_rand_int_range(rand, 0, FRAMES);
        const gboolean flush = g_rand_int_range(rand, 0, 4) > 0;

        /* Without a flush a seek waits until what is on its way is shown, and
         * meanwhile the pipeline changes no state: it has to play by then. */
        if (!flush)
            vae_play_set(play, GST_STATE_PLAYING);
        else
            gst_element_set_state(play->pipeline, g_rand_boolean(rand)
                                                      ? GST_STATE_PLAYING
                                                      : GST_STATE_PAUSED);
        CHECK(vae_play_seek(play, flush ? GST_SEEK_FLAG_FLUSH : 0, at(&bed, n),
                            GST_CLOCK_TIME_NONE));
        g_usleep((gulong) g_rand_int_range(rand, 0, 20000));
        if (i % 10 != 9)
            continue;
        /* While it plays, the position would go on. */
        vae_play_set(play, GST_STATE_PAUSED);
        CHECK(vae_play_seek(play, FLUSH, at(&bed, n), GST_CLOCK_TIME_NONE));
        vae_play_set(play, GST_STATE_PAUSED);
        check_position(play, at(&bed, n));
    }
    vae_play_set(play, GST_STATE_PAUSED);
    CHECK(vae_play_seek(play, FLUSH, at(&bed, 199), GST_CLOCK_TIME_NONE));
    vae_play_set(play, GST_STATE_PAUSED);
    gst_bus_set_flushing(GST_ELEMENT_BUS(play->pipeline), TRUE);
    gst_bus_set_flushing(GST_ELEMENT_BUS(play->pipeline), FALSE);
    vae_play_forget(play);
    vae_play_to_end(play);
    check_frames(&bed, play, 199, FRAMES - 1);
    vae_play_free(play);
    bed_close(&bed);
    g_rand_free(rand);
}

/* As early as it gets: a seek that finds nobody to take it disturbs nothing,
 * and one that does counts. */
TEST(early)
{
    Bed bed;

    bed_open(&bed, 16, 1);
    for (guint i = 0; i < 15; i++) {
        VaePlay *play = make_player(&bed, "");
        gboolean done;

        gst_element_set_state(play->pipeline, GST_STATE_PAUSED);
        g_usleep(i * 400);
        done = vae_play_seek(play, FLUSH, at(&bed, 30), at(&bed, 33));
        vae_play_set(play, GST_STATE_PAUSED);
        if (!done)
            CHECK(vae_play_seek(play, FLUSH, at(&bed, 30), at(&bed, 33)));
        vae_play_to_end(play);
        check_frames(&bed, play, 30, 32);
        vae_play_free(play);
    }
    bed_close(&bed);
}
