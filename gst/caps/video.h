/*
 * video.h: raw video caps, and video frames as the engine sees them.
 */
#ifndef GST_VAE_VIDEO_H
#define GST_VAE_VIDEO_H

#include <gst/video/video.h>

#include "vae-private/frames.h"

#include "latent.h"

G_BEGIN_DECLS

/*
 * The formats, preferred ones first: 4:2:0 moves half the bytes of RGB. The
 * caps keep both groups apart, so that a neighbour that takes all picks of the
 * first.
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

/* TRUE: the video, that of the first structure of caps, is in the memory of a
 * CUDA device. */
gboolean gst_vae_video_is_cuda_feature(const GstCapsFeatures *features);
gboolean gst_vae_video_is_cuda(const GstCaps *caps);

/*
 * Fixates allowed raw caps of one size: the first format, and with it range,
 * matrix and, where chroma is subsampled, its site, all stated. Fields that
 * the caps leave open become for YUV the colorimetry and the chroma site of
 * latents, where these state any that is known here, else bt601 up to 576 lines
 * and bt709 above, limited range, chroma site mpeg2, and sRGB for the RGB
 * formats. (takes caps, transfer full)
 */
GstCaps *gst_vae_video_fixate(GstCaps *caps, const GstVaeLatentInfo *latents);

/*
 * Reads fixed caps and checks that the engine knows the matrix, range, chroma
 * site and field order. The GError is one of details.h or a
 * GST_STREAM_ERROR_FORMAT, and names what was found and what is known.
 */
gboolean gst_vae_video_info(const GstCaps *caps, GstVideoInfo *info,
                            GError **error);

/* Adds the interlaced video of the same kinds, which gst_vae_video_info()
 * refuses in words; without it upstream would fail and not say why. (takes
 * caps, transfer full) */
GstCaps *gst_vae_video_add_interlaced(GstCaps *caps);

/* The picture of info with no data: computed and not converted. */
void gst_vae_video_picture(const GstVideoInfo *info, VaePicture *picture);

/* The picture in a mapped frame, with the frame's own strides. */
void gst_vae_video_frame_picture(const GstVideoFrame *frame,
                                 VaePicture *picture);

G_END_DECLS
#endif
