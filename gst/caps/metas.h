/*
 * metas.h: which metas of a buffer travel with its content.
 */
#ifndef GST_VAE_METAS_H
#define GST_VAE_METAS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/*
 * Copies the metas that GstVideoDecoder and GstVideoEncoder copy by default:
 * those that describe no memory, and of whose tags all are about video. Such
 * are reference timestamps, timecodes, captions, regions and custom metas.
 * GstVaeGroupMeta and the tensors of latents describe the latents themselves
 * and are left out. to: writable.
 */
void gst_vae_metas_copy(GstBuffer *to, GstBuffer *from);
/* A buffer without memory that has only these metas; NULL: there are none.
 * (transfer full) */
GstBuffer *gst_vae_metas_take(GstBuffer *from);

G_END_DECLS
#endif
