/*
 * progress.h: posts messages about the progress of loading a model, of opening
 * a stream and, if the input's length is known, of decoding or encoding.
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
/* Posts the end of loading a model. info: NULL if it failed. */
void gst_vae_progress_loaded(GstElement *element, const gchar *path,
                             const VaeModelInfo *info);
/* Posts the end of opening a stream. plan: NULL unless status is VAE_OK. */
void gst_vae_progress_opened(GstElement *element, const VaeStreamParams *params,
                             VaeStatus status, const VaePlan *plan);

/* The progress through an input of known length. It has no lock, because only
 * the task of the source pad uses it, or the thread that has stopped the task.
 */
typedef struct GstVaeProgress {
    GstElement *element;
    GstPad *sinkpad;   /* its peer knows the length */
    const gchar *code; /* "decode" or "encode" */
    gboolean begun;
    gint percent;
    gint64 posted_us;
} GstVaeProgress;

/* Called when all input up to this stream time is done. interval: the least
 * time between two messages in nanoseconds. */
void gst_vae_progress_at(GstVaeProgress *progress, GstClockTime position,
                         guint64 interval);
/* Posts the end of the progress, if a message about it was posted before. */
void gst_vae_progress_end(GstVaeProgress *progress, GstProgressType type,
                          const gchar *why);

G_END_DECLS
#endif
