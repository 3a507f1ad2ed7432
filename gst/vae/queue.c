/*
 * queue.c: the FIFO between the sink pad, the worker and the task of
 * the source pad.
 */
#include "base.h"
#include "task.h"
#include "tensor_meta.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* Steps that may wait; the worker keeps this many ahead of the sink. */
static guint
step_room(GstVaeBase *base)
{
    guint depth;

    GST_OBJECT_LOCK(base);
    depth = base->settings.queue_depth;
    GST_OBJECT_UNLOCK(base);
    return depth * MAX(base->slice_limit, 1);
}

static GstFlowReturn
wait_for_room(GstVaeBase *base)
{
    while (!base->flushing && base->result == GST_FLOW_OK &&
           base->n_steps >= step_room(base))
        g_cond_wait(&base->cond, &base->lock);
    return base->flushing ? GST_FLOW_FLUSHING : base->result;
}

/* Stream time at the end of a step; NONE: not known, or outside the segment. */
static GstClockTime
end_of(GstVaeBase *base, const GstVaeItem *item)
{
    const GstVaeOut *last = &item->out[MAX(item->n_out, 1) - 1];
    GstClockTime end = last->pts;

    if (item->n_out == 0 || !GST_CLOCK_TIME_IS_VALID(end))
        return GST_CLOCK_TIME_NONE;
    if (GST_CLOCK_TIME_IS_VALID(last->duration))
        end += last->duration;
    return gst_segment_to_stream_time(&base->segment, GST_FORMAT_TIME, end);
}

GstFlowReturn
gst_vae_queue_push_step(GstVaeBase *base, GstVaeItem *item)
{
    GstFlowReturn ret;

    item->position = end_of(base, item);
    g_mutex_lock(&base->lock);
    ret = wait_for_room(base);
    if (ret == GST_FLOW_OK) {
        item->lap = base->lap;
        item->session = gst_vae_session_ref(base->session);
        gst_vae_latency_arrive(base, item);
        base->n_steps++;
        g_queue_push_tail(&base->fifo, gst_vae_item_ref(item));
        g_queue_push_tail(&base->work, gst_vae_item_ref(item));
        base->queued++;
        g_cond_broadcast(&base->cond);
    }
    g_mutex_unlock(&base->lock);
    gst_vae_item_unref(item);
    return ret;
}

/* A new stream or segment ends what a downstream EOS has shut. */
static void
begin_lap(GstVaeBase *base)
{
    base->lap++;
    if (base->result == GST_FLOW_EOS)
        base->result = GST_FLOW_OK;
}

gboolean
gst_vae_queue_push_event(GstVaeBase *base, GstEvent *event,
                         GstVaeSession *session)
{
    GstVaeItem *item = gst_vae_item_new_event(event, session);
    gboolean ok;

    g_mutex_lock(&base->lock);
    ok = !base->flushing;
    if (ok) {
        if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START ||
            GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT)
            begin_lap(base);
        item->lap = base->lap;
        g_queue_push_tail(&base->fifo, gst_vae_item_ref(item));
        if (session)
            g_queue_push_tail(&base->work, gst_vae_item_ref(item));
        g_cond_broadcast(&base->cond);
    }
    g_mutex_unlock(&base->lock);
    gst_vae_item_unref(item);
    return ok;
}

gboolean
gst_vae_queue_drain(GstVaeBase *base)
{
    gboolean ok;

    g_mutex_lock(&base->lock);
    while (!base->flushing && base->result == GST_FLOW_OK &&
           (base->pushing || !g_queue_is_empty(&base->fifo)))
        g_cond_wait(&base->cond, &base->lock);
    ok = !base->flushing && base->result == GST_FLOW_OK;
    g_mutex_unlock(&base->lock);
    return ok;
}

void
gst_vae_queue_set_flushing(GstVaeBase *base)
{
    g_mutex_lock(&base->lock);
    base->flushing = TRUE;
    base->flushes++;
    if (base->stream)
        vae_stream_cancel(base->stream);
    if (base->pool)
        gst_buffer_pool_set_flushing(base->pool, TRUE);
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
}

/* What the source pad has to know although it was not pushed. */
static void
keep_event(GstVaeBase *base, GstEvent *event)
{
    if (GST_EVENT_IS_STICKY(event) &&
        GST_EVENT_TYPE(event) != GST_EVENT_SEGMENT &&
        GST_EVENT_TYPE(event) != GST_EVENT_EOS)
        gst_pad_store_sticky_event(base->srcpad, event);
}

void
gst_vae_queue_clear(GstVaeBase *base, gboolean keep_sticky)
{
    GQueue fifo;
    GstVaeItem *item;

    g_mutex_lock(&base->lock);
    fifo = base->fifo;
    g_queue_init(&base->fifo);
    while ((item = g_queue_pop_head(&base->work))) {
        item->ready = TRUE; /* for who waits for a session */
        gst_vae_item_unref(item);
    }
    base->n_steps = 0;
    base->taken = base->queued;
    /* The worker may still be at some of them, and stand behind them then. */
    for (GList *l = fifo.head; l; l = l->next)
        ((GstVaeItem *) l->data)->gone = TRUE;
    gst_vae_checkpoint_forget(base);
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);

    while ((item = g_queue_pop_head(&fifo))) {
        if (keep_sticky && item->event)
            keep_event(base, item->event);
        gst_vae_item_unref(item);
    }
}

gboolean
gst_vae_queue_start(GstVaeBase *base)
{
    g_mutex_lock(&base->lock);
    base->flushing = FALSE;
    base->fatal = FALSE;
    base->result = GST_FLOW_OK;
    base->discard_lap = 0;
    base->earliest = GST_CLOCK_TIME_NONE;
    base->shown = GST_CLOCK_TIME_NONE;
    if (base->pool)
        gst_buffer_pool_set_flushing(base->pool, FALSE);
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
    return gst_vae_task_start(base->srcpad, gst_vae_queue_task);
}

/* Asks downstream for memory, once its caps are known there. */
static void
allocate(GstVaeBase *base, GstVaeSession *session, gboolean ask)
{
    GstQuery *query = gst_query_new_allocation(session->caps, TRUE);
    GstBufferPool *old;

    /* All steps of the session before have been made, so that its pool has
     * no more use here. */
    g_mutex_lock(&base->lock);
    old = base->pool;
    base->pool = NULL;
    g_mutex_unlock(&base->lock);
    if (old) {
        gst_buffer_pool_set_active(old, FALSE);
        gst_object_unref(old);
    }

    if (!ask || !gst_pad_peer_query(base->srcpad, query)) {
        GST_DEBUG_OBJECT(base, "no answer to the allocation query");
        gst_query_unref(query);
        query = gst_query_new_allocation(session->caps, TRUE);
    }
    GST_VAE_BASE_GET_CLASS(base)->decide_allocation(base, session, query);
    gst_query_unref(query);

    g_mutex_lock(&base->lock);
    if (session->pool) {
        base->pool = gst_object_ref(session->pool);
        if (base->flushing)
            gst_buffer_pool_set_flushing(base->pool, TRUE);
    }
    session->allocated = TRUE;
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
}

static void
push_event(GstVaeBase *base, GstVaeItem *item)
{
    /* The worker may still look at the item of a CAPS event. */
    GST_LOG_OBJECT(base, "pushing %" GST_PTR_FORMAT, item->event);
    /* Before the sinks tell of the end, after which nobody may listen. */
    if (GST_EVENT_TYPE(item->event) == GST_EVENT_EOS) {
        gst_vae_stats_post(base, TRUE);
        gst_vae_progress_end(base, GST_PROGRESS_TYPE_COMPLETE, "100 %");
    }
    gst_pad_push_event(base->srcpad, gst_event_ref(item->event));
    if (item->session && !item->session->allocated)
        allocate(base, item->session, TRUE);
}

static GstFlowReturn
push_step(GstVaeBase *base, GstVaeItem *item)
{
    const gboolean latents =
        GST_VAE_BASE_GET_CLASS(base)->direction == VAE_ENCODE;
    GstFlowReturn ret = item->result;

    if (item->before)
        gst_pad_push_event(base->srcpad, g_steal_pointer(&item->before));
    for (guint i = 0; i < item->n_out && ret == GST_FLOW_OK; i++) {
        GstBuffer *buffer = g_steal_pointer(&item->out[i].buffer);

        if (buffer && latents)
            gst_vae_tensor_meta_add(
                buffer, &item->session->latent,
                gst_vae_model_info(item->session->model)->space);
        if (buffer)
            ret = gst_pad_push(base->srcpad, buffer);
    }
    if (ret == GST_FLOW_OK)
        gst_vae_progress_at(base, item->position);
    return ret;
}

/* Downstream or the engine is at its end. The EOS that upstream sends later
 * would find the way shut, so it goes out here. The error is told before
 * upstream hears of it, which tells one of its own then; a flush may have
 * answered it already. */
static void
stop_pushing(GstVaeBase *base, GstVaeItem *item, GstFlowReturn ret)
{
    GstEvent *eos = gst_event_new_eos();
    gboolean posted;
    guint flushes;

    GST_DEBUG_OBJECT(base, "no more: %s", gst_flow_get_name(ret));
    if (ret == GST_FLOW_EOS)
        gst_vae_progress_end(base, GST_PROGRESS_TYPE_CANCELED,
                             "downstream wants no more");
    else
        gst_vae_progress_end(base, GST_PROGRESS_TYPE_ERROR, "failed");
    g_mutex_lock(&base->lock);
    if (base->seqnum != GST_SEQNUM_INVALID)
        gst_event_set_seqnum(eos, base->seqnum);
    posted = base->fatal; /* the worker found it and said so */
    flushes = base->flushes;
    g_mutex_unlock(&base->lock);
    if (ret != GST_FLOW_EOS && !posted)
        GST_ELEMENT_FLOW_ERROR(base, ret);

    g_mutex_lock(&base->lock);
    if (base->flushes == flushes) {
        base->discard_lap = item->lap;
        if (ret != GST_FLOW_EOS)
            base->fatal = TRUE;
        if (item->lap == base->lap || ret != GST_FLOW_EOS)
            base->result = ret;
    }
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
    gst_pad_push_event(base->srcpad, eos);
}

/* An item that comes after the end. */
static void
discard(GstVaeBase *base, GstVaeItem *item)
{
    if (!item->event)
        return;
    keep_event(base, item->event);
    if (item->session && !item->session->allocated)
        allocate(base, item->session, FALSE);
}

/* The next item that can go out, or NULL when flushing. */
static GstVaeItem *
next_item(GstVaeBase *base, gboolean *unwanted)
{
    GstVaeItem *item;

    while (!base->flushing) {
        item = g_queue_peek_head(&base->fifo);
        *unwanted = item && (base->fatal ? base->discard_lap != 0
                                         : item->lap == base->discard_lap);
        if (item && (item->ready || *unwanted)) {
            g_queue_pop_head(&base->fifo);
            if (!item->event)
                base->n_steps--;
            base->pushing = TRUE;
            g_cond_broadcast(&base->cond);
            return item;
        }
        g_cond_wait(&base->cond, &base->lock);
    }
    return NULL;
}

void
gst_vae_queue_task(gpointer pad)
{
    GstVaeBase *base = GST_VAE_BASE(GST_PAD_PARENT(pad));
    GstFlowReturn ret = GST_FLOW_OK;
    GstVaeItem *item;
    gboolean unwanted = FALSE;

    g_mutex_lock(&base->lock);
    item = next_item(base, &unwanted);
    g_mutex_unlock(&base->lock);
    if (!item) {
        gst_pad_pause_task(base->srcpad);
        return;
    }

    if (unwanted)
        discard(base, item);
    else if (item->event)
        push_event(base, item);
    else
        ret = push_step(base, item);
    if (ret == GST_FLOW_FLUSHING) {
        g_mutex_lock(&base->lock);
        base->result = ret;
        g_cond_broadcast(&base->cond);
        g_mutex_unlock(&base->lock);
        gst_pad_pause_task(base->srcpad);
    } else if (ret != GST_FLOW_OK) {
        stop_pushing(base, item, ret);
    }

    g_mutex_lock(&base->lock);
    item->gone = TRUE;
    item->delivered = !unwanted && ret == GST_FLOW_OK;
    base->pushing = FALSE;
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
    gst_vae_item_unref(item);
}
