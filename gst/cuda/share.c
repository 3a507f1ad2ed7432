/*
 * share.c: finds, makes and shares the context of a CUDA device.
 */
#include "share.h"

#include <gmodule.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>
#include "vae-private/stream.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_engine_debug);
#define GST_CAT_DEFAULT gst_vae_engine_debug

/* ------------------------------------------------------------------ */
/* The primary context of a device.                                    */

typedef CUresult (*Retain)(CUcontext *out, CUdevice device);
typedef CUresult (*Release)(CUdevice device);

gpointer
gst_vae_cuda_driver_call(const gchar *name)
{
    static gsize driver;
    gpointer symbol = NULL;

    if (g_once_init_enter(&driver)) {
        GModule *module = g_module_open("libcuda.so.1", G_MODULE_BIND_LAZY);

        if (module)
            g_module_make_resident(module);
        g_once_init_leave(&driver, module ? (gsize) module : 1);
    }
    if (driver == 1 || !g_module_symbol((GModule *) driver, name, &symbol))
        return NULL;
    return symbol;
}

static gpointer
retain_primary(gint device)
{
    gpointer symbol = gst_vae_cuda_driver_call("cuDevicePrimaryCtxRetain");
    CUcontext handle = NULL;
    CUdevice number;
    Retain retain;

    if (!symbol || CuInit(0) != CUDA_SUCCESS ||
        CuDeviceGet(&number, device) != CUDA_SUCCESS)
        return NULL;
    retain = (Retain) symbol;
    return retain(&handle, number) == CUDA_SUCCESS ? handle : NULL;
}

static void
release_primary(gint device)
{
    gpointer symbol = gst_vae_cuda_driver_call("cuDevicePrimaryCtxRelease_v2");
    CUdevice number;
    Release release;

    if (!symbol || CuDeviceGet(&number, device) != CUDA_SUCCESS)
        return;
    release = (Release) symbol;
    release(number);
}

static void
wrapped_gone(gpointer device)
{
    release_primary(GPOINTER_TO_INT(device));
}

/* Returns a wrapper of the device's primary context, which it keeps until the
 * last reference to the wrapper is gone. */
static GstCudaContext *
wrap_primary(gint device)
{
    gpointer handle = retain_primary(device);
    GstCudaContext *context = NULL;
    CUdevice number;

    if (!handle)
        return NULL;
    if (CuDeviceGet(&number, device) == CUDA_SUCCESS)
        context = gst_cuda_context_new_wrapped(handle, number);
    if (context)
        g_object_set_data_full(G_OBJECT(context), "vae-primary",
                               GINT_TO_POINTER(device), wrapped_gone);
    else
        release_primary(device);
    return context;
}

/* ------------------------------------------------------------------ */
/* The context of the pipeline.                                        */

/* (transfer full) */
static GstCudaContext *
current(GstVaeCuda *cuda)
{
    return (GstCudaContext *) gst_vae_cuda_current(cuda);
}

void
gst_vae_cuda_set_context(GstVaeCuda *cuda, GstContext *context)
{
    GstCudaContext *found = NULL;

    if (!gst_vae_cuda_library_fits() || !context ||
        !gst_context_has_context_type(context, GST_CUDA_CONTEXT_TYPE))
        return;
    gst_cuda_handle_set_context(cuda->element, context,
                                gst_vae_cuda_device(cuda), &found);
    GST_OBJECT_LOCK(cuda->element);
    if (found && !cuda->context)
        cuda->context = (GstObject *) g_steal_pointer(&found);
    GST_OBJECT_UNLOCK(cuda->element);
    gst_clear_object(&found);
}

static void
ask_neighbour(GstVaeCuda *cuda, GstPad *pad)
{
    GstQuery *query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
    GstContext *context = NULL;

    if (gst_pad_peer_query(pad, query)) {
        gst_query_parse_context(query, &context);
        if (context)
            gst_element_set_context(cuda->element, context);
    }
    gst_query_unref(query);
}

/* Asks the neighbours first, then the pipeline and the application. */
static void
find_context(GstVaeCuda *cuda)
{
    GstCudaContext *found = current(cuda);

    for (guint i = 0; !found && i < 3; i++) {
        if (i < 2)
            ask_neighbour(cuda, i == 0 ? cuda->srcpad : cuda->sinkpad);
        else
            gst_element_post_message(
                cuda->element,
                gst_message_new_need_context(GST_OBJECT(cuda->element),
                                             GST_CUDA_CONTEXT_TYPE));
        found = current(cuda);
    }
    gst_clear_object(&found);
}

static void
make_context(GstVaeCuda *cuda, gint device)
{
    GstCudaContext *own = wrap_primary(device);
    GstContext *context;

    if (!own)
        return;
    context = gst_context_new_cuda_context(own);
    gst_element_set_context(cuda->element, context);
    gst_element_post_message(
        cuda->element,
        gst_message_new_have_context(GST_OBJECT(cuda->element), context));
    gst_object_unref(own);
}

static void
forget(GstVaeCuda *cuda)
{
    GstObject *context;
    gboolean held;
    gint device;

    GST_OBJECT_LOCK(cuda->element);
    context = g_steal_pointer(&cuda->context);
    held = cuda->primary != NULL;
    device = cuda->primary_device;
    cuda->primary = NULL;
    GST_OBJECT_UNLOCK(cuda->element);
    if (held)
        release_primary(device);
    gst_clear_object(&context);
}

/* The primary context, held until forget(). The lock cuda_lock is held. */
static gboolean
hold_primary(GstVaeCuda *cuda, gint device)
{
    gpointer handle;

    if (cuda->primary && cuda->primary_device != device)
        forget(cuda);
    if (cuda->primary)
        return TRUE;
    handle = gst_cuda_load_library() ? retain_primary(device) : NULL;
    if (handle)
        gst_cuda_memory_init_once();
    GST_OBJECT_LOCK(cuda->element);
    cuda->primary = handle;
    cuda->primary_device = device;
    GST_OBJECT_UNLOCK(cuda->element);
    return handle != NULL;
}

/* Makes the context before a neighbour makes one in which the engine cannot
 * write. If the lock is taken, another thread, or a caller of this function, is
 * doing so already. */
static void
make_early(GstVaeCuda *cuda)
{
    const gint device = gst_vae_cuda_device(cuda);
    GstCudaContext *context;

    if (!gst_vae_cuda_possible(cuda) ||
        !vae_backend_available(VAE_BACKEND_CUDA, NULL, 0) ||
        !g_mutex_trylock(&cuda->lock))
        return;
    context = current(cuda);
    if (!context && hold_primary(cuda, device))
        make_context(cuda, device);
    g_mutex_unlock(&cuda->lock);
    gst_clear_object(&context);
}

gboolean
gst_vae_cuda_answer(GstVaeCuda *cuda, GstQuery *query)
{
    GstCudaContext *context;
    const gchar *type;
    gboolean answered;

    if (!gst_vae_cuda_library_fits() ||
        !gst_query_parse_context_type(query, &type) ||
        g_strcmp0(type, GST_CUDA_CONTEXT_TYPE) != 0)
        return FALSE;
    context = current(cuda);
    if (!context)
        make_early(cuda);
    else
        gst_object_unref(context);
    context = current(cuda);
    answered =
        context && gst_cuda_handle_context_query(cuda->element, query, context);
    gst_clear_object(&context);
    return answered;
}

gboolean
gst_vae_cuda_usable(GstVaeCuda *cuda)
{
    const gint device = gst_vae_cuda_device(cuda);
    GstCudaContext *context = NULL;

    if (!gst_vae_cuda_possible(cuda))
        return FALSE;
    g_mutex_lock(&cuda->lock);
    if (hold_primary(cuda, device)) {
        find_context(cuda);
        context = current(cuda);
        if (!context)
            make_context(cuda, device);
        gst_clear_object(&context);
        context = current(cuda);
    }
    if (context)
        GST_DEBUG_OBJECT(
            cuda->element, "%" GST_PTR_FORMAT ", %s", context,
            gst_cuda_context_get_handle(context) == cuda->primary
                ? "the engine's"
                : "another than the engine's: frames go through the host");
    g_mutex_unlock(&cuda->lock);
    if (!context)
        return FALSE;
    gst_object_unref(context);
    return TRUE;
}

void
gst_vae_cuda_close(GstVaeCuda *cuda)
{
    g_mutex_lock(&cuda->lock);
    forget(cuda);
    g_mutex_unlock(&cuda->lock);
}
