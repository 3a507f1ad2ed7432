#include "video.h"

#include "details.h"

#include <string.h>

static const struct {
    GstVideoFormat format;
    VaePixels pixels;
} formats[] = {
    {GST_VIDEO_FORMAT_I420, VAE_PIXELS_I420},
    {GST_VIDEO_FORMAT_NV12, VAE_PIXELS_NV12},
    {GST_VIDEO_FORMAT_RGB, VAE_PIXELS_RGB},
    {GST_VIDEO_FORMAT_RGBA, VAE_PIXELS_RGBA},
    {GST_VIDEO_FORMAT_BGRx, VAE_PIXELS_BGRX},
    {GST_VIDEO_FORMAT_YV12, VAE_PIXELS_YV12},
    {GST_VIDEO_FORMAT_Y42B, VAE_PIXELS_Y42B},
    {GST_VIDEO_FORMAT_Y444, VAE_PIXELS_Y444},
    {GST_VIDEO_FORMAT_RGBx, VAE_PIXELS_RGBX},
    {GST_VIDEO_FORMAT_BGRA, VAE_PIXELS_BGRA},
    {GST_VIDEO_FORMAT_BGR, VAE_PIXELS_BGR},
    {GST_VIDEO_FORMAT_GBR, VAE_PIXELS_GBR},
    {GST_VIDEO_FORMAT_I420_10LE, VAE_PIXELS_I420_10},
    {GST_VIDEO_FORMAT_P010_10LE, VAE_PIXELS_P010},
    {GST_VIDEO_FORMAT_GBR_10LE, VAE_PIXELS_GBR_10},
    {GST_VIDEO_FORMAT_GBR_12LE, VAE_PIXELS_GBR_12},
#if GST_CHECK_VERSION(1, 24, 0)
    {GST_VIDEO_FORMAT_GBR_16LE, VAE_PIXELS_GBR_16},
#endif
};

static gboolean
pixels_of(GstVideoFormat format, VaePixels *pixels)
{
    for (guint i = 0; i < G_N_ELEMENTS(formats); i++)
        if (formats[i].format == format) {
            *pixels = formats[i].pixels;
            return TRUE;
        }
    return FALSE;
}

gboolean
gst_vae_video_is_cuda_feature(const GstCapsFeatures *features)
{
    return features && !gst_caps_features_is_any(features) &&
           gst_caps_features_contains(features, "memory:CUDAMemory");
}

gboolean
gst_vae_video_is_cuda(const GstCaps *caps)
{
    return caps && !gst_caps_is_any(caps) && !gst_caps_is_empty(caps) &&
           gst_vae_video_is_cuda_feature(gst_caps_get_features(caps, 0));
}

static gboolean
is_subsampled(const GstVideoFormatInfo *format)
{
    return GST_VIDEO_FORMAT_INFO_IS_YUV(format) &&
           (GST_VIDEO_FORMAT_INFO_W_SUB(format, 1) > 0 ||
            GST_VIDEO_FORMAT_INFO_H_SUB(format, 1) > 0);
}

/* Sets the field to the value, or to the nearest one that the structure
 * allows. */
static void
state_string(GstStructure *s, const gchar *field, const gchar *value)
{
    if (gst_structure_has_field(s, field))
        gst_structure_fixate_field_string(s, field, value);
    else
        gst_structure_set(s, field, G_TYPE_STRING, value, NULL);
}

static gboolean
known_matrix(GstVideoColorMatrix matrix)
{
    return matrix == GST_VIDEO_COLOR_MATRIX_BT601 ||
           matrix == GST_VIDEO_COLOR_MATRIX_BT709 ||
           matrix == GST_VIDEO_COLOR_MATRIX_BT2020;
}

/* Colorimetry of YUV: the requested one if the engine knows it, else by the
 * size.
 */
static const gchar *
yuv_colorimetry(const gchar *requested, gint height)
{
    GstVideoColorimetry colorimetry;

    if (*requested &&
        gst_video_colorimetry_from_string(&colorimetry, requested) &&
        known_matrix(colorimetry.matrix))
        return requested;
    return height > 576 ? GST_VIDEO_COLORIMETRY_BT709
                        : GST_VIDEO_COLORIMETRY_BT601;
}

/* The requested chroma site if the engine knows it, else the usual one. */
static const gchar *
known_site(const gchar *requested)
{
    if (!*requested || (gst_video_chroma_site_from_string(requested) &
                        GST_VIDEO_CHROMA_SITE_ALT_LINE))
        return "mpeg2";
    return requested;
}

GstCaps *
gst_vae_video_fixate(GstCaps *caps, const GstVaeLatentInfo *latents)
{
    const GstVideoFormatInfo *format;
    GstStructure *s;
    gint height = 0;

    caps = gst_caps_make_writable(gst_caps_truncate(caps));
    s = gst_caps_get_structure(caps, 0);
    /* The first of each list. */
    gst_structure_fixate_field_string(
        s, "format", gst_vae_video_is_cuda(caps) ? "NV12" : "I420");
    gst_structure_get_int(s, "height", &height);
    format = gst_video_format_get_info(
        gst_video_format_from_string(gst_structure_get_string(s, "format")));
    if (!GST_VIDEO_FORMAT_INFO_IS_YUV(format))
        state_string(s, "colorimetry", GST_VIDEO_COLORIMETRY_SRGB);
    else
        state_string(
            s, "colorimetry",
            yuv_colorimetry(latents->words[GST_VAE_COLORIMETRY], height));
    /* Other formats have no site. Caps that state one stay valid:
     * GStreamer 1.26 states it for 4:4:4. */
    if (is_subsampled(format))
        state_string(s, "chroma-site",
                     known_site(latents->words[GST_VAE_CHROMA_SITE]));
    state_string(s, "interlace-mode", "progressive");
    return gst_caps_fixate(caps);
}

/* cure: words after the expected value that say what helps, or "". */
static gboolean
bad_caps(const GstCaps *caps, const gchar *field, const gchar *expected,
         const gchar *cure, GError **error)
{
    const GstStructure *s = gst_caps_get_structure(caps, 0);
    const gchar *found = gst_structure_get_string(s, field);

    gst_vae_set_mismatch(error, (GstVaeMismatch){field, found, expected},
                         "The video has %s = %s, expected %s%s", field,
                         found ? found : "something else", expected, cure);
    return FALSE;
}

/* Checks the matrix of YUV, and the site if there is one. */
static gboolean
check_yuv(const GstCaps *caps, const GstVideoInfo *info, GError **error)
{
    const GstVideoColorMatrix matrix = info->colorimetry.matrix;

    if (!known_matrix(matrix) && matrix != GST_VIDEO_COLOR_MATRIX_UNKNOWN)
        return bad_caps(caps, "colorimetry",
                        "the matrix of bt601, bt709 or bt2020", "", error);
    if (is_subsampled(info->finfo) &&
        (info->chroma_site & GST_VIDEO_CHROMA_SITE_ALT_LINE))
        return bad_caps(caps, "chroma-site",
                        "mpeg2, jpeg, cosited or v-cosited", "", error);
    return TRUE;
}

static gboolean
too_large(GError **error, gint width, gint height, const gchar *limit)
{
    gchar found[32];

    g_snprintf(found, sizeof found, "%dx%d", width, height);
    gst_vae_set_mismatch(error, (GstVaeMismatch){"size", found, limit},
                         "The video has %s pixels, expected %s", found, limit);
    return FALSE;
}

/* Does what gst_video_info_from_caps() does, and sets an error that says why it
 * failed. */
static gboolean
read_caps(const GstCaps *caps, GstVideoInfo *info, GError **error)
{
    const GstStructure *s = gst_caps_get_structure(caps, 0);
    const gchar *format = gst_structure_get_string(s, "format");
    gint width = 0, height = 0;
    VaePixels pixels;
    gchar *text;

    gst_structure_get_int(s, "width", &width);
    gst_structure_get_int(s, "height", &height);
    if (width > GST_VAE_MAX_PIXELS || height > GST_VAE_MAX_PIXELS)
        return too_large(error, width, height, GST_VAE_MAX_TEXT);
    if (!format || !pixels_of(gst_video_format_from_string(format), &pixels)) {
        text = gst_caps_to_string(caps);
        gst_vae_set_mismatch(
            error, (GstVaeMismatch){"format", format, GST_VAE_RAW_FORMATS},
            "The video caps are %s, expected one of the "
            "formats " GST_VAE_RAW_FORMATS
            ": put videoconvert before vaeencode",
            text);
        g_free(text);
        return FALSE;
    }
    if (gst_video_info_from_caps(info, caps))
        return TRUE;
    if ((guint64) width * height > G_MAXINT / 4)
        return too_large(error, width, height, "frames of less than 2 GiB");
    text = gst_caps_to_string(caps);
    g_set_error(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                "The video caps cannot be read: %s", text);
    g_free(text);
    return FALSE;
}

/* 0/1 is a rate that varies. */
static gboolean
check_rate(const GstVideoInfo *info, GError **error)
{
    gchar found[32];

    if (info->fps_n == 0 || gst_vae_rate_is_possible(info->fps_n, info->fps_d))
        return TRUE;
    g_snprintf(found, sizeof found, "%d/%d", info->fps_n, info->fps_d);
    gst_vae_set_mismatch(
        error, (GstVaeMismatch){"framerate", found, GST_VAE_RATES},
        "The video has framerate = %s, expected " GST_VAE_RATES, found);
    return FALSE;
}

gboolean
gst_vae_video_info(const GstCaps *caps, GstVideoInfo *info, GError **error)
{
    if (!read_caps(caps, info, error))
        return FALSE;
    if (GST_VIDEO_INFO_IS_INTERLACED(info))
        return bad_caps(caps, "interlace-mode", "progressive",
                        ": put deinterlace before vaeencode", error);
    if (!check_rate(info, error))
        return FALSE;
    return !GST_VIDEO_INFO_IS_YUV(info) || check_yuv(caps, info, error);
}

GstCaps *
gst_vae_video_add_interlaced(GstCaps *caps)
{
    GstCaps *more = gst_caps_copy(caps);
    GValue modes = G_VALUE_INIT;

    g_value_init(&modes, GST_TYPE_LIST);
    if (gst_value_deserialize(&modes, "{ interleaved, mixed, fields }"))
        gst_caps_set_value(more, "interlace-mode", &modes);
    g_value_unset(&modes);
    gst_caps_append(more,
                    gst_caps_from_string(
                        "video/x-raw(" GST_CAPS_FEATURE_FORMAT_INTERLACED "), "
                        "format = (string) { " GST_VAE_RAW_FORMATS " }, "
                        "interlace-mode = (string) alternate"));
    return gst_caps_merge(caps, more);
}

void
gst_vae_video_picture(const GstVideoInfo *info, VaePicture *picture)
{
    const GstVideoColorimetry *colour = &info->colorimetry;
    const GstVideoColorMatrix matrix = colour->matrix;
    const GstVideoChromaSite site = info->chroma_site;
    const gboolean high = GST_VIDEO_INFO_HEIGHT(info) > 576;

    memset(picture, 0, sizeof *picture);
    pixels_of(GST_VIDEO_INFO_FORMAT(info), &picture->pixels);
    picture->width = GST_VIDEO_INFO_WIDTH(info);
    picture->height = GST_VIDEO_INFO_HEIGHT(info);
    picture->matrix = VAE_MATRIX_BT601;
    if (matrix == GST_VIDEO_COLOR_MATRIX_BT2020)
        picture->matrix = VAE_MATRIX_BT2020;
    else if (matrix == GST_VIDEO_COLOR_MATRIX_BT709 ||
             (matrix == GST_VIDEO_COLOR_MATRIX_UNKNOWN && high))
        picture->matrix = VAE_MATRIX_BT709;
    picture->full_range = colour->range == GST_VIDEO_COLOR_RANGE_0_255;
    picture->limited_rgb = colour->range == GST_VIDEO_COLOR_RANGE_16_235;
    picture->site_center = site != GST_VIDEO_CHROMA_SITE_UNKNOWN &&
                           !(site & GST_VIDEO_CHROMA_SITE_H_COSITED);
    picture->site_top = (site & GST_VIDEO_CHROMA_SITE_V_COSITED) != 0;
}
