/*
 * checkpoint.h: where a stream stands, written to a file. For the thread that
 * calls the engine, without a lock.
 */
#ifndef GST_VAE_REPORT_CHECKPOINT_H
#define GST_VAE_REPORT_CHECKPOINT_H

#include <gst/gst.h>

#include "vae-private/stream.h"

G_BEGIN_DECLS

/* Properties, under the object lock. */
typedef struct GstVaeCheckpoints {
    gchar *location;
    guint interval;
    gboolean carries;
    gchar *load; /* the file of the action load-checkpoint, not yet taken */
} GstVaeCheckpoints;

/* Writes a checkpoint and posts `vae-checkpoint` about it, and a WARNING where
 * that failed. why_not: there is none for this reason, a VAE_ERR_*; VAE_OK: it
 * is written. */
gboolean gst_vae_checkpoint_save(GstElement *element, VaeStream *stream,
                                 const VaeCheckpointParams *params,
                                 const VaeError *why_not);

G_END_DECLS
#endif
