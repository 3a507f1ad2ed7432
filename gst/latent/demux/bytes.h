/*
 * bytes.h: reads the bytes of a latent file by pulling or by collecting
 * buffers.
 */
#ifndef GST_LATENT_BYTES_H
#define GST_LATENT_BYTES_H

#include <gst/gst.h>

#include "vae-private/status.h"

G_BEGIN_DECLS

typedef struct GstLatentBytes {
    guint8 *data;
    gsize size, room;
} GstLatentBytes;

/* Appends a buffer. Never allocates more than max bytes; the caller makes sure
 * that they suffice. */
gboolean gst_latent_bytes_append(GstLatentBytes *bytes, GstBuffer *buffer,
                                 gsize max, VaeError *error);
void gst_latent_bytes_clear(GstLatentBytes *bytes);

/*
 * Pulls size bytes at offset of the file upstream of the sink pad. If the file
 * ends before them, returns GST_FLOW_CUSTOM_ERROR and sets error. GST_FLOW_EOS
 * means that upstream ends early, for example after an EOS event to the
 * pipeline.
 */
GstFlowReturn gst_latent_pull(GstPad *pad, guint64 offset, guint8 *dst,
                              guint64 size, VaeError *error);

/*
 * Pulls the header of the file upstream of the sink pad into bytes, and returns
 * the length of the file. error is set only with GST_FLOW_CUSTOM_ERROR.
 */
GstFlowReturn gst_latent_pull_header(GstPad *pad, const gchar *name,
                                     GstLatentBytes *bytes, guint64 *total,
                                     VaeError *error);

/* Returns the name of the file upstream of the sink pad, for messages. It is
 * never NULL. (transfer full) */
gchar *gst_latent_source_name(GstPad *pad);

G_END_DECLS
#endif
