/*
 * delay.h: results that come later than their input: the frames of a decoder
 * that looks ahead, and the latents of an encoder that computes tiles of
 * latents. They are planned when their input arrives, which has their times,
 * and wait for the step that gives them. For the streaming thread of the sink
 * pad, or the thread that stopped it.
 */
#ifndef GST_VAE_DELAY_H
#define GST_VAE_DELAY_H

#include "base.h"

G_BEGIN_DECLS

/* The number of the first `all` results of a sequence that wait when no more
 * are planned. */
guint64 gst_vae_delay_waiting_of(const GstVaeSession *session, guint64 all);
/* The longest time that a result waits for later input. */
GstClockTime gst_vae_delay_time(const GstVaeSession *session);
/* Replaces the results of a planned step by those that the engine returns with
 * this step. Without a delay nothing changes. */
void gst_vae_delay_step(GstVaeBase *base, GstVaeItem *item);
/* Appends a result to those that wait. (copies out, takes its metas) */
void gst_vae_delay_add(GstVaeBase *base, const GstVaeOut *out);
/* Returns TRUE if results of the segment wait. */
gboolean gst_vae_delay_is_waiting(const GstVaeBase *base);
/* Queues the steps that give the waiting results. The next step must begin a
 * sequence. */
GstFlowReturn gst_vae_delay_drain(GstVaeBase *base);
/* Drops the waiting results. */
void gst_vae_delay_forget(GstVaeBase *base);

G_END_DECLS
#endif
