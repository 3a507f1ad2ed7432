/*
 * push.h: the task of the source pad, which pushes the items of the queue; and
 * flushes, which stop it, the worker and the sink pad at once.
 */
#ifndef GST_VAE_PUSH_H
#define GST_VAE_PUSH_H

#include "base.h"

G_BEGIN_DECLS

/* Wakes all that wait and cancels the engine's call. */
void gst_vae_push_set_flushing(GstVaeBase *base);
/* Empties the queue; keep_sticky: sticky events are kept on the source pad. */
void gst_vae_push_clear(GstVaeBase *base, gboolean keep_sticky);
/* The end of a flush. FALSE after an error message: there is no thread for the
 * task. */
gboolean gst_vae_push_start(GstVaeBase *base);
/* Stops using the pool of the source pad. For the task, or once it is
 * stopped. */
void gst_vae_push_drop_pool(GstVaeBase *base);

G_END_DECLS
#endif
