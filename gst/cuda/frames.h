/*
 * frames.h: video in the memory of a CUDA device (memory:CUDAMemory), and
 * the GstCudaContext that elements share for it. Where the build has no
 * gstreamer-cuda there is only system memory and all of this does nothing.
 *
 * The engine computes in the primary context of the device. Buffers of that
 * context it reads and writes itself; those of another context are mapped into
 * the memory of the host, as any others are. The bytes are the same.
 */
#ifndef GST_VAE_CUDA_H
#define GST_VAE_CUDA_H

#include "base.h"

G_BEGIN_DECLS

/* The template of a pad for raw video: system memory and, where build and
 * library are of one minor release, CUDAMemory. Touches no device.
 * (transfer floating) */
GstPadTemplate *gst_vae_cuda_template(const gchar *name,
                                      GstPadDirection direction);

gboolean gst_vae_cuda_is_caps(const GstCaps *caps);

/* NULL to READY: where the neighbour on the raw side prefers CUDAMemory, a
 * context is had before others make one. READY to NULL: it is let go. */
void gst_vae_cuda_open(GstVaeBase *base);
void gst_vae_cuda_close(GstVaeBase *base);

/* GstElement.set_context, and CONTEXT queries: TRUE where answered. */
void gst_vae_cuda_set_context(GstVaeBase *base, GstContext *context);
gboolean gst_vae_cuda_answer(GstVaeBase *base, GstQuery *query);

/* Whether CUDAMemory can be used: the backend may be cuda, there is such a
 * device, and a context, which is made where nobody has one. Any thread. */
gboolean gst_vae_cuda_usable(GstVaeBase *base);
/* The same, but no context is asked for, and TRUE before READY. */
gboolean gst_vae_cuda_possible(GstVaeBase *base);

/* caps, of the source pad's template: CUDAMemory first where the peer prefers
 * it and it is usable, else none. (takes caps, transfer full) */
GstCaps *gst_vae_cuda_offer(GstVaeBase *base, GstCaps *caps);
/* Why the peer of the source pad, which prefers CUDAMemory, gets none; NULL: it
 * does not prefer it, or can have it. (transfer full) */
gchar *gst_vae_cuda_why_not(GstVaeBase *base);
/* caps without those of CUDAMemory. (takes caps, transfer full) */
GstCaps *gst_vae_cuda_remove(GstCaps *caps);

/* A pool of CUDAMemory, not active; NULL: it cannot be had. (transfer full) */
GstBufferPool *gst_vae_cuda_pool(GstVaeBase *base, GstCaps *caps, guint size);
gboolean gst_vae_cuda_is_pool(GstBufferPool *pool);

/* The context of the engine's stream, or NULL: it computes elsewhere. The
 * worker's. */
gpointer gst_vae_cuda_engine(GstVaeBase *base, VaeStream *stream);
/* Maps a frame: on the device where it is of the context engine (may be NULL),
 * else in the memory of the host. */
gboolean gst_vae_cuda_map(GstVideoFrame *frame, const GstVideoInfo *info,
                          GstBuffer *buffer, GstMapFlags flags, gpointer engine,
                          gboolean *on_device);
/* The engine's streams wait for no other, not even for the default one. So this
 * is for VaePicture.ready of a buffer that is mapped on the device: an event
 * behind all that its producer, the mapping, or who had the memory before and
 * still reads it, have begun. Before GStreamer 1.24 it is waited for here, and
 * NULL. Free it, which NULL allows, before the buffer is unmapped. */
gpointer gst_vae_cuda_ready(GstBuffer *buffer, GstMapFlags flags);
void gst_vae_cuda_ready_free(GstBuffer *buffer, gpointer event);

G_END_DECLS
#endif
