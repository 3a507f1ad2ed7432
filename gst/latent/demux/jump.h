/*
 * jump.h: executes seeks. In pull mode the task of the sink pad reads from
 * another place. In push mode the latents come from memory if the whole file is
 * kept there; otherwise upstream seeks to their bytes.
 */
#ifndef GST_LATENT_JUMP_H
#define GST_LATENT_JUMP_H

#include "send.h"

G_BEGIN_DECLS

/* TRUE if latentdemux can seek once the clip is known. The caller does not hold
 * the object lock. */
gboolean gst_latent_jump_possible(GstLatentDemux *self);
/* Executes a seek. loop: the function of the task on the sink pad. Returns
 * FALSE if the seek is refused. */
gboolean gst_latent_jump(GstLatentDemux *self, GstEvent *event,
                         GstTaskFunction loop);
/* TRUE between a seek of upstream and its first bytes. */
gboolean gst_latent_jump_is_pending(GstLatentDemux *self);
/* Continues at the bytes that begin here, if upstream has executed a seek. The
 * caller holds the stream lock of the sink pad. */
void gst_latent_jump_land(GstLatentDemux *self, guint64 offset);

G_END_DECLS
#endif
