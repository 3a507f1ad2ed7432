/**
 * GstVaeBase:
 *
 * What vaedecode and vaeencode have in common: the way of buffers through the
 * element, the model and the properties about computing.
 */
#include "base.h"

#include "frames.h"
#include "enums.h"

GST_DEBUG_CATEGORY(gst_vae_engine_debug);
#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* How long READY to PAUSED waits for a model to be opened. It only reads the
 * header; on a file system that hangs the state change goes on and the first
 * caps wait. */
#define LOAD_WAIT_US (10 * G_USEC_PER_SEC)

#define DEFAULT_QUEUE_DEPTH 2
#define DEFAULT_STATS_INTERVAL GST_SECOND
#define MAX_QUEUE_DEPTH 8
#define MAX_SLICE_SIZE 64
#define MAX_THREADS 1024

enum {
    PROP_0,
    PROP_MODEL,
    PROP_VARIANT,
    PROP_BACKEND,
    PROP_CUDA_DEVICE_ID,
    PROP_PRECISION,
    PROP_SLICE_SIZE,
    PROP_QUEUE_DEPTH,
    PROP_THREADS,
    PROP_DETERMINISTIC,
    PROP_QOS,
    PROP_STATS,
    PROP_POST_STATS,
    PROP_STATS_INTERVAL,
    PROP_IDLE_RELEASE,
    PROP_NAN_POLICY
};

G_DEFINE_ABSTRACT_TYPE_WITH_CODE(
    GstVaeBase, gst_vae_base, GST_TYPE_ELEMENT,
    G_IMPLEMENT_INTERFACE(GST_TYPE_PRESET, NULL);
    GST_DEBUG_CATEGORY_INIT(gst_vae_engine_debug, "vaeengine", 0,
                            "what vaedecode and vaeencode compute with"))

/* A live source gives one step at a time; waiting for more is latency. */
static gboolean
upstream_is_live(GstVaeBase *base)
{
    GstQuery *query = gst_query_new_latency();
    gboolean live = FALSE;

    if (gst_pad_peer_query(base->sinkpad, query))
        gst_query_parse_latency(query, &live, NULL, NULL);
    gst_query_unref(query);
    return live;
}

static void
log_line(void *user, const char *line)
{
    GST_CAT_INFO_OBJECT(gst_vae_engine_debug, user, "%s", line);
}

static void
warn_line(void *user, const char *line)
{
    GstVaeBase *base = user;

    GST_ELEMENT_WARNING(base, RESOURCE, NOT_FOUND, ("%s", line), (NULL));
}

void
gst_vae_base_fill_session(GstVaeBase *base, GstVaeSession *session)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    VaeStreamParams *params = &session->params;

    session->model = gst_vae_model_ref(base->model);
    params->direction = klass->direction;
    GST_OBJECT_LOCK(base);
    params->backend = (VaeBackendKind) base->settings.backend;
    params->device = base->settings.cuda_device_id;
    params->precision = (VaePrecision) base->settings.precision;
    params->slice_size = (int) base->settings.slice_size;
    params->threads = (int) base->settings.threads;
    params->deterministic = base->settings.deterministic;
    params->nan_policy = (VaeNanPolicy) base->settings.nan_policy;
    GST_OBJECT_UNLOCK(base);
    params->log = log_line; /* the session's streams are the base's own */
    params->warn = warn_line;
    params->log_user = base;
    if (params->slice_size == 0 && upstream_is_live(base))
        params->slice_size = 1;
}

static void
set_text(GstVaeBase *base, gchar **field, const GValue *value)
{
    gchar *text = g_value_dup_string(value);

    GST_OBJECT_LOCK(base);
    g_free(*field);
    *field = text;
    GST_OBJECT_UNLOCK(base);
}

static void
set_number(GstVaeBase *base, guint id, const GValue *value)
{
    GstVaeSettings *s = &base->settings;

    switch (id) {
    case PROP_BACKEND:
        s->backend = g_value_get_enum(value);
        break;
    case PROP_CUDA_DEVICE_ID:
        s->cuda_device_id = g_value_get_int(value);
        break;
    case PROP_NAN_POLICY:
        s->nan_policy = g_value_get_enum(value);
        break;
    case PROP_PRECISION:
        s->precision = g_value_get_enum(value);
        break;
    case PROP_SLICE_SIZE:
        s->slice_size = g_value_get_uint(value);
        break;
    case PROP_QUEUE_DEPTH:
        s->queue_depth = g_value_get_uint(value);
        break;
    case PROP_THREADS:
        s->threads = g_value_get_uint(value);
        break;
    case PROP_DETERMINISTIC:
        s->deterministic = g_value_get_boolean(value);
        break;
    case PROP_QOS:
        s->qos = g_value_get_boolean(value);
        break;
    case PROP_IDLE_RELEASE:
        s->idle_release = g_value_get_uint64(value);
        break;
    case PROP_STATS_INTERVAL:
        s->stats_interval = g_value_get_uint64(value);
        break;
    default:
        s->post_stats = g_value_get_boolean(value);
        break;
    }
}

static void
set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    GstVaeBase *base = GST_VAE_BASE(object);

    switch (id) {
    case PROP_MODEL:
        set_text(base, &base->settings.model, value);
        GST_OBJECT_LOCK(base);
        base->settings.switch_wanted = TRUE;
        GST_OBJECT_UNLOCK(base);
        break;
    case PROP_VARIANT:
        set_text(base, &base->settings.variant, value);
        break;
    case PROP_BACKEND:
    case PROP_NAN_POLICY:
    case PROP_CUDA_DEVICE_ID:
    case PROP_PRECISION:
    case PROP_SLICE_SIZE:
    case PROP_QUEUE_DEPTH:
    case PROP_THREADS:
    case PROP_DETERMINISTIC:
    case PROP_QOS:
    case PROP_POST_STATS:
    case PROP_STATS_INTERVAL:
    case PROP_IDLE_RELEASE:
        GST_OBJECT_LOCK(base);
        set_number(base, id, value);
        GST_OBJECT_UNLOCK(base);
        break;
    default:
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    /* Whoever waits for room or for the time to release looks again. */
    if (id == PROP_QUEUE_DEPTH || id == PROP_IDLE_RELEASE) {
        g_mutex_lock(&base->lock);
        g_cond_broadcast(&base->cond);
        g_mutex_unlock(&base->lock);
    }
}

static void
get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    GstVaeBase *base = GST_VAE_BASE(object);
    const GstVaeSettings *s = &base->settings;

    if (id == PROP_STATS) {
        g_value_take_boxed(value, gst_vae_stats_structure(base));
        return;
    }
    GST_OBJECT_LOCK(base);
    switch (id) {
    case PROP_MODEL:
        g_value_set_string(value, s->model);
        break;
    case PROP_VARIANT:
        g_value_set_string(value, s->variant);
        break;
    case PROP_BACKEND:
        g_value_set_enum(value, s->backend);
        break;
    case PROP_CUDA_DEVICE_ID:
        g_value_set_int(value, s->cuda_device_id);
        break;
    case PROP_NAN_POLICY:
        g_value_set_enum(value, s->nan_policy);
        break;
    case PROP_PRECISION:
        g_value_set_enum(value, s->precision);
        break;
    case PROP_SLICE_SIZE:
        g_value_set_uint(value, s->slice_size);
        break;
    case PROP_QUEUE_DEPTH:
        g_value_set_uint(value, s->queue_depth);
        break;
    case PROP_THREADS:
        g_value_set_uint(value, s->threads);
        break;
    case PROP_DETERMINISTIC:
        g_value_set_boolean(value, s->deterministic);
        break;
    case PROP_QOS:
        g_value_set_boolean(value, s->qos);
        break;
    case PROP_POST_STATS:
        g_value_set_boolean(value, s->post_stats);
        break;
    case PROP_IDLE_RELEASE:
        g_value_set_uint64(value, s->idle_release);
        break;
    case PROP_STATS_INTERVAL:
        g_value_set_uint64(value, s->stats_interval);
        break;
    default:
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(base);
}

/* Opens the file that the property names. FALSE: it was tried and failed. */
static gboolean
load_named_model(GstVaeBase *base)
{
    VaeError error = {0};
    VaeStatus status;
    gchar *path;

    GST_OBJECT_LOCK(base);
    path = g_strdup(base->settings.model);
    base->settings.switch_wanted = base->settings.restart_wanted = FALSE;
    GST_OBJECT_UNLOCK(base);
    if (!path || !*path) {
        g_free(path);
        return TRUE;
    }
    status = gst_vae_worker_load(
        base, path, g_get_monotonic_time() + LOAD_WAIT_US, FALSE, NULL, &error);
    g_free(path);
    if (status == VAE_OK || status == VAE_ERR_CANCELLED)
        return TRUE;
    gst_vae_post_gerror(GST_ELEMENT(base), gst_vae_error_to_gerror(&error));
    return FALSE;
}

/* Forgets all that one run in PAUSED and PLAYING left. The worker is gone. */
static void
clear(GstVaeBase *base)
{
    gst_vae_queue_clear(base, FALSE);
    gst_vae_pads_reset(base);
    g_mutex_lock(&base->lock);
    if (base->pool)
        gst_buffer_pool_set_active(base->pool, FALSE);
    gst_clear_object(&base->pool);
    g_clear_pointer(&base->session, gst_vae_session_unref);
    g_clear_pointer(&base->loaded, gst_vae_model_unref);
    g_clear_pointer(&base->load_path, g_free);
    g_clear_pointer(&base->load_variant, g_free);
    g_clear_pointer(&base->save_path, g_free);
    base->partial = FALSE;
    base->load = GST_VAE_LOAD_NONE;
    base->slice_limit = 0;
    base->release_wanted = FALSE;
    base->lap = 1;
    gst_vae_latency_reset(&base->latency);
    g_mutex_unlock(&base->lock);
    g_clear_pointer(&base->model, gst_vae_model_unref);
    g_clear_pointer(&base->model_path, g_free);
    g_clear_pointer(&base->model_setting, g_free);
    base->info = NULL;
}

static gboolean
start(GstVaeBase *base)
{
    clear(base);
    g_mutex_lock(&base->lock);
    base->counters = (GstVaeCounters){0};
    base->posted_us = 0;
    g_mutex_unlock(&base->lock);
    if (gst_vae_worker_start(base) && load_named_model(base))
        return TRUE;
    gst_vae_worker_stop(base);
    clear(base);
    return FALSE;
}

static GstStateChangeReturn
change_state(GstElement *element, GstStateChange transition)
{
    GstVaeBase *base = GST_VAE_BASE(element);
    GstStateChangeReturn ret;

    GST_DEBUG_OBJECT(base, "%s", gst_state_change_get_name(transition));
    if (transition == GST_STATE_CHANGE_NULL_TO_READY)
        gst_vae_cuda_open(base);
    if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !start(base))
        return GST_STATE_CHANGE_FAILURE;
    ret = GST_ELEMENT_CLASS(gst_vae_base_parent_class)
              ->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_PAUSED_TO_READY ||
        (transition == GST_STATE_CHANGE_READY_TO_PAUSED &&
         ret == GST_STATE_CHANGE_FAILURE)) {
        gst_vae_queue_set_flushing(base);
        gst_vae_worker_stop(base);
        gst_vae_progress_end(base, GST_PROGRESS_TYPE_CANCELED, "stopped");
        clear(base);
    }
    if (transition == GST_STATE_CHANGE_READY_TO_NULL)
        gst_vae_cuda_close(base);
    return ret;
}

static void
set_context(GstElement *element, GstContext *context)
{
    gst_vae_cuda_set_context(GST_VAE_BASE(element), context);
    GST_ELEMENT_CLASS(gst_vae_base_parent_class)->set_context(element, context);
}

static void
finalize(GObject *object)
{
    GstVaeBase *base = GST_VAE_BASE(object);

    gst_caps_replace(&base->sink_caps, NULL);
    gst_caps_replace(&base->refused_caps, NULL);
    g_free(base->settings.model);
    g_free(base->settings.variant);
    g_free(base->settings.checkpoint_location);
    g_free(base->settings.load_checkpoint);
    gst_vae_cuda_close(base); /* a context that came in NULL */
    g_mutex_clear(&base->cuda_lock);
    g_mutex_clear(&base->lock);
    g_cond_clear(&base->cond);
    G_OBJECT_CLASS(gst_vae_base_parent_class)->finalize(object);
}

static void
install_model_properties(GObjectClass *klass)
{
    const GParamFlags ready =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

    /**
     * GstVaeBase:model:
     *
     * Path of the weights. The file is opened, recognised and checked on
     * READY to PAUSED; a file that holds no known model is a
     * RESOURCE/OPEN_READ error that names what was found. Elements with the
     * same file share one copy.
     *
     * While the element runs, another file of the same latent space takes over
     * at the next start of a sequence (for vaedecode also at once, with
     * #GstVaeDecode::restart), and the element message `vae-switch` says so.
     * The new model is opened before the memory of the old one is given back.
     * What cannot be taken (a broken file, another latent space, too little
     * memory for both) is a WARNING; the property goes back to what it was.
     *
     * Where it is not set, the latent space picks the file:
     * `gst-vae/models/SPACE.safetensors` in the XDG data folders, then, for
     * the space `gst-vae-demo` only, the bundled demo. An encoder that is
     * told nothing takes the demo if no other model is installed.
     */
    g_object_class_install_property(
        klass, PROP_MODEL,
        g_param_spec_string("model", "Model",
                            "Path of the weights, a file or a folder of "
                            "diffusers; unset: the file installed for the "
                            "latent space. Set while playing: takes over at "
                            "the next start of a sequence, or by the action "
                            "restart where the element has it",
                            NULL, playing));
    /**
     * GstVaeBase:variant:
     *
     * Which of several models a file holds, where its shapes cannot tell.
     */
    g_object_class_install_property(
        klass, PROP_VARIANT,
        g_param_spec_string("variant", "Variant",
                            "Name of the model for weights whose shapes fit "
                            "several: taew2_1, taehv, taecvx, taeos1_3; "
                            "unset: as the file says, else taew2_1",
                            NULL, ready));
    /**
     * GstVaeBase:backend:
     *
     * What computes. `auto` takes the fastest one that works on this machine.
     * Another value asks for that one: where the build or the machine lacks
     * it, there is an error that says what is missing.
     */
    g_object_class_install_property(
        klass, PROP_BACKEND,
        g_param_spec_enum("backend", "Backend",
                          "What computes; auto: the fastest that works here",
                          GST_TYPE_VAE_BACKEND, VAE_BACKEND_AUTO, ready));
    /**
     * GstVaeBase:cuda-device-id:
     *
     * Number of the GPU that the `cuda` backend takes. The other backends do
     * not read it; where `auto` has to take one of them, there is a WARNING.
     */
    g_object_class_install_property(
        klass, PROP_CUDA_DEVICE_ID,
        g_param_spec_int("cuda-device-id", "CUDA Device ID",
                         "Number of the GPU for the cuda backend, as CUDA "
                         "counts them; -1: 0",
                         -1, G_MAXINT, -1, ready));
    /**
     * GstVaeBase:precision:
     *
     * Type of the numbers inside the network.
     */
    g_object_class_install_property(
        klass, PROP_PRECISION,
        g_param_spec_enum("precision", "Precision",
                          "Numbers that the network computes in; auto: to "
                          "decode bf16 where it is faster, else fp32; to "
                          "encode fp32, on cuda tf32",
                          GST_TYPE_VAE_PRECISION, VAE_PRECISION_AUTO, ready));
    /**
     * GstVaeBase:nan-policy:
     *
     * What is done where the network overflows and its results are NaN or
     * infinite, though the input was not. `fallback` takes another stream in
     * fp32 and a copy of the carries (`bytes-fallback` of #GstVaeBase:stats),
     * therefore it is not the default; where the precision is not of 16 bits
     * there is nothing to fall back to.
     */
    g_object_class_install_property(
        klass, PROP_NAN_POLICY,
        g_param_spec_enum("nan-policy", "NaN Policy",
                          "What to do where numbers overflow inside the "
                          "network and results are NaN or infinite",
                          GST_TYPE_VAE_NAN_POLICY, VAE_NAN_PASS, ready));
    /**
     * GstVaeBase:deterministic:
     *
     * Every run on one machine gives the same bytes, also where a faster way
     * is chosen by timing otherwise.
     */
    g_object_class_install_property(
        klass, PROP_DETERMINISTIC,
        g_param_spec_boolean("deterministic", "Deterministic",
                             "Choose nothing by timing, so that every run "
                             "gives the same bytes",
                             FALSE, ready));
}

static void
install_flow_properties(GObjectClass *klass)
{
    const GParamFlags ready =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

    /**
     * GstVaeBase:slice-size:
     *
     * Steps (latents after the first) that one engine call may take. A call
     * takes what waits and never waits for more. The output does not depend
     * on it; speed and memory do. 0 takes the largest of 4, 2 and 1 that fits
     * into memory, and 1 behind a live source.
     */
    g_object_class_install_property(
        klass, PROP_SLICE_SIZE,
        g_param_spec_uint("slice-size", "Slice Size",
                          "Latents that are computed at once: more are "
                          "faster and come later, the output is the same; 0: "
                          "the largest of 4, 2, 1 that fits memory, 1 when "
                          "live",
                          0, MAX_SLICE_SIZE, 0, ready));
    /**
     * GstVaeBase:queue-depth:
     *
     * Slices that may wait in the element before upstream has to.
     */
    g_object_class_install_property(
        klass, PROP_QUEUE_DEPTH,
        g_param_spec_uint("queue-depth", "Queue Depth",
                          "Slices that may be in the element before upstream "
                          "has to wait",
                          1, MAX_QUEUE_DEPTH, DEFAULT_QUEUE_DEPTH, playing));
    /**
     * GstVaeBase:threads:
     *
     * Threads of the `cpu` and `ref` backends.
     */
    g_object_class_install_property(
        klass, PROP_THREADS,
        g_param_spec_uint("threads", "Threads",
                          "Number of threads that compute on a processor; 0: "
                          "as many as the process may use",
                          0, MAX_THREADS, 0, ready));
    /**
     * GstVaeBase:qos:
     *
     * Listens to quality-of-service events. The decoder computes every frame,
     * because the next ones need it, but does not convert those that come too
     * late, and posts a QOS message for each. The encoder passes the events
     * upstream; without `qos` it keeps them to itself.
     */
    g_object_class_install_property(
        klass, PROP_QOS,
        g_param_spec_boolean("qos", "QoS",
                             "Act on quality-of-service events from "
                             "downstream: a decoder drops frames that come "
                             "too late, an encoder passes the events upstream",
                             TRUE, playing));
    /**
     * GstVaeBase:stats:
     *
     * Fields, guint64 unless said otherwise, counted since the element left
     * READY; a slice is what one call of the engine took:
     *
     * - `slices`, `steps`: that the engine ran
     * - `frames`: of video, in or out; `dropped`: came too late and were not
     *   converted
     * - `in-flight` (guint): steps in the element
     * - `fps` (gdouble): frames per second from the first slice to the last
     * - `avg-KIND-ns`, `p95-KIND-ns`, `last-KIND-ns`, `total-KIND-ns`: the time
     *   per slice, where KIND is `upload` (what came in is put where the
     *   network reads it, converted or copied to the device), `compute` (the
     *   network), `download` (the way out), `slice` (the whole call) or
     *   `queue-wait` (from when its first step came in until it began). `p95`,
     *   which 95 of 100 do not exceed, is of the last 128 slices
     * - `nonfinite`: NaN and infinite values among the latents
     * - `nan-steps`, `mended-steps`: results that were not finite, and those
     *   of them that are in fp32 (#GstVaeBase:nan-policy)
     * - `bytes-weights`, `bytes-carries`, `bytes-arena`, `bytes-scratch`,
     *   `bytes-staging`, `bytes-library`, `bytes-fallback`, `bytes-total`:
     *   memory, as `vaetool plan` tells it
     * - `backend`, `precision`, `device` (strings, the last the name of the GPU
     *   or the processor) and `slice-size` (guint): what was chosen
     */
    g_object_class_install_property(
        klass, PROP_STATS,
        g_param_spec_boxed("stats", "Statistics",
                           "Counters since the element left READY, times of "
                           "slices in nanoseconds, memory by purpose in "
                           "bytes, and what computes",
                           GST_TYPE_STRUCTURE,
                           G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
    /**
     * GstVaeBase:post-stats:
     *
     * Posts an element message `vae-stats` with the fields of
     * #GstVaeBase:stats, as often as #GstVaeBase:stats-interval says and at the
     * end of the stream.
     */
    g_object_class_install_property(
        klass, PROP_POST_STATS,
        g_param_spec_boolean("post-stats", "Post Statistics",
                             "Post the statistics on the bus every "
                             "stats-interval and at the end of the stream",
                             FALSE, playing));
    /**
     * GstVaeBase:stats-interval:
     *
     * Least time between two messages with statistics, and between two that
     * tell the progress through a file of known length.
     */
    g_object_class_install_property(
        klass, PROP_STATS_INTERVAL,
        g_param_spec_uint64("stats-interval", "Statistics Interval",
                            "Least time between two messages of statistics or "
                            "of progress, in nanoseconds; 0: with every slice "
                            "and every percent",
                            0, G_MAXINT64, DEFAULT_STATS_INTERVAL, playing));
}

static void
install_release(GObjectClass *klass)
{
    /**
     * GstVaeBase:idle-release:
     *
     * After this time without a slice to compute, in any state, the memory of
     * the device is given back as with #GstVaeBase::release. 0: never. Any
     * value may be set while the element runs.
     */
    g_object_class_install_property(
        klass, PROP_IDLE_RELEASE,
        g_param_spec_uint64("idle-release", "Idle Release",
                            "Time without work, in nanoseconds, after which "
                            "the memory of the device is given back until the "
                            "next slice; 0: never",
                            0, G_MAXINT64 / 4, 0,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                GST_PARAM_MUTABLE_PLAYING));
    /**
     * GstVaeBase::release:
     * @object: the element
     *
     * Gives back the memory that the element holds on a device (weights,
     * activations, state), once what has come in so far is computed; the state
     * is kept in the memory of the host. The next slice takes it again and goes
     * on as if nothing had been, to the byte. Weights that another element of
     * the process computes with stay.
     *
     * May be emitted at any time and from any thread; it does not wait. The
     * element message `vae-release` tells when it was done: `released` (FALSE
     * on a backend without a device, which keeps its memory), and `idle` (TRUE
     * for #GstVaeBase:idle-release). Where the device has no room for the
     * next slice, there is a RESOURCE/NO_SPACE_LEFT error; after a flush the
     * element tries again.
     */
    g_signal_new_class_handler("release", G_TYPE_FROM_CLASS(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
                               G_CALLBACK(gst_vae_release_request), NULL, NULL,
                               NULL, G_TYPE_NONE, 0);
}

static void
gst_vae_base_class_init(GstVaeBaseClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);

    object_class->set_property = set_property;
    object_class->get_property = get_property;
    object_class->finalize = finalize;
    GST_ELEMENT_CLASS(klass)->change_state = change_state;
    GST_ELEMENT_CLASS(klass)->set_context = set_context;
    install_model_properties(object_class);
    install_flow_properties(object_class);
    install_release(object_class);
    gst_type_mark_as_plugin_api(GST_TYPE_VAE_BASE, 0);
}

static void
gst_vae_base_init(GstVaeBase *base)
{
    g_mutex_init(&base->lock);
    g_mutex_init(&base->cuda_lock);
    g_cond_init(&base->cond);
    g_queue_init(&base->fifo);
    g_queue_init(&base->work);
    gst_segment_init(&base->segment, GST_FORMAT_TIME);
    base->settings.cuda_device_id = -1;
    base->settings.queue_depth = DEFAULT_QUEUE_DEPTH;
    base->settings.stats_interval = DEFAULT_STATS_INTERVAL;
    base->settings.qos = TRUE;
    base->flushing = TRUE;
    base->lap = 1;
    gst_vae_latency_reset(&base->latency);
    base->earliest = GST_CLOCK_TIME_NONE;
    base->shown = GST_CLOCK_TIME_NONE;
}
