/*
 * gstvaestats.c: the property `stats`, the message `vae-stats` and the warning
 * of values that are no numbers.
 */
#include "gstvaebase.h"

#define POST_EVERY_US G_USEC_PER_SEC

static gdouble
rate(const GstVaeCounters *c)
{
    const gint64 us = c->last_us - c->first_us;

    return us > 0 ? (gdouble) c->frames * G_USEC_PER_SEC / (gdouble) us : 0;
}

GstStructure *
gst_vae_stats_structure(GstVaeBase *base)
{
    GstVaeCounters c;
    guint in_flight;

    g_mutex_lock(&base->lock);
    c = base->counters;
    in_flight = base->n_steps;
    g_mutex_unlock(&base->lock);
    return gst_structure_new(
        "vae-stats", "slices", G_TYPE_UINT64, c.slices, "steps", G_TYPE_UINT64,
        c.steps, "frames", G_TYPE_UINT64, c.frames, "dropped", G_TYPE_UINT64,
        c.dropped, "in-flight", G_TYPE_UINT, in_flight, "fps", G_TYPE_DOUBLE,
        rate(&c), "avg-compute-ns", G_TYPE_UINT64,
        c.slices ? c.compute_ns / c.slices : 0, "last-compute-ns",
        G_TYPE_UINT64, c.last_ns, "nonfinite", G_TYPE_UINT64, c.nonfinite,
        "bytes-weights", G_TYPE_UINT64, c.plan.weights, "bytes-carries",
        G_TYPE_UINT64, c.plan.carries, "bytes-arena", G_TYPE_UINT64,
        c.plan.arena, "bytes-scratch", G_TYPE_UINT64, c.plan.scratch,
        "bytes-staging", G_TYPE_UINT64, c.plan.staging, "bytes-total",
        G_TYPE_UINT64, c.plan.total, "backend", G_TYPE_STRING,
        vae_backend_name(c.plan.backend), "precision", G_TYPE_STRING,
        vae_precision_name(c.plan.precision), "slice-size", G_TYPE_UINT,
        (guint) c.plan.slice_size, NULL);
}

void
gst_vae_stats_post(GstVaeBase *base, gboolean now)
{
    const gint64 us = g_get_monotonic_time();
    gboolean due;

    GST_OBJECT_LOCK(base);
    due = base->settings.post_stats;
    GST_OBJECT_UNLOCK(base);
    if (!due)
        return;
    g_mutex_lock(&base->lock);
    due = now || us - base->posted_us >= POST_EVERY_US;
    if (due)
        base->posted_us = us;
    g_mutex_unlock(&base->lock);
    if (due)
        gst_element_post_message(
            GST_ELEMENT(base),
            gst_message_new_element(GST_OBJECT(base),
                                    gst_vae_stats_structure(base)));
}

void
gst_vae_stats_warn(GstVaeBase *base, guint64 nonfinite)
{
    const gboolean decodes =
        GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE;

    GST_ELEMENT_WARNING(
        base, STREAM, FORMAT,
        ("%s",
         decodes ? "The latents have NaN or infinite values, and the frames "
                   "that these reach are wrong: the fault is in what made the "
                   "latents"
                 : "The model made NaN or infinite values of the video: "
                   "another precision, such as precision=fp32, may avoid them"),
        ("%" G_GUINT64_FORMAT " values so far; the property stats counts all",
         nonfinite));
}
