/*
 * bytes.h: the bytes of a latent file, pulled or collected.
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

/* FALSE and VAE_ERR_MEMORY where there is not so much memory. */
gboolean gst_latent_bytes_reserve(GstLatentBytes *bytes, gsize room,
                                  VaeError *error);
/* Never takes room for more than max bytes, which have to suffice. */
gboolean gst_latent_bytes_append(GstLatentBytes *bytes, GstBuffer *buffer,
                                 gsize max, VaeError *error);
void gst_latent_bytes_clear(GstLatentBytes *bytes);

/*
 * size bytes at offset of the file behind the sink pad. error is filled with
 * GST_FLOW_CUSTOM_ERROR only: the file ends before. GST_FLOW_EOS: it does not,
 * but upstream was told to end, as by an EOS event to the pipeline.
 */
GstFlowReturn gst_latent_pull(GstPad *pad, guint64 offset, guint8 *dst,
                              guint64 size, VaeError *error);

/*
 * The header of the file behind the sink pad into bytes, and the length of
 * the file. error is filled with GST_FLOW_CUSTOM_ERROR only.
 */
GstFlowReturn gst_latent_pull_header(GstPad *pad, const gchar *name,
                                     GstLatentBytes *bytes, guint64 *total,
                                     VaeError *error);

/* The file behind the sink pad, for messages: never NULL. (transfer full) */
gchar *gst_latent_source_name(GstPad *pad);

G_END_DECLS
#endif
