/*
 * tensors.h: latents as tensors of NNStreamer.
 *
 * other/tensors: a buffer holds one tensor of little-endian numbers. The
 * innermost dimension comes first: a latent is "width:height:channels" or
 * "width:height:channels:1", several latents in one buffer are
 * "width:height:channels:latents". framerate is the rate of buffers. The caps
 * do not state the latent space, the normalization and the size of the video.
 * NNStreamer itself is not needed.
 */
#ifndef GST_VAE_TENSORS_H
#define GST_VAE_TENSORS_H

#include "latent.h"

G_BEGIN_DECLS

#define GST_VAE_TENSORS_NAME "other/tensors"

/* For gst_vae_latent_template(). NNStreamer has no bfloat16. */
#define GST_VAE_TENSORS_CAPS                                                   \
    GST_VAE_TENSORS_NAME ", "                                                  \
                         "format = (string) static, "                          \
                         "num_tensors = (int) 1, "                             \
                         "types = (string) { float32, float16 }"

gboolean gst_vae_tensors_is_caps(const GstCaps *caps);

/*
 * The same as gst_vae_latent_info_from_caps() for both kinds of caps. For
 * tensors, fps is the rate of buffers. When the model is known,
 * gst_vae_tensors_video_rate() converts it to the rate of the video.
 */
gboolean gst_vae_tensors_info_from_caps(const GstCaps *caps,
                                        GstVaeLatentInfo *info, GError **error);

/* Converts the rate of buffers of info->frames latents to the rate of the
 * video. */
void gst_vae_tensors_video_rate(GstVaeLatentInfo *info, VaeCounts counts);

/* Makes the caps of tensors for the same latents. Fields with a choice are not
 * fixed. (transfer full) */
GstCaps *gst_vae_tensors_caps(const GstVaeLatentInfo *info, VaeCounts counts);

G_END_DECLS
#endif
