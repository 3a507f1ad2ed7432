/*
 * share.h: the GstCudaContext that an element shares with its pipeline.
 */
#ifndef GST_VAE_CUDA_SHARE_H
#define GST_VAE_CUDA_SHARE_H

#include "context.h"

G_BEGIN_DECLS

/* For GstElement.set_context. */
void gst_vae_cuda_set_context(GstVaeCuda *cuda, GstContext *context);
/* Returns TRUE if it has answered a CONTEXT query. */
gboolean gst_vae_cuda_answer(GstVaeCuda *cuda, GstQuery *query);

/* Returns TRUE if CUDAMemory can be used: the backend may be cuda, the device
 * exists, and there is a context. Creates a context if no element has one. For
 * any thread. */
gboolean gst_vae_cuda_usable(GstVaeCuda *cuda);
/* Forgets the context and releases the primary one. */
void gst_vae_cuda_close(GstVaeCuda *cuda);
/* Returns a function of the driver that gstcuda has no wrapper for, or NULL. */
gpointer gst_vae_cuda_driver_call(const gchar *name);

G_END_DECLS
#endif
