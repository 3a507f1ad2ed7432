/*
 * bytes.h: reads the bytes of a latent file by pulling, by collecting buffers,
 * or through a window over pushed ones.
 */
#ifndef GST_LATENT_BYTES_H
#define GST_LATENT_BYTES_H

#include <gst/base/base.h>

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

/* The part of a pushed file that is kept: the bytes from `at` on. */
typedef struct GstLatentWindow {
    GstAdapter *adapter;
    guint64 at;
} GstLatentWindow;

/* Begins a window at byte `at` of the file with these first bytes of it. */
void gst_latent_window_begin(GstLatentWindow *window, guint64 at,
                             const guint8 *data, gsize size);
/* Appends a buffer. (takes buffer) */
void gst_latent_window_push(GstLatentWindow *window, GstBuffer *buffer);
/* Returns the offset in the file after the last byte. */
guint64 gst_latent_window_end(const GstLatentWindow *window);
/* Copies bytes that the window has. */
void gst_latent_window_copy(GstLatentWindow *window, guint64 offset,
                            guint8 *dst, gsize size);
/* Drops the bytes before `offset`. */
void gst_latent_window_drop(GstLatentWindow *window, guint64 offset);
void gst_latent_window_clear(GstLatentWindow *window);

/* Returns the length of the file upstream of the sink pad, or G_MAXUINT64 if it
 * is not known. */
guint64 gst_latent_length(GstPad *pad);

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
