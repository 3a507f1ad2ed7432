/*
 * worker.c: runs the one thread of an element that calls the engine.
 */
#include "worker.h"

VaeStatus
gst_vae_worker_open(GstVaeWorker *worker, GstVaeSession *session,
                    const gchar *load, VaeCheckpoint *loaded, VaeError *error)
{
    GstVaeQueue *queue = worker->queue;
    GstVaeOpen open = {load, loaded, error};
    GstVaeItem *item = gst_vae_item_new_open(session, &open);

    vae_fail(error, VAE_ERR_CANCELLED, "a flush came first");
    g_mutex_lock(&queue->lock);
    g_queue_push_tail(&queue->work, gst_vae_item_ref(item));
    g_cond_broadcast(&queue->cond);
    /* Once the worker has begun, wait for it: it writes into error. */
    while (!item->ready) {
        if (queue->flushing && g_queue_remove(&queue->work, item)) {
            gst_vae_item_unref(item);
            break;
        }
        g_cond_wait(&queue->cond, &queue->lock);
    }
    g_mutex_unlock(&queue->lock);
    gst_vae_item_unref(item);
    return error->status;
}

gboolean
gst_vae_worker_gives_up(GstVaeWorker *worker)
{
    GstVaeQueue *queue = worker->queue;
    gboolean gives_up;

    g_mutex_lock(&queue->lock);
    gives_up = queue->stop || (worker->awaited && queue->flushing);
    g_mutex_unlock(&queue->lock);
    return gives_up;
}

/* While a call runs: begins a whole slice after it, waits for one half of the
 * time that the call will take, or ends the call. Lock held on entry and
 * exit. */
static void
work_behind(GstVaeWorker *worker)
{
    GstVaeEngine *engine = &worker->engine;
    GstVaeQueue *queue = worker->queue;
    const GstVaeSlice *running = engine->running;
    const gint64 took = engine->step_us * running->n;
    gint64 until = MAX(running->start_us, engine->ended_us) + took / 2;
    gboolean whole = FALSE;
    guint n = 0;

    if (!queue->flushing && worker->loader.state != GST_VAE_LOAD_REQUESTED &&
        !engine->save_path && !worker->release_requested) {
        n = gst_vae_queue_count_behind(queue, running->items[running->n - 1],
                                       &whole);
        /* Another program, other times. */
        if (running->items[0]->start || running->items[0]->without_context)
            until = 0;
        if (!whole && g_get_monotonic_time() < until) {
            g_cond_wait_until(&queue->cond, &queue->lock, until);
            return;
        }
    }
    if (n > 0 && whole)
        gst_vae_engine_run(engine);
    else
        gst_vae_engine_wait(engine);
}

/* Opens a session: that of a CAPS event, whose failure ends the stream, or one
 * for a thread that waits and gets the error. Lock held on entry and exit. */
static void
work_open(GstVaeWorker *worker, GstVaeItem *item)
{
    GstVaeEngine *engine = &worker->engine;
    GstVaeQueue *queue = worker->queue;
    const gboolean fatal = queue->fatal;
    VaeError error = {0};

    g_queue_pop_head(&queue->work);
    worker->awaited = item->open != NULL;
    g_mutex_unlock(&queue->lock);
    if (fatal)
        vae_fail(&error, VAE_ERR_CANCELLED, "an error came first");
    else
        error.status = gst_vae_engine_open(engine, item->session, &error);
    if (error.status == VAE_OK && item->open && item->open->load)
        error.status = vae_stream_load(
            engine->stream,
            &(VaeCheckpointParams){.struct_size = sizeof(VaeCheckpointParams),
                                   .path = item->open->load},
            item->open->loaded, &error);
    if (error.status != VAE_OK && error.status != VAE_ERR_CANCELLED &&
        !item->open)
        gst_vae_engine_fail(engine, item->session, &error);
    g_mutex_lock(&queue->lock);
    worker->awaited = FALSE;
    if (item->open) {
        *item->open->error = error;
        item->ready = TRUE;
        g_cond_broadcast(&queue->cond);
    }
    g_mutex_unlock(&queue->lock);
    gst_vae_item_unref(item);
    g_mutex_lock(&queue->lock);
}

/* Ends the sequence at an EOS event, or drops a step that a flush or an error
 * made useless. Lock held on entry and exit. */
static void
work_end(GstVaeWorker *worker, GstVaeItem *item)
{
    GstVaeQueue *queue = worker->queue;

    g_queue_pop_head(&queue->work);
    if (!item->event)
        queue->taken++;
    else if (!gst_vae_queue_is_unwanted(queue, item))
        gst_vae_engine_end(&worker->engine);
    if (queue->fatal)
        item->result = GST_FLOW_ERROR;
    item->ready = TRUE;
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
    gst_vae_item_unref(item);
    g_mutex_lock(&queue->lock);
}

/* Does the next item of the work list. Lock held on entry and exit. */
static void
work(GstVaeWorker *worker)
{
    GstVaeQueue *queue = worker->queue;
    GstVaeItem *item = g_queue_peek_head(&queue->work);

    if (item->open || (item->event && item->session))
        work_open(worker, item);
    else if (item->event || gst_vae_queue_is_unwanted(queue, item))
        work_end(worker, item);
    else if (!item->session->allocated)
        g_cond_wait(&queue->cond, &queue->lock);
    else
        gst_vae_engine_run(&worker->engine);
}

/* ------------------------------------------------------------------ */
/* Checkpoints and memory of the device.                               */

void
gst_vae_worker_save(GstVaeWorker *worker, const gchar *path)
{
    GstVaeEngine *engine = &worker->engine;
    GstVaeQueue *queue = worker->queue;

    g_mutex_lock(&queue->lock);
    g_free(engine->save_path);
    engine->save_path = g_strdup(path);
    engine->save_after = queue->queued;
    engine->save_quiet = FALSE;
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
}

/* Lock held on entry and exit. */
static void
save(GstVaeWorker *worker)
{
    GstVaeEngine *engine = &worker->engine;
    GstVaeQueue *queue = worker->queue;
    gchar *path = g_steal_pointer(&engine->save_path);
    const gboolean computed = engine->last && engine->last->delivered;
    const gboolean partial = engine->partial, quiet = engine->save_quiet;
    const gchar *name = *path ? path : "an empty path";
    gboolean saved;
    VaeCheckpointParams params = {.struct_size = sizeof(VaeCheckpointParams),
                                  .path = path,
                                  .frames = computed ? engine->last->frames : 0,
                                  .before = computed ? engine->last->first : 0};
    VaeError error = {0};

    g_mutex_unlock(&queue->lock);
    GST_OBJECT_LOCK(engine->element);
    params.carries = engine->checkpoints->carries;
    GST_OBJECT_UNLOCK(engine->element);
    if (!computed)
        vae_fail(&error, VAE_ERR_ARGUMENT,
                 "%s: nothing was decoded since the start of the sequence",
                 name);
    else if (partial)
        vae_fail(
            &error, VAE_ERR_UNSUPPORTED,
            "%s: the decoded frames do not begin at the start of their clip "
            "(after a seek or a restart)",
            name);
    saved = gst_vae_checkpoint_save(engine->element, engine->stream, &params,
                                    &error, quiet);
    if (saved)
        GST_CAT_INFO_OBJECT(engine->category, engine->element,
                            "checkpoint %s: %" G_GUINT64_FORMAT " frames", path,
                            (guint64) params.frames);
    g_free(path);
    g_mutex_lock(&queue->lock);
    engine->save_failed = !saved;
}

/* Writes a requested checkpoint. A checkpoint counts frames that were
 * pushed, so this waits until all steps that the stream has computed have
 * left the element; FALSE: none is requested. Lock held on entry and exit. */
static gboolean
save_if_due(GstVaeWorker *worker)
{
    const GstVaeEngine *engine = &worker->engine;
    GstVaeQueue *queue = worker->queue;
    const gboolean ended = queue->fatal || queue->flushing;

    if (!engine->save_path || (queue->taken < engine->save_after && !ended))
        return FALSE;
    if (engine->last && !engine->last->gone && !ended &&
        worker->loader.state != GST_VAE_LOAD_REQUESTED)
        g_cond_wait(&queue->cond, &queue->lock);
    else
        save(worker);
    return TRUE;
}

void
gst_vae_worker_release(GstVaeWorker *worker)
{
    GstVaeQueue *queue = worker->queue;

    g_mutex_lock(&queue->lock);
    /* A later request does not delay an earlier one. */
    if (!worker->release_requested)
        worker->release_after = queue->queued;
    worker->release_requested = TRUE;
    worker->release_last = queue->queued;
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
}

/* Releases where that was asked for and is due; FALSE: not so. Lock held on
 * entry and exit. */
static gboolean
release_if_due(GstVaeWorker *worker)
{
    const GstVaeQueue *queue = worker->queue;

    /* Steps that wait when a flush comes are not computed any more. */
    if (!worker->release_requested ||
        (queue->taken < worker->release_after && !queue->flushing))
        return FALSE;
    worker->release_requested =
        worker->release_last > queue->taken && !queue->flushing;
    worker->release_after = worker->release_last;
    gst_vae_engine_release(&worker->engine, FALSE);
    return TRUE;
}

/* Waits for a change and, where it comes too late, releases. Lock held on entry
 * and exit. */
static void
wait_or_release(GstVaeWorker *worker)
{
    GstVaeEngine *engine = &worker->engine;
    GstVaeQueue *queue = worker->queue;
    guint64 idle;
    gint64 until;

    GST_OBJECT_LOCK(engine->element);
    idle = worker->idle_release;
    GST_OBJECT_UNLOCK(engine->element);
    if (idle == 0 || !engine->stream || engine->offloaded) {
        g_cond_wait(&queue->cond, &queue->lock);
        return;
    }
    until = engine->used_us + (gint64) (idle / 1000);
    if (g_get_monotonic_time() >= until)
        gst_vae_engine_release(engine, TRUE);
    else
        g_cond_wait_until(&queue->cond, &queue->lock, until);
}

/* ------------------------------------------------------------------ */
/* The thread.                                                         */

static gpointer
worker_main(gpointer data)
{
    GstVaeWorker *worker = data;
    GstVaeQueue *queue = worker->queue;

    g_mutex_lock(&queue->lock);
    while (!queue->stop) {
        if (worker->engine.running)
            work_behind(worker);
        else if (worker->loader.state == GST_VAE_LOAD_REQUESTED)
            gst_vae_loader_run(&worker->loader);
        else if (save_if_due(worker) || release_if_due(worker))
            continue;
        else if (queue->flushing || g_queue_is_empty(&queue->work))
            wait_or_release(worker);
        else
            work(worker);
    }
    g_mutex_unlock(&queue->lock);
    gst_vae_engine_close(&worker->engine);
    return NULL;
}

gboolean
gst_vae_worker_start(GstVaeWorker *worker)
{
    GError *error = NULL;

    worker->queue->stop = FALSE;
    worker->engine.ended_us = worker->engine.step_us = 0;
    worker->thread =
        g_thread_try_new("vae-worker", worker_main, worker, &error);
    if (worker->thread)
        return TRUE;
    GST_ELEMENT_ERROR(
        worker->engine.element, RESOURCE, FAILED,
        ("No thread could be started to compute: %s", error->message),
        ("see ulimit -u and -v"));
    g_error_free(error);
    return FALSE;
}

void
gst_vae_worker_stop(GstVaeWorker *worker)
{
    GstVaeQueue *queue = worker->queue;

    if (!worker->thread)
        return;
    g_mutex_lock(&queue->lock);
    queue->stop = TRUE;
    gst_vae_engine_cancel(&worker->engine);
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
    g_thread_join(worker->thread);
    worker->thread = NULL;
}

void
gst_vae_worker_reset(GstVaeWorker *worker)
{
    g_mutex_lock(&worker->queue->lock);
    g_clear_pointer(&worker->engine.save_path, g_free);
    worker->engine.partial = worker->engine.save_failed = FALSE;
    worker->release_requested = FALSE;
    worker->engine.doubt = 0;
    g_mutex_unlock(&worker->queue->lock);
    gst_vae_loader_reset(&worker->loader);
}
