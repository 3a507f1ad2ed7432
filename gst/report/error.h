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

/* Posts error and frees it. */
void gst_vae_post_gerror(GstElement *element, GError *error);

G_END_DECLS
#endif
