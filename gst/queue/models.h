/*
 * models.h: which file a model is in, and models shared between elements.
 */
#ifndef GST_VAE_MODELS_H
#define GST_VAE_MODELS_H

#include <gst/gst.h>

#include "vae-private/model.h"

G_BEGIN_DECLS

#define GST_VAE_DEMO_SPACE "gst-vae-demo"

/* One open model file, shared by all elements of the process. */
typedef struct GstVaeModel GstVaeModel;

/*
 * Opens path, or gives the one that is already open from the same path, file
 * (device, inode, size, time of change) and variant. Engine call: worker
 * thread only. Release with gst_vae_model_unref().
 */
VaeStatus gst_vae_model_open(const gchar *path, const gchar *variant,
                             GstVaeModel **out, VaeError *error);
GstVaeModel *gst_vae_model_ref(GstVaeModel *model);
void gst_vae_model_unref(GstVaeModel *model);

VaeModel *gst_vae_model_get(const GstVaeModel *model);
const VaeModelInfo *gst_vae_model_info(const GstVaeModel *model);

/*
 * The file for a latent space when no model is set: the XDG data folders,
 * then, for its own space only, the bundled demo. space may be NULL or empty:
 * not declared. Returns NULL and a GST_RESOURCE_ERROR_NOT_FOUND that says
 * what to install or to set. (transfer full)
 */
gchar *gst_vae_models_find(const gchar *space, GError **error);

/* The file for an encoder that is told nothing: the bundled demo, if no model
 * is installed beside it. Errors as above. */
gchar *gst_vae_models_find_any(GError **error);

G_END_DECLS
#endif
