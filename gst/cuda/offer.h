/*
 * offer.h: when the pads offer memory:CUDAMemory.
 */
#ifndef GST_VAE_CUDA_OFFER_H
#define GST_VAE_CUDA_OFFER_H

#include "context.h"

G_BEGIN_DECLS

/* The template of a pad for raw video: system memory and, where build and
 * library are of one minor release, CUDAMemory. Touches no device.
 * (transfer floating) */
GstPadTemplate *gst_vae_cuda_template(const gchar *name,
                                      GstPadDirection direction);

/* NULL to READY: where the peer of pad, the one for raw video, prefers
 * CUDAMemory, finds or makes a context before others make one. */
void gst_vae_cuda_open(GstVaeCuda *cuda, GstPad *pad);

/* caps, of the source pad's template: CUDAMemory first where the peer prefers
 * it and it is usable, else none. (takes caps, transfer full) */
GstCaps *gst_vae_cuda_offer(GstVaeCuda *cuda, GstCaps *caps);
/* Why the peer of the source pad, which prefers CUDAMemory, gets none; NULL: it
 * does not prefer it, or can have it. (transfer full) */
gchar *gst_vae_cuda_why_not(GstVaeCuda *cuda);
/* caps without those of CUDAMemory. (takes caps, transfer full) */
GstCaps *gst_vae_cuda_remove(GstCaps *caps);

G_END_DECLS
#endif
