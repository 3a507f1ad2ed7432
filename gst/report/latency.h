/*
 * latency.h: how long buffers are in the element, as a live pipeline has to
 * know it.
 *
 * A latency is how much later a buffer goes out than its running time says,
 * less how much later it came in. The worst of either counts among the last
 * steps: so a step that waits for the call before it counts, and one of several
 * that came at once, ahead of their times, does not. No clock is needed, since
 * the offset between running time and the system's is in both.
 */
#ifndef GST_VAE_LATENCY_H
#define GST_VAE_LATENCY_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* Steps that are remembered. */
#define GST_VAE_LATENCY_STEPS 16

typedef struct GstVaeLatency {
    GMutex lock; /* of all that follows; no other is taken while it is held */
    GstClockTimeDiff in[GST_VAE_LATENCY_STEPS]; /* to their running times */
    GstClockTimeDiff out[GST_VAE_LATENCY_STEPS];
    guint64 n;             /* steps so far */
    GstClockTime reported; /* of computing, as last told; NONE: never */
    gboolean live;         /* as upstream said then */
} GstVaeLatency;

void gst_vae_latency_init(GstVaeLatency *latency);
void gst_vae_latency_clear(GstVaeLatency *latency);

/* As if no step had been. */
void gst_vae_latency_reset(GstVaeLatency *latency);
/* A step that is ready now; arrived, by gst_util_get_timestamp(), is when it
 * came in. A running time of NONE does not count. */
void gst_vae_latency_add(GstVaeLatency *latency, GstClockTime running,
                         GstClockTime arrived);
/* TRUE: the latency has changed by more than a quarter, and a live pipeline has
 * to hear of it. */
gboolean gst_vae_latency_changed(GstVaeLatency *latency);
/* The time that computing takes, rounded up, which the pipeline is told now. */
GstClockTime gst_vae_latency_report(GstVaeLatency *latency, gboolean live);

G_END_DECLS
#endif
