/*
 * test_chunks.c: taeh3, whose latents come in chunks of 5. The first latent of
 * each chunk gives one frame, each of the others four.
 */
#include "pixel_clip.h"

/* The small taeh3, latents of one pixel. */
enum { CHANNELS = 24, SIDE = 16, CHUNK = 5, WHOLE = 17, LATENTS = 23 };

static const char *
weights(void)
{
    return vae_test_network("taehv/taeh3");
}

static const PixelClip clip = {weights, {4, CHUNK}, CHANNELS, 2, NULL};

static guint
frames_of(guint latents)
{
    return pixel_frames(&clip, latents);
}

static GstHarness *
decoder(const char *more)
{
    GstHarness *h = vae_test_harness("vaedecode", "model", weights(), NULL);
    g_autofree gchar *caps = g_strconcat(
        "video/x-vae-latent,type=float32,channels=24,latent-width=1,"
        "latent-height=1,framerate=16/1,latent-space=h3",
        more, NULL);
    gst_harness_set_src_caps_str(h, caps);
    return h;
}

/* Returns the MD5 of the frames of n latents. */
static gchar *
run(guint slice, guint n)
{
    SCOPED GstHarness *h = decoder("");
    return pixel_run(&clip, h, slice, n);
}

TEST(slices)
{
    for (guint n = 1; n <= 12; n++) {
        gchar *one = run(1, n), *three = run(3, n);
        vae_test_same(one, three);
    }
}

/* A buffer has several latents, which have no separate times. */
TEST(many)
{
    SCOPED GstHarness *h = decoder(",layout=tchw,frames=7");
    GstBuffer *all = gst_buffer_new();
    gchar *expected = run(1, 7), *found;
    for (guint k = 0; k < 7; k++)
        all = gst_buffer_append(all, pixel_latent(&clip, k));
    GST_BUFFER_PTS(all) = 0;
    GST_BUFFER_DURATION(all) = vae_test_time(frames_of(7));
    CHECK_INT(gst_harness_push(h, all), GST_FLOW_OK);
    found = vae_test_last_frames(h, 0, frames_of(7));
    vae_test_same(found, expected);
}

/* A receiver that joins inside a chunk begins with the next chunk. */
TEST(late_joiner)
{
    SCOPED GstHarness *h = decoder("");
    pixel_push(&clip, h, 3, 8);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    g_free(vae_test_pull_frames(h, WHOLE, 1 + 4 + 4));
    for (guint k = 3; k < 5; k++)
        vae_test_expect_gap(h, frames_of(k), 4);
    vae_test_wait_eos(h);
    vae_test_no_more(h);
}

/* After a restart inside a chunk, frames and times continue. */
TEST(restart)
{
    SCOPED GstHarness *h = decoder("");
    pixel_push(&clip, h, 0, 7);
    g_free(vae_test_pull_frames(h, 0, frames_of(7)));
    g_signal_emit_by_name(h->element, "restart");
    pixel_push(&clip, h, 7, 12);
    g_free(vae_test_last_frames(h, frames_of(7), frames_of(12) - frames_of(7)));
}

static void
check_checkpoint(guint saved, gboolean carries, guint k0)
{
    SCOPED GstHarness *a = decoder(""), *b = decoder("");
    const PixelCheckpoint p = {
        .saved = saved, .had = frames_of(saved), .carries = carries, .k0 = k0};
    pixel_checkpoint(&clip, a, b, p);
}

TEST(checkpoint)
{
    check_checkpoint(12, FALSE, 0);
    check_checkpoint(15, FALSE, 0);
    check_checkpoint(12, TRUE, 12);
    check_checkpoint(15, TRUE, 15);
}

/* ------------------------------------------------------------------ */
/* Files.                                                              */

/* Backwards, the same frames come, the last one first. A trick mode shows the
 * first frame of some latents, each until the next one. */
TEST(rates)
{
    const gchar *path = pixel_write(&clip, LATENTS);
    VaePlay *whole = pixel_play(&clip, path), *play;
    const guint all = frames_of(LATENTS);
    GstClockTime from = 0;
    vae_play_to_end(whole);
    pixel_backwards(&clip, path, whole, 0, all - 1);
    play = pixel_play_at(&clip, path, 4, GST_SEEK_FLAG_TRICKMODE_KEY_UNITS, 0,
                         all - 1);
    CHECK(play->shown->len > 1 && play->shown->len < LATENTS);
    for (guint k = 0; k < play->shown->len; k++) {
        const VaeShown *found = vae_play_frame(play, k);
        const guint frame = (guint) GST_BUFFER_OFFSET(found->buffer);
        const guint latents = (guint) vae_count_latents(clip.counts, frame);
        CHECK_INT(frames_of(latents), frame);
        CHECK_INT(found->pts, vae_test_time(frame));
        CHECK_INT(found->pts, from);
        from = found->end;
    }
    CHECK_INT(from, vae_test_time(all));
    vae_play_free(play);
    vae_play_free(whole);
}

/* Seeks to every third frame, with the bytes of the whole clip. */
TEST(seek)
{
    const gchar *path = pixel_write(&clip, LATENTS);
    VaePlay *whole = pixel_play(&clip, path);
    const guint all = frames_of(LATENTS);
    vae_play_to_end(whole);
    CHECK_INT(whole->shown->len, all);
    for (guint first = 0; first < all; first += 3)
        pixel_segment(&clip, path, whole, first, MIN(first + 20, all - 1));
    vae_play_free(whole);
}

/* n frames become latents that decode to n frames, also through a file. */
static void
check_round_trip(guint n)
{
    const gchar *path = vae_test_path("clip.safetensors");
    vae_test_run(
        "videotestsrc num-buffers=%u ! video/x-raw,format=RGB,width=16,"
        "height=16,framerate=16/1 ! vaeencode model=\"%s\" ! latentmux ! "
        "filesink location=\"%s\"",
        n, weights(), path);
    VaePlay *play = pixel_play(&clip, path);
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, n);
    for (guint i = 0; i < n; i++) {
        CHECK_INT(vae_play_frame(play, i)->pts, vae_test_time(i));
        CHECK_INT(vae_play_frame(play, i)->end, vae_test_time(i + 1));
    }
    vae_play_free(play);
}

TEST(round_trip)
{
    for (guint n = 1; n <= 22; n += 3)
        check_round_trip(n);
    check_round_trip(17);
    check_round_trip(18);
    check_round_trip(35);
}

/* Latents have the times of the frames that they decode to. */
TEST(encode)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaeencode", "model", weights(), NULL);
    GstVideoInfo info;
    vae_test_set_format(h, &info, GST_VIDEO_FORMAT_RGB, SIDE, SIDE);
    for (guint n = 0; n < 22; n++)
        CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)), GST_FLOW_OK);
    for (guint k = 0; k < 7; k++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_OFFSET(buffer), k);
        CHECK_INT(GST_BUFFER_PTS(buffer), vae_test_time(frames_of(k)));
        CHECK_INT(GST_BUFFER_PTS(buffer) + GST_BUFFER_DURATION(buffer),
                  vae_test_time(frames_of(k + 1)));
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT),
                  k > 0);
    }
    vae_test_no_more(h);
}

/* The rate of tensors is that of latents: 17 frames are 5 latents. */
TEST(tensors)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "model", weights(), NULL);
    GstVideoInfo info;
    gst_harness_set_src_caps_str(
        h, "other/tensors,format=static,num_tensors=1,types=float32,"
           "dimensions=1:1:24:1,framerate=5/1");
    pixel_push(&clip, h, 0, 6);
    for (guint i = 0; i < frames_of(6); i++)
        gst_buffer_unref(vae_test_pull(h));
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(h->sinkpad);
    CHECK(gst_video_info_from_caps(&info, caps));
    CHECK_INT(info.fps_n, WHOLE);
    CHECK_INT(info.fps_d, 1);
}
