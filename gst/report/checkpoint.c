/*
 * checkpoint.c: writes the position of a stream to a file while the stream
 * runs.
 */
#include "checkpoint.h"

#include "error.h"

static void
post_failed(GstElement *element, const gchar *path, const VaeError *error)
{
    GError *fault = gst_vae_error_to_gerror(error);

    g_prefix_error(&fault, "No checkpoint was written: ");
    gst_vae_post(
        element, GST_MESSAGE_WARNING, fault,
        gst_structure_new("details", "file", G_TYPE_STRING, path, NULL));
}

gboolean
gst_vae_checkpoint_save(GstElement *element, VaeStream *stream,
                        const VaeCheckpointParams *params,
                        const VaeError *why_not, gboolean quiet)
{
    VaeError error = *why_not;
    gboolean saved;

    if (error.status == VAE_OK)
        error.status = vae_stream_save(stream, params, &error);
    saved = error.status == VAE_OK;
    if (!saved && !quiet)
        post_failed(element, params->path, &error);
    gst_element_post_message(
        element,
        gst_message_new_element(
            GST_OBJECT(element),
            gst_structure_new("vae-checkpoint", "location", G_TYPE_STRING,
                              params->path, "saved", G_TYPE_BOOLEAN, saved,
                              "frames", G_TYPE_UINT64, params->frames, NULL)));
    return saved;
}
