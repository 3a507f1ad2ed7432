/*
 * latency.h: measures the latency that a live pipeline must know.
 *
 * The lateness of a buffer is the time at which it enters or leaves the
 * element, minus its running time. The latency is the largest lateness of the
 * last output buffers minus the largest lateness of the last input buffers.
 * This includes the wait of a step for the call before it. It does not include
 * steps that arrive together and ahead of their times. The measurement needs no
 * clock, because the offset between running time and system time cancels out.
 */
#ifndef GST_VAE_LATENCY_H
#define GST_VAE_LATENCY_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* The number of steps that are remembered. */
#define GST_VAE_LATENCY_STEPS 16

typedef struct GstVaeLatency {
    GMutex lock; /* guards the members below; its holder takes no other lock */
    GstClockTimeDiff in[GST_VAE_LATENCY_STEPS]; /* lateness of the inputs */
    GstClockTimeDiff out[GST_VAE_LATENCY_STEPS];
    guint64 n;         /* steps so far */
    GstClockTime told; /* the last time of computing that the pipeline was told,
                          in an answer or by a message; NONE: not yet */
    gboolean live;     /* upstream was live at the last answer */
} GstVaeLatency;

void gst_vae_latency_init(GstVaeLatency *latency);
void gst_vae_latency_clear(GstVaeLatency *latency);

/* Forgets all steps. */
void gst_vae_latency_reset(GstVaeLatency *latency);
/* Adds a step that is ready now. arrived: when it entered the element, by
 * gst_util_get_timestamp(). A step whose running time is NONE does not count.
 */
void gst_vae_latency_add(GstVaeLatency *latency, GstClockTime running,
                         GstClockTime arrived);
/* Returns TRUE if the latency has changed by more than a quarter, so that a
 * live pipeline must be told. The same change is returned once, also if the
 * pipeline never asks. */
gboolean gst_vae_latency_changed(GstVaeLatency *latency);
/* Returns the time that computing takes, rounded up, and remembers that the
 * pipeline was told. */
GstClockTime gst_vae_latency_report(GstVaeLatency *latency, gboolean live);

G_END_DECLS
#endif
