/*
 * release.h: frees the device memory while there is nothing to compute. Only
 * the thread that calls the engine uses it, and holds no lock.
 */
#ifndef GST_VAE_RELEASE_H
#define GST_VAE_RELEASE_H

#include <gst/gst.h>

#include "vae-private/stream.h"

G_BEGIN_DECLS

/* Frees the device memory of stream, which may be NULL, and posts the message
 * `vae-release`. idle: the property idle-release caused it. Returns TRUE if
 * memory was freed. */
gboolean gst_vae_release(GstElement *element, VaeStream *stream, gboolean idle);

G_END_DECLS
#endif
