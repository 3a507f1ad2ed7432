/*
 * tensor_meta.h: latents as tensors of GStreamer itself, which inference
 * elements read and write: GstTensorMeta of 1.26 and later, the field `tensors`
 * of the caps of 1.28 and later. A build without gstreamer-analytics of 1.26
 * leaves buffers and caps as they are.
 *
 * A tensor is row-major, has the type and the order of the latents' caps, and
 * the id "vae-latent-" + the latent space, or "vae-latent" where the space is
 * not known. Its group has the same name.
 */
#ifndef GST_VAE_TENSOR_META_H
#define GST_VAE_TENSOR_META_H

#include "latent.h"

G_BEGIN_DECLS

/*
 * Adds a tensor that describes the bytes of a buffer, and refers to its memory:
 * nothing is copied. The buffer is writable, not mapped, and has the size that
 * info says. space: that of info where info states none; may be NULL.
 */
void gst_vae_tensor_meta_add(GstBuffer *buffer, const GstVaeLatentInfo *info,
                             const gchar *space);

/*
 * The buffer whose bytes are the latents: one with the memory of the last
 * tensor of their id that another element added or wrote, and the times and
 * flags of buffer, or else buffer itself. NULL: that tensor is not what info
 * says; error is then one of details.h that names what was found and
 * wanted. space as above. (takes buffer, transfer full)
 */
GstBuffer *gst_vae_tensor_meta_take(GstBuffer *buffer,
                                    const GstVaeLatentInfo *info,
                                    const gchar *space, GError **error);

/* TRUE: a meta whose tensors include one of latents. */
gboolean gst_vae_tensor_meta_is_latent(const GstMeta *meta);

/* Sets the field `tensors` of the first structure of caps. */
void gst_vae_tensor_meta_describe(GstCaps *caps, const GstVaeLatentInfo *info);

G_END_DECLS
#endif
