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

#include "share.h"

typedef struct Calls {
    CUresult (*create)(CUevent *out, unsigned int flags);
    CUresult (*record)(CUevent event, CUstream stream);
    CUresult (*destroy)(CUevent event);
} Calls;

/* gstcuda has wrappers for these only since 1.24. */
static const Calls *
calls(void)
{
    static Calls found;
    static gsize done;

    if (g_once_init_enter(&done)) {
        gpointer create = gst_vae_cuda_driver_call("cuEventCreate");
        gpointer record = gst_vae_cuda_driver_call("cuEventRecord");
        gpointer destroy = gst_vae_cuda_driver_call("cuEventDestroy_v2");

        memcpy(&found.create, &create, sizeof create);
        memcpy(&found.record, &record, sizeof record);
        memcpy(&found.destroy, &destroy, sizeof destroy);
        g_once_init_leave(&done, 1);
    }
    return found.create && found.record && found.destroy ? &found : NULL;
}

/* The stream of the work on a memory. Before 1.24 that is the default stream:
 * an event there comes after the work of all streams that wait for it. */
static CUstream
stream_of(GstCudaMemory *memory)
{
#if GST_CHECK_VERSION(1, 24, 0)
    return gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(memory));
#else
    return NULL;
#endif
}

/* Returns TRUE if a producer may have left work on the memory. Before 1.24
 * producers waited. */
static gboolean
is_pending(GstCudaMemory *memory)
{
#if GST_CHECK_VERSION(1, 24, 0)
    return GST_MEMORY_FLAG_IS_SET(GST_MEMORY_CAST(memory),
                                  GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
#else
    return FALSE;
#endif
}

/* Returns an event after all work that the stream has so far, or NULL. */
static CUevent
mark(CUstream stream)
{
    const Calls *driver = calls();
    CUevent event;

    if (!driver ||
        driver->create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    if (driver->record(event, stream) == CUDA_SUCCESS)
        return event;
    driver->destroy(event);
    return NULL;
}

gpointer
gst_vae_cuda_ready(GstBuffer *buffer, GstMapFlags flags)
{
    GstCudaMemory *memory =
        GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(buffer, 0));
    CUevent event;

    if ((!(flags & GST_MAP_WRITE) && !is_pending(memory)) ||
        !gst_cuda_context_push(memory->context))
        return NULL;
    event = mark(stream_of(memory));
    if (!event)
        CuStreamSynchronize(stream_of(memory));
    gst_cuda_context_pop(NULL);
    return event;
}

void
gst_vae_cuda_ready_free(GstBuffer *buffer, gpointer event)
{
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    const Calls *driver = calls();

    if (event && driver &&
        gst_cuda_context_push(GST_CUDA_MEMORY_CAST(memory)->context)) {
        driver->destroy(event);
        gst_cuda_context_pop(NULL);
    }
}
