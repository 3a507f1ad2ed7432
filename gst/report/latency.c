/*
 * latency.c: how long buffers are in the element, as a live pipeline has
 * to know it.
 *
 * A latency is how much later a buffer goes out than its running time says,
 * less how much later it came in. Of the last steps, the worst of either is
 * taken: so a step that waits for the call before it counts, and one of several
 * that came at once, ahead of their times, does not. No clock is needed, since
 * what is between running time and the system's is in both.
 */
#include "base.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* What is told is rounded up to this, and changes below are not told. */
#define GRAIN GST_MSECOND

void
gst_vae_latency_reset(GstVaeLatency *latency)
{
    *latency = (GstVaeLatency){.reported = GST_CLOCK_TIME_NONE};
}

void
gst_vae_latency_arrive(GstVaeBase *base, GstVaeItem *item)
{
    item->arrived = gst_util_get_timestamp();
    item->running = GST_CLOCK_TIME_NONE;
    for (guint i = item->n_out; i > 0; i--)
        if (item->out[i - 1].wanted)
            item->running =
                gst_vae_pads_running_time(base, item->out[i - 1].pts);
}

/* Of the steps that are known. Lock held. */
static GstClockTime
computing(const GstVaeLatency *latency)
{
    const guint n = MIN(latency->n, GST_VAE_LATENCY_STEPS);
    GstClockTimeDiff in = G_MININT64, out = G_MININT64;

    for (guint i = 0; i < n; i++) {
        in = MAX(in, latency->in[i]);
        out = MAX(out, latency->out[i]);
    }
    return n > 0 ? (GstClockTime) (out - in) : 0;
}

gboolean
gst_vae_latency_leave(GstVaeBase *base, GstVaeItem **items, guint n)
{
    GstVaeLatency *latency = &base->latency;
    const GstClockTime now = gst_util_get_timestamp();
    GstClockTime found, change;

    for (guint i = 0; i < n; i++) {
        const guint at = latency->n % GST_VAE_LATENCY_STEPS;

        if (!GST_CLOCK_TIME_IS_VALID(items[i]->running))
            continue;
        latency->in[at] = GST_CLOCK_DIFF(items[i]->running, items[i]->arrived);
        latency->out[at] = GST_CLOCK_DIFF(items[i]->running, now);
        latency->n++;
    }
    if (!latency->live || !GST_CLOCK_TIME_IS_VALID(latency->reported))
        return FALSE;
    found = computing(latency);
    change = MAX(found, latency->reported) - MIN(found, latency->reported);
    return (latency->reported == 0 && found > 0) ||
           change > MAX(latency->reported / 4, GRAIN);
}

gboolean
gst_vae_latency_query(GstVaeBase *base, GstQuery *query)
{
    GstVaeLatency *latency = &base->latency;
    GstClockTime min, max, own = 0, held = 0;
    gboolean live;
    guint depth;

    if (!gst_pad_peer_query(base->sinkpad, query))
        return FALSE;
    gst_query_parse_latency(query, &live, &min, &max);
    GST_OBJECT_LOCK(base);
    depth = base->settings.queue_depth;
    GST_OBJECT_UNLOCK(base);

    g_mutex_lock(&base->lock);
    latency->live = live;
    latency->reported = computing(latency);
    if (base->session) {
        own = base->session->collect_time;
        held = depth * MAX(base->slice_limit, 1) * base->session->step_time;
    }
    own += (latency->reported + GRAIN - 1) / GRAIN * GRAIN;
    g_mutex_unlock(&base->lock);

    GST_DEBUG_OBJECT(base, "latency %" GST_TIME_FORMAT " of our own",
                     GST_TIME_ARGS(own));
    if (GST_CLOCK_TIME_IS_VALID(max))
        max += own + held;
    gst_query_set_latency(query, live, min + own, max);
    return TRUE;
}
