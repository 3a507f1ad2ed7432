/*
 * context.c: chooses the CUDA device of an element.
 */
#include "context.h"

#include "vae-private/stream.h"

/* The category of the engine's messages. gst/vae/element.c registers it. */
GST_DEBUG_CATEGORY(gst_vae_engine_debug);
#define GST_CAT_DEFAULT gst_vae_engine_debug

void
gst_vae_cuda_init(GstVaeCuda *cuda)
{
    g_mutex_init(&cuda->lock);
}

void
gst_vae_cuda_clear(GstVaeCuda *cuda)
{
    g_mutex_clear(&cuda->lock);
}

gint
gst_vae_cuda_device(GstVaeCuda *cuda)
{
    gint device;

    GST_OBJECT_LOCK(cuda->element);
    device = MAX(cuda->settings->device, 0);
    GST_OBJECT_UNLOCK(cuda->element);
    return device;
}

#ifdef GST_VAE_HAVE_CUDA
/* libgstcuda has one soname for several interfaces. */
gboolean
gst_vae_cuda_library_fits(void)
{
    static gsize answer;
    guint major, minor, micro, nano;

    if (g_once_init_enter(&answer)) {
        gst_version(&major, &minor, &micro, &nano);
        if (minor != GST_VERSION_MINOR)
            GST_WARNING("made for GStreamer 1.%d, this is 1.%u: no CUDAMemory",
                        GST_VERSION_MINOR, minor);
        g_once_init_leave(&answer, minor == GST_VERSION_MINOR ? 1 : 2);
    }
    return answer == 1;
}
#else
gboolean
gst_vae_cuda_library_fits(void)
{
    return FALSE;
}
#endif

GstObject *
gst_vae_cuda_current(GstVaeCuda *cuda)
{
    GstObject *context;

    GST_OBJECT_LOCK(cuda->element);
    context = cuda->context ? gst_object_ref(cuda->context) : NULL;
    GST_OBJECT_UNLOCK(cuda->element);
    return context;
}

gboolean
gst_vae_cuda_possible(GstVaeCuda *cuda)
{
    GstState state;
    gint backend;

    if (!gst_vae_cuda_library_fits())
        return FALSE;
    GST_OBJECT_LOCK(cuda->element);
    backend = (gint) cuda->settings->backend;
    state = MAX(GST_STATE(cuda->element), GST_STATE_NEXT(cuda->element));
    GST_OBJECT_UNLOCK(cuda->element);
    return (backend == VAE_BACKEND_AUTO || backend == VAE_BACKEND_CUDA) &&
           (state < GST_STATE_READY ||
            vae_backend_available(VAE_BACKEND_CUDA, NULL, 0));
}
