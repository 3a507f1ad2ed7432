/*
 * test_chunks.c: taeh3, whose latents come in chunks of 5. The first latent of
 * each chunk is one frame, the others are four each.
 */
#include "vae_play.h"

#include <math.h>
#include <string.h>

#include "vae-private/model.h"

/* The small taeh3, latents of one pixel. */
enum { CHANNELS = 24, SIDE = 16, CHUNK = 5, WHOLE = 17, LATENTS = 23 };

static const VaeCounts counts = {4, CHUNK};

static const char *
weights(void)
{
    static gchar *path;

    if (!path)
        path = vae_test_network("taehv/taeh3");
    return path;
}

static guint
frames_of(guint latents)
{
    return (guint) vae_count_frames(counts, latents);
}

static void
fill(gfloat *values, guint k)
{
    for (guint i = 0; i < CHANNELS; i++)
        values[i] = 2 * sinf(0.9f * (gfloat) i + 1.7f * (gfloat) k);
}

static GstBuffer *
latent(guint k)
{
    gfloat values[CHANNELS];

    fill(values, k);
    GstBuffer *buffer = gst_buffer_new_memdup(values, sizeof values);
    vae_test_stamp(buffer, k, frames_of(k), frames_of(k + 1));
    return buffer;
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

static void
push(GstHarness *h, guint k0, guint k1)
{
    for (guint k = k0; k < k1; k++)
        CHECK_INT(gst_harness_push(h, latent(k)), GST_FLOW_OK);
}

/* The MD5 of the frames of n latents. */
static gchar *
run(guint slice, guint n)
{
    SCOPED GstHarness *h = decoder("");

    g_object_set(h->element, "slice-size", slice, NULL);
    push(h, 0, n);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    gchar *md5 = vae_test_pull_frames(h, 0, frames_of(n));
    vae_test_wait_eos(h);
    vae_test_no_more(h);
    CHECK_INT(vae_test_stat(h, "frames"), frames_of(n));
    return md5;
}

TEST(slices)
{
    for (guint n = 1; n <= 12; n++) {
        gchar *one = run(1, n), *three = run(3, n);

        vae_test_same(one, three);
    }
}

/* A buffer of several latents, whose parts have no times of their own. */
TEST(many)
{
    SCOPED GstHarness *h = decoder(",layout=tchw,frames=7");
    GstBuffer *all = gst_buffer_new();
    gchar *wanted = run(1, 7), *found;

    for (guint k = 0; k < 7; k++)
        all = gst_buffer_append(all, latent(k));
    GST_BUFFER_PTS(all) = 0;
    GST_BUFFER_DURATION(all) = vae_test_time(frames_of(7));
    CHECK_INT(gst_harness_push(h, all), GST_FLOW_OK);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    found = vae_test_pull_frames(h, 0, frames_of(7));
    vae_test_wait_eos(h);
    vae_test_no_more(h);
    vae_test_same(found, wanted);
}

/* A receiver that joins inside a chunk shows the next one. */
TEST(late_joiner)
{
    SCOPED GstHarness *h = decoder("");
    GstClockTime pts, duration;
    GstEvent *gap;

    push(h, 3, 8);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    g_free(vae_test_pull_frames(h, WHOLE, 1 + 4 + 4));
    for (guint k = 3; k < 5; k++) {
        gap = vae_test_event(h, GST_EVENT_GAP);
        CHECK(gap != NULL);
        gst_event_parse_gap(gap, &pts, &duration);
        CHECK_INT(pts, vae_test_time(frames_of(k)));
        CHECK_INT(duration, vae_test_time(4));
        gst_event_unref(gap);
    }
    vae_test_wait_eos(h);
    vae_test_no_more(h);
}

/* Without context inside a chunk, frames and times go on. */
TEST(restart)
{
    SCOPED GstHarness *h = decoder("");

    push(h, 0, 7);
    g_free(vae_test_pull_frames(h, 0, frames_of(7)));
    g_signal_emit_by_name(h->element, "restart");
    push(h, 7, 12);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    g_free(vae_test_pull_frames(h, frames_of(7), frames_of(12) - frames_of(7)));
    vae_test_wait_eos(h);
    vae_test_no_more(h);
}

static void
check_checkpoint(guint saved, gboolean carries, guint k0)
{
    g_autofree gchar *folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    gchar *file = g_build_filename(folder, "c.safetensors", NULL);
    SCOPED GstHarness *a = decoder(""), *b = decoder("");
    const guint had = frames_of(saved), all = frames_of(LATENTS);

    g_object_set(a->element, "checkpoint-location", file, "checkpoint-interval",
                 saved, "checkpoint-carries", carries, NULL);
    push(a, 0, saved + 1);
    g_free(vae_test_pull_frames(a, 0, had));
    g_object_set(a->element, "checkpoint-location", NULL, NULL);
    push(a, saved + 1, LATENTS);
    CHECK(gst_harness_push_event(a, gst_event_new_eos()));
    gchar *wanted = vae_test_pull_frames(a, had, all - had);
    g_signal_emit_by_name(b->element, "load-checkpoint", file);
    push(b, k0, LATENTS);
    CHECK(gst_harness_push_event(b, gst_event_new_eos()));
    gchar *found = vae_test_pull_frames(b, had, all - had);
    vae_test_wait_eos(b);
    vae_test_no_more(b);
    vae_test_same(found, wanted);
    vae_play_remove(file);
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

static gchar *
write_clip(void)
{
    g_autofree gchar *folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    gchar *path = g_build_filename(folder, "clip.safetensors", NULL);
    gfloat values[LATENTS][CHANNELS];
    const VaeTensorOut tensor = {.name = "latent",
                                 .type = VAE_TYPE_F32,
                                 .data = values,
                                 .n_dims = 4,
                                 .dims = {LATENTS, CHANNELS, 1, 1}};
    const VaeMetadata metadata[] = {{"vae.framerate", "16/1"},
                                    {"vae.layout", "tchw"}};
    VaeError error;

    for (guint k = 0; k < LATENTS; k++)
        fill(values[k], k);
    CHECK(vae_tensor_file_write(path, &tensor, 1, metadata,
                                G_N_ELEMENTS(metadata), &error) == VAE_OK);
    return path;
}

static VaePlay *
open_play(const gchar *path)
{
    return vae_play_new(
        "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" threads=1 "
        "name=d ! fakesink name=s sync=false signal-handoffs=true",
        path, weights());
}

static void
check_same(VaePlay *play, VaePlay *whole, guint first, guint n)
{
    for (guint i = 0; i < n; i++) {
        const VaeShown *found = vae_play_frame(play, i);

        CHECK_INT(found->pts, vae_test_time(first + i));
        CHECK_INT(found->end, vae_test_time(first + i + 1));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), first + i);
        CHECK(vae_play_same_bytes(found->buffer,
                                  vae_play_frame(whole, first + i)->buffer));
    }
}

static VaePlay *
play_at(const gchar *path, gdouble rate, GstSeekFlags flags)
{
    VaePlay *play = open_play(path);
    const guint all = frames_of(LATENTS);

    CHECK(gst_element_seek(play->pipeline, rate, GST_FORMAT_TIME,
                           GST_SEEK_FLAG_FLUSH | flags, GST_SEEK_TYPE_SET, 0,
                           GST_SEEK_TYPE_SET, (gint64) vae_test_time(all)));
    vae_play_to_end(play);
    return play;
}

/* Backwards come the same frames, the last one first. A trick mode shows the
 * first frame of some latents, each until the next one. */
TEST(rates)
{
    gchar *path = write_clip();
    VaePlay *whole = open_play(path), *play;
    const guint all = frames_of(LATENTS);
    GstClockTime from = 0;

    vae_play_to_end(whole);
    play = play_at(path, -1, GST_SEEK_FLAG_ACCURATE);
    CHECK_INT(play->shown->len, all);
    for (guint k = 0; k < all; k++) {
        const VaeShown *found = vae_play_frame(play, k);
        const VaeShown *wanted = vae_play_frame(whole, all - 1 - k);

        CHECK_INT(found->pts, wanted->pts);
        CHECK(vae_play_same_bytes(found->buffer, wanted->buffer));
    }
    vae_play_free(play);
    play = play_at(path, 4, GST_SEEK_FLAG_TRICKMODE_KEY_UNITS);
    CHECK(play->shown->len > 1 && play->shown->len < LATENTS);
    for (guint k = 0; k < play->shown->len; k++) {
        const VaeShown *found = vae_play_frame(play, k);
        const guint frame = (guint) GST_BUFFER_OFFSET(found->buffer);
        const guint latents = (guint) vae_count_latents(counts, frame);

        CHECK_INT(frames_of(latents), frame);
        CHECK_INT(found->pts, vae_test_time(frame));
        CHECK_INT(found->pts, from);
        from = found->end;
    }
    CHECK_INT(from, vae_test_time(all));
    vae_play_free(play);
    vae_play_free(whole);
    vae_play_remove(path);
}

/* From every third frame on, with the bytes of the whole clip. */
TEST(seek)
{
    gchar *path = write_clip();
    VaePlay *whole = open_play(path);
    const guint all = frames_of(LATENTS);

    vae_play_to_end(whole);
    CHECK_INT(whole->shown->len, all);
    for (guint first = 0; first < all; first += 3) {
        const guint last = MIN(first + 20, all - 1);
        VaePlay *play = open_play(path);

        CHECK(vae_play_seek(play, GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE,
                            vae_test_time(first), vae_test_time(last + 1)));
        vae_play_to_end(play);
        CHECK_INT(play->shown->len, last + 1 - first);
        check_same(play, whole, first, last + 1 - first);
        vae_play_free(play);
    }
    vae_play_free(whole);
    vae_play_remove(path);
}

/* n frames become latents that give n frames again, also through a file. */
static void
check_round_trip(guint n)
{
    g_autofree gchar *folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    gchar *path = g_build_filename(folder, "clip.safetensors", NULL);
    g_autofree gchar *line = g_strdup_printf(
        "videotestsrc num-buffers=%u ! video/x-raw,format=RGB,width=16,"
        "height=16,framerate=16/1 ! vaeencode model=\"%s\" ! latentmux ! "
        "filesink location=\"%s\"",
        n, weights(), path);
    GstElement *encode = gst_parse_launch(line, NULL);
    GstBus *bus = gst_element_get_bus(encode);

    gst_element_set_state(encode, GST_STATE_PLAYING);
    gst_message_unref(
        gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, GST_MESSAGE_EOS));
    gst_element_set_state(encode, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(encode);
    VaePlay *play = open_play(path);
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, n);
    for (guint i = 0; i < n; i++) {
        CHECK_INT(vae_play_frame(play, i)->pts, vae_test_time(i));
        CHECK_INT(vae_play_frame(play, i)->end, vae_test_time(i + 1));
    }
    vae_play_free(play);
    vae_play_remove(path);
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

/* Tensors count latents: 17 frames are 5 of them. */
TEST(tensors)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "model", weights(), NULL);
    GstVideoInfo info;

    gst_harness_set_src_caps_str(
        h, "other/tensors,format=static,num_tensors=1,types=float32,"
           "dimensions=1:1:24:1,framerate=5/1");
    push(h, 0, 6);
    for (guint i = 0; i < frames_of(6); i++)
        gst_buffer_unref(vae_test_pull(h));
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(h->sinkpad);
    CHECK(gst_video_info_from_caps(&info, caps));
    CHECK_INT(info.fps_n, WHOLE);
    CHECK_INT(info.fps_d, 1);
}

int
main(int argc, char **argv)
{
    vae_test_weights(); /* or skipped */
    return vae_test_main(argc, argv);
}
