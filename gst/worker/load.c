/*
 * load.c: opens models in the worker while another thread waits for them.
 */
#include "load.h"

#include "error.h"
#include "progress.h"
#include "vae-private/model.h"

void
gst_vae_loader_reset(GstVaeLoader *loader)
{
    g_mutex_lock(&loader->queue->lock);
    g_clear_pointer(&loader->model, gst_vae_model_unref);
    g_clear_pointer(&loader->path, g_free);
    g_clear_pointer(&loader->path_variant, g_free);
    loader->state = GST_VAE_LOAD_NONE;
    g_mutex_unlock(&loader->queue->lock);
}

/* Says which network was taken. */
static void
tell_network(GstVaeLoader *loader, const GstVaeModel *model, const gchar *path)
{
    gchar choice[VAE_CHOICE];
    const VaeModelInfo *info = gst_vae_model_info(model);

    GST_CAT_INFO_OBJECT(loader->category, loader->element,
                        "model %s: %s, latent space %s, by %s", path,
                        info->arch, info->space, info->reason);
    if (vae_model_choice(gst_vae_model_get(model), choice))
        gst_vae_warn_input(loader->element, path, choice, NULL);
}

void
gst_vae_loader_run(GstVaeLoader *loader)
{
    GstVaeQueue *queue = loader->queue;
    gchar *path = g_strdup(loader->path);
    gchar *variant = g_strdup(loader->path_variant);
    GstVaeModel *model = NULL, *old;
    VaeError error = {0};
    VaeStatus status;

    g_mutex_unlock(&queue->lock);
    gst_vae_progress_post(loader->element, GST_PROGRESS_TYPE_START,
                          "load-model", "loading %s", path);
    status = gst_vae_model_open(path, variant, &model, &error);
    if (status == VAE_OK)
        tell_network(loader, model, path);
    gst_vae_progress_loaded(loader->element, path,
                            model ? gst_vae_model_info(model) : NULL);
    g_mutex_lock(&queue->lock);

    old = loader->model;
    loader->model = model;
    loader->error = error;
    loader->error.status = status;
    loader->state = GST_VAE_LOAD_DONE;
    g_cond_broadcast(&queue->cond);
    g_mutex_unlock(&queue->lock);
    gst_vae_model_unref(old);
    g_free(path);
    g_free(variant);
    g_mutex_lock(&queue->lock);
}

/* Returns TRUE if this is the load that was requested last. Lock held. */
static gboolean
is_load(GstVaeLoader *loader, const gchar *path, const gchar *variant)
{
    return loader->state != GST_VAE_LOAD_NONE &&
           g_strcmp0(loader->path, path) == 0 &&
           g_strcmp0(loader->path_variant, variant) == 0;
}

/* Asks the worker for it once it is done with any other. Lock held. */
static void
request_load(GstVaeLoader *loader, const gchar *path, gboolean until_flush)
{
    GstVaeQueue *queue = loader->queue;
    gchar *variant;

    GST_OBJECT_LOCK(loader->element);
    variant = g_strdup(loader->variant);
    GST_OBJECT_UNLOCK(loader->element);
    while (loader->state == GST_VAE_LOAD_REQUESTED &&
           !is_load(loader, path, variant) && !queue->stop &&
           !(until_flush && queue->flushing))
        g_cond_wait(&queue->cond, &queue->lock);
    if (loader->state != GST_VAE_LOAD_REQUESTED &&
        !is_load(loader, path, variant)) {
        g_free(loader->path);
        g_free(loader->path_variant);
        loader->path = g_strdup(path);
        loader->path_variant = g_steal_pointer(&variant);
        loader->state = GST_VAE_LOAD_REQUESTED;
        g_cond_broadcast(&queue->cond);
    }
    g_free(variant);
}

GstVaeDecoderFacts
gst_vae_loader_facts(GstVaeLoader *loader)
{
    GstVaeDecoderFacts facts = {0};

    g_mutex_lock(&loader->queue->lock);
    if (loader->model)
        facts = gst_vae_model_facts(loader->model, &(VaeStreamParams){0});
    g_mutex_unlock(&loader->queue->lock);
    return facts;
}

VaeStatus
gst_vae_loader_load(GstVaeLoader *loader, const gchar *path, gint64 deadline,
                    gboolean until_flush, GstVaeModel **out, VaeError *error)
{
    GstVaeQueue *queue = loader->queue;
    VaeStatus status;

    g_mutex_lock(&queue->lock);
    request_load(loader, path, until_flush);
    while (loader->state == GST_VAE_LOAD_REQUESTED && !queue->stop &&
           !(until_flush && queue->flushing)) {
        if (deadline == 0)
            g_cond_wait(&queue->cond, &queue->lock);
        else if (!g_cond_wait_until(&queue->cond, &queue->lock, deadline))
            break;
    }
    if (loader->state == GST_VAE_LOAD_DONE) {
        status = loader->error.status;
        *error = loader->error;
        if (out) {
            *out = g_steal_pointer(&loader->model);
            loader->state = GST_VAE_LOAD_NONE;
        }
    } else {
        status = vae_fail(error, VAE_ERR_CANCELLED,
                          "loading %s was not waited for", path);
    }
    g_mutex_unlock(&queue->lock);
    return status;
}
