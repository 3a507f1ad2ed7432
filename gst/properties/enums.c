#include "enums.h"

#include "params.h"

/* Registers the type once, and marks it for the plugin's documentation. */
static GType
enum_type(gsize *once, const gchar *name, const GEnumValue *values)
{
    if (g_once_init_enter(once)) {
        GType type = g_enum_register_static(name, values);

        gst_type_mark_as_plugin_api(type, 0);
        g_once_init_leave(once, type);
    }
    return *once;
}

GType
gst_vae_normalization_get_type(void)
{
    static gsize once;
    const VaeSetting *s = vae_setting_find("normalization");

    return gst_vae_words_type(&once, "GstVaeNormalization", s->words,
                              s->automatic);
}

GType
gst_vae_tail_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {GST_VAE_TAIL_REPEAT, "Repeat the last frame until the latent is full",
         "repeat"},
        {GST_VAE_TAIL_DROP, "Drop these frames", "drop"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaeTail", values);
}

GType
gst_vae_sequence_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {GST_VAE_SEQUENCE_FLAGS,
         "A buffer without DELTA_UNIT begins a sequence", "flags"},
        {GST_VAE_SEQUENCE_CONTINUOUS,
         "Every buffer continues the sequence until a discontinuity",
         "continuous"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaeSequence", values);
}
