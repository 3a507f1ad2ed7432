/*
 * Fuzzes the file that latentdemux reads. The first byte is the number of bytes
 * in each buffer. The other bytes are the file. If the first byte has the bit
 * 0x80, they are the JSON header of a safetensors file: the target puts its
 * length in front, and the last quarter of the bytes is data.
 *
 * The same number, modulo 4, also chooses the source:
 *   0     appsrc in a pipeline; the number 0 itself sends the whole file at
 * once 1     a source with random access, from which the element's thread pulls
 *   2, 3  buffers that are pushed into the pad; this is the fastest way
 *
 * The element must either send latents of the size that its caps state and then
 * the end of the stream, or post an error with a text.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "demux.h"
#include "latent.h"
#include "quarks.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct File {
    const uint8_t *data;
    size_t size, part;
} File;

static gchar *folder;

static void
clean(void)
{
    gchar *registry = g_build_filename(folder, "registry.bin", NULL);
    g_unlink(registry);
    g_rmdir(folder);
    g_free(registry);
    g_free(folder);
}

static void
load(const gchar *file)
{
    gchar *path = g_build_filename(FUZZ_PLUGINS, file, NULL);
    GstPlugin *plugin = gst_plugin_load_file(path, NULL);
    if (!plugin)
        abort();
    gst_object_unref(plugin);
    g_free(path);
}

/* Uses its own registry, which has no other plugins. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    folder = g_dir_make_tmp("vae-fuzz-XXXXXX", NULL);
    if (!folder)
        abort();
    atexit(clean);
    gchar *registry = g_build_filename(folder, "registry.bin", NULL);
    g_setenv("GST_REGISTRY_1_0", registry, TRUE);
    g_setenv("GST_REGISTRY_FORK", "no", TRUE);
    g_setenv("GST_PLUGIN_SYSTEM_PATH_1_0", folder, TRUE);
    g_unsetenv("GST_PLUGIN_PATH_1_0");
    g_unsetenv("GST_PLUGIN_PATH");
    g_free(registry);
    gst_init(NULL, NULL);
    load("libgstapp.so");
    load("libgstcoreelements.so");
    if (!GST_ELEMENT_REGISTER(latentdemux, NULL))
        abort();
    return 0;
}

static void
check_buffer(GstPad *pad, GstBuffer *buffer)
{
    GstVaeLatentInfo latent;
    GstCaps *caps = gst_pad_get_current_caps(pad);
    if (!caps || !gst_vae_latent_info_from_caps(caps, &latent, NULL) ||
        gst_buffer_get_size(buffer) != gst_vae_latent_info_size(&latent))
        abort();
    gst_caps_unref(caps);
}

static void
check_error(GstMessage *message)
{
    GError *error = NULL;
    gst_message_parse_error(message, &error, NULL);
    if (strlen(error->message) < 9)
        abort();
    g_clear_error(&error);
}

/* Behind appsrc --------------------------------------------------------- */

static GstPadProbeReturn
probe_buffer(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    check_buffer(pad, GST_PAD_PROBE_INFO_BUFFER(info));
    return GST_PAD_PROBE_OK;
}

static GstElement *
make_pipeline(GstElement **source)
{
    GstElement *pipeline = gst_pipeline_new(NULL);
    GstElement *demux = gst_element_factory_make("latentdemux", NULL);
    GstElement *sink = gst_element_factory_make("fakesink", NULL);
    *source = gst_element_factory_make("appsrc", NULL);
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    g_object_set(sink, "sync", FALSE, NULL);
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, probe_buffer, NULL, NULL);
    gst_object_unref(pad);
    gst_bin_add_many(GST_BIN(pipeline), *source, demux, sink, NULL);
    if (!gst_element_link_many(*source, demux, sink, NULL))
        abort();
    return pipeline;
}

static void
send(GstElement *source, const File *file)
{
    GstFlowReturn ret = GST_FLOW_OK;
    for (size_t at = 0; at < file->size; at += file->part) {
        GstBuffer *buffer = gst_buffer_new_memdup(
            file->data + at, MIN(file->part, file->size - at));
        g_signal_emit_by_name(source, "push-buffer", buffer, &ret);
        gst_buffer_unref(buffer);
    }
    g_signal_emit_by_name(source, "end-of-stream", &ret);
}

/* All files use one pipeline, as in a player. Between two files its state is
 * NULL. libFuzzer notices a pipeline that never ends. */
static void
play(const File *file)
{
    static GstElement *pipeline, *source;
    if (!pipeline)
        pipeline = make_pipeline(&source);
    GstBus *bus = gst_element_get_bus(pipeline);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    send(source, file);
    GstMessage *message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        check_error(message);
    gst_message_unref(message);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
}

/* Between two pads ------------------------------------------------------ */

static GMutex lock;
static GCond changed;
static gboolean ended; /* the stream ended, or there was an error */

static void
set_ended(void)
{
    g_mutex_lock(&lock);
    ended = TRUE;
    g_cond_signal(&changed);
    g_mutex_unlock(&lock);
}

static GstBusSyncReply
on_message(GstBus *bus, GstMessage *message, gpointer data)
{
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        check_error(message);
        set_ended();
    }
    gst_message_unref(message);
    return GST_BUS_DROP;
}

static GstFlowReturn
take_buffer(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    check_buffer(pad, buffer);
    gst_buffer_unref(buffer);
    return GST_FLOW_OK;
}

static gboolean
take_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        set_ended();
    gst_event_unref(event);
    return TRUE;
}

static GstFlowReturn
read_range(GstPad *pad, GstObject *parent, guint64 offset, guint length,
           GstBuffer **buffer)
{
    const File *file = gst_pad_get_element_private(pad);
    if (offset >= file->size)
        return GST_FLOW_EOS;
    *buffer = gst_buffer_new_memdup(file->data + offset,
                                    MIN(length, file->size - offset));
    return GST_FLOW_OK;
}

static gboolean
answer(GstPad *pad, GstObject *parent, GstQuery *query)
{
    const File *file = gst_pad_get_element_private(pad);
    if (GST_QUERY_TYPE(query) == GST_QUERY_DURATION) {
        gst_query_set_duration(query, GST_FORMAT_BYTES, (gint64) file->size);
        return TRUE;
    }
    if (GST_QUERY_TYPE(query) != GST_QUERY_SCHEDULING || file->part % 4 != 1)
        return FALSE;
    gst_query_set_scheduling(query, GST_SCHEDULING_FLAG_SEEKABLE, 1, -1, 0);
    gst_query_add_scheduling_mode(query, GST_PAD_MODE_PULL);
    return TRUE;
}

static void
push_file(GstPad *pad, const File *file)
{
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_BYTES);
    gst_pad_set_active(pad, TRUE);
    gst_pad_push_event(pad, gst_event_new_stream_start("fuzz"));
    gst_pad_push_event(pad, gst_event_new_segment(&segment));
    GstFlowReturn ret = GST_FLOW_OK;
    for (size_t at = 0; at < file->size && ret == GST_FLOW_OK; at += file->part)
        ret = gst_pad_push(
            pad, gst_buffer_new_memdup(file->data + at,
                                       MIN(file->part, file->size - at)));
    gst_pad_push_event(pad, gst_event_new_eos());
    if (!ended)
        abort();
}

static void
wait_for_end(void)
{
    g_mutex_lock(&lock);
    while (!ended)
        g_cond_wait(&changed, &lock);
    g_mutex_unlock(&lock);
}

/* Keeps both pads and makes a new element for each input. */
static void
make_pads(GstPad **from, GstPad **to, GstBus **bus)
{
    *bus = gst_bus_new();
    gst_bus_set_sync_handler(*bus, on_message, NULL, NULL);
    *from = gst_pad_new("from", GST_PAD_SRC);
    gst_pad_set_getrange_function(*from, read_range);
    gst_pad_set_query_function(*from, answer);
    *to = gst_pad_new("to", GST_PAD_SINK);
    gst_pad_set_chain_function(*to, take_buffer);
    gst_pad_set_event_function(*to, take_event);
}

static void
pass(File *file)
{
    static GstPad *from, *to;
    static GstBus *bus;
    if (!bus)
        make_pads(&from, &to, &bus);
    const gboolean pulled = file->part % 4 == 1;
    GstElement *demux =
        gst_object_ref_sink(gst_element_factory_make("latentdemux", NULL));
    GstPad *sink = gst_element_get_static_pad(demux, "sink");
    GstPad *src = gst_element_get_static_pad(demux, "src");
    ended = FALSE;
    gst_pad_set_element_private(from, file);
    gst_element_set_bus(demux, bus);
    if (gst_pad_link(from, sink) != GST_PAD_LINK_OK ||
        gst_pad_link(src, to) != GST_PAD_LINK_OK)
        abort();
    gst_pad_set_active(to, TRUE);
    gst_element_set_state(demux, GST_STATE_PAUSED);
    if (pulled)
        wait_for_end();
    else
        push_file(from, file);
    gst_pad_set_active(to, FALSE);
    gst_element_set_state(demux, GST_STATE_NULL);
    gst_pad_set_active(from, FALSE);
    gst_pad_unlink(from, sink);
    gst_pad_unlink(src, to);
    gst_object_unref(src);
    gst_object_unref(sink);
    gst_object_unref(demux);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    fuzz_reserve_quarks();
    const uint8_t how = *data++;
    const size_t before = how & 0x80 ? 8 : 0;
    size--;
    const guint64 length = size - size / 4;
    guint8 *bytes = g_malloc(size + 8);
    memcpy(bytes, &length, 8);
    memcpy(bytes + before, data, size);
    File file = {bytes, size + before, how & 0x7f};
    if (file.part % 4 != 0) {
        pass(&file);
    } else {
        if (file.part == 0)
            file.part = file.size;
        play(&file);
    }
    g_free(bytes);
    return 0;
}
