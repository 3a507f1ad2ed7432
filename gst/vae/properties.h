/*
 * properties.h: the properties of both elements, and their signal.
 */
#ifndef GST_VAE_PROPERTIES_H
#define GST_VAE_PROPERTIES_H

#include "base.h"

G_BEGIN_DECLS

/* Called by the class init and the instance init of GstVaeBase. */
void gst_vae_properties_install(GObjectClass *klass);
void gst_vae_properties_init(GstVaeBase *base);

G_END_DECLS
#endif
