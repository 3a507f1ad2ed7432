/*
 * offer.h: decides if the pads offer memory:CUDAMemory.
 */
#ifndef GST_VAE_CUDA_OFFER_H
#define GST_VAE_CUDA_OFFER_H

#include "context.h"

G_BEGIN_DECLS

/* Returns the template of a pad for raw video. It has system memory, and also
 * CUDAMemory if plugin and library are of the same minor release. Uses no
 * device. (transfer floating) */
GstPadTemplate *gst_vae_cuda_template(const gchar *name,
                                      GstPadDirection direction);

/* For NULL to READY: if the peer of the raw video pad prefers CUDAMemory, finds
 * or creates a context before other elements create one. */
void gst_vae_cuda_open(GstVaeCuda *cuda, GstPad *pad);

/* Orders the caps of the source pad's template: with CUDAMemory first if the
 * peer prefers it and it is usable, else without it. (takes caps, transfer
 * full) */
GstCaps *gst_vae_cuda_offer(GstVaeCuda *cuda, GstCaps *caps);
/* Returns the reason why the peer of the source pad gets no CUDAMemory although
 * it prefers it, or NULL. (transfer full) */
gchar *gst_vae_cuda_why_not(GstVaeCuda *cuda);
/* Removes the CUDAMemory structures from caps. (takes caps, transfer full) */
GstCaps *gst_vae_cuda_remove(GstCaps *caps);

G_END_DECLS
#endif
