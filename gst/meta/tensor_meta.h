/*
 * tensor_meta.h: latents as tensors of GStreamer itself, which inference
 * elements read and write: GstTensorMeta of 1.26 and later, the field `tensors`
 * of the caps of 1.28 and later. A build without gstreamer-analytics of 1.26
 * leaves buffers and caps as they are.
 *
 * A tensor is row-major and has the type and the order of the latents' caps.
 * Its id is "vae-latent-" and the latent space, or "vae-latent" if the space is
 * unknown. Its group has the same name.
 */
#ifndef GST_VAE_TENSOR_META_H
#define GST_VAE_TENSOR_META_H

#include "latent.h"

G_BEGIN_DECLS

/*
 * Adds a tensor that refers to the memory of a buffer, without a copy. The
 * buffer must be writable, not mapped, and of info's size. space: the latent
 * space if info states none; may be NULL.
 */
void gst_vae_tensor_meta_add(GstBuffer *buffer, const GstVaeLatentInfo *info,
                             const gchar *space);

/*
 * Sets *data to the buffer of the last tensor of the latents' id that another
 * element added to buffer or wrote, or to NULL. `buffer` owns it. Returns FALSE
 * if that tensor does not match info; error is then one of details.h with the
 * found and the expected value. space is as above.
 */
gboolean gst_vae_tensor_meta_read(GstBuffer *buffer,
                                  const GstVaeLatentInfo *info,
                                  const gchar *space, GstBuffer **data,
                                  GError **error);

/* Returns TRUE if one of the meta's tensors holds latents. */
gboolean gst_vae_tensor_meta_is_latent(const GstMeta *meta);

/* Sets the field `tensors` of the first structure of caps. */
void gst_vae_tensor_meta_describe(GstCaps *caps, const GstVaeLatentInfo *info);

G_END_DECLS
#endif
