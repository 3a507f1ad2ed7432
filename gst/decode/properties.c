/*
 * properties.c: defines the properties and signals that only vaedecode has.
 */
#include "decode.h"

#include "enums.h"
#include "fields.h"

enum {
    PROP_0,
    PROP_FRAMERATE = GST_VAE_BASE_LAST_PROPERTY,
    PROP_NORMALIZATION,
    PROP_SEQUENCE,
    PROP_LOOK_AHEAD,
    PROP_LOCATION,
    PROP_INTERVAL,
    PROP_CARRIES
};

static const GstVaeField fields[] = {
    GST_VAE_FIELD(PROP_FRAMERATE, GstVaeDecode, fps_n),
    GST_VAE_FIELD(PROP_NORMALIZATION, GstVaeDecode, normalization),
    GST_VAE_FIELD(PROP_SEQUENCE, GstVaeDecode, sequence),
    GST_VAE_FIELD(PROP_LOOK_AHEAD, GstVaeDecode, look_ahead),
    GST_VAE_FIELD(PROP_LOCATION, GstVaeDecode, base.checkpoints.location),
    GST_VAE_FIELD(PROP_INTERVAL, GstVaeDecode, base.checkpoints.interval),
    GST_VAE_FIELD(PROP_CARRIES, GstVaeDecode, base.checkpoints.carries),
    {0}};

static const GParamFlags ready =
    G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

static void
install_latents(GObjectClass *klass)
{
    /**
     * GstVaeDecode:framerate:
     *
     * Rate of the decoded video where the caps state none.
     */
    g_object_class_install_property(
        klass, PROP_FRAMERATE,
        gst_param_spec_fraction("framerate", "Framerate",
                                "Framerate of the video where the caps state "
                                "none, " GST_VAE_RATES
                                " (0/1 = the usual one of the model)",
                                0, 1, G_MAXINT, 1, 0, 1, ready));
    /**
     * GstVaeDecode:normalization:
     *
     * Convention of the latents: with or without the model's latent statistics
     * applied. A value other than `auto` overrides the caps.
     */
    g_object_class_install_property(
        klass, PROP_NORMALIZATION,
        g_param_spec_enum("normalization", "Normalization",
                          "Normalization of the latents, which overrides that "
                          "of the caps",
                          GST_TYPE_VAE_NORMALIZATION,
                          GST_VAE_NORMALIZATION_AUTO, ready));
    /**
     * GstVaeDecode:sequence:
     *
     * How the element recognises the first latent of a sequence, which gives
     * one frame and knows nothing of those before it. With `flags` it is each
     * one without DELTA_UNIT. `continuous` is for applications that set no
     * flags: each one after the first continues the sequence. In both cases
     * DISCONT, a flush and new caps begin one.
     */
    g_object_class_install_property(
        klass, PROP_SEQUENCE,
        g_param_spec_enum("sequence", "Sequence",
                          "Which buffers begin a sequence: those without the "
                          "flag DELTA_UNIT, or only those after a "
                          "discontinuity",
                          GST_TYPE_VAE_SEQUENCE, GST_VAE_SEQUENCE_FLAGS,
                          ready));
}

static void
install_look_ahead(GObjectClass *klass)
{
    /**
     * GstVaeDecode:look-ahead:
     *
     * Only for a model whose decoder is not causal (LTX-2): a frame also
     * depends on latents behind its own, and comes when these have come. -1
     * waits for all of them: the frames are exact, and LATENCY and
     * `look-ahead` of #GstVaeBase:stats tell how long that takes. A smaller
     * number waits for so many latents only and treats the next ones as
     * missing, which is not exact. At the end of the sequence the frames that
     * wait come at once.
     */
    g_object_class_install_property(
        klass, PROP_LOOK_AHEAD,
        g_param_spec_int(
            "look-ahead", "Look Ahead",
            "Maximum number of later latents that a frame waits for, if "
            "the model looks ahead: fewer mean less latency and frames "
            "that are not exact (-1 = all that the model needs)",
            -1, G_MAXINT, -1, ready));
}

static void
install_checkpoints(GObjectClass *klass)
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
        klass, PROP_LOCATION,
        g_param_spec_string("checkpoint-location", "Checkpoint Location",
                            "Location of the file for the checkpoints of "
                            "checkpoint-interval; each is written over the one "
                            "before",
                            NULL, playing));
    /**
     * GstVaeDecode:checkpoint-interval:
     *
     * After so many latents a checkpoint is written. Computing waits until the
     * frames before it are pushed and the file is on the disk.
     */
    g_object_class_install_property(
        klass, PROP_INTERVAL,
        g_param_spec_uint("checkpoint-interval", "Checkpoint Interval",
                          "Number of latents between two checkpoints (0 = only "
                          "those that the action save-checkpoint asks for)",
                          0, G_MAXUINT, 0, playing));
    /**
     * GstVaeDecode:checkpoint-carries:
     *
     * For streams whose latents cannot be had again. The file then takes as
     * much as `bytes-carries` of #GstVaeBase:stats, gigabytes for a large
     * picture.
     */
    g_object_class_install_property(
        klass, PROP_CARRIES,
        g_param_spec_boolean("checkpoint-carries", "Checkpoint Carries",
                             "Store the carries in checkpoints, so that no "
                             "latent has to come again; such files are large",
                             FALSE, playing));
}

static void
restart_action(GstVaeDecode *self)
{
    GST_OBJECT_LOCK(self);
    self->base.choice.restart_wanted = TRUE;
    GST_OBJECT_UNLOCK(self);
}

static void
save_action(GstVaeBase *base, const gchar *path)
{
    g_return_if_fail(path != NULL && *path != '\0');
    gst_vae_worker_save(&base->worker, path);
}

static void
load_action(GstVaeBase *base, const gchar *path)
{
    g_return_if_fail(path != NULL && *path != '\0');
    GST_OBJECT_LOCK(base);
    g_free(base->checkpoints.load);
    base->checkpoints.load = g_strdup(path);
    GST_OBJECT_UNLOCK(base);
}

static void
install_signals(GObjectClass *klass)
{
    /**
     * GstVaeDecode::restart:
     * @decode: the element
     *
     * At the next latent, takes the #GstVaeBase:model that was set meanwhile,
     * without waiting for a sequence to start, and forgets what was before:
     * the latent is decoded without context, as at the start of a sequence, and
     * gives as many frames as any other, so that the times of frames go on
     * without a gap. The element message `vae-switch` says when: `model`,
     * `cold` (TRUE), `timestamp` and `running-time`.
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
     * Writes the position of the stream to a file, once all latents that came
     * before are decoded and their frames are pushed. Does not wait; the
     * element message `vae-checkpoint` says when: `location`, `saved`, and
     * `frames`, so many of which have left the element since the start of the
     * clip. If it cannot be written there is a WARNING, and the stream goes
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
     * where the checkpoint was written. The same latents have to come once
     * more, from the start or from the first one that is needed, or, if the
     * file has carries, the next ones. The first frame that leaves is the one
     * after those that the checkpoint counts. A file of another run, or a
     * damaged one, is an error.
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
    install_look_ahead(klass);
    install_checkpoints(klass);
    install_signals(klass);
}
