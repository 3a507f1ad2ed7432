/*
 * base.h: what vaedecode and vaeencode have in common.
 *
 *   sink chain --collect--> steps --+--> FIFO {event | step} --> pad task
 *   sink events --------------------+         ^
 *                                   +--> work list --> worker (the engine)
 *
 * The chain function makes steps out of buffers, with all their timestamps,
 * and waits while the FIFO is full. The worker is the only thread that calls
 * the engine; it runs as many queued steps at once as a slice may have and
 * marks them ready. The task of the source pad pushes what is at the head of
 * the FIFO as soon as it is ready, so events keep their place among buffers.
 *
 * This header is private to the plugin.
 */
#ifndef GST_VAE_BASE_H
#define GST_VAE_BASE_H

#include <gst/gst.h>
#include <gst/video/video.h>

#include "vae-private/stream.h"

#include "latent.h"
#include "models.h"

G_BEGIN_DECLS

/* The most frames or latents one step takes or gives. */
#define GST_VAE_MAX_UNITS 16

/* What the steps between two CAPS events have in common. Made by negotiate()
 * and not changed afterwards, except for the part under the lock. */
typedef struct GstVaeSession {
    gint refs;
    GstCaps *caps;      /* of the source pad */
    GstVideoInfo video; /* the raw side */
    GstVaeLatentInfo latent;
    GstVaeModel *model;
    VaeStreamParams params;
    GstClockTime frame_time;   /* one video frame */
    GstClockTime collect_time; /* last input minus first output timestamp */
    GstClockTime step_time;    /* what a later step covers */

    /* Under the lock of the element. */
    gboolean allocated; /* the allocation query was made */
    GstBufferPool *pool;
    gboolean bounded; /* the pool has no more than so many buffers */
    gboolean clear;   /* rows end in bytes that no pixel has */
    GstAllocator *allocator;
    GstAllocationParams allocation;
} GstVaeSession;

/* One buffer that a step gives. */
typedef struct GstVaeOut {
    GstClockTime pts, duration;
    GstClockTime running, stream; /* running and stream time, for QoS */
    guint64 offset;
    gboolean wanted; /* FALSE: trimmed or outside the segment */
    GstBuffer *buffer;
} GstVaeOut;

/* An event, a step (the buffers that the engine takes at once and those it
 * gives for them), or, in the work list only, a session to open. */
typedef struct GstVaeItem {
    gint refs;
    GstEvent *event;   /* NULL: a step */
    VaeError *opened;  /* not NULL: a session to open; receives the result */
    const gchar *load; /* then: a checkpoint for it, or NULL */
    VaeCheckpoint *loaded;
    GstVaeSession *session;
    guint lap;
    gboolean ready; /* under the lock */
    GstFlowReturn result;
    GstClockTime position; /* stream time of its end, or NONE */

    gboolean start; /* begins a sequence */
    gboolean cold;  /* a later step without a past */
    gboolean discont;
    gboolean partial;         /* begins a sequence, but not its clip */
    gboolean checkpoint;      /* wanted after it */
    guint64 frames;           /* of the sequence, up to its end */
    gboolean gone, delivered; /* under the lock: the task is done with it; all
                                 of it was pushed */
    GstEvent *before;         /* goes out in front of the buffers, or NULL */
    GstClockTime arrived;     /* in the FIFO, by the system's monotonic clock */
    GstClockTime running;     /* of the first buffer that is wanted, or NONE */
    guint n_in, n_out;
    GstBuffer *in[GST_VAE_MAX_UNITS];
    GstVaeOut out[GST_VAE_MAX_UNITS];
} GstVaeItem;

typedef enum {
    GST_VAE_LOAD_NONE,
    GST_VAE_LOAD_WANTED,
    GST_VAE_LOAD_DONE
} GstVaeLoad;

/* What a slice's time goes to. */
typedef enum {
    GST_VAE_TIME_UPLOAD,
    GST_VAE_TIME_COMPUTE,
    GST_VAE_TIME_DOWNLOAD,
    GST_VAE_TIME_QUEUE_WAIT, /* of its first step, before it */
    GST_VAE_TIME_SLICE,      /* the whole call */
    GST_VAE_TIMES
} GstVaeTime;

/* Slices that percentiles are of. */
#define GST_VAE_RECENT 128

/* Nanoseconds of one kind. */
typedef struct GstVaeTimes {
    guint64 total, last;
    guint64 recent[GST_VAE_RECENT]; /* of slice n at n % GST_VAE_RECENT */
} GstVaeTimes;

/* The last steps, as differences to their running times; under the lock. */
#define GST_VAE_LATENCY_STEPS 16

typedef struct GstVaeLatency {
    GstClockTimeDiff in[GST_VAE_LATENCY_STEPS], out[GST_VAE_LATENCY_STEPS];
    guint64 n;             /* steps so far */
    GstClockTime reported; /* of computing, as last told; NONE: never */
    gboolean live;         /* as upstream said then */
} GstVaeLatency;

/* What the property `stats` tells; under the lock. */
typedef struct GstVaeCounters {
    guint64 slices, steps, frames, dropped;
    GstVaeTimes times[GST_VAE_TIMES];
    guint64 nonfinite;
    guint64 nan_steps, mended_steps;
    gint64 first_us, last_us; /* monotonic: first slice began, last ended */
    VaePlan plan;             /* all zero until a stream is open */
    gchar device[128];        /* its name */
} GstVaeCounters;

/* What a warning comes of once in a stream. */
typedef struct GstVaeNans {
    guint64 latents; /* values of latents that are not finite */
    guint64 mended;  /* steps in fp32 instead */
    guint64 spoilt;  /* steps that are not finite in fp32 either */
} GstVaeNans;

/* How far through a file of known length; the task's. */
typedef struct GstVaeProgress {
    gboolean begun;
    gint percent;
    gint64 posted_us;
} GstVaeProgress;

/* Under the object lock. */
typedef struct GstVaeSettings {
    gchar *model, *variant;
    gint backend, precision, cuda_device_id, nan_policy;
    guint slice_size, queue_depth, threads;
    guint64 idle_release, stats_interval;
    gchar *checkpoint_location;
    guint checkpoint_interval;
    gboolean checkpoint_carries;
    gchar *load_checkpoint; /* not yet taken */
    gboolean deterministic, qos, post_stats;
    gboolean switch_wanted;  /* model was set and not yet taken */
    gboolean restart_wanted; /* the signal came */
} GstVaeSettings;

typedef struct GstVaeBase {
    GstElement parent;
    GstPad *sinkpad, *srcpad;
    GstVaeSettings settings;

    /* Streaming thread of the sink pad. */
    GstSegment segment;
    GstCaps *sink_caps; /* NULL: none that hold */
    GstCaps *refused_caps;
    gboolean no_caps_told;    /* the error of a buffer before any */
    gboolean renegotiate;     /* a CAPS event may be lost to a flush */
    GstVaeModel *model;       /* in use, or NULL */
    const VaeModelInfo *info; /* of model */
    gchar *model_path;        /* of its file */
    gchar *model_setting;     /* the property when it was taken */

    GMutex lock; /* guards all that follows */
    GCond cond;  /* any change; waiters look again */

    GQueue fifo;       /* GstVaeItem, for the task */
    GQueue work;       /* of these, the ones the worker has not taken */
    guint n_steps;     /* in the FIFO */
    guint slice_limit; /* steps of a slice, from the plan */
    gboolean flushing;
    guint flushes;          /* so many began */
    gboolean pushing;       /* the task pushes an item that left the FIFO */
    gboolean fatal;         /* after an error: nothing more until a flush */
    GstFlowReturn result;   /* for the chain function */
    guint lap;              /* counts STREAM_START and SEGMENT, from 1 */
    guint discard_lap;      /* the one downstream had enough of, or 0 */
    guint32 seqnum;         /* of the segment */
    GstVaeSession *session; /* of the steps that come in */

    GThread *worker;
    gboolean stop;
    VaeStream *stream;      /* the worker's; others may only cancel */
    GstVaeSession *running; /* the worker's: what the stream is for */
    guint64 queued, taken;  /* steps ever put into the work list, and out */
    gboolean release_wanted;
    guint64 release_after, release_last; /* then: so many steps are to be taken
                                            before the first and last time */
    GstVaeItem *last;    /* the step that the stream stands behind, or NULL */
    gboolean partial;    /* its sequence does not begin with its clip */
    gchar *save_path;    /* a checkpoint is wanted there, or NULL */
    guint64 save_after;  /* then: so many steps are to be taken before */
    gint64 used_us;      /* monotonic: the stream was opened or used last */
    gboolean at_rest;    /* it was released and not used since */
    GstBufferPool *pool; /* the task's: active, or NULL */
    GstVaeProgress progress;

    GstVaeLoad load;
    gchar *load_path, *load_variant;
    VaeError load_error;
    GstVaeModel *loaded; /* of load_path, nobody's yet */

    GstVaeCounters counters;
    gint64 posted_us; /* when stats were posted last */
    GstVaeLatency latency;
    GstClockTime earliest; /* QoS: running time that is still useful */
    gdouble proportion;    /* QoS: how much too slow downstream finds us */
    GstClockTime shown;    /* running time of the last frame made */

    /* cuda/frames.c's. The lock is held while a context is looked for; the rest
     * is under the object lock. */
    GMutex cuda_lock;
    GstObject *cuda_context; /* the pipeline's GstCudaContext, or NULL */
    gpointer cuda_primary;   /* the engine's, held, or NULL */
    gint cuda_device;        /* whose that is */
} GstVaeBase;

typedef struct GstVaeBaseClass GstVaeBaseClass;
typedef struct GstVaeCall GstVaeCall; /* vae/call.h */

struct GstVaeBaseClass {
    GstElementClass parent_class;

    VaeDirection direction;
    GstDebugCategory *category; /* of all that the element logs */

    /* Streaming thread. caps are those of the sink pad; calls
     * gst_vae_base_use_model(). On failure fills error, which stays empty where
     * a flush is the reason. Afterwards negotiate() is called. */
    gboolean (*set_caps)(GstVaeBase *base, GstCaps *caps, GError **error);
    /* The file where the property names none. (transfer full) */
    gchar *(*find_model)(GstVaeBase *base, GError **error);
    /* Fills a session, except refs and the locked part, for the caps of the
     * sink pad and what downstream takes. Errors as above. */
    gboolean (*negotiate)(GstVaeBase *base, GstVaeSession *session,
                          GError **error);
    /* Fills the times of a session, which has all else. */
    void (*set_times)(GstVaeBase *base, GstVaeSession *session);
    /* Turns one buffer (transfer full) into steps. */
    GstFlowReturn (*collect)(GstVaeBase *base, GstBuffer *buffer);
    /* Ends the sequence: what was collected becomes steps now. Optional. */
    GstFlowReturn (*finish)(GstVaeBase *base);
    /* Forgets what was collected; the next buffer begins a sequence. */
    void (*restart)(GstVaeBase *base);
    /* A flush, or before anything comes: besides restart(), forgets what was
     * asked for by events. Optional. */
    void (*flush)(GstVaeBase *base);
    /* Upstream asks for a sequence that begins with what comes next. Optional:
     * a decoder is told by the latents. */
    void (*key_unit)(GstVaeBase *base);
    /* What of a stream's tags holds for what leaves. Takes list, which is
     * writable. Optional. */
    GstTagList *(*tags)(GstVaeBase *base, GstTagList *list);
    /* A new segment: timestamps are counted anew. Optional. */
    void (*segment)(GstVaeBase *base);
    /* TRUE: the upstream event goes no further. Any thread. Optional. */
    gboolean (*src_event)(GstVaeBase *base, GstEvent *event);
    void (*propose_allocation)(GstVaeBase *base, GstQuery *query);

    /* Task of the source pad: the answer to an ALLOCATION query. */
    void (*decide_allocation)(GstVaeBase *base, GstVaeSession *session,
                              GstQuery *query);

    /* Worker: begins a call of n steps of one session, all of one sequence. The
     * call, which is new, is to be cleared when it is done or has failed. */
    VaeStatus (*begin)(GstVaeBase *base, VaeStream *stream, GstVaeItem **items,
                       guint n, GstVaeCall *call, VaeError *error);
};

#define GST_TYPE_VAE_BASE (gst_vae_base_get_type())
#define GST_VAE_BASE(object) ((GstVaeBase *) (object))
#define GST_VAE_BASE_GET_CLASS(object)                                         \
    G_TYPE_INSTANCE_GET_CLASS(object, GST_TYPE_VAE_BASE, GstVaeBaseClass)
GType gst_vae_base_get_type(void);

/* GST_CAT_DEFAULT of the files that both elements share; `base` is in scope. */
#define GST_VAE_BASE_CATEGORY (GST_VAE_BASE_GET_CLASS(base)->category)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstVaeBase, gst_object_unref)

/* vae/base.c */

/* Property ids of the subclasses begin here. */
#define GST_VAE_BASE_LAST_PROPERTY 32
/* Those of report/checkpoint.c here. */
#define GST_VAE_CHECKPOINT_PROPERTIES 64

/* The open model and what the properties say about the stream. */
void gst_vae_base_fill_session(GstVaeBase *base, GstVaeSession *session);

/* vae/switch.c: which model is used, also while a stream runs; streaming
 * thread */

/* Opens the model that the property names, or find_model(), and makes it the
 * one in use. FALSE with error, or without it where a flush came first. */
gboolean gst_vae_base_use_model(GstVaeBase *base, GError **error);
/*
 * Before a step is planned: takes the model that the property was set to
 * meanwhile where a sequence starts here or the signal `restart` came, and says
 * so on the bus. What cannot be taken is a warning, and all stays as it was.
 * cold: the step has no past. pts: of the step, for the message.
 */
GstFlowReturn gst_vae_base_switch(GstVaeBase *base, gboolean start,
                                  GstClockTime pts, gboolean *cold);

/* Puts a stream for the model in use where the checkpoint at path says, and
 * makes its session that of the steps to come. FALSE with error, or without
 * it: a flush or an error came first. Streaming thread. */
gboolean gst_vae_base_load_checkpoint(GstVaeBase *base, const gchar *path,
                                      VaeCheckpoint *out, GError **error);

/* vae/item.c */

GstVaeSession *gst_vae_session_new(void);
GstVaeSession *gst_vae_session_ref(GstVaeSession *session);
void gst_vae_session_unref(GstVaeSession *session); /* NULL is fine */
/* The same with another model: caps and memory are those of session, which has
 * been allocated. Lock held. */
GstVaeSession *gst_vae_session_successor(const GstVaeSession *session,
                                         GstVaeModel *model);
/* TRUE where the stream of a serves b. */
gboolean gst_vae_session_same_stream(const GstVaeSession *a,
                                     const GstVaeSession *b);

GstVaeItem *gst_vae_item_new_event(GstEvent *event, GstVaeSession *session);
GstVaeItem *gst_vae_item_new_step(void);
GstVaeItem *gst_vae_item_new_open(GstVaeSession *session, VaeError *opened);
GstVaeItem *gst_vae_item_ref(GstVaeItem *item);
void gst_vae_item_unref(GstVaeItem *item);

/* vae/queue.c: the FIFO and the task of the source pad */

/* Appends a step of the session that is current; waits for room. Takes
 * item. */
GstFlowReturn gst_vae_queue_push_step(GstVaeBase *base, GstVaeItem *item);
/* Appends a serialized event; never waits. session goes with a CAPS event.
 * Takes event. */
gboolean gst_vae_queue_push_event(GstVaeBase *base, GstEvent *event,
                                  GstVaeSession *session);
/* Waits until all that was queued is pushed; FALSE: a flush or an error came
 * first. */
gboolean gst_vae_queue_drain(GstVaeBase *base);
/* Wakes all that wait and cancels the engine's call. */
void gst_vae_queue_set_flushing(GstVaeBase *base);
/* Empties the FIFO; sticky events are kept on the source pad. */
void gst_vae_queue_clear(GstVaeBase *base, gboolean keep_sticky);
/* FALSE after an error message: there is no thread for it. */
gboolean gst_vae_queue_start(GstVaeBase *base);
void gst_vae_queue_task(gpointer pad);

/* vae/worker.c */

/* FALSE: there is no thread; an error was posted. */
gboolean gst_vae_worker_start(GstVaeBase *base);
void gst_vae_worker_stop(GstVaeBase *base);
/*
 * Has the worker open a model and waits for it, at most until deadline
 * (monotonic microseconds, 0: none) and not while flushing, where that is
 * asked for. Returns VAE_OK, the error, or VAE_ERR_CANCELLED when it stopped
 * waiting; the next call for the same file goes on waiting. out (transfer
 * full): the model, or NULL to leave it for the next call.
 */
VaeStatus gst_vae_worker_load(GstVaeBase *base, const gchar *path,
                              gint64 deadline, gboolean until_flush,
                              GstVaeModel **out, VaeError *error);
/* Has the worker open a session after all steps that wait, and frees the one
 * before. On an error that one goes on. VAE_ERR_CANCELLED: a flush. */
VaeStatus gst_vae_worker_open(GstVaeBase *base, GstVaeSession *session,
                              const gchar *load, VaeCheckpoint *loaded,
                              VaeError *error);

/* report/checkpoint.c: where a stream stands, to a file and back */

/* Property ids from first on, and signals, of a class that calls
 * gst_vae_checkpoint_load(). */
void gst_vae_checkpoint_install(GObjectClass *klass, guint first);
/* FALSE: not one of them. */
gboolean gst_vae_checkpoint_set(GstVaeBase *base, guint id,
                                const GValue *value);
gboolean gst_vae_checkpoint_get(GstVaeBase *base, guint id, GValue *value);
/* The worker's: writes a checkpoint that is wanted, or waits until all frames
 * before it are pushed; FALSE: none is. Lock held on entry and exit. */
gboolean gst_vae_checkpoint_due(GstVaeBase *base);
/* The worker's: after steps of which the last is item. Lock held. */
void gst_vae_checkpoint_stand(GstVaeBase *base, GstVaeItem *item);
/* As if no step had been. Lock held. */
void gst_vae_checkpoint_forget(GstVaeBase *base);
/* Takes the wish of load-checkpoint. (transfer full) */
gchar *gst_vae_checkpoint_take_wish(GstVaeBase *base);

/* report/release.c: device memory given back; any thread */

/* The action signal: once the worker has taken all steps that wait now. */
void gst_vae_release_request(GstVaeBase *base);
/* The worker's: waits for a change and, where it comes too late, releases. Lock
 * held on entry and exit. */
void gst_vae_release_wait(GstVaeBase *base);
/* The worker's: releases where that was asked for and is due; FALSE: not so.
 * Lock held on entry and exit. */
gboolean gst_vae_release_due(GstVaeBase *base);
/* The worker's: takes back what was released. No lock. */
VaeStatus gst_vae_release_undo(GstVaeBase *base, VaeError *error);

/* vae/pads.c: chain, events, queries */

/* Called by the subclass, whose class has the pad templates. */
void gst_vae_pads_init(GstVaeBase *base);
/* Before the pads start: as if nothing had come yet. */
void gst_vae_pads_reset(GstVaeBase *base);
/* A timestamp of the current segment as running time, or NONE. */
GstClockTime gst_vae_pads_running_time(GstVaeBase *base, GstClockTime pts);

/* report/latency.c */

/* As if no step had been. Lock held. */
void gst_vae_latency_reset(GstVaeLatency *latency);
/* Streaming thread: a step that is being queued. */
void gst_vae_latency_arrive(GstVaeBase *base, GstVaeItem *item);
/* Steps that are ready. TRUE: a live pipeline has to hear that the latency is
 * another one by more than a quarter. Lock held. */
gboolean gst_vae_latency_leave(GstVaeBase *base, GstVaeItem **items, guint n);
/* Upstream's answer plus the time from the first timestamp of a group to its
 * last buffer, plus what computing takes. */
gboolean gst_vae_latency_query(GstVaeBase *base, GstQuery *query);

/* report/stats.c */

GstStructure *gst_vae_stats_structure(GstVaeBase *base);
/* Where that is wanted and due, or wanted and now. */
void gst_vae_stats_post(GstVaeBase *base, gboolean now);
/* A slice of the worker's stream that is done; before: the stream's numbers at
 * its start, which a slice that was cancelled has moved on as well. Lock
 * held. */
void gst_vae_stats_count(GstVaeBase *base, GstVaeItem **items, guint n,
                         const VaeStreamStats *before, gint64 start_us,
                         gint64 end_us);

/* Warns of what is new since then: the first NaN and infinite values in
 * latents, steps that were mended, and steps that could not be. The worker's.
 */
void gst_vae_stats_warn(GstVaeBase *base, const GstVaeNans *before);
GstVaeNans gst_vae_stats_nans(const GstVaeBase *base); /* Lock held. */

/* report/progress.c */

void gst_vae_progress_post(GstVaeBase *base, GstProgressType type,
                           const gchar *code, const gchar *format, ...)
    G_GNUC_PRINTF(4, 5);
/* How the load of a model ended; NULL: badly. */
void gst_vae_progress_loaded(GstVaeBase *base, const gchar *path,
                             const GstVaeModel *model);
/* How the opening of a stream ended; NULL: badly. */
void gst_vae_progress_opened(GstVaeBase *base, const VaeStreamParams *params,
                             const VaePlan *plan);
/* The task's: this much of the input is through. */
void gst_vae_progress_at(GstVaeBase *base, GstClockTime position);
/* How that ended; does nothing where nothing was told. The task's, or when it
 * is gone. */
void gst_vae_progress_end(GstVaeBase *base, GstProgressType type,
                          const gchar *why);

G_END_DECLS
#endif
