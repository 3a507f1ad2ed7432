/*
 * switch.h: chooses the model of an element, and changes it while the element
 * runs. For the streaming thread of the sink pad.
 */
#ifndef GST_VAE_SWITCH_H
#define GST_VAE_SWITCH_H

#include "base.h"

G_BEGIN_DECLS

/* Opens and uses the model of the property or of find_model(). Returns FALSE
 * with an error, or without one if a flush came first. */
gboolean gst_vae_base_use_model(GstVaeBase *base, GError **error);
/* Returns TRUE if the property names no model, so that find_model() does. */
gboolean gst_vae_base_finds_model(GstVaeBase *base);
/*
 * Called before a step is planned. If the property was set meanwhile, and a
 * sequence starts here or the signal `restart` was emitted, changes the model
 * and posts a message. If the model cannot be used, posts a warning and keeps
 * the old one. *without_context: receives TRUE if the step has no context. pts:
 * that of the step, for the message.
 */
GstFlowReturn gst_vae_base_switch(GstVaeBase *base, gboolean start,
                                  GstClockTime pts, gboolean *without_context);

/* Opens a stream at the position of a checkpoint file, and uses its session for
 * the next steps. Returns FALSE with an error, or without one if a flush or an
 * error came first. */
gboolean gst_vae_base_load_checkpoint(GstVaeBase *base, const gchar *path,
                                      VaeCheckpoint *out, GError **error);

G_END_DECLS
#endif
