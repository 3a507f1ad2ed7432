/*
 * refusal.c: writes the error for caps that downstream refuses: it compares
 * both caps field by field.
 */
#include "refusal.h"

#include "details.h"

/* Elements that change a field of raw video. */
static const struct {
    const gchar *field, *element;
} cures[] = {{"pixel-aspect-ratio", "videoscale"},
             {"width", "videoscale"},
             {"height", "videoscale"},
             {"framerate", "videorate"},
             {"format", "videoconvert"}};

static void
add_cure(GString *text, const gchar *field, const gchar *expected,
         gboolean encoder)
{
    for (guint i = 0; i < G_N_ELEMENTS(cures); i++)
        if (g_str_equal(field, cures[i].field) && encoder)
            g_string_append_printf(
                text, ": put \"%s ! video/x-raw,%s=%s\" before vaeencode",
                cures[i].element, field, expected);
        else if (g_str_equal(field, cures[i].field))
            g_string_append_printf(text, ": put %s after vaedecode",
                                   cures[i].element);
}

/* Adds the fields that contradict each other, and sets details to the first. */
static void
add_differences(GString *text, const GstStructure *is,
                const GstStructure *expected, gboolean encoder,
                GstStructure **details)
{
    for (gint i = 0; i < gst_structure_n_fields(is); i++) {
        const gchar *name = gst_structure_nth_field_name(is, i);
        const GValue *a = gst_structure_get_value(is, name);
        const GValue *b = gst_structure_get_value(expected, name);
        gchar *one, *other;

        if (!b || gst_value_intersect(NULL, a, b))
            continue;
        one = gst_value_serialize(a);
        other = gst_value_serialize(b);
        g_string_append_printf(text, "%s%s is %s, it expects %s",
                               *details ? "; " : "", name, one, other);
        add_cure(text, name, other, encoder);
        if (!*details)
            *details =
                gst_vae_mismatch_details((GstVaeMismatch){name, one, other});
        g_free(one);
        g_free(other);
    }
}

GError *
gst_vae_refusal(const gchar *what, const GstCaps *ours, const GstCaps *theirs,
                gboolean encoder)
{
    GString *text = g_string_new(what);
    GstStructure *details = NULL;
    GError *error;

    g_string_append(text, ": ");
    for (guint i = 0; i < gst_caps_get_size(ours) && !details; i++)
        for (guint k = 0; k < gst_caps_get_size(theirs) && !details; k++) {
            const GstStructure *is = gst_caps_get_structure(ours, i);
            const GstStructure *expected = gst_caps_get_structure(theirs, k);

            if (gst_structure_has_name(is, gst_structure_get_name(expected)))
                add_differences(text, is, expected, encoder, &details);
        }
    if (!details) {
        gchar *all = gst_caps_to_string(theirs);

        g_string_append_printf(text, "it takes %s", all);
        g_free(all);
    }
    error = gst_vae_error_new(GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                              text->str, details);
    g_string_free(text, TRUE);
    return error;
}
