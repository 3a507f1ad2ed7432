/*
 * push.c: runs the task of the source pad, which pushes buffers and events, and
 * handles flushes.
 */
#include "push.h"

#include "task.h"
#include "tensor_meta.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* Downstream may change its caps this often while they are pushed. */
#define CAPS_TRIES 4

void
gst_vae_push_set_flushing(GstVaeBase *base)
{
    GstVaeQueue *queue = &base->queue;

    g_mutex_lock(&queue->lock);
    gst_vae_queue_set_flushing(queue);
    gst_vae_engine_cancel(&base->worker.engine);
    if (base->pool)
        gst_buffer_pool_set_flushing(base->pool, TRUE);
    g_mutex_unlock(&queue->lock);
}

/* Stores a sticky event on the source pad that was not pushed. */
static void
keep_event(GstVaeBase *base, GstEvent *event)
{
    if (GST_EVENT_IS_STICKY(event) &&
        GST_EVENT_TYPE(event) != GST_EVENT_SEGMENT &&
        GST_EVENT_TYPE(event) != GST_EVENT_EOS)
        gst_pad_store_sticky_event(base->srcpad, event);
}

static void
drop_held(GstVaeBase *base)
{
    g_queue_clear_full(&base->held, (GDestroyNotify) gst_buffer_unref);
}

static void
set_position(GstVaeBase *base, GstClockTime position, GstClockTime end)
{
    g_mutex_lock(&base->queue.lock);
    base->position = position;
    base->position_end = end;
    g_mutex_unlock(&base->queue.lock);
}

void
gst_vae_push_clear(GstVaeBase *base, gboolean keep_sticky)
{
    GstVaeItem *item;
    GQueue fifo;

    drop_held(base);
    set_position(base, GST_CLOCK_TIME_NONE, GST_CLOCK_TIME_NONE);
    g_mutex_lock(&base->queue.lock);
    fifo = gst_vae_queue_take_all(&base->queue);
    gst_vae_engine_forget(&base->worker.engine);
    g_mutex_unlock(&base->queue.lock);
    while ((item = g_queue_pop_head(&fifo))) {
        if (keep_sticky && item->event)
            keep_event(base, item->event);
        gst_vae_item_unref(item);
    }
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

void
gst_vae_push_drop_pool(GstVaeBase *base)
{
    GstBufferPool *old;

    g_mutex_lock(&base->queue.lock);
    old = g_steal_pointer(&base->pool);
    g_mutex_unlock(&base->queue.lock);
    if (old)
        gst_buffer_pool_set_active(old, FALSE);
    gst_clear_object(&old);
}

/* Asks downstream for memory, after it has received the caps. */
static void
allocate(GstVaeBase *base, GstVaeSession *session, gboolean ask)
{
    GstQuery *query = gst_query_new_allocation(session->caps, TRUE);

    /* All steps of the previous session have their buffers, so its pool is not
     * needed any more. */
    gst_vae_push_drop_pool(base);
    if (!ask || !gst_pad_peer_query(base->srcpad, query)) {
        GST_DEBUG_OBJECT(base, "no answer to the allocation query");
        gst_query_unref(query);
        query = gst_query_new_allocation(session->caps, TRUE);
    }
    GST_VAE_BASE_GET_CLASS(base)->decide_allocation(base, session, query);
    gst_query_unref(query);

    g_mutex_lock(&base->queue.lock);
    if (session->pool) {
        base->pool = gst_object_ref(session->pool);
        if (base->queue.flushing)
            gst_buffer_pool_set_flushing(base->pool, TRUE);
    }
    session->allocated = TRUE;
    g_cond_broadcast(&base->queue.cond);
    g_mutex_unlock(&base->queue.lock);
}

/* ------------------------------------------------------------------ */
/* The task.                                                           */

/* Pushes the caps of a session. Downstream may accept others than it did when
 * they were queued, and again others after the push, during which decodebin
 * links its pads. */
static void
push_caps(GstVaeBase *base, GstVaeSession *session)
{
    const GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    gboolean ok = gst_pad_peer_query_accept_caps(base->srcpad, session->caps);

    for (guint i = 0; i < CAPS_TRIES; i++) {
        if (!ok && klass->adapt && klass->adapt(base, session, NULL))
            GST_INFO_OBJECT(base, "downstream now takes %" GST_PTR_FORMAT,
                            session->caps);
        gst_pad_push_event(base->srcpad, gst_event_new_caps(session->caps));
        ok = gst_pad_peer_query_accept_caps(base->srcpad, session->caps);
        if (ok || !klass->adapt || GST_PAD_IS_FLUSHING(base->srcpad))
            return;
    }
}

static void
push_event(GstVaeBase *base, GstVaeItem *item)
{
    /* The worker may still read the item of a CAPS event. */
    GST_LOG_OBJECT(base, "pushing %" GST_PTR_FORMAT, item->event);
    /* An application may stop listening after the EOS message of the sinks, so
     * these messages come first. */
    if (GST_EVENT_TYPE(item->event) == GST_EVENT_EOS) {
        gst_vae_stats_post(&base->stats, gst_vae_queue_n_steps(&base->queue),
                           TRUE);
        gst_vae_progress_end(&base->progress, GST_PROGRESS_TYPE_COMPLETE,
                             "100 %");
        set_position(base, base->position_end, base->position_end);
    } else if (GST_EVENT_TYPE(item->event) == GST_EVENT_SEGMENT) {
        set_position(base, GST_CLOCK_TIME_NONE, GST_CLOCK_TIME_NONE);
    }
    if (item->session && !item->session->allocated)
        push_caps(base, item->session);
    else
        gst_pad_push_event(base->srcpad, gst_event_ref(item->event));
    if (item->session && !item->session->allocated)
        allocate(base, item->session, TRUE);
}

/* Takes buffer. */
static GstFlowReturn
push_buffer(GstVaeBase *base, GstBuffer *buffer, gboolean backward)
{
    const GstClockTime pts = GST_BUFFER_PTS(buffer);

    if (!backward && GST_BUFFER_DURATION_IS_VALID(buffer))
        set_position(base, pts, pts + GST_BUFFER_DURATION(buffer));
    else
        set_position(base, pts, pts);
    return gst_pad_push(base->srcpad, buffer);
}

/* Keeps a buffer of a group that is pushed in reverse order. Copies it if the
 * pool has a fixed number of buffers. Takes buffer. */
static GstFlowReturn
hold(GstVaeBase *base, const GstVaeItem *item, GstBuffer *buffer)
{
    if (item->session->bounded) {
        GstBuffer *copy = gst_buffer_copy_deep(buffer);

        gst_buffer_unref(buffer);
        buffer = copy;
    }
    if (!buffer)
        return GST_FLOW_ERROR;
    GST_BUFFER_FLAG_UNSET(buffer, GST_BUFFER_FLAG_DISCONT);
    g_queue_push_head(&base->held, buffer);
    return GST_FLOW_OK;
}

/* Pushes a group that is complete. */
static GstFlowReturn
push_held(GstVaeBase *base)
{
    GstFlowReturn ret = GST_FLOW_OK;
    GstBuffer *buffer = g_queue_peek_head(&base->held);

    if (buffer)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    while (ret == GST_FLOW_OK && (buffer = g_queue_pop_head(&base->held)))
        ret = push_buffer(base, buffer, TRUE);
    drop_held(base);
    return ret;
}

static GstFlowReturn
push_step(GstVaeBase *base, GstVaeItem *item)
{
    const gboolean latents =
        GST_VAE_BASE_GET_CLASS(base)->direction == VAE_ENCODE;
    GstFlowReturn ret = item->result;

    if (ret == GST_FLOW_OK && item->discont)
        ret = push_held(base);
    if (item->before)
        gst_pad_push_event(base->srcpad, g_steal_pointer(&item->before));
    for (guint i = 0; i < item->n_out && ret == GST_FLOW_OK; i++) {
        GstBuffer *buffer = g_steal_pointer(&item->out[i].buffer);

        if (buffer && latents)
            gst_vae_tensor_meta_add(
                buffer, &item->session->latent,
                gst_vae_model_info(item->session->model)->space);
        if (buffer)
            ret = item->backward ? hold(base, item, buffer)
                                 : push_buffer(base, buffer, FALSE);
    }
    if (ret == GST_FLOW_OK)
        gst_vae_progress_at(&base->progress, item->position,
                            gst_vae_stats_interval(&base->stats));
    return ret;
}

/* Posts the error of a push that failed: if downstream by now takes none of our
 * caps, a sentence that says so. */
static void
post_failed(GstVaeBase *base, GstVaeItem *item, GstFlowReturn ret)
{
    const GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    GError *error = NULL;

    if (ret == GST_FLOW_NOT_NEGOTIATED && klass->adapt && item->session)
        klass->adapt(base, item->session, &error);
    if (error)
        gst_vae_base_post(base, error);
    else
        GST_ELEMENT_FLOW_ERROR(base, ret);
}

/* Ends the output, because downstream or the engine failed or is at its end.
 * Pushes an EOS event itself, because the queue no longer accepts that of
 * upstream. Posts the error before upstream receives the flow return and posts
 * its own error. If a flush comes meanwhile, the queue stays open. */
static void
stop_pushing(GstVaeBase *base, GstVaeItem *item, GstFlowReturn ret)
{
    GstEvent *eos = gst_event_new_eos();
    gboolean posted;
    guint flushes;
    guint32 seqnum;

    GST_DEBUG_OBJECT(base, "no more: %s", gst_flow_get_name(ret));
    if (ret == GST_FLOW_EOS)
        gst_vae_progress_end(&base->progress, GST_PROGRESS_TYPE_CANCELED,
                             "downstream needs no more");
    else
        gst_vae_progress_end(&base->progress, GST_PROGRESS_TYPE_ERROR,
                             "failed");
    posted = gst_vae_queue_is_fatal(&base->queue, &flushes, &seqnum);
    if (seqnum != GST_SEQNUM_INVALID)
        gst_event_set_seqnum(eos, seqnum);
    if (ret != GST_FLOW_EOS && !posted) /* otherwise the worker has posted it */
        post_failed(base, item, ret);
    gst_vae_queue_end(&base->queue, item, ret, flushes);
    gst_pad_push_event(base->srcpad, eos);
}

/* Drops an item after the end of the output, but stores a sticky event. */
static void
discard(GstVaeBase *base, GstVaeItem *item)
{
    drop_held(base);
    if (!item->event)
        return;
    keep_event(base, item->event);
    if (item->session && !item->session->allocated)
        allocate(base, item->session, FALSE);
}

static GstFlowReturn
push_item(GstVaeBase *base, GstVaeItem *item)
{
    GstFlowReturn ret;

    if (!item->event)
        return push_step(base, item);
    ret = push_held(base);
    if (ret == GST_FLOW_OK)
        push_event(base, item);
    return ret;
}

static void
run(gpointer pad)
{
    GstVaeBase *base = GST_VAE_BASE(GST_PAD_PARENT(pad));
    GstVaeQueue *queue = &base->queue;
    GstFlowReturn ret = GST_FLOW_OK;
    GstVaeItem *item;
    gboolean unwanted = FALSE;

    g_mutex_lock(&queue->lock);
    item = gst_vae_queue_next(queue, &unwanted);
    g_mutex_unlock(&queue->lock);
    if (!item) {
        gst_pad_pause_task(base->srcpad);
        return;
    }

    if (unwanted)
        discard(base, item);
    else
        ret = push_item(base, item);
    if (ret == GST_FLOW_FLUSHING) {
        gst_vae_queue_set_result(queue, ret);
        gst_pad_pause_task(base->srcpad);
    } else if (ret != GST_FLOW_OK) {
        stop_pushing(base, item, ret);
    }

    gst_vae_queue_pushed(queue, item, !unwanted && ret == GST_FLOW_OK);
    gst_vae_item_unref(item);
}

gboolean
gst_vae_push_start(GstVaeBase *base)
{
    gst_vae_qos_reset(&base->qos);
    g_mutex_lock(&base->queue.lock);
    gst_vae_queue_start(&base->queue);
    if (base->pool)
        gst_buffer_pool_set_flushing(base->pool, FALSE);
    g_mutex_unlock(&base->queue.lock);
    return gst_vae_task_start(base->srcpad, run);
}
