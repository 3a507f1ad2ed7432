/*
 * stats.c: keeps the numbers of the property `stats` and of the message `vae-
 * stats`, and warns of values that are not finite.
 */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

/* In the order of GstVaeTime. */
static const gchar *const time_names[GST_VAE_TIMES] = {
    "upload", "compute", "download", "queue-wait", "slice"};

void
gst_vae_stats_init(GstVaeStats *stats)
{
    g_mutex_init(&stats->lock);
}

void
gst_vae_stats_clear(GstVaeStats *stats)
{
    g_mutex_clear(&stats->lock);
}

guint64
gst_vae_stats_interval(GstVaeStats *stats)
{
    guint64 interval;

    GST_OBJECT_LOCK(stats->element);
    interval = stats->interval;
    GST_OBJECT_UNLOCK(stats->element);
    return interval;
}

void
gst_vae_stats_begin(GstVaeStats *stats)
{
    g_mutex_lock(&stats->lock);
    stats->begun = TRUE;
    stats->counters = (GstVaeCounters){0};
    stats->posted_us = 0;
    g_mutex_unlock(&stats->lock);
}

void
gst_vae_stats_stream(GstVaeStats *stats, const VaeStream *stream,
                     const gchar *model, gint look_ahead)
{
    g_mutex_lock(&stats->lock);
    g_strlcpy(stats->counters.model, model, sizeof stats->counters.model);
    stats->counters.look_ahead = look_ahead;
    stats->counters.plan = *vae_stream_get_plan(stream);
    g_strlcpy(stats->counters.device, vae_stream_get_plan(stream)->device,
              sizeof stats->counters.device);
    g_mutex_unlock(&stats->lock);
}

void
gst_vae_stats_waiting(GstVaeStats *stats, guint results)
{
    g_mutex_lock(&stats->lock);
    stats->counters.waiting = results;
    g_mutex_unlock(&stats->lock);
}

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

/* Returns the smallest value that 95 of 100 recent ones do not exceed. */
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
    gchar setting[160] = "";

    if (plan->slice_size > 0)
        vae_plan_setting(plan, setting, sizeof setting);
    gst_structure_set(
        s, "memory-setting", G_TYPE_STRING, setting, "bytes-weights",
        G_TYPE_UINT64, plan->weights, "bytes-carries", G_TYPE_UINT64,
        plan->carries, "bytes-spilled", G_TYPE_UINT64, plan->spilled,
        "bytes-activations", G_TYPE_UINT64, plan->arena, "bytes-scratch",
        G_TYPE_UINT64, plan->scratch, "bytes-staging", G_TYPE_UINT64,
        plan->staging, "bytes-library", G_TYPE_UINT64, plan->library,
        "bytes-ops", G_TYPE_UINT64, plan->ops, "bytes-fallback", G_TYPE_UINT64,
        plan->fallback, "bytes-total", G_TYPE_UINT64, plan->total, "backend",
        G_TYPE_STRING, vae_backend_name(plan->backend), "precision",
        G_TYPE_STRING, vae_precision_name(plan->precision), "slice-size",
        G_TYPE_UINT, (guint) plan->slice_size, "frames-at-once", G_TYPE_UINT,
        (guint) plan->frames_at_once, "strips", G_TYPE_UINT,
        (guint) plan->strips, "tiles", G_TYPE_UINT, (guint) plan->tiles,
        "bytes-tiled", G_TYPE_UINT64, plan->tiled, NULL);
}

GstStructure *
gst_vae_stats_structure(GstVaeStats *stats, guint in_flight)
{
    GstStructure *s;
    GstVaeCounters c;
    gboolean begun;

    g_mutex_lock(&stats->lock);
    c = stats->counters;
    begun = stats->begun;
    g_mutex_unlock(&stats->lock);
    if (!begun)
        return gst_structure_new_empty("vae-stats");
    s = gst_structure_new(
        "vae-stats", "slices", G_TYPE_UINT64, c.slices, "steps", G_TYPE_UINT64,
        c.steps, "frames", G_TYPE_UINT64, c.frames, "dropped", G_TYPE_UINT64,
        c.dropped, "in-flight", G_TYPE_UINT, in_flight, "look-ahead",
        G_TYPE_UINT, (guint) c.look_ahead, "waiting", G_TYPE_UINT, c.waiting,
        "fps", G_TYPE_DOUBLE, rate(&c), "nonfinite", G_TYPE_UINT64, c.nonfinite,
        "nan-steps", G_TYPE_UINT64, c.nan_steps, "recovered-steps",
        G_TYPE_UINT64, c.recovered_steps, "device", G_TYPE_STRING, c.device,
        "model", G_TYPE_STRING, c.model, NULL);
    set_times(s, &c);
    set_plan(s, &c.plan);
    return s;
}

void
gst_vae_stats_post(GstVaeStats *stats, guint in_flight, gboolean now)
{
    const gint64 us = g_get_monotonic_time();
    const guint64 interval = gst_vae_stats_interval(stats);
    gboolean due;

    GST_OBJECT_LOCK(stats->element);
    due = stats->post;
    GST_OBJECT_UNLOCK(stats->element);
    if (!due)
        return;
    g_mutex_lock(&stats->lock);
    due = now || stats->posted_us == 0 ||
          (guint64) (us - stats->posted_us) >= interval / 1000;
    if (due)
        stats->posted_us = us;
    g_mutex_unlock(&stats->lock);
    if (due)
        gst_element_post_message(
            stats->element,
            gst_message_new_element(GST_OBJECT(stats->element),
                                    gst_vae_stats_structure(stats, in_flight)));
}

void
gst_vae_stats_frames(GstVaeStats *stats, guint n)
{
    g_mutex_lock(&stats->lock);
    stats->counters.frames += n;
    g_mutex_unlock(&stats->lock);
}

guint64
gst_vae_stats_dropped(GstVaeStats *stats, guint64 *frames)
{
    guint64 dropped;

    g_mutex_lock(&stats->lock);
    dropped = ++stats->counters.dropped;
    *frames = stats->counters.frames;
    g_mutex_unlock(&stats->lock);
    return dropped;
}

/* ------------------------------------------------------------------ */
/* Slices.                                                             */

/* Counters. The first increment of each in a stream posts a warning. */
typedef struct Nans {
    guint64 latents;    /* values of latents that are not finite */
    guint64 recovered;  /* steps in fp32 instead */
    guint64 non_finite; /* steps that are not finite in fp32 either */
} Nans;

static Nans
nans_of(const GstVaeCounters *c)
{
    return (Nans){c->nonfinite, c->recovered_steps,
                  c->nan_steps - c->recovered_steps};
}

/* Adds the nanoseconds of a slice. Lock held. */
static void
add_time(GstVaeCounters *c, GstVaeTime kind, guint64 ns)
{
    GstVaeTimes *t = &c->times[kind];

    t->total += ns;
    t->last = ns;
    t->recent[c->slices % GST_VAE_RECENT] = ns;
}

static void
count(GstVaeCounters *c, const GstVaeSliceTime *slice)
{
    const VaeStreamStats *before = &slice->before, *now = &slice->after;
    const gint64 waited = slice->start_us - (gint64) (slice->arrived / 1000);

    add_time(c, GST_VAE_TIME_UPLOAD, now->upload_ns - before->upload_ns);
    add_time(c, GST_VAE_TIME_COMPUTE, now->compute_ns - before->compute_ns);
    add_time(c, GST_VAE_TIME_DOWNLOAD, now->download_ns - before->download_ns);
    add_time(c, GST_VAE_TIME_QUEUE_WAIT, (guint64) MAX(waited, 0) * 1000);
    add_time(c, GST_VAE_TIME_SLICE,
             (guint64) (slice->end_us - slice->start_us) * 1000);
    c->slices++;
    c->steps += slice->steps;
    c->nonfinite += now->nonfinite - before->nonfinite;
    c->nan_steps += now->nonfinite_steps - before->nonfinite_steps;
    c->recovered_steps += now->recovered_steps - before->recovered_steps;
    if (c->first_us == 0)
        c->first_us = slice->start_us;
    c->last_us = slice->end_us;
}

static void
warn_latents(GstVaeStats *stats, const gchar *source, guint64 nonfinite)
{
    g_autofree gchar *debug =
        g_strdup_printf("%s so far; the property stats counts all",
                        VAE_COUNTED(nonfinite, "value"));

    gst_vae_warn_input(
        stats->element, source,
        stats->decodes
            ? "the latents have values that are NaN, infinite or too large "
              "for float32, and the frames that these reach are wrong: the "
              "fault is in what made the latents"
            : "the model made NaN or infinite values of the video: another "
              "precision, such as precision=fp32, may avoid them",
        debug);
}

/* Warns of the counts that were 0 before. */
static void
warn(GstVaeStats *stats, const gchar *source, const Nans *before,
     const Nans *now, VaePrecision precision)
{
    if (now->latents > 0 && before->latents == 0)
        warn_latents(stats, source, now->latents);
    if (now->recovered > 0 && before->recovered == 0)
        GST_ELEMENT_WARNING(
            stats->element, STREAM, FORMAT,
            ("The model overflowed in %s; such steps are computed in fp32, "
             "which takes longer",
             vae_precision_name(precision)),
            ("the property stats counts them as nan-steps and "
             "recovered-steps"));
    if (now->non_finite > 0 && before->non_finite == 0 && now->latents == 0)
        GST_ELEMENT_WARNING(
            stats->element, STREAM, FORMAT,
            ("The model gives NaN or infinite values in fp32, too: the results "
             "that they reach are wrong"),
            ("the property stats counts such steps as nan-steps"));
}

void
gst_vae_stats_slice(GstVaeStats *stats, const GstVaeSliceTime *slice)
{
    VaePrecision precision;
    Nans before, now;

    g_mutex_lock(&stats->lock);
    before = nans_of(&stats->counters);
    count(&stats->counters, slice);
    now = nans_of(&stats->counters);
    precision = stats->counters.plan.precision;
    g_mutex_unlock(&stats->lock);
    warn(stats, slice->source, &before, &now, precision);
}
