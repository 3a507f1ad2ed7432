/*
 * mux.h: latentmux writes latent buffers to a safetensors file.
 */
#ifndef GST_LATENT_MUX_H
#define GST_LATENT_MUX_H

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_LATENT_MUX (gst_latent_mux_get_type())
G_DECLARE_FINAL_TYPE(GstLatentMux, gst_latent_mux, GST, LATENT_MUX, GstElement)

GST_ELEMENT_REGISTER_DECLARE(latentmux)

G_END_DECLS
#endif
