/*
 * checkpoint.h: writes the position of a stream to a file. Only the thread that
 * calls the engine uses it, and holds no lock.
 */
#ifndef GST_VAE_REPORT_CHECKPOINT_H
#define GST_VAE_REPORT_CHECKPOINT_H

#include <gst/gst.h>

#include "vae-private/stream.h"

G_BEGIN_DECLS

/* Properties, guarded by the object lock. */
typedef struct GstVaeCheckpoints {
    gchar *location;
    guint interval;
    gboolean carries;
    gchar *load; /* file of the action load-checkpoint, until it is loaded */
} GstVaeCheckpoints;

/* Writes a checkpoint and posts the message `vae-checkpoint`. Posts a WARNING
 * if it failed, unless quiet. why_not: VAE_OK to write a checkpoint; otherwise
 * the reason, a VAE_ERR_*, why there is none. */
gboolean gst_vae_checkpoint_save(GstElement *element, VaeStream *stream,
                                 const VaeCheckpointParams *params,
                                 const VaeError *why_not, gboolean quiet);

G_END_DECLS
#endif
