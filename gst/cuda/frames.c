/*
 * frames.c: creates pools of frames in the memory of a CUDA device, and maps
 * these frames.
 */
#include "frames.h"

#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

#include "frame.h"

/* Copies to and from the memory of a pool run in a stream of their own. Only a
 * user of the memory waits for it. */
static void
use_own_stream(GstStructure *config, GstCudaContext *context)
{
#if GST_CHECK_VERSION(1, 24, 0)
    GstCudaStream *stream = gst_cuda_stream_new(context);

    if (stream)
        gst_buffer_pool_config_set_cuda_stream(config, stream);
    gst_clear_cuda_stream(&stream);
#endif
}

GstBufferPool *
gst_vae_cuda_pool(GstVaeCuda *cuda, GstCaps *caps, guint size)
{
    GstCudaContext *context = (GstCudaContext *) gst_vae_cuda_current(cuda);
    GstBufferPool *pool = NULL;
    GstStructure *config;

    if (!context)
        return NULL;
    pool = gst_cuda_buffer_pool_new(context);
    config = gst_buffer_pool_get_config(pool);
    use_own_stream(config, context);
    gst_object_unref(context);
    gst_buffer_pool_config_set_params(config, caps, size, 0, 0);
    gst_buffer_pool_config_add_option(config,
                                      GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(pool, config))
        gst_clear_object(&pool);
    return pool;
}

gboolean
gst_vae_cuda_is_pool(GstBufferPool *pool)
{
    return GST_IS_CUDA_BUFFER_POOL(pool);
}

gpointer
gst_vae_cuda_engine(GstVaeCuda *cuda, const VaeStream *stream, gint device)
{
    gpointer primary = NULL;

    if (vae_stream_get_plan(stream)->backend != VAE_BACKEND_CUDA)
        return NULL;
    GST_OBJECT_LOCK(cuda->element);
    /* The property may name another device than it did for the stream. */
    if (cuda->primary_device == MAX(device, 0))
        primary = cuda->primary;
    GST_OBJECT_UNLOCK(cuda->element);
    return primary;
}

static gboolean
is_of(GstBuffer *buffer, gpointer engine)
{
    GstMemory *memory;

    if (!engine || gst_buffer_n_memory(buffer) != 1)
        return FALSE;
    memory = gst_buffer_peek_memory(buffer, 0);
    return gst_is_cuda_memory(memory) &&
           gst_cuda_context_get_handle(GST_CUDA_MEMORY_CAST(memory)->context) ==
               engine;
}

VaeStatus
gst_vae_cuda_map(GstVideoFrame *frame, const GstVideoInfo *info,
                 GstBuffer *buffer, GstMapFlags flags, gpointer engine,
                 gboolean *on_device, VaeError *error)
{
    *on_device = is_of(buffer, engine);
    if (*on_device)
        flags |= (GstMapFlags) GST_MAP_CUDA;
    return gst_vae_frame_map(frame, info, buffer, flags, error);
}
