/*
 * checkpoint.c: where a stream stands, written to a file while it runs.
 *
 * A checkpoint counts frames that were pushed. So the worker, before it
 * computes on, waits until all steps behind which the stream stands have left
 * the element.
 */
#include "base.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

enum {
    PROP_LOCATION = GST_VAE_CHECKPOINT_PROPERTIES,
    PROP_INTERVAL,
    PROP_CARRIES
};

void
gst_vae_checkpoint_forget(GstVaeBase *base)
{
    g_clear_pointer(&base->last, gst_vae_item_unref);
}

void
gst_vae_checkpoint_stand(GstVaeBase *base, GstVaeItem *item)
{
    gst_vae_checkpoint_forget(base);
    base->last = gst_vae_item_ref(item);
    if (item->start || item->cold)
        base->partial = item->partial || item->cold;
    if (!item->checkpoint || base->save_path)
        return;
    GST_OBJECT_LOCK(base);
    base->save_path = g_strdup(base->settings.checkpoint_location);
    base->save_after = 0;
    GST_OBJECT_UNLOCK(base);
}

/* No lock. */
static void
post_saved(GstVaeBase *base, const gchar *path, guint64 frames,
           const VaeError *error)
{
    const gboolean saved = error->status == VAE_OK;

    if (saved) {
        GST_INFO_OBJECT(base, "checkpoint %s: %" G_GUINT64_FORMAT " frames",
                        path, frames);
    } else {
        GError *fault = gst_vae_error_to_gerror(error);

        gst_element_message_full(
            GST_ELEMENT(base), GST_MESSAGE_WARNING, fault->domain, fault->code,
            g_strdup_printf("No checkpoint was written: %s", fault->message),
            NULL, __FILE__, GST_FUNCTION, __LINE__);
        g_error_free(fault);
    }
    gst_element_post_message(
        GST_ELEMENT(base),
        gst_message_new_element(
            GST_OBJECT(base),
            gst_structure_new("vae-checkpoint", "location", G_TYPE_STRING, path,
                              "saved", G_TYPE_BOOLEAN, saved, "frames",
                              G_TYPE_UINT64, frames, NULL)));
}

/* Lock held on entry and exit. */
static void
save(GstVaeBase *base)
{
    gchar *path = g_steal_pointer(&base->save_path);
    const gboolean stands = base->last && base->last->delivered;
    const guint64 frames = stands ? base->last->frames : 0;
    const gboolean partial = base->partial;
    VaeCheckpointParams params = {.path = path, .frames = frames};
    VaeError error = {0};

    g_mutex_unlock(&base->lock);
    GST_OBJECT_LOCK(base);
    params.carries = base->settings.checkpoint_carries;
    GST_OBJECT_UNLOCK(base);
    if (!stands)
        vae_fail(&error, VAE_ERR_ARGUMENT,
                 "%s: nothing was decoded since the start of the sequence",
                 path);
    else if (partial)
        vae_fail(&error, VAE_ERR_UNSUPPORTED,
                 "%s: what is decoded does not begin at the start of its clip "
                 "(after a seek or a restart)",
                 path);
    else
        error.status = vae_stream_save(base->stream, &params, &error);
    post_saved(base, path, frames, &error);
    g_free(path);
    g_mutex_lock(&base->lock);
}

gboolean
gst_vae_checkpoint_due(GstVaeBase *base)
{
    if (!base->save_path ||
        (base->taken < base->save_after && !base->fatal && !base->flushing))
        return FALSE;
    if (base->last && !base->last->gone && !base->fatal && !base->flushing &&
        base->load != GST_VAE_LOAD_WANTED)
        g_cond_wait(&base->cond, &base->lock);
    else
        save(base);
    return TRUE;
}

gchar *
gst_vae_checkpoint_take_wish(GstVaeBase *base)
{
    gchar *path;

    GST_OBJECT_LOCK(base);
    path = g_steal_pointer(&base->settings.load_checkpoint);
    GST_OBJECT_UNLOCK(base);
    return path;
}

/* ------------------------------------------------------------------ */
/* Properties and signals; the object lock is held.                    */

gboolean
gst_vae_checkpoint_set(GstVaeBase *base, guint id, const GValue *value)
{
    GstVaeSettings *s = &base->settings;

    switch (id) {
    case PROP_LOCATION:
        g_free(s->checkpoint_location);
        s->checkpoint_location = g_value_dup_string(value);
        return TRUE;
    case PROP_INTERVAL:
        s->checkpoint_interval = g_value_get_uint(value);
        return TRUE;
    case PROP_CARRIES:
        s->checkpoint_carries = g_value_get_boolean(value);
        return TRUE;
    default:
        return FALSE;
    }
}

gboolean
gst_vae_checkpoint_get(GstVaeBase *base, guint id, GValue *value)
{
    const GstVaeSettings *s = &base->settings;

    switch (id) {
    case PROP_LOCATION:
        g_value_set_string(value, s->checkpoint_location);
        return TRUE;
    case PROP_INTERVAL:
        g_value_set_uint(value, s->checkpoint_interval);
        return TRUE;
    case PROP_CARRIES:
        g_value_set_boolean(value, s->checkpoint_carries);
        return TRUE;
    default:
        return FALSE;
    }
}

static void
save_action(GstVaeBase *base, const gchar *path)
{
    g_return_if_fail(path != NULL && *path != '\0');
    g_mutex_lock(&base->lock);
    g_free(base->save_path);
    base->save_path = g_strdup(path);
    base->save_after = base->queued;
    g_cond_broadcast(&base->cond);
    g_mutex_unlock(&base->lock);
}

static void
load_action(GstVaeBase *base, const gchar *path)
{
    g_return_if_fail(path != NULL && *path != '\0');
    GST_OBJECT_LOCK(base);
    g_free(base->settings.load_checkpoint);
    base->settings.load_checkpoint = g_strdup(path);
    GST_OBJECT_UNLOCK(base);
}

static void
install_signals(GObjectClass *klass)
{
    /**
     * GstVaeDecode::save-checkpoint:
     * @decode: the element
     * @location: path of the file
     *
     * Writes where the stream stands to a file, once all latents that came
     * before are decoded and their frames are pushed. Does not wait; the
     * element message `vae-checkpoint` says when: `location`, `saved`, and
     * `frames`, so many of which have left the element since the start of the
     * clip. Where it cannot be written there is a WARNING, and the stream goes
     * on.
     */
    g_signal_new_class_handler("save-checkpoint", G_TYPE_FROM_CLASS(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
                               G_CALLBACK(save_action), NULL, NULL, NULL,
                               G_TYPE_NONE, 1, G_TYPE_STRING);
    /**
     * GstVaeDecode::load-checkpoint:
     * @decode: the element
     * @location: path of the file
     *
     * At the next start of a sequence, usually before the first latent, goes on
     * where the checkpoint was written: the same latents are to come once more,
     * from the start or from those on that are needed, or, if the file has
     * carries, the next ones, and the first frame that leaves is the one after
     * those that the checkpoint counts. A file of another run, or a damaged
     * one, is an error.
     */
    g_signal_new_class_handler("load-checkpoint", G_TYPE_FROM_CLASS(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
                               G_CALLBACK(load_action), NULL, NULL, NULL,
                               G_TYPE_NONE, 1, G_TYPE_STRING);
}

void
gst_vae_checkpoint_install(GObjectClass *klass, guint first)
{
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

    /**
     * GstVaeDecode:checkpoint-location:
     *
     * Where #GstVaeDecode:checkpoint-interval writes. The file is replaced as a
     * whole, so that the one before or the new one is there at any moment.
     */
    g_object_class_install_property(
        klass, first,
        g_param_spec_string("checkpoint-location", "Checkpoint Location",
                            "File of the checkpoints of checkpoint-interval; "
                            "each is written over the one before",
                            NULL, playing));
    /**
     * GstVaeDecode:checkpoint-interval:
     *
     * After so many latents a checkpoint is written. Computing waits until the
     * frames before it are pushed and the file is on the disk.
     */
    g_object_class_install_property(
        klass, first + 1,
        g_param_spec_uint("checkpoint-interval", "Checkpoint Interval",
                          "Latents from one checkpoint to the next; 0: only "
                          "those that save-checkpoint asks for",
                          0, G_MAXUINT, 0, playing));
    /**
     * GstVaeDecode:checkpoint-carries:
     *
     * For streams whose latents cannot be had again. The file then takes as
     * much as `bytes-carries` of #GstVaeBase:stats, gigabytes for a large
     * picture.
     */
    g_object_class_install_property(
        klass, first + 2,
        g_param_spec_boolean("checkpoint-carries", "Checkpoint Carries",
                             "Checkpoints hold the carries, so that no latent "
                             "has to come again; large",
                             FALSE, playing));
    install_signals(klass);
}
