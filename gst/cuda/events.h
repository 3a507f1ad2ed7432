/*
 * events.h: when the memory of a buffer on a CUDA device may be used.
 */
#ifndef GST_VAE_CUDA_EVENTS_H
#define GST_VAE_CUDA_EVENTS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/*
 * The engine's streams wait for no other, not even for the default one. So this
 * is for VaePicture.ready of a buffer that is mapped on the device: an event
 * behind all that its producer, the mapping, or the previous user of the memory
 * has begun. Before GStreamer 1.24 this function waits and returns NULL. Free
 * the event, which may be NULL, before the buffer is unmapped.
 */
gpointer gst_vae_cuda_ready(GstBuffer *buffer, GstMapFlags flags);
void gst_vae_cuda_ready_free(GstBuffer *buffer, gpointer event);

G_END_DECLS
#endif
