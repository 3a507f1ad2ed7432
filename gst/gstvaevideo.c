#include "gstvaevideo.h"

#include "gstvaelatent.h"

#include <string.h>

static gboolean
pixels_of(GstVideoFormat format, VaePixels *pixels)
{
    switch (format) {
    case GST_VIDEO_FORMAT_I420:
        *pixels = VAE_PIXELS_I420;
        return TRUE;
    case GST_VIDEO_FORMAT_NV12:
        *pixels = VAE_PIXELS_NV12;
        return TRUE;
    case GST_VIDEO_FORMAT_RGB:
        *pixels = VAE_PIXELS_RGB;
        return TRUE;
    case GST_VIDEO_FORMAT_RGBA:
        *pixels = VAE_PIXELS_RGBA;
        return TRUE;
    case GST_VIDEO_FORMAT_BGRx:
        *pixels = VAE_PIXELS_BGRX;
        return TRUE;
    default:
        return FALSE;
    }
}

static gboolean
is_rgb(const gchar *format)
{
    return g_strcmp0(format, "I420") != 0 && g_strcmp0(format, "NV12") != 0;
}

/* Sets field to value, or as near to it as the structure allows. */
static void
state_string(GstStructure *s, const gchar *field, const gchar *value)
{
    if (gst_structure_has_field(s, field))
        gst_structure_fixate_field_string(s, field, value);
    else
        gst_structure_set(s, field, G_TYPE_STRING, value, NULL);
}

GstCaps *
gst_vae_video_fixate(GstCaps *caps)
{
    GstStructure *s;
    const gchar *format;
    gint height = 0;

    caps = gst_caps_make_writable(gst_caps_truncate(caps));
    s = gst_caps_get_structure(caps, 0);
    gst_structure_fixate_field_string(s, "format", "I420");
    gst_structure_get_int(s, "height", &height);
    format = gst_structure_get_string(s, "format");
    if (is_rgb(format)) {
        state_string(s, "colorimetry", GST_VIDEO_COLORIMETRY_SRGB);
        gst_structure_remove_field(s, "chroma-site");
    } else {
        state_string(s, "colorimetry",
                     height > 576 ? GST_VIDEO_COLORIMETRY_BT709
                                  : GST_VIDEO_COLORIMETRY_BT601);
        state_string(s, "chroma-site", "mpeg2");
    }
    state_string(s, "interlace-mode", "progressive");
    return gst_caps_fixate(caps);
}

static gboolean
bad_caps(const GstCaps *caps, const gchar *field, const gchar *wanted,
         GError **error)
{
    const GstStructure *s = gst_caps_get_structure(caps, 0);
    const gchar *found = gst_structure_get_string(s, field);

    g_set_error(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                "The video has %s = %s, wanted %s", field,
                found ? found : "something else", wanted);
    return FALSE;
}

/* 4:2:0 only: site, matrix. */
static gboolean
check_yuv(const GstCaps *caps, const GstVideoInfo *info, GError **error)
{
    const GstVideoColorMatrix matrix = info->colorimetry.matrix;

    if (matrix != GST_VIDEO_COLOR_MATRIX_BT601 &&
        matrix != GST_VIDEO_COLOR_MATRIX_BT709 &&
        matrix != GST_VIDEO_COLOR_MATRIX_UNKNOWN)
        return bad_caps(caps, "colorimetry", "the matrix of bt601 or bt709",
                        error);
    if (info->chroma_site != GST_VIDEO_CHROMA_SITE_MPEG2 &&
        info->chroma_site != GST_VIDEO_CHROMA_SITE_JPEG &&
        info->chroma_site != GST_VIDEO_CHROMA_SITE_UNKNOWN)
        return bad_caps(caps, "chroma-site", "mpeg2 or jpeg", error);
    return TRUE;
}

static gboolean
too_large(GError **error, gint width, gint height, const gchar *limit)
{
    g_set_error(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                "The video has %dx%d pixels; %s are not possible", width,
                height, limit);
    return FALSE;
}

/* gst_video_info_from_caps() without a word about why not. */
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
        return too_large(
            error, width, height,
            "more than " G_STRINGIFY(GST_VAE_MAX_PIXELS) " each way");
    if (!format || !pixels_of(gst_video_format_from_string(format), &pixels)) {
        text = gst_caps_to_string(caps);
        g_set_error(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                    "The video caps are %s, wanted one of the "
                    "formats " GST_VAE_RAW_FORMATS,
                    text);
        g_free(text);
        return FALSE;
    }
    if (gst_video_info_from_caps(info, caps))
        return TRUE;
    if ((guint64) width * height > G_MAXINT / 4)
        return too_large(error, width, height, "frames of 2 GiB");
    text = gst_caps_to_string(caps);
    g_set_error(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                "The video caps cannot be read: %s", text);
    g_free(text);
    return FALSE;
}

gboolean
gst_vae_video_info(const GstCaps *caps, GstVideoInfo *info, GError **error)
{
    if (!read_caps(caps, info, error))
        return FALSE;
    if (GST_VIDEO_INFO_IS_INTERLACED(info))
        return bad_caps(caps, "interlace-mode", "progressive", error);
    if (GST_VIDEO_INFO_IS_YUV(info))
        return check_yuv(caps, info, error);
    if (info->colorimetry.range == GST_VIDEO_COLOR_RANGE_16_235)
        return bad_caps(caps, "colorimetry", "full range for RGB", error);
    return TRUE;
}

void
gst_vae_video_picture(const GstVideoInfo *info, VaePicture *picture)
{
    const GstVideoColorMatrix matrix = info->colorimetry.matrix;
    const gboolean high = GST_VIDEO_INFO_HEIGHT(info) > 576;

    memset(picture, 0, sizeof *picture);
    pixels_of(GST_VIDEO_INFO_FORMAT(info), &picture->pixels);
    picture->width = GST_VIDEO_INFO_WIDTH(info);
    picture->height = GST_VIDEO_INFO_HEIGHT(info);
    picture->matrix = VAE_MATRIX_BT601;
    if (matrix == GST_VIDEO_COLOR_MATRIX_BT709 ||
        (matrix == GST_VIDEO_COLOR_MATRIX_UNKNOWN && high))
        picture->matrix = VAE_MATRIX_BT709;
    picture->full_range =
        info->colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255;
    picture->site_center = info->chroma_site == GST_VIDEO_CHROMA_SITE_JPEG;
}

void
gst_vae_video_frame_picture(const GstVideoFrame *frame, VaePicture *picture)
{
    gst_vae_video_picture(&frame->info, picture);
    for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES(frame) && i < 3; i++) {
        picture->data[i] = GST_VIDEO_FRAME_PLANE_DATA(frame, i);
        picture->stride[i] = GST_VIDEO_FRAME_PLANE_STRIDE(frame, i);
    }
}
