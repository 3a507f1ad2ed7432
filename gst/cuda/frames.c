/*
 * frames.c: the only file here that includes gst/cuda.
 */
#include "frames.h"

#include "video.h"

#include <string.h>

GST_DEBUG_CATEGORY_EXTERN(gst_vae_engine_debug);
#define GST_CAT_DEFAULT gst_vae_engine_debug

#ifdef GST_VAE_HAVE_CUDA

#include <gmodule.h>
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

/* What both the engine and all releases of gst_cuda_buffer_pool have. */
#define CUDA_FORMATS                                                           \
    "NV12, I420, RGBA, BGRx, YV12, Y444, RGBx, BGRA, RGB, BGR, I420_10LE, "    \
    "P010_10LE"
#define CUDA_CAPS                                                              \
    "video/x-raw(memory:CUDAMemory), format = (string) { " CUDA_FORMATS " }, " \
    "width = (int) [ 1, 65535 ], height = (int) [ 1, 65535 ], "                \
    "framerate = (fraction) [ 0/1, MAX ], interlace-mode = progressive"

/* libgstcuda has one soname for several interfaces. */
static gboolean
library_fits(void)
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

static gboolean
is_cuda_feature(const GstCapsFeatures *features)
{
    return features && !gst_caps_features_is_any(features) &&
           gst_caps_features_contains(features,
                                      GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY);
}

gboolean
gst_vae_cuda_is_caps(const GstCaps *caps)
{
    return caps && !gst_caps_is_any(caps) && !gst_caps_is_empty(caps) &&
           is_cuda_feature(gst_caps_get_features(caps, 0));
}

GstPadTemplate *
gst_vae_cuda_template(const gchar *name, GstPadDirection direction)
{
    GstCaps *caps = gst_caps_from_string(GST_VAE_RAW_CAPS);
    GstPadTemplate *template;

    if (library_fits())
        gst_caps_append(caps, gst_caps_from_string(CUDA_CAPS));
    template = gst_pad_template_new(name, direction, GST_PAD_ALWAYS, caps);
    gst_caps_unref(caps);
    return template;
}

/* ------------------------------------------------------------------ */
/* The primary context of a device.                                    */

typedef CUresult (*Retain)(CUcontext *out, CUdevice device);
typedef CUresult (*Release)(CUdevice device);

/* gstcuda has no wrapper for these. */
static gpointer
driver_call(const gchar *name)
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
    gpointer symbol = driver_call("cuDevicePrimaryCtxRetain");
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
    gpointer symbol = driver_call("cuDevicePrimaryCtxRelease_v2");
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

/* It holds the primary context for as long as anybody has it. */
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

static gint
device_of(GstVaeBase *base)
{
    gint device;

    GST_OBJECT_LOCK(base);
    device = MAX(base->settings.cuda_device_id, 0);
    GST_OBJECT_UNLOCK(base);
    return device;
}

/* (transfer full) */
static GstCudaContext *
current(GstVaeBase *base)
{
    GstObject *context;

    GST_OBJECT_LOCK(base);
    context = base->cuda_context ? gst_object_ref(base->cuda_context) : NULL;
    GST_OBJECT_UNLOCK(base);
    return (GstCudaContext *) context;
}

void
gst_vae_cuda_set_context(GstVaeBase *base, GstContext *context)
{
    GstCudaContext *found = NULL;

    if (!library_fits() || !context ||
        !gst_context_has_context_type(context, GST_CUDA_CONTEXT_TYPE))
        return;
    gst_cuda_handle_set_context(GST_ELEMENT(base), context, device_of(base),
                                &found);
    GST_OBJECT_LOCK(base);
    if (found && !base->cuda_context)
        base->cuda_context = (GstObject *) g_steal_pointer(&found);
    GST_OBJECT_UNLOCK(base);
    gst_clear_object(&found);
}

static void
ask_neighbour(GstVaeBase *base, GstPad *pad)
{
    GstQuery *query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
    GstContext *context = NULL;

    if (gst_pad_peer_query(pad, query)) {
        gst_query_parse_context(query, &context);
        if (context)
            gst_element_set_context(GST_ELEMENT(base), context);
    }
    gst_query_unref(query);
}

/* Those of others first: neighbours, then the pipeline and the application. */
static void
find_context(GstVaeBase *base)
{
    GstCudaContext *found = current(base);

    for (guint i = 0; !found && i < 3; i++) {
        if (i < 2)
            ask_neighbour(base, i == 0 ? base->srcpad : base->sinkpad);
        else
            gst_element_post_message(
                GST_ELEMENT(base),
                gst_message_new_need_context(GST_OBJECT(base),
                                             GST_CUDA_CONTEXT_TYPE));
        found = current(base);
    }
    gst_clear_object(&found);
}

static void
make_context(GstVaeBase *base, gint device)
{
    GstCudaContext *own = wrap_primary(device);
    GstContext *context;

    if (!own)
        return;
    context = gst_context_new_cuda_context(own);
    gst_element_set_context(GST_ELEMENT(base), context);
    gst_element_post_message(GST_ELEMENT(base), gst_message_new_have_context(
                                                    GST_OBJECT(base), context));
    gst_object_unref(own);
}

static void
forget(GstVaeBase *base)
{
    GstObject *context;
    gboolean held;
    gint device;

    GST_OBJECT_LOCK(base);
    context = g_steal_pointer(&base->cuda_context);
    held = base->cuda_primary != NULL;
    device = base->cuda_device;
    base->cuda_primary = NULL;
    GST_OBJECT_UNLOCK(base);
    if (held)
        release_primary(device);
    gst_clear_object(&context);
}

/* The primary context, held until forget(). The lock cuda_lock is held. */
static gboolean
hold_primary(GstVaeBase *base, gint device)
{
    gpointer handle;

    if (base->cuda_primary && base->cuda_device != device)
        forget(base);
    if (base->cuda_primary)
        return TRUE;
    handle = gst_cuda_load_library() ? retain_primary(device) : NULL;
    if (handle)
        gst_cuda_memory_init_once();
    GST_OBJECT_LOCK(base);
    base->cuda_primary = handle;
    base->cuda_device = device;
    GST_OBJECT_UNLOCK(base);
    return handle != NULL;
}

gboolean
gst_vae_cuda_possible(GstVaeBase *base)
{
    GstState state;
    gint backend;

    if (!library_fits())
        return FALSE;
    GST_OBJECT_LOCK(base);
    backend = base->settings.backend;
    state = MAX(GST_STATE(base), GST_STATE_NEXT(base));
    GST_OBJECT_UNLOCK(base);
    return (backend == VAE_BACKEND_AUTO || backend == VAE_BACKEND_CUDA) &&
           (state < GST_STATE_READY ||
            vae_backend_available(VAE_BACKEND_CUDA, NULL, 0));
}

/* A neighbour that is READY first would else make a context of its own, in
 * which the engine cannot write. Another thread that holds the lock makes one
 * now, or asks for one, perhaps here. */
static void
make_early(GstVaeBase *base)
{
    const gint device = device_of(base);
    GstCudaContext *context;

    if (!gst_vae_cuda_possible(base) ||
        !vae_backend_available(VAE_BACKEND_CUDA, NULL, 0) ||
        !g_mutex_trylock(&base->cuda_lock))
        return;
    context = current(base);
    if (!context && hold_primary(base, device))
        make_context(base, device);
    g_mutex_unlock(&base->cuda_lock);
    gst_clear_object(&context);
}

gboolean
gst_vae_cuda_answer(GstVaeBase *base, GstQuery *query)
{
    GstCudaContext *context;
    const gchar *type;
    gboolean answered;

    if (!library_fits() || !gst_query_parse_context_type(query, &type) ||
        g_strcmp0(type, GST_CUDA_CONTEXT_TYPE) != 0)
        return FALSE;
    context = current(base);
    if (!context)
        make_early(base);
    else
        gst_object_unref(context);
    context = current(base);
    answered = context &&
               gst_cuda_handle_context_query(GST_ELEMENT(base), query, context);
    gst_clear_object(&context);
    return answered;
}

gboolean
gst_vae_cuda_usable(GstVaeBase *base)
{
    const gint device = device_of(base);
    GstCudaContext *context = NULL;

    if (!gst_vae_cuda_possible(base))
        return FALSE;
    g_mutex_lock(&base->cuda_lock);
    if (hold_primary(base, device)) {
        find_context(base);
        context = current(base);
        if (!context)
            make_context(base, device);
        gst_clear_object(&context);
        context = current(base);
    }
    if (context)
        GST_DEBUG_OBJECT(
            base, "%" GST_PTR_FORMAT ", %s", context,
            gst_cuda_context_get_handle(context) == base->cuda_primary
                ? "the engine's"
                : "another than the engine's: frames go through the host");
    g_mutex_unlock(&base->cuda_lock);
    if (!context)
        return FALSE;
    gst_object_unref(context);
    return TRUE;
}

/* Whether the first thing that the peer takes or gives is CUDAMemory. */
static gboolean
is_preferred(GstPad *pad)
{
    GstCaps *peer = gst_pad_peer_query_caps(pad, NULL);
    const gboolean preferred = gst_vae_cuda_is_caps(peer);

    gst_clear_caps(&peer);
    return preferred;
}

void
gst_vae_cuda_open(GstVaeBase *base)
{
    GstPad *pad = GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE
                      ? base->srcpad
                      : base->sinkpad;

    if (library_fits() && is_preferred(pad))
        gst_vae_cuda_usable(base);
}

void
gst_vae_cuda_close(GstVaeBase *base)
{
    g_mutex_lock(&base->cuda_lock);
    forget(base);
    g_mutex_unlock(&base->cuda_lock);
}

/* ------------------------------------------------------------------ */
/* Caps, pools, frames.                                                */

/* The structures of caps that are, or are not, of CUDAMemory. */
static GstCaps *
only(const GstCaps *caps, gboolean cuda)
{
    GstCaps *some = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);

        if (is_cuda_feature(features) == cuda)
            gst_caps_append_structure_full(
                some, gst_structure_copy(gst_caps_get_structure(caps, i)),
                features ? gst_caps_features_copy(features) : NULL);
    }
    return some;
}

GstCaps *
gst_vae_cuda_remove(GstCaps *caps)
{
    GstCaps *rest = only(caps, FALSE);

    gst_caps_unref(caps);
    return rest;
}

GstCaps *
gst_vae_cuda_offer(GstVaeBase *base, GstCaps *caps)
{
    GstCaps *cuda;

    if (!library_fits() || !is_preferred(base->srcpad) ||
        !gst_vae_cuda_usable(base))
        return gst_vae_cuda_remove(caps);
    cuda = only(caps, TRUE);
    gst_caps_append(cuda, gst_vae_cuda_remove(caps));
    return cuda;
}

gchar *
gst_vae_cuda_why_not(GstVaeBase *base)
{
    gchar why[400] = "";
    gint backend;

    if (!is_preferred(base->srcpad) || gst_vae_cuda_usable(base))
        return NULL;
    if (!library_fits())
        return g_strdup("this plugin was built for another release of "
                        "GStreamer, whose memory:CUDAMemory differs");
    GST_OBJECT_LOCK(base);
    backend = base->settings.backend;
    GST_OBJECT_UNLOCK(base);
    if (backend != VAE_BACKEND_AUTO && backend != VAE_BACKEND_CUDA)
        return g_strdup_printf(
            "backend=%s has no memory:CUDAMemory; set backend=cuda",
            vae_backend_name((VaeBackendKind) backend));
    if (!vae_backend_available(VAE_BACKEND_CUDA, why, sizeof why))
        return g_strdup_printf("for memory:CUDAMemory %s", why);
    return g_strdup_printf("no context of CUDA device %d could be made for "
                           "memory:CUDAMemory",
                           device_of(base));
}

/* What is copied to and from the memory of a pool is done in a stream of its
 * own, for which nobody waits who does not want the memory. */
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
gst_vae_cuda_pool(GstVaeBase *base, GstCaps *caps, guint size)
{
    GstCudaContext *context = current(base);
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
gst_vae_cuda_engine(GstVaeBase *base, VaeStream *stream)
{
    gpointer primary = NULL;

    if (vae_stream_get_plan(stream)->backend != VAE_BACKEND_CUDA)
        return NULL;
    GST_OBJECT_LOCK(base);
    /* The property may name another device than it did for the stream. */
    if (base->cuda_device == MAX(base->running->params.device, 0))
        primary = base->cuda_primary;
    GST_OBJECT_UNLOCK(base);
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

#if GST_CHECK_VERSION(1, 24, 0)

/* All that the stream has to do so far; NULL: no event is to be had. */
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

gboolean
gst_vae_cuda_map(GstVideoFrame *frame, const GstVideoInfo *info,
                 GstBuffer *buffer, GstMapFlags flags, gpointer engine,
                 gboolean *on_device)
{
    *on_device = is_of(buffer, engine);
    if (!*on_device)
        return gst_video_frame_map(frame, info, buffer, flags);
    return gst_video_frame_map(frame, info, buffer,
                               flags | (GstMapFlags) GST_MAP_CUDA);
}

#else

gboolean
gst_vae_cuda_is_caps(const GstCaps *caps)
{
    return FALSE;
}

GstPadTemplate *
gst_vae_cuda_template(const gchar *name, GstPadDirection direction)
{
    GstCaps *caps = gst_caps_from_string(GST_VAE_RAW_CAPS);
    GstPadTemplate *template =
        gst_pad_template_new(name, direction, GST_PAD_ALWAYS, caps);

    gst_caps_unref(caps);
    return template;
}

void
gst_vae_cuda_open(GstVaeBase *base)
{
}

void
gst_vae_cuda_close(GstVaeBase *base)
{
}

void
gst_vae_cuda_set_context(GstVaeBase *base, GstContext *context)
{
}

gboolean
gst_vae_cuda_answer(GstVaeBase *base, GstQuery *query)
{
    return FALSE;
}

gboolean
gst_vae_cuda_possible(GstVaeBase *base)
{
    return FALSE;
}

gboolean
gst_vae_cuda_usable(GstVaeBase *base)
{
    return FALSE;
}

gchar *
gst_vae_cuda_why_not(GstVaeBase *base)
{
    return NULL;
}

GstCaps *
gst_vae_cuda_remove(GstCaps *caps)
{
    return caps;
}

GstCaps *
gst_vae_cuda_offer(GstVaeBase *base, GstCaps *caps)
{
    return caps;
}

GstBufferPool *
gst_vae_cuda_pool(GstVaeBase *base, GstCaps *caps, guint size)
{
    return NULL;
}

gboolean
gst_vae_cuda_is_pool(GstBufferPool *pool)
{
    return FALSE;
}

gpointer
gst_vae_cuda_engine(GstVaeBase *base, VaeStream *stream)
{
    return NULL;
}

gboolean
gst_vae_cuda_map(GstVideoFrame *frame, const GstVideoInfo *info,
                 GstBuffer *buffer, GstMapFlags flags, gpointer engine,
                 gboolean *on_device)
{
    *on_device = FALSE;
    return gst_video_frame_map(frame, info, buffer, flags);
}

gpointer
gst_vae_cuda_ready(GstBuffer *buffer, GstMapFlags flags)
{
    return NULL;
}

void
gst_vae_cuda_ready_free(GstBuffer *buffer, gpointer event)
{
}

#endif
