/*
 * properties.c: defines the properties that only vaeencode has.
 */
#include "encode.h"

#include "enums.h"
#include "fields.h"

enum {
    PROP_0,
    PROP_TAIL = GST_VAE_BASE_LAST_PROPERTY,
    PROP_POSTERIOR,
    PROP_SEED
};

static const GstVaeField fields[] = {
    GST_VAE_FIELD(PROP_TAIL, GstVaeEncode, tail),
    GST_VAE_FIELD(PROP_POSTERIOR, GstVaeEncode, posterior),
    GST_VAE_FIELD(PROP_SEED, GstVaeEncode, seed),
    {0}};

void
gst_vae_encode_install(GObjectClass *klass)
{
    const GParamFlags ready =
        G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;

    gst_vae_fields_install(klass, fields);
    /**
     * GstVaeEncode:tail:
     *
     * Treatment of frames at the end of a sequence that fill no group.
     * With `repeat` the last latent has the duration of the true frames, so
     * that decoding gives as many frames as came in.
     */
    g_object_class_install_property(
        klass, PROP_TAIL,
        g_param_spec_enum("tail", "Tail",
                          "Action to take for the last frames of a sequence "
                          "when they do not fill a latent",
                          GST_TYPE_VAE_TAIL, GST_VAE_TAIL_REPEAT,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                              GST_PARAM_MUTABLE_PLAYING));
    /**
     * GstVaeEncode:posterior:
     *
     * Value taken from the distribution that the encoder gives: its mean, or
     * mean + exp(logvar / 2) * e with a standard normal e of
     * #GstVaeEncode:seed. Models without a posterior (the TAEHV family) refuse
     * `sample`.
     */
    g_object_class_install_property(
        klass, PROP_POSTERIOR,
        g_param_spec_enum("posterior", "Posterior",
                          "Value to take from the distribution that the "
                          "encoder gives (the TAEHV family has a mean only)",
                          GST_TYPE_VAE_POSTERIOR, VAE_POSTERIOR_MEAN, ready));
    /**
     * GstVaeEncode:seed:
     *
     * Chooses the noise of `posterior=sample`. The noise depends on the seed,
     * on the latent's index in its sequence and on the place in it, and on
     * nothing else: the same seed gives the same latents whatever slice-size
     * and threads are.
     */
    g_object_class_install_property(
        klass, PROP_SEED,
        g_param_spec_uint64("seed", "Seed",
                            "Seed of the noise of posterior=sample; the same "
                            "seed gives the same latents",
                            0, G_MAXUINT64, 0, ready));
}
