/*
 * stream.h: latents from a file that upstream pushes. The caller holds the
 * stream lock of the sink pad.
 */
#ifndef GST_LATENT_STREAM_H
#define GST_LATENT_STREAM_H

#include "send.h"

G_BEGIN_DECLS

/* Takes the next bytes of the file, and sends the latents that are complete.
 * (takes buffer) */
GstFlowReturn gst_latent_stream_push(GstLatentDemux *self, GstBuffer *buffer);
/* Sends the next latent. Returns GST_FLOW_CUSTOM_SUCCESS if it has not arrived
 * yet. */
GstFlowReturn gst_latent_stream_next(GstLatentDemux *self);
/* All bytes have come: sends what was collected, and EOS. */
void gst_latent_stream_end(GstLatentDemux *self);
/* Forgets the file. */
void gst_latent_stream_reset(GstLatentDemux *self);

G_END_DECLS
#endif
