/*
 * properties.c: defines the properties and signals that only vaedecode has.
 */
#include "decode.h"

#include "enums.h"
#include "fields.h"
#include "params.h"

enum {
    PROP_0,
    PROP_FRAMERATE = GST_VAE_BASE_LAST_PROPERTY,
    PROP_NORMALIZATION,
    PROP_SEQUENCE,
    PROP_LOCATION,
    PROP_INTERVAL,
    PROP_CARRIES
};

static const GstVaeField fields[] = {
    GST_VAE_FIELD(PROP_FRAMERATE, GstVaeDecode, fps_n),
    GST_VAE_FIELD(PROP_NORMALIZATION, GstVaeDecode, normalization),
    GST_VAE_FIELD(PROP_SEQUENCE, GstVaeDecode, sequence),
    GST_VAE_FIELD(PROP_LOCATION, GstVaeDecode, base.checkpoints.location),
    GST_VAE_FIELD(PROP_INTERVAL, GstVaeDecode, base.checkpoints.interval),
    GST_VAE_FIELD(PROP_CARRIES, GstVaeDecode, base.checkpoints.carries),
    GST_VAE_FIELD(GST_VAE_PARAMS_ID, GstVaeDecode, base.settings.params),
    {0}};

static const GParamFlags ready =
    G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

static void
install_latents(GObjectClass *klass)
{
    /**
     * GstVaeDecode:framerate:
     *
     * Rate of the decoded video if the caps state none.
     */
    g_object_class_install_property(
        klass, PROP_FRAMERATE,
        gst_param_spec_fraction("framerate", "Framerate",
                                "Framerate of the video if the caps state "
                                "none, " GST_VAE_RATES
                                " (0/1 = the usual one of the model)",
                                0, 1, G_MAXINT, 1, 0, 1, ready));
    /**
     * GstVaeDecode:normalization:
     *
     * Convention of the latents. `normalized` numbers are those that the
     * diffusion model uses. `raw` numbers are normalized * std + mean, with the
     * statistics of the latent space. `comfyui` is the one of both that ComfyUI
     * saves in a `.latent` of this space. A value other than `auto` overrides
     * the caps.
     */
    g_object_class_install_property(
        klass, PROP_NORMALIZATION,
        g_param_spec_enum("normalization", "Normalization",
                          "Normalization of the latents; a value other than "
                          "auto overrides the caps",
                          GST_TYPE_VAE_NORMALIZATION,
                          GST_VAE_NORMALIZATION_AUTO, ready));
    /**
     * GstVaeDecode:sequence:
     *
     * How the element recognises the first latent of a sequence. This latent
     * gives one frame and does not depend on the latents before it. With
     * `flags`, every latent without DELTA_UNIT begins a sequence. `continuous`
     * is for applications that cannot set this flag: every latent continues the
     * sequence. In both cases DISCONT, a flush and new caps begin a sequence.
     */
    g_object_class_install_property(
        klass, PROP_SEQUENCE,
        g_param_spec_enum("sequence", "Sequence",
                          "Which buffers begin a new sequence. A sequence is "
                          "decoded without the latents before it",
                          GST_TYPE_VAE_SEQUENCE, GST_VAE_SEQUENCE_FLAGS,
                          ready));
}

static void
install_checkpoints(GObjectClass *klass)
{
    const GParamFlags playing =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING;

    /**
     * GstVaeDecode:checkpoint-location:
     *
     * File to which #GstVaeDecode:checkpoint-interval writes. The element
     * writes each checkpoint under another name and renames it, so there is
     * always a complete old or new file.
     */
    g_object_class_install_property(
        klass, PROP_LOCATION,
        g_param_spec_string(
            "checkpoint-location", "Checkpoint Location",
            "Location of the file to which checkpoint-interval "
            "writes (NULL = none is written). Each checkpoint replaces "
            "the one before",
            NULL, playing));
    /**
     * GstVaeDecode:checkpoint-interval:
     *
     * Number of latents after which the element writes a checkpoint. It does
     * not compute the next latent until the frames before the checkpoint are
     * pushed and the file is on the disk.
     */
    g_object_class_install_property(
        klass, PROP_INTERVAL,
        g_param_spec_uint("checkpoint-interval", "Checkpoint Interval",
                          "Number of latents between two checkpoints (0 = "
                          "none, except by the action signal "
                          "save-checkpoint)",
                          0, G_MAXUINT, 0, playing));
    /**
     * GstVaeDecode:checkpoint-carries:
     *
     * Stores the carries, the state between two steps, in the checkpoints. This
     * is for live streams, whose earlier latents cannot be sent again. The size
     * of the file is about `bytes-carries` of #GstVaeBase:stats, gigabytes for
     * a large picture.
     */
    g_object_class_install_property(
        klass, PROP_CARRIES,
        g_param_spec_boolean("checkpoint-carries", "Checkpoint Carries",
                             "Store the carries (the state of the network "
                             "between two latents) in checkpoints. A stream "
                             "then continues without earlier latents, but the "
                             "files are large",
                             FALSE, playing));
}

static void
restart_action(GstVaeDecode *self)
{
    GST_OBJECT_LOCK(self);
    self->base.choice.restart_requested = TRUE;
    GST_OBJECT_UNLOCK(self);
}

static void
save_action(GstVaeBase *base, const gchar *path)
{
    gst_vae_worker_save(&base->worker, path ? path : "");
}

static void
load_action(GstVaeBase *base, const gchar *path)
{
    GST_OBJECT_LOCK(base);
    g_free(base->checkpoints.load);
    base->checkpoints.load = g_strdup(path ? path : "");
    GST_OBJECT_UNLOCK(base);
}

static void
install_signals(GObjectClass *klass)
{
    /**
     * GstVaeDecode::restart:
     * @decode: the element
     *
     * Drops the context at the next latent. If another #GstVaeBase:model was
     * set, this model takes over at this latent, without a new sequence. The
     * latent is decoded without context, as at the start of a sequence. But it
     * gives as many frames as every later latent, so the times of the frames
     * continue without a gap. The element then posts the element message
     * `vae-switch` with the fields `model`, `without-context` (TRUE),
     * `timestamp` and `running-time`.
     */
    g_signal_new_class_handler("restart", G_TYPE_FROM_CLASS(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
                               G_CALLBACK(restart_action), NULL, NULL, NULL,
                               G_TYPE_NONE, 0);
    /**
     * GstVaeDecode::save-checkpoint:
     * @decode: the element
     * @location: path of the file
     *
     * Writes a checkpoint after the latents that have arrived are decoded and
     * their frames are pushed. The signal does not wait for this. The element
     * message `vae-checkpoint` then has the fields `location`, `saved` and
     * `frames`, the number of frames that have left the element since the start
     * of the clip. If the file cannot be written, the element posts a WARNING
     * and the stream continues.
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
     * Continues from a checkpoint at the next start of a sequence. Emit the
     * signal before the first latent. Then send the same latents again, from
     * the start of the clip or from the first latent that the decoder needs. If
     * the checkpoint has carries, the decoder needs only the latents after it.
     * The first frame that leaves is the one after those that the checkpoint
     * counts. If the file is damaged or does not match the stream, the element
     * posts an error.
     */
    g_signal_new_class_handler("load-checkpoint", G_TYPE_FROM_CLASS(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
                               G_CALLBACK(load_action), NULL, NULL, NULL,
                               G_TYPE_NONE, 1, G_TYPE_STRING);
}

void
gst_vae_decode_install(GObjectClass *klass)
{
    gst_vae_fields_install(klass, fields);
    install_latents(klass);
    gst_vae_params_install(klass, TRUE, FALSE);
    install_checkpoints(klass);
    install_signals(klass);
}
