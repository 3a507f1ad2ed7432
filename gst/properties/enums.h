/*
 * enums.h: enumerations of the properties, with the engine's values.
 */
#ifndef GST_VAE_ENUMS_H
#define GST_VAE_ENUMS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* The property `normalization`: auto, or a VaeNormalization plus 1. */
#define GST_VAE_NORMALIZATION_AUTO 0

typedef enum {
    GST_VAE_SEQUENCE_FLAGS,
    GST_VAE_SEQUENCE_CONTINUOUS
} GstVaeSequence;

typedef enum { GST_VAE_TAIL_REPEAT, GST_VAE_TAIL_DROP } GstVaeTail;

#define GST_TYPE_VAE_NORMALIZATION (gst_vae_normalization_get_type())
#define GST_TYPE_VAE_SEQUENCE (gst_vae_sequence_get_type())
#define GST_TYPE_VAE_TAIL (gst_vae_tail_get_type())

GType gst_vae_normalization_get_type(void);
GType gst_vae_sequence_get_type(void);
GType gst_vae_tail_get_type(void);

G_END_DECLS
#endif
