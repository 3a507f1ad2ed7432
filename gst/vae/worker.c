/*
 * worker.c: the one thread of an element that calls the engine. Where the
 * engine computes in the background, the next slice is begun while one runs.
 */
#include "call.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* The most steps of one call, whatever slice-size says. */
#define MAX_SLICE 64

/* Steps of one call. */
typedef struct Slice {
    GstVaeItem *items[MAX_SLICE];
    guint n;
    GstVaeCall call;
    gint64 start_us;
} Slice;

/* What nobody else sees. */
typedef struct Worker {
    GstVaeBase *base;
    Slice slices[2];
    Slice *running;        /* begun and not waited for, or NULL */
    VaeStreamStats before; /* those of calls that have ended */
    gint64 ended_us;       /* when the last one did */
    gint64 step_us;        /* what the engine computed for each step */
} Worker;

/* Runs the load that somebody waits for. Lock held on entry and exit. */
static void
load_model(GstVaeBase *base)
{
    gchar *path = g_strdup(base->load_path);
    gchar *variant = g_strdup(base->load_variant);
    GstVaeModel *model = NULL, *old;
    VaeError error = {0};
    VaeStatus status;

    g_mutex_unlock(&base->lock);
    gst_vae_progress_post(base, GST_PROGRESS_TYPE_START, "load-model",
                          "loading %s", path);
    status = gst_vae_model_open(path, variant, &model, &error);
    if (status == VAE_OK)
        GST_INFO_OBJECT(base, "model %s: %s, latent space %s, by %s", path,
                        gst_vae_model_info(model)->arch,
                        gst_vae_model_info(model)->space,
                        gst_vae_model_info(model)->reason);
    gst_vae_progress_loaded(base, path, model);
    g_mutex_lock(&base->lock);

    old = base->loaded;
    base->loaded = model;
    base->load_error = error;
    base->load_error.status = status;
    base->load = GST_VAE_LOAD_DONE;
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
    gst_vae_model_unref(old);
    g_free(path);
    g_free(variant);
    g_mutex_lock(&base->lock);
}

/* Whether the load that was asked for last is this one. Lock held. */
static gboolean
is_load(GstVaeBase *base, const gchar *path, const gchar *variant)
{
    return base->load != GST_VAE_LOAD_NONE &&
           g_strcmp0(base->load_path, path) == 0 &&
           g_strcmp0(base->load_variant, variant) == 0;
}

/* Asks the worker for it once it is done with any other. Lock held. */
static void
request_load(GstVaeBase *base, const gchar *path, gboolean until_flush)
{
    gchar *variant;

    GST_OBJECT_LOCK(base);
    variant = g_strdup(base->settings.variant);
    GST_OBJECT_UNLOCK(base);
    while (base->load == GST_VAE_LOAD_WANTED && !is_load(base, path, variant) &&
           !base->stop && !(until_flush && base->flushing))
        g_cond_wait(&base->cond, &base->lock);
    if (base->load != GST_VAE_LOAD_WANTED && !is_load(base, path, variant)) {
        g_free(base->load_path);
        g_free(base->load_variant);
        base->load_path = g_strdup(path);
        base->load_variant = g_steal_pointer(&variant);
        base->load = GST_VAE_LOAD_WANTED;
        g_cond_broadcast(&base->cond);
    }
    g_free(variant);
}

VaeStatus
gst_vae_worker_load(GstVaeBase *base, const gchar *path, gint64 deadline,
                    gboolean until_flush, GstVaeModel **out, VaeError *error)
{
    VaeStatus status;

    g_mutex_lock(&base->lock);
    request_load(base, path, until_flush);
    while (base->load == GST_VAE_LOAD_WANTED && !base->stop &&
           !(until_flush && base->flushing)) {
        if (deadline == 0)
            g_cond_wait(&base->cond, &base->lock);
        else if (!g_cond_wait_until(&base->cond, &base->lock, deadline))
            break;
    }
    if (base->load == GST_VAE_LOAD_DONE) {
        status = base->load_error.status;
        *error = base->load_error;
        if (out) {
            *out = g_steal_pointer(&base->loaded);
            base->load = GST_VAE_LOAD_NONE;
        }
    } else {
        status = vae_fail(error, VAE_ERR_CANCELLED,
                          "loading %s was not waited for", path);
    }
    g_mutex_unlock(&base->lock);
    return status;
}

VaeStatus
gst_vae_worker_open(GstVaeBase *base, GstVaeSession *session, const gchar *load,
                    VaeCheckpoint *loaded, VaeError *error)
{
    GstVaeItem *item = gst_vae_item_new_open(session, error);

    item->load = load;
    item->loaded = loaded;
    vae_fail(error, VAE_ERR_CANCELLED, "a flush came first");
    g_mutex_lock(&base->lock);
    g_queue_push_tail(&base->work, gst_vae_item_ref(item));
    g_cond_broadcast(&base->cond);
    /* What the worker has begun is waited for: error is ours. */
    while (!item->ready) {
        if (base->flushing && g_queue_remove(&base->work, item)) {
            gst_vae_item_unref(item);
            break;
        }
        g_cond_wait(&base->cond, &base->lock);
    }
    g_mutex_unlock(&base->lock);
    gst_vae_item_unref(item);
    return error->status;
}

/* An engine error: told on the bus, and the end for all that comes until a
 * flush, with which an application may have answered already. */
static void
fail(GstVaeBase *base, const VaeError *error)
{
    guint flushes;

    GST_WARNING_OBJECT(base, "%s", error->message);
    g_mutex_lock(&base->lock);
    flushes = base->flushes;
    g_mutex_unlock(&base->lock);
    gst_vae_post_gerror(GST_ELEMENT(base), gst_vae_error_to_gerror(error));
    g_mutex_lock(&base->lock);
    if (base->flushes == flushes) {
        base->fatal = TRUE;
        base->result = GST_FLOW_ERROR;
    }
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
}

/* Makes stream and running those of the session; the old ones go. Frees the
 * old stream only after the new one stands. */
static void
set_stream(GstVaeBase *base, GstVaeSession *session, VaeStream *stream)
{
    GstVaeSession *old_session;
    VaeStream *old;

    g_mutex_lock(&base->lock);
    old = base->stream;
    old_session = base->running;
    base->stream = stream;
    base->running = session ? gst_vae_session_ref(session) : NULL;
    gst_vae_checkpoint_forget(base);
    base->at_rest = FALSE;
    base->used_us = g_get_monotonic_time();
    if (stream) {
        base->counters.plan = *vae_stream_get_plan(stream);
        g_strlcpy(base->counters.device, vae_stream_get_device(stream),
                  sizeof base->counters.device);
        base->slice_limit = CLAMP(base->counters.plan.slice_size, 1, MAX_SLICE);
    }
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
    vae_stream_free(&old);
    gst_vae_session_unref(old_session);
}

/* A stream for session, the one that runs where it fits. No lock. */
static VaeStatus
open_session(GstVaeBase *base, GstVaeSession *session, VaeError *error)
{
    const VaeStreamParams *params = &session->params;
    VaeStream *stream = NULL;
    VaeStatus status;
    gint64 began;

    if (base->stream && gst_vae_session_same_stream(base->running, session))
        return VAE_OK;
    began = g_get_monotonic_time();
    gst_vae_progress_post(base, GST_PROGRESS_TYPE_START, "open-stream",
                          "preparing %dx%d pixels", params->width,
                          params->height);
    status = vae_stream_new(gst_vae_model_get(session->model), params, &stream,
                            error);
    if (status == VAE_OK)
        set_stream(base, session, stream);
    gst_vae_progress_opened(
        base, params, status == VAE_OK ? vae_stream_get_plan(stream) : NULL);
    GST_INFO_OBJECT(base, "stream for %dx%d pixels in %.3f s: %s",
                    params->width, params->height,
                    (g_get_monotonic_time() - began) / 1e6,
                    vae_status_name(status));
    return status;
}

/* Video frames of a step: those that came in, or those that go out. */
static guint
frames_of(GstVaeBase *base, const GstVaeItem *item)
{
    guint n = 0;

    if (GST_VAE_BASE_GET_CLASS(base)->direction == VAE_ENCODE)
        return item->n_in;
    for (guint i = 0; i < item->n_out; i++)
        n += item->out[i].buffer != NULL;
    return n;
}

/* After n steps that ran. The pipeline hears of another latency before the
 * frames that have it go out. */
static void
note_slice(GstVaeBase *base, GstVaeItem **items, guint n,
           const VaeStreamStats *before, gint64 start_us)
{
    gboolean renegotiate;
    GstVaeNans nans;

    g_mutex_lock(&base->lock);
    nans = gst_vae_stats_nans(base);
    gst_vae_stats_count(base, items, n, before, start_us,
                        g_get_monotonic_time());
    renegotiate = gst_vae_latency_leave(base, items, n);
    gst_vae_checkpoint_stand(base, items[n - 1]);
    g_mutex_unlock(&base->lock);
    gst_vae_stats_warn(base, &nans);
    if (renegotiate)
        gst_element_post_message(GST_ELEMENT(base),
                                 gst_message_new_latency(GST_OBJECT(base)));
}

/* Hands the steps of a call on. Those that a flush took out of the FIFO
 * meanwhile end here. */
static void
finish_slice(GstVaeBase *base, GstVaeItem **items, guint n, VaeStatus status)
{
    g_mutex_lock(&base->lock);
    base->used_us = g_get_monotonic_time();
    for (guint i = 0; i < n; i++) {
        if (status == VAE_OK)
            base->counters.frames += frames_of(base, items[i]);
        else if (status != VAE_ERR_CANCELLED)
            items[i]->result = GST_FLOW_ERROR;
        for (guint j = 0; status != VAE_OK && j < items[i]->n_out; j++)
            gst_clear_buffer(&items[i]->out[j].buffer);
        items[i]->ready = TRUE;
    }
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
    for (guint i = 0; i < n; i++)
        gst_vae_item_unref(items[i]);
    gst_vae_stats_post(base, FALSE);
}

/* A flush cancels what the engine runs, and a reset forgets a cancel: so
 * whoever comes after the reset looks whether one came before. flushes: how
 * many there were when the slice was taken. */
static VaeStatus
check_wanted(GstVaeBase *base, guint flushes, VaeError *error)
{
    gboolean wanted;

    g_mutex_lock(&base->lock);
    wanted = !base->stop && base->flushes == flushes;
    g_mutex_unlock(&base->lock);
    return wanted ? VAE_OK
                  : vae_fail(error, VAE_ERR_CANCELLED, "a flush came first");
}

/* A call has ended so. No lock. */
static void
end_slice(Worker *w, Slice *slice, VaeStatus status)
{
    GstVaeBase *base = w->base;
    const gint64 now = g_get_monotonic_time();
    /* One that was begun early began to run when the one before it ended. */
    const gint64 start_us = MAX(slice->start_us, w->ended_us);

    gst_vae_call_clear(&slice->call);
    GST_LOG_OBJECT(base, "%u steps in %.3f ms: %s", slice->n,
                   (now - start_us) / 1e3, vae_status_name(status));
    if (status == VAE_OK) {
        const guint64 computed_ns = w->before.compute_ns;

        note_slice(base, slice->items, slice->n, &w->before, start_us);
        vae_stream_stats(base->stream, &w->before);
        w->step_us =
            (gint64) (w->before.compute_ns - computed_ns) / 1000 / slice->n;
    }
    w->ended_us = now;
    finish_slice(base, slice->items, slice->n, status);
}

/* Cancelled by a flush, or the pool was taken away with its session; neither
 * is an error, and what follows begins a sequence. */
static void
tell(GstVaeBase *base, VaeStatus status, const VaeError *error)
{
    if (status != VAE_OK && status != VAE_ERR_CANCELLED)
        fail(base, error);
}

/* Waits for the call that runs; left: 1 if another one was begun behind it.
 * lost: what that one failed with, which takes this along. No lock. */
static VaeStatus
end_running(Worker *w, int left, VaeStatus lost)
{
    Slice *slice = w->running;
    VaeError error = {0};
    VaeStatus status;

    w->running = NULL;
    status = vae_stream_wait(w->base->stream, left, &error);
    if (lost == VAE_OK)
        tell(w->base, status, &error);
    else
        status = lost;
    end_slice(w, slice, status);
    return status;
}

/* The stream for a slice behind which nothing runs. No lock. */
static VaeStatus
prepare(GstVaeBase *base, GstVaeItem *first, VaeError *error)
{
    VaeStatus status = open_session(base, first->session, error);

    if (status == VAE_OK)
        status = gst_vae_release_undo(base, error);
    if (status == VAE_OK && first->start)
        vae_stream_reset(base->stream);
    if (status == VAE_OK && first->cold)
        status = vae_stream_restart(base->stream, 0, error);
    return status;
}

/* Whether another slice may be begun before this one is done. Frames that are
 * done must not wait for memory of the next ones. */
static gboolean
runs_on(GstVaeBase *base, const Slice *slice)
{
    return vae_stream_overlaps(base->stream) &&
           !slice->items[0]->session->bounded &&
           base->running->params.nan_policy == VAE_NAN_PASS &&
           !slice->items[slice->n - 1]->checkpoint;
}

/* Begins a slice, and ends the one that runs. flushes: how many there were when
 * it was taken. No lock. */
static void
run_slice(Worker *w, Slice *slice, guint flushes)
{
    GstVaeBase *base = w->base;
    const gboolean behind = w->running != NULL;
    VaeError error = {0};
    VaeStatus status = VAE_OK, other = VAE_OK;

    slice->call = gst_vae_call_new(slice->items, slice->n);
    if (!behind)
        status = prepare(base, slice->items[0], &error);
    slice->start_us = g_get_monotonic_time();
    if (status == VAE_OK)
        status = check_wanted(base, flushes, &error);
    if (status == VAE_OK && !behind)
        vae_stream_stats(base->stream, &w->before);
    if (status == VAE_OK)
        status = GST_VAE_BASE_GET_CLASS(base)->begin(
            base, base->stream, slice->items, slice->n, &slice->call, &error);
    tell(base, status, &error);
    if (behind) {
        GST_LOG_OBJECT(base, "%u steps begun while %u run", slice->n,
                       w->running->n);
        other = end_running(w, status == VAE_OK,
                            slice->call.begun ? status : VAE_OK);
    }
    if (status == VAE_OK && other != VAE_OK) {
        status = other; /* and told */
    } else if (status == VAE_OK && runs_on(base, slice)) {
        w->running = slice;
        return;
    } else if (status == VAE_OK) {
        status = vae_stream_wait(base->stream, 0, &error);
        tell(base, status, &error);
    }
    end_slice(w, slice, status);
}

static gboolean
unwanted(GstVaeBase *base, const GstVaeItem *item)
{
    return base->fatal || item->lap == base->discard_lap;
}

/* Whether a step can be computed in one call with, or behind, what came
 * before it. */
static gboolean
follows(const GstVaeItem *item, const GstVaeItem *before)
{
    return !item->event && !item->opened && !item->start && !item->cold &&
           !before->checkpoint && item->session == before->session;
}

/* Takes the steps that go into one call: those that wait, up to the slice
 * size. The first of a sequence goes alone, so that its picture leaves at
 * once and the slices after it are whole. The next thing to do is a step.
 * Lock held. */
static void
take_slice(GstVaeBase *base, Slice *slice)
{
    GstVaeItem *next;
    guint n = 0;

    do {
        slice->items[n++] = g_queue_pop_head(&base->work);
        next = g_queue_peek_head(&base->work);
    } while (n < base->slice_limit && next && !slice->items[0]->start &&
             !slice->items[0]->cold && follows(next, slice->items[n - 1]));
    slice->n = n;
    base->taken += n;
}

/* Takes and runs one. Lock held on entry and exit. */
static void
work_slice(Worker *w)
{
    GstVaeBase *base = w->base;
    Slice *slice = &w->slices[w->running == &w->slices[0]];
    const guint flushes = base->flushes;

    take_slice(base, slice);
    g_mutex_unlock(&base->lock);
    run_slice(w, slice, flushes);
    g_mutex_lock(&base->lock);
}

/* Steps at the head of the work that could be begun behind the call that runs.
 * *whole: no more can come. Lock held. */
static guint
count_behind(const Worker *w, gboolean *whole)
{
    GstVaeBase *base = w->base;
    const GstVaeItem *before = w->running->items[w->running->n - 1];
    guint n = 0;

    for (GList *l = base->work.head; l && n < base->slice_limit; l = l->next) {
        if (unwanted(base, l->data) || !follows(l->data, before))
            break;
        before = l->data;
        n++;
    }
    *whole = n == base->slice_limit || g_queue_get_length(&base->work) > n;
    return n;
}

/* Whether what came in last is an event, such as EOS. Lock held. */
static gboolean
last_is_event(GstVaeBase *base)
{
    const GstVaeItem *last = g_queue_peek_tail(&base->fifo);

    return last && last->event;
}

/* While a call runs: begins a whole slice behind it, waits for one half of the
 * time that the call will take, or ends the call. Lock held on entry and
 * exit. */
static void
work_behind(Worker *w)
{
    GstVaeBase *base = w->base;
    const GstVaeItem *first = w->running->items[0];
    const gint64 took = w->step_us * w->running->n;
    gint64 until = MAX(w->running->start_us, w->ended_us) + took / 2;
    gboolean whole = FALSE;
    guint n = 0;

    if (!base->flushing && base->load != GST_VAE_LOAD_WANTED &&
        !base->save_path && !base->release_wanted) {
        n = count_behind(w, &whole);
        whole = whole || last_is_event(base);
        if (first->start || first->cold) /* another program, other times */
            until = 0;
        if (!whole && g_get_monotonic_time() < until) {
            g_cond_wait_until(&base->cond, &base->lock, until);
            return;
        }
    }
    if (n > 0 && whole) {
        work_slice(w);
    } else {
        g_mutex_unlock(&base->lock);
        end_running(w, 0, VAE_OK);
        g_mutex_lock(&base->lock);
    }
}

/* Opens the session of an event, whose failure is the end, or of somebody who
 * waits. Lock held on entry and exit. */
static void
work_open(GstVaeBase *base, GstVaeItem *item)
{
    const gboolean fatal = base->fatal;
    VaeError error = {0};

    g_queue_pop_head(&base->work);
    g_mutex_unlock(&base->lock);
    if (fatal)
        vae_fail(&error, VAE_ERR_CANCELLED, "an error came first");
    else
        error.status = open_session(base, item->session, &error);
    if (error.status == VAE_OK && item->load)
        error.status = vae_stream_load(
            base->stream, &(VaeCheckpointParams){.path = item->load},
            item->loaded, &error);
    if (error.status != VAE_OK && !fatal && !item->opened)
        fail(base, &error);
    g_mutex_lock(&base->lock);
    if (item->opened) {
        *item->opened = error;
        item->ready = TRUE;
        g_cond_broadcast(&base->cond);
    }
    g_mutex_unlock(&base->lock);
    gst_vae_item_unref(item);
    g_mutex_lock(&base->lock);
}

/* The next thing to do. Lock held on entry and exit. */
static void
work(Worker *w)
{
    GstVaeBase *base = w->base;
    GstVaeItem *item = g_queue_peek_head(&base->work);

    if (item->event || item->opened) {
        work_open(base, item);
    } else if (unwanted(base, item)) {
        g_queue_pop_head(&base->work);
        base->taken++;
        if (base->fatal)
            item->result = GST_FLOW_ERROR;
        item->ready = TRUE;
        g_cond_broadcast(&base->cond);
        g_mutex_unlock(&base->lock);
        gst_vae_item_unref(item);
        g_mutex_lock(&base->lock);
    } else if (!item->session->allocated) {
        g_cond_wait(&base->cond, &base->lock);
    } else {
        work_slice(w);
    }
}

static gpointer
worker_main(gpointer data)
{
    GstVaeBase *base = data;
    Worker w = {.base = base};

    g_mutex_lock(&base->lock);
    while (!base->stop) {
        if (w.running)
            work_behind(&w);
        else if (base->load == GST_VAE_LOAD_WANTED)
            load_model(base);
        else if (gst_vae_checkpoint_due(base) || gst_vae_release_due(base))
            continue;
        else if (base->flushing || g_queue_is_empty(&base->work))
            gst_vae_release_wait(base);
        else
            work(&w);
    }
    g_mutex_unlock(&base->lock);
    if (w.running)
        end_running(&w, 0, VAE_ERR_CANCELLED);
    set_stream(base, NULL, NULL);
    return NULL;
}

gboolean
gst_vae_worker_start(GstVaeBase *base)
{
    GError *error = NULL;

    base->stop = FALSE;
    base->worker = g_thread_try_new("vae-worker", worker_main, base, &error);
    if (base->worker)
        return TRUE;
    GST_ELEMENT_ERROR(
        base, RESOURCE, FAILED,
        ("The system gives no thread to compute with: %s", error->message),
        ("see ulimit -u and -v"));
    g_error_free(error);
    return FALSE;
}

void
gst_vae_worker_stop(GstVaeBase *base)
{
    if (!base->worker)
        return;
    g_mutex_lock(&base->lock);
    base->stop = TRUE;
    if (base->stream)
        vae_stream_cancel(base->stream);
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
    g_thread_join(base->worker);
    base->worker = NULL;
}
