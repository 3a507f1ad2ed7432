/*
 * details.c: see details.h.
 */
#include "details.h"

typedef struct GstVaeMismatchErrorPrivate {
    GstStructure *details;
} GstVaeMismatchErrorPrivate;

/* GLib calls these three with no NULL, which an analyzer does not see. */
static void
gst_vae_mismatch_error_private_init(GstVaeMismatchErrorPrivate *priv)
{
    if (priv)
        priv->details = NULL;
}

static void
gst_vae_mismatch_error_private_copy(const GstVaeMismatchErrorPrivate *from,
                                    GstVaeMismatchErrorPrivate *to)
{
    if (from && to)
        to->details = from->details ? gst_structure_copy(from->details) : NULL;
}

static void
gst_vae_mismatch_error_private_clear(GstVaeMismatchErrorPrivate *priv)
{
    if (priv)
        gst_clear_structure(&priv->details);
}

GQuark gst_vae_mismatch_error_quark(void);
G_DEFINE_EXTENDED_ERROR(GstVaeMismatchError, gst_vae_mismatch_error)

void
gst_vae_set_mismatch(GError **error, GstVaeMismatch mismatch,
                     const gchar *format, ...)
{
    GstVaeMismatchErrorPrivate *priv;
    GstStructure *details;
    va_list args;

    if (!error)
        return;
    va_start(args, format);
    *error = g_error_new_valist(gst_vae_mismatch_error_quark(),
                                GST_STREAM_ERROR_FORMAT, format, args);
    va_end(args);
    details =
        gst_structure_new("details", "field", G_TYPE_STRING, mismatch.field,
                          "wanted", G_TYPE_STRING, mismatch.wanted, NULL);
    if (mismatch.found)
        gst_structure_set(details, "found", G_TYPE_STRING, mismatch.found,
                          NULL);
    priv = gst_vae_mismatch_error_get_private(*error);
    if (priv)
        priv->details = details;
    else
        gst_structure_free(details);
}

const GstStructure *
gst_vae_mismatch_details(const GError *error)
{
    const GstVaeMismatchErrorPrivate *priv =
        error->domain == gst_vae_mismatch_error_quark()
            ? gst_vae_mismatch_error_get_private(error)
            : NULL;

    return priv ? priv->details : NULL;
}
