/*
 * plugin.c: the plugin `vae`. Registering opens no model and no device.
 */
#include <gst/gst.h>

#include "demux.h"
#include "mux.h"
#include "decode.h"
#include "encode.h"

static gboolean
plugin_init(GstPlugin *plugin)
{
    return GST_ELEMENT_REGISTER(vaedecode, plugin) &&
           GST_ELEMENT_REGISTER(vaeencode, plugin) &&
           GST_ELEMENT_REGISTER(latentdemux, plugin) &&
           GST_ELEMENT_REGISTER(latentmux, plugin) &&
           gst_vae_latent_typefind_register(plugin);
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, vae,
                  "Variational autoencoders of video diffusion models",
                  plugin_init, VERSION, "MIT/X11", PACKAGE, GST_VAE_DOCS)
