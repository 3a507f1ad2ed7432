/*
 * stats.h: the property `stats`, the message `vae-stats` and the warning of
 * values that are no numbers.
 */
#ifndef GST_VAE_STATS_H
#define GST_VAE_STATS_H

#include <gst/gst.h>

#include "vae-private/stream.h"

G_BEGIN_DECLS

/* Parts of a slice's time. */
typedef enum {
    GST_VAE_TIME_UPLOAD,
    GST_VAE_TIME_COMPUTE,
    GST_VAE_TIME_DOWNLOAD,
    GST_VAE_TIME_QUEUE_WAIT, /* of its first step, before it */
    GST_VAE_TIME_SLICE,      /* the whole call */
    GST_VAE_TIMES
} GstVaeTime;

/* Percentiles are taken over so many slices. */
#define GST_VAE_RECENT 128

/* Nanoseconds of one kind. */
typedef struct GstVaeTimes {
    guint64 total, last;
    guint64 recent[GST_VAE_RECENT]; /* of slice n at n % GST_VAE_RECENT */
} GstVaeTimes;

typedef struct GstVaeCounters {
    guint64 slices, steps, frames, dropped;
    GstVaeTimes times[GST_VAE_TIMES];
    guint64 nonfinite;
    guint64 nan_steps, recovered_steps;
    gint64 first_us, last_us; /* monotonic: first slice began, last ended */
    gint look_ahead;          /* latents that a frame waits for */
    guint waiting;            /* frames that wait for them */
    VaePlan plan;             /* all zero until a stream is open */
    gchar device[128];        /* its name */
    gchar model[1024];        /* its file */
} GstVaeCounters;

typedef struct GstVaeStats {
    GstElement *element;
    gboolean decodes;
    gboolean post;    /* the property post-stats; under the object lock */
    guint64 interval; /* the property stats-interval; likewise */

    GMutex lock; /* of all that follows; no other is taken while it is held */
    GstVaeCounters counters;
    gint64 posted_us; /* when the message was posted last, or 0 */
} GstVaeStats;

void gst_vae_stats_init(GstVaeStats *stats);
void gst_vae_stats_clear(GstVaeStats *stats);
guint64 gst_vae_stats_interval(GstVaeStats *stats);

void gst_vae_stats_reset(GstVaeStats *stats);
/* The slices that follow run on this stream. */
void gst_vae_stats_stream(GstVaeStats *stats, const VaeStream *stream,
                          const gchar *model, gint look_ahead);
/* So many frames wait for later latents. */
void gst_vae_stats_waiting(GstVaeStats *stats, guint frames);

/* A slice that is done. */
typedef struct GstVaeSliceTime {
    guint steps;
    GstClockTime arrived; /* its first step, by gst_util_get_timestamp() */
    gint64 start_us, end_us;
    VaeStreamStats before, after; /* the stream's numbers around it; a slice
                                     that was cancelled moves them as well */
} GstVaeSliceTime;

/* Counts it, and warns on the bus of the first NaN and infinite values in
 * latents, of steps that were recovered and of steps that could not be. */
void gst_vae_stats_slice(GstVaeStats *stats, const GstVaeSliceTime *slice);
void gst_vae_stats_frames(GstVaeStats *stats, guint n);
/* Counts a dropped frame; returns how many there are. frames: of those made. */
guint64 gst_vae_stats_dropped(GstVaeStats *stats, guint64 *frames);

/* in_flight: steps in the element. (transfer full) */
GstStructure *gst_vae_stats_structure(GstVaeStats *stats, guint in_flight);
/* Posts that where the property asks for it and it is due, or now. */
void gst_vae_stats_post(GstVaeStats *stats, guint in_flight, gboolean now);

G_END_DECLS
#endif
