/*
 * details.h: errors about a value that differs from the wanted one. They carry
 * fields for applications. gst_vae_post_gerror() copies the fields to the
 * details of the message.
 */
#ifndef GST_VAE_DETAILS_H
#define GST_VAE_DETAILS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* field: a field of the caps, or a word such as "size". found may be NULL. */
typedef struct GstVaeMismatch {
    const gchar *field, *found, *wanted;
} GstVaeMismatch;

/* Like g_set_error(). The error is posted as a GST_STREAM_ERROR_FORMAT. */
void gst_vae_set_mismatch(GError **error, GstVaeMismatch mismatch,
                          const gchar *format, ...) G_GNUC_PRINTF(3, 4);
/* Returns the fields field, found and wanted, or NULL for other errors. */
const GstStructure *gst_vae_mismatch_details(const GError *error);

G_END_DECLS
#endif
