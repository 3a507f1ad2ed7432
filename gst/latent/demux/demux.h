/*
 * demux.h: latentdemux reads latent files and sends latent buffers.
 */
#ifndef GST_LATENT_DEMUX_H
#define GST_LATENT_DEMUX_H

#include <gst/gst.h>

G_BEGIN_DECLS

GST_ELEMENT_REGISTER_DECLARE(latentdemux)

/* Registers the functions that recognise the files by their content:
 * application/x-safetensors, application/x-npy and application/x-pytorch. */
gboolean gst_vae_latent_typefind_register(GstPlugin *plugin);

G_END_DECLS
#endif
