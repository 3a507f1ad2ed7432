/*
 * decode.h: latents in, frames out.
 */
#ifndef GST_VAE_DECODE_H
#define GST_VAE_DECODE_H

#include "base.h"

G_BEGIN_DECLS

GST_ELEMENT_REGISTER_DECLARE(vaedecode)

typedef struct GstVaeDecode {
    GstVaeBase base;

    gint fps_n, fps_d; /* property; 0/1: not set. Under the object lock */
    gint normalization, sequence;
    gint look_ahead; /* property; -1: exact */

    /* Streaming thread. */
    GstVaeLatentInfo in; /* of the sink caps, gaps filled in */
    gboolean tensors;    /* the sink caps are other/tensors */
    gboolean need_start; /* the next latent begins a sequence */
    gboolean discont;
    GstClockTime anchor;     /* time where counting began, or NONE */
    guint64 since_anchor;    /* frames since then */
    guint64 frame;           /* OFFSET of the next frame */
    GstClockTime input_end;  /* of the buffer before, or NONE */
    gboolean told_continues; /* that it lacks DELTA_UNIT */

    /* Of the sequence, where the model has a delay. */
    GQueue waiting;         /* GstVaeOut: frames that are not given yet */
    guint64 planned, given; /* frames */

    VaeCheckpoint resume; /* where the stream was put */
    gboolean resuming;    /* latents up to there still come */
    guint64 place;        /* of the next latent in its clip, then */
    guint saved;          /* latents since a checkpoint was wanted */

    /* The worker's. */
    guint judged;          /* latents of the sequence seen so far */
    gboolean mark_discont; /* the next frame that is made gets the flag */
} GstVaeDecode;

typedef struct GstVaeDecodeClass {
    GstVaeBaseClass parent_class;
} GstVaeDecodeClass;

#define GST_VAE_DECODE(object) ((GstVaeDecode *) (object))

/* decode/properties.c */

/* Properties and signals. */
void gst_vae_decode_install(GObjectClass *klass);

/* decode/timing.c: buffers of latents to steps with timestamps */

/* Time and place of a latent's step. */
typedef struct GstVaeStep {
    GstClockTime pts; /* where it begins, by its timestamp or by counting */
    gboolean start;   /* it begins a sequence */
    gboolean behind;  /* nothing from there on is in the segment */
} GstVaeStep;

/* Called once for each buffer of latents, before all else. Adds DELTA_UNIT to
 * one that continues a sequence by its caps or by the property, and warns of
 * one that only seems to. Takes buffer. */
GstBuffer *gst_vae_decode_flag(GstVaeDecode *self, GstBuffer *buffer);
/* The time that n frames take at the nominal rate. */
GstClockTime gst_vae_decode_frames_time(const GstVaeDecode *self, guint64 n);
/* One frame of a step, the next by OFFSET, seen by the segment. */
void gst_vae_decode_plan_frame(GstVaeDecode *self, GstVaeOut *out,
                               GstClockTime pts, GstClockTime end);
/* Called once for each latent, in their order. */
GstVaeStep gst_vae_decode_step(GstVaeDecode *self, const GstBuffer *latent);
/* The step of one latent; takes buffer. */
GstVaeItem *gst_vae_decode_plan_step(GstVaeDecode *self, GstBuffer *buffer,
                                     const GstVaeStep *step);
/* Latent i of a buffer that holds several, with flags and times of its own;
 * NULL: memory that cannot be read. left is the rest of the buffer's duration,
 * or NONE. (transfer full) */
GstBuffer *gst_vae_decode_split(GstVaeDecode *self, GstBuffer *buffer, gint i,
                                GstClockTime *left);

/* decode/delay.c: frames that come later than their latents */

/* Frames between the one that a latent completes and the newest of it. */
guint gst_vae_decode_delay_of(const GstVaeSession *session);
/* Gives the planned step of a latent, in place of its own frames, those that
 * the engine gives with it. Nothing changes without a delay. */
void gst_vae_decode_delay(GstVaeDecode *self, GstVaeItem *item);
/* A sequence that goes on behind n frames whose latents do not come: those of
 * them that are not given wait, with the times in front of pts. */
void gst_vae_decode_delay_resume(GstVaeDecode *self, guint64 n,
                                 GstClockTime pts);
/* TRUE: frames wait that are in the segment. */
gboolean gst_vae_decode_is_waiting(const GstVaeDecode *self);
/* Ends the sequence: queues steps for the frames that wait. The next latent
 * begins a sequence then. */
GstFlowReturn gst_vae_decode_drain(GstVaeDecode *self);
/* Drops the frames that wait. */
void gst_vae_decode_forget(GstVaeDecode *self);

/* decode/resume.c: steps around checkpoints */

/* At the start of a sequence: the checkpoint that load-checkpoint named, if
 * any. */
GstFlowReturn gst_vae_decode_load(GstVaeDecode *self, const GstBuffer *latent);
/* The step of a latent while resuming, without frames that were had before;
 * NULL: it is not needed. Takes latent. */
GstVaeItem *gst_vae_decode_resume_step(GstVaeDecode *self, GstBuffer *latent,
                                       GstVaeStep step);
/* Marks a step behind which a checkpoint is due. */
void gst_vae_decode_mark(GstVaeDecode *self, GstVaeItem *item);

/* decode/output.c: output memory and steps of the engine's call */

void gst_vae_decode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                      GstQuery *query);
VaeStatus gst_vae_decode_add_step(GstElement *element, GstVaeCall *call,
                                  GstVaeItem *item, VaeError *error);

/* decode/check.c */

/* Looks at the first latents of a sequence, all of which come here in order,
 * and warns once on the bus where they clearly are of the other normalization
 * than was declared. Worker. */
void gst_vae_decode_check(GstVaeDecode *self, const GstVaeItem *item,
                          const VaeLatentIn *latent);

G_END_DECLS
#endif
