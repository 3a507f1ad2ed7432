/*
 * slice.c: opens the stream of the engine, and runs slices of steps on it.
 */
#include "slice.h"

#include "error.h"
#include "frames.h"
#include "progress.h"
#include "release.h"

#define GST_CAT_DEFAULT engine->category

void
gst_vae_engine_cancel(GstVaeEngine *engine)
{
    if (engine->stream)
        vae_stream_cancel(engine->stream);
}

void
gst_vae_engine_forget(GstVaeEngine *engine)
{
    g_clear_pointer(&engine->last, gst_vae_item_unref);
}

/* Waits until the last step that was computed has left the element, or no step
 * can leave any more. */
static void
wait_for_output(GstVaeEngine *engine)
{
    GstVaeQueue *queue = engine->queue;

    g_mutex_lock(&queue->lock);
    while (engine->last && !engine->last->gone && !queue->flushing &&
           !queue->stop && !queue->fatal && queue->result == GST_FLOW_OK)
        g_cond_wait(&queue->cond, &queue->lock);
    g_mutex_unlock(&queue->lock);
}

void
gst_vae_engine_fail(GstVaeEngine *engine, const GstVaeSession *session,
                    const VaeError *error)
{
    const VaeModelInfo *info =
        session ? gst_vae_model_info(session->model) : NULL;
    guint flushes;

    GST_WARNING_OBJECT(engine->element, "%s", error->message);
    gst_vae_queue_is_fatal(engine->queue, &flushes, NULL);
    wait_for_output(engine);
    gst_vae_post_gerror(engine->element, gst_vae_error_to_gerror(error),
                        info ? gst_vae_error_context(info->path, info->space)
                             : NULL);
    gst_vae_queue_end(engine->queue, NULL, GST_FLOW_ERROR, flushes);
}

/* Posts the error of a slice. A cancelled slice is no error: a flush or new
 * caps ended it, and the next step begins a sequence. */
static void
report(GstVaeEngine *engine, const GstVaeSlice *slice, VaeStatus status,
       const VaeError *error)
{
    if (status != VAE_OK && status != VAE_ERR_CANCELLED)
        gst_vae_engine_fail(engine, slice->items[0]->session, error);
}

/* ------------------------------------------------------------------ */
/* The stream.                                                         */

/* Lock held. */
static void
limit_slices(const GstVaeEngine *engine)
{
    engine->queue->slice_limit = CLAMP(
        vae_stream_get_plan(engine->stream)->slice_size, 1, GST_VAE_MAX_SLICE);
}

/* Makes stream and session those of the engine. Frees the old stream after
 * this. */
static void
set_stream(GstVaeEngine *engine, GstVaeSession *session, VaeStream *stream)
{
    GstVaeQueue *queue = engine->queue;
    GstVaeSession *old_session;
    VaeStream *old;

    if (stream)
        gst_vae_stats_stream(engine->stats, stream,
                             gst_vae_model_info(session->model)->path,
                             gst_vae_session_look_ahead(session));
    g_mutex_lock(&queue->lock);
    old = engine->stream;
    old_session = engine->session;
    engine->stream = stream;
    engine->session = session ? gst_vae_session_ref(session) : NULL;
    gst_vae_engine_forget(engine);
    engine->offloaded = FALSE;
    engine->used_us = g_get_monotonic_time();
    if (stream)
        limit_slices(engine);
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
    vae_stream_free(&old);
    gst_vae_session_unref(old_session);
}

VaeStatus
gst_vae_engine_open(GstVaeEngine *engine, GstVaeSession *session,
                    VaeError *error)
{
    const VaeStreamParams *params = &session->params;
    VaeStream *stream = NULL;
    VaeStatus status;
    gint64 began;

    if (engine->stream && gst_vae_session_same_stream(engine->session, session))
        return VAE_OK;
    began = g_get_monotonic_time();
    gst_vae_progress_post(engine->element, GST_PROGRESS_TYPE_START,
                          "open-stream", "preparing %dx%d pixels",
                          params->width, params->height);
    status = vae_stream_new(gst_vae_model_get(session->model), params, &stream,
                            error);
    if (status == VAE_OK)
        set_stream(engine, session, stream);
    gst_vae_progress_opened(engine->element, params, status,
                            status == VAE_OK ? vae_stream_get_plan(stream)
                                             : NULL);
    GST_INFO_OBJECT(engine->element, "stream for %dx%d pixels in %.3f s: %s",
                    params->width, params->height,
                    (g_get_monotonic_time() - began) / 1e6,
                    vae_status_name(status));
    return status;
}

void
gst_vae_engine_release(GstVaeEngine *engine, gboolean idle)
{
    gboolean released;

    engine->offloaded = TRUE;
    g_mutex_unlock(&engine->queue->lock);
    released = gst_vae_release(engine->element, engine->stream, idle);
    GST_INFO_OBJECT(engine->element, "%s: %s",
                    idle ? "idle" : "release requested",
                    released ? "memory of the device freed"
                             : "no memory of a device is held");
    g_mutex_lock(&engine->queue->lock);
}

/* Reloads the memory of the device that was freed. */
static VaeStatus
reload(GstVaeEngine *engine, VaeError *error)
{
    const gboolean released = vae_stream_stats(engine->stream)->released;
    const gint64 began = g_get_monotonic_time();
    VaeStatus status = vae_stream_resume(engine->stream, error);

    if (released)
        GST_INFO_OBJECT(
            engine->element, "memory of the device reloaded in %.3f s: %s",
            (g_get_monotonic_time() - began) / 1e6, vae_status_name(status));
    if (status == VAE_OK && released)
        gst_vae_stats_stream(engine->stats, engine->stream,
                             gst_vae_model_info(engine->session->model)->path,
                             gst_vae_session_look_ahead(engine->session));
    if (status == VAE_OK) {
        g_mutex_lock(&engine->queue->lock);
        engine->offloaded = FALSE;
        limit_slices(engine);
        g_mutex_unlock(&engine->queue->lock);
    }
    return status;
}

/* ------------------------------------------------------------------ */
/* The end of a slice.                                                 */

/* Video frames of a step: those that came in, or those that go out. */
static guint
frames_of(const GstVaeEngine *engine, const GstVaeItem *item)
{
    guint n = 0;

    if (!engine->decodes)
        return item->n_in;
    for (guint i = 0; i < item->n_out; i++)
        n += item->out[i].buffer != NULL;
    return n;
}

/* Notes that item is the last one that the stream has computed. Lock held. */
static void
note_last(GstVaeEngine *engine, GstVaeItem *item)
{
    gst_vae_engine_forget(engine);
    engine->last = gst_vae_item_ref(item);
    if (item->start || item->without_context)
        engine->partial = item->partial || item->without_context;
    if (!item->checkpoint || engine->save_path)
        return;
    GST_OBJECT_LOCK(engine->element);
    engine->save_path = g_strdup(engine->checkpoints->location);
    engine->save_after = 0;
    engine->save_quiet = engine->save_failed;
    GST_OBJECT_UNLOCK(engine->element);
}

/* After steps that ran. The pipeline hears of another latency before the frames
 * that have it go out. */
static void
note_slice(GstVaeEngine *engine, const GstVaeSlice *slice, gint64 start_us)
{
    GstVaeSliceTime time = {.source = engine->source,
                            .steps = slice->items[0]->drain ? 0 : slice->n,
                            .arrived = slice->items[0]->arrived,
                            .start_us = start_us,
                            .before = engine->before};
    guint frames = 0;

    g_assert(slice->n > 0);
    time.after = *vae_stream_stats(engine->stream);
    time.end_us = g_get_monotonic_time();
    for (guint i = 0; i < slice->n; i++) {
        frames += frames_of(engine, slice->items[i]);
        gst_vae_latency_add(engine->latency, slice->items[i]->running,
                            slice->items[i]->arrived);
    }
    g_mutex_lock(&engine->queue->lock);
    note_last(engine, slice->items[slice->n - 1]);
    g_mutex_unlock(&engine->queue->lock);
    gst_vae_stats_slice(engine->stats, &time);
    gst_vae_stats_frames(engine->stats, frames);
    /* The first step of a sequence gives fewer frames. */
    if (engine->decodes && !slice->items[0]->start)
        gst_vae_qos_slice(engine->qos, slice->n,
                          (GstClockTime) (time.end_us - start_us) * 1000,
                          slice->n * slice->items[0]->session->step_time);
    if (gst_vae_latency_changed(engine->latency))
        gst_element_post_message(
            engine->element,
            gst_message_new_latency(GST_OBJECT(engine->element)));
    engine->step_us =
        (gint64) (time.after.compute_ns - engine->before.compute_ns) / 1000 /
        slice->n;
    engine->before = time.after;
}

/* Hands the steps of a call on. Those that a flush took out of the queue
 * meanwhile end here. */
static void
hand_on(GstVaeEngine *engine, const GstVaeSlice *slice, VaeStatus status)
{
    GstVaeQueue *queue = engine->queue;

    /* Before its frames leave, so that no message follows the EOS. */
    gst_vae_stats_post(engine->stats, gst_vae_queue_n_steps(queue), FALSE);
    g_mutex_lock(&queue->lock);
    engine->used_us = g_get_monotonic_time();
    for (guint i = 0; i < slice->n; i++) {
        GstVaeItem *item = slice->items[i];

        if (status != VAE_OK && status != VAE_ERR_CANCELLED)
            item->result = GST_FLOW_ERROR;
        for (guint j = 0; status != VAE_OK && j < item->n_out; j++)
            gst_clear_buffer(&item->out[j].buffer);
        item->ready = TRUE;
    }
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
    for (guint i = 0; i < slice->n; i++)
        gst_vae_item_unref(slice->items[i]);
}

/* Counts and hands on a slice whose call has ended with status. */
static void
end_slice(GstVaeEngine *engine, GstVaeSlice *slice, VaeStatus status)
{
    const gint64 now = g_get_monotonic_time();
    /* One that was begun early began to run when the one before it ended. */
    const gint64 start_us = MAX(slice->start_us, engine->ended_us);

    gst_vae_call_clear(&slice->call);
    GST_LOG_OBJECT(engine->element, "%u steps in %.3f ms: %s", slice->n,
                   (now - start_us) / 1e3, vae_status_name(status));
    if (status == VAE_OK)
        note_slice(engine, slice, start_us);
    engine->ended_us = now;
    hand_on(engine, slice, status);
}

/* Waits for the running slice and ends it. left: the number of slices begun
 * after it. lost: the error of the slice after it, with which this one then
 * fails, too. */
static VaeStatus
end_running(GstVaeEngine *engine, int left, VaeStatus lost)
{
    GstVaeSlice *slice = engine->running;
    VaeError error = {0};
    VaeStatus status;

    engine->running = NULL;
    status = vae_stream_wait(engine->stream, left, &error);
    if (lost == VAE_OK)
        report(engine, slice, status, &error);
    else
        status = lost;
    end_slice(engine, slice, status);
    return status;
}

void
gst_vae_engine_wait(GstVaeEngine *engine)
{
    g_mutex_unlock(&engine->queue->lock);
    end_running(engine, 0, VAE_OK);
    g_mutex_lock(&engine->queue->lock);
}

void
gst_vae_engine_close(GstVaeEngine *engine)
{
    if (engine->running)
        end_running(engine, 0, VAE_ERR_CANCELLED);
    set_stream(engine, NULL, NULL);
    g_clear_pointer(&engine->source, g_free);
}

void
gst_vae_engine_end(GstVaeEngine *engine)
{
    g_mutex_unlock(&engine->queue->lock);
    if (engine->stream)
        vae_stream_judge_end(engine->stream);
    g_mutex_lock(&engine->queue->lock);
}

/* ------------------------------------------------------------------ */
/* The start of a slice.                                               */

/* A flush cancels what the engine runs, and a reset forgets a cancel: so
 * after the reset the worker looks if a flush came before. flushes: how
 * many there were when the slice was taken. */
static VaeStatus
check_needed(GstVaeEngine *engine, guint flushes, VaeError *error)
{
    gboolean needed;

    g_mutex_lock(&engine->queue->lock);
    needed = !engine->queue->stop && engine->queue->flushes == flushes;
    g_mutex_unlock(&engine->queue->lock);
    return needed ? VAE_OK
                  : vae_fail(error, VAE_ERR_CANCELLED, "a flush came first");
}

/* Prepares the stream for a slice, while no other slice runs. */
static VaeStatus
prepare(GstVaeEngine *engine, GstVaeItem *first, VaeError *error)
{
    VaeStatus status = gst_vae_engine_open(engine, first->session, error);

    if (status == VAE_OK && first->start)
        vae_stream_reset(engine->stream);
    if (first->start || first->discont) {
        g_free(engine->source);
        engine->source = g_steal_pointer(&first->source);
    }
    if (status == VAE_OK) {
        vae_stream_word_doubts(engine->stream, first->session->words);
        status = reload(engine, error);
    }
    if (status == VAE_OK && first->without_context)
        status = vae_stream_restart(engine->stream, first->place, error);
    return status;
}

/* Computes the next results of the end of a sequence. */
static VaeStatus
drain(GstVaeEngine *engine, const GstVaeCall *call, VaeError *error)
{
    const int left = vae_stream_drain_count(engine->stream, 0, NULL);
    const int expected =
        (int) (engine->decodes ? call->n_pictures : call->n_latents);
    int steps = 0, n = 0;

    while (steps < left && n < expected)
        vae_stream_drain_count(engine->stream, ++steps, &n);
    if (n != expected)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%d results are due at the end of the sequence, the "
                        "engine gives %d",
                        expected, n);
    return engine->decodes
               ? vae_stream_drain(engine->stream, steps, call->pictures,
                                  expected, error)
               : vae_stream_drain_latents(engine->stream, steps, call->results,
                                          expected, error);
}

/* Begins the call of a slice. The call is cleared when it is done or has
 * failed. */
static VaeStatus
begin(GstVaeEngine *engine, GstVaeSlice *slice, VaeError *error)
{
    const GstVaeSession *session = slice->items[0]->session;
    const VaeStreamParams *params = &session->params;
    GstVaeCall *call = &slice->call;
    VaeStatus status = VAE_OK;

    call->stream = engine->stream;
    /* Tiles are blended in the host's memory. */
    call->engine =
        params->tiles || gst_vae_model_info(session->model)->in_tiles
            ? NULL
            : gst_vae_cuda_engine(engine->cuda, engine->stream, params->device);
    for (guint i = 0; i < slice->n && status == VAE_OK; i++)
        status =
            engine->add_step(engine->element, call, slice->items[i], error);
    if (status != VAE_OK)
        return status;
    call->begun = TRUE;
    if (slice->items[0]->drain)
        return drain(engine, call, error);
    if (engine->decodes)
        return vae_stream_decode_begin(engine->stream, call->latents,
                                       (int) call->n_latents, call->pictures,
                                       (int) call->n_pictures, error);
    return vae_stream_encode_begin(engine->stream, call->pictures,
                                   (int) call->n_pictures, call->results,
                                   (int) call->n_latents, error);
}

/* TRUE: another slice may be begun before this one is done. Frames that are
 * done must not wait for memory of the next ones. */
static gboolean
runs_on(const GstVaeEngine *engine, const GstVaeSlice *slice)
{
    return vae_stream_overlaps(engine->stream) &&
           !slice->items[0]->session->bounded && !slice->items[0]->drain &&
           !slice->items[slice->n - 1]->checkpoint;
}

/* Begins a slice, and ends the one that runs. flushes: how many there were when
 * it was taken. */
static void
run_slice(GstVaeEngine *engine, GstVaeSlice *slice, guint flushes)
{
    const gboolean behind = engine->running != NULL;
    VaeError error = {0};
    VaeStatus status = VAE_OK, other = VAE_OK;

    slice->call = gst_vae_call_new(slice->items, slice->n);
    if (!behind)
        status = prepare(engine, slice->items[0], &error);
    slice->start_us = g_get_monotonic_time();
    if (status == VAE_OK)
        status = check_needed(engine, flushes, &error);
    if (status == VAE_OK && !behind)
        engine->before = *vae_stream_stats(engine->stream);
    if (status == VAE_OK)
        status = begin(engine, slice, &error);
    report(engine, slice, status, &error);
    if (behind) {
        GST_LOG_OBJECT(engine->element, "%u steps begun while %u run", slice->n,
                       engine->running->n);
        other = end_running(engine, status == VAE_OK,
                            slice->call.begun ? status : VAE_OK);
    }
    if (status == VAE_OK && other != VAE_OK) {
        status = other; /* end_running() has posted it */
    } else if (status == VAE_OK && runs_on(engine, slice)) {
        engine->running = slice;
        return;
    } else if (status == VAE_OK) {
        status = vae_stream_wait(engine->stream, 0, &error);
        report(engine, slice, status, &error);
    }
    end_slice(engine, slice, status);
}

void
gst_vae_engine_run(GstVaeEngine *engine)
{
    GstVaeQueue *queue = engine->queue;
    GstVaeSlice *slice = &engine->slices[engine->running == &engine->slices[0]];
    const guint flushes = queue->flushes;

    if (engine->stream) /* a history may have no memory for more */
        limit_slices(engine);
    slice->n = gst_vae_queue_take_slice(queue, slice->items);
    g_mutex_unlock(&queue->lock);
    run_slice(engine, slice, flushes);
    g_mutex_lock(&queue->lock);
}
