/*
 * metadata.c: converts caps and tags to the metadata of a latent file, and
 * back.
 */
#include "metadata.h"

#include <string.h>

#include <gst/tag/tag.h>

#define KEY_PAR "vae.pixel_aspect_ratio"
/* Before the name of a tag. Another value of the same tag has ".2" after it,
 * and so on. */
#define KEY_TAG "vae.tag."

/* Tags with other keys. */
static const struct {
    const gchar *tag, *key;
} tag_keys[] = {{GST_TAG_TITLE, "vae.title"},
                {GST_TAG_COMMENT, "vae.comment"},
                {GST_TAG_APPLICATION_NAME, "vae.application"}};

/* Tags that describe the stream of latents or the file it came from. */
static const gchar *const own_tags[] = {
    GST_TAG_CONTAINER_FORMAT, GST_TAG_CODEC,
    GST_TAG_VIDEO_CODEC,      GST_TAG_AUDIO_CODEC,
    GST_TAG_SUBTITLE_CODEC,   GST_TAG_BITRATE,
    GST_TAG_NOMINAL_BITRATE,  GST_TAG_MINIMUM_BITRATE,
    GST_TAG_MAXIMUM_BITRATE,  NULL};

static gboolean
is_image(const gchar *tag)
{
    return strcmp(tag, GST_TAG_IMAGE) == 0 ||
           strcmp(tag, GST_TAG_PREVIEW_IMAGE) == 0;
}

/* TRUE if the values of a tag are numbers or dates. */
static gboolean
is_plain(const gchar *tag)
{
    const GType type = gst_tag_get_type(tag);

    return type == G_TYPE_BOOLEAN || type == G_TYPE_INT ||
           type == G_TYPE_UINT || type == G_TYPE_INT64 ||
           type == G_TYPE_UINT64 || type == G_TYPE_FLOAT ||
           type == G_TYPE_DOUBLE || type == G_TYPE_DATE ||
           type == GST_TYPE_DATE_TIME;
}

static gboolean
fits(const gchar *tag)
{
    return gst_tag_get_type(tag) == G_TYPE_STRING || is_plain(tag) ||
           is_image(tag);
}

/* Writing --------------------------------------------------------------- */

static void
add_word(GstLatentFields *fields, const gchar *key, const gchar *value)
{
    const VaeMetadata entry = {g_string_chunk_insert(fields->text, key),
                               g_string_chunk_insert(fields->text, value)};

    g_array_append_val(fields->list, entry);
}

static void
add_number(GstLatentFields *fields, const gchar *key, gint64 value)
{
    gchar text[24];

    g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, value);
    add_word(fields, key, text);
}

static void
add_fraction(GstLatentFields *fields, const gchar *key, gint n, gint d)
{
    gchar text[24];

    g_snprintf(text, sizeof text, "%d/%d", n, d);
    add_word(fields, key, text);
}

/* Returns the file of an image as base64, or NULL. (transfer full) */
static gchar *
image_text(const GValue *value)
{
    GstSample *sample = g_value_get_boxed(value);
    GstBuffer *buffer = sample ? gst_sample_get_buffer(sample) : NULL;
    GstMapInfo map;
    gchar *text;

    if (!buffer || !gst_buffer_map(buffer, &map, GST_MAP_READ))
        return NULL;
    text = g_base64_encode(map.data, map.size);
    gst_buffer_unmap(buffer, &map);
    return text;
}

/* Returns the text of a value, or NULL. (transfer full) */
static gchar *
value_text(const gchar *tag, const GValue *value)
{
    const gchar *word;

    if (is_image(tag))
        return image_text(value);
    if (!G_VALUE_HOLDS_STRING(value))
        return gst_value_serialize(value);
    word = g_value_get_string(value);
    return word && g_utf8_validate(word, -1, NULL) ? g_strdup(word) : NULL;
}

/* Returns the key of value i of a tag. (transfer full) */
static gchar *
tag_key(const gchar *tag, guint i)
{
    for (guint k = 0; k < G_N_ELEMENTS(tag_keys) && i == 0; k++)
        if (strcmp(tag, tag_keys[k].tag) == 0)
            return g_strdup(tag_keys[k].key);
    return i == 0 ? g_strconcat(KEY_TAG, tag, NULL)
                  : g_strdup_printf(KEY_TAG "%s.%u", tag, i + 1);
}

/* TRUE if a value tells nothing: a Matroska file may state that it does not
 * know the language, and the length of the stream as a comment. */
static gboolean
is_empty(const gchar *tag, const gchar *text)
{
    return (strcmp(tag, GST_TAG_LANGUAGE_CODE) == 0 &&
            strcmp(text, "und") == 0) ||
           (strcmp(tag, GST_TAG_EXTENDED_COMMENT) == 0 &&
            g_str_has_prefix(text, "DURATION="));
}

static void
add_tag(const GstTagList *tags, const gchar *tag, gpointer fields)
{
    if (g_strv_contains(own_tags, tag) || !fits(tag))
        return;
    for (guint i = 0; i < gst_tag_list_get_tag_size(tags, tag); i++) {
        gchar *key = tag_key(tag, i);
        gchar *text =
            value_text(tag, gst_tag_list_get_value_index(tags, tag, i));

        if (text && !is_empty(tag, text))
            add_word(fields, key, text);
        g_free(text);
        g_free(key);
    }
}

static void
add_lost(const GstTagList *tags, const gchar *tag, gpointer lost)
{
    if (!g_strv_contains(own_tags, tag) && !fits(tag))
        g_string_append_printf(lost, "%s%s",
                               ((GString *) lost)->len ? ", " : "", tag);
}

gchar *
gst_latent_fields_lost(const GstTagList *tags)
{
    GString *lost = g_string_new(NULL);
    gboolean any;

    if (tags)
        gst_tag_list_foreach(tags, add_lost, lost);
    any = lost->len > 0;
    return g_string_free(lost, !any);
}

void
gst_latent_fields_fill(GstLatentFields *fields, const GstVaeLatentInfo *info,
                       gint64 frames, const GstTagList *tags)
{
    *fields = (GstLatentFields){
        .list = g_array_new(FALSE, FALSE, sizeof(VaeMetadata)),
        .text = g_string_chunk_new(1024)};
    if (info->fps_n > 0 && !info->rate_assumed)
        add_fraction(fields, "vae.framerate", info->fps_n, info->fps_d);
    if (frames > 0 && !info->layout_guessed)
        add_number(fields, "vae.frames", frames);
    else if (frames == 0)
        add_word(fields, GST_LATENT_KEY_RECORDING, "open");
    if (info->height > 0)
        add_number(fields, "vae.height", info->height);
    if (info->space[0])
        add_word(fields, "vae.latent_space", info->space);
    add_word(fields, info->layout_guessed ? "vae.layout_guess" : "vae.layout",
             "tchw");
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
        gst_tag_list_foreach(tags, add_tag, fields);
}

void
gst_latent_fields_clear(GstLatentFields *fields)
{
    g_array_unref(fields->list);
    g_string_chunk_free(fields->text);
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

/* Returns the name of the tag that a key is for, or NULL. (transfer full) */
static gchar *
tag_of(const gchar *key)
{
    for (guint i = 0; i < G_N_ELEMENTS(tag_keys); i++)
        if (strcmp(key, tag_keys[i].key) == 0)
            return g_strdup(tag_keys[i].tag);
    if (!g_str_has_prefix(key, KEY_TAG))
        return NULL;
    key += strlen(KEY_TAG);
    return g_strndup(key, strcspn(key, "."));
}

/* Reads a value of a tag. */
static gboolean
read_value(const gchar *tag, const gchar *text, GValue *value)
{
    GstSample *sample = NULL;
    guchar *bytes;
    gsize size;

    g_value_init(value, gst_tag_get_type(tag));
    if (is_plain(tag))
        return gst_value_deserialize(value, text);
    if (!is_image(tag)) {
        g_value_set_string(value, text);
        return *text != '\0';
    }
    bytes = g_base64_decode(text, &size);
    if (size > 0 && size < G_MAXUINT)
        sample = gst_tag_image_data_to_image_sample(
            bytes, (guint) size, GST_TAG_IMAGE_TYPE_UNDEFINED);
    g_free(bytes);
    g_value_take_boxed(value, sample);
    return sample != NULL;
}

static void
read_tag(GstTagList *tags, const VaeMetadata *entry)
{
    gchar *tag = tag_of(entry->key);
    GValue value = G_VALUE_INIT;

    if (tag && gst_tag_exists(tag) && fits(tag)) {
        if (read_value(tag, entry->value, &value))
            gst_tag_list_add_value(tags, GST_TAG_MERGE_APPEND, tag, &value);
        else if (*entry->value)
            GST_WARNING("%s is no value of the tag %s", entry->key, tag);
        g_value_unset(&value);
    } else if (tag) {
        GST_WARNING("%s is of a tag that is not known here", entry->key);
    }
    g_free(tag);
}

static const gchar *
container(const guint8 *bytes, gsize size)
{
    if (size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0)
        return "NumPy";
    if (size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0)
        return "PyTorch";
    return "Safetensors";
}

GstTagList *
gst_latent_metadata_tags(const VaeTensorFile *file, const guint8 *bytes,
                         gsize size)
{
    GstTagList *tags = gst_tag_list_new(GST_TAG_CONTAINER_FORMAT,
                                        container(bytes, size), NULL);
    VaeMetadata entry;

    for (gsize i = 0; vae_tensor_file_metadata_at(file, i, &entry); i++)
        read_tag(tags, &entry);
    gst_tag_list_set_scope(tags, GST_TAG_SCOPE_GLOBAL);
    return tags;
}
