/*
 * properties.c: defines the properties that only vaeencode has.
 */
#include "encode.h"

#include "enums.h"
#include "fields.h"
#include "params.h"

enum {
    PROP_0,
    PROP_TAIL = GST_VAE_BASE_LAST_PROPERTY,
    PROP_KEY_INT_MAX,
    PROP_KEY_INT_MAX_TIME
};

static const GstVaeField fields[] = {
    GST_VAE_FIELD(PROP_TAIL, GstVaeEncode, tail),
    GST_VAE_FIELD(PROP_KEY_INT_MAX, GstVaeEncode, key_int_max),
    GST_VAE_FIELD(PROP_KEY_INT_MAX_TIME, GstVaeEncode, key_int_max_time),
    GST_VAE_FIELD(GST_VAE_PARAMS_ID, GstVaeEncode, base.settings.params),
    {0}};

void
gst_vae_encode_install(GObjectClass *klass)
{
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
     * GstVaeEncode:key-int-max:
     *
     * Maximum number of latents in a sequence. The next sequence begins after
     * them, so that a receiver which joins late, or a segment of a file, starts
     * without earlier latents.
     */
    g_object_class_install_property(
        klass, PROP_KEY_INT_MAX,
        g_param_spec_int("key-int-max", "Key Int Max",
                         "Maximum number of latents in a sequence, after which "
                         "receivers and files can start; 0 is no maximum",
                         0, G_MAXINT, 0,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                             GST_PARAM_MUTABLE_PLAYING));
    /**
     * GstVaeEncode:key-int-max-time:
     *
     * Maximum duration of a sequence, as key-int-max in latents. The sequence
     * ends before a latent that would pass it, so it has at least one latent.
     */
    g_object_class_install_property(
        klass, PROP_KEY_INT_MAX_TIME,
        g_param_spec_uint64("key-int-max-time", "Key Int Max Time",
                            "Maximum duration of a sequence, in nanoseconds, "
                            "as key-int-max in latents; 0 is no maximum",
                            0, G_MAXINT64, 0,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                GST_PARAM_MUTABLE_PLAYING));
    gst_vae_params_install(klass, FALSE, TRUE);
}
