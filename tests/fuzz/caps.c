/*
 * Fuzzes the caps of a latent stream. The bytes of the input choose each field,
 * so that most caps are nearly right. Accepted caps have sizes that do not
 * overflow, and give the same result after they are written and read again.
 */
#include <string.h>

#include "latent.h"
#include "quarks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Bytes {
    const uint8_t *at, *end;
} Bytes;

static unsigned
byte(Bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

static gint
number(Bytes *b)
{
    guint32 v = 0;
    const unsigned n = byte(b) % 5;
    for (unsigned i = 0; i < n; i++)
        v = v << 8 | byte(b);
    return (gint) v;
}

/* A number above 0, as fractions and ranges require. */
static gint
positive(Bytes *b)
{
    const gint v = number(b) & G_MAXINT;
    return v > 0 ? v : 1;
}

static void
set_word(Bytes *b, GstStructure *s, const gchar *field)
{
    gchar word[128];
    const unsigned n = byte(b) % (sizeof word - 1);
    for (unsigned i = 0; i < n; i++)
        word[i] = (gchar) (1 + byte(b) % 127);
    word[n] = '\0';
    gst_structure_set(s, field, G_TYPE_STRING, word, NULL);
}

/* Leaves most fields unchanged. */
static void
change(Bytes *b, GstStructure *s, const gchar *field)
{
    switch (byte(b) % 16) {
    case 0:
        gst_structure_remove_field(s, field);
        break;
    case 1:
    case 2:
    case 3:
        gst_structure_set(s, field, G_TYPE_INT, number(b), NULL);
        break;
    case 4:
        gst_structure_set(s, field, GST_TYPE_FRACTION, number(b) / 2,
                          positive(b), NULL);
        break;
    case 5:
    case 6:
        set_word(b, s, field);
        break;
    case 7:
        gst_structure_set(s, field, GST_TYPE_INT_RANGE, 0, positive(b), NULL);
        break;
    case 8:
        gst_structure_set(s, field, G_TYPE_INT64,
                          (gint64) number(b) * (1 << 20), NULL);
        break;
    case 9:
        gst_structure_set(s, field, G_TYPE_STRING, NULL, NULL);
        break;
    case 10:
        gst_structure_set(s, field, G_TYPE_STRING, "cthw", NULL);
        break;
    default:
        break;
    }
}

static GstCaps *
make_caps(Bytes *b)
{
    static const gchar *const fields[] = {
        "type",         "channels", "latent-width",       "latent-height",
        "width",        "height",   "latent-space",       "normalization",
        "framerate",    "layout",   "pixel-aspect-ratio", "temporal-factor",
        "first-frames", "frames"};
    static const gchar *const layouts[] = {"chw", "tchw", "cthw"};
    const unsigned layout = byte(b) % 3;
    GstStructure *s = gst_structure_new(
        GST_VAE_LATENT_NAME, "type", G_TYPE_STRING, "float16", "channels",
        G_TYPE_INT, 16, "latent-width", G_TYPE_INT, 6, "latent-height",
        G_TYPE_INT, 4, "width", G_TYPE_INT, 47, "height", G_TYPE_INT, 31,
        "latent-space", G_TYPE_STRING, "wan2.1", "normalization", G_TYPE_STRING,
        "raw", "framerate", GST_TYPE_FRACTION, 16, 1, "layout", G_TYPE_STRING,
        layouts[layout], "pixel-aspect-ratio", GST_TYPE_FRACTION, 1, 1,
        "temporal-factor", G_TYPE_INT, 4, "first-frames", G_TYPE_INT, 1,
        "frames", G_TYPE_INT, layout ? 3 : 1, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
        change(b, s, fields[i]);
    return gst_caps_new_full(s, NULL);
}

static void
check_sizes(const GstVaeLatentInfo *info)
{
    const unsigned __int128 step =
        (unsigned __int128) info->channels * (unsigned) info->latent_width *
        (unsigned) info->latent_height * vae_type_size(info->type);
    if (step == 0 || step != gst_vae_latent_info_step_size(info) ||
        step * (unsigned) info->frames != gst_vae_latent_info_size(info) ||
        step * (unsigned) info->frames > G_MAXINT64)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Bytes bytes = {data, data + size};
    GstVaeLatentInfo info, again;
    GError *error = NULL;
    if (!gst_is_initialized())
        gst_init(NULL, NULL);
    fuzz_reserve_quarks();
    GstCaps *caps = make_caps(&bytes);
    if (gst_vae_latent_info_from_caps(caps, &info, &error)) {
        GstCaps *made = gst_vae_latent_info_to_caps(&info);
        check_sizes(&info);
        if (error || !gst_vae_latent_info_from_caps(made, &again, NULL) ||
            memcmp(&info, &again, sizeof info) != 0)
            abort();
        gst_caps_unref(made);
    } else if (!error || strlen(error->message) < 20) {
        abort();
    }
    g_clear_error(&error);
    gst_caps_unref(caps);
    return 0;
}
