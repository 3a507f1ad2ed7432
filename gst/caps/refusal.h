/*
 * refusal.h: says why downstream does not take our caps.
 */
#ifndef GST_VAE_REFUSAL_H
#define GST_VAE_REFUSAL_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* Returns a GST_CORE_ERROR_NEGOTIATION error that begins with `what`. It names
 * each field of ours that all of theirs contradict, both values, and the
 * element that fixes it: before the encoder (encoder TRUE), or after the
 * decoder. Its details have the first such field. (transfer full) */
GError *gst_vae_refusal(const gchar *what, const GstCaps *ours,
                        const GstCaps *theirs, gboolean encoder);

G_END_DECLS
#endif
