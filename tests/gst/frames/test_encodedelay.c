/*
 * test_encodedelay.c: an encoder whose latents come later than their frames:
 * when the latents leave, their times and bytes, and the end of a sequence.
 */
#include "vae_test.h"

#include "vae-private/model.h"
#include "vae-private/stream.h"

/* The small HunyuanVideo 1.0: 4 channels, 1 then 4 frames. */
enum { W = 24, H = 16, GROUP = 4, NUMBERS = 4 * 3 * 2, MOST = 24 };

static const char *
weights(void)
{
    return vae_test_network("hunyuan10");
}

static GstHarness *
encoder_with(VaeTilePlan plan, VaePosterior posterior, guint slice,
             GstVideoInfo *info)
{
    GstHarness *h = vae_test_harness(
        "vaeencode", "model", weights(), "tile-plan", (int) plan, "posterior",
        (int) posterior, "slice-size", slice, NULL);
    vae_test_set_format(h, info, GST_VIDEO_FORMAT_RGB, W, H);
    return h;
}

static GstHarness *
encoder(VaeTilePlan plan, GstVideoInfo *info)
{
    return encoder_with(plan, VAE_POSTERIOR_MEAN, 0, info);
}

static guint
ahead_of(VaeTilePlan plan)
{
    return (guint) vae_tile_latents(plan).size - 1;
}

/* The frames before latent k of a sequence of n frames. */
static guint
frames_before(guint k, guint n)
{
    return MIN(k == 0 ? 0 : GROUP * k - (GROUP - 1), n);
}

static guint
latents_of(guint frames)
{
    return (frames + GROUP - 2) / GROUP + 1;
}

/* ------------------------------------------------------------------ */
/* The library.                                                        */

static VaeStream *
stream_new(VaeTilePlan plan, VaePosterior posterior)
{
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = VAE_ENCODE,
                                    .width = W,
                                    .height = H,
                                    .threads = 1,
                                    .deterministic = true,
                                    .normalization = VAE_NORMALIZED,
                                    .posterior = posterior,
                                    .tile_plan = plan};
    VaeModel *model = NULL;
    VaeStream *stream = NULL;
    CHECK(vae_model_open(weights(), NULL, &model, NULL) == VAE_OK);
    CHECK(vae_stream_new(model, &params, &stream, NULL) == VAE_OK);
    vae_model_free(&model);
    return stream;
}

/* Sends a frame, or the end if it is NULL, and adds the latents that come to
 * sum. Returns their number. */
static guint
send(VaeStream *stream, GstBuffer *frame, GChecksum *sum)
{
    float numbers[NUMBERS];
    const VaeLatentOut latent = {.type = VAE_TYPE_F32, .data = numbers};
    VaePicture picture = {
        .pixels = VAE_PIXELS_RGB, .width = W, .height = H, .stride = {3 * W}};
    GstMapInfo map = {0};
    guint n = 0;
    CHECK(!frame || gst_buffer_map(frame, &map, GST_MAP_READ));
    picture.data[0] = map.data;
    CHECK(vae_stream_send_picture(stream, frame ? &picture : NULL, NULL) ==
          VAE_OK);
    if (frame)
        gst_buffer_unmap(frame, &map);
    for (; vae_stream_receive_latent(stream, &latent, NULL) == VAE_OK; n++)
        g_checksum_update(sum, (guchar *) numbers, sizeof numbers);
    return n;
}

/* Returns the MD5 of the latents of frames first .. first + n - 1 by the
 * library. Copies of the last frame fill the last group. */
static gchar *
expect(VaeTilePlan plan, VaePosterior posterior, guint first, guint n)
{
    VaeStream *stream = stream_new(plan, posterior);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    GstVideoInfo info;
    guint k = 0;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, W, H);
    for (guint i = 0; i < GROUP * (latents_of(n) - 1) + 1; i++) {
        g_autoptr(GstBuffer) frame =
            vae_test_frame(&info, first + MIN(i, n - 1));
        k += send(stream, frame, sum);
    }
    CHECK_INT(k + send(stream, NULL, sum), latents_of(n));
    vae_stream_free(&stream);
    return g_strdup(g_checksum_get_string(sum));
}

/* ------------------------------------------------------------------ */
/* The element.                                                        */

/* Pulls the latents of a sequence that begins with frame `first`, all of which
 * have left the element, and compares their bytes with those of the library.
 * discont: the first one has DISCONT. */
static void
pull_sequence(GstHarness *h, VaeTilePlan plan, guint first, guint n,
              gboolean discont)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    CHECK(gst_harness_buffers_in_queue(h) >= latents_of(n));
    for (guint k = 0; k < latents_of(n); k++) {
        g_autoptr(GstBuffer) latent = vae_test_pull_latent(
            h, k, first + frames_before(k, n), first + frames_before(k + 1, n));
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DISCONT),
                  discont && k == 0);
        vae_test_sum(sum, latent);
    }
    vae_test_same(g_strdup(g_checksum_get_string(sum)),
                  expect(plan, VAE_POSTERIOR_MEAN, first, n));
}

static void
check_length(VaeTilePlan plan, guint slice, guint n)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder_with(plan, VAE_POSTERIOR_MEAN, slice, &info);
    vae_test_push_frames(h, &info, 0, n);
    vae_test_push_eos(h);
    pull_sequence(h, plan, 0, n, TRUE);
    vae_test_no_more(h);
    CHECK_INT(vae_test_stat(h, "steps"), latents_of(n));
    CHECK_INT(vae_test_stat(h, "waiting"), 0);
}

/* Clips of less than a tile, of whole tiles, and that end inside a tile or a
 * group. */
TEST(lengths)
{
    static const guint lengths[] = {1, 5, 17, 19, 29, 33};
    for (guint i = 0; i < G_N_ELEMENTS(lengths); i++)
        for (guint slice = 1; slice <= 4; slice += 3) {
            check_length(VAE_TILE_PLAN_DIFFUSERS, slice, lengths[i]);
            check_length(VAE_TILE_PLAN_OFFICIAL, slice, lengths[i]);
        }
    check_length(VAE_TILE_PLAN_OFFICIAL, 1, 65);
    check_length(VAE_TILE_PLAN_OFFICIAL, 1, 70);
}

/* A latent leaves when its tile is complete: with a later group, not later. */
static void
check_moments(VaeTilePlan plan)
{
    const guint ahead = ahead_of(plan);
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(plan, &info);
    for (guint k = 0; k < ahead + 4; k++) {
        vae_test_push_frames(h, &info, frames_before(k, MOST * GROUP),
                             frames_before(k + 1, MOST * GROUP));
        if (k >= ahead)
            gst_buffer_unref(vae_test_pull_latent(
                h, k - ahead, frames_before(k - ahead, MOST * GROUP),
                frames_before(k - ahead + 1, MOST * GROUP)));
        CHECK_INT(vae_test_stat(h, "waiting"), MIN(k + 1, ahead));
    }
    CHECK_INT(vae_test_stat(h, "look-ahead"), ahead);
    vae_test_push_eos(h);
    CHECK_INT(gst_harness_buffers_in_queue(h), ahead);
}

TEST(moments)
{
    check_moments(VAE_TILE_PLAN_DIFFUSERS);
    check_moments(VAE_TILE_PLAN_OFFICIAL);
}

/* A latent has the time of its first frame, and leaves with the last frame of a
 * later group. */
static void
check_latency(VaeTilePlan plan)
{
    const guint frames = GROUP * (ahead_of(plan) + 1) - 1;
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(plan, &info);
    gst_harness_set_upstream_latency(h, 0);
    CHECK_INT(vae_test_latency(h), frames * (GST_SECOND / VAE_TEST_FPS));
}

TEST(latency)
{
    check_latency(VAE_TILE_PLAN_DIFFUSERS);
    check_latency(VAE_TILE_PLAN_OFFICIAL);
}

/* ------------------------------------------------------------------ */
/* Ends of sequences.                                                  */

static gboolean
is_event(GstEvent *event)
{
    return GST_EVENT_TYPE(event) == GST_EVENT_GAP ||
           gst_video_event_is_force_key_unit(event) ||
           GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT;
}

/* Counts the events of is_event() after the first latents. */
static GstPadProbeReturn
count(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    guint *n = data;
    if (info->type & GST_PAD_PROBE_TYPE_BUFFER)
        n[0]++;
    else if (n[0] > 0 && is_event(GST_PAD_PROBE_INFO_EVENT(info)))
        n[1] = n[0];
    return GST_PAD_PROBE_OK;
}

/* The latents before the event leave before it, also those of an incomplete
 * group. The frames after it begin a sequence. (takes event) */
static void
check_event(GstEvent *event, gboolean discont)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(VAE_TILE_PLAN_DIFFUSERS, &info);
    guint n[2] = {0, 0}; /* latents so far, and before the event */
    GstPad *pad = gst_element_get_static_pad(h->element, "src");
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
        count, n, NULL);
    gst_object_unref(pad);
    vae_test_push_frames(h, &info, 0, 23);
    CHECK(gst_harness_push_event(h, event));
    vae_test_push_frames(h, &info, 23, 28);
    vae_test_push_eos(h);
    CHECK_INT(n[1], latents_of(23));
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 0, 23, TRUE);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 23, 5, discont);
    vae_test_no_more(h);
}

TEST(events)
{
    GstSegment segment;
    GstEvent *lost = gst_event_new_gap(vae_test_time(23), GST_SECOND);
    gst_event_set_gap_flags(lost, GST_GAP_FLAG_MISSING_DATA);
    check_event(gst_event_new_gap(vae_test_time(23), GST_SECOND), FALSE);
    check_event(lost, TRUE);
    check_event(
        gst_video_event_new_downstream_force_key_unit(
            vae_test_time(23), vae_test_time(23), vae_test_time(23), FALSE, 1),
        FALSE);
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.base = GST_SECOND;
    check_event(gst_event_new_segment(&segment), FALSE);
}

TEST(discont)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(VAE_TILE_PLAN_DIFFUSERS, &info);
    GstBuffer *frame = vae_test_frame(&info, 21);
    vae_test_push_frames(h, &info, 0, 21);
    GST_BUFFER_FLAG_SET(frame, GST_BUFFER_FLAG_DISCONT);
    CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
    vae_test_push_frames(h, &info, 22, 30);
    vae_test_push_eos(h);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 0, 21, TRUE);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 21, 9, TRUE);
    vae_test_no_more(h);
}

/* The latents of the caps before leave with these caps. */
TEST(caps)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(VAE_TILE_PLAN_DIFFUSERS, &info);
    vae_test_push_frames(h, &info, 0, 18);
    vae_test_set_format(h, &info, GST_VIDEO_FORMAT_RGB, 2 * W, H);
    vae_test_push_frames(h, &info, 18, 19);
    vae_test_push_eos(h);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 0, 18, TRUE);
    g_autoptr(GstBuffer) latent = vae_test_pull_latent(h, 0, 18, 19);
    CHECK_INT(gst_buffer_get_size(latent), 2 * NUMBERS * (gint) sizeof(gfloat));
    vae_test_no_more(h);
}

TEST(drain)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(VAE_TILE_PLAN_DIFFUSERS, &info);
    g_autoptr(GstQuery) query = gst_query_new_drain();
    for (guint first = 0; first < 51; first += 17) {
        vae_test_push_frames(h, &info, first, first + 17);
        CHECK(gst_pad_peer_query(h->srcpad, query));
        pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, first, 17, first == 0);
    }
}

TEST(key_int_max)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(VAE_TILE_PLAN_DIFFUSERS, &info);
    g_object_set(h->element, "key-int-max", 6, NULL);
    vae_test_push_frames(h, &info, 0, 45);
    vae_test_push_eos(h);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 0, 21, TRUE);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 21, 21, FALSE);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 42, 3, FALSE);
    vae_test_no_more(h);
}

TEST(flush)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(VAE_TILE_PLAN_DIFFUSERS, &info);
    vae_test_push_frames(h, &info, 0, 15);
    vae_test_flush(h);
    CHECK_INT(vae_test_stat(h, "waiting"), 0);
    vae_test_push_frames(h, &info, 40, 58);
    vae_test_push_eos(h);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 40, 18, TRUE);
    vae_test_no_more(h);
}

/* Another model takes over at the next sequence, after the latents that wait.
 */
TEST(switch)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(VAE_TILE_PLAN_DIFFUSERS, &info);
    const gchar *copy = vae_test_path("w.safetensors");
    CHECK(symlink(weights(), copy) == 0);
    g_object_set(h->element, "key-int-max", 5, NULL);
    vae_test_push_frames(h, &info, 0, 10);
    g_object_set(h->element, "model", copy, NULL);
    vae_test_push_frames(h, &info, 10, 34);
    vae_test_push_eos(h);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 0, 17, TRUE);
    pull_sequence(h, VAE_TILE_PLAN_DIFFUSERS, 17, 17, FALSE);
    vae_test_no_more(h);
}

/* ------------------------------------------------------------------ */

/* The MD5 of the latents of 29 frames. */
static gchar *
sample(VaeTilePlan plan, guint slice)
{
    GstVideoInfo info;
    SCOPED GstHarness *h =
        encoder_with(plan, VAE_POSTERIOR_SAMPLE, slice, &info);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    vae_test_push_frames(h, &info, 0, 29);
    vae_test_push_eos(h);
    for (guint k = 0; k < latents_of(29); k++) {
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        vae_test_sum(sum, latent);
    }
    return g_strdup(g_checksum_get_string(sum));
}

TEST(posterior)
{
    for (VaeTilePlan plan = VAE_TILE_PLAN_DIFFUSERS;
         plan <= VAE_TILE_PLAN_OFFICIAL; plan++) {
        g_autofree gchar *mean = expect(plan, VAE_POSTERIOR_MEAN, 0, 29);
        g_autofree gchar *noisy = expect(plan, VAE_POSTERIOR_SAMPLE, 0, 29);
        CHECK(strcmp(mean, noisy) != 0);
        vae_test_same(sample(plan, 1), g_strdup(noisy));
        vae_test_same(sample(plan, 4), g_strdup(noisy));
    }
}
