/*
 * pads.h: buffers and events of the two pads.
 */
#ifndef GST_VAE_PADS_H
#define GST_VAE_PADS_H

#include "base.h"

G_BEGIN_DECLS

/* Creates the pads. Called by the instance init of a subclass, whose class has
 * the pad templates. */
void gst_vae_pads_init(GstVaeBase *base);
/* Resets the input before the pads start. */
void gst_vae_pads_reset(GstVaeBase *base);

G_END_DECLS
#endif
