/*
 * offer.c: decides when the pads offer memory:CUDAMemory.
 */
#include "offer.h"

#include "vae-private/stream.h"

#include "share.h"
#include "video.h"

/* The formats of both the engine and all releases of gst_cuda_buffer_pool. */
#define CUDA_FORMATS                                                           \
    "NV12, I420, RGBA, BGRx, YV12, Y444, RGBx, BGRA, RGB, BGR, I420_10LE, "    \
    "P010_10LE"
#define CUDA_CAPS                                                              \
    "video/x-raw(memory:CUDAMemory), format = (string) { " CUDA_FORMATS " }, " \
    "width = (int) [ 1, 65535 ], height = (int) [ 1, 65535 ], "                \
    "framerate = (fraction) [ 0/1, MAX ], interlace-mode = progressive"

#ifdef GST_VAE_HAVE_CUDA
#define UNFIT                                                                  \
    "this plugin was built for another release of GStreamer, whose "           \
    "memory:CUDAMemory differs"
#else
#define UNFIT "this plugin was built without memory:CUDAMemory"
#endif

GstPadTemplate *
gst_vae_cuda_template(const gchar *name, GstPadDirection direction)
{
    GstCaps *caps = gst_caps_from_string(GST_VAE_RAW_CAPS);
    GstPadTemplate *template;

    if (gst_vae_cuda_library_fits())
        gst_caps_append(caps, gst_caps_from_string(CUDA_CAPS));
    template = gst_pad_template_new(name, direction, GST_PAD_ALWAYS, caps);
    gst_caps_unref(caps);
    return template;
}

/* Returns TRUE if the first caps that the peer accepts or gives are of
 * CUDAMemory. */
static gboolean
is_preferred(GstPad *pad)
{
    GstCaps *peer = gst_pad_peer_query_caps(pad, NULL);
    const gboolean preferred = gst_vae_video_is_cuda(peer);

    gst_clear_caps(&peer);
    return preferred;
}

void
gst_vae_cuda_open(GstVaeCuda *cuda, GstPad *pad)
{
    if (gst_vae_cuda_library_fits() && is_preferred(pad))
        gst_vae_cuda_usable(cuda);
}

/* Returns the structures of the caps that are of CUDAMemory, or those that are
 * not. */
static GstCaps *
only(const GstCaps *caps, gboolean cuda)
{
    GstCaps *some = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);

        if (gst_vae_video_is_cuda_feature(features) == cuda)
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
gst_vae_cuda_offer(GstVaeCuda *cuda, GstCaps *caps)
{
    GstCaps *both;

    if (!gst_vae_cuda_library_fits() || !is_preferred(cuda->srcpad) ||
        !gst_vae_cuda_usable(cuda))
        return gst_vae_cuda_remove(caps);
    both = only(caps, TRUE);
    gst_caps_append(both, gst_vae_cuda_remove(caps));
    return both;
}

gchar *
gst_vae_cuda_why_not(GstVaeCuda *cuda)
{
    gchar why[400] = "";
    gint backend;

    if (!is_preferred(cuda->srcpad) || gst_vae_cuda_usable(cuda))
        return NULL;
    if (!gst_vae_cuda_library_fits())
        return g_strdup(UNFIT);
    GST_OBJECT_LOCK(cuda->element);
    backend = (gint) cuda->settings->backend;
    GST_OBJECT_UNLOCK(cuda->element);
    if (backend != VAE_BACKEND_AUTO && backend != VAE_BACKEND_CUDA)
        return g_strdup_printf(
            "backend=%s has no memory:CUDAMemory; set backend=cuda",
            vae_backend_name((VaeBackendKind) backend));
    if (!vae_backend_available(VAE_BACKEND_CUDA, why, sizeof why))
        return g_strdup_printf("for memory:CUDAMemory %s", why);
    return g_strdup_printf("no context of CUDA device %d could be made for "
                           "memory:CUDAMemory",
                           gst_vae_cuda_device(cuda));
}
