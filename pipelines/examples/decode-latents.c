/*
 * decode-latents.c: vaedecode in a program of one's own.
 *
 *   decode-latents SPACE WIDTHxHEIGHT [MODEL] <latents.f32 >frames.rgb
 *
 * Reads latents as a diffusion model makes them, float32 [16, HEIGHT, WIDTH]
 * one after another, and writes frames, packed RGB. SPACE is their latent
 * space, such as wan2.1; MODEL is the VAE's file, without it the one installed
 * for that space. Needs GStreamer and the plugin, nothing else of gst-vae:
 *
 *   cc decode-latents.c $(pkg-config --cflags --libs gstreamer-app-1.0 \
 *       gstreamer-video-1.0) -o decode-latents
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#define CHANNELS 16 /* of wan2.1 */
#define FPS 16

typedef struct Feed {
    GstAppSrc *src;
    gsize size; /* bytes of a latent */
} Feed;

/* Latent k stands for one frame where k is 0, else for four. */
static GstClockTime
frame_time(guint64 frame)
{
    return gst_util_uint64_scale(frame, GST_SECOND, FPS);
}

static GstBuffer *
wrap(guint8 *data, gsize size, guint64 k)
{
    GstBuffer *buffer = gst_buffer_new_wrapped(data, size); /* owns data now */

    GST_BUFFER_OFFSET(buffer) = k;
    GST_BUFFER_PTS(buffer) = frame_time(k == 0 ? 0 : 4 * k - 3);
    GST_BUFFER_DURATION(buffer) =
        frame_time(4 * k + 1) - GST_BUFFER_PTS(buffer);
    /* Without this flag every latent would begin a clip of its own. */
    if (k > 0)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    return buffer;
}

/* Bytes of one latent. Not by fread(): after an error the program would wait at
 * its end for a stream from which this thread still reads. */
static gsize
read_latent(guint8 *data, gsize size)
{
    gsize n = 0;
    ssize_t more = 1;

    while (n < size && more > 0) {
        more = read(STDIN_FILENO, data + n, size - n);
        if (more > 0)
            n += (gsize) more;
    }
    return n;
}

static void
push_all(Feed *self)
{
    for (guint64 k = 0;; k++) {
        guint8 *latent = g_malloc(self->size);
        const gsize n = read_latent(latent, self->size);

        if (n < self->size) {
            if (n > 0)
                g_printerr("the last latent has %zu bytes, expected %zu\n",
                           (size_t) n, (size_t) self->size);
            g_free(latent);
            break;
        }
        if (gst_app_src_push_buffer(self->src, wrap(latent, n, k)) !=
            GST_FLOW_OK)
            return; /* the bus says why */
    }
    gst_app_src_end_of_stream(self->src);
}

/* A thread of its own: gst_app_src_push_buffer() waits while the decoder is
 * busy (block=true), and frames are taken meanwhile. */
static gpointer
feed(gpointer data)
{
    Feed *self = data;

    push_all(self);
    gst_object_unref(self->src);
    g_free(self);
    return NULL;
}

/* GStreamer begins every row at a multiple of 4 bytes. */
static gboolean
write_frame(GstSample *sample)
{
    GstVideoInfo info;
    GstVideoFrame frame;
    gboolean ok = TRUE;

    if (!gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) ||
        !gst_video_frame_map(&frame, &info, gst_sample_get_buffer(sample),
                             GST_MAP_READ))
        return FALSE;
    for (gint y = 0; y < info.height && ok; y++) {
        const guint8 *row = GST_VIDEO_FRAME_PLANE_DATA(&frame, 0);

        row += (gsize) y * (gsize) GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0);
        ok = fwrite(row, 3, (size_t) info.width, stdout) == (size_t) info.width;
    }
    gst_video_frame_unmap(&frame);
    if (!ok)
        perror("cannot write frames");
    return ok;
}

/* Prints an error of the pipeline, if there was one. */
static gboolean
failed(GstElement *pipeline)
{
    GstBus *bus = gst_element_get_bus(pipeline);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    GError *error = NULL;

    gst_object_unref(bus);
    if (!message)
        return FALSE;
    gst_message_parse_error(message, &error, NULL);
    g_printerr("%s: %s\n", GST_MESSAGE_SRC_NAME(message), error->message);
    g_error_free(error);
    gst_message_unref(message);
    return TRUE;
}

/* Returns FALSE after an error, which it prints. latents are freed. */
static gboolean
run(GstElement *pipeline, GstAppSink *sink, Feed *latents)
{
    GThread *thread = g_thread_new("feed", feed, latents);
    gboolean ok = TRUE, more = TRUE;

    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    while (more) {
        GstSample *sample = gst_app_sink_try_pull_sample(sink, GST_SECOND / 10);

        if (sample) {
            ok = more = write_frame(sample);
            gst_sample_unref(sample);
        } else {
            ok = !failed(pipeline);
            more = ok && !gst_app_sink_is_eos(sink);
        }
    }
    gst_element_set_state(pipeline, GST_STATE_NULL); /* a push ends, too */
    if (ok)
        g_thread_join(thread);
    else
        g_thread_unref(thread); /* it may be waiting for latents */
    return ok;
}

static GstElement *
build(const char *space, gint width, gint height, const char *model)
{
    GError *error = NULL;
    GstElement *pipeline = gst_parse_launch(
        "appsrc name=src format=time block=true max-buffers=2 max-bytes=0 ! "
        "vaedecode name=decode ! video/x-raw,format=RGB ! "
        "appsink name=sink sync=false max-buffers=8",
        &error);
    GstElement *src, *decode;
    GstCaps *caps;

    if (error) { /* no plugin */
        g_printerr("%s\n", error->message);
        g_error_free(error);
        gst_clear_object(&pipeline);
        return NULL;
    }
    caps = gst_caps_new_simple(
        "video/x-vae-latent", "type", G_TYPE_STRING, "float32", "channels",
        G_TYPE_INT, CHANNELS, "latent-width", G_TYPE_INT, width,
        "latent-height", G_TYPE_INT, height, "latent-space", G_TYPE_STRING,
        space, "framerate", GST_TYPE_FRACTION, FPS, 1, NULL);
    src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    gst_app_src_set_caps(GST_APP_SRC(src), caps);
    gst_caps_unref(caps);
    gst_object_unref(src);
    decode = gst_bin_get_by_name(GST_BIN(pipeline), "decode");
    if (model)
        g_object_set(decode, "model", model, NULL);
    gst_object_unref(decode);
    return pipeline;
}

int
main(int argc, char **argv)
{
    GstElement *pipeline, *src, *sink;
    gint width, height;
    Feed *latents;
    gboolean ok;

    gst_init(&argc, &argv);
    if (argc < 3 || argc > 4 ||
        sscanf(argv[2], "%dx%d", &width, &height) != 2 || width < 1 ||
        height < 1 || width > 4096 || height > 4096) {
        g_printerr("usage: decode-latents SPACE WIDTHxHEIGHT [MODEL] "
                   "<latents.f32 >frames.rgb\n");
        return 2;
    }
    pipeline = build(argv[1], width, height, argv[3]);
    if (!pipeline)
        return EXIT_FAILURE;
    src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    latents = g_new(Feed, 1);
    latents->src = GST_APP_SRC(src); /* owned by the thread from now on */
    latents->size = sizeof(float) * CHANNELS * (gsize) width * (gsize) height;
    ok = run(pipeline, GST_APP_SINK(sink), latents);
    gst_object_unref(sink);
    gst_object_unref(pipeline);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
