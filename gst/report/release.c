/*
 * release.c: frees memory of the device while there is nothing to compute.
 */
#include "release.h"

gboolean
gst_vae_release(GstElement *element, VaeStream *stream, gboolean idle)
{
    VaeError error = {0};
    gboolean released = FALSE;

    if (stream && vae_stream_release(stream, &error) != VAE_OK)
        GST_ELEMENT_WARNING(element, RESOURCE, FAILED, ("%s", error.message),
                            ("the memory of the device was not freed"));
    released = stream && vae_stream_stats(stream)->released;
    gst_element_post_message(
        element,
        gst_message_new_element(
            GST_OBJECT(element),
            gst_structure_new("vae-release", "released", G_TYPE_BOOLEAN,
                              released, "idle", G_TYPE_BOOLEAN, idle, NULL)));
    return released;
}
