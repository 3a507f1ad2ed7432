#include "enums.h"

#include "vae-private/stream.h"

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
gst_vae_backend_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {VAE_BACKEND_AUTO,
         "First of cuda, cpu and ref that works on this machine", "auto"},
        {VAE_BACKEND_CUDA,
         "NVIDIA GPU; needs the cuda module of gst-vae, a driver and cuDNN",
         "cuda"},
        {VAE_BACKEND_CPU, "CPU; needs a build with oneDNN", "cpu"},
        {VAE_BACKEND_REF,
         "CPU in plain C, the reference; always available, but slow", "ref"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaeBackend", values);
}

GType
gst_vae_precision_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {VAE_PRECISION_AUTO,
         "Decodes in bf16 where it is faster, else in fp32; encodes in tf32 "
         "on cuda, else in fp32",
         "auto"},
        {VAE_PRECISION_FP32, "32-bit floats, on every backend", "fp32"},
        {VAE_PRECISION_TF32, "32-bit floats, products in TF32 (cuda)", "tf32"},
        {VAE_PRECISION_FP16, "IEEE half floats (cuda)", "fp16"},
        {VAE_PRECISION_BF16,
         "bfloat16 (cuda, and cpu where the processor has it)", "bf16"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaePrecision", values);
}

GType
gst_vae_normalization_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {GST_VAE_NORMALIZATION_AUTO,
         "As the file or the caps state, or normalized if they state none",
         "auto"},
        {VAE_NORMALIZED + 1, "As the diffusion model emits them", "normalized"},
        {VAE_RAW + 1, "normalized * deviation + mean of each channel", "raw"},
        {VAE_COMFYUI + 1,
         "As in a .latent of ComfyUI: raw or normalized, by the latent space",
         "comfyui"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaeNormalization", values);
}

GType
gst_vae_posterior_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {VAE_POSTERIOR_MEAN, "Mean of the distribution", "mean"},
        {VAE_POSTERIOR_SAMPLE,
         "Random sample that depends only on the seed and the position",
         "sample"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaePosterior", values);
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

GType
gst_vae_nan_policy_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {VAE_NAN_PASS, "Send the results without a check", "pass"},
        {VAE_NAN_FALLBACK,
         "Compute a latent whose numbers overflowed in 16 bits again in fp32; "
         "needs more than twice the memory",
         "fallback"},
        {VAE_NAN_ERROR, "Stop the stream with an error", "error"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaeNanPolicy", values);
}

GType
gst_vae_spill_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {VAE_SPILL_AUTO, "Carries that do not fit into the memory of the GPU",
         "auto"},
        {VAE_SPILL_OFF, "No carries", "off"},
        {VAE_SPILL_HOST, "All carries", "host"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaeSpill", values);
}

GType
gst_vae_tiles_get_type(void)
{
    static gsize once;
    static const GEnumValue values[] = {
        {VAE_TILES_OFF, "No tiles: the output is exact", "off"},
        {VAE_TILES_BLEND, "Tiles that overlap and are blended: not exact",
         "blend"},
        {0, NULL, NULL}};

    return enum_type(&once, "GstVaeTiles", values);
}
