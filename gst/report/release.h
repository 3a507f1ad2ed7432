/*
 * release.h: device memory freed while there is nothing to compute. For the
 * thread that calls the engine, without a lock.
 */
#ifndef GST_VAE_RELEASE_H
#define GST_VAE_RELEASE_H

#include <gst/gst.h>

#include "vae-private/stream.h"

G_BEGIN_DECLS

/* Frees the device memory of stream, which may be NULL, and posts `vae-release`
 * about it. idle: nobody asked. TRUE: some was freed. */
gboolean gst_vae_release(GstElement *element, VaeStream *stream, gboolean idle);

G_END_DECLS
#endif
