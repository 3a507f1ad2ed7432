/*
 * seek.h: chooses the latents that are read after a seek, and answers queries
 * about the clip.
 */
#ifndef GST_LATENT_SEEK_H
#define GST_LATENT_SEEK_H

#include <gst/gst.h>

#include "clip.h"

G_BEGIN_DECLS

/* If the decoder does not say how far its network looks back: the largest
 * number of vae_model_history(), except for networks with a history. */
#define GST_LATENT_WARM_UP 38
/* With the shown latent, a quick seek decodes less than a tenth of the latents
 * of an exact one. */
#define GST_LATENT_KEY_UNIT_WARM_UP 2

typedef struct GstLatentWarmUp {
    gint latents, multiple; /* as in GstLatentRun */
} GstLatentWarmUp;

/* A run of latents that are sent in their order. The warm-up comes first; its
 * frames are decoded but not shown. Trick modes and reverse playback need
 * several runs. */
typedef struct GstLatentRun {
    gint next;         /* the next latent to send */
    gint shown, end;   /* the run shows [shown, end) */
    gint low, high;    /* all runs show [low, high) */
    gint warm_up;      /* latents of the warm-up */
    gint multiple;     /* decoding begins at a multiple of this; 0: anywhere */
    gint stride;       /* distance of the shown latents; 0: all are shown */
    gint until;        /* with a stride: the shown latent lasts up to here */
    gboolean backward; /* the next run comes before this one in the clip */
    gboolean discont;  /* the next latent does not follow the last one */
} GstLatentRun;

/* Returns the reason why a seek from this segment is not possible, or NULL. */
const gchar *gst_latent_seek_refused(const GstSegment *segment,
                                     GstEvent *event);
/* Converts a seek in frames to one in time. (transfer full) */
GstEvent *gst_latent_seek_by_time(const GstLatentClip *clip, GstEvent *event);
/* Returns TRUE if the seek asks for a quick picture and not the exact one. */
gboolean gst_latent_seek_is_quick(GstEvent *event);

/* Stops the task of the sink pad, and flushes downstream, and upstream too if
 * it is pulled, if the seek has FLUSH. Returns with the stream lock of the sink
 * pad held. */
void gst_latent_seek_stop(GstPad *sinkpad, GstPad *srcpad, gboolean pull,
                          GstEvent *event);

/* Applies a seek that was not refused to the segment. With KEY_UNIT the segment
 * begins at a latent, which the SNAP flags choose. */
void gst_latent_seek_apply(const GstLatentClip *clip, GstEvent *event,
                           GstSegment *segment);

/* Begins the first run of a segment. warm_up: latents that the decoder needs
 * first, and at which multiple it has to begin. interval: the stream time
 * between the key units of a trick mode, or 0 if it is not stated. */
void gst_latent_run_begin(GstLatentRun *run, const GstLatentClip *clip,
                          const GstSegment *segment, GstLatentWarmUp warm_up,
                          GstClockTime interval);
/* The clip ends before latent t. */
void gst_latent_run_end(GstLatentRun *run, gint t);
/* Begins the next run. Returns FALSE if there is none. */
gboolean gst_latent_run_continue(GstLatentRun *run, const GstLatentClip *clip);

/* Answers a POSITION, DURATION, SEEKING, CONVERT or SEGMENT query in time or
 * frames. Returns FALSE for other formats. */
gboolean gst_latent_seek_answer(const GstLatentClip *clip,
                                const GstSegment *segment, gboolean seekable,
                                GstQuery *query);

G_END_DECLS
#endif
