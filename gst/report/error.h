/*
 * error.h: the errors of the engine as those of GStreamer.
 */
#ifndef GST_VAE_ERROR_H
#define GST_VAE_ERROR_H

#include <gst/gst.h>

#include "vae-private/status.h"

G_BEGIN_DECLS

/* The error of an engine call, with its domain and code chosen here and
 * nowhere else. (transfer full) */
GError *gst_vae_error_to_gerror(const VaeError *error);

/* The details of a message: what an application may want to know without
 * reading its text. NULL: not known. (transfer full) */
GstStructure *gst_vae_error_context(const gchar *model, const gchar *space);

/* Posts error and frees it. context: the fields of its details beside those of
 * the error itself; may be NULL. (takes context) */
void gst_vae_post_gerror(GstElement *element, GError *error,
                         GstStructure *context);

G_END_DECLS
#endif
