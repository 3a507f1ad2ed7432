/*
 * qos.c: decides which frames come too late for the sink, and warns once if the
 * decoder is slower than real time.
 */
#include "qos.h"

/* A late stream still shows a picture this often. */
#define SHOW_EVERY GST_SECOND

/* The decoder is too slow if it is this late after so many steps. */
#define TOO_LATE (GST_SECOND / 2)
#define SLOW_STEPS 3

void
gst_vae_qos_init(GstVaeQos *qos)
{
    g_mutex_init(&qos->lock);
    qos->enabled = TRUE;
    gst_vae_qos_reset(qos);
}

void
gst_vae_qos_clear(GstVaeQos *qos)
{
    g_mutex_clear(&qos->lock);
}

gboolean
gst_vae_qos_is_enabled(GstVaeQos *qos)
{
    gboolean enabled;

    GST_OBJECT_LOCK(qos->element);
    enabled = qos->enabled;
    GST_OBJECT_UNLOCK(qos->element);
    return enabled;
}

void
gst_vae_qos_reset(GstVaeQos *qos)
{
    g_mutex_lock(&qos->lock);
    qos->earliest = qos->shown = GST_CLOCK_TIME_NONE;
    qos->late = 0;
    qos->slow = 0;
    g_mutex_unlock(&qos->lock);
}

/* Posts the warning if it is due. */
static void
tell_if_slow(GstVaeQos *qos)
{
    GstClockTime took, video;
    gboolean tell;

    g_mutex_lock(&qos->lock);
    tell = qos->slow >= SLOW_STEPS && !qos->slow_told &&
           qos->late > (GstClockTimeDiff) TOO_LATE;
    qos->slow_told |= tell;
    took = qos->took;
    video = qos->video;
    g_mutex_unlock(&qos->lock);
    if (!tell)
        return;
    gint slice;
    g_object_get(qos->element, "slice-size", &slice, NULL);
    GST_ELEMENT_WARNING(
        qos->element, CORE, CLOCK,
        ("Decoding is %.1f times slower than real time, so frames come too "
         "late for the sink: a smaller model of the same latent space is "
         "faster, %ssync=false on the sink shows every frame as soon as "
         "it is decoded",
         (gdouble) took / (gdouble) video,
         slice == 1 ? "and "
                    : "slice-size=1 delivers frames in smaller groups, "
                      "and "),
        ("the last slice has %.3f s of video and took %.3f s",
         (gdouble) video / GST_SECOND, (gdouble) took / GST_SECOND));
}

void
gst_vae_qos_event(GstVaeQos *qos, GstEvent *event, GstClockTime frame)
{
    GstClockTimeDiff diff;
    GstClockTime timestamp;
    gdouble proportion;

    gst_event_parse_qos(event, NULL, &proportion, &diff, &timestamp);
    g_mutex_lock(&qos->lock);
    qos->proportion = proportion;
    qos->late = diff;
    if (!GST_CLOCK_TIME_IS_VALID(timestamp))
        qos->earliest = GST_CLOCK_TIME_NONE;
    else if (diff > 0) /* frames that are due now would be too late, too */
        qos->earliest = timestamp + 2 * (GstClockTime) diff + frame;
    else
        qos->earliest = timestamp - MIN(timestamp, (GstClockTime) -diff);
    g_mutex_unlock(&qos->lock);
    tell_if_slow(qos);
}

void
gst_vae_qos_slice(GstVaeQos *qos, guint steps, GstClockTime took,
                  GstClockTime video)
{
    g_mutex_lock(&qos->lock);
    qos->slow = took > video ? qos->slow + steps : 0;
    qos->took = took;
    qos->video = video;
    g_mutex_unlock(&qos->lock);
    tell_if_slow(qos);
}

gboolean
gst_vae_qos_is_late(GstVaeQos *qos, GstClockTime running,
                    GstClockTime *earliest, gdouble *proportion)
{
    const gboolean enabled = gst_vae_qos_is_enabled(qos);
    gboolean late;

    g_mutex_lock(&qos->lock);
    *earliest = qos->earliest;
    *proportion = qos->proportion;
    late = enabled && GST_CLOCK_TIME_IS_VALID(qos->earliest) &&
           GST_CLOCK_TIME_IS_VALID(running) && running < qos->earliest &&
           GST_CLOCK_TIME_IS_VALID(qos->shown) &&
           running < qos->shown + SHOW_EVERY;
    if (!late)
        qos->shown = running;
    g_mutex_unlock(&qos->lock);
    return late;
}
