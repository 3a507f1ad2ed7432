/*
 * session.h: caps, model and memory that the steps between two CAPS events
 * share.
 *
 * A session is shared by reference and does not change once it is queued, but
 * for its memory, which downstream tells when its CAPS event is pushed.
 */
#ifndef GST_VAE_SESSION_H
#define GST_VAE_SESSION_H

#include <gst/gst.h>
#include <gst/video/video.h>

#include "latent.h"
#include "models.h"

#include "vae-private/stream.h"

G_BEGIN_DECLS

typedef struct GstVaeSession {
    gint refs;
    GstCaps *caps;      /* of the source pad */
    GstVideoInfo video; /* the raw side */
    GstVaeLatentInfo latent;
    GstVaeModel *model;
    VaeStreamParams params;
    GstClockTime frame_time;   /* one video frame */
    GstClockTime collect_time; /* last input minus first output timestamp */
    GstClockTime step_time;    /* of a later step's frames */

    /* The answer to the allocation query. Written by the task of the source pad
     * before it sets allocated under the lock of the queue, because the worker
     * waits for that, for steps and for a flush at once; constant from then
     * on. */
    gboolean allocated;
    GstBufferPool *pool;
    gboolean bounded; /* the pool has no more than so many buffers */
    gboolean clear;   /* rows end in bytes that no pixel has */
    GstAllocator *allocator;
    GstAllocationParams allocation;
} GstVaeSession;

GstVaeSession *gst_vae_session_new(void);
GstVaeSession *gst_vae_session_ref(GstVaeSession *session);
void gst_vae_session_unref(GstVaeSession *session); /* NULL is fine */
/* The same with another model: caps and memory are those of session, which has
 * been allocated. */
GstVaeSession *gst_vae_session_successor(const GstVaeSession *session,
                                         GstVaeModel *model);
/* Latents that a frame waits for behind its own; 0 where it waits for none. */
gint gst_vae_session_look_ahead(const GstVaeSession *session);
/* TRUE where the stream of a serves b. */
gboolean gst_vae_session_same_stream(const GstVaeSession *a,
                                     const GstVaeSession *b);

G_END_DECLS
#endif
