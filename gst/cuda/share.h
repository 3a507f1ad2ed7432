/*
 * share.h: the GstCudaContext that an element shares with its pipeline.
 */
#ifndef GST_VAE_CUDA_SHARE_H
#define GST_VAE_CUDA_SHARE_H

#include "context.h"

G_BEGIN_DECLS

/* GstElement.set_context, and CONTEXT queries: TRUE where answered. */
void gst_vae_cuda_set_context(GstVaeCuda *cuda, GstContext *context);
gboolean gst_vae_cuda_answer(GstVaeCuda *cuda, GstQuery *query);

/* TRUE: CUDAMemory can be used: the backend may be cuda, there is such a
 * device, and a context, which is made where nobody has one. Any thread. */
gboolean gst_vae_cuda_usable(GstVaeCuda *cuda);
/* Forgets the context and releases the primary one. */
void gst_vae_cuda_close(GstVaeCuda *cuda);

G_END_DECLS
#endif
