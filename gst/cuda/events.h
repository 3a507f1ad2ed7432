/*
 * events.h: an event after which the memory of a CUDA buffer may be used.
 */
#ifndef GST_VAE_CUDA_EVENTS_H
#define GST_VAE_CUDA_EVENTS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/*
 * Returns an event for VaePicture.ready of a buffer that is mapped on the
 * device. The engine needs it because its streams wait for no other stream, not
 * even for the default one. The event comes after all work of the buffer's
 * producer, of the mapping and of the memory's previous user. If there can be
 * no event, this function waits for that work and returns NULL. Free the event,
 * which may be NULL, before the buffer is unmapped.
 */
gpointer gst_vae_cuda_ready(GstBuffer *buffer, GstMapFlags flags);
void gst_vae_cuda_ready_free(GstBuffer *buffer, gpointer event);

G_END_DECLS
#endif
