/*
 * progress.h: messages about how far loading, opening and, in a file of known
 * length, decoding or encoding has come.
 */
#ifndef GST_VAE_PROGRESS_H
#define GST_VAE_PROGRESS_H

#include <gst/gst.h>

#include "vae-private/model.h"
#include "vae-private/stream.h"

G_BEGIN_DECLS

void gst_vae_progress_post(GstElement *element, GstProgressType type,
                           const gchar *code, const gchar *format, ...)
    G_GNUC_PRINTF(4, 5);
/* How the load of a model ended; info NULL: badly. */
void gst_vae_progress_loaded(GstElement *element, const gchar *path,
                             const VaeModelInfo *info);
/* How the opening of a stream ended; plan NULL: badly. */
void gst_vae_progress_opened(GstElement *element, const VaeStreamParams *params,
                             const VaePlan *plan);

/* How far through a file of known length. No lock: only the task of the source
 * pad uses it, or the thread that has stopped the task. */
typedef struct GstVaeProgress {
    GstElement *element;
    GstPad *sinkpad;   /* whose peer knows the length */
    const gchar *code; /* "decode" or "encode" */
    gboolean begun;
    gint percent;
    gint64 posted_us;
} GstVaeProgress;

/* The input up to this stream time is through. interval: least nanoseconds
 * between two messages. */
void gst_vae_progress_at(GstVaeProgress *progress, GstClockTime position,
                         guint64 interval);
/* How that ended; does nothing where nothing was told. */
void gst_vae_progress_end(GstVaeProgress *progress, GstProgressType type,
                          const gchar *why);

G_END_DECLS
#endif
