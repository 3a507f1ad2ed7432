/*
 * encode.h: frames in, latents out.
 */
#ifndef GST_VAE_ENCODE_H
#define GST_VAE_ENCODE_H

#include "base.h"

G_BEGIN_DECLS

GST_ELEMENT_REGISTER_DECLARE(vaeencode)

/* Frames that came and that no latent covers yet: a group that is being
 * collected, plus the delay of a model that starts with a whole group. */
#define GST_VAE_MAX_UNCOVERED (2 * GST_VAE_MAX_UNITS)

typedef struct GstVaeSpan {
    GstClockTime pts, end;
    GstBuffer *metas; /* of the frame, which a latent gets; or NULL */
} GstVaeSpan;

/* Somebody downstream wants a sequence to begin. */
typedef struct GstVaeKeyRequest {
    GstClockTime time; /* running time from which on; NONE: at once */
    guint count;
} GstVaeKeyRequest;

typedef struct GstVaeEncode {
    GstVaeBase base;

    /* Under the object lock. */
    gint tail, posterior;
    guint64 seed;
    GArray *requests; /* GstVaeKeyRequest that are not due yet */

    /* Streaming thread. */
    GstVideoInfo in;
    GstVaeLatentInfo out;
    gboolean alpha_told;  /* that alpha is lost, or there is none */
    gboolean uneven_told; /* that times within a group are lost */
    GstClockTime frame_time;
    gboolean need_start; /* the next step begins a sequence */
    gboolean discont;
    GstBuffer *pending[GST_VAE_MAX_UNITS];
    guint n_pending;
    GstBuffer *last; /* the newest frame, for the tail */
    GstVaeSpan uncovered[GST_VAE_MAX_UNCOVERED];
    guint n_uncovered;
    guint64 latent;    /* index in the sequence */
    GstClockTime next; /* where a frame without timestamp goes, or NONE */
} GstVaeEncode;

typedef struct GstVaeEncodeClass {
    GstVaeBaseClass parent_class;
} GstVaeEncodeClass;

#define GST_VAE_ENCODE(object) ((GstVaeEncode *) (object))

/* encode/properties.c */

void gst_vae_encode_install(GObjectClass *klass);

/* encode/collect.c: frames to groups, and these to steps with times */

/* Takes a frame, and queues the step that it completes. */
GstFlowReturn gst_vae_encode_collect(GstVaeBase *base, GstBuffer *buffer);
/* Repeats the last frame until every frame that came is covered, or drops
 * those that are not. The next frame begins a sequence then. */
GstFlowReturn gst_vae_encode_finish(GstVaeBase *base);
/* Finishes, and the next frame begins a sequence in any case. */
void gst_vae_encode_key_unit(GstVaeBase *base);
/* Drops the frames that were collected. */
void gst_vae_encode_forget(GstVaeEncode *self);
/* The same, and the next frame begins a sequence. */
void gst_vae_encode_restart(GstVaeBase *base);
/* Frames without timestamps count from the start of the segment. */
void gst_vae_encode_segment(GstVaeBase *base);

/* encode/output.c: output memory and steps of the engine's call */

void gst_vae_encode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                      GstQuery *query);
VaeStatus gst_vae_encode_add_step(GstElement *element, GstVaeCall *call,
                                  GstVaeItem *item, VaeError *error);

G_END_DECLS
#endif
