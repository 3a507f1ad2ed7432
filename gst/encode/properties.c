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
     * Action for the last frames of a sequence if they do not fill a group.
     * `repeat` fills the group with copies of the last frame. The duration of
     * the latent is then that of the frames without the copies, so the decoder
     * gives as many frames as arrived. `drop` drops the frames.
     */
    g_object_class_install_property(
        klass, PROP_TAIL,
        g_param_spec_enum("tail", "Tail",
                          "Action to take for the last frames of a sequence "
                          "if they do not fill a latent",
                          GST_TYPE_VAE_TAIL, GST_VAE_TAIL_REPEAT,
                          G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                              GST_PARAM_MUTABLE_PLAYING));
    /**
     * GstVaeEncode:posterior:
     *
     * Value that the element takes from the distribution of the network.
     * `sample` is mean + exp(logvar / 2) * e, with standard normal noise e that
     * depends on #GstVaeEncode:seed. Networks that give no distribution (the
     * TAEHV family) refuse `sample`.
     */
    g_object_class_install_property(
        klass, PROP_POSTERIOR,
        g_param_spec_enum("posterior", "Posterior",
                          "Value to take from the distribution that the "
                          "network gives; networks of the TAEHV family have a "
                          "mean only",
                          GST_TYPE_VAE_POSTERIOR, VAE_POSTERIOR_MEAN, ready));
    /**
     * GstVaeEncode:seed:
     *
     * Seed of the noise of `posterior=sample`. The noise depends only on the
     * seed, on the index of the latent in its sequence, and on the position in
     * the latent. The same seed therefore gives the same noise for every slice
     * size and number of threads.
     */
    g_object_class_install_property(
        klass, PROP_SEED,
        g_param_spec_uint64("seed", "Seed",
                            "Seed of the noise of posterior=sample; the same "
                            "seed gives the same noise",
                            0, G_MAXUINT64, 0, ready));
}
