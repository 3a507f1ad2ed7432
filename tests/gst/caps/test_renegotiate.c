/*
 * test_renegotiate.c: caps that change while a stream runs, also inside a
 * group. Also sizes that are not a multiple of a latent.
 */
#include "vae_test.h"

/* ------------------------------------------------------------------ */
/* vaedecode.                                                          */

/* Latents with the same caps, and the frames that they must give. */
typedef struct Piece {
    const char *fields; /* without type, which is float32 */
    gint lw, lh;
    guint latents;
    guint fps, width, height, frames;
} Piece;

static void
push_piece(GstHarness *h, const Piece *p, GstClockTime *at)
{
    g_autofree gchar *caps = g_strdup_printf(
        "video/x-vae-latent,type=float32,channels=16,latent-width=%d,"
        "latent-height=%d,%s",
        p->lw, p->lh, p->fields);
    gst_harness_set_src_caps_str(h, caps);
    for (guint k = 0; k < p->latents; k++) {
        GstBuffer *latent = vae_test_latent(p->lw, p->lh, k);
        const GstClockTime length =
            gst_util_uint64_scale(k ? 4 : 1, GST_SECOND, p->fps);
        GST_BUFFER_PTS(latent) = *at;
        GST_BUFFER_DURATION(latent) = length;
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
        *at += length;
    }
}

/* Checks the size and rate of frames, and that their caps come first. */
static void
pull_piece(GstHarness *h, const Piece *p, GstClockTime *at)
{
    for (guint n = 0; n < p->frames; n++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        GstVideoInfo info;
        GstEvent *event;
        GstCaps *caps;
        CHECK(frame != NULL);
        while (n == 0) {
            event = vae_test_event(h, GST_EVENT_CAPS);
            CHECK(event != NULL);
            gst_event_parse_caps(event, &caps);
            CHECK(gst_video_info_from_caps(&info, caps));
            gst_event_unref(event);
            if ((guint) info.width != p->width ||
                (guint) info.height != p->height ||
                (guint) info.fps_n != p->fps)
                continue; /* these latents were pushed before */
            break;
        }
        CHECK_INT(gst_buffer_get_size(frame), info.size);
        CHECK_INT(GST_BUFFER_PTS(frame), *at);
        CHECK_INT(GST_BUFFER_DURATION(frame), GST_SECOND / p->fps);
        *at += GST_BUFFER_DURATION(frame);
    }
}

/* A new size, rate and pixel aspect ratio, each after some frames. */
TEST(decode)
{
    static const Piece pieces[] = {
        {"framerate=16/1", 6, 4, 3, 16, 48, 32, 9},
        {"framerate=16/1", 4, 4, 2, 16, 32, 32, 5},
        {"framerate=8/1", 4, 4, 3, 8, 32, 32, 9},
        {"framerate=8/1,width=25,height=31", 4, 4, 2, 8, 25, 31, 5},
        {"framerate=32/1", 1, 1, 2, 32, 8, 8, 5}};
    GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstClockTime pushed = 0, pulled = 0;
    for (guint i = 0; i < G_N_ELEMENTS(pieces); i++) {
        push_piece(h, &pieces[i], &pushed);
        pull_piece(h, &pieces[i], &pulled);
    }
    CHECK_INT(pushed, pulled);
    vae_test_end(h);
}

/* Another type with the same numbers begins a sequence with the same frames. */
TEST(decode_type)
{
    static const char *const types[] = {"float32", "bfloat16", "float16"};
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autoptr(GstBuffer) first = NULL;
    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        g_autofree gchar *caps = g_strdup_printf(
            "video/x-vae-latent,type=%s,channels=16,latent-width=2,"
            "latent-height=2,framerate=16/1",
            types[i]);
        const gsize size = 16 * 4 * (i ? 2 : 4);
        GstBuffer *buffer = gst_buffer_new_allocate(NULL, size, NULL);
        gst_buffer_memset(buffer, 0, 0, size); /* 0 is the same in all types */
        GST_BUFFER_PTS(buffer) = vae_test_time(i);
        GST_BUFFER_DURATION(buffer) = vae_test_time(1);
        gst_harness_set_src_caps_str(h, caps);
        CHECK_INT(gst_harness_push(h, buffer), GST_FLOW_OK);
        buffer = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_PTS(buffer), vae_test_time(i));
        if (first) {
            GstMapInfo map;
            CHECK(gst_buffer_map(first, &map, GST_MAP_READ));
            CHECK_INT(gst_buffer_get_size(buffer), map.size);
            CHECK(gst_buffer_memcmp(buffer, 0, map.data, map.size) == 0);
            gst_buffer_unmap(first, &map);
            gst_buffer_unref(buffer);
        } else {
            first = buffer;
        }
    }
}

/* Downstream requests another format between two latents of a sequence. The
 * caps and the frames change, and the sequence continues. */
TEST(decode_format)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    SCOPED GstHarness *plain = vae_test_harness("vaedecode", NULL);
    g_autofree gchar *caps = vae_test_latent_caps(2, 2, NULL);
    gst_harness_set_sink_caps_str(plain, "video/x-raw,format=RGB");
    gst_harness_set_src_caps_str(plain, caps);
    vae_test_push_latents(plain, 2, 2, 0, 3);
    g_free(vae_test_pull_frames(plain, 0, 5));

    gst_harness_set_sink_caps_str(h, "video/x-raw,format=I420");
    gst_harness_set_src_caps_str(h, caps);
    vae_test_push_latents(h, 2, 2, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
    gst_harness_set_sink_caps_str(h, "video/x-raw,format=RGB");
    vae_test_push_latents(h, 2, 2, 2, 3);
    for (guint n = 5; n < 9; n++) {
        g_autoptr(GstBuffer) a = vae_test_pull(h), b = vae_test_pull(plain);
        GstMapInfo map;
        CHECK_INT(GST_BUFFER_PTS(a), vae_test_time(n));
        CHECK_INT(gst_buffer_get_size(a), 16 * 16 * 3);
        CHECK(gst_buffer_map(b, &map, GST_MAP_READ));
        CHECK(gst_buffer_memcmp(a, 0, map.data, map.size) == 0);
        gst_buffer_unmap(b, &map);
    }
}

static GMutex gate;  /* static, so it needs no initialization */
static gint at_gate; /* frames that came to the gate */

static GstPadProbeReturn
wait_at_gate(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    g_atomic_int_inc(&at_gate);
    g_mutex_lock(&gate);
    g_mutex_unlock(&gate);
    return GST_PAD_PROBE_OK;
}

/* Pushes frame k of the test's video, or latent k. */
static void
push_one(GstHarness *h, GstVideoInfo *info, guint k)
{
    if (info)
        CHECK_INT(gst_harness_push(h, vae_test_frame(info, k)), GST_FLOW_OK);
    else
        vae_test_push_latents(h, 2, 2, k, k + 1);
}

/* Downstream changes its format twice, and no frame passes meanwhile. The first
 * frame has left the element before, in the first format. info: of the input,
 * if it is video. frames: of the output. */
static void
change_twice(GstHarness *h, GstVideoInfo *info, guint frames)
{
    static const char *const formats[] = {"I420", "RGB", "NV12"};
    g_autoptr(GstCaps) now = NULL;
    g_autofree gchar *latents = vae_test_latent_caps(2, 2, NULL);
    gulong probe;
    gst_harness_set_sink_caps_str(h, "video/x-raw,format=I420");
    if (info)
        gst_harness_set_src_caps(h, gst_video_info_to_caps(info));
    else
        gst_harness_set_src_caps_str(h, latents);
    probe = gst_pad_add_probe(h->sinkpad, GST_PAD_PROBE_TYPE_BUFFER,
                              wait_at_gate, NULL, NULL);
    g_atomic_int_set(&at_gate, 0);
    if (!info) /* an element without a queue would wait here */
        g_mutex_lock(&gate);
    for (guint k = 0; k < G_N_ELEMENTS(formats); k++) {
        g_autofree gchar *caps =
            g_strconcat("video/x-raw,format=", formats[k], NULL);
        if (k > 0)
            gst_harness_set_sink_caps_str(h, caps);
        push_one(h, info, k);
        while (!g_atomic_int_get(&at_gate))
            g_usleep(1000);
    }
    if (!info)
        g_mutex_unlock(&gate);
    for (guint n = 0; n < frames; n++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        CHECK(frame != NULL);
        CHECK_INT(GST_BUFFER_PTS(frame), vae_test_time(n));
    }
    now = gst_pad_get_current_caps(h->sinkpad);
    CHECK_STR(
        gst_structure_get_string(gst_caps_get_structure(now, 0), "format"),
        "NV12");
    gst_pad_remove_probe(h->sinkpad, probe);
    vae_test_none(h, GST_MESSAGE_ERROR);
}

/* All frames arrive in a format that downstream takes, as with videoconvert. */
TEST(decode_formats)
{
    GstVideoInfo info;
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    change_twice(h, NULL, 9);
    GstEvent *event;
    while ((event = vae_test_event(h, GST_EVENT_CAPS))) {
        GstCaps *caps;
        gst_event_parse_caps(event, &caps);
        CHECK(strcmp(gst_structure_get_string(gst_caps_get_structure(caps, 0),
                                              "format"),
                     "RGB") != 0);
        gst_event_unref(event);
    }
    vae_test_teardown(h);
    h = gst_harness_new("videoconvert");
    vae_test_bus(h);
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_Y444, 16, 16);
    info.fps_n = VAE_TEST_FPS;
    change_twice(h, &info, 3);
}

static GstPadProbeReturn
take_rgb(GstPad *pad, GstPadProbeInfo *info, gpointer h)
{
    if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) != GST_EVENT_CAPS)
        return GST_PAD_PROBE_OK;
    gst_harness_set_sink_caps_str(h, "video/x-raw,format=RGB");
    return GST_PAD_PROBE_REMOVE;
}

/* Downstream changes its format while the caps are pushed, as decodebin does
 * when it links its pad. */
TEST(decode_linked)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autofree gchar *caps = vae_test_latent_caps(2, 2, NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    gst_harness_set_sink_caps_str(h, "video/x-raw,format=I420");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, take_rgb, h,
                      NULL);
    gst_harness_set_src_caps_str(h, caps);
    vae_test_push_latents(h, 2, 2, 0, 2);
    for (guint n = 0; n < 5; n++) {
        g_autoptr(GstBuffer) frame = vae_test_pull(h);
        CHECK_INT(gst_buffer_get_size(frame), 16 * 16 * 3);
    }
    vae_test_none(h, GST_MESSAGE_ERROR);
}

/* ------------------------------------------------------------------ */
/* vaeencode.                                                          */

static void
set_video(GstHarness *h, GstVideoInfo *info, GstVideoFormat format, gint width,
          gint height, gint fps)
{
    gst_video_info_set_format(info, format, (guint) width, (guint) height);
    info->fps_n = fps;
    gst_harness_set_src_caps(h, gst_video_info_to_caps(info));
}

static void
push_frames(GstHarness *h, const GstVideoInfo *info, guint n, GstClockTime *at)
{
    for (guint i = 0; i < n; i++) {
        GstBuffer *frame = vae_test_frame(info, i);
        GST_BUFFER_PTS(frame) = *at;
        GST_BUFFER_DURATION(frame) = GST_SECOND / (guint) info->fps_n;
        CHECK_INT(gst_harness_push(h, frame), GST_FLOW_OK);
        *at += GST_SECOND / (guint) info->fps_n;
    }
}

/* Checks the latents of `frames` frames of a size. The last latent is
 * trimmed. */
static void
pull_latents(GstHarness *h, const GstVideoInfo *info, guint frames,
             GstClockTime *at)
{
    const guint lw = ((guint) info->width + 7) / 8;
    const guint lh = ((guint) info->height + 7) / 8;
    for (guint k = 0, n = 0; n < frames; k++) {
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        const guint covered = MIN(k ? 4 : 1, frames - n);
        CHECK(latent != NULL);
        CHECK_INT(GST_BUFFER_PTS(latent), *at);
        CHECK_INT(GST_BUFFER_DURATION(latent),
                  covered * (GST_SECOND / (guint) info->fps_n));
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT),
                  k > 0);
        CHECK_INT(GST_BUFFER_OFFSET(latent), k);
        CHECK_INT(gst_buffer_get_size(latent), 16 * lw * lh * 4);
        *at += GST_BUFFER_DURATION(latent);
        n += covered;
    }
}

/* The unfinished group is filled, and has the previous caps. */
TEST(encode)
{
    static const struct {
        GstVideoFormat format;
        gint width, height, fps;
        guint frames;
    } pieces[] = {{GST_VIDEO_FORMAT_I420, 48, 32, 16, 7},
                  {GST_VIDEO_FORMAT_I420, 33, 17, 16, 3},
                  {GST_VIDEO_FORMAT_RGB, 33, 17, 16, 8},
                  {GST_VIDEO_FORMAT_RGB, 33, 17, 32, 2},
                  {GST_VIDEO_FORMAT_NV12, 8, 8, 8, 5}};
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstVideoInfo infos[G_N_ELEMENTS(pieces)];
    GstClockTime pushed = 0, pulled = 0;
    g_object_set(h->element, "queue-depth", 8, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(pieces); i++) {
        set_video(h, &infos[i], pieces[i].format, pieces[i].width,
                  pieces[i].height, pieces[i].fps);
        push_frames(h, &infos[i], pieces[i].frames, &pushed);
    }
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    for (guint i = 0; i < G_N_ELEMENTS(pieces); i++)
        pull_latents(h, &infos[i], pieces[i].frames, &pulled);
    CHECK_INT(pushed, pulled);
    vae_test_wait_eos(h);
    vae_test_no_more(h);
}

/* Downstream changes the type twice, and no latent passes meanwhile. */
TEST(encode_types)
{
    static const char *const latents[] = {"float32", "float16", "bfloat16"};
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    g_autoptr(GstCaps) now = NULL;
    GstClockTime pushed = 0;
    GstVideoInfo info;
    gst_harness_set_sink_caps_str(h, "video/x-vae-latent,type=float32");
    gst_pad_add_probe(h->sinkpad, GST_PAD_PROBE_TYPE_BUFFER, wait_at_gate, NULL,
                      NULL);
    g_mutex_lock(&gate);
    set_video(h, &info, GST_VIDEO_FORMAT_I420, 16, 16, 16);
    for (guint k = 0; k < G_N_ELEMENTS(latents); k++) {
        g_autofree gchar *caps =
            g_strconcat("video/x-vae-latent,type=", latents[k], NULL);
        if (k > 0)
            gst_harness_set_sink_caps_str(h, caps);
        push_frames(h, &info, k ? 4 : 1, &pushed);
    }
    g_mutex_unlock(&gate);
    for (guint k = 0; k < G_N_ELEMENTS(latents); k++)
        gst_buffer_unref(vae_test_pull(h));
    now = gst_pad_get_current_caps(h->sinkpad);
    CHECK_STR(gst_structure_get_string(gst_caps_get_structure(now, 0), "type"),
              "bfloat16");
    vae_test_none(h, GST_MESSAGE_ERROR);
}

/* Downstream takes another format, and then none of ours, while frames of the
 * one before wait. */
TEST(decode_refused)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autofree gchar *caps = vae_test_latent_caps(2, 2, NULL);
    gst_harness_set_sink_caps_str(h, "video/x-raw,format=I420");
    gst_harness_set_src_caps_str(h, caps);
    gst_pad_add_probe(h->sinkpad, GST_PAD_PROBE_TYPE_BUFFER, wait_at_gate, NULL,
                      NULL);
    g_atomic_int_set(&at_gate, 0);
    g_mutex_lock(&gate);
    push_one(h, NULL, 0);
    while (!g_atomic_int_get(&at_gate))
        g_usleep(1000);
    gst_harness_set_sink_caps_str(h, "video/x-raw,format=RGB");
    push_one(h, NULL, 1);
    gst_harness_set_sink_caps_str(h, "video/x-raw,format=GRAY8");
    g_mutex_unlock(&gate);
    vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                          "Downstream does not take",
                          "it expects GRAY8: put videoconvert");
}

/* The same caps again are no change. */
TEST(same)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstVideoInfo info;
    GstClockTime pushed = 0, pulled = 0;
    set_video(h, &info, GST_VIDEO_FORMAT_I420, 16, 16, 16);
    push_frames(h, &info, 3, &pushed);
    g_autoptr(GstCaps) caps = gst_video_info_to_caps(&info);
    CHECK(gst_harness_push_event(h, gst_event_new_caps(caps)));
    push_frames(h, &info, 6, &pushed);
    pull_latents(h, &info, 9, &pulled);
}
