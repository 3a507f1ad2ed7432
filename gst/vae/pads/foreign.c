/*
 * foreign.c: refuses input that this element cannot read, such as the bytes of
 * a file without a demuxer. The error names the element to put before.
 */
#include "foreign.h"

#include <gst/base/base.h>

#include "source.h"
#include "tensors.h"

/* Returns TRUE if the template of the sink pad does not have the name of the
 * caps. */
static gboolean
is_foreign(GstVaeBase *base, const GstCaps *caps)
{
    const GstStructure *s = gst_caps_get_structure(caps, 0);
    GstCaps *template = gst_pad_get_pad_template_caps(base->sinkpad);
    gboolean known = FALSE;

    for (guint i = 0; !known && i < gst_caps_get_size(template); i++)
        known = gst_structure_has_name(
            s, gst_structure_get_name(gst_caps_get_structure(template, i)));
    gst_caps_unref(template);
    return !known;
}

gboolean
gst_vae_foreign_accepts(GstVaeBase *base, const GstCaps *caps)
{
    GstCaps *template = gst_pad_get_pad_template_caps(base->sinkpad);
    const GstCapsFeatures *features = gst_caps_get_features(caps, 0);
    const gboolean ok =
        gst_caps_is_fixed(caps) &&
        (gst_caps_features_is_equal(features,
                                    GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY) ||
         /* set_caps() refuses it with an error that names deinterlace. */
         gst_caps_features_contains(features,
                                    GST_CAPS_FEATURE_FORMAT_INTERLACED) ||
         (gst_caps_can_intersect(caps, template) &&
          gst_vae_cuda_possible(&base->cuda))) &&
        !is_foreign(base, caps);

    gst_caps_unref(template);
    return ok;
}

/* Posts the error. advice is NULL for the right media type in memory that the
 * element cannot read. */
static void
post(GstVaeBase *base, const gchar *what, const gchar *advice,
     const gchar *debug)
{
    const gchar *expected =
        GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE
            ? GST_VAE_LATENT_NAME " or " GST_VAE_TENSORS_NAME
            : "video/x-raw";
    gchar *name = gst_vae_source_path(base->sinkpad);

    GST_ELEMENT_ERROR_WITH_DETAILS(
        base, STREAM, WRONG_TYPE,
        ("%s%sfound %s, expected %s%s%s", name ? name : "", name ? ": " : "",
         what, expected, advice ? ": " : " in the memory of the system",
         advice ? advice : ""),
        ("%s", debug),
        ("field", G_TYPE_STRING, "caps", "found", G_TYPE_STRING, what,
         "expected", G_TYPE_STRING, expected, NULL));
    g_free(name);
}

/* name: the media type of the input, or NULL. */
static const gchar *
advice_for(GstVaeBase *base, const gchar *name)
{
    if (GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE &&
        g_strcmp0(name, "video/x-raw") == 0)
        return "vaeencode makes latents of video";
    return GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE
               ? "put latentdemux (or decodebin) before vaedecode"
               : "put a decoder (such as decodebin) and videoconvert before "
                 "vaeencode";
}

static void
refuse_caps(GstVaeBase *base, const GstCaps *caps)
{
    const gboolean foreign = is_foreign(base, caps);
    const gchar *name = gst_structure_get_name(gst_caps_get_structure(caps, 0));
    gchar *memory = gst_caps_features_to_string(gst_caps_get_features(caps, 0));
    gchar *all = gst_caps_to_string(caps);
    gchar *what =
        foreign ? g_strdup(name) : g_strdup_printf("%s(%s)", name, memory);

    post(base, what, foreign ? advice_for(base, name) : NULL, all);
    g_free(what);
    g_free(all);
    g_free(memory);
}

/* Probes CAPS events, because a pad does not pass caps to its event function if
 * the ACCEPT_CAPS query refuses them. Upstream sends such caps again with each
 * later item. */
static GstPadProbeReturn
look_at_caps(GstPad *pad, GstPadProbeInfo *info, gpointer element)
{
    GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
    GstVaeBase *base = GST_VAE_BASE(element);
    GstCaps *caps;

    if (GST_EVENT_TYPE(event) != GST_EVENT_CAPS)
        return GST_PAD_PROBE_OK;
    gst_event_parse_caps(event, &caps);
    if (gst_vae_foreign_accepts(base, caps) ||
        (base->input.refused_caps &&
         gst_caps_is_equal(caps, base->input.refused_caps)))
        return GST_PAD_PROBE_OK;
    gst_caps_replace(&base->input.refused_caps, caps);
    refuse_caps(base, caps);
    return GST_PAD_PROBE_OK;
}

void
gst_vae_foreign_watch(GstVaeBase *base)
{
    gst_pad_add_probe(base->sinkpad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
                      look_at_caps, base, NULL);
}

void
gst_vae_foreign_bytes(GstVaeBase *base, GstBuffer *buffer)
{
    GstCaps *look;
    gchar *what;

    if (base->input.no_caps_told || gst_pad_has_current_caps(base->sinkpad))
        return;
    base->input.no_caps_told = TRUE;
    look = gst_buffer_get_size(buffer) > 0
               ? gst_type_find_helper_for_buffer(GST_OBJECT(base), buffer, NULL)
               : NULL;
    what = look ? g_strdup_printf(
                      "data without caps (probably %s)",
                      gst_structure_get_name(gst_caps_get_structure(look, 0)))
                : g_strdup("data without caps");
    gst_clear_caps(&look);
    post(base, what, advice_for(base, NULL),
         "no CAPS event came before the first buffer");
    g_free(what);
}
