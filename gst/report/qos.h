/*
 * qos.h: finds the frames that come too late for the sink.
 */
#ifndef GST_VAE_QOS_H
#define GST_VAE_QOS_H

#include <gst/gst.h>

G_BEGIN_DECLS

typedef struct GstVaeQos {
    GstElement *element;
    gboolean enabled; /* the property qos; guarded by the object lock */

    GMutex lock; /* guards the members below; its holder takes no other lock */
    GstClockTime earliest; /* earliest running time still useful, or NONE */
    gdouble proportion;    /* the proportion of the last QOS event */
    GstClockTime shown;    /* running time of the last frame, or NONE */
    GstClockTimeDiff late; /* lateness of the sink's last frame; < 0: early */
    guint slow; /* steps in a row that took longer than their video */
    GstClockTime took,
        video;          /* time of the last slice, and duration of its video */
    gboolean slow_told; /* the warning about them was posted */
} GstVaeQos;

void gst_vae_qos_init(GstVaeQos *qos);
void gst_vae_qos_clear(GstVaeQos *qos);
gboolean gst_vae_qos_is_enabled(GstVaeQos *qos);

/* Forgets all events. */
void gst_vae_qos_reset(GstVaeQos *qos);
/* Handles a QOS event from downstream. frame: the duration of a frame. Posts
 * one warning if the sink is late because of slow steps. */
void gst_vae_qos_event(GstVaeQos *qos, GstEvent *event, GstClockTime frame);
/* Adds a slice of so many steps that took this time for video of this duration.
 * May post the same warning. */
void gst_vae_qos_slice(GstVaeQos *qos, guint steps, GstClockTime took,
                       GstClockTime video);
/* Returns TRUE if a frame of this running time is too late for the sink. Then
 * earliest and proportion are the values for the message. */
gboolean gst_vae_qos_is_late(GstVaeQos *qos, GstClockTime running,
                             GstClockTime *earliest, gdouble *proportion);

G_END_DECLS
#endif
