/*
 * events.c: makes the accesses to a buffer on a CUDA device wait for each
 * other.
 */
#include "events.h"

#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

#if GST_CHECK_VERSION(1, 24, 0)

/* Returns an event after all work that the stream has so far, or NULL. */
static CUevent
mark(CUstream stream)
{
    CUevent event;

    if (CuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    if (CuEventRecord(event, stream) == CUDA_SUCCESS)
        return event;
    CuEventDestroy(event);
    return NULL;
}

#endif

gpointer
gst_vae_cuda_ready(GstBuffer *buffer, GstMapFlags flags)
{
    GstCudaMemory *memory =
        GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(buffer, 0));
    gboolean pending = (flags & GST_MAP_WRITE) != 0;
    CUstream stream = NULL;
    CUevent event = NULL;

#if GST_CHECK_VERSION(1, 24, 0)
    /* Before, producers waited. */
    pending |= GST_MEMORY_FLAG_IS_SET(GST_MEMORY_CAST(memory),
                                      GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    stream = gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(memory));
#endif
    if (!pending || !gst_cuda_context_push(memory->context))
        return NULL;
#if GST_CHECK_VERSION(1, 24, 0)
    event = mark(stream);
#endif
    if (!event)
        CuStreamSynchronize(stream);
    gst_cuda_context_pop(NULL);
    return event;
}

void
gst_vae_cuda_ready_free(GstBuffer *buffer, gpointer event)
{
#if GST_CHECK_VERSION(1, 24, 0)
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);

    if (event && gst_cuda_context_push(GST_CUDA_MEMORY_CAST(memory)->context)) {
        CuEventDestroy(event);
        gst_cuda_context_pop(NULL);
    }
#endif
}
