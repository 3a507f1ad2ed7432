/*
 * queue.c: steps and events between the sink pad, the worker and the source
 * pad.
 */
#include "queue.h"

void
gst_vae_queue_init(GstVaeQueue *queue)
{
    g_mutex_init(&queue->lock);
    g_cond_init(&queue->cond);
    g_queue_init(&queue->fifo);
    g_queue_init(&queue->work);
    queue->flushing = TRUE;
    queue->segment_id = 1;
}

void
gst_vae_queue_clear(GstVaeQueue *queue)
{
    g_mutex_clear(&queue->lock);
    g_cond_clear(&queue->cond);
}

void
gst_vae_queue_reset(GstVaeQueue *queue)
{
    g_mutex_lock(&queue->lock);
    g_clear_pointer(&queue->session, gst_vae_session_unref);
    queue->slice_limit = 0;
    queue->segment_id = 1;
    g_mutex_unlock(&queue->lock);
}

/* ------------------------------------------------------------------ */
/* Functions for the sink pad. */

guint
gst_vae_queue_depth(GstVaeQueue *queue)
{
    guint depth;

    GST_OBJECT_LOCK(queue->element);
    depth = queue->depth;
    GST_OBJECT_UNLOCK(queue->element);
    return depth;
}

guint
gst_vae_queue_n_steps(GstVaeQueue *queue)
{
    guint n;

    g_mutex_lock(&queue->lock);
    n = queue->n_steps;
    g_mutex_unlock(&queue->lock);
    return n;
}

/* Lock held. */
static GstFlowReturn
result_of(const GstVaeQueue *queue)
{
    return queue->flushing ? GST_FLOW_FLUSHING : queue->result;
}

GstFlowReturn
gst_vae_queue_result(GstVaeQueue *queue)
{
    GstFlowReturn ret;

    g_mutex_lock(&queue->lock);
    ret = result_of(queue);
    g_mutex_unlock(&queue->lock);
    return ret;
}

gboolean
gst_vae_queue_is_flushing(GstVaeQueue *queue)
{
    gboolean flushing;

    g_mutex_lock(&queue->lock);
    flushing = queue->flushing;
    g_mutex_unlock(&queue->lock);
    return flushing;
}

static GstFlowReturn
wait_for_room(GstVaeQueue *queue)
{
    while (result_of(queue) == GST_FLOW_OK &&
           queue->n_steps >=
               gst_vae_queue_depth(queue) * MAX(queue->slice_limit, 1))
        g_cond_wait(&queue->cond, &queue->lock);
    return result_of(queue);
}

GstFlowReturn
gst_vae_queue_push_step(GstVaeQueue *queue, GstVaeItem *item)
{
    GstFlowReturn ret;

    g_mutex_lock(&queue->lock);
    ret = wait_for_room(queue);
    if (ret == GST_FLOW_OK) {
        item->segment_id = queue->segment_id;
        item->session = gst_vae_session_ref(queue->session);
        item->arrived = gst_util_get_timestamp();
        item->reveals = queue->hidden && GST_CLOCK_TIME_IS_VALID(item->running);
        queue->hidden = !GST_CLOCK_TIME_IS_VALID(item->running);
        queue->n_steps++;
        g_queue_push_tail(&queue->fifo, gst_vae_item_ref(item));
        g_queue_push_tail(&queue->work, gst_vae_item_ref(item));
        queue->queued++;
        g_cond_broadcast(&queue->cond);
    }
    g_mutex_unlock(&queue->lock);
    gst_vae_item_unref(item);
    return ret;
}

/* After EOS from downstream, a new stream or segment opens the queue again. */
static void
begin_segment(GstVaeQueue *queue)
{
    queue->segment_id++;
    if (queue->result == GST_FLOW_EOS)
        queue->result = GST_FLOW_OK;
}

gboolean
gst_vae_queue_push_event(GstVaeQueue *queue, GstEvent *event,
                         GstVaeSession *session)
{
    GstVaeItem *item = gst_vae_item_new_event(event, session);
    gboolean ok;

    g_mutex_lock(&queue->lock);
    ok = !queue->flushing;
    if (ok) {
        if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START ||
            GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT)
            begin_segment(queue);
        item->segment_id = queue->segment_id;
        g_queue_push_tail(&queue->fifo, gst_vae_item_ref(item));
        if (!item->ready || session)
            g_queue_push_tail(&queue->work, gst_vae_item_ref(item));
        g_cond_broadcast(&queue->cond);
    }
    g_mutex_unlock(&queue->lock);
    gst_vae_item_unref(item);
    return ok;
}

gboolean
gst_vae_queue_drain(GstVaeQueue *queue)
{
    gboolean ok;

    g_mutex_lock(&queue->lock);
    while (result_of(queue) == GST_FLOW_OK &&
           (queue->pushing || !g_queue_is_empty(&queue->fifo)))
        g_cond_wait(&queue->cond, &queue->lock);
    ok = result_of(queue) == GST_FLOW_OK;
    g_mutex_unlock(&queue->lock);
    return ok;
}

GstVaeSession *
gst_vae_queue_set_session(GstVaeQueue *queue, GstVaeSession *session)
{
    GstVaeSession *old;

    g_mutex_lock(&queue->lock);
    old = queue->session;
    queue->session = session;
    g_mutex_unlock(&queue->lock);
    return old;
}

GstVaeSession *
gst_vae_queue_successor(GstVaeQueue *queue, GstVaeModel *model)
{
    GstVaeSession *session = NULL;

    g_mutex_lock(&queue->lock);
    while (!queue->session->allocated && result_of(queue) == GST_FLOW_OK)
        g_cond_wait(&queue->cond, &queue->lock);
    if (queue->session->allocated)
        session = gst_vae_session_successor(queue->session, model);
    g_mutex_unlock(&queue->lock);
    return session;
}

GstFlowReturn
gst_vae_queue_set_seqnum(GstVaeQueue *queue, guint32 seqnum)
{
    GstFlowReturn ret;

    g_mutex_lock(&queue->lock);
    ret = queue->result;
    queue->seqnum = seqnum;
    g_mutex_unlock(&queue->lock);
    return ret;
}

GstVaeQueueTimes
gst_vae_queue_times(GstVaeQueue *queue)
{
    const GstVaeSession *session;
    GstVaeQueueTimes times = {0};

    g_mutex_lock(&queue->lock);
    session = queue->session;
    if (session) {
        times = (GstVaeQueueTimes){
            .frame = session->frame_time,
            .collect = session->collect_time,
            .slice = MAX(queue->slice_limit, 1) * session->step_time,
            .look_ahead = gst_vae_session_look_ahead(session),
            .decoder = gst_vae_model_facts(session->model, &session->params)};
    }
    g_mutex_unlock(&queue->lock);
    return times;
}

/* ------------------------------------------------------------------ */
/* A flush; the lock is held.                                          */

void
gst_vae_queue_set_flushing(GstVaeQueue *queue)
{
    queue->flushing = TRUE;
    queue->flushes++;
    g_cond_broadcast(&queue->cond);
}

GQueue
gst_vae_queue_take_all(GstVaeQueue *queue)
{
    GQueue fifo = queue->fifo;
    GstVaeItem *item;

    g_queue_init(&queue->fifo);
    while ((item = g_queue_pop_head(&queue->work))) {
        item->ready = TRUE; /* for the thread that waits for a session */
        gst_vae_item_unref(item);
    }
    queue->n_steps = 0;
    queue->taken = queue->queued;
    /* The worker may still compute some of them. */
    for (GList *l = fifo.head; l; l = l->next)
        ((GstVaeItem *) l->data)->gone = TRUE;
    g_cond_broadcast(&queue->cond);
    return fifo;
}

void
gst_vae_queue_start(GstVaeQueue *queue)
{
    queue->flushing = FALSE;
    queue->fatal = FALSE;
    queue->result = GST_FLOW_OK;
    queue->discarded = 0;
    g_cond_broadcast(&queue->cond);
}

/* ------------------------------------------------------------------ */
/* Functions for the task and the worker; the lock is held. */

GstVaeItem *
gst_vae_queue_next(GstVaeQueue *queue, gboolean *unwanted)
{
    GstVaeItem *item;

    while (!queue->flushing) {
        item = g_queue_peek_head(&queue->fifo);
        *unwanted =
            item && (queue->fatal ? queue->discarded != 0
                                  : item->segment_id == queue->discarded);
        if (item && (item->ready || *unwanted)) {
            g_queue_pop_head(&queue->fifo);
            if (!item->event)
                queue->n_steps--;
            queue->pushing = TRUE;
            g_cond_broadcast(&queue->cond);
            return item;
        }
        g_cond_wait(&queue->cond, &queue->lock);
    }
    return NULL;
}

gboolean
gst_vae_queue_is_unwanted(const GstVaeQueue *queue, const GstVaeItem *item)
{
    return queue->fatal || item->segment_id == queue->discarded;
}

guint
gst_vae_queue_take_slice(GstVaeQueue *queue, GstVaeItem **items)
{
    GstVaeItem *next;
    guint n = 0;

    do {
        items[n++] = g_queue_pop_head(&queue->work);
        next = g_queue_peek_head(&queue->work);
    } while (n < queue->slice_limit && next && !items[0]->start &&
             !items[0]->without_context &&
             gst_vae_item_follows(next, items[n - 1]));
    queue->taken += n;
    return n;
}

/* Returns TRUE if the newest item is an event, such as EOS. */
static gboolean
last_is_event(const GstVaeQueue *queue)
{
    const GstVaeItem *last = queue->fifo.tail ? queue->fifo.tail->data : NULL;

    return last && last->event;
}

guint
gst_vae_queue_count_behind(GstVaeQueue *queue, const GstVaeItem *before,
                           gboolean *whole)
{
    guint n = 0;

    for (GList *l = queue->work.head; l && n < queue->slice_limit;
         l = l->next) {
        if (gst_vae_queue_is_unwanted(queue, l->data) ||
            !gst_vae_item_follows(l->data, before))
            break;
        before = l->data;
        n++;
    }
    *whole = n == queue->slice_limit || g_queue_get_length(&queue->work) > n ||
             last_is_event(queue);
    return n;
}

/* ------------------------------------------------------------------ */
/* No lock is held.                                                    */

gboolean
gst_vae_queue_is_fatal(GstVaeQueue *queue, guint *flushes, guint32 *seqnum)
{
    gboolean fatal;

    g_mutex_lock(&queue->lock);
    fatal = queue->fatal;
    *flushes = queue->flushes;
    if (seqnum)
        *seqnum = queue->seqnum;
    g_mutex_unlock(&queue->lock);
    return fatal;
}

void
gst_vae_queue_end(GstVaeQueue *queue, const GstVaeItem *item, GstFlowReturn ret,
                  guint flushes)
{
    g_mutex_lock(&queue->lock);
    if (queue->flushes == flushes) {
        if (item)
            queue->discarded = item->segment_id;
        if (ret != GST_FLOW_EOS)
            queue->fatal = TRUE;
        if (ret != GST_FLOW_EOS ||
            (item && item->segment_id == queue->segment_id))
            queue->result = ret;
    }
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
}

void
gst_vae_queue_set_result(GstVaeQueue *queue, GstFlowReturn ret)
{
    g_mutex_lock(&queue->lock);
    queue->result = ret;
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
}

void
gst_vae_queue_pushed(GstVaeQueue *queue, GstVaeItem *item, gboolean delivered)
{
    g_mutex_lock(&queue->lock);
    item->gone = TRUE;
    item->delivered = delivered;
    queue->pushing = FALSE;
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
}
