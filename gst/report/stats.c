/*
 * stats.c: the property `stats`, the message `vae-stats` and the warning
 * of values that are no numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* In the order of GstVaeTime. */
static const gchar *const time_names[GST_VAE_TIMES] = {
    "upload", "compute", "download", "queue-wait", "slice"};

static gdouble
rate(const GstVaeCounters *c)
{
    const gint64 us = c->last_us - c->first_us;

    return us > 0 ? (gdouble) c->frames * G_USEC_PER_SEC / (gdouble) us : 0;
}

static int
compare(const void *a, const void *b)
{
    const guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;

    return (x > y) - (x < y);
}

/* The smallest that 95 of 100 recent ones do not exceed. */
static guint64
percentile_95(const GstVaeTimes *times, guint64 slices)
{
    const gsize n = (gsize) MIN(slices, GST_VAE_RECENT);
    guint64 sorted[GST_VAE_RECENT];

    if (n == 0)
        return 0;
    memcpy(sorted, times->recent, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    return sorted[(n * 95 + 99) / 100 - 1];
}

static void
set_time(GstStructure *s, const gchar *which, const gchar *kind, guint64 ns)
{
    gchar name[32];

    g_snprintf(name, sizeof name, "%s-%s-ns", which, kind);
    gst_structure_set(s, name, G_TYPE_UINT64, ns, NULL);
}

static void
set_times(GstStructure *s, const GstVaeCounters *c)
{
    for (guint i = 0; i < GST_VAE_TIMES; i++) {
        const GstVaeTimes *t = &c->times[i];

        set_time(s, "avg", time_names[i], c->slices ? t->total / c->slices : 0);
        set_time(s, "p95", time_names[i], percentile_95(t, c->slices));
        set_time(s, "last", time_names[i], t->last);
        set_time(s, "total", time_names[i], t->total);
    }
}

static void
set_plan(GstStructure *s, const VaePlan *plan)
{
    gst_structure_set(
        s, "bytes-weights", G_TYPE_UINT64, plan->weights, "bytes-carries",
        G_TYPE_UINT64, plan->carries, "bytes-arena", G_TYPE_UINT64, plan->arena,
        "bytes-scratch", G_TYPE_UINT64, plan->scratch, "bytes-staging",
        G_TYPE_UINT64, plan->staging, "bytes-library", G_TYPE_UINT64,
        plan->library, "bytes-fallback", G_TYPE_UINT64, plan->fallback,
        "bytes-total", G_TYPE_UINT64, plan->total, "backend", G_TYPE_STRING,
        vae_backend_name(plan->backend), "precision", G_TYPE_STRING,
        vae_precision_name(plan->precision), "slice-size", G_TYPE_UINT,
        (guint) plan->slice_size, NULL);
}

GstStructure *
gst_vae_stats_structure(GstVaeBase *base)
{
    GstStructure *s;
    GstVaeCounters c;
    guint in_flight;

    g_mutex_lock(&base->lock);
    c = base->counters;
    in_flight = base->n_steps;
    g_mutex_unlock(&base->lock);
    s = gst_structure_new(
        "vae-stats", "slices", G_TYPE_UINT64, c.slices, "steps", G_TYPE_UINT64,
        c.steps, "frames", G_TYPE_UINT64, c.frames, "dropped", G_TYPE_UINT64,
        c.dropped, "in-flight", G_TYPE_UINT, in_flight, "fps", G_TYPE_DOUBLE,
        rate(&c), "nonfinite", G_TYPE_UINT64, c.nonfinite, "nan-steps",
        G_TYPE_UINT64, c.nan_steps, "mended-steps", G_TYPE_UINT64,
        c.mended_steps, "device", G_TYPE_STRING, c.device, NULL);
    set_times(s, &c);
    set_plan(s, &c.plan);
    return s;
}

/* Nanoseconds of the slice that comes next. Lock held. */
static void
add_time(GstVaeCounters *c, GstVaeTime kind, guint64 ns)
{
    GstVaeTimes *t = &c->times[kind];

    t->total += ns;
    t->last = ns;
    t->recent[c->slices % GST_VAE_RECENT] = ns;
}

void
gst_vae_stats_count(GstVaeBase *base, GstVaeItem **items, guint n,
                    const VaeStreamStats *before, gint64 start_us,
                    gint64 end_us)
{
    GstVaeCounters *c = &base->counters;
    VaeStreamStats now;

    vae_stream_stats(base->stream, &now);
    add_time(c, GST_VAE_TIME_UPLOAD, now.upload_ns - before->upload_ns);
    add_time(c, GST_VAE_TIME_COMPUTE, now.compute_ns - before->compute_ns);
    add_time(c, GST_VAE_TIME_DOWNLOAD, now.download_ns - before->download_ns);
    add_time(c, GST_VAE_TIME_QUEUE_WAIT,
             (guint64) MAX(start_us - (gint64) (items[0]->arrived / 1000), 0) *
                 1000);
    add_time(c, GST_VAE_TIME_SLICE, (guint64) (end_us - start_us) * 1000);
    c->slices++;
    c->steps += n;
    c->nonfinite += now.nonfinite - before->nonfinite;
    c->nan_steps += now.spoilt - before->spoilt;
    c->mended_steps += now.mended - before->mended;
    if (c->first_us == 0)
        c->first_us = start_us;
    c->last_us = end_us;
}

void
gst_vae_stats_post(GstVaeBase *base, gboolean now)
{
    const gint64 us = g_get_monotonic_time();
    guint64 interval;
    gboolean due;

    GST_OBJECT_LOCK(base);
    due = base->settings.post_stats;
    interval = base->settings.stats_interval;
    GST_OBJECT_UNLOCK(base);
    if (!due)
        return;
    g_mutex_lock(&base->lock);
    due = now || base->posted_us == 0 ||
          (guint64) (us - base->posted_us) >= interval / 1000;
    if (due)
        base->posted_us = us;
    g_mutex_unlock(&base->lock);
    if (due)
        gst_element_post_message(
            GST_ELEMENT(base),
            gst_message_new_element(GST_OBJECT(base),
                                    gst_vae_stats_structure(base)));
}

static void
warn_latents(GstVaeBase *base, guint64 nonfinite)
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

GstVaeNans
gst_vae_stats_nans(const GstVaeBase *base)
{
    const GstVaeCounters *c = &base->counters;

    return (GstVaeNans){c->nonfinite, c->mended_steps,
                        c->nan_steps - c->mended_steps};
}

void
gst_vae_stats_warn(GstVaeBase *base, const GstVaeNans *before)
{
    GstVaeNans now;

    g_mutex_lock(&base->lock);
    now = gst_vae_stats_nans(base);
    g_mutex_unlock(&base->lock);
    if (now.latents > 0 && before->latents == 0)
        warn_latents(base, now.latents);
    if (now.mended > 0 && before->mended == 0)
        GST_ELEMENT_WARNING(
            base, STREAM, FORMAT,
            ("The model overflowed in %s; such steps are computed in fp32, "
             "which takes longer",
             vae_precision_name(base->counters.plan.precision)),
            ("the property stats counts them as nan-steps and mended-steps"));
    if (now.spoilt > 0 && before->spoilt == 0 && now.latents == 0)
        GST_ELEMENT_WARNING(
            base, STREAM, FORMAT,
            ("The model gives NaN or infinite values in fp32, too: what these "
             "reach is wrong"),
            ("the property stats counts such steps as nan-steps"));
}
