/*
 * test_seek.c: a file of latents played from any position gives the frames and
 * times of an undisturbed run, and decodes no unneeded latents.
 */
#include "seek_bed.h"

#include "vae-private/model.h"

#define WARM_UP 38

static void
check_position(GstClockTime expected)
{
    gint64 position;
    CHECK(
        gst_element_query_position(play->pipeline, GST_FORMAT_TIME, &position));
    CHECK_INT(position, expected);
}

/* ------------------------------------------------------------------ */

/* Seeks near the borders of groups, of the warm-up and of the clip. */
static const guint targets[] = {0,   1,   2,   4,   5,   148, 149, 150, 152,
                                153, 154, 156, 157, 158, 201, 231, 235, 236};

static void
check_exact(gint fps_n, gint fps_d, guint every)
{
    bed_open(fps_n, fps_d);
    vae_play_set(play, GST_STATE_PLAYING);
    for (guint i = 0; i < G_N_ELEMENTS(targets); i += every) {
        const guint n = targets[i], last = MIN(n + 5, FRAMES - 1);
        const GstClockTime inside = at(n) + GST_SECOND / 100;
        if (i % 2) {
            vae_play_set(play, GST_STATE_PAUSED);
            preroll(FLUSH, at(n), at(last + 1));
            check_position(at(n));
            vae_play_forget(play);
            vae_play_to_end(play);
            check_frames(n, last);
            continue;
        }
        /* A seek while the pipeline plays, into the middle of a frame. */
        show(FLUSH, inside, at(last + 1));
        check_frames_from(n, last, inside, GST_CLOCK_TIME_NONE);
    }
    show(FLUSH, at(155), GST_CLOCK_TIME_NONE);
    check_frames(155, FRAMES - 1);
}

TEST(exact)
{
    check_exact(16, 1, 1);
    check_exact(24, 1, 5);
    check_exact(30000, 1001, 5);
}

/* The earlier latents give only the state, and no frame. */
TEST(only_what_is_needed)
{
    gint64 steps, frames;
    bed_open(16, 1);
    vae_play_to_end(play);
    steps = stat_of("steps");
    frames = stat_of("frames");
    vae_play_forget(play);
    /* Frame 202 is in latent 51, 207 in 52. */
    show(FLUSH, at(202), at(207));
    check_frames(202, 206);
    CHECK_INT(stat_of("frames") - frames, 5);
    CHECK_INT(stat_of("steps") - steps, WARM_UP + 2);
}

/* With a shorter warm-up the seek is faster. The times are right, but the
 * pictures differ from those of an undisturbed run. */
static void
check_warm_up(const char *property, gint steps)
{
    const guint n = 202;
    bed_play(property);
    vae_play_to_end(play);
    gint64 before = stat_of("steps");
    show(FLUSH, at(n), at(n + 3));
    CHECK_INT(play->shown->len, 3);
    CHECK_INT(stat_of("steps") - before, steps);
    for (guint i = 0; i < 3; i++) {
        const VaeShown *found = frame(i);
        CHECK_INT(found->pts, at(n + i));
        CHECK(!vae_play_same_bytes(found->buffer, whole_frame(n + i)->buffer));
    }
}

TEST(warm_up)
{
    VaeModel *model;
    VaeError error;
    gint history;
    /* The default is as far as this network looks back. */
    CHECK(vae_model_open(vae_test_weights(), NULL, &model, &error) == VAE_OK);
    CHECK(vae_model_history(model, VAE_DECODE, &history, &error) == VAE_OK);
    CHECK_INT(history, WARM_UP);
    vae_model_free(&model);

    bed_open(16, 1);
    check_warm_up("warm-up=1", 2);
    check_warm_up("warm-up=3", 4);

    /* Without a warm-up, the first group shows only its last frame. */
    bed_play("warm-up=0");
    vae_play_to_end(play);
    show(FLUSH, at(202), at(207));
    CHECK_INT(play->shown->len, 3);
    CHECK_INT(frame(0)->pts, at(204));
    CHECK_INT(frame(1)->pts, at(205));
}

/* ------------------------------------------------------------------ */

TEST(stop)
{
    bed_open(24, 1);
    /* A segment from the middle of a group, whose last frame is cut. */
    GstClockTime stop = at(159) + GST_SECOND / 100;
    show(FLUSH, at(150), stop);
    check_frames_from(150, 159, 0, stop);
    show(FLUSH, at(150), at(150));
    CHECK_INT(play->shown->len, 0);
}

static gboolean
seek_end(GstClockTimeDiff start, GstSeekType stop_type, GstClockTimeDiff stop)
{
    return gst_element_seek(play->pipeline, 1, GST_FORMAT_TIME, FLUSH,
                            GST_SEEK_TYPE_END, start, stop_type, stop);
}

/* Seeks relative to the end, to the end and after it. Contradictory seeks
 * change nothing. */
TEST(ends)
{
    const GstClockTime s = GST_SECOND;
    gint64 duration, steps;
    bed_open(16, 1);
    CHECK(
        gst_element_query_duration(play->pipeline, GST_FORMAT_TIME, &duration));
    CHECK_INT(duration, at(FRAMES));
    CHECK(!vae_play_seek(play, FLUSH, 9 * s, 8 * s));
    CHECK(!vae_play_seek(play, FLUSH | GST_SEEK_FLAG_SEGMENT, 30 * s, 8 * s));
    vae_play_to_end(play);
    check_frames(0, FRAMES - 1);

    vae_play_forget(play);
    CHECK(seek_end(-(gint64) s, GST_SEEK_TYPE_NONE, 0));
    vae_play_to_end(play);
    check_frames(FRAMES - 16, FRAMES - 1);
    vae_play_forget(play);
    CHECK(seek_end(-(gint64) s, GST_SEEK_TYPE_END, -(gint64) s / 2));
    vae_play_to_end(play);
    check_frames(FRAMES - 16, FRAMES - 9);

    vae_play_forget(play);
    steps = stat_of("steps");
    /* The stop of the previous seek stays, unless the new seek sets it. */
    CHECK(!seek_end(0, GST_SEEK_TYPE_NONE, 0));
    CHECK(seek_end(0, GST_SEEK_TYPE_SET, -1));
    vae_play_to_end(play);
    show(FLUSH, 99 * s, GST_CLOCK_TIME_NONE);
    CHECK_INT(play->shown->len, 0);
    CHECK_INT(stat_of("steps"), steps);
}

static void
check_snap(GstSeekFlags snap, GstClockTime to, guint first)
{
    show(FLUSH | GST_SEEK_FLAG_KEY_UNIT | snap, to, at(220));
    check_frames(first, 219);
}

/* The frames and times are the same, but the bytes differ. */
TEST(scrub_frames)
{
    const guint n = 205;
    bed_open(16, 1);
    show(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_KEY_UNIT, at(n + 2), at(n + 4));
    CHECK_INT(play->shown->len, 4);
    for (guint i = 0; i < 4; i++) {
        const VaeShown *found = frame(i);
        CHECK_INT(found->pts, at(n + i));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), n + i);
        CHECK(!vae_play_same_bytes(found->buffer, whole_frame(n + i)->buffer));
    }
}

TEST(key_unit)
{
    GstClockTime ms = GST_MSECOND;
    bed_open(24, 1);
    /* Latents begin at 205 and 209. */
    check_snap(0, at(208), 205);
    check_snap(GST_SEEK_FLAG_SNAP_BEFORE, at(206) + ms, 205);
    check_snap(GST_SEEK_FLAG_SNAP_AFTER, at(205) + ms, 209);
    check_snap(GST_SEEK_FLAG_SNAP_NEAREST, at(206), 205);
    check_snap(GST_SEEK_FLAG_SNAP_NEAREST, at(208), 209);
    check_snap(GST_SEEK_FLAG_SNAP_AFTER, at(205), 205);
    check_snap(GST_SEEK_FLAG_SNAP_AFTER, at(218), 217);
}

/* ------------------------------------------------------------------ */

TEST(refused)
{
    bed_open(16, 1);
    CHECK(!gst_element_seek(play->pipeline, 1, GST_FORMAT_BYTES, FLUSH,
                            GST_SEEK_TYPE_SET, 0, GST_SEEK_TYPE_NONE, 0));
    CHECK(!gst_element_seek(play->pipeline, -2, GST_FORMAT_TIME,
                            GST_SEEK_FLAG_INSTANT_RATE_CHANGE,
                            GST_SEEK_TYPE_NONE, 0, GST_SEEK_TYPE_NONE, 0));
    vae_play_to_end(play);
    check_frames(0, FRAMES - 1);
}

/* Seeks in any state and at any moment. The last one decides. */
TEST(storm)
{
    const char *given = g_getenv("VAE_TEST_SEED");
    const guint32 seed =
        given ? (guint32) g_ascii_strtoull(given, NULL, 10) : g_random_int();
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_print("VAE_TEST_SEED=%u\n", seed);
    bed_open(24, 1);
    for (guint i = 0; i < 60; i++) {
        const guint n = (guint) g_rand_int_range(rand, 0, FRAMES);
        const gboolean flush = g_rand_int_range(rand, 0, 4) > 0;
        /* Without a flush, a seek waits until the frames in the pipeline are
         * shown. Meanwhile the pipeline cannot change its state, so it must
         * play before. */
        if (!flush)
            vae_play_set(play, GST_STATE_PLAYING);
        else
            gst_element_set_state(play->pipeline, g_rand_boolean(rand)
                                                      ? GST_STATE_PLAYING
                                                      : GST_STATE_PAUSED);
        CHECK(vae_play_seek(play, flush ? GST_SEEK_FLAG_FLUSH : 0, at(n),
                            GST_CLOCK_TIME_NONE));
        g_usleep((gulong) g_rand_int_range(rand, 0, 20000));
        if (i % 10 != 9)
            continue;
        /* In PLAYING the position would change. */
        vae_play_set(play, GST_STATE_PAUSED);
        preroll(FLUSH, at(n), GST_CLOCK_TIME_NONE);
        check_position(at(n));
    }
    vae_play_set(play, GST_STATE_PAUSED);
    preroll(FLUSH, at(199), GST_CLOCK_TIME_NONE);
    gst_bus_set_flushing(GST_ELEMENT_BUS(play->pipeline), TRUE);
    gst_bus_set_flushing(GST_ELEMENT_BUS(play->pipeline), FALSE);
    vae_play_forget(play);
    vae_play_to_end(play);
    check_frames(199, FRAMES - 1);
}

/* Seeks as early as possible. A seek that no element handles changes nothing;
 * any other seek is executed. */
TEST(early)
{
    bed_open(16, 1);
    for (guint i = 0; i < 15; i++) {
        bed_make_play("");
        gst_element_set_state(play->pipeline, GST_STATE_PAUSED);
        g_usleep(i * 400);
        gboolean done = vae_play_seek(play, FLUSH, at(30), at(33));
        vae_play_set(play, GST_STATE_PAUSED);
        if (!done)
            CHECK(vae_play_seek(play, FLUSH, at(30), at(33)));
        vae_play_to_end(play);
        check_frames(30, 32);
    }
}
