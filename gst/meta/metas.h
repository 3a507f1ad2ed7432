/*
 * metas.h: copies the metas that belong to a buffer's content, and finds the
 * latents of a buffer.
 */
#ifndef GST_VAE_METAS_H
#define GST_VAE_METAS_H

#include "latent.h"

G_BEGIN_DECLS

/*
 * Copies the metas that GstVideoDecoder and GstVideoEncoder copy by default:
 * metas that do not describe memory and whose tags are all about video. These
 * are reference timestamps, timecodes, captions, regions and custom metas. Does
 * not copy GstVaeGroupMeta and the tensors of latents, which describe the
 * latents themselves. `to` must be writable.
 */
void gst_vae_metas_copy(GstBuffer *to, GstBuffer *from);
/* Returns a buffer without memory that has only the metas to copy, or NULL if
 * there are none. (transfer full) */
GstBuffer *gst_vae_metas_take(GstBuffer *from);

/*
 * Returns the buffer whose bytes are the latents. If another element added or
 * wrote a tensor of the latents' id, this is a buffer with the memory of that
 * tensor and the times, flags and metas of `buffer`, else `buffer` itself.
 * Returns NULL with an error of gst_vae_tensor_meta_read(). space: the latent
 * space if info states none; may be NULL. (takes buffer, transfer full)
 */
GstBuffer *gst_vae_metas_latents(GstBuffer *buffer,
                                 const GstVaeLatentInfo *info,
                                 const gchar *space, GError **error);

G_END_DECLS
#endif
