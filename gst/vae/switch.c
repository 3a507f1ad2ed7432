/*
 * switch.c: chooses the model of an element, and changes it while a stream
 * runs.
 */
#include "switch.h"

#include "details.h"
#include "error.h"
#include "vae-private/model.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

static gchar *
dup_setting(GstVaeBase *base)
{
    gchar *path;

    GST_OBJECT_LOCK(base);
    path = g_strdup(base->choice.property);
    GST_OBJECT_UNLOCK(base);
    return path;
}

gboolean
gst_vae_base_finds_model(GstVaeBase *base)
{
    g_autofree gchar *setting = dup_setting(base);

    return !setting || !*setting;
}

/* Refuses a file whose network cannot run here. */
static void
refuse_network(const VaeModelInfo *info, const gchar *found,
               const gchar *expected, GError **error)
{
    gchar *message =
        g_strdup_printf("%s has %s (recognised by %s), expected %s", info->path,
                        found, info->reason, expected);

    *error = gst_vae_error_new(
        GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ, message,
        gst_vae_mismatch_details((GstVaeMismatch){"model", found, expected}));
    g_free(message);
}

static void
refuse_direction(const VaeModelInfo *info, gboolean decode, GError **error)
{
    VaeError why;

    vae_model_lacks(info, decode ? VAE_DECODE : VAE_ENCODE, &why);
    *error = gst_vae_error_new(
        GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ, why.message,
        gst_vae_mismatch_details((GstVaeMismatch){
            "model", decode ? "only an encoder" : "only a decoder",
            decode ? "a decoder" : "an encoder"}));
}

/* Checks that the model fits the direction and the arrays of a step. */
static gboolean
check_info(GstVaeBase *base, const VaeModelInfo *info, GError **error)
{
    const gboolean decode =
        GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE;
    const gint most = MAX(MAX(info->decode.first_out, info->decode.step_out),
                          MAX(info->encode.first_in, info->encode.step_in));
    const gboolean present = decode ? info->has_decoder : info->has_encoder;

    if (!present)
        refuse_direction(info, decode, error);
    else if (most > GST_VAE_MAX_UNITS)
        refuse_network(info, "steps of more frames",
                       "steps of at most " G_STRINGIFY(GST_VAE_MAX_UNITS),
                       error);
    return present && most <= GST_VAE_MAX_UNITS;
}

/* The file that setting names, or what there is without. (transfer full) */
static gchar *
choose_path(GstVaeBase *base, const gchar *setting, GError **error)
{
    if (setting && *setting)
        return g_strdup(setting);
    return GST_VAE_BASE_GET_CLASS(base)->find_model(base, error);
}

/* Opens a model. Returns NULL without an error if a flush came first. (transfer
 * full) */
static GstVaeModel *
open_model(GstVaeBase *base, const gchar *path, GError **error)
{
    GstVaeModel *model = NULL;
    VaeError fault = {0};
    VaeStatus status = gst_vae_loader_load(&base->worker.loader, path, 0, TRUE,
                                           &model, &fault);

    if (status == VAE_OK && check_info(base, gst_vae_model_info(model), error))
        return model;
    if (status != VAE_OK && status != VAE_ERR_CANCELLED)
        *error = gst_vae_error_to_gerror(&fault);
    gst_vae_model_unref(model);
    return NULL;
}

/* Makes this the model in use. (takes model, path and setting) */
static void
take_model(GstVaeBase *base, GstVaeModel *model, gchar *path, gchar *setting)
{
    GstVaeModel *old = base->choice.model;

    base->choice.model = model;
    base->choice.info = gst_vae_model_info(model);
    g_free(base->choice.path);
    base->choice.path = path;
    g_free(base->choice.setting);
    base->choice.setting = setting;
    gst_vae_model_unref(old);
}

/* Posts that the requested model cannot be used, and sets the property back
 * unless it was set again. (takes error) */
static void
refuse(GstVaeBase *base, const gchar *setting, GError *error)
{
    gboolean back;

    GST_OBJECT_LOCK(base);
    back = g_strcmp0(base->choice.property, setting) == 0 &&
           g_strcmp0(setting, base->choice.setting) != 0;
    if (back) {
        g_free(base->choice.property);
        base->choice.property = g_strdup(base->choice.setting);
        base->choice.requested = FALSE;
    }
    GST_OBJECT_UNLOCK(base);
    g_prefix_error(&error, "Going on with %s as before: ", base->choice.path);
    gst_vae_post(GST_ELEMENT(base), GST_MESSAGE_WARNING, error,
                 gst_vae_error_context(setting, NULL));
    if (back)
        g_object_notify(G_OBJECT(base), "model");
}

/* Returns TRUE if the property was set since the last call. */
static gboolean
take_changed(GstVaeBase *base)
{
    gboolean requested;

    GST_OBJECT_LOCK(base);
    requested = base->choice.requested;
    base->choice.requested = FALSE;
    GST_OBJECT_UNLOCK(base);
    return requested;
}

/* Opens what the property names. changed: also where it is the same file. */
static gboolean
use_setting(GstVaeBase *base, const gchar *setting, gboolean changed,
            GError **error)
{
    gchar *path = choose_path(base, setting, error);
    GstVaeModel *model = NULL;

    if (path && !changed && g_strcmp0(path, base->choice.path) == 0)
        model = gst_vae_model_ref(base->choice.model);
    else if (path)
        model = open_model(base, path, error);
    if (model)
        take_model(base, model, path, g_strdup(setting));
    else
        g_free(path);
    return model != NULL;
}

gboolean
gst_vae_base_use_model(GstVaeBase *base, GError **error)
{
    const gboolean changed = take_changed(base) && base->choice.model;
    gchar *setting = dup_setting(base);
    GError *fault = NULL;
    gboolean ok = use_setting(base, setting, changed, &fault);

    if (!ok && fault && changed) {
        refuse(base, setting, g_steal_pointer(&fault));
        g_free(setting);
        setting = dup_setting(base);
        ok = use_setting(base, setting, FALSE, &fault);
    }
    if (fault)
        g_propagate_error(error, fault);
    g_free(setting);
    return ok;
}

/* ------------------------------------------------------------------ */
/* While a stream runs.                                                */

static gboolean
same_number(const VaeModelInfo *new, const gchar *what, gint found,
            gint expected, GError **error)
{
    gchar is[12], should[12];

    g_snprintf(is, sizeof is, "%d", found);
    g_snprintf(should, sizeof should, "%d", expected);
    if (found != expected)
        gst_vae_set_mismatch(error, (GstVaeMismatch){what, is, should},
                             "%s has %s %s, the stream expects %s", new->path,
                             what, is, should);
    return found == expected;
}

/* Returns TRUE if new can continue the stream of old: neither the caps nor the
 * number of frames change. */
static gboolean
check_successor(const VaeModelInfo *old, const VaeModelInfo *new,
                GError **error)
{
    if (g_strcmp0(new->space, old->space) != 0) {
        gst_vae_set_mismatch(
            error, (GstVaeMismatch){"latent-space", new->space, old->space},
            "%s is of the latent space %s, the stream is of %s", new->path,
            new->space, old->space);
        return FALSE;
    }
    return same_number(new, "latent channels", new->latent_channels,
                       old->latent_channels, error) &&
           same_number(new, "pixels per latent pixel", new->spatial,
                       old->spatial, error) &&
           same_number(new, "frames per latent", new->decode.step_out,
                       old->decode.step_out, error) &&
           same_number(new, "frames of the first latent", new->decode.first_out,
                       old->decode.first_out, error) &&
           same_number(new, "latents of a chunk", new->chunk, old->chunk,
                       error);
}

/* The session to go on with; NULL: a flush or an error came first. Waits until
 * the memory of the one before is known. */
static GstVaeSession *
next_session(GstVaeBase *base, GstVaeModel *model, gboolean restarts)
{
    GstVaeSession *session = gst_vae_queue_successor(&base->queue, model);

    if (session) {
        session->params.restarts = restarts;
        GST_VAE_BASE_GET_CLASS(base)->set_times(base, session);
    }
    return session;
}

/* Opens the session for model and makes it that of the steps to come. FALSE
 * with error, or without it: a flush or an error came first. */
static gboolean
begin_session(GstVaeBase *base, GstVaeModel *model, gboolean restarts,
              const gchar *load, VaeCheckpoint *loaded, GError **error)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    GstVaeSession *session, *old;
    VaeError fault = {0};
    gboolean longer;

    /* The frames that wait in the stream before it. */
    if (klass->direction == VAE_DECODE && klass->finish(base) != GST_FLOW_OK)
        return FALSE;
    session = next_session(base, model, restarts);
    if (!session)
        return FALSE;
    if (gst_vae_worker_open(&base->worker, session, load, loaded, &fault) !=
        VAE_OK) {
        gst_vae_session_unref(session);
        if (fault.status != VAE_ERR_CANCELLED) {
            *error = gst_vae_error_to_gerror(&fault);
            if (!load)
                g_prefix_error(error, "%s: ", gst_vae_model_info(model)->path);
        }
        return FALSE;
    }
    old = gst_vae_queue_set_session(&base->queue, session);
    longer = old->collect_time != session->collect_time;
    gst_vae_session_unref(old);
    if (longer)
        gst_element_post_message(GST_ELEMENT(base),
                                 gst_message_new_latency(GST_OBJECT(base)));
    return TRUE;
}

gboolean
gst_vae_base_load_checkpoint(GstVaeBase *base, const gchar *path,
                             VaeCheckpoint *out, GError **error)
{
    return begin_session(base, base->choice.model, TRUE, path, out, error);
}

static void
announce(GstVaeBase *base, GstClockTime pts, gboolean without_context)
{
    GST_INFO_OBJECT(base, "going on with %s%s", base->choice.path,
                    without_context ? ", without context" : "");
    gst_element_post_message(
        GST_ELEMENT(base),
        gst_message_new_element(
            GST_OBJECT(base),
            gst_structure_new("vae-switch", "model", G_TYPE_STRING,
                              base->choice.path, "without-context",
                              G_TYPE_BOOLEAN, without_context, "timestamp",
                              G_TYPE_UINT64, pts, "running-time", G_TYPE_UINT64,
                              gst_vae_base_running_time(base, pts), NULL)));
}

/* Takes the changes that are requested at this step. */
static void
take_changes(GstVaeBase *base, gboolean start, gboolean *change,
             gboolean *restart)
{
    GstVaeChoice *c = &base->choice;

    GST_OBJECT_LOCK(base);
    *change = c->requested && (start || c->restart_requested);
    *restart = c->restart_requested && !start;
    if (*change)
        c->requested = FALSE;
    c->restart_requested = FALSE;
    GST_OBJECT_UNLOCK(base);
}

/* Puts changes back that a flush came before. */
static void
put_back(GstVaeBase *base, gboolean change, gboolean restart)
{
    GST_OBJECT_LOCK(base);
    base->choice.requested |= change;
    base->choice.restart_requested |= restart;
    GST_OBJECT_UNLOCK(base);
}

/* The model to go on with, checked. NULL: as open_model(). */
static GstVaeModel *
open_successor(GstVaeBase *base, const gchar *path, GError **error)
{
    GstVaeModel *model = open_model(base, path, error);

    if (model &&
        !check_successor(base->choice.info, gst_vae_model_info(model), error))
        g_clear_pointer(&model, gst_vae_model_unref);
    return model;
}

/* Goes on with what setting names; restart: without context. FALSE with error,
 * or without it: a flush or an error came first. */
static gboolean
go_on(GstVaeBase *base, const gchar *setting, gboolean change, gboolean restart,
      GError **error)
{
    gchar *path = choose_path(base, setting, error);
    GstVaeModel *model = NULL;
    gboolean ok;

    if (path)
        model = change ? open_successor(base, path, error)
                       : gst_vae_model_ref(base->choice.model);
    ok = model && ((model == base->choice.model &&
                    (!restart || base->queue.session->params.restarts)) ||
                   begin_session(base, model, restart, NULL, NULL, error));
    if (ok) {
        take_model(base, model, path, g_strdup(setting));
    } else {
        gst_vae_model_unref(model);
        g_free(path);
    }
    return ok;
}

GstFlowReturn
gst_vae_base_switch(GstVaeBase *base, gboolean start, GstClockTime pts,
                    gboolean *without_context)
{
    GstVaeModel *const before = base->choice.model;
    gboolean change, restart;
    GstFlowReturn ret = GST_FLOW_OK;
    GError *error = NULL;
    gchar *setting;

    *without_context = FALSE;
    take_changes(base, start, &change, &restart);
    if (!change && !restart)
        return GST_FLOW_OK;
    setting = change ? dup_setting(base) : g_strdup(base->choice.setting);
    if (go_on(base, setting, change, restart, &error)) {
        *without_context = restart;
        if (restart || base->choice.model != before)
            announce(base, pts, restart);
    } else if (error) {
        refuse(base, setting, error);
    } else {
        put_back(base, change, restart);
        ret = gst_vae_queue_result(&base->queue);
    }
    g_free(setting);
    return ret;
}
