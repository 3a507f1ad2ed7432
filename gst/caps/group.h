/*
 * group.h: a meta of a latent: how many frames it stands for, and how long
 * they last together. The duration of the buffer cannot say both where frames
 * do not follow the nominal rate, because it also says how many frames of the
 * last group there are.
 */
#ifndef GST_VAE_GROUP_H
#define GST_VAE_GROUP_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* Adds the meta to a writable buffer. */
void gst_vae_group_add(GstBuffer *buffer, guint frames, GstClockTime duration);
/* FALSE: the buffer has none that makes sense. */
gboolean gst_vae_group_get(const GstBuffer *buffer, guint *frames,
                           GstClockTime *duration);
gboolean gst_vae_group_is_meta(const GstMeta *meta);

G_END_DECLS
#endif
