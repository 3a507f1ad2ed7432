/*
 * params.h: the settings of a stream (vae-private/settings.h) as properties. An
 * element keeps their values in a VaeStreamParams.
 */
#ifndef GST_VAE_PARAMS_H
#define GST_VAE_PARAMS_H

#include <gst/gst.h>

#include "vae-private/settings.h"

G_BEGIN_DECLS

#define GST_VAE_MAX_SLICE 64 /* latents of a slice in an element */

/* The property id of a setting is this number plus its row. */
#define GST_VAE_PARAMS_ID 1000u

/* Installs the properties of the settings that only a decoder reads, that only
 * an encoder reads, or, with neither, that both read. memory-limit is not among
 * them: its text may be wrong until a stream starts. */
void gst_vae_params_install(GObjectClass *klass, gboolean only_decode,
                            gboolean only_encode);
/* Set and get the property of a setting, under the owner's lock. */
void gst_vae_params_set(VaeStreamParams *params, guint id, const GValue *value);
void gst_vae_params_get(const VaeStreamParams *params, guint id, GValue *value);

/* Registers an enumeration once. Its values are those of the words.
 * automatic: NULL, or the sentence of a further word `auto` with the value 0;
 * the values of the words are then one higher. */
GType gst_vae_words_type(gsize *once, const gchar *name, const VaeWord *words,
                         const gchar *automatic);

G_END_DECLS
#endif
