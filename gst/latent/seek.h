/*
 * seek.h: where latentdemux begins to read after a seek.
 */
#ifndef GST_LATENT_SEEK_H
#define GST_LATENT_SEEK_H

#include <gst/gst.h>

#include "clip.h"

G_BEGIN_DECLS

/* As far as any network looks back, by vae_model_history(). */
#define GST_LATENT_WARM_UP 38

/* Why a seek from this segment cannot be done, or NULL. */
const gchar *gst_latent_seek_refused(const GstSegment *segment,
                                     GstEvent *event);

/* Stops the task of the sink pad and flushes both sides where the seek says
 * so. Returns with the stream lock of the sink pad held. */
void gst_latent_seek_stop(GstPad *sinkpad, GstPad *srcpad, GstEvent *event);

/* Makes the segment that of a seek that was not refused. With KEY_UNIT it
 * begins where a latent begins, as the SNAP flags say. */
void gst_latent_seek_apply(const GstLatentClip *clip, GstEvent *event,
                           GstSegment *segment);

/* Answers a query for POSITION, DURATION, SEEKING or SEGMENT; FALSE: not in
 * that format. */
gboolean gst_latent_seek_answer(const GstSegment *segment, gboolean seekable,
                                GstQuery *query);

/* The latent to begin with, so that warm_up of them are decoded before the
 * one that is shown first; data.t if none is shown. */
gint gst_latent_seek_first(const GstLatentClip *clip, const GstSegment *segment,
                           gint warm_up);

G_END_DECLS
#endif
