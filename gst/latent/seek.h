/*
 * seek.h: which latents are read after a seek, and queries about the clip.
 */
#ifndef GST_LATENT_SEEK_H
#define GST_LATENT_SEEK_H

#include <gst/gst.h>

#include "clip.h"

G_BEGIN_DECLS

/* As far as any network looks back, by vae_model_history(). */
#define GST_LATENT_WARM_UP 38
/* With the latent that is shown, less than a tenth of that. */
#define GST_LATENT_KEY_UNIT_WARM_UP 2

/* Latents that are sent in their order: first those in front, which are decoded
 * and not shown, then those that are. A trick mode and playing backwards need
 * several runs. */
typedef struct GstLatentRun {
    gint next;         /* the latent to send */
    gint shown, end;   /* shows [shown, end) */
    gint low, high;    /* all runs show [low, high) */
    gint warm_up;      /* latents in front */
    gint stride;       /* from one that is shown to the next; 0: shows all */
    gint until;        /* then the one that is shown stays up to here */
    gboolean backward; /* the next run is in front of this one */
    gboolean discont;  /* the next latent does not follow the last */
} GstLatentRun;

/* Why a seek from this segment cannot be done, or NULL. */
const gchar *gst_latent_seek_refused(const GstSegment *segment,
                                     GstEvent *event);
/* The seek, which may count frames, in time. (transfer full) */
GstEvent *gst_latent_seek_by_time(const GstLatentClip *clip, GstEvent *event);
/* TRUE: a quick picture is wanted rather than the exact one. */
gboolean gst_latent_seek_is_quick(GstEvent *event);

/* Stops the task of the sink pad and flushes both sides where the seek says
 * so. Returns with the stream lock of the sink pad held. */
void gst_latent_seek_stop(GstPad *sinkpad, GstPad *srcpad, GstEvent *event);

/* Makes the segment that of a seek that was not refused. With KEY_UNIT it
 * begins where a latent begins, as the SNAP flags say. */
void gst_latent_seek_apply(const GstLatentClip *clip, GstEvent *event,
                           GstSegment *segment);

/* The first run of a segment. interval: stream time between the key units of
 * a trick mode; 0: not stated. */
void gst_latent_run_begin(GstLatentRun *run, const GstLatentClip *clip,
                          const GstSegment *segment, gint warm_up,
                          GstClockTime interval);
/* The next run; FALSE: there is none. */
gboolean gst_latent_run_continue(GstLatentRun *run, const GstLatentClip *clip);

/* Answers a query for POSITION, DURATION, SEEKING, CONVERT or SEGMENT, in time
 * or frames; FALSE: not in that format. */
gboolean gst_latent_seek_answer(const GstLatentClip *clip,
                                const GstSegment *segment, gboolean seekable,
                                GstQuery *query);

G_END_DECLS
#endif
