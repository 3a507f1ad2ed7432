/*
 * context.h: the CUDA device of an element, for video in device memory
 * (memory:CUDAMemory). In a build without gstreamer-cuda there is only system
 * memory, and the functions of this folder do nothing.
 *
 * The engine computes in the primary context of the device. It reads and writes
 * buffers of that context directly. Buffers of other contexts are mapped into
 * host memory. The bytes are the same.
 */
#ifndef GST_VAE_CUDA_CONTEXT_H
#define GST_VAE_CUDA_CONTEXT_H

#include <gst/gst.h>

#include "vae/stream.h"

G_BEGIN_DECLS

typedef struct GstVaeCuda {
    GstElement *element;      /* the owner, which also owns the pads */
    GstPad *sinkpad, *srcpad; /* their peers may have a context */

    /* Held while a context is searched, asked for or made. Code that holds it
     * takes the object lock, never the other way round. */
    GMutex lock;

    /* Under the object lock. */
    const VaeStreamParams *settings; /* the properties */
    GstObject *context;  /* the pipeline's GstCudaContext, or NULL */
    gpointer primary;    /* the engine's context, retained, or NULL */
    gint primary_device; /* its device */
} GstVaeCuda;

/* The owner sets element and pads before it calls anything else. */
void gst_vae_cuda_init(GstVaeCuda *cuda);
void gst_vae_cuda_clear(GstVaeCuda *cuda);

/* Returns the device of the property; -1 selects device 0. */
gint gst_vae_cuda_device(GstVaeCuda *cuda);
/* Returns TRUE if the plugin was built for this minor release of GStreamer. */
gboolean gst_vae_cuda_library_fits(void);

/* Returns TRUE if the backend may be cuda and, from READY on, the device
 * exists. Does not request a context. For any thread. */
gboolean gst_vae_cuda_possible(GstVaeCuda *cuda);

/* Returns the pipeline's GstCudaContext, or NULL. (transfer full) */
GstObject *gst_vae_cuda_current(GstVaeCuda *cuda);
G_END_DECLS
#endif
