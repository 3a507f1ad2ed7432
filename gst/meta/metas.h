/*
 * metas.h: copies the metas that belong to a buffer's content.
 */
#ifndef GST_VAE_METAS_H
#define GST_VAE_METAS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/*
 * Copies the metas that GstVideoDecoder and GstVideoEncoder copy by default:
 * metas that do not describe memory and whose tags are all about video. These
 * are reference timestamps, timecodes, captions, regions and custom metas. Does
 * not copy GstVaeGroupMeta and the tensors of latents, which describe the
 * latents themselves. `to` must be writable.
 */
void gst_vae_metas_copy(GstBuffer *to, GstBuffer *from);
/* Returns a buffer without memory that has only these metas, or NULL if there
 * are none. (transfer full) */
GstBuffer *gst_vae_metas_take(GstBuffer *from);

G_END_DECLS
#endif
