/*
 * metadata.c: converts caps and tags to the metadata of a latent file, and
 * back.
 */
#include "metadata.h"

#define KEY_PAR "vae.pixel_aspect_ratio"

static const struct {
    const gchar *tag, *key;
} tag_keys[] = {{GST_TAG_TITLE, "vae.title"},
                {GST_TAG_COMMENT, "vae.comment"},
                {GST_TAG_APPLICATION_NAME, "vae.application"}};

/* Writing --------------------------------------------------------------- */

static void
add_word(GstLatentFields *fields, const gchar *key, const gchar *value)
{
    g_assert(fields->n < G_N_ELEMENTS(fields->list));
    fields->list[fields->n++] = (VaeMetadata){key, value};
}

static void
add_number(GstLatentFields *fields, const gchar *key, gint64 value)
{
    gchar *text = fields->text[fields->n];
    g_snprintf(text, sizeof fields->text[0], "%" G_GINT64_FORMAT, value);
    add_word(fields, key, text);
}

static void
add_fraction(GstLatentFields *fields, const gchar *key, gint n, gint d)
{
    gchar *text = fields->text[fields->n];
    g_snprintf(text, sizeof fields->text[0], "%d/%d", n, d);
    add_word(fields, key, text);
}

static void
add_tags(GstLatentFields *fields, const GstTagList *tags)
{
    G_STATIC_ASSERT(G_N_ELEMENTS(tag_keys) == G_N_ELEMENTS(fields->tags));
    for (guint i = 0; i < G_N_ELEMENTS(tag_keys); i++)
        if (gst_tag_list_get_string(tags, tag_keys[i].tag, &fields->tags[i]) &&
            g_utf8_validate(fields->tags[i], -1, NULL))
            add_word(fields, tag_keys[i].key, fields->tags[i]);
}

void
gst_latent_fields_fill(GstLatentFields *fields, const GstVaeLatentInfo *info,
                       gint64 frames, const GstTagList *tags)
{
    *fields = (GstLatentFields){.n = 0};
    if (info->fps_n > 0)
        add_fraction(fields, "vae.framerate", info->fps_n, info->fps_d);
    if (frames > 0)
        add_number(fields, "vae.frames", frames);
    else
        add_word(fields, GST_LATENT_KEY_RECORDING, "open");
    if (info->height > 0)
        add_number(fields, "vae.height", info->height);
    if (info->space[0])
        add_word(fields, "vae.latent_space", info->space);
    add_word(fields, "vae.layout", "tchw");
    if (info->normalization_stated)
        add_word(fields, "vae.normalization",
                 vae_normalization_name(info->normalization));
    if (info->par_d > 0 && info->par_n != info->par_d)
        add_fraction(fields, KEY_PAR, info->par_n, info->par_d);
    if (info->temporal_factor > 0)
        add_number(fields, GST_LATENT_KEY_TEMPORAL, info->temporal_factor);
    if (info->width > 0)
        add_number(fields, "vae.width", info->width);
    for (gint i = 0; i < GST_VAE_N_WORDS; i++)
        if (info->words[i][0])
            add_word(fields, gst_vae_words_key(i), info->words[i]);
    if (tags)
        add_tags(fields, tags);
}

void
gst_latent_fields_clear(GstLatentFields *fields)
{
    for (guint i = 0; i < G_N_ELEMENTS(fields->tags); i++)
        g_clear_pointer(&fields->tags[i], g_free);
}

/* Reading --------------------------------------------------------------- */

/* Reads a fraction such as "8/9". Ignores any other text. */
static void
read_aspect(const VaeTensorFile *file, GstVaeLatentInfo *info)
{
    const gchar *text = vae_tensor_file_metadata(file, KEY_PAR);
    gchar **parts;
    guint64 n, d;
    if (!text)
        return;
    parts = g_strsplit(text, "/", 3);
    if (g_strv_length(parts) == 2 &&
        g_ascii_string_to_unsigned(parts[0], 10, 1, G_MAXINT, &n, NULL) &&
        g_ascii_string_to_unsigned(parts[1], 10, 1, G_MAXINT, &d, NULL)) {
        info->par_n = (gint) n;
        info->par_d = (gint) d;
    } else {
        GST_WARNING(KEY_PAR " is %s, expected a fraction", text);
    }
    g_strfreev(parts);
}

void
gst_latent_metadata_read(const VaeTensorFile *file, GstVaeLatentInfo *info)
{
    read_aspect(file, info);
    for (gint i = 0; i < GST_VAE_N_WORDS; i++) {
        const gchar *key = gst_vae_words_key(i);
        const gchar *text = vae_tensor_file_metadata(file, key);
        if (text && !gst_vae_latent_info_set_words(info, i, text))
            GST_WARNING("%s is %s, which GStreamer does not understand", key,
                        text);
    }
}

GstTagList *
gst_latent_metadata_tags(const VaeTensorFile *file)
{
    GstTagList *tags = gst_tag_list_new_empty();
    for (guint i = 0; i < G_N_ELEMENTS(tag_keys); i++) {
        const gchar *text = vae_tensor_file_metadata(file, tag_keys[i].key);
        if (text && *text)
            gst_tag_list_add(tags, GST_TAG_MERGE_REPLACE, tag_keys[i].tag, text,
                             NULL);
    }
    if (gst_tag_list_is_empty(tags))
        gst_clear_tag_list(&tags);
    else
        gst_tag_list_set_scope(tags, GST_TAG_SCOPE_GLOBAL);
    return tags;
}
