/*
 * params.c: see params.h.
 */
#include "params.h"

#define READY                                                                  \
    (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY)

GType
gst_vae_words_type(gsize *once, const gchar *name, const VaeWord *words,
                   const gchar *automatic)
{
    if (g_once_init_enter(once)) {
        /* never freed, like the type */
        GArray *values = g_array_new(TRUE, TRUE, sizeof(GEnumValue));
        const gint first = automatic ? 1 : 0;
        GType type;

        if (automatic)
            g_array_append_vals(values, &(GEnumValue){0, automatic, "auto"}, 1);
        for (gint i = 0; words[i].word; i++)
            g_array_append_vals(
                values,
                &(GEnumValue){first + i, words[i].sentence, words[i].word}, 1);
        type = g_enum_register_static(
            name, (const GEnumValue *) (gpointer) g_array_free(values, FALSE));
        gst_type_mark_as_plugin_api(type, 0);
        g_once_init_leave(once, type);
    }
    return *once;
}

/* The enumeration of a setting: GstVaeNanPolicy of nan_policy. */
static GType
type_of(const VaeSetting *s, gint row)
{
    static gsize once[64];
    gchar name[64] = "GstVae";
    gsize n = strlen(name);

    g_assert(row < (gint) G_N_ELEMENTS(once));
    for (const gchar *at = s->name; *at && n + 1 < sizeof name; at++)
        if (*at != '_')
            name[n++] =
                at == s->name || at[-1] == '_' ? g_ascii_toupper(*at) : *at;
    name[n] = '\0';
    return gst_vae_words_type(&once[row], name, s->words, NULL);
}

static GParamSpec *
spec_of(const VaeSetting *s, gint row)
{
    gint most = (gint) MIN(s->most, G_MAXINT);

    if (g_strcmp0(s->name, "slice_size") == 0)
        most = MIN(most, GST_VAE_MAX_SLICE);
    if (s->kind == VAE_SETTING_WORD)
        return g_param_spec_enum(s->property, s->title, s->sentence,
                                 type_of(s, row), (gint) s->preset, READY);
    if (s->kind == VAE_SETTING_SWITCH)
        return g_param_spec_boolean(s->property, s->title, s->sentence,
                                    s->preset != 0, READY);
    if (s->kind == VAE_SETTING_SEED)
        return g_param_spec_uint64(s->property, s->title, s->sentence, 0,
                                   G_MAXUINT64, (guint64) s->preset, READY);
    if (s->least >= 0)
        return g_param_spec_uint(s->property, s->title, s->sentence,
                                 (guint) s->least, (guint) most,
                                 (guint) s->preset, READY);
    return g_param_spec_int(s->property, s->title, s->sentence, (gint) s->least,
                            most, (gint) s->preset, READY);
}

void
gst_vae_params_install(GObjectClass *klass, gboolean only_decode,
                       gboolean only_encode)
{
    const VaeSetting *s;

    for (gint i = 0; (s = vae_setting_at(i)); i++)
        if (s->property && s->kind != VAE_SETTING_MEMORY &&
            s->only_decode == only_decode && s->only_encode == only_encode)
            g_object_class_install_property(
                klass, GST_VAE_PARAMS_ID + (guint) i, spec_of(s, i));
}

void
gst_vae_params_set(VaeStreamParams *params, guint id, const GValue *value)
{
    GValue number = G_VALUE_INIT;

    g_value_init(&number, G_TYPE_INT64);
    g_value_transform(value, &number);
    vae_setting_set(vae_setting_at((int) (id - GST_VAE_PARAMS_ID)), params,
                    g_value_get_int64(&number));
}

void
gst_vae_params_get(const VaeStreamParams *params, guint id, GValue *value)
{
    GValue number = G_VALUE_INIT;

    g_value_init(&number, G_TYPE_INT64);
    g_value_set_int64(
        &number, vae_setting_get(vae_setting_at((int) (id - GST_VAE_PARAMS_ID)),
                                 params));
    g_value_transform(&number, value);
}
