/*
 * models.h: finds the file of a model, and shares open models between elements.
 */
#ifndef GST_VAE_MODELS_H
#define GST_VAE_MODELS_H

#include <gst/gst.h>

#include "latent.h"
#include "vae-private/model.h"

G_BEGIN_DECLS

#define GST_VAE_DEMO_SPACE "gst-vae-demo"

/* One open model file, shared by all elements of the process. */
typedef struct GstVaeModel GstVaeModel;

/*
 * Opens the model in path. If a model of the same path, file (device, inode,
 * size, time of change) and variant is open, returns that one. This calls the
 * engine, so only the worker thread may use it. Release the model with
 * gst_vae_model_unref().
 */
VaeStatus gst_vae_model_open(const gchar *path, const gchar *variant,
                             GstVaeModel **out, VaeError *error);
GstVaeModel *gst_vae_model_ref(GstVaeModel *model);
void gst_vae_model_unref(GstVaeModel *model);

VaeModel *gst_vae_model_get(const GstVaeModel *model);
const VaeModelInfo *gst_vae_model_info(const GstVaeModel *model);
/* params: history and tile_plan are read */
GstVaeDecoderFacts gst_vae_model_facts(GstVaeModel *model,
                                       const VaeStreamParams *params);

/*
 * Returns the file for a latent space if no model is set. It searches the XDG
 * data folders, and then uses the bundled demo if the space is the demo's.
 * space may be NULL or empty if the caps declare none. On failure it returns
 * NULL and a GST_RESOURCE_ERROR_NOT_FOUND that says what to install or to set.
 * (transfer full)
 */
gchar *gst_vae_models_find(const gchar *space, GError **error);

/* Returns the file for an encoder without any settings: the only installed
 * model, or the bundled demo if there is none. Several are an error. Fails as
 * gst_vae_models_find() does. */
gchar *gst_vae_models_find_any(GError **error);

G_END_DECLS
#endif
