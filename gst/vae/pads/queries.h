/*
 * queries.h: answers to the queries of both pads.
 */
#ifndef GST_VAE_QUERIES_H
#define GST_VAE_QUERIES_H

#include "base.h"

G_BEGIN_DECLS

/* Query functions of the pads; parent is a GstVaeBase. */
gboolean gst_vae_sink_query(GstPad *pad, GstObject *parent, GstQuery *query);
gboolean gst_vae_src_query(GstPad *pad, GstObject *parent, GstQuery *query);

G_END_DECLS
#endif
