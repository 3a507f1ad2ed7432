/*
 * source.h: finds the file that upstream reads, for messages.
 */
#ifndef GST_VAE_SOURCE_H
#define GST_VAE_SOURCE_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* Returns the path of the file upstream of a sink pad, or its URI, or NULL if
 * upstream reports none. (transfer full) */
gchar *gst_vae_source_path(GstPad *pad);

G_END_DECLS
#endif
