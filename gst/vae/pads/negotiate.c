/*
 * negotiate.c: opens sessions for new caps, and posts errors of the input.
 */
#include "negotiate.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

gboolean
gst_vae_refuse(GstVaeBase *base, GError *error)
{
    if (error) {
        gst_vae_queue_drain(&base->queue);
        gst_vae_base_post(base, error);
    }
    return FALSE;
}

/* Like gst_vae_refuse(), for a negotiation. Each buffer tries again, so this
 * posts the same error only once. */
static gboolean
refuse_once(GstVaeBase *base, GError *error)
{
    if (error && g_strcmp0(base->input.refusal, error->message) == 0) {
        g_error_free(error);
        return FALSE;
    }
    if (error) {
        g_free(base->input.refusal);
        base->input.refusal = g_strdup(error->message);
    }
    return gst_vae_refuse(base, error);
}

gboolean
gst_vae_negotiate(GstVaeBase *base)
{
    GstVaeSession *session = gst_vae_session_new(), *old;
    GError *error = NULL;
    gboolean ok, other;

    gst_pad_check_reconfigure(base->srcpad);
    ok = GST_VAE_BASE_GET_CLASS(base)->negotiate(base, session, &error);
    if (!ok) {
        gst_vae_session_unref(session);
        gst_pad_mark_reconfigure(base->srcpad);
        return refuse_once(base, error);
    }
    g_clear_pointer(&base->input.refusal, g_free);
    GST_VAE_BASE_GET_CLASS(base)->set_times(base, session);
    GST_DEBUG_OBJECT(base, "source caps %" GST_PTR_FORMAT, session->caps);
    old = gst_vae_queue_set_session(&base->queue, gst_vae_session_ref(session));
    other = (old ? old->collect_time : 0) != session->collect_time;
    gst_vae_session_unref(old);
    if (other)
        gst_element_post_message(GST_ELEMENT(base),
                                 gst_message_new_latency(GST_OBJECT(base)));
    base->input.renegotiate = FALSE;
    base->input.tags_due = TRUE; /* with the new bitrate */
    ok = gst_vae_queue_push_event(&base->queue,
                                  gst_event_new_caps(session->caps), session);
    gst_vae_session_unref(session);
    return ok;
}
