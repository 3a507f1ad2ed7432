/*
 * switch.h: which model an element uses, and another one while it runs.
 * Streaming thread of the sink pad.
 */
#ifndef GST_VAE_SWITCH_H
#define GST_VAE_SWITCH_H

#include "base.h"

G_BEGIN_DECLS

/* Opens the model that the property names, or find_model(), and makes it the
 * one in use. FALSE with error, or without it where a flush came first. */
gboolean gst_vae_base_use_model(GstVaeBase *base, GError **error);
/*
 * Before a step is planned: takes the model that the property was set to
 * meanwhile where a sequence starts here or the signal `restart` came, and says
 * so on the bus. A model that cannot be taken is a warning, and all stays as it
 * was. cold: the step has no context. pts: of the step, for the message.
 */
GstFlowReturn gst_vae_base_switch(GstVaeBase *base, gboolean start,
                                  GstClockTime pts, gboolean *cold);

/* Puts a stream for the model in use where the checkpoint at path says, and
 * makes its session that of the steps to come. FALSE with error, or without
 * it: a flush or an error came first. */
gboolean gst_vae_base_load_checkpoint(GstVaeBase *base, const gchar *path,
                                      VaeCheckpoint *out, GError **error);

G_END_DECLS
#endif
