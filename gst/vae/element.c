/**
 * GstVaeBase:
 *
 * Base class of vaedecode and vaeencode: the way of buffers through the
 * element, the model and the properties about computing.
 */
#include "base.h"

#include "error.h"
#include "offer.h"
#include "pads.h"
#include "properties.h"
#include "push.h"
#include "share.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_engine_debug);
#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* The longest time that the change from READY to PAUSED waits for a model.
 * Opening reads only the header. If the file system hangs, the state changes
 * all the same, and the first caps wait. */
#define LOAD_WAIT_US (10 * G_USEC_PER_SEC)

G_DEFINE_ABSTRACT_TYPE_WITH_CODE(
    GstVaeBase, gst_vae_base, GST_TYPE_ELEMENT,
    G_IMPLEMENT_INTERFACE(GST_TYPE_PRESET, NULL);
    GST_DEBUG_CATEGORY_INIT(gst_vae_engine_debug, "vaeengine", 0,
                            "the computation of vaedecode and vaeencode"))

/* Opens the file that the property names. Returns FALSE if this failed. */
static gboolean
load_named_model(GstVaeBase *base)
{
    VaeError error = {0};
    VaeStatus status;
    gchar *path;

    GST_OBJECT_LOCK(base);
    path = g_strdup(base->choice.property);
    base->choice.requested = base->choice.restart_requested = FALSE;
    GST_OBJECT_UNLOCK(base);
    if (!path || !*path) {
        g_free(path);
        return TRUE;
    }
    status = gst_vae_loader_load(&base->worker.loader, path,
                                 g_get_monotonic_time() + LOAD_WAIT_US, FALSE,
                                 NULL, &error);
    g_free(path);
    if (status == VAE_OK || status == VAE_ERR_CANCELLED)
        return TRUE;
    gst_vae_base_post(base, gst_vae_error_to_gerror(&error));
    return FALSE;
}

/* Clears the state of one run in PAUSED and PLAYING. The worker has ended. */
static void
clear(GstVaeBase *base)
{
    gst_vae_push_clear(base, FALSE);
    gst_vae_pads_reset(base);
    gst_vae_push_drop_pool(base);
    gst_vae_worker_reset(&base->worker);
    gst_vae_queue_reset(&base->queue);
    gst_vae_latency_reset(&base->latency);
    g_clear_pointer(&base->choice.model, gst_vae_model_unref);
    g_clear_pointer(&base->choice.path, g_free);
    g_clear_pointer(&base->choice.setting, g_free);
    base->choice.info = NULL;
}

static gboolean
start(GstVaeBase *base)
{
    clear(base);
    gst_vae_stats_begin(&base->stats);
    base->qos.slow_told = FALSE;
    if (gst_vae_worker_start(&base->worker) && load_named_model(base))
        return TRUE;
    gst_vae_worker_stop(&base->worker);
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
        gst_vae_cuda_open(&base->cuda,
                          GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE
                              ? base->srcpad
                              : base->sinkpad);
    if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !start(base))
        return GST_STATE_CHANGE_FAILURE;
    ret = GST_ELEMENT_CLASS(gst_vae_base_parent_class)
              ->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_PAUSED_TO_READY ||
        (transition == GST_STATE_CHANGE_READY_TO_PAUSED &&
         ret == GST_STATE_CHANGE_FAILURE)) {
        gst_vae_push_set_flushing(base);
        gst_vae_worker_stop(&base->worker);
        gst_vae_progress_end(&base->progress, GST_PROGRESS_TYPE_CANCELED,
                             "stopped");
        clear(base);
    }
    if (transition == GST_STATE_CHANGE_READY_TO_NULL)
        gst_vae_cuda_close(&base->cuda);
    return ret;
}

static void
set_context(GstElement *element, GstContext *context)
{
    gst_vae_cuda_set_context(&GST_VAE_BASE(element)->cuda, context);
    GST_ELEMENT_CLASS(gst_vae_base_parent_class)->set_context(element, context);
}

static void
finalize(GObject *object)
{
    GstVaeBase *base = GST_VAE_BASE(object);

    gst_caps_replace(&base->input.caps, NULL);
    gst_caps_replace(&base->input.refused_caps, NULL);
    gst_clear_tag_list(&base->input.tags);
    g_clear_error(&base->input.late_error);
    g_free(base->input.refusal);
    g_free(base->choice.property);
    g_free(base->settings.memory_limit);
    g_free(base->worker.loader.variant);
    g_free(base->checkpoints.location);
    g_free(base->checkpoints.load);
    gst_vae_cuda_close(&base->cuda); /* a context that came in NULL */
    gst_vae_cuda_clear(&base->cuda);
    gst_vae_qos_clear(&base->qos);
    gst_vae_latency_clear(&base->latency);
    gst_vae_stats_clear(&base->stats);
    gst_vae_queue_clear(&base->queue);
    G_OBJECT_CLASS(gst_vae_base_parent_class)->finalize(object);
}

static void
gst_vae_base_class_init(GstVaeBaseClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);

    object_class->finalize = finalize;
    GST_ELEMENT_CLASS(klass)->change_state = change_state;
    GST_ELEMENT_CLASS(klass)->set_context = set_context;
    gst_vae_properties_install(object_class);
    gst_type_mark_as_plugin_api(GST_TYPE_VAE_BASE, 0);
}

static void
gst_vae_base_init(GstVaeBase *base)
{
    GstElement *element = GST_ELEMENT(base);

    base->queue.element = base->stats.element = base->qos.element = element;
    base->cuda.element = base->progress.element = element;
    base->cuda.settings = &base->settings.params;
    gst_vae_queue_init(&base->queue);
    g_queue_init(&base->delay.waiting);
    gst_vae_stats_init(&base->stats);
    gst_vae_latency_init(&base->latency);
    gst_vae_qos_init(&base->qos);
    gst_vae_cuda_init(&base->cuda);
    gst_segment_init(&base->input.segment, GST_FORMAT_TIME);
    gst_vae_properties_init(base);
}
