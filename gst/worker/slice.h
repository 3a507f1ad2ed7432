/*
 * slice.h: the engine's stream, and the slices of steps that run on it. If the
 * engine computes in the background, the next slice begins while one runs.
 */
#ifndef GST_VAE_SLICE_H
#define GST_VAE_SLICE_H

#include "call.h"
#include "checkpoint.h"
#include "context.h"
#include "latency.h"
#include "params.h"
#include "qos.h"
#include "queue.h"
#include "stats.h"

G_BEGIN_DECLS

/* Adds the latent and the pictures of a step to a call. */
typedef VaeStatus (*GstVaeAddStep)(GstElement *element, GstVaeCall *call,
                                   GstVaeItem *item, VaeError *error);

/* The steps of one call. */
typedef struct GstVaeSlice {
    GstVaeItem *items[GST_VAE_MAX_SLICE];
    guint n;
    GstVaeCall call;
    gint64 start_us;
} GstVaeSlice;

/* The stream of the worker and the slices that run on it. */
typedef struct GstVaeEngine {
    GstElement *element;
    GstDebugCategory *category;
    gboolean decodes;
    GstVaeAddStep add_step;
    GstVaeCuda *cuda;
    GstVaeQueue *queue;
    GstVaeStats *stats;
    GstVaeLatency *latency;
    GstVaeQos *qos;
    GstVaeCheckpoints *checkpoints;

    /* Guarded by the lock of the queue. Only the worker writes these members,
     * so that it may read them without the lock. */
    VaeStream *stream;      /* other threads may only cancel it */
    GstVaeSession *session; /* the stream's session */
    gint64 used_us;         /* monotonic time of the stream's last use */
    gboolean offloaded;     /* its memory was released and not used since */

    /* Guarded by the lock of the queue. */
    GstVaeItem *last;     /* the last step that the stream ran, or NULL */
    gboolean partial;     /* its sequence began inside a clip */
    gchar *save_path;     /* file of a requested checkpoint, or NULL */
    guint64 save_after;   /* number of taken steps at which to write it */
    gboolean save_quiet;  /* no WARNING if it fails: the last one failed */
    gboolean save_failed; /* the last checkpoint was not written */

    /* Used by the worker only. */
    GstVaeSlice slices[2];
    GstVaeSlice *running;  /* the slice that runs, or NULL */
    VaeStreamStats before; /* statistics up to the last finished call */
    gint64 ended_us;       /* time at which that call ended */
    gint64 step_us;        /* the engine's time for a step */
    guint doubt;           /* hash of the last doubt that was posted, or 0 */
    gchar *source;         /* file of the sequence, or NULL */
} GstVaeEngine;

/* Cancels the running call. The caller holds the lock. */
void gst_vae_engine_cancel(GstVaeEngine *engine);
/* Forgets the last step of the stream. The caller holds the lock. */
void gst_vae_engine_forget(GstVaeEngine *engine);

/* Only the worker calls the functions below. */

/* Opens a stream for session, or keeps the current one if it can serve the
 * session. The caller does not hold the lock. */
VaeStatus gst_vae_engine_open(GstVaeEngine *engine, GstVaeSession *session,
                              VaeError *error);
/* Ends the running slice and frees the stream. The caller does not hold the
 * lock.
 */
void gst_vae_engine_close(GstVaeEngine *engine);
/* Takes a slice and runs it after the one that runs. The head of the work list
 * must be a step. The caller holds the lock. */
void gst_vae_engine_run(GstVaeEngine *engine);
/* Waits for the running slice. The caller holds the lock. */
void gst_vae_engine_wait(GstVaeEngine *engine);
/* Tells the doubts of the sequence that ends. The caller holds the lock. */
void gst_vae_engine_end(GstVaeEngine *engine);
/* Frees the device memory until the next slice. idle: the property idle-release
 * caused it. The caller holds the lock. */
void gst_vae_engine_release(GstVaeEngine *engine, gboolean idle);
/* Handles an error of the engine: posts it after the output of all earlier
 * steps, and refuses input until a flush. The error's details have the model of
 * session, which may be NULL. The caller does not hold the lock. */
void gst_vae_engine_fail(GstVaeEngine *engine, const GstVaeSession *session,
                         const VaeError *error);

G_END_DECLS
#endif
