/*
 * test_encode.c: tests vaeencode in a harness: groups, incomplete last groups,
 * times and caps.
 */
#include "vae_test.h"

#define W 48
#define H 32

static GstHarness *
encoder_sized(int width, int height, const char *property, int value,
              GstVideoInfo *info)
{
    GstHarness *h = vae_test_harness("vaeencode", property, value, NULL);
    vae_test_set_video(h, info, width, height);
    return h;
}

static GstHarness *
encoder(GstVideoInfo *info)
{
    return encoder_sized(W, H, NULL, 0, info);
}

/* Pulls the latents of a sequence that begins with frame `from`. ends: the
 * number of the frame after each latent; 0 ends the list. */
static void
pull(GstHarness *h, guint from, const guint *ends)
{
    for (guint k = 0; ends[k]; from = ends[k++])
        gst_buffer_unref(vae_test_pull_latent(h, k, from, ends[k]));
}

TEST(groups)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    vae_test_push_frames(h, &info, 0, 9);
    pull(h, 0, (guint[]){1, 5, 9, 0});
    vae_test_push_eos(h);
    vae_test_no_more(h);
    CHECK_INT(vae_test_stat(h, "steps"), 3);
    CHECK_INT(vae_test_stat(h, "frames"), 9);
}

TEST(tail_repeat)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    vae_test_push_frames(h, &info, 0, 7);
    vae_test_push_eos(h);
    pull(h, 0, (guint[]){1, 5, 7, 0});
    vae_test_no_more(h);
}

TEST(tail_drop)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder_sized(W, H, "tail", 1, &info);
    vae_test_push_frames(h, &info, 0, 7);
    vae_test_push_eos(h);
    pull(h, 0, (guint[]){1, 5, 0});
    vae_test_no_more(h);
}

TEST(caps)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder_sized(50, 34, NULL, 0, &info);
    g_autoptr(GstCaps) caps = NULL;
    g_autoptr(GstCaps) expected = gst_caps_from_string(
        "video/x-vae-latent,type=float32,layout=chw,frames=1,channels=16,"
        "latent-width=7,latent-height=5,width=50,height=34,temporal-factor=4,"
        "first-frames=1,latent-space=wan2.1,normalization=normalized,"
        "framerate=16/1,pixel-aspect-ratio=1/1,colorimetry=bt601,"
        "chroma-site=jpeg");
    vae_test_push_frames(h, &info, 0, 1);
    GstBuffer *latent = vae_test_pull(h);
    CHECK_INT(gst_buffer_get_size(latent), 16 * 7 * 5 * 4);
    gst_buffer_unref(latent);
    caps = gst_caps_make_writable(gst_pad_get_current_caps(h->sinkpad));
    /* GStreamer 1.28, see test_tensormeta.c */
    gst_structure_remove_field(gst_caps_get_structure(caps, 0), "tensors");
    if (!gst_caps_is_equal(caps, expected))
        g_printerr("%s\n", gst_caps_to_string(caps));
    CHECK(gst_caps_is_equal(caps, expected));
}

/* Downstream chooses the type and the normalization. */
static void
check_choice(const char *choice, const char *field, const char *value,
             gsize size)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    gst_harness_set_sink_caps_str(h, choice);
    vae_test_set_format(h, &info, GST_VIDEO_FORMAT_RGB, W, H);
    vae_test_push_frames(h, &info, 0, 1);
    GstBuffer *latent = vae_test_pull(h);
    CHECK_INT(gst_buffer_get_size(latent), size);
    gst_buffer_unref(latent);
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(h->sinkpad);
    CHECK_STR(gst_structure_get_string(gst_caps_get_structure(caps, 0), field),
              value);
}

TEST(choices)
{
    check_choice("video/x-vae-latent,type=float16", "type", "float16",
                 16 * 6 * 4 * 2);
    check_choice("video/x-vae-latent,type={bfloat16,float16}", "type",
                 "float16", 16 * 6 * 4 * 2);
    check_choice("video/x-vae-latent,normalization=raw", "normalization", "raw",
                 16 * 6 * 4 * 4);
    check_choice("video/x-vae-latent,normalization=comfyui", "normalization",
                 "comfyui", 16 * 6 * 4 * 4);
    check_choice("video/x-vae-latent", "normalization", "normalized",
                 16 * 6 * 4 * 4);
}

/* The latents state no pixel aspect ratio if that of the video is impossible.
 */
TEST(no_aspect)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, W, H);
    info.par_n = -1;
    gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
    vae_test_push_frames(h, &info, 0, 1);
    gst_buffer_unref(vae_test_pull(h));
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(h->sinkpad);
    CHECK(!gst_structure_has_field(gst_caps_get_structure(caps, 0),
                                   "pixel-aspect-ratio"));
}

/* The error names each field that differs, with the value of the latents and
 * the value that downstream expects. */
static void
check_unwanted(const char *expected, const char *word, const char *other)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstVideoInfo info;
    gst_harness_set_sink_caps_str(h, expected);
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, W, H);
    gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
    vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, word,
                          other);
}

TEST(unwanted)
{
    check_unwanted("video/x-vae-latent,latent-space=wan2.2",
                   "latent-space is wan2.1, it expects wan2.2",
                   vae_test_weights());
    check_unwanted("video/x-vae-latent,latent-height=5,temporal-factor=8",
                   "latent-height is 4, it expects 5",
                   "; temporal-factor is 4, it expects 8");
    check_unwanted("other/tensors,num_tensors=3",
                   "num_tensors is 1, it expects 3", "latents of");
    check_unwanted("video/x-vae-latent,type=float64", "type is { ",
                   "it expects float64");
}

/* A frame begins a sequence in the middle of a group. The previous group is
 * filled. */
TEST(discont)
{
    GstVideoInfo info;
    GstHarness *h = encoder(&info);
    GstBuffer *frame = vae_test_frame(&info, 3);
    vae_test_push_frames(h, &info, 0, 3);
    GST_BUFFER_FLAG_SET(frame, GST_BUFFER_FLAG_DISCONT);
    CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
    vae_test_push_frames(h, &info, 4, 8);
    pull(h, 0, (guint[]){1, 3, 0});
    pull(h, 3, (guint[]){4, 8, 0});
    vae_test_end(h);
}

TEST(force_key_unit)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    GstEvent *event;
    gboolean seen = FALSE;
    vae_test_push_frames(h, &info, 0, 5);
    CHECK(gst_harness_push_upstream_event(
        h, gst_video_event_new_upstream_force_key_unit(vae_test_time(7), TRUE,
                                                       3)));
    vae_test_push_frames(h, &info, 5, 12);
    pull(h, 0, (guint[]){1, 5, 7, 0});
    pull(h, 7, (guint[]){8, 12, 0});
    vae_test_end(h);

    /* A force-key-unit event from upstream is serialized, and is forwarded. */
    h = encoder(&info);
    vae_test_push_frames(h, &info, 0, 2);
    CHECK(
        gst_harness_push_event(h, gst_video_event_new_downstream_force_key_unit(
                                      vae_test_time(2), vae_test_time(2),
                                      vae_test_time(2), FALSE, 1)));
    vae_test_push_frames(h, &info, 2, 3);
    pull(h, 0, (guint[]){1, 2, 0});
    pull(h, 2, (guint[]){3, 0});
    while ((event = gst_harness_try_pull_event(h))) {
        seen |= gst_video_event_is_force_key_unit(event);
        gst_event_unref(event);
    }
    CHECK(seen);
}

/* A sequence has at most so many latents, as GOPs of x264enc. A requested
 * sequence begins earlier and starts the count again. */
TEST(key_int_max)
{
    GstVideoInfo info;
    GstHarness *h = encoder_sized(W, H, "key-int-max", 2, &info);
    vae_test_push_frames(h, &info, 0, 12);
    pull(h, 0, (guint[]){1, 5, 0});
    pull(h, 5, (guint[]){6, 10, 0});
    CHECK(gst_harness_push_upstream_event(
        h, gst_video_event_new_upstream_force_key_unit(vae_test_time(12), TRUE,
                                                       1)));
    vae_test_push_frames(h, &info, 12, 18);
    pull(h, 10, (guint[]){11, 12, 0});
    pull(h, 12, (guint[]){13, 17, 0});
    vae_test_push_eos(h);
    pull(h, 17, (guint[]){18, 0});
    vae_test_teardown(h);
    h = encoder_sized(W, H, "key-int-max", 1, &info);
    vae_test_push_frames(h, &info, 0, 3);
    for (guint n = 0; n < 3; n++)
        pull(h, n, (guint[]){n + 1, 0});
    vae_test_end(h);
}

/* The same in time: another latent of 4 frames would pass it. Here a frame
 * before it is too long, and one of its own length is not. */
TEST(key_int_max_time)
{
    const GstClockTime nine = vae_test_time(9);
    const guint last[] = {9, 5};
    for (guint i = 0; i < 2; i++) {
        GstVideoInfo info;
        GstHarness *h = encoder_sized(W, H, "key-int-max-time", 0, &info);
        GstElement *element = gst_harness_find_element(h, "vaeencode");
        g_object_set(element, "key-int-max-time", nine - i, NULL);
        gst_object_unref(element);
        vae_test_push_frames(h, &info, 0, last[i] + 1);
        pull(h, 0, i == 0 ? (guint[]){1, 5, 9, 0} : (guint[]){1, 5, 0});
        vae_test_push_eos(h);
        pull(h, last[i], (guint[]){last[i] + 1, 0});
        vae_test_teardown(h);
    }
}

TEST(no_pts)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    for (guint n = 0; n < 5; n++) {
        GstBuffer *frame = vae_test_frame(&info, n);
        GST_BUFFER_PTS(frame) = GST_BUFFER_DURATION(frame) =
            GST_CLOCK_TIME_NONE;
        CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
    }
    pull(h, 0, (guint[]){1, 5, 0});
}

/* A GAP in the middle of a group fills the group before the GAP is
 * forwarded. */
TEST(gap)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    vae_test_push_frames(h, &info, 0, 2);
    CHECK(gst_harness_push_event(
        h, gst_event_new_gap(vae_test_time(2), vae_test_time(2))));
    vae_test_push_frames(h, &info, 4, 5);
    pull(h, 0, (guint[]){1, 2, 0});
    pull(h, 4, (guint[]){5, 0});
}

TEST(drain)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = encoder(&info);
    g_autoptr(GstQuery) query = gst_query_new_drain();
    vae_test_push_frames(h, &info, 0, 3);
    CHECK(gst_pad_peer_query(h->srcpad, query));
    CHECK_INT(gst_harness_buffers_in_queue(h), 2);
    pull(h, 0, (guint[]){1, 3, 0});
}

static void
check_refused(const char *more, const char *word, const char *other)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    g_autofree gchar *text =
        g_strdup_printf("video/x-raw,format=I420,width=48,height=32,%s", more);
    vae_test_start(h, text);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, word,
                          other);
}

TEST(refused)
{
    check_refused("framerate=16/1,colorimetry=smpte240m", "smpte240m", "bt709");
    check_refused("framerate=1/2147483647", "1/2147483647",
                  "1/3600 to 100000/1");
    check_refused("framerate=2147483647/1", "2147483647/1",
                  "1/3600 to 100000/1");
}

/* The same picture in equivalent formats gives similar latents. In another
 * range it does not. */
TEST(range_matters)
{
    gdouble sum[2] = {0, 0};
    for (int full = 0; full < 2; full++) {
        SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
        GstVideoInfo info;
        GstMapInfo map;
        gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, W, H);
        info.fps_n = VAE_TEST_FPS;
        info.colorimetry.range =
            full ? GST_VIDEO_COLOR_RANGE_0_255 : GST_VIDEO_COLOR_RANGE_16_235;
        gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
        vae_test_push_frames(h, &info, 0, 1);
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        CHECK(gst_buffer_map(latent, &map, GST_MAP_READ));
        for (gsize i = 0; i < map.size / 4; i++)
            sum[full] += ((float *) map.data)[i] * (gdouble) (i % 7);
        gst_buffer_unmap(latent, &map);
    }
    CHECK(sum[0] != sum[1]);
}

/* Returns the latents of 9 frames, by posterior, seed and slice size. */
static gchar *
latents_of(const char *posterior, guint64 seed, guint slice)
{
    GstVideoInfo info;
    GstHarness *h = vae_test_harness("vaeencode", "seed", seed, "slice-size",
                                     slice, "queue-depth", 8, NULL);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    gst_util_set_object_arg(G_OBJECT(h->element), "posterior", posterior);
    vae_test_set_format(h, &info, GST_VIDEO_FORMAT_I420, W, H);
    vae_test_push_frames(h, &info, 0, 9);
    vae_test_push_eos(h);
    for (guint k = 0; k < 3; k++) {
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        vae_test_sum(sum, latent);
    }
    CHECK_INT(vae_test_stat(h, "slice-size"), slice);
    vae_test_teardown(h);
    return g_strdup(g_checksum_get_string(sum));
}

TEST(posterior)
{
    const guint64 seed = G_GUINT64_CONSTANT(0xfedcba9876543210);
    g_autofree gchar *mean = latents_of("mean", seed, 1);
    g_autofree gchar *other_mean = latents_of("mean", seed + 1, 1);
    g_autofree gchar *one = latents_of("sample", seed, 1);
    g_autofree gchar *again = latents_of("sample", seed, 1);
    g_autofree gchar *two = latents_of("sample", seed, 2);
    g_autofree gchar *other =
        latents_of("sample", seed ^ (G_GUINT64_CONSTANT(1) << 60), 1);
    CHECK(strcmp(mean, other_mean) == 0);
    CHECK(strcmp(mean, one) != 0);
    CHECK(strcmp(one, again) == 0);
    CHECK(strcmp(one, two) == 0);
    CHECK(strcmp(one, other) != 0);
}

/* Times that are even within each group are kept. For other times there is one
 * WARNING. */
static void
check_jump(GstClockTime jump, gboolean told)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstVideoInfo info;
    vae_test_set_video(h, &info, 48, 32);
    for (guint i = 0; i < 13; i++) {
        GstBuffer *frame = vae_test_frame(&info, i);
        if (i >= 3)
            GST_BUFFER_PTS(frame) += jump;
        if (i >= 7)
            GST_BUFFER_PTS(frame) += jump;
        CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
    }
    vae_test_push_eos(h);
    if (told)
        vae_test_one_warning(h, "videorate");
    else
        vae_test_none(h, GST_MESSAGE_WARNING);
}

TEST(jump)
{
    check_jump(0, FALSE);
    check_jump(20 * GST_MSECOND, FALSE);
    check_jump(GST_SECOND, TRUE);
}
