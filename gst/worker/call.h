/*
 * call.h: the latents and pictures of one call of the engine, mapped.
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
    gboolean begun;  /* the engine was asked; a failure is its own */

    GstBuffer **buffers; /* of the latents; borrowed until they are unmapped */
    GstMapInfo *maps;
    GstVideoFrame *frames; /* buffer NULL: a picture that is not converted */
} GstVaeCall;

/* Room for the steps. */
GstVaeCall gst_vae_call_new(GstVaeItem **items, guint n);
/* Unmaps all that was added. */
void gst_vae_call_clear(GstVaeCall *call);

/* Adds a buffer as the next latent; FALSE: it cannot be mapped so. */
gboolean gst_vae_call_add_latent(GstVaeCall *call, GstVaeSession *session,
                                 GstBuffer *buffer, GstMapFlags flags);
/* Adds a buffer as the next picture; NULL: one without data. */
gboolean gst_vae_call_add_picture(GstVaeCall *call, GstVaeSession *session,
                                  GstBuffer *buffer, GstMapFlags flags);

/* Gives the buffer of out its times. */
void gst_vae_call_stamp(GstVaeOut *out);

G_END_DECLS
#endif
