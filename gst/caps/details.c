/*
 * details.c: creates and reads errors that carry fields for applications. A
 * GstVaeError has the domain and code of the posted error and its details.
 */
#include "details.h"

typedef struct GstVaeErrorPrivate {
    GQuark domain;
    GstStructure *details;
} GstVaeErrorPrivate;

/* GLib never passes NULL to these three functions. The checks are for an
 * analyzer. */
static void
gst_vae_error_private_init(GstVaeErrorPrivate *priv)
{
    if (priv)
        *priv = (GstVaeErrorPrivate){0};
}

static void
gst_vae_error_private_copy(const GstVaeErrorPrivate *from,
                           GstVaeErrorPrivate *to)
{
    if (from && to) {
        to->domain = from->domain;
        to->details = from->details ? gst_structure_copy(from->details) : NULL;
    }
}

static void
gst_vae_error_private_clear(GstVaeErrorPrivate *priv)
{
    if (priv)
        gst_clear_structure(&priv->details);
}

GQuark gst_vae_error_quark(void);
G_DEFINE_EXTENDED_ERROR(GstVaeError, gst_vae_error)

static const GstVaeErrorPrivate *
own_of(const GError *error)
{
    return error->domain == gst_vae_error_quark()
               ? gst_vae_error_get_private(error)
               : NULL;
}

GError *
gst_vae_error_new(GQuark domain, gint code, const gchar *message,
                  GstStructure *details)
{
    GstVaeErrorPrivate *priv;
    GError *error;

    if (!details)
        return g_error_new_literal(domain, code, message);
    error = g_error_new_literal(gst_vae_error_quark(), code, message);
    priv = gst_vae_error_get_private(error);
    if (priv)
        *priv = (GstVaeErrorPrivate){domain, details};
    else
        gst_structure_free(details);
    return error;
}

GQuark
gst_vae_error_domain(const GError *error)
{
    const GstVaeErrorPrivate *own = own_of(error);

    return own ? own->domain : error->domain;
}

const GstStructure *
gst_vae_error_details(const GError *error)
{
    const GstVaeErrorPrivate *own = own_of(error);

    return own ? own->details : NULL;
}

GstStructure *
gst_vae_mismatch_details(GstVaeMismatch mismatch)
{
    GstStructure *details =
        gst_structure_new("details", "field", G_TYPE_STRING, mismatch.field,
                          "expected", G_TYPE_STRING, mismatch.expected, NULL);

    if (mismatch.found)
        gst_structure_set(details, "found", G_TYPE_STRING, mismatch.found,
                          NULL);
    return details;
}

void
gst_vae_set_mismatch(GError **error, GstVaeMismatch mismatch,
                     const gchar *format, ...)
{
    gchar *message;
    va_list args;

    if (!error)
        return;
    va_start(args, format);
    message = g_strdup_vprintf(format, args);
    va_end(args);
    *error = gst_vae_error_new(GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                               message, gst_vae_mismatch_details(mismatch));
    g_free(message);
}
