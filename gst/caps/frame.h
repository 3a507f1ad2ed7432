/*
 * frame.h: maps video frames, and checks the GstVideoMeta that places their
 * rows.
 */
#ifndef GST_VAE_FRAME_H
#define GST_VAE_FRAME_H

#include <gst/video/video.h>

#include "vae-private/frames.h"
#include "vae-private/status.h"

G_BEGIN_DECLS

/*
 * Maps a frame as gst_video_frame_map() does. It must have the format and the
 * size of info, and memory for every row. A GstVideoMeta may place rows outside
 * of the memory that has the first of them. For reading, such memories are
 * merged. The error of a meta that does not fit says what it states. Unmap with
 * gst_video_frame_unmap().
 */
VaeStatus gst_vae_frame_map(GstVideoFrame *frame, const GstVideoInfo *info,
                            GstBuffer *buffer, GstMapFlags flags,
                            VaeError *error);

/* Fills a picture with the data and the strides of a mapped frame. */
void gst_vae_frame_picture(const GstVideoFrame *frame, VaePicture *picture);

G_END_DECLS
#endif
