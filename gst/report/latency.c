/*
 * latency.c: measures how long buffers stay in the element.
 */
#include "latency.h"

/* Reports are rounded up to this; smaller changes are not reported. */
#define GRAIN GST_MSECOND

void
gst_vae_latency_init(GstVaeLatency *latency)
{
    g_mutex_init(&latency->lock);
    gst_vae_latency_reset(latency);
}

void
gst_vae_latency_clear(GstVaeLatency *latency)
{
    g_mutex_clear(&latency->lock);
}

void
gst_vae_latency_reset(GstVaeLatency *latency)
{
    g_mutex_lock(&latency->lock);
    latency->n = 0;
    latency->told = GST_CLOCK_TIME_NONE;
    latency->live = FALSE;
    g_mutex_unlock(&latency->lock);
}

void
gst_vae_latency_add(GstVaeLatency *latency, GstClockTime running,
                    GstClockTime arrived)
{
    const GstClockTime now = gst_util_get_timestamp();
    guint at;

    if (!GST_CLOCK_TIME_IS_VALID(running))
        return;
    g_mutex_lock(&latency->lock);
    at = latency->n++ % GST_VAE_LATENCY_STEPS;
    latency->in[at] = GST_CLOCK_DIFF(running, arrived);
    latency->out[at] = GST_CLOCK_DIFF(running, now);
    g_mutex_unlock(&latency->lock);
}

/* The time that computing takes, by the last steps. Lock held. */
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
gst_vae_latency_changed(GstVaeLatency *latency)
{
    gboolean changed = FALSE;

    g_mutex_lock(&latency->lock);
    if (latency->live && GST_CLOCK_TIME_IS_VALID(latency->told)) {
        const GstClockTime told = latency->told;
        const GstClockTime found = computing(latency);

        changed = (told == 0 && found > 0) ||
                  MAX(found, told) - MIN(found, told) > MAX(told / 4, GRAIN);
        if (changed)
            latency->told = found;
    }
    g_mutex_unlock(&latency->lock);
    return changed;
}

GstClockTime
gst_vae_latency_report(GstVaeLatency *latency, gboolean live)
{
    GstClockTime found;

    g_mutex_lock(&latency->lock);
    latency->live = live;
    latency->told = found = computing(latency);
    g_mutex_unlock(&latency->lock);
    return (found + GRAIN - 1) / GRAIN * GRAIN;
}
