/*
 * error.c: the errors of the engine as those of GStreamer.
 */
#include "error.h"

GError *
gst_vae_error_to_gerror(const VaeError *error)
{
    GQuark domain = GST_RESOURCE_ERROR;
    gint code = GST_RESOURCE_ERROR_FAILED;

    switch (error->status) {
    case VAE_ERR_NOT_FOUND:
        code = GST_RESOURCE_ERROR_NOT_FOUND;
        break;
    case VAE_ERR_READ:
    case VAE_ERR_FORMAT:
    case VAE_ERR_MODEL:
        code = GST_RESOURCE_ERROR_OPEN_READ;
        break;
    case VAE_ERR_WRITE:
        code = GST_RESOURCE_ERROR_WRITE;
        break;
    case VAE_ERR_NO_SPACE:
    case VAE_ERR_MEMORY:
        code = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
        break;
    case VAE_ERR_SIZE:
        domain = GST_STREAM_ERROR;
        code = GST_STREAM_ERROR_FORMAT;
        break;
    case VAE_ERR_ARGUMENT:
        domain = GST_LIBRARY_ERROR;
        code = GST_LIBRARY_ERROR_SETTINGS;
        break;
    case VAE_ERR_UNSUPPORTED:
        domain = GST_LIBRARY_ERROR;
        code = GST_LIBRARY_ERROR_INIT;
        break;
    case VAE_ERR_BACKEND:
    case VAE_ERR_CANCELLED:
        domain = GST_LIBRARY_ERROR;
        code = GST_LIBRARY_ERROR_FAILED;
        break;
    case VAE_OK:
    case VAE_AGAIN:
    case VAE_END:
        break;
    }
    return g_error_new_literal(domain, code, error->message);
}

void
gst_vae_post_gerror(GstElement *element, GError *error)
{
    gst_element_message_full(element, GST_MESSAGE_ERROR, error->domain,
                             error->code, g_strdup(error->message), NULL,
                             __FILE__, GST_FUNCTION, __LINE__);
    g_error_free(error);
}
