/*
 * decode.h: vaedecode, which converts latents to frames.
 */
#ifndef GST_VAE_DECODE_H
#define GST_VAE_DECODE_H

#include "base.h"

G_BEGIN_DECLS

GST_ELEMENT_REGISTER_DECLARE(vaedecode)

typedef struct GstVaeDecode {
    GstVaeBase base;

    gint fps_n, fps_d; /* property; 0/1: not set. Guarded by the object lock */
    gint normalization, sequence;

    /* For the streaming thread. */
    GstVaeLatentInfo in;        /* the sink caps, completed from the model */
    gboolean tensors;           /* the sink caps are other/tensors */
    gboolean own_normalization; /* the property states it */
    gboolean need_start;        /* the next latent begins a sequence */
    gboolean discont;
    GstClockTime anchor;     /* time from which frames are counted, or NONE */
    guint64 since_anchor;    /* frames since the anchor */
    guint64 frame;           /* OFFSET of the next frame */
    guint64 latent;          /* place of the next latent in the clip */
    guint64 first;           /* place of the latent that began the sequence */
    GstClockTime input_pts;  /* begin of the previous buffer, or NONE */
    GstClockTime input_end;  /* its end, or NONE */
    gboolean input_plain;    /* the previous buffer had neither DELTA_UNIT nor a
                                duration */
    gboolean told_continues; /* posted that DELTA_UNIT is missing */
    guint jumps; /* latents whose timestamps did not follow the rate */

    VaeCheckpoint resume; /* the position that was loaded */
    gboolean resuming;    /* the input has not reached that position yet */
    gboolean earlier;     /* the input is still in an earlier sequence than the
                             loaded position */
    guint saved;          /* latents since the last checkpoint */
} GstVaeDecode;

typedef struct GstVaeDecodeClass {
    GstVaeBaseClass parent_class;
} GstVaeDecodeClass;

#define GST_VAE_DECODE(object) ((GstVaeDecode *) (object))

/* decode/properties.c */

/* Properties and signals. */
void gst_vae_decode_install(GObjectClass *klass);

/* decode/caps.c: functions of GstVaeBaseClass */

gboolean gst_vae_decode_set_caps(GstVaeBase *base, GstCaps *caps,
                                 GError **error);
gboolean gst_vae_decode_negotiate(GstVaeBase *base, GstVaeSession *session,
                                  GError **error);
gboolean gst_vae_decode_adapt(GstVaeBase *base, GstVaeSession *session,
                              GError **error);
void gst_vae_decode_set_times(GstVaeBase *base, GstVaeSession *session);

/* decode/flag.c */

/* Called first for each buffer of latents. Adds DELTA_UNIT to a buffer that
 * continues a sequence by its caps or by the property. Warns of a buffer that
 * only seems to continue one. (takes buffer, transfer full) */
GstBuffer *gst_vae_decode_flag(GstVaeDecode *self, GstBuffer *buffer);
/* Queues steps for the frames that wait. If there are any, the next latent
 * begins a sequence. */
GstFlowReturn gst_vae_decode_finish(GstVaeBase *base);

/* decode/timing.c: converts buffers of latents to steps with timestamps */

/* The time of a latent's step, and its place. */
typedef struct GstVaeStep {
    GstClockTime pts; /* its begin, by its timestamp or by counting */
    gboolean start;   /* it begins a sequence */
    gboolean behind;  /* it is after the end of the segment */
} GstVaeStep;

/* Returns the duration of n frames at the nominal rate. */
GstClockTime gst_vae_decode_frames_time(const GstVaeDecode *self, guint64 n);
/* Returns how many frames at the nominal rate last this long, rounded. */
guint64 gst_vae_decode_frames_in(const GstVaeDecode *self, GstClockTime time);
/* Returns the number of frames of the first k latents of a sequence. */
guint64 gst_vae_decode_frames_before(const GstVaeDecode *self, guint64 k);
/* Returns FALSE if a sequence cannot begin with the latent, because it is not
 * the first one of a chunk. */
gboolean gst_vae_decode_begins_chunk(GstVaeDecode *self,
                                     const GstBuffer *latent);
/* Plans a frame of a step: its OFFSET, its times, and if the segment needs it.
 */
void gst_vae_decode_plan_frame(GstVaeDecode *self, GstVaeOut *out,
                               GstClockTime pts, GstClockTime end);
/* Returns the time and place of a latent. Called once for each latent, in
 * order.
 */
GstVaeStep gst_vae_decode_step(GstVaeDecode *self, const GstBuffer *latent);
/* Plans the step of a latent. (takes buffer) */
GstVaeItem *gst_vae_decode_plan_step(GstVaeDecode *self, GstBuffer *buffer,
                                     const GstVaeStep *step);
/* Returns latent i of a buffer with several latents, with its own flags and
 * times, or NULL if the memory cannot be read. *left: the remaining duration of
 * the buffer, or NONE. (transfer full) */
GstBuffer *gst_vae_decode_split(GstVaeDecode *self, GstBuffer *buffer, gint i,
                                GstClockTime *left);

/* decode/resume.c: resumes from checkpoints and requests them */

/* Returns TRUE if a latent without DELTA_UNIT has the duration of the first one
 * of a sequence. */
gboolean gst_vae_decode_begins(GstVaeDecode *self, const GstBuffer *latent);
/* Called at the start of a sequence. Loads the checkpoint of the action
 * load-checkpoint, if there is one. */
GstFlowReturn gst_vae_decode_load(GstVaeDecode *self, const GstBuffer *latent,
                                  const GstVaeStep *step);
/* Plans the step of a latent while resuming, without the frames that were
 * output before the checkpoint. Returns NULL if the latent is not needed.
 * (takes latent) */
GstVaeItem *gst_vae_decode_resume_step(GstVaeDecode *self, GstBuffer *latent,
                                       GstVaeStep step);
/* Marks a step after which a checkpoint is due. */
void gst_vae_decode_mark(GstVaeDecode *self, GstVaeItem *item);

/* decode/output.c: output memory and steps of the engine's call */

void gst_vae_decode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                      GstQuery *query);
VaeStatus gst_vae_decode_add_step(GstElement *element, GstVaeCall *call,
                                  GstVaeItem *item, VaeError *error);

G_END_DECLS
#endif
