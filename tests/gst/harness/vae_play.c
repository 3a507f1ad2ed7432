#include "vae_play.h"

#include <gst/base/gstbasesink.h>

#include "vae-private/tensors.h"

const gchar *
vae_play_write(guint n, int width, int height, const char *rate)
{
    const gchar *path = vae_test_path("clip.safetensors");
    const gsize step = (gsize) 16 * width * height * 4;
    g_autofree guint8 *data = g_malloc(n * step);
    const VaeTensorOut tensor = {.name = "latent",
                                 .type = VAE_TYPE_F32,
                                 .data = data,
                                 .n_dims = 4,
                                 .dims = {n, 16, height, width}};
    const VaeMetadata metadata[] = {{"vae.framerate", rate},
                                    {"vae.latent_space", "wan2.1"},
                                    {"vae.layout", "tchw"}};
    VaeError error;
    for (guint k = 0; k < n; k++) {
        g_autoptr(GstBuffer) latent = vae_test_latent(width, height, k);
        CHECK_INT(gst_buffer_extract(latent, 0, data + k * step, step), step);
    }
    CHECK(vae_tensor_file_write(path, &tensor, 1, metadata,
                                G_N_ELEMENTS(metadata), &error) == VAE_OK);
    return path;
}

static void
clear_shown(gpointer shown)
{
    gst_clear_buffer(&((VaeShown *) shown)->buffer);
}

static void
handoff(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
    VaePlay *play = data;
    const GstSegment *segment = &GST_BASE_SINK(sink)->segment;
    const GstClockTime pts = GST_BUFFER_PTS(buffer);
    const GstClockTime from = MAX(pts, segment->start);
    const VaeShown shown = {
        .buffer = gst_buffer_ref(buffer),
        .pts = pts,
        .end = pts + GST_BUFFER_DURATION(buffer),
        .cut = from - pts,
        .running = gst_segment_to_running_time(segment, GST_FORMAT_TIME, from)};
    g_mutex_lock(&play->lock);
    g_array_append_val(play->shown, shown);
    g_mutex_unlock(&play->lock);
}

/* Frames before a flush do not count as shown. */
static GstPadProbeReturn
on_flush(GstPad *pad, GstPadProbeInfo *info, gpointer play)
{
    if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_FLUSH_STOP)
        vae_play_forget(play);
    return GST_PAD_PROBE_OK;
}

void
vae_play_set(VaePlay *play, GstState state)
{
    gst_element_set_state(play->pipeline, state);
    CHECK(gst_element_get_state(play->pipeline, NULL, NULL,
                                GST_CLOCK_TIME_NONE) ==
          GST_STATE_CHANGE_SUCCESS);
}

VaePlay *
vae_play_make(const gchar *text)
{
    VaePlay *play = g_new0(VaePlay, 1);
    g_mutex_init(&play->lock);
    play->shown = g_array_new(FALSE, FALSE, sizeof(VaeShown));
    g_array_set_clear_func(play->shown, clear_shown);
    play->pipeline = gst_parse_launch(text, NULL);
    CHECK(play->pipeline != NULL);
    play->sink = gst_bin_get_by_name(GST_BIN(play->pipeline), "s");
    g_signal_connect(play->sink, "handoff", G_CALLBACK(handoff), play);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(play->sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_FLUSH, on_flush, play,
                      NULL);
    return play;
}

VaePlay *
vae_play_new(const gchar *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree gchar *text = g_strdup_vprintf(format, args);
    va_end(args);
    VaePlay *play = vae_play_make(text);
    vae_play_set(play, GST_STATE_PAUSED);
    return play;
}

void
vae_play_free(VaePlay *play)
{
    gst_element_set_state(play->pipeline, GST_STATE_NULL);
    gst_object_unref(play->sink);
    gst_object_unref(play->pipeline);
    g_array_unref(play->shown);
    g_mutex_clear(&play->lock);
    g_free(play);
}

void
vae_play_forget(VaePlay *play)
{
    g_mutex_lock(&play->lock);
    g_array_set_size(play->shown, 0);
    g_mutex_unlock(&play->lock);
}

GstMessage *
vae_play_wait(VaePlay *play)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(play->pipeline);
    GstMessage *message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE,
        GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_SEGMENT_DONE);
    CHECK(message != NULL);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        g_printerr("%s\n",
                   gst_structure_to_string(gst_message_get_structure(message)));
    CHECK(GST_MESSAGE_TYPE(message) != GST_MESSAGE_ERROR);
    return message;
}

void
vae_play_to_end(VaePlay *play)
{
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
    g_autoptr(GstMessage) message = vae_play_wait(play);
    CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_EOS);
}

gboolean
vae_play_seek(VaePlay *play, GstSeekFlags flags, GstClockTime start,
              GstClockTime stop)
{
    return gst_element_seek(play->pipeline, 1, GST_FORMAT_TIME, flags,
                            GST_SEEK_TYPE_SET, (gint64) start,
                            GST_SEEK_TYPE_SET, (gint64) stop);
}

const VaeShown *
vae_play_frame(VaePlay *play, guint i)
{
    CHECK(i < play->shown->len);
    return &g_array_index(play->shown, VaeShown, i);
}

gboolean
vae_play_same_bytes(GstBuffer *a, GstBuffer *b)
{
    GstMapInfo map;
    CHECK(gst_buffer_map(a, &map, GST_MAP_READ));
    gboolean same = gst_buffer_get_size(b) == map.size &&
                    gst_buffer_memcmp(b, 0, map.data, map.size) == 0;
    gst_buffer_unmap(a, &map);
    return same;
}
