/*
 * encode.h: vaeencode, which converts frames to latents.
 */
#ifndef GST_VAE_ENCODE_H
#define GST_VAE_ENCODE_H

#include "base.h"

G_BEGIN_DECLS

GST_ELEMENT_REGISTER_DECLARE(vaeencode)

/* The most frames that no latent covers yet: a group that is being collected,
 * and the delay of a model that starts with a whole group. */
#define GST_VAE_MAX_UNCOVERED (2 * GST_VAE_MAX_UNITS)

typedef struct GstVaeSpan {
    GstClockTime pts, end;
    GstBuffer *metas; /* the frame's metas for the latent, or NULL */
} GstVaeSpan;

/* A request from downstream to begin a sequence. */
typedef struct GstVaeKeyRequest {
    GstClockTime time; /* running time at which it is due; NONE: at once */
    guint count;
} GstVaeKeyRequest;

typedef struct GstVaeEncode {
    GstVaeBase base;

    /* Guarded by the object lock. */
    gint tail, key_int_max;
    guint64 key_int_max_time;
    GArray *requests; /* of GstVaeKeyRequest, not due yet */

    /* For the streaming thread. */
    GstVideoInfo in;
    GstVaeLatentInfo out;
    gboolean uneven_told; /* posted that times within a group are lost */
    GstClockTime frame_time;
    gboolean need_start; /* the next step begins a sequence */
    gboolean discont;
    GstBuffer *pending[GST_VAE_MAX_UNITS];
    guint n_pending;
    GstBuffer *last; /* the newest frame, for the tail */
    GstVaeSpan uncovered[GST_VAE_MAX_UNCOVERED];
    guint n_uncovered;
    guint64 latent;     /* index of the latent in the sequence */
    GstClockTime begin; /* time of the first frame of the sequence */
    GstClockTime next;  /* time of a frame without timestamp, or NONE */
} GstVaeEncode;

typedef struct GstVaeEncodeClass {
    GstVaeBaseClass parent_class;
} GstVaeEncodeClass;

#define GST_VAE_ENCODE(object) ((GstVaeEncode *) (object))

/* encode/properties.c */

void gst_vae_encode_install(GObjectClass *klass);

/* encode/collect.c: collects frames to groups, and groups to steps with times
 */

/* Collects a frame and queues the step that it completes. */
GstFlowReturn gst_vae_encode_collect(GstVaeBase *base, GstBuffer *buffer);
/* Ends the sequence: repeats the last frame until a latent covers every frame,
 * or drops the frames that none covers; then gives the latents that wait. The
 * next frame begins a sequence. */
GstFlowReturn gst_vae_encode_finish(GstVaeBase *base);
/* Ends the sequence; the next frame begins a new one. */
void gst_vae_encode_key_unit(GstVaeBase *base);
/* Drops the collected frames. */
void gst_vae_encode_forget(GstVaeEncode *self);
/* Drops the collected frames; the next frame begins a sequence. */
void gst_vae_encode_restart(GstVaeBase *base);
/* Returns the time of a frame without timestamp, or NONE. */
GstClockTime gst_vae_encode_end(GstVaeBase *base);
/* Frames without timestamps count from the start of the next segment. */
void gst_vae_encode_segment(GstVaeBase *base);

/* encode/output.c: output memory and steps of the engine's call */

void gst_vae_encode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                      GstQuery *query);
VaeStatus gst_vae_encode_add_step(GstElement *element, GstVaeCall *call,
                                  GstVaeItem *item, VaeError *error);

G_END_DECLS
#endif
