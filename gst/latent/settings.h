/*
 * settings.h: what a user says about a latent file, as properties.
 */
#ifndef GST_LATENT_SETTINGS_H
#define GST_LATENT_SETTINGS_H

#include <gst/gst.h>

#include "vae-private/tensors.h"

G_BEGIN_DECLS

typedef enum {
    GST_LATENT_NORMALIZATION_AUTO,
    GST_LATENT_NORMALIZATION_NORMALIZED,
    GST_LATENT_NORMALIZATION_RAW
} GstLatentNormalization;

/* Which clip of the file is the user's choice, and its framerate; space and
 * normalization are for files that do not state them. */
typedef struct GstLatentSettings {
    gchar *tensor, *space; /* NULL: not said */
    VaeLatentLayout layout;
    GstLatentNormalization normalization;
    gint fps_n, fps_d; /* fps_n 0: not said */
    gint batch_index;  /* -1: not said */
} GstLatentSettings;

/* Property ids of the settings; an element's own begin at the last. */
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
/* dst gets its own strings. */
void gst_latent_settings_copy(GstLatentSettings *dst,
                              const GstLatentSettings *src);
void gst_latent_settings_clear(GstLatentSettings *settings);

G_END_DECLS
#endif
