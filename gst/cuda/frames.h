/*
 * frames.h: buffers in the memory of a CUDA device.
 */
#ifndef GST_VAE_CUDA_FRAMES_H
#define GST_VAE_CUDA_FRAMES_H

#include <gst/video/video.h>

#include "vae-private/stream.h"

#include "context.h"

G_BEGIN_DECLS

/* Returns an inactive pool of CUDAMemory, or NULL if there can be none.
 * (transfer full) */
GstBufferPool *gst_vae_cuda_pool(GstVaeCuda *cuda, GstCaps *caps, guint size);
gboolean gst_vae_cuda_is_pool(GstBufferPool *pool);

/* Returns the context of an engine's stream that was opened for device, or NULL
 * if it computes elsewhere. For the worker. */
gpointer gst_vae_cuda_engine(GstVaeCuda *cuda, const VaeStream *stream,
                             gint device);
/* Maps a frame like gst_vae_frame_map(): on the device if it belongs to the
 * context `engine`, which may be NULL, else in host memory. */
VaeStatus gst_vae_cuda_map(GstVideoFrame *frame, const GstVideoInfo *info,
                           GstBuffer *buffer, GstMapFlags flags,
                           gpointer engine, gboolean *on_device,
                           VaeError *error);

G_END_DECLS
#endif
