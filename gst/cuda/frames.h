/*
 * frames.h: buffers in the memory of a CUDA device.
 */
#ifndef GST_VAE_CUDA_FRAMES_H
#define GST_VAE_CUDA_FRAMES_H

#include <gst/video/video.h>

#include "vae-private/stream.h"

#include "context.h"

G_BEGIN_DECLS

/* A pool of CUDAMemory, not active; NULL: it cannot be had. (transfer full) */
GstBufferPool *gst_vae_cuda_pool(GstVaeCuda *cuda, GstCaps *caps, guint size);
gboolean gst_vae_cuda_is_pool(GstBufferPool *pool);

/* The context of the engine's stream, which was opened for device; NULL: it
 * computes elsewhere. The worker's. */
gpointer gst_vae_cuda_engine(GstVaeCuda *cuda, const VaeStream *stream,
                             gint device);
/* Maps a frame: on the device where it is of the context engine (may be NULL),
 * else in the memory of the host. */
gboolean gst_vae_cuda_map(GstVideoFrame *frame, const GstVideoInfo *info,
                          GstBuffer *buffer, GstMapFlags flags, gpointer engine,
                          gboolean *on_device);

G_END_DECLS
#endif
