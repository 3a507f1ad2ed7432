/*
 * details.h: errors that carry fields for applications, such as what was found
 * and what was expected. gst_vae_post_gerror() copies the fields to the details
 * of the message.
 */
#ifndef GST_VAE_DETAILS_H
#define GST_VAE_DETAILS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* Returns an error of that domain and code. details may be NULL. (takes
 * details) (transfer full) */
GError *gst_vae_error_new(GQuark domain, gint code, const gchar *message,
                          GstStructure *details);
/* Returns the domain of any error: that of gst_vae_error_new(), if this made
 * it. */
GQuark gst_vae_error_domain(const GError *error);

/* field: a field of the caps, or a word such as "size". found may be NULL. */
typedef struct GstVaeMismatch {
    const gchar *field, *found, *expected;
} GstVaeMismatch;

/* (transfer full) */
GstStructure *gst_vae_mismatch_details(GstVaeMismatch mismatch);
/* Like g_set_error(). The error is posted as a GST_STREAM_ERROR_FORMAT. */
void gst_vae_set_mismatch(GError **error, GstVaeMismatch mismatch,
                          const gchar *format, ...) G_GNUC_PRINTF(3, 4);
/* Returns the fields of an error, or NULL if it has none. */
const GstStructure *gst_vae_error_details(const GError *error);

G_END_DECLS
#endif
