/*
 * test_delay.c: a decoder whose frames depend on later latents: when the
 * frames come, their times, and the end of a sequence.
 */
#include "vae_play.h"

#include "vae-private/model.h"

/* The small LTX-2.3: 6 channels, 1 then 8 frames, latents of one pixel. */
enum {
    CHANNELS = 6,
    WIDE = 128,
    SIDE = 32,
    GROUP = 8,
    DELAY = 108,
    AHEAD = 14
};

/* Exits with 77 where this build cannot decode it. */
static const char *
weights(void)
{
    static gchar *path;
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

static guint
frames_of(guint latents)
{
    return latents ? GROUP * latents - GROUP + 1 : 0;
}

/* Frames that are out after so many latents. */
static guint
out_after(guint latents, guint delay)
{
    return frames_of(latents) > delay ? frames_of(latents) - delay : 0;
}

static void
fill(gfloat *values, guint k)
{
    for (guint i = 0; i < CHANNELS; i++)
        values[i] = sinf(0.9f * (gfloat) i + 1.7f * (gfloat) k);
}

/* Latent k, with the time of its frames and the flag of a later one. */
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
decoder(const char *model, gint look_ahead)
{
    GstHarness *h = vae_test_harness("vaedecode", "model", model, "look-ahead",
                                     look_ahead, NULL);

    gst_harness_set_src_caps_str(
        h, "video/x-vae-latent,type=float32,channels=6,latent-width=1,"
           "latent-height=1,framerate=16/1");
    return h;
}

static void
push(GstHarness *h, guint k0, guint k1)
{
    for (guint k = k0; k < k1; k++)
        CHECK_INT(gst_harness_push(h, latent(k)), GST_FLOW_OK);
}

/* All frames of a sequence of n latents, the end included; returns their MD5.
 */
static gchar *
run(gint look_ahead, guint slice, guint n)
{
    SCOPED GstHarness *h = decoder(weights(), look_ahead);

    g_object_set(h->element, "slice-size", slice, NULL);
    push(h, 0, n);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    gchar *md5 = vae_test_pull_frames(h, 0, frames_of(n));
    vae_test_wait_eos(h);
    vae_test_no_more(h);
    CHECK_INT(vae_test_stat(h, "frames"), frames_of(n));
    CHECK_INT(vae_test_stat(h, "steps"), n);
    return md5;
}

/* Every length, also those that come at the end alone; slices are the same. */
TEST(lengths)
{
    static const guint lengths[] = {1, 2, 13, 14, 15, 16, 20};

    for (guint i = 0; i < G_N_ELEMENTS(lengths); i++) {
        gchar *one = run(-1, 1, lengths[i]), *four = run(-1, 4, lengths[i]);

        vae_test_same(one, four);
    }
}

/* A frame leaves with the latent that completes it, and no later. */
static void
check_moments(gint look_ahead, guint delay)
{
    SCOPED GstHarness *h = decoder(weights(), look_ahead);
    guint out = 0;

    for (guint k = 0; k < AHEAD + 4; k++) {
        const guint due = out_after(k + 1, delay);

        push(h, k, k + 1);
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

/* Less latency, other frames; as much as the model needs is exact. */
TEST(look_ahead)
{
    g_autofree gchar *exact = run(-1, 1, 18), *same = run(AHEAD, 1, 18);
    gchar *other = run(2, 1, 18), *sliced = run(2, 4, 18);

    CHECK(strcmp(exact, same) == 0);
    CHECK(strcmp(exact, other) != 0);
    vae_test_same(other, sliced);
}

static void
check_latency(gint look_ahead, guint delay)
{
    SCOPED GstHarness *h = decoder(weights(), look_ahead);
    GstQuery *query = gst_query_new_latency();
    GstClockTime min;

    gst_harness_set_upstream_latency(h, 0);
    CHECK(gst_pad_peer_query(h->sinkpad, query));
    gst_query_parse_latency(query, NULL, &min, NULL);
    gst_query_unref(query);
    CHECK_INT(min, delay * (GST_SECOND / VAE_TEST_FPS));
}

TEST(latency)
{
    check_latency(-1, DELAY);
    check_latency(3, 3 * GROUP);
}

/* The latents that a decoder downstream wants behind a segment. */
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

/* What ends a sequence gives its frames before anything else. */
TEST(ends)
{
    SCOPED GstHarness *h = decoder(weights(), -1);
    gchar *md5 = run(-1, 1, 3), *found;

    for (guint i = 0; i < 4; i++) {
        push(h, 0, 3); /* the first one begins a sequence */
        if (i == 1)
            gst_harness_set_src_caps_str(
                h, "video/x-vae-latent,type=float32,channels=6,latent-width=1,"
                   "latent-height=1,framerate=32/2");
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
    gchar *wanted = run(-1, 1, 2), *found;

    push(h, 0, 5);
    vae_test_flush(h);
    CHECK_INT(vae_test_stat(h, "waiting"), 0);
    push(h, 0, 2);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    found = vae_test_pull_frames(h, 0, frames_of(2));
    vae_test_wait_eos(h);
    vae_test_no_more(h);
    vae_test_same(found, wanted);
}

/* Another model at a latent in the middle: the frames before it are those of a
 * sequence that ends there, the times go on. */
TEST(switch)
{
    SCOPED GstHarness *h = decoder(weights(), -1);
    g_autofree gchar *folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    gchar *copy = g_build_filename(folder, "w.safetensors", NULL);
    gchar *wanted = run(-1, 1, 16), *found;

    CHECK(symlink(weights(), copy) == 0);
    push(h, 0, 16);
    g_object_set(h->element, "model", copy, NULL);
    g_signal_emit_by_name(h->element, "restart");
    push(h, 16, 18);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    found = vae_test_pull_frames(h, 0, frames_of(16));
    vae_test_same(found, wanted);
    g_free(vae_test_pull_frames(h, frames_of(16), 2 * GROUP));
    vae_test_wait_eos(h);
    vae_test_no_more(h);
    vae_play_remove(copy);
}

/* Latents k0 to SAVED + 5, from the checkpoint on, give the frames that had not
 * left when it was written. */
static void
check_checkpoint(gboolean carries, guint k0)
{
    enum { SAVED = 18 };
    g_autofree gchar *folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    gchar *file = g_build_filename(folder, "c.safetensors", NULL);
    SCOPED GstHarness *a = decoder(weights(), -1), *b = decoder(weights(), -1);
    const guint had = out_after(SAVED, DELAY);

    g_object_set(a->element, "checkpoint-location", file, "checkpoint-interval",
                 SAVED, "checkpoint-carries", carries, NULL);
    push(a, 0, SAVED + 5);
    CHECK(gst_harness_push_event(a, gst_event_new_eos()));
    g_free(vae_test_pull_frames(a, 0, had));
    gchar *wanted = vae_test_pull_frames(a, had, frames_of(SAVED + 5) - had);
    g_signal_emit_by_name(b->element, "load-checkpoint", file);
    push(b, k0, SAVED + 5);
    CHECK(gst_harness_push_event(b, gst_event_new_eos()));
    gchar *found = vae_test_pull_frames(b, had, frames_of(SAVED + 5) - had);
    vae_test_wait_eos(b);
    vae_test_no_more(b);
    vae_test_same(found, wanted);
    vae_play_remove(file);
}

TEST(checkpoint)
{
    check_checkpoint(FALSE, 0);
    check_checkpoint(TRUE, 0);
    check_checkpoint(TRUE, 18);
}

/* ------------------------------------------------------------------ */
/* Segments of a file.                                                 */

enum { LATENTS = 40 };

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
                                    {"vae.latent_space", "ltx2"},
                                    {"vae.layout", "tchw"}};
    VaeError error;

    for (guint k = 0; k < LATENTS; k++)
        fill(values[k], k);
    CHECK(vae_tensor_file_write(path, &tensor, 1, metadata,
                                G_N_ELEMENTS(metadata), &error) == VAE_OK);
    return path;
}

/* Frames first to last, alone, are those of the whole clip. */
static void
check_segment(VaePlay *whole, const gchar *path, guint first, guint last)
{
    VaePlay *play = vae_play_new(
        "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" threads=1 "
        "name=d ! fakesink name=s sync=false signal-handoffs=true",
        path, weights());

    CHECK(vae_play_seek(play, GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE,
                        vae_test_time(first), vae_test_time(last + 1)));
    vae_play_to_end(play);
    CHECK_INT(play->shown->len, last + 1 - first);
    for (guint n = first; n <= last; n++) {
        const VaeShown *found = vae_play_frame(play, n - first);

        CHECK_INT(found->pts, vae_test_time(n));
        CHECK_INT(found->end, vae_test_time(n + 1));
        CHECK(vae_play_same_bytes(found->buffer,
                                  vae_play_frame(whole, n)->buffer));
    }
    vae_play_free(play);
}

static VaePlay *
play_at(const gchar *path, gdouble rate, GstSeekFlags flags, guint first,
        guint last)
{
    VaePlay *play = vae_play_new(
        "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" threads=1 "
        "name=d ! fakesink name=s sync=false signal-handoffs=true",
        path, weights());

    CHECK(gst_element_seek(play->pipeline, rate, GST_FORMAT_TIME,
                           GST_SEEK_FLAG_FLUSH | flags, GST_SEEK_TYPE_SET,
                           (gint64) vae_test_time(first), GST_SEEK_TYPE_SET,
                           (gint64) vae_test_time(last + 1)));
    vae_play_to_end(play);
    return play;
}

/* Backwards come the same frames, the last one first. */
static void
check_backwards(VaePlay *whole, const gchar *path, guint first, guint last)
{
    VaePlay *play = play_at(path, -1, GST_SEEK_FLAG_ACCURATE, first, last);

    CHECK_INT(play->shown->len, last + 1 - first);
    for (guint k = 0; k < play->shown->len; k++) {
        const VaeShown *found = vae_play_frame(play, k);
        const VaeShown *wanted = vae_play_frame(whole, last - k);

        CHECK_INT(found->pts, wanted->pts);
        CHECK(vae_play_same_bytes(found->buffer, wanted->buffer));
    }
    vae_play_free(play);
}

/* A trick mode shows the first frame of every so many latents, each until the
 * next one. */
static void
check_trick_mode(const gchar *path, gdouble rate, guint pictures)
{
    const guint last = frames_of(LATENTS) - 1;
    VaePlay *play =
        play_at(path, rate, GST_SEEK_FLAG_TRICKMODE_KEY_UNITS, 0, last);
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
    gchar *path = write_clip();
    VaePlay *whole = vae_play_new(
        "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" threads=1 "
        "! fakesink name=s sync=false signal-handoffs=true",
        path, weights());

    vae_play_to_end(whole);
    CHECK_INT(whole->shown->len, frames_of(LATENTS));
    check_segment(whole, path, 0, 0);
    check_segment(whole, path, 130, 161);
    check_segment(whole, path, 150, 152);
    check_segment(whole, path, 280, 312);
    check_backwards(whole, path, 0, 312);
    check_backwards(whole, path, 130, 161);
    check_trick_mode(path, 4, 4);
    check_trick_mode(path, -4, 5);
    vae_play_free(whole);
    vae_play_remove(path);
}
