/*
 * error.c: converts the engine's errors to those of GStreamer and posts them.
 */
#include "error.h"

#include "details.h"

static void
set_text(GstStructure *details, const gchar *field, const gchar *text)
{
    if (text && *text)
        gst_structure_set(details, field, G_TYPE_STRING, text, NULL);
}

GstStructure *
gst_vae_error_parts(const VaeError *error)
{
    GstStructure *details;

    if (!*error->tensor && !*error->found && !*error->expected)
        return NULL;
    details = gst_structure_new_empty("details");
    set_text(details, "tensor", error->tensor);
    set_text(details, "found", error->found);
    set_text(details, "expected", error->expected);
    return details;
}

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
    return gst_vae_error_new(domain, code, error->message,
                             gst_vae_error_parts(error));
}

GstStructure *
gst_vae_error_context(const gchar *model, const gchar *space)
{
    GstStructure *context = gst_structure_new_empty("details");

    set_text(context, "model", model);
    set_text(context, "latent-space", space);
    return context;
}

static gboolean
add_field(GQuark field, const GValue *value, gpointer context)
{
    gst_structure_id_set_value(context, field, value);
    return TRUE;
}

void
gst_vae_post(GstElement *element, GstMessageType type, GError *error,
             GstStructure *context)
{
    const GstStructure *own = gst_vae_error_details(error);
    gchar *text = g_strdup(error->message);

    vae_text_printable(text);
    if (!context)
        context = gst_structure_new_empty("details");
    if (own)
        gst_structure_foreach(own, add_field, context);
    gst_element_message_full_with_details(
        element, type, gst_vae_error_domain(error), error->code, text, NULL,
        __FILE__, GST_FUNCTION, __LINE__, context);
    g_error_free(error);
}

void
gst_vae_post_gerror(GstElement *element, GError *error, GstStructure *context)
{
    gst_vae_post(element, GST_MESSAGE_ERROR, error, context);
}

void
gst_vae_warn_input(GstElement *element, const gchar *file, const gchar *line,
                   const gchar *debug)
{
    gchar *text = file ? g_strdup_printf("%s: %s", file, line) : g_strdup(line);

    vae_text_printable(text);
    gst_element_message_full(element, GST_MESSAGE_WARNING, GST_STREAM_ERROR,
                             GST_STREAM_ERROR_FORMAT, text, g_strdup(debug),
                             __FILE__, GST_FUNCTION, __LINE__);
}

void
gst_vae_inform(GstElement *element, const gchar *format, ...)
{
    va_list args;

    va_start(args, format);
    g_autofree gchar *text = g_strdup_vprintf(format, args);
    va_end(args);
    vae_text_printable(text);
    /* gst-launch-1.0 shows only the debug text of an INFO message. */
    GST_ELEMENT_INFO(element, STREAM, FORMAT, ("%s", text), ("%s", text));
}
