/*
 * properties.c: defines the properties that both elements have.
 */
#include "properties.h"

#include "fields.h"
#include "params.h"
#include "property_ids.h"

#define DEFAULT_MEMORY_LIMIT "auto"
#define DEFAULT_QUEUE_DEPTH 2
#define MAX_QUEUE_DEPTH 8

void
gst_vae_properties_init(GstVaeBase *base)
{
    base->settings.params = (VaeStreamParams) VAE_INIT(VaeStreamParams);
    vae_settings_init(&base->settings.params);
    base->settings.memory_limit = g_strdup(DEFAULT_MEMORY_LIMIT);
    base->settings.resume_timeout = DEFAULT_RESUME_TIMEOUT;
    base->queue.depth = DEFAULT_QUEUE_DEPTH;
    base->stats.interval = DEFAULT_STATS_INTERVAL;
}

static const GstVaeField fields[] = {
    GST_VAE_FIELD(PROP_MODEL, GstVaeBase, choice.property),
    GST_VAE_FIELD(PROP_VARIANT, GstVaeBase, worker.loader.variant),
    GST_VAE_FIELD(PROP_QUEUE_DEPTH, GstVaeBase, queue.depth),
    GST_VAE_FIELD(PROP_QOS, GstVaeBase, qos.enabled),
    GST_VAE_FIELD(PROP_POST_STATS, GstVaeBase, stats.post),
    GST_VAE_FIELD(PROP_STATS_INTERVAL, GstVaeBase, stats.interval),
    GST_VAE_FIELD(PROP_IDLE_RELEASE, GstVaeBase, worker.idle_release),
    GST_VAE_FIELD(PROP_MEMORY_LIMIT, GstVaeBase, settings.memory_limit),
    GST_VAE_FIELD(PROP_RESUME_TIMEOUT, GstVaeBase, settings.resume_timeout),
    GST_VAE_FIELD(GST_VAE_PARAMS_ID, GstVaeBase, settings.params),
    {0}};

static void
set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    GstVaeBase *base = GST_VAE_BASE(object);

    gst_vae_fields_set(fields, object, id, value, spec);
    if (id == PROP_MODEL) {
        GST_OBJECT_LOCK(base);
        base->choice.requested = TRUE;
        GST_OBJECT_UNLOCK(base);
    }
    /* Threads that wait for room or for the time to release look again. */
    if (id == PROP_QUEUE_DEPTH || id == PROP_IDLE_RELEASE) {
        g_mutex_lock(&base->queue.lock);
        g_cond_broadcast(&base->queue.cond);
        g_mutex_unlock(&base->queue.lock);
    }
}

static void
get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    GstVaeBase *base = GST_VAE_BASE(object);

    if (id == PROP_STATS)
        g_value_take_boxed(
            value, gst_vae_stats_structure(
                       &base->stats, gst_vae_queue_n_steps(&base->queue)));
    else
        gst_vae_fields_get(fields, object, id, value, spec);
}

static void
install_model(GObjectClass *klass)
{
    /**
     * GstVaeBase:model:
     *
     * Path of the weights. The element opens, recognises and checks the file
     * when it changes from READY to PAUSED. If the file contains no known
     * model, the element posts a RESOURCE/OPEN_READ error that names the
     * content of the file. Elements with the same file share one copy of the
     * weights.
     *
     * While the element runs, the property may be set to another file of the
     * same latent space. The new model takes over at the next start of a
     * sequence. In vaedecode, #GstVaeDecode::restart makes it take over at the
     * next latent. The element then posts the element message `vae-switch`. It
     * opens the new model before it frees the memory of the old one. If the
     * file is broken or has another latent space, or if there is too little
     * memory for both models, the element posts a WARNING and keeps the old
     * model. The property then has its previous value again.
     *
     * If the property is not set, the latent space selects the installed model,
     * such as `gst-vae/models/SPACE.safetensors` in an XDG data folder. For the
     * space `gst-vae-demo`, the bundled demo model is used if none is
     * installed.
     * An encoder takes the latent space from the caps after it. If they name
     * none, the encoder uses the only installed model. If no model is
     * installed, it uses the demo model.
     */
    g_object_class_install_property(
        klass, PROP_MODEL,
        g_param_spec_string("model", "Model",
                            "Location of the weights: a file, or a folder that "
                            "diffusers wrote (NULL = the file that is "
                            "installed for the latent space). A change while "
                            "playing takes effect at the next start of a "
                            "sequence",
                            NULL, PLAYING));
    /**
     * GstVaeBase:variant:
     *
     * Selects the model if the shapes of the weights fit several models, or if
     * the file holds several: by its name, or by the prefix of its tensors.
     */
    g_object_class_install_property(
        klass, PROP_VARIANT,
        g_param_spec_string(
            "variant", "Variant",
            "Name of the model, if the shapes of the weights fit all models "
            "of one of these groups: taew2_1, taehv, taecvx, taeos1_3, "
            "lighttaew2_1; taew2_2, lighttaew2_2; taeltx_2, taeltx2_3; "
            "ltx2.3, ltx2.0; sd, sdxl; flux1, sd3; taesd, taesdxl; taef1, "
            "taesd3; or its name or prefix, such as vae., if the file holds "
            "several (NULL = the one that the file or its name states, "
            "else the first)",
            NULL, READY));
}

/* All settings of a stream that both elements have. */
static void
install_settings(GObjectClass *klass)
{
    const VaeSetting *limit = vae_setting_find("memory_limit");

    gst_vae_params_install(klass, FALSE, FALSE);
    g_object_class_install_property(
        klass, PROP_MEMORY_LIMIT,
        g_param_spec_string(limit->property, limit->title, limit->sentence,
                            DEFAULT_MEMORY_LIMIT, READY));
}

static void
install_flow(GObjectClass *klass)
{
    /**
     * GstVaeBase:queue-depth:
     *
     * Maximum number of slices in the element before upstream has to wait.
     */
    g_object_class_install_property(
        klass, PROP_QUEUE_DEPTH,
        g_param_spec_uint("queue-depth", "Queue Depth",
                          "Maximum number of slices (up to slice-size latents "
                          "each) in the element before upstream has to wait",
                          1, MAX_QUEUE_DEPTH, DEFAULT_QUEUE_DEPTH, PLAYING));
    /**
     * GstVaeBase:qos:
     *
     * Handles quality-of-service events. The decoder computes every latent,
     * because the next one needs the state. It drops frames that are too late
     * before the conversion to video, and posts a QOS message for each. It
     * always sends at least one frame a second, and the last frame of the
     * segment. The encoder passes the events upstream. If `qos` is not set, it
     * drops them.
     */
    g_object_class_install_property(
        klass, PROP_QOS,
        g_param_spec_boolean("qos", "QoS",
                             "Handle Quality-of-Service events from "
                             "downstream. A decoder drops frames that come "
                             "too late. An encoder passes the events upstream",
                             TRUE, PLAYING));
}

void
gst_vae_properties_install(GObjectClass *klass)
{
    klass->set_property = set_property;
    klass->get_property = get_property;
    install_model(klass);
    install_settings(klass);
    install_flow(klass);
    gst_vae_properties_install_report(klass);
}
