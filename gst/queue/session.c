/*
 * session.c: caps, model and memory that the steps between two CAPS events
 * share.
 */
#include "session.h"

GstVaeSession *
gst_vae_session_new(void)
{
    GstVaeSession *session = g_new0(GstVaeSession, 1);

    session->refs = 1;
    gst_video_info_init(&session->video);
    gst_vae_latent_info_init(&session->latent);
    gst_allocation_params_init(&session->allocation);
    return session;
}

GstVaeSession *
gst_vae_session_ref(GstVaeSession *session)
{
    g_atomic_int_inc(&session->refs);
    return session;
}

void
gst_vae_session_unref(GstVaeSession *session)
{
    if (!session || !g_atomic_int_dec_and_test(&session->refs))
        return;
    gst_caps_replace(&session->caps, NULL);
    gst_vae_model_unref(session->model);
    gst_clear_object(&session->pool);
    gst_clear_object(&session->allocator);
    g_free(session);
}

GstVaeSession *
gst_vae_session_successor(const GstVaeSession *session, GstVaeModel *model)
{
    GstVaeSession *next = g_memdup2(session, sizeof *session);

    next->refs = 1;
    next->caps = gst_caps_ref(session->caps);
    next->model = gst_vae_model_ref(model);
    if (next->pool)
        gst_object_ref(next->pool);
    if (next->allocator)
        gst_object_ref(next->allocator);
    return next;
}

gint
gst_vae_session_look_ahead(const GstVaeSession *session)
{
    const VaeModelInfo *info = gst_vae_model_info(session->model);
    const VaeStreamParams *p = &session->params;

    const gint exact =
        vae_model_reach(info, p->direction, p->tile_plan).look_ahead;

    return p->low_latency ? MIN(p->look_ahead, exact) : exact;
}

gboolean
gst_vae_session_same_stream(const GstVaeSession *a, const GstVaeSession *b)
{
    const VaeStreamParams *p = &a->params, *q = &b->params;

    return a->model == b->model && p->backend == q->backend &&
           p->device == q->device && p->precision == q->precision &&
           p->width == q->width && p->height == q->height &&
           p->slice_size == q->slice_size && p->threads == q->threads &&
           p->deterministic == q->deterministic &&
           p->memory_limit == q->memory_limit &&
           p->memory_share == q->memory_share &&
           p->nan_policy == q->nan_policy && p->spill == q->spill &&
           p->normalization == q->normalization &&
           p->posterior == q->posterior && p->seed == q->seed &&
           p->history == q->history && p->tile_plan == q->tile_plan &&
           gst_vae_session_look_ahead(a) == gst_vae_session_look_ahead(b) &&
           (p->restarts || !q->restarts);
}
