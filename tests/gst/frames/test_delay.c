/*
 * test_delay.c: a decoder whose frames depend on later latents: when the frames
 * leave, their times, and the end of a sequence.
 */
#include "pixel_clip.h"

/* The small LTX-2.3: 6 channels, 1 then 8 frames, latents of one pixel. */
enum {
    CHANNELS = 6,
    WIDE = 128,
    SIDE = 32,
    GROUP = 8,
    DELAY = 108,
    AHEAD = 14,
    SAVED = 18 /* latents of a checkpoint */
};

/* Exits with 77 if this build cannot decode it. */
static const char *
weights(void)
{
    static const gchar *path;
    VaeModel *model = NULL;
    if (path)
        return path;
    path = vae_test_network("ltx2_3");
    CHECK(vae_model_open(path, NULL, &model, NULL) == VAE_OK);
    if (!vae_model_info(model)->has_decoder)
        exit(77);
    CHECK_INT(vae_model_info(model)->delay, DELAY);
    CHECK_INT(vae_model_info(model)->look_ahead, AHEAD);
    vae_model_free(&model);
    return path;
}

static const PixelClip clip = {weights, {GROUP, 0}, CHANNELS, 1, "ltx2"};

static guint
frames_of(guint latents)
{
    return pixel_frames(&clip, latents);
}

/* Returns the number of frames that have left after n latents. */
static guint
out_after(guint latents, guint delay)
{
    return frames_of(latents) > delay ? frames_of(latents) - delay : 0;
}

static GstHarness *
decoder(const char *model, gint look_ahead)
{
    GstHarness *h = vae_test_harness("vaedecode", "model", model, "look-ahead",
                                     look_ahead, NULL);
    vae_test_set_grid(h, 6, 1, 1, ",framerate=16/1");
    return h;
}

/* Decodes a sequence of n latents to its end. Returns the MD5 of all frames. */
static gchar *
run(gint look_ahead, guint slice, guint n)
{
    SCOPED GstHarness *h = decoder(weights(), look_ahead);
    return pixel_run(&clip, h, slice, n);
}

/* Clips of every length, also those whose frames all leave at the end. Slices
 * do not change the bytes. */
TEST(lengths)
{
    static const guint lengths[] = {1, 2, 13, 14, 15, 16, 20};
    for (guint i = 0; i < G_N_ELEMENTS(lengths); i++) {
        gchar *one = run(-1, 1, lengths[i]), *four = run(-1, 4, lengths[i]);
        vae_test_same(one, four);
    }
}

/* A frame leaves with the latent that completes it, not later. */
static void
check_moments(gint look_ahead, guint delay)
{
    SCOPED GstHarness *h = decoder(weights(), look_ahead);
    guint out = 0;
    for (guint k = 0; k < AHEAD + 4; k++) {
        const guint due = out_after(k + 1, delay);
        pixel_push(&clip, h, k, k + 1);
        g_free(vae_test_pull_frames(h, out, due - out));
        out = due;
        CHECK_INT(vae_test_stat(h, "waiting"), frames_of(k + 1) - due);
    }
    CHECK_INT(vae_test_stat(h, "look-ahead"),
              look_ahead < 0 ? AHEAD : look_ahead);
    vae_test_push_eos(h);
    CHECK_INT(vae_test_stat(h, "waiting"), 0);
}

TEST(moments)
{
    check_moments(-1, DELAY);
    check_moments(2, 2 * GROUP);
    check_moments(0, 0);
}

/* A smaller look-ahead gives other frames. With the full one they are exact. */
TEST(look_ahead)
{
    g_autofree gchar *exact = run(-1, 1, 18), *same = run(AHEAD, 1, 18);
    gchar *other = run(2, 1, 18), *sliced = run(2, 4, 18);
    CHECK(strcmp(exact, same) == 0);
    CHECK(strcmp(exact, other) != 0);
    vae_test_same(other, sliced);
}

/* The segment of an encoder whose video began after the sound: its start moves,
 * and the frames that wait still depend on the next latents. */
TEST(moved_start)
{
    gchar *expected = run(-1, 1, 16);
    SCOPED GstHarness *h = decoder(weights(), -1);
    pixel_push(&clip, h, 0, 1);
    vae_test_push_segment(h);
    pixel_push(&clip, h, 1, 16);
    vae_test_same(vae_test_last_frames(h, 0, frames_of(16)), expected);
}

static void
check_latency(gint look_ahead, guint delay)
{
    SCOPED GstHarness *h = decoder(weights(), look_ahead);
    gst_harness_set_upstream_latency(h, 0);
    CHECK_INT(vae_test_latency(h), delay * (GST_SECOND / VAE_TEST_FPS));
}

TEST(latency)
{
    check_latency(-1, DELAY);
    check_latency(3, 3 * GROUP);
}

/* The demuxer sends the latents after a segment that the decoder downstream
 * needs. */
TEST(query)
{
    SCOPED GstHarness *h = decoder(weights(), -1);
    g_autoptr(GstQuery) query = gst_query_new_custom(
        GST_QUERY_CUSTOM, gst_structure_new_empty("vae-look-ahead"));
    gint latents = 0;
    CHECK(gst_pad_peer_query(h->srcpad, query));
    CHECK(gst_structure_get_int(gst_query_get_structure(query), "latents",
                                &latents));
    CHECK_INT(latents, AHEAD);
}

/* The frames at the end of a sequence leave before anything else. */
TEST(ends)
{
    SCOPED GstHarness *h = decoder(weights(), -1);
    gchar *md5 = run(-1, 1, 3), *found;
    for (guint i = 0; i < 4; i++) {
        pixel_push(&clip, h, 0, 3); /* the first one begins a sequence */
        if (i == 1)
            vae_test_set_grid(h, 6, 1, 1, ",framerate=32/2");
        if (i == 2)
            CHECK(gst_harness_push_event(
                h, gst_event_new_gap(vae_test_time(17), GST_SECOND)));
    }
    vae_test_push_eos(h);
    for (guint i = 0; i < 4; i++) {
        g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
        for (guint n = 0; n < 17; n++) {
            g_autoptr(GstBuffer) frame = vae_test_pull(h);
            CHECK_INT(GST_BUFFER_PTS(frame), vae_test_time(n));
            CHECK_INT(GST_BUFFER_FLAG_IS_SET(frame, GST_BUFFER_FLAG_DISCONT),
                      n == 0);
            vae_test_sum(sum, frame);
        }
        found = g_strdup(g_checksum_get_string(sum));
        CHECK(strcmp(found, md5) == 0);
        g_free(found);
    }
    vae_test_no_more(h);
    g_free(md5);
}

TEST(flush)
{
    SCOPED GstHarness *h = decoder(weights(), -1);
    gchar *expected = run(-1, 1, 2), *found;
    pixel_push(&clip, h, 0, 5);
    vae_test_flush(h);
    CHECK_INT(vae_test_stat(h, "waiting"), 0);
    pixel_push(&clip, h, 0, 2);
    found = vae_test_last_frames(h, 0, frames_of(2));
    vae_test_same(found, expected);
}

/* Another model in the middle: the frames before it are those of a sequence
 * that ends there, and the times continue. */
TEST(switch)
{
    SCOPED GstHarness *h = decoder(weights(), -1);
    const gchar *copy = vae_test_path("w.safetensors");
    gchar *expected = run(-1, 1, 16), *found;
    CHECK(symlink(weights(), copy) == 0);
    pixel_push(&clip, h, 0, 16);
    g_object_set(h->element, "model", copy, NULL);
    g_signal_emit_by_name(h->element, "restart");
    pixel_push(&clip, h, 16, 18);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    found = vae_test_pull_frames(h, 0, frames_of(16));
    vae_test_same(found, expected);
    g_free(vae_test_pull_frames(h, frames_of(16), 2 * GROUP));
    vae_test_wait_eos(h);
    vae_test_no_more(h);
}

/* The frames that had not left when the checkpoint was written leave after it
 * is loaded. */
static void
check_checkpoint(gboolean carries, guint k0)
{
    SCOPED GstHarness *a = decoder(weights(), -1), *b = decoder(weights(), -1);
    const PixelCheckpoint p = {.saved = SAVED,
                               .had = out_after(SAVED, DELAY),
                               .carries = carries,
                               .k0 = k0};
    pixel_checkpoint(&clip, a, b, p);
}

TEST(checkpoint)
{
    check_checkpoint(FALSE, 0);
    check_checkpoint(TRUE, 0);
    check_checkpoint(TRUE, SAVED);
}

/* ------------------------------------------------------------------ */
/* Segments of a file.                                                 */

enum { LATENTS = 40 };

/* A trick mode shows the first frame of some latents, each until the next
 * one. */
static void
check_trick_mode(const gchar *path, gdouble rate, guint pictures)
{
    const guint last = frames_of(LATENTS) - 1;
    VaePlay *play = pixel_play_at(&clip, path, rate,
                                  GST_SEEK_FLAG_TRICKMODE_KEY_UNITS, 0, last);
    GstClockTime from = 0;
    CHECK_INT(play->shown->len, pictures);
    for (guint k = 0; k < pictures; k++) {
        const guint at = rate > 0 ? k : pictures - 1 - k;
        const VaeShown *found = vae_play_frame(play, at);
        const gint64 frame = GST_BUFFER_OFFSET(found->buffer);
        CHECK(frame == 0 || frame % GROUP == 1);
        CHECK_INT(found->pts, from);
        CHECK_INT(found->pts, vae_test_time((guint) frame));
        from = found->end;
    }
    CHECK_INT(from, vae_test_time(last + 1));
    vae_play_free(play);
}

TEST(segments)
{
    const gchar *path = pixel_write(&clip, LATENTS);
    VaePlay *whole = pixel_play(&clip, path);
    vae_play_to_end(whole);
    CHECK_INT(whole->shown->len, frames_of(LATENTS));
    pixel_segment(&clip, path, whole, 0, 0);
    pixel_segment(&clip, path, whole, 130, 161);
    pixel_segment(&clip, path, whole, 150, 152);
    pixel_segment(&clip, path, whole, 280, 312);
    pixel_backwards(&clip, path, whole, 0, 312);
    pixel_backwards(&clip, path, whole, 130, 161);
    check_trick_mode(path, 4, 4);
    check_trick_mode(path, -4, 5);
    vae_play_free(whole);
}
