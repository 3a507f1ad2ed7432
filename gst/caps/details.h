/*
 * details.h: errors about something that differs from what is wanted, with
 * fields from which an application learns what; gst_vae_post_gerror() puts them
 * into the details of the message.
 */
#ifndef GST_VAE_DETAILS_H
#define GST_VAE_DETAILS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* What differs: a field of the caps, or a word such as "size". found may be
 * NULL. */
typedef struct GstVaeMismatch {
    const gchar *field, *found, *wanted;
} GstVaeMismatch;

/* As g_set_error(). The error is posted as a GST_STREAM_ERROR_FORMAT. */
void gst_vae_set_mismatch(GError **error, GstVaeMismatch mismatch,
                          const gchar *format, ...) G_GNUC_PRINTF(3, 4);
/* The fields field, found and wanted; NULL: the error is of another kind. */
const GstStructure *gst_vae_mismatch_details(const GError *error);

G_END_DECLS
#endif
