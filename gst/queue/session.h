/*
 * session.h: the caps, the model and the allocation that the steps between two
 * CAPS events share.
 *
 * A session is reference-counted and does not change after it is queued. The
 * only exceptions are the format of its caps and its allocation, which
 * downstream answers when the CAPS event is pushed.
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
    /* The caps of the source pad, and the raw video. Another thread than the
     * task reads them after the session is allocated, or with the queue's lock.
     */
    GstCaps *caps;
    GstVideoInfo video;
    GstVaeLatentInfo latent;
    GstVaeModel *model;
    VaeStreamParams params;
    VaeDoubtWords words;
    GstClockTime frame_time;   /* one video frame */
    GstClockTime collect_time; /* last input minus first output timestamp */
    GstClockTime step_time;    /* duration of a later step's frames */

    /* The answer to the allocation query. The task of the source pad writes it
     * and then sets allocated with the queue's lock held, because the worker
     * waits for this and for steps and a flush at once. It does not change
     * afterwards. */
    gboolean allocated;
    GstBufferPool *pool;
    gboolean bounded; /* the pool has a limited number of buffers */
    gboolean clear;   /* rows have padding bytes, which must be cleared */
    GstAllocator *allocator;
    GstAllocationParams allocation;
} GstVaeSession;

GstVaeSession *gst_vae_session_new(void);
GstVaeSession *gst_vae_session_ref(GstVaeSession *session);
void gst_vae_session_unref(GstVaeSession *session); /* NULL is fine */
/* Returns a session with another model, and with the caps and the allocation of
 * `session`. */
GstVaeSession *gst_vae_session_successor(const GstVaeSession *session,
                                         GstVaeModel *model);
/* Returns the number of later latents for which a decoder's frame waits, or of
 * later groups of frames for which an encoder's latent waits. */
gint gst_vae_session_look_ahead(const GstVaeSession *session);
/* Returns TRUE if the stream of session a can serve session b. */
gboolean gst_vae_session_same_stream(const GstVaeSession *a,
                                     const GstVaeSession *b);

G_END_DECLS
#endif
