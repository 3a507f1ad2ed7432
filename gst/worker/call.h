/*
 * call.h: the mapped latents and pictures of one engine call.
 */
#ifndef GST_VAE_CALL_H
#define GST_VAE_CALL_H

#include "item.h"

#include "vae-private/stream.h"

G_BEGIN_DECLS

typedef struct GstVaeCall {
    guint n_latents, n_pictures; /* added */
    VaeLatentIn *latents;        /* of a decoder */
    VaeLatentOut *results;       /* of an encoder */
    VaePicture *pictures;

    VaeStream *stream;
    gpointer engine; /* gst_vae_cuda_engine() of the stream, or NULL */
    gboolean begun;  /* the engine was called, so an error comes from it */

    GstBuffer **buffers; /* of the latents; borrowed until they are unmapped */
    GstMapInfo *maps;
    GstVideoFrame *frames; /* without a buffer: the picture is not converted */
} GstVaeCall;

/* Returns a call with room for these steps. */
GstVaeCall gst_vae_call_new(GstVaeItem **items, guint n);
/* Unmaps all buffers of the call. */
void gst_vae_call_clear(GstVaeCall *call);

/* Adds a buffer as the next latent. Returns FALSE if it cannot be mapped. */
gboolean gst_vae_call_add_latent(GstVaeCall *call, GstVaeSession *session,
                                 GstBuffer *buffer, GstMapFlags flags);
/* Adds a buffer as the next picture, or a picture without data if it is NULL.
 */
VaeStatus gst_vae_call_add_picture(GstVaeCall *call, GstVaeSession *session,
                                   GstBuffer *buffer, GstMapFlags flags,
                                   VaeError *error);

/* Sets the times of out's buffer. */
void gst_vae_call_stamp(GstVaeOut *out);

G_END_DECLS
#endif
