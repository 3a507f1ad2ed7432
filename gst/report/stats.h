/*
 * stats.h: the property `stats`, the message `vae-stats` and the warnings about
 * NaN and infinite values.
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
    GST_VAE_TIME_QUEUE_WAIT, /* wait of its first step in the queue */
    GST_VAE_TIME_SLICE,      /* the whole call */
    GST_VAE_TIMES
} GstVaeTime;

/* The number of slices over which percentiles are computed. */
#define GST_VAE_RECENT 128

/* The times of one kind in nanoseconds. */
typedef struct GstVaeTimes {
    guint64 total, last;
    guint64 recent[GST_VAE_RECENT]; /* of slice n at n % GST_VAE_RECENT */
} GstVaeTimes;

typedef struct GstVaeCounters {
    guint64 slices, steps, frames, dropped;
    GstVaeTimes times[GST_VAE_TIMES];
    guint64 nonfinite;
    guint64 nan_steps, recovered_steps;
    gint64 first_us, last_us; /* monotonic: begin of the first, end of the last
                                 slice */
    gint look_ahead;          /* later steps that a result waits for */
    guint waiting;            /* results that wait for later steps */
    VaePlan plan;             /* all zero until a stream is open */
    gchar device[128];        /* name of the device */
    gchar model[1024];        /* file of the model */
} GstVaeCounters;

typedef struct GstVaeStats {
    GstElement *element;
    gboolean decodes;
    gboolean post; /* the property post-stats; guarded by the object lock */
    guint64
        interval; /* the property stats-interval; guarded by the object lock */

    GMutex lock; /* guards the members below; its holder takes no other lock */
    gboolean begun; /* the element has left READY at some time */
    GstVaeCounters counters;
    gint64 posted_us; /* time of the last message, or 0 */
} GstVaeStats;

void gst_vae_stats_init(GstVaeStats *stats);
void gst_vae_stats_clear(GstVaeStats *stats);
guint64 gst_vae_stats_interval(GstVaeStats *stats);

/* The element leaves READY. */
void gst_vae_stats_begin(GstVaeStats *stats);
/* Sets the stream of the next slices. */
void gst_vae_stats_stream(GstVaeStats *stats, const VaeStream *stream,
                          const gchar *model, gint look_ahead);
/* Sets the number of results that wait for later steps. */
void gst_vae_stats_waiting(GstVaeStats *stats, guint results);

/* A finished slice. */
typedef struct GstVaeSliceTime {
    const gchar *source; /* file of its input, or NULL */
    guint steps;
    GstClockTime arrived; /* of its first step, by gst_util_get_timestamp() */
    gint64 start_us, end_us;
    VaeStreamStats before, after; /* the stream's statistics, which a cancelled
                                     slice changes, too */
} GstVaeSliceTime;

/* Counts a slice. Posts a warning about the first NaN or infinite values in
 * latents, about recovered steps, and about steps that could not be recovered.
 */
void gst_vae_stats_slice(GstVaeStats *stats, const GstVaeSliceTime *slice);
void gst_vae_stats_frames(GstVaeStats *stats, guint n);
/* Counts a dropped frame and returns their number. *frames: the number of
 * frames that were computed. */
guint64 gst_vae_stats_dropped(GstVaeStats *stats, guint64 *frames);

/* Returns a structure without fields if the element has never left READY: a
 * list of its properties would be full of zeros. in_flight: steps in the
 * element. (transfer full) */
GstStructure *gst_vae_stats_structure(GstVaeStats *stats, guint in_flight);
/* Posts the statistics if the property asks for it and a message is due, or at
 * once with `now`. */
void gst_vae_stats_post(GstVaeStats *stats, guint in_flight, gboolean now);

G_END_DECLS
#endif
