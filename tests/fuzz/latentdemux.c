/*
 * Any bytes as a latent file that appsrc sends to latentdemux. The first byte
 * says how many come at once, the others are a file; with 0x80 in it they are
 * the header of a safetensors file, whose length is put before them, and the
 * last quarter of them is data.
 *
 * Either latents of the size that the caps state come out, then the end of
 * the stream, or an error in words.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "gstlatentdemux.h"
#include "gstvaelatent.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

/* A registry of its own, and no plugins but these. */
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

static GstPadProbeReturn
check_buffer(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    GstVaeLatentInfo latent;
    GstCaps *caps = gst_pad_get_current_caps(pad);
    if (!caps || !gst_vae_latent_info_from_caps(caps, &latent, NULL) ||
        gst_buffer_get_size(GST_PAD_PROBE_INFO_BUFFER(info)) !=
            gst_vae_latent_info_size(&latent))
        abort();
    gst_caps_unref(caps);
    return GST_PAD_PROBE_OK;
}

static void
link_pad(GstElement *demux, GstPad *pad, gpointer data)
{
    GstPad *sink = gst_element_get_static_pad(data, "sink");
    if (gst_pad_link(pad, sink) != GST_PAD_LINK_OK)
        abort();
    gst_object_unref(sink);
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
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, check_buffer, NULL, NULL);
    gst_object_unref(pad);
    g_signal_connect(demux, "pad-added", G_CALLBACK(link_pad), sink);
    gst_bin_add_many(GST_BIN(pipeline), *source, demux, sink, NULL);
    if (!gst_element_link(*source, demux))
        abort();
    return pipeline;
}

static void
send(GstElement *source, const uint8_t *data, size_t size, size_t part)
{
    GstFlowReturn ret = GST_FLOW_OK;
    for (size_t at = 0; at < size; at += part) {
        GstBuffer *buffer =
            gst_buffer_new_memdup(data + at, MIN(part, size - at));
        g_signal_emit_by_name(source, "push-buffer", buffer, &ret);
        gst_buffer_unref(buffer);
    }
    g_signal_emit_by_name(source, "end-of-stream", &ret);
}

static void
run(const uint8_t *data, size_t size, size_t part)
{
    GstElement *source, *pipeline = make_pipeline(&source);
    GstBus *bus = gst_element_get_bus(pipeline);
    GError *error = NULL;
    send(source, data, size, part);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *message = gst_bus_timed_pop_filtered(
        bus, 20 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    if (!message)
        abort(); /* it hangs */
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, NULL);
        if (strlen(error->message) < 9)
            abort();
        g_clear_error(&error);
    }
    gst_message_unref(message);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(pipeline);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const uint8_t how = *data++;
    const size_t before = how & 0x80 ? 8 : 0;
    size--;
    const guint64 length = size - size / 4;
    guint8 *file = g_malloc(size + 8);
    memcpy(file, &length, 8);
    memcpy(file + before, data, size);
    run(file, size + before, how & 0x7f ? (how & 0x7fU) : size + before);
    g_free(file);
    return 0;
}
