/*
 * progress.c: posts messages about the progress of loading, opening and, in a
 * file of known length, of decoding or encoding.
 */
#include "progress.h"

#define MEBIBYTE 1048576.0

void
gst_vae_progress_post(GstElement *element, GstProgressType type,
                      const gchar *code, const gchar *format, ...)
{
    va_list args;
    gchar *text;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    gst_element_post_message(
        element,
        gst_message_new_progress(GST_OBJECT(element), type, code, text));
    g_free(text);
}

void
gst_vae_progress_loaded(GstElement *element, const gchar *path,
                        const VaeModelInfo *info)
{
    if (info)
        gst_vae_progress_post(element, GST_PROGRESS_TYPE_COMPLETE, "load-model",
                              "loaded %s: %s, latent space %s", path,
                              info->arch,
                              info->space ? info->space : "unknown");
    else
        gst_vae_progress_post(element, GST_PROGRESS_TYPE_ERROR, "load-model",
                              "cannot load %s", path);
}

void
gst_vae_progress_opened(GstElement *element, const VaeStreamParams *params,
                        VaeStatus status, const VaePlan *plan)
{
    if (plan)
        gst_vae_progress_post(
            element, GST_PROGRESS_TYPE_COMPLETE, "open-stream",
            "ready for %dx%d pixels: backend %s, precision %s, slices of %d, "
            "%.1f MiB",
            params->width, params->height, vae_backend_name(plan->backend),
            vae_precision_name(plan->precision), plan->slice_size,
            (gdouble) plan->total / MEBIBYTE);
    else if (status == VAE_ERR_CANCELLED)
        gst_vae_progress_post(element, GST_PROGRESS_TYPE_CANCELED,
                              "open-stream", "stopped");
    else
        gst_vae_progress_post(element, GST_PROGRESS_TYPE_ERROR, "open-stream",
                              "cannot compute %dx%d pixels", params->width,
                              params->height);
}

/* ------------------------------------------------------------------ */
/* Through a file.                                                     */

/* A message has 0 in the field `percent` by default, until its task is
 * complete. */
static void
post_percent(GstVaeProgress *p, GstProgressType type, const gchar *text,
             gint percent)
{
    GstMessage *message =
        gst_message_new_progress(GST_OBJECT(p->element), type, p->code, text);

    /* No other code has the message yet, so it may be changed. */
    gst_structure_set((GstStructure *) gst_message_get_structure(message),
                      "percent", G_TYPE_INT, percent, NULL);
    gst_element_post_message(p->element, message);
}

/* Returns TRUE if the next message may be posted. */
static gboolean
is_due(const GstVaeProgress *p, guint64 interval, gint64 now_us)
{
    return !p->begun || (guint64) (now_us - p->posted_us) >= interval / 1000;
}

/* While PLAYING only: before, gst-launch-1.0 and others wait for all that has
 * begun to complete, and the sinks wait for them. */
void
gst_vae_progress_at(GstVaeProgress *p, GstClockTime position, guint64 interval)
{
    const gint64 now_us = g_get_monotonic_time();
    gint64 duration;
    gint percent;
    gchar *text;

    if (GST_STATE(p->element) != GST_STATE_PLAYING ||
        !GST_CLOCK_TIME_IS_VALID(position) || !is_due(p, interval, now_us) ||
        !gst_pad_peer_query_duration(p->sinkpad, GST_FORMAT_TIME, &duration) ||
        duration <= 0)
        return;
    percent = (gint) gst_util_uint64_scale(MIN(position, (guint64) duration),
                                           100, (guint64) duration);
    if (p->begun && percent == p->percent)
        return;
    text = p->begun ? g_strdup_printf("%d %%", percent)
                    : g_strdup_printf("%.1f s of video",
                                      (gdouble) duration / GST_SECOND);
    post_percent(
        p, p->begun ? GST_PROGRESS_TYPE_CONTINUE : GST_PROGRESS_TYPE_START,
        text, percent);
    g_free(text);
    p->begun = TRUE;
    p->percent = percent;
    p->posted_us = now_us;
}

void
gst_vae_progress_end(GstVaeProgress *p, GstProgressType type, const gchar *why)
{
    if (p->begun)
        post_percent(p, type, why,
                     type == GST_PROGRESS_TYPE_COMPLETE ? 100 : p->percent);
    p->begun = FALSE;
}
