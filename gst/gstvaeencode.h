/*
 * gstvaeencode.h: frames in, latents out.
 */
#ifndef GST_VAE_ENCODE_H
#define GST_VAE_ENCODE_H

#include "gstvaebase.h"

G_BEGIN_DECLS

GST_ELEMENT_REGISTER_DECLARE(vaeencode)

/* gstvaeencoderun.c: output memory and the call of the engine */

void gst_vae_encode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                      GstQuery *query);
VaeStatus gst_vae_encode_run(GstVaeBase *base, VaeStream *stream,
                             GstVaeItem **items, guint n, VaeError *error);

G_END_DECLS
#endif
