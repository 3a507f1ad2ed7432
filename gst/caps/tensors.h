/*
 * tensors.h: latents as tensors of NNStreamer.
 *
 * other/tensors: a buffer holds one tensor of little-endian numbers; dimensions
 * are named from the innermost, so a latent is "width:height:channels" or
 * "width:height:channels:1", and several in one buffer are
 * "width:height:channels:latents". framerate is that of buffers. Latent space,
 * normalization and the size of the video are not said. NNStreamer itself is
 * not needed.
 */
#ifndef GST_VAE_TENSORS_H
#define GST_VAE_TENSORS_H

#include "latent.h"

G_BEGIN_DECLS

#define GST_VAE_TENSORS_NAME "other/tensors"

/* For pad templates, after GST_VAE_LATENT_CAPS. NNStreamer has no bfloat16. */
#define GST_VAE_TENSORS_CAPS                                                   \
    GST_VAE_TENSORS_NAME ", "                                                  \
                         "format = (string) static, "                          \
                         "num_tensors = (int) 1, "                             \
                         "types = (string) { float32, float16 }"

gboolean gst_vae_tensors_is_caps(const GstCaps *caps);

/*
 * gst_vae_latent_info_from_caps() of either kind of caps. For tensors, fps is
 * the rate of buffers: gst_vae_tensors_video_rate() makes it that of the video
 * when the model is known.
 */
gboolean gst_vae_tensors_info_from_caps(const GstCaps *caps,
                                        GstVaeLatentInfo *info, GError **error);

/* Buffers of info.frames latents, each of which is so many frames. */
void gst_vae_tensors_video_rate(GstVaeLatentInfo *info, gint step_frames);

/* The caps of tensors for the same latents, with all that may be chosen open.
 * (transfer full) */
GstCaps *gst_vae_tensors_caps(const GstVaeLatentInfo *info, gint step_frames);

G_END_DECLS
#endif
