/*
 * slice.h: the stream of the engine, and slices of steps that run on it. Where
 * the engine computes in the background, the next slice is begun while one
 * runs.
 */
#ifndef GST_VAE_SLICE_H
#define GST_VAE_SLICE_H

#include "call.h"
#include "checkpoint.h"
#include "context.h"
#include "latency.h"
#include "qos.h"
#include "queue.h"
#include "stats.h"

G_BEGIN_DECLS

/* The most steps of one call, whatever slice-size says. */
#define GST_VAE_MAX_SLICE 64

/* Adds the latent and the pictures of a step to a call. */
typedef VaeStatus (*GstVaeAddStep)(GstElement *element, GstVaeCall *call,
                                   GstVaeItem *item, VaeError *error);

/* Steps of one call. */
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

    /* Under the lock of the queue. The worker alone writes these, so it reads
     * them without the lock. */
    VaeStream *stream;      /* others may only cancel */
    GstVaeSession *session; /* that the stream is for */
    gint64 used_us;         /* monotonic: the stream was opened or used last */
    gboolean offloaded;     /* it was released and not used since */

    /* Under the lock of the queue. */
    GstVaeItem *last;   /* the step that the stream stands behind, or NULL */
    gboolean partial;   /* its sequence does not begin with its clip */
    gchar *save_path;   /* a checkpoint is wanted there, or NULL */
    guint64 save_after; /* then: so many steps are taken before */

    /* The worker's alone. */
    GstVaeSlice slices[2];
    GstVaeSlice *running;  /* begun and not waited for, or NULL */
    VaeStreamStats before; /* of calls that have ended */
    gint64 ended_us;       /* when the last one did */
    gint64 step_us;        /* time of the engine for each step */
} GstVaeEngine;

/* Lock held: cancels the call that runs. */
void gst_vae_engine_cancel(GstVaeEngine *engine);
/* Lock held: the stream stands behind no step. */
void gst_vae_engine_forget(GstVaeEngine *engine);

/* All that follows is the worker's. */

/* A stream for session, the one that runs where it fits. No lock. */
VaeStatus gst_vae_engine_open(GstVaeEngine *engine, GstVaeSession *session,
                              VaeError *error);
/* Ends the slice that runs and frees the stream. No lock. */
void gst_vae_engine_close(GstVaeEngine *engine);
/* Takes and runs a slice, behind the one that runs. The head of the work list
 * is a step. Lock held on entry and exit. */
void gst_vae_engine_run(GstVaeEngine *engine);
/* Waits for the slice that runs. Lock held on entry and exit. */
void gst_vae_engine_wait(GstVaeEngine *engine);
/* Frees the memory of the device until the next slice. idle: nobody asked. Lock
 * held on entry and exit. */
void gst_vae_engine_release(GstVaeEngine *engine, gboolean idle);
/* An error of the engine: told on the bus behind the output of all steps
 * before, and the end for all that comes until a flush. No lock. */
void gst_vae_engine_fail(GstVaeEngine *engine, const VaeError *error);

G_END_DECLS
#endif
