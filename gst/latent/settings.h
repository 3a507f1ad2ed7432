/*
 * settings.h: the properties by which a user describes a latent file.
 */
#ifndef GST_LATENT_SETTINGS_H
#define GST_LATENT_SETTINGS_H

#include <gst/gst.h>

#include "latent.h"
#include "vae-private/tensors.h"

G_BEGIN_DECLS

/* The user chooses the clip in the file, and overrides what the file states. */
typedef struct GstLatentSettings {
    gchar *tensor, *space; /* NULL: not set */
    VaeLatentLayout layout;
    gint normalization; /* as of GST_TYPE_VAE_NORMALIZATION */
    gint fps_n, fps_d;  /* fps_n 0: not set */
    gint batch_index;   /* -1: not set */
    GstVaeDecoderFacts decoder;
} GstLatentSettings;

/* Property ids of the settings. An element's own ids begin at the last one. */
enum {
    GST_LATENT_PROP_TENSOR = 1,
    GST_LATENT_PROP_LAYOUT,
    GST_LATENT_PROP_FRAMERATE,
    GST_LATENT_PROP_LATENT_SPACE,
    GST_LATENT_PROP_NORMALIZATION,
    GST_LATENT_PROP_BATCH_INDEX,
    GST_LATENT_PROP_LAST
};

void gst_latent_settings_install(GObjectClass *klass);
void gst_latent_settings_init(GstLatentSettings *settings);
/* Copies the settings and their strings. */
void gst_latent_settings_copy(GstLatentSettings *dst,
                              const GstLatentSettings *src);
void gst_latent_settings_clear(GstLatentSettings *settings);

G_END_DECLS
#endif
