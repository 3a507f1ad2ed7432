/*
 * qos.h: which frames come too late for the sink.
 */
#ifndef GST_VAE_QOS_H
#define GST_VAE_QOS_H

#include <gst/gst.h>

G_BEGIN_DECLS

typedef struct GstVaeQos {
    GstElement *element;
    gboolean enabled; /* the property qos; under the object lock */

    GMutex lock; /* of all that follows; no other is taken while it is held */
    GstClockTime earliest; /* running time that is still useful, or NONE */
    gdouble proportion;    /* how much too slow downstream finds us */
    GstClockTime shown;    /* running time of the last frame made, or NONE */
    GstClockTimeDiff late; /* of the sink's last frame; below 0: early */
    guint slow;         /* slices in a row that took longer than their video */
    gboolean slow_told; /* the warning of them */
} GstVaeQos;

void gst_vae_qos_init(GstVaeQos *qos);
void gst_vae_qos_clear(GstVaeQos *qos);
gboolean gst_vae_qos_is_enabled(GstVaeQos *qos);

/* As if no event had come. */
void gst_vae_qos_reset(GstVaeQos *qos);
/* A QOS event from downstream; frame: duration of one. */
void gst_vae_qos_event(GstVaeQos *qos, GstEvent *event, GstClockTime frame);
/* A slice took this time for video of that duration. Warns once where the sink
 * is late and this is the reason. */
void gst_vae_qos_slice(GstVaeQos *qos, GstClockTime took, GstClockTime video);
/* TRUE: the sink has no more use for a frame of this running time; earliest and
 * proportion are for the message then. */
gboolean gst_vae_qos_is_late(GstVaeQos *qos, GstClockTime running,
                             GstClockTime *earliest, gdouble *proportion);

G_END_DECLS
#endif
