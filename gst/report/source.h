/*
 * source.h: which file upstream reads, for messages.
 */
#ifndef GST_VAE_SOURCE_H
#define GST_VAE_SOURCE_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* The path or else the URI of the file behind a sink pad; NULL: upstream knows
 * none. (transfer full) */
gchar *gst_vae_source_path(GstPad *pad);

G_END_DECLS
#endif
