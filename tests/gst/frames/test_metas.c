/*
 * test_metas.c: metas, tags and caps fields that do not concern the network
 * reach the output.
 */
#include "vae_test.h"

#define CUSTOM "GstVaeTestMeta"
#define REFERENCE "timestamp/x-test"
#define W 48
#define H 32

/* Frames 0, 1, 5 and so on are the first frames of their groups. */
static gboolean
is_first(guint n)
{
    return n == 0 || n % 4 == 1;
}

/* Adds a meta of every kind that is copied, each with the number of the
 * frame. */
static void
add_metas(GstBuffer *frame, guint n)
{
    g_autoptr(GstCaps) caps = gst_caps_new_empty_simple(REFERENCE);
    const guint8 caption[] = {0xfc, 0x20 + n, 0x20};
    gst_buffer_add_reference_timestamp_meta(frame, caps, n * GST_SECOND,
                                            GST_CLOCK_TIME_NONE);
    gst_buffer_add_video_time_code_meta_full(frame, VAE_TEST_FPS, 1, NULL, 0,
                                             10, 0, 0, n % VAE_TEST_FPS, 0);
    gst_buffer_add_video_caption_meta(frame, GST_VIDEO_CAPTION_TYPE_CEA708_RAW,
                                      caption, sizeof caption);
    gst_buffer_add_video_region_of_interest_meta(frame, "face", n, 2, 3, 4);
    GstCustomMeta *custom = gst_buffer_add_custom_meta(frame, CUSTOM);
    gst_structure_set(gst_custom_meta_get_structure(custom), "n", G_TYPE_UINT,
                      n, NULL);
}

/* Checks that the buffer has each meta of frame n once, and no other. */
static void
check_metas(GstBuffer *buffer, guint n, gboolean expected)
{
    GstReferenceTimestampMeta *reference =
        gst_buffer_get_reference_timestamp_meta(buffer, NULL);
    GstVideoTimeCodeMeta *code = gst_buffer_get_video_time_code_meta(buffer);
    GstVideoCaptionMeta *caption = gst_buffer_get_video_caption_meta(buffer);
    GstVideoRegionOfInterestMeta *region =
        gst_buffer_get_video_region_of_interest_meta_id(buffer, 0);
    GstCustomMeta *custom = gst_buffer_get_custom_meta(buffer, CUSTOM);
    guint value;
    CHECK_INT(reference != NULL, expected);
    CHECK_INT(code != NULL, expected);
    CHECK_INT(caption != NULL, expected);
    CHECK_INT(region != NULL, expected);
    CHECK_INT(custom != NULL, expected);
    if (!expected)
        return;
    CHECK_INT(gst_buffer_get_n_meta(buffer, GST_VIDEO_CAPTION_META_API_TYPE),
              1);
    CHECK_INT(reference->timestamp, n * GST_SECOND);
    CHECK_INT(code->tc.frames, n);
    CHECK_INT(caption->data[1], 0x20 + n);
    CHECK_INT(region->x, n);
    CHECK(gst_structure_get_uint(gst_custom_meta_get_structure(custom), "n",
                                 &value));
    CHECK_INT(value, n);
}

/* Latents of a video of n frames with metas go to a decoder. */
static void
check_round(const char *model, guint n)
{
    SCOPED GstHarness *e = vae_test_harness("vaeencode", "model", model, NULL);
    SCOPED GstHarness *d = vae_test_harness("vaedecode", "model", model, NULL);
    GstVideoInfo info;
    GstBuffer *buffer;
    guint k = 0;
    vae_test_set_video(e, &info, W, H);
    for (guint i = 0; i < n; i++) {
        GstBuffer *frame = vae_test_frame(&info, i);
        gst_buffer_add_video_meta(frame, GST_VIDEO_FRAME_FLAG_NONE,
                                  GST_VIDEO_FORMAT_I420, W, H);
        add_metas(frame, i);
        CHECK_INT(gst_harness_push(e, frame), GST_FLOW_OK);
    }
    vae_test_push_eos(e);
    gst_harness_set_src_caps(
        d, gst_pad_get_current_caps(GST_PAD_PEER(e->sinkpad)));
    for (; (buffer = gst_harness_try_pull(e)); k++) {
        CHECK(!gst_buffer_get_video_meta(buffer)); /* latents are no pixels */
        check_metas(buffer, k == 0 ? 0 : 4 * k - 3, TRUE);
        CHECK_INT(gst_harness_push(d, buffer), GST_FLOW_OK);
    }
    CHECK_INT(k, 1 + (n + 2) / 4);
    vae_test_push_eos(d);
    for (guint i = 0; i < n; i++) {
        buffer = vae_test_pull(d);
        check_metas(buffer, i, is_first(i));
        CHECK(!gst_buffer_get_custom_meta(buffer, "GstVaeGroupMeta"));
        gst_buffer_unref(buffer);
    }
    vae_test_no_more(d);
}

TEST(round)
{
    const gchar *tae = vae_test_network("taehv/taew2_1");
    check_round(vae_test_weights(), 9);
    check_round(vae_test_weights(), 7); /* the last group is incomplete */
    check_round(tae, 9); /* the encoder begins with a whole group */
}

/* A copy of a frame in memories of that many bytes, with a GstVideoMeta whose
 * rows are `stride` bytes apart. */
static GstBuffer *
split(GstBuffer *frame, GstVideoInfo *info, gsize size, gint stride)
{
    const gsize all = gst_buffer_get_size(frame);
    GstBuffer *copy = gst_buffer_new();

    gst_buffer_copy_into(copy, frame, GST_BUFFER_COPY_METADATA, 0, -1);
    for (gsize at = 0; at < all; at += size)
        gst_buffer_copy_into(copy, frame,
                             GST_BUFFER_COPY_MEMORY | GST_BUFFER_COPY_DEEP, at,
                             MIN(size, all - at));
    gst_buffer_add_video_meta_full(
        copy, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info), W, H, 3,
        info->offset, (gint[4]){stride, info->stride[1], info->stride[2], 0});
    gst_buffer_unref(frame);
    return copy;
}

/* The checksum of the latent of a frame. */
static gchar *
encode(GstBuffer *frame)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaeencode", "model", vae_test_weights(), NULL);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    GstVideoInfo info;

    vae_test_set_video(h, &info, W, H);
    CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
    vae_test_push_eos(h);
    g_autoptr(GstBuffer) latent = vae_test_pull(h);
    vae_test_sum(sum, latent);
    return g_strdup(g_checksum_get_string(sum));
}

/* Rows of a plane in several memories give the same latent. */
TEST(memories)
{
    GstVideoInfo info;

    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, W, H);
    vae_test_same(encode(split(vae_test_frame(&info, 0), &info, 700, W)),
                  encode(vae_test_frame(&info, 0)));
}

/* A meta that contradicts the caps, or that places rows outside of the frame,
 * is an error, which states both. The frames are of 48x32 pixels. */
TEST(contradictions)
{
    static const struct {
        GstVideoFormat caps, format;
        guint width, height, planes;
        gint stride;
        gsize offset;
        const char *found, *expected;
    } rows[] = {
#define F(format) GST_VIDEO_FORMAT_##format
        {F(I420), F(I420), W, H, 3, 1 << 28, 0, "(268435456 bytes apart from",
         "expected I420, 48x32, 3 planes"},
        {F(I420), F(I420), W, H, 3, 2 * W, 0, "(96 bytes apart from byte 0, 24",
         "expected I420, 48x32, 3 planes"},
        {F(I420), F(I420), W, H, 3, W, 900, "(48 bytes apart from byte 900",
         "expected I420, 48x32, 3 planes"},
        {F(I420), F(I420), W, H, 3, W, G_MAXSIZE, "apart from byte 1844674407",
         "expected I420, 48x32, 3 planes"},
        {F(I420), F(I420), W, H, 3, -W, 0, "plane 0 are -48 bytes", "least 48"},
        {F(I420), F(I420), W, H, 3, W - 1, 0, "plane 0 are 47", "least 48"},
        {F(RGB), F(RGB), W, H, 1, 0, 0, "plane 0 are 0 bytes", "least 144"},
        {F(I420), F(GRAY8), W, H, 1, W, 0, "GRAY8, 48x32, 1 plane;",
         "I420, 48x32, 3 planes"},
        {F(RGBA), F(RGB), W, H, 1, 3 * W, 0, "RGB, 48x32", "RGBA, 48x32"},
        {F(NV12), F(UNKNOWN), W, H, 2, W, 0, "an unknown format, 48x32",
         "NV12, 48x32"},
        {F(RGB), F(ENCODED), W, H, 1, 3 * W, 0, "ENCODED", "RGB, 48x32"},
        {F(RGB), (GstVideoFormat) 4711, W, H, 1, 3 * W, 0, "an unknown format",
         "RGB, 48x32"},
        {F(I420), F(I420), W, H, 1, W, 0, "48x32, 1 plane;", "3 planes"},
        {F(I420), F(I420), W, H, 4, W, 0, "48x32, 4 planes;", "3 planes"},
        {F(RGB), F(RGB), W / 2, H, 1, 3 * W, 0, "24x32", "48x32"},
        {F(RGB), F(RGB), W, 2 * H, 1, 3 * W, 0, "48x64", "48x32"},
#undef F
    };

    for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
        SCOPED GstHarness *h =
            vae_test_harness("vaeencode", "model", vae_test_weights(), NULL);
        GstVideoInfo info;

        vae_test_set_format(h, &info, rows[i].caps, W, H);
        GstBuffer *frame = vae_test_frame(&info, 0);
        GstVideoMeta *meta = gst_buffer_add_video_meta_full(
            frame, GST_VIDEO_FRAME_FLAG_NONE, rows[i].caps, W, H,
            GST_VIDEO_INFO_N_PLANES(&info), info.offset, info.stride);
        meta->format = rows[i].format;
        meta->width = rows[i].width;
        meta->height = rows[i].height;
        meta->n_planes = rows[i].planes;
        meta->stride[0] = rows[i].stride;
        meta->offset[0] = rows[i].offset;
        gst_harness_push(h, frame);
        vae_test_push_eos(h);
        vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                              rows[i].found, rows[i].expected);
    }
}

/* A frame in the middle of a group does not get the metas of the first one. A
 * buffer of several latents has the metas of its first latent. */
TEST(parts)
{
    SCOPED GstHarness *h = vae_test_decoder(NULL, 6, 4, NULL);
    GstBuffer *latent = vae_test_latent(6, 4, 3);
    add_metas(latent, 7);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    vae_test_push_eos(h);
    latent = vae_test_pull(h); /* the last of its four */
    check_metas(latent, 7, FALSE);
    gst_buffer_unref(latent);
    vae_test_teardown(h);

    h = vae_test_harness("vaedecode", NULL);
    g_autofree gchar *caps =
        vae_test_latent_caps(6, 4, ", layout=tchw, frames=2");
    gst_harness_set_src_caps_str(h, caps);
    latent =
        gst_buffer_append(vae_test_latent(6, 4, 0), vae_test_latent(6, 4, 1));
    GST_BUFFER_DURATION(latent) = vae_test_time(5);
    add_metas(latent, 7);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    vae_test_push_eos(h);
    for (guint i = 0; i < 5; i++) {
        latent = vae_test_pull(h);
        check_metas(latent, 7, i == 0);
        gst_buffer_unref(latent);
    }
}

int
main(int argc, char **argv)
{
    static const gchar *tags[] = {NULL};
    gst_init(&argc, &argv);
    gst_meta_register_custom(CUSTOM, tags, NULL, NULL, NULL);
    return vae_test_main(argc, argv);
}
