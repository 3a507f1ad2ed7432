/*
 * frame.c: maps video frames, and checks the GstVideoMeta that places their
 * rows.
 */
#include "frame.h"

#include "video.h"

/* gst_video_format_to_string() takes no other numbers than those of formats. */
static const gchar *
format_name(GstVideoFormat format)
{
    GEnumClass *formats = g_type_class_ref(GST_TYPE_VIDEO_FORMAT);
    const gboolean known = format != GST_VIDEO_FORMAT_UNKNOWN &&
                           g_enum_get_value(formats, (gint) format);

    g_type_class_unref(formats);
    return known ? gst_video_format_to_string(format) : "an unknown format";
}

/* "GRAY8, 32x24, 1 plane". */
static void
describe(gchar *text, gsize size, GstVideoFormat format, guint width,
         guint height, guint planes)
{
    g_snprintf(text, size, "%s, %ux%u, %s", format_name(format), width, height,
               VAE_COUNTED(planes, "plane"));
}

/* Checks what gst_video_frame_map() asserts. */
static VaeStatus
check_meta(const GstVideoMeta *meta, const GstVideoInfo *info, VaeError *error)
{
    const guint width = (guint) GST_VIDEO_INFO_WIDTH(info);
    const guint height = (guint) GST_VIDEO_INFO_HEIGHT(info);
    gchar found[80], expected[80];

    if (meta->format == GST_VIDEO_INFO_FORMAT(info) && meta->width == width &&
        meta->height == height &&
        meta->n_planes == GST_VIDEO_INFO_N_PLANES(info))
        return VAE_OK;
    describe(found, sizeof found, meta->format, meta->width, meta->height,
             meta->n_planes);
    describe(expected, sizeof expected, GST_VIDEO_INFO_FORMAT(info), width,
             height, GST_VIDEO_INFO_N_PLANES(info));
    return vae_mismatch(
        error, VAE_ERR_SIZE, NULL,
        "the GstVideoMeta of a frame states {%s}; the caps state {=%s}", found,
        expected);
}

/* Bytes of a component in a row, from its first sample. */
static gint
row_size(const GstVideoInfo *info, guint component)
{
    return GST_VIDEO_INFO_COMP_WIDTH(info, component) *
           GST_VIDEO_INFO_COMP_PSTRIDE(info, component);
}

static VaeStatus
check_strides(const GstVideoMeta *meta, const GstVideoInfo *info,
              VaeError *error)
{
    for (guint i = 0; i < GST_VIDEO_INFO_N_COMPONENTS(info); i++) {
        const gint plane = GST_VIDEO_INFO_COMP_PLANE(info, i);

        if (meta->stride[plane] >= row_size(info, i))
            continue;
        return vae_mismatch(
            error, VAE_ERR_SIZE, NULL,
            "the GstVideoMeta of a frame states that the rows of plane %d are "
            "{%d} bytes apart, expected at least {=%d} for %s, %dx%d",
            plane, meta->stride[plane], row_size(info, i),
            GST_VIDEO_INFO_NAME(info), GST_VIDEO_INFO_WIDTH(info),
            GST_VIDEO_INFO_HEIGHT(info));
    }
    return VAE_OK;
}

/* TRUE if the mapped memory holds every row. Without a GstVideoMeta, mapping
 * has checked the size. */
static gboolean
is_inside(const GstVideoFrame *frame)
{
    if (!frame->meta)
        return TRUE;
    for (guint i = 0; i < GST_VIDEO_FRAME_N_COMPONENTS(frame); i++) {
        const gint plane = GST_VIDEO_FRAME_COMP_PLANE(frame, i);
        const GstMapInfo *map = &frame->map[plane];
        const gint64 first = (guint8 *) frame->data[plane] - map->data;
        const gint64 last =
            first + (gint64) GST_VIDEO_FRAME_PLANE_STRIDE(frame, plane) *
                        (GST_VIDEO_FRAME_COMP_HEIGHT(frame, i) - 1);

        if (first < 0 || last + row_size(&frame->info, i) > (gint64) map->size)
            return FALSE;
    }
    return TRUE;
}

static gboolean
map_inside(GstVideoFrame *frame, const GstVideoInfo *info, GstBuffer *buffer,
           GstMapFlags flags)
{
    if (!gst_video_frame_map(frame, info, buffer, flags))
        return FALSE;
    if (is_inside(frame))
        return TRUE;
    gst_video_frame_unmap(frame);
    return FALSE;
}

static gboolean
map_merged(GstVideoFrame *frame, const GstVideoInfo *info, GstBuffer *buffer,
           GstMapFlags flags)
{
    GstBuffer *merged = gst_buffer_new();
    gboolean mapped;

    gst_buffer_copy_into(merged, buffer, GST_BUFFER_COPY_META, 0, -1);
    gst_buffer_append_memory(merged, gst_buffer_get_all_memory(buffer));
    mapped = map_inside(frame, info, merged, flags);
    gst_buffer_unref(merged);
    return mapped;
}

/* The error of a frame whose memory cannot be mapped. */
static VaeStatus
fail_memory(const GstVideoInfo *info, GstBuffer *buffer, VaeError *error)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    const gsize size = gst_buffer_get_size(buffer);
    gchar found[160], expected[80], *to = found;

    describe(expected, sizeof expected, GST_VIDEO_INFO_FORMAT(info),
             (guint) GST_VIDEO_INFO_WIDTH(info),
             (guint) GST_VIDEO_INFO_HEIGHT(info),
             GST_VIDEO_INFO_N_PLANES(info));
    if (!meta && size >= GST_VIDEO_INFO_SIZE(info))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "the memory of a frame (%s) cannot be mapped",
                        expected);
    if (!meta)
        return vae_mismatch(error, VAE_ERR_SIZE, NULL,
                            "a frame has {%zu bytes}, expected %zu for {=%s}",
                            size, GST_VIDEO_INFO_SIZE(info), expected);
    for (guint i = 0; i < meta->n_planes; i++)
        to += g_snprintf(to, (gulong) (found + sizeof found - to),
                         "%s%d bytes apart from byte %zu", i ? ", " : "",
                         meta->stride[i], meta->offset[i]);
    return vae_mismatch(
        error, VAE_ERR_SIZE, NULL,
        "a frame of %zu bytes does not hold the rows of its planes where its "
        "GstVideoMeta states them ({%s}), expected {=%s}",
        size, found, expected);
}

VaeStatus
gst_vae_frame_map(GstVideoFrame *frame, const GstVideoInfo *info,
                  GstBuffer *buffer, GstMapFlags flags, VaeError *error)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    VaeStatus status = VAE_OK;

    if (meta)
        status = check_meta(meta, info, error);
    if (meta && status == VAE_OK)
        status = check_strides(meta, info, error);
    if (status != VAE_OK)
        return status;
    if (map_inside(frame, info, buffer, flags) ||
        (!(flags & GST_MAP_WRITE) && gst_buffer_n_memory(buffer) > 1 &&
         map_merged(frame, info, buffer, flags)))
        return VAE_OK;
    return fail_memory(info, buffer, error);
}

void
gst_vae_frame_picture(const GstVideoFrame *frame, VaePicture *picture)
{
    gst_vae_video_picture(&frame->info, picture);
    for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES(frame) && i < 3; i++) {
        picture->data[i] = GST_VIDEO_FRAME_PLANE_DATA(frame, i);
        picture->stride[i] = GST_VIDEO_FRAME_PLANE_STRIDE(frame, i);
    }
}
