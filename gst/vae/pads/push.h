/*
 * push.h: the task of the source pad, which pushes the items of the queue, and
 * flushes, which stop the task, the worker and the sink pad.
 */
#ifndef GST_VAE_PUSH_H
#define GST_VAE_PUSH_H

#include "base.h"

G_BEGIN_DECLS

/* Wakes all waiting threads and cancels the engine's call. */
void gst_vae_push_set_flushing(GstVaeBase *base);
/* Empties the queue. keep_sticky: stores sticky events on the source pad. */
void gst_vae_push_clear(GstVaeBase *base, gboolean keep_sticky);
/* Ends a flush. Returns FALSE, after an error message, if there is no thread
 * for the task. */
gboolean gst_vae_push_start(GstVaeBase *base);
/* Stops using the pool of the source pad. For the task, or after it has
 * stopped.
 */
void gst_vae_push_drop_pool(GstVaeBase *base);

G_END_DECLS
#endif
