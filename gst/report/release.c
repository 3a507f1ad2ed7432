/*
 * release.c: device memory given back while there is nothing to compute.
 */
#include "base.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

void
gst_vae_release_request(GstVaeBase *base)
{
    g_mutex_lock(&base->lock);
    /* The first wish is not put off by those that follow. */
    if (!base->release_wanted)
        base->release_after = base->queued;
    base->release_wanted = TRUE;
    base->release_last = base->queued;
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
}

/* idle: nobody asked. Lock held on entry and exit. */
static void
release(GstVaeBase *base, gboolean idle)
{
    VaeError error = {0};
    VaeStatus status = VAE_OK;
    gboolean released = FALSE;

    base->at_rest = TRUE;
    g_mutex_unlock(&base->lock);
    if (base->stream) {
        status = vae_stream_release(base->stream, &error);
        released = vae_stream_is_released(base->stream);
    }
    GST_INFO_OBJECT(base, "%s: %s", idle ? "idle" : "release wanted",
                    released ? "memory of the device given back"
                             : "no memory of a device is held");
    if (status != VAE_OK)
        GST_ELEMENT_WARNING(base, RESOURCE, FAILED, ("%s", error.message),
                            ("memory of the device is held on to"));
    gst_element_post_message(
        GST_ELEMENT(base),
        gst_message_new_element(
            GST_OBJECT(base),
            gst_structure_new("vae-release", "released", G_TYPE_BOOLEAN,
                              released, "idle", G_TYPE_BOOLEAN, idle, NULL)));
    g_mutex_lock(&base->lock);
}

gboolean
gst_vae_release_due(GstVaeBase *base)
{
    /* What waits when a flush comes is not computed any more. */
    if (!base->release_wanted ||
        (base->taken < base->release_after && !base->flushing))
        return FALSE;
    base->release_wanted = base->release_last > base->taken && !base->flushing;
    base->release_after = base->release_last;
    release(base, FALSE);
    return TRUE;
}

void
gst_vae_release_wait(GstVaeBase *base)
{
    guint64 idle;
    gint64 until;

    GST_OBJECT_LOCK(base);
    idle = base->settings.idle_release;
    GST_OBJECT_UNLOCK(base);
    if (idle == 0 || !base->stream || base->at_rest) {
        g_cond_wait(&base->cond, &base->lock);
        return;
    }
    until = base->used_us + (gint64) (idle / 1000);
    if (g_get_monotonic_time() >= until)
        release(base, TRUE);
    else
        g_cond_wait_until(&base->cond, &base->lock, until);
}

VaeStatus
gst_vae_release_undo(GstVaeBase *base, VaeError *error)
{
    const gboolean released = vae_stream_is_released(base->stream);
    const gint64 began = g_get_monotonic_time();
    VaeStatus status = vae_stream_resume(base->stream, error);

    if (released)
        GST_INFO_OBJECT(base, "memory of the device taken again in %.3f s: %s",
                        (g_get_monotonic_time() - began) / 1e6,
                        vae_status_name(status));
    if (status == VAE_OK) {
        g_mutex_lock(&base->lock);
        base->at_rest = FALSE;
        g_mutex_unlock(&base->lock);
    }
    return status;
}
