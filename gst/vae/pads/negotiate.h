/*
 * negotiate.h: sessions for new caps, and errors of the input. For the
 * streaming thread of the sink pad.
 */
#ifndef GST_VAE_NEGOTIATE_H
#define GST_VAE_NEGOTIATE_H

#include "base.h"

G_BEGIN_DECLS

/* Agrees on caps with downstream, makes the session for the next steps and
 * queues its CAPS event. Returns FALSE after an error message or a flush. */
gboolean gst_vae_negotiate(GstVaeBase *base);
/* Posts error after the output of all earlier input, and returns FALSE. error
 * is NULL if a flush was the reason; then this posts nothing. (takes error) */
gboolean gst_vae_refuse(GstVaeBase *base, GError *error);

G_END_DECLS
#endif
