/*
 * video.h: raw video caps, and video frames as pictures of the engine.
 */
#ifndef GST_VAE_VIDEO_H
#define GST_VAE_VIDEO_H

#include <gst/video/video.h>

#include "vae-private/frames.h"

#include "latent.h"

G_BEGIN_DECLS

/*
 * The formats in the order of preference: 4:2:0 has half the bytes of RGB. The
 * caps have two groups, so that an element that accepts all formats chooses
 * from the first group.
 */
#define GST_VAE_RAW_USUAL "I420, NV12, RGB, RGBA, BGRx"
#define GST_VAE_RAW_OTHER_1_22                                                 \
    "YV12, Y42B, Y444, RGBx, BGRA, BGR, GBR, I420_10LE, P010_10LE, GBR_10LE, " \
    "GBR_12LE"
#if GST_CHECK_VERSION(1, 24, 0)
#define GST_VAE_RAW_OTHER GST_VAE_RAW_OTHER_1_22 ", GBR_16LE"
#else
#define GST_VAE_RAW_OTHER GST_VAE_RAW_OTHER_1_22
#endif
#define GST_VAE_RAW_FORMATS GST_VAE_RAW_USUAL ", " GST_VAE_RAW_OTHER
#define GST_VAE_RAW_CAPS_OF(formats)                                           \
    "video/x-raw, format = (string) { " formats " }, "                         \
    "width = (int) [ 1, 65535 ], height = (int) [ 1, 65535 ], "                \
    "framerate = (fraction) [ 0/1, MAX ], interlace-mode = progressive"
#define GST_VAE_RAW_CAPS                                                       \
    GST_VAE_RAW_CAPS_OF(GST_VAE_RAW_USUAL)                                     \
    "; " GST_VAE_RAW_CAPS_OF(GST_VAE_RAW_OTHER)

/* Return TRUE if the video is in the memory of a CUDA device. For caps, the
 * first structure decides. */
gboolean gst_vae_video_is_cuda_feature(const GstCapsFeatures *features);
gboolean gst_vae_video_is_cuda(const GstCaps *caps);

/*
 * Fixates raw caps of one size. It chooses the first format, and states range,
 * matrix and, for subsampled chroma, the chroma site. For YUV, fields that the
 * caps leave open get the colorimetry and the chroma site of the latents, if
 * these are known here. Otherwise they are bt601 up to 576 lines and bt709
 * above, limited range and chroma site mpeg2. RGB formats get sRGB. (takes
 * caps, transfer full)
 */
GstCaps *gst_vae_video_fixate(GstCaps *caps, const GstVaeLatentInfo *latents);

/*
 * Reads fixed caps and checks that the engine knows the matrix, range, chroma
 * site and field order. The GError is one of details.h or a
 * GST_STREAM_ERROR_FORMAT, and names what was found and what is known.
 */
gboolean gst_vae_video_info(const GstCaps *caps, GstVideoInfo *info,
                            GError **error);

/* Adds interlaced video of the same formats, which gst_vae_video_info() refuses
 * with an error. Without it, upstream would fail without a reason. (takes caps,
 * transfer full) */
GstCaps *gst_vae_video_add_interlaced(GstCaps *caps);

/* Fills a picture of info without data. The engine computes and does not
 * convert it. */
void gst_vae_video_picture(const GstVideoInfo *info, VaePicture *picture);

G_END_DECLS
#endif
