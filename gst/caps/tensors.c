/*
 * tensors.c: reads and makes caps of other/tensors.
 */
#include "tensors.h"

#include "details.h"

#define MAX_RANK 16 /* of NNStreamer */

gboolean
gst_vae_tensors_is_caps(const GstCaps *caps)
{
    return gst_structure_has_name(gst_caps_get_structure(caps, 0),
                                  GST_VAE_TENSORS_NAME);
}

static gboolean
bad_field(const GstStructure *s, const gchar *field, const gchar *expected,
          GError **error)
{
    const GValue *value = gst_structure_get_value(s, field);
    gchar *text = value ? gst_value_serialize(value) : g_strdup("nothing");

    gst_vae_set_mismatch(error, (GstVaeMismatch){field, text, expected},
                         "The tensors have %s = %s, expected %s", field,
                         text ? text : "something unreadable", expected);
    g_free(text);
    return FALSE;
}

/* Reads the numbers of a text such as "104:60:16:1" and sets the others to 1.
 * Returns FALSE for another text. */
static gboolean
parse_dimensions(const gchar *text, guint64 dims[MAX_RANK])
{
    gchar **words = g_strsplit(text, ":", -1);
    const guint rank = g_strv_length(words);
    gboolean ok = rank >= 3 && rank <= MAX_RANK;

    for (guint i = 0; ok && i < MAX_RANK; i++) {
        dims[i] = 1;
        if (i < rank)
            ok = g_ascii_string_to_unsigned(words[i], 10, 1, G_MAXINT, &dims[i],
                                            NULL);
    }
    g_strfreev(words);
    return ok;
}

static gboolean
read_dimensions(const GstStructure *s, GstVaeLatentInfo *info, GError **error)
{
    const gchar *text = gst_structure_get_string(s, "dimensions");
    guint64 dims[MAX_RANK];
    gboolean ok = text && parse_dimensions(text, dims);

    ok = ok && dims[0] <= GST_VAE_LATENT_MAX_GRID &&
         dims[1] <= GST_VAE_LATENT_MAX_GRID && dims[2] <= 1024 &&
         dims[3] <= GST_VAE_LATENT_MAX_FRAMES;
    for (guint i = 4; ok && i < MAX_RANK; i++)
        ok = dims[i] == 1;
    if (!ok)
        return bad_field(s, "dimensions",
                         "width:height:channels or "
                         "width:height:channels:latents, the innermost first",
                         error);
    info->latent_width = (gint) dims[0];
    info->latent_height = (gint) dims[1];
    info->channels = (gint) dims[2];
    info->frames = (gint) dims[3];
    if (info->frames > 1)
        info->layout = GST_VAE_LATENT_TCHW;
    return TRUE;
}

gboolean
gst_vae_tensors_info_from_caps(const GstCaps *caps, GstVaeLatentInfo *info,
                               GError **error)
{
    const GstStructure *s = gst_caps_get_structure(caps, 0);
    gint n, d;

    if (!gst_caps_is_fixed(caps) || !gst_vae_tensors_is_caps(caps))
        return gst_vae_latent_info_from_caps(caps, info, error);
    gst_vae_latent_info_init(info);
    if (g_strcmp0(gst_structure_get_string(s, "format"), "static") != 0)
        return bad_field(s, "format", "static", error);
    if (!gst_structure_get_int(s, "num_tensors", &n) || n != 1)
        return bad_field(s, "num_tensors", "1", error);
    if (!gst_vae_latent_type_from_string(gst_structure_get_string(s, "types"),
                                         &info->type) ||
        info->type == VAE_TYPE_BF16)
        return bad_field(s, "types", "float32 or float16", error);
    if (gst_structure_get_fraction(s, "framerate", &n, &d) && n > 0) {
        info->fps_n = n;
        info->fps_d = d;
    }
    return read_dimensions(s, info, error);
}

/* Sets the frames per latent as a fraction, without the first latent. */
static void
mean_rate(VaeCounts counts, gint *frames, gint *latents)
{
    *latents = MAX(counts.chunk, 1);
    *frames = counts.chunk ? (gint) vae_count_frames(counts, counts.chunk)
                           : counts.temporal;
}

void
gst_vae_tensors_video_rate(GstVaeLatentInfo *info, VaeCounts counts)
{
    gint frames, latents;

    mean_rate(counts, &frames, &latents);
    if (info->fps_d > 0 &&
        (!gst_util_fraction_multiply(info->fps_n, info->fps_d, frames, latents,
                                     &info->fps_n, &info->fps_d) ||
         !gst_util_fraction_multiply(info->fps_n, info->fps_d, info->frames, 1,
                                     &info->fps_n, &info->fps_d))) {
        info->fps_n = G_MAXINT; /* too high for a fraction */
        info->fps_d = 1;
    }
}

/* Sets a field to a list of both strings. */
static void
set_either(GstCaps *caps, const gchar *field, const gchar *a, const gchar *b)
{
    GValue list = G_VALUE_INIT, word = G_VALUE_INIT;

    g_value_init(&list, GST_TYPE_LIST);
    g_value_init(&word, G_TYPE_STRING);
    g_value_set_string(&word, a);
    gst_value_list_append_value(&list, &word);
    g_value_set_string(&word, b);
    gst_value_list_append_value(&list, &word);
    gst_caps_set_value(caps, field, &list);
    g_value_unset(&word);
    g_value_unset(&list);
}

GstCaps *
gst_vae_tensors_caps(const GstVaeLatentInfo *info, VaeCounts counts)
{
    GstCaps *caps = gst_caps_from_string(GST_VAE_TENSORS_CAPS);
    gchar *three = g_strdup_printf("%d:%d:%d", info->latent_width,
                                   info->latent_height, info->channels);
    gchar *four = g_strdup_printf("%s:1", three);
    gint n = 0, d = 1, frames, latents;

    mean_rate(counts, &frames, &latents);
    /* Some releases of NNStreamer write the last 1, others do not. */
    set_either(caps, "dimensions", four, three);
    if (info->fps_d > 0 &&
        !gst_util_fraction_multiply(info->fps_n, info->fps_d, latents, frames,
                                    &n, &d)) {
        n = 0;
        d = 1;
    }
    gst_caps_set_simple(caps, "framerate", GST_TYPE_FRACTION, n, d, NULL);
    g_free(four);
    g_free(three);
    return caps;
}
