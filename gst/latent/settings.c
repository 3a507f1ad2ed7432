/*
 * settings.c: defines the properties by which a user describes a latent file.
 */
#include "settings.h"

#include "enums.h"
#include "latent.h"

static GType
layout_type(void)
{
    static gsize type;
    static const GEnumValue values[] = {
        {VAE_LAYOUT_AUTO, "As the metadata and the shape in the file say",
         "auto"},
        {VAE_LAYOUT_CTHW, "Channels before time", "cthw"},
        {VAE_LAYOUT_TCHW, "Time before channels", "tchw"},
        {VAE_LAYOUT_CTHW, "The same, after the batch", "bcthw"},
        {VAE_LAYOUT_TCHW, "The same, after the batch", "btchw"},
        {0}};
    if (g_once_init_enter(&type))
        g_once_init_leave(
            &type, g_enum_register_static("GstLatentDemuxLayout", values));
    return type;
}

#define FLAGS                                                                  \
    (G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY)

/* The tensor to read, and its place in the file. */
static void
install_choice(GObjectClass *klass)
{
    /**
     * GstLatentDemux:tensor:
     *
     * Name of the tensor to read, for files with several tensors. Without a
     * name, the element reads the first that exists of `latent`, `latents`,
     * `samples` and `latent_tensor`, or else the only tensor with 4 or 5
     * dimensions, or else with 3: [C, h, w] is one latent.
     */
    g_object_class_install_property(
        klass, GST_LATENT_PROP_TENSOR,
        g_param_spec_string("tensor", "Tensor",
                            "Name of the tensor (NULL = the first that exists "
                            "of latent, latents, samples and latent_tensor, "
                            "else the only tensor with 4 or 5 dimensions, "
                            "else with 3)",
                            NULL, FLAGS));
    /**
     * GstLatentDemux:layout:
     *
     * Order of the tensor's dimensions. A value other than `auto` overrides
     * the metadata of the file (`vae.layout`).
     */
    g_object_class_install_property(
        klass, GST_LATENT_PROP_LAYOUT,
        g_param_spec_enum("layout", "Layout",
                          "Order of the tensor's dimensions; a value other "
                          "than auto overrides the file",
                          layout_type(), VAE_LAYOUT_AUTO, FLAGS));
    /**
     * GstLatentDemux:batch-index:
     *
     * Index of the clip to read from a tensor of 5 dimensions, whose first
     * dimension is the batch. Without an index, a batch of more than one clip
     * is an error.
     */
    g_object_class_install_property(
        klass, GST_LATENT_PROP_BATCH_INDEX,
        g_param_spec_int("batch-index", "Batch Index",
                         "Index of the clip in a batch (-1 = none: a batch of "
                         "more than one clip is an error)",
                         -1, G_MAXINT, -1, FLAGS));
}

/* What overrides the statements of the file. */
static void
install_defaults(GObjectClass *klass)
{
    /**
     * GstLatentDemux:framerate:
     *
     * Rate of the decoded video, in the caps and in the timestamps. It
     * overrides the rate and the times that the file states.
     */
    g_object_class_install_property(
        klass, GST_LATENT_PROP_FRAMERATE,
        gst_param_spec_fraction("framerate", "Framerate",
                                "Framerate of the decoded video, " GST_VAE_RATES
                                ", which overrides the file (0/1 = as the file "
                                "states, else the usual one of the latent "
                                "space)",
                                0, 1, G_MAXINT, 1, 0, 1, FLAGS));
    /**
     * GstLatentDemux:latent-space:
     *
     * Latent space in the caps. If the file states another one, the element
     * posts a WARNING that this one overrides it.
     */
    g_object_class_install_property(
        klass, GST_LATENT_PROP_LATENT_SPACE,
        g_param_spec_string("latent-space", "Latent Space",
                            "Name of the latent space, such as wan2.1, which "
                            "overrides the file (NULL = as the file states); "
                            "vaedecode finds the installed model by this name",
                            NULL, FLAGS));
    /**
     * GstLatentDemux:normalization:
     *
     * Convention of the latents, which overrides the file. `normalized` numbers
     * are those that the diffusion model uses. `raw` numbers are normalized *
     * std + mean, with the statistics of the latent space. `comfyui` is `raw`
     * or `normalized`, as ComfyUI saves latents of this space; `auto` selects
     * it for a `.latent` of ComfyUI, and `normalized` for other files. If the
     * file states another convention, the element posts a WARNING.
     */
    g_object_class_install_property(
        klass, GST_LATENT_PROP_NORMALIZATION,
        g_param_spec_enum("normalization", "Normalization",
                          "Normalization of the latents, which overrides the "
                          "file",
                          GST_TYPE_VAE_NORMALIZATION,
                          GST_VAE_NORMALIZATION_AUTO, FLAGS));
}

void
gst_latent_settings_install(GObjectClass *klass)
{
    install_choice(klass);
    install_defaults(klass);
    gst_type_mark_as_plugin_api(layout_type(), 0);
}

void
gst_latent_settings_init(GstLatentSettings *settings)
{
    *settings = (GstLatentSettings){.fps_d = 1, .batch_index = -1};
}

void
gst_latent_settings_copy(GstLatentSettings *dst, const GstLatentSettings *src)
{
    *dst = *src;
    dst->tensor = g_strdup(src->tensor);
    dst->space = g_strdup(src->space);
}

void
gst_latent_settings_clear(GstLatentSettings *settings)
{
    g_clear_pointer(&settings->tensor, g_free);
    g_clear_pointer(&settings->space, g_free);
}
