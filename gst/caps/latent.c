#include "latent.h"

#include <string.h>

#include <gst/video/video.h>

#include "details.h"
#include "vae-private/spaces.h"

static const gchar required_fields[] =
    GST_VAE_LATENT_NAME ", type = (string) { float32, float16, bfloat16 }, "
                        "channels = (int) [ 1, 1024 ], "
                        "latent-width = (int) [ 1, 16384 ], "
                        "latent-height = (int) [ 1, 16384 ]";
/* Fields whose value may be any word are missing. */
static const gchar optional_fields[] =
    "layout = (string) { chw, tchw, cthw }, frames = (int) [ 1, 65535 ], "
    "layout-guessed = (boolean) { false, true }, "
    "normalization = (string) { normalized, raw, comfyui }, "
    "temporal-factor = (int) [ 1, 64 ], first-frames = (int) [ 1, 64 ], "
    "framerate = (fraction) [ 0/1, 100000/1 ], "
    "framerate-assumed = (boolean) { false, true }, "
    "width = (int) [ 1, 65535 ], height = (int) [ 1, 65535 ], "
    "pixel-aspect-ratio = (fraction) [ 1/MAX, MAX ]";

static const gchar *const layout_words[] = {"chw", "tchw", "cthw"};

void
gst_vae_latent_info_init(GstVaeLatentInfo *info)
{
    memset(info, 0, sizeof *info);
    info->type = VAE_TYPE_F32;
    info->normalization = VAE_NORMALIZED;
    info->layout = GST_VAE_LATENT_CHW;
    info->frames = 1;
}

gboolean
gst_vae_latent_type_from_string(const gchar *word, VaeType *type)
{
    static const VaeType types[] = {VAE_TYPE_F32, VAE_TYPE_F16, VAE_TYPE_BF16};

    for (guint i = 0; i < G_N_ELEMENTS(types); i++)
        if (g_strcmp0(word, vae_type_name(types[i])) == 0) {
            *type = types[i];
            return TRUE;
        }
    return FALSE;
}

/* Returns the value of a field as text for messages. */
static gchar *
field_text(const GstStructure *s, const gchar *field)
{
    const GValue *value = gst_structure_get_value(s, field);

    return value ? gst_value_serialize(value) : g_strdup("nothing");
}

static gboolean
bad_field(const GstStructure *s, const gchar *field, const gchar *expected,
          GError **error)
{
    gchar *text = field_text(s, field);

    gst_vae_set_mismatch(error, (GstVaeMismatch){field, text, expected},
                         "The latent caps have %s = %s, expected %s", field,
                         text ? text : "something unreadable", expected);
    g_free(text);
    return FALSE;
}

gboolean
gst_vae_rate_is_possible(gint n, gint d)
{
    return n > 0 && d > 0 && gst_util_fraction_compare(n, d, 1, 3600) >= 0 &&
           gst_util_fraction_compare(n, d, 100000, 1) <= 0;
}

/* Reads an int of 1 to max. An absent field is an error only if it is
 * required. */
static gboolean
read_int(const GstStructure *s, const gchar *field, gint max, gboolean required,
         gint *out, GError **error)
{
    gchar expected[64];
    gint value;

    if (!required && !gst_structure_has_field(s, field))
        return TRUE;
    g_snprintf(expected, sizeof expected, "an int of 1 to %d", max);
    if (!gst_structure_get_int(s, field, &value) || value < 1 || value > max)
        return bad_field(s, field, expected, error);
    *out = value;
    return TRUE;
}

/* Reads both numbers of a fraction. If the field is absent, it leaves them as
 * they are. */
static gboolean
read_fraction(const GstStructure *s, const gchar *field, gint *n, gint *d,
              GError **error)
{
    gint value_n, value_d;

    if (!gst_structure_has_field(s, field))
        return TRUE;
    if (!gst_structure_get_fraction(s, field, &value_n, &value_d) ||
        value_n < 0 || value_d < 1)
        return bad_field(s, field, "a positive fraction", error);
    *n = value_n;
    *d = value_d;
    return TRUE;
}

static gboolean
read_rate(const GstStructure *s, GstVaeLatentInfo *info, GError **error)
{
    gint n = 0, d = 1;

    if (!read_fraction(s, "framerate", &n, &d, error))
        return FALSE;
    if (n == 0) /* "variable", which says no rate */
        return TRUE;
    if (!gst_vae_rate_is_possible(n, d))
        return bad_field(s, "framerate", GST_VAE_RATES, error);
    info->fps_n = n;
    info->fps_d = d;
    return TRUE;
}

static gboolean
read_aspect(const GstStructure *s, GstVaeLatentInfo *info, GError **error)
{
    return read_fraction(s, "pixel-aspect-ratio", &info->par_n, &info->par_d,
                         error) &&
           (info->par_d == 0 || info->par_n > 0 ||
            bad_field(s, "pixel-aspect-ratio", "a positive fraction", error));
}

static gchar *
usual_colorimetry(const gchar *words)
{
    GstVideoColorimetry colorimetry;

    return gst_video_colorimetry_from_string(&colorimetry, words)
               ? gst_video_colorimetry_to_string(&colorimetry)
               : NULL;
}

static gchar *
usual_chroma_site(const gchar *words)
{
    const GstVideoChromaSite site = gst_video_chroma_site_from_string(words);

    return site != GST_VIDEO_CHROMA_SITE_UNKNOWN
               ? gst_video_chroma_site_to_string(site)
               : NULL;
}

static gchar *
usual_mastering(const gchar *words)
{
    GstVideoMasteringDisplayInfo info;

    return gst_video_mastering_display_info_from_string(&info, words)
               ? gst_video_mastering_display_info_to_string(&info)
               : NULL;
}

static gchar *
usual_content_light(const gchar *words)
{
    GstVideoContentLightLevel level;

    return gst_video_content_light_level_from_string(&level, words)
               ? gst_video_content_light_level_to_string(&level)
               : NULL;
}

static const struct {
    const gchar *field, *key, *expected;
    gchar *(*usual)(const gchar *words); /* NULL: they are none */
} kinds[GST_VAE_N_WORDS] = {
    [GST_VAE_COLORIMETRY] = {"colorimetry", "vae.colorimetry",
                             "one of GStreamer, such as bt709",
                             usual_colorimetry},
    [GST_VAE_CHROMA_SITE] = {"chroma-site", "vae.chroma_site",
                             "one of GStreamer, such as mpeg2",
                             usual_chroma_site},
    [GST_VAE_MASTERING] = {"mastering-display-info",
                           "vae.mastering_display_info",
                           "ten numbers with colons between them",
                           usual_mastering},
    [GST_VAE_CONTENT_LIGHT] = {"content-light-level", "vae.content_light_level",
                               "two numbers with a colon between them",
                               usual_content_light},
};

const gchar *
gst_vae_words_field(GstVaeWords which)
{
    return kinds[which].field;
}

const gchar *
gst_vae_words_key(GstVaeWords which)
{
    return kinds[which].key;
}

gboolean
gst_vae_latent_info_set_words(GstVaeLatentInfo *info, GstVaeWords which,
                              const gchar *words)
{
    gchar *usual = words && *words ? kinds[which].usual(words) : NULL;

    if (usual)
        g_strlcpy(info->words[which], usual, sizeof info->words[which]);
    g_free(usual);
    return usual != NULL;
}

static gboolean
read_picture(const GstStructure *s, GstVaeLatentInfo *info, GError **error)
{
    for (gint i = 0; i < GST_VAE_N_WORDS; i++)
        if (gst_structure_has_field(s, kinds[i].field) &&
            !gst_vae_latent_info_set_words(
                info, i, gst_structure_get_string(s, kinds[i].field)))
            return bad_field(s, kinds[i].field, kinds[i].expected, error);
    return TRUE;
}

static gboolean
read_layout(const GstStructure *s, GstVaeLatentInfo *info, GError **error)
{
    if (gst_structure_has_field(s, "layout")) {
        const gchar *word = gst_structure_get_string(s, "layout");
        guint i;

        for (i = 0; i < G_N_ELEMENTS(layout_words); i++)
            if (g_strcmp0(word, layout_words[i]) == 0)
                break;
        if (i == G_N_ELEMENTS(layout_words))
            return bad_field(s, "layout", "chw, tchw or cthw", error);
        info->layout = (GstVaeLatentLayout) i;
    }
    gst_structure_get_boolean(s, "layout-guessed", &info->layout_guessed);
    gst_structure_get_boolean(s, "framerate-assumed", &info->rate_assumed);
    if (!read_int(s, "frames", GST_VAE_LATENT_MAX_FRAMES, FALSE, &info->frames,
                  error))
        return FALSE;
    if (info->layout == GST_VAE_LATENT_CHW && info->frames != 1)
        return bad_field(s, "frames", "1 with layout = chw", error);
    return TRUE;
}

static gboolean
read_words(const GstStructure *s, GstVaeLatentInfo *info, GError **error)
{
    const gchar *word = gst_structure_get_string(s, "type");

    if (!gst_vae_latent_type_from_string(word, &info->type))
        return bad_field(s, "type", "float32, float16 or bfloat16", error);
    if (gst_structure_has_field(s, "latent-space")) {
        word = gst_structure_get_string(s, "latent-space");
        if (!word || !*word || strlen(word) >= sizeof info->space)
            return bad_field(s, "latent-space", "a name of 1 to 63 bytes",
                             error);
        g_strlcpy(info->space, word, sizeof info->space);
    }
    if (gst_structure_has_field(s, "normalization")) {
        word = gst_structure_get_string(s, "normalization");
        if (!word || !vae_normalization_parse(word, &info->normalization))
            return bad_field(s, "normalization", "normalized, raw or comfyui",
                             error);
        info->normalization_stated = TRUE;
    }
    return TRUE;
}

gboolean
gst_vae_latent_info_from_caps(const GstCaps *caps, GstVaeLatentInfo *info,
                              GError **error)
{
    const GstStructure *s;

    gst_vae_latent_info_init(info);
    if (!gst_caps_is_fixed(caps)) {
        g_set_error(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                    "The latent caps are not fixed");
        return FALSE;
    }
    s = gst_caps_get_structure(caps, 0);
    if (!gst_structure_has_name(s, GST_VAE_LATENT_NAME)) {
        const gchar *found = gst_structure_get_name(s);

        gst_vae_set_mismatch(
            error, (GstVaeMismatch){"caps", found, GST_VAE_LATENT_NAME},
            "The caps are %s, expected " GST_VAE_LATENT_NAME, found);
        return FALSE;
    }
    return read_words(s, info, error) &&
           read_int(s, "channels", 1024, TRUE, &info->channels, error) &&
           read_int(s, "latent-width", GST_VAE_LATENT_MAX_GRID, TRUE,
                    &info->latent_width, error) &&
           read_int(s, "latent-height", GST_VAE_LATENT_MAX_GRID, TRUE,
                    &info->latent_height, error) &&
           read_int(s, "width", GST_VAE_MAX_PIXELS, FALSE, &info->width,
                    error) &&
           read_int(s, "height", GST_VAE_MAX_PIXELS, FALSE, &info->height,
                    error) &&
           read_int(s, "temporal-factor", 64, FALSE, &info->temporal_factor,
                    error) &&
           read_int(s, "first-frames", 64, FALSE, &info->first_frames, error) &&
           read_rate(s, info, error) && read_aspect(s, info, error) &&
           read_picture(s, info, error) && read_layout(s, info, error);
}

static void
set_int(GstCaps *caps, const gchar *field, gint value)
{
    if (value > 0)
        gst_caps_set_simple(caps, field, G_TYPE_INT, value, NULL);
}

GstCaps *
gst_vae_latent_info_to_caps(const GstVaeLatentInfo *info)
{
    GstCaps *caps = gst_caps_new_simple(
        GST_VAE_LATENT_NAME, "type", G_TYPE_STRING, vae_type_name(info->type),
        "layout", G_TYPE_STRING, layout_words[info->layout], "frames",
        G_TYPE_INT, info->frames, NULL);

    if (info->layout_guessed)
        gst_caps_set_simple(caps, "layout-guessed", G_TYPE_BOOLEAN, TRUE, NULL);
    if (info->rate_assumed)
        gst_caps_set_simple(caps, "framerate-assumed", G_TYPE_BOOLEAN, TRUE,
                            NULL);
    set_int(caps, "channels", info->channels);
    set_int(caps, "latent-width", info->latent_width);
    set_int(caps, "latent-height", info->latent_height);
    set_int(caps, "width", info->width);
    set_int(caps, "height", info->height);
    set_int(caps, "temporal-factor", info->temporal_factor);
    set_int(caps, "first-frames", info->first_frames);
    if (info->space[0])
        gst_caps_set_simple(caps, "latent-space", G_TYPE_STRING, info->space,
                            NULL);
    if (info->normalization_stated)
        gst_caps_set_simple(caps, "normalization", G_TYPE_STRING,
                            vae_normalization_name(info->normalization), NULL);
    if (info->fps_d > 0)
        gst_caps_set_simple(caps, "framerate", GST_TYPE_FRACTION, info->fps_n,
                            info->fps_d, NULL);
    for (gint i = 0; i < GST_VAE_N_WORDS; i++)
        if (info->words[i][0])
            gst_caps_set_simple(caps, kinds[i].field, G_TYPE_STRING,
                                info->words[i], NULL);
    if (info->par_d > 0)
        gst_caps_set_simple(caps, "pixel-aspect-ratio", GST_TYPE_FRACTION,
                            info->par_n, info->par_d, NULL);
    return caps;
}

gsize
gst_vae_latent_info_step_size(const GstVaeLatentInfo *info)
{
    return (gsize) info->channels * info->latent_width * info->latent_height *
           vae_type_size(info->type);
}

gsize
gst_vae_latent_info_size(const GstVaeLatentInfo *info)
{
    return info->frames * gst_vae_latent_info_step_size(info);
}

GstStructure *
gst_vae_latent_ask_file(GstPad *pad, gint channels)
{
    GstQuery *query = gst_query_new_custom(
        GST_QUERY_CUSTOM, gst_structure_new(GST_VAE_STATED_QUERY, "channels",
                                            G_TYPE_INT, channels, NULL));
    GstStructure *answer = NULL;

    if (gst_pad_peer_query(pad, query))
        answer = gst_structure_copy(gst_query_get_structure(query));
    gst_query_unref(query);
    return answer;
}

guint
gst_vae_latent_info_bitrate(const GstVaeLatentInfo *info)
{
    guint64 bits;

    if (info->fps_n == 0 || info->fps_d == 0 || info->temporal_factor == 0)
        return 0;
    bits = gst_util_uint64_scale(8 * gst_vae_latent_info_step_size(info),
                                 info->fps_n,
                                 (guint64) info->fps_d * info->temporal_factor);
    return bits <= G_MAXUINT ? (guint) bits : 0;
}

GstPadTemplate *
gst_vae_latent_template(const gchar *name, GstPadDirection direction,
                        const gchar *more)
{
    gchar *text = g_strconcat(required_fields, "; ", required_fields, ", ",
                              optional_fields, more ? "; " : NULL, more, NULL);
    GstCaps *caps = gst_caps_from_string(text);
    GValue spaces = G_VALUE_INIT;
    const VaeSpace *space;
    GstPadTemplate *template;

    gst_value_list_init(&spaces, 0);
    for (gsize i = 0; (space = vae_space_at(i)); i++) {
        GValue word = G_VALUE_INIT;

        g_value_init(&word, G_TYPE_STRING);
        g_value_set_static_string(&word, space->name);
        gst_value_list_append_and_take_value(&spaces, &word);
    }
    gst_structure_take_value(gst_caps_get_structure(caps, 1), "latent-space",
                             &spaces);
    template = gst_pad_template_new(name, direction, GST_PAD_ALWAYS, caps);
    gst_caps_unref(caps);
    g_free(text);
    return template;
}
