/*
 * queue.h: steps and events between the sink pad, the worker and the source
 * pad.
 *
 *   sink pad --> fifo {event | step} --> task of the source pad
 *          \--> work {step | CAPS or EOS | session to open} --> worker
 *
 * The fifo keeps the order of events and steps. Steps, CAPS events and EOS are
 * in both lists. EOS is ready when the worker has told the doubts of the
 * sequence. The task waits until the head of the fifo is ready. The sink pad
 * waits until the queue has room.
 */
#ifndef GST_VAE_QUEUE_H
#define GST_VAE_QUEUE_H

#include "item.h"

G_BEGIN_DECLS

typedef struct GstVaeQueue {
    GstElement *element;
    guint depth; /* the property queue-depth; guarded by the object lock */

    /* One lock guards the queue, the worker and the pool of the source pad. The
     * sink pad waits for room or a flush. The task waits for a step, a flush or
     * an error. The worker waits for steps, a pool, a load, a checkpoint, a
     * release, a flush or its end. Each of them waits with g_cond_wait(). Every
     * change is a broadcast, after which the waiting threads check again. A
     * thread that holds this lock may take the object lock and the locks of
     * stats, latency and QoS. */
    GMutex lock;
    GCond cond;

    GQueue fifo;       /* GstVaeItem, for the task */
    guint n_steps;     /* steps in the fifo */
    gboolean pushing;  /* the task is pushing an item that left the fifo */
    GQueue work;       /* GstVaeItem, for the worker */
    guint64 queued;    /* steps that were added to work, in total */
    guint64 taken;     /* steps that were taken from work, in total */
    guint slice_limit; /* most steps of a slice by the plan; 0: unknown */
    gboolean hidden;   /* the newest step gives no frame */

    gboolean stop; /* the worker must end */
    gboolean flushing;
    guint flushes;        /* number of flushes so far */
    gboolean fatal;       /* an error: the queue takes no input until a flush */
    GstFlowReturn result; /* result for the sink pad */
    guint segment_id;     /* counts STREAM_START and SEGMENT, from 1 */
    guint discarded;      /* segment that downstream ended with EOS, or 0 */
    guint32 seqnum;       /* seqnum of the segment */
    GstVaeSession *session; /* session of the next steps, or NULL */
} GstVaeQueue;

void gst_vae_queue_init(GstVaeQueue *queue);
/* Frees what the queue holds. The queue must be empty and not in use. */
void gst_vae_queue_clear(GstVaeQueue *queue);
/* Resets the queue to its first state. The lists must be empty. */
void gst_vae_queue_reset(GstVaeQueue *queue);

/* Functions for the sink pad. */

/* Appends a step to the current session. Waits for room. (takes item) */
GstFlowReturn gst_vae_queue_push_step(GstVaeQueue *queue, GstVaeItem *item);
/* Appends a serialized event without waiting. session: for a CAPS event only.
 * (takes event) */
gboolean gst_vae_queue_push_event(GstVaeQueue *queue, GstEvent *event,
                                  GstVaeSession *session);
/* Waits until all queued items are pushed. Returns FALSE if a flush or an error
 * came first. */
gboolean gst_vae_queue_drain(GstVaeQueue *queue);
gboolean gst_vae_queue_is_flushing(GstVaeQueue *queue);
/* Returns GST_FLOW_FLUSHING during a flush, else the result for the sink pad.
 */
GstFlowReturn gst_vae_queue_result(GstVaeQueue *queue);
/* Sets the session of the next steps and returns the previous one. (takes
 * session, transfer full) */
GstVaeSession *gst_vae_queue_set_session(GstVaeQueue *queue,
                                         GstVaeSession *session);
/* Returns the current session with another model. Waits until the session's
 * allocation is known. Returns NULL if a flush or an error came first.
 * (transfer full) */
GstVaeSession *gst_vae_queue_successor(GstVaeQueue *queue, GstVaeModel *model);
/* Sets the seqnum of the next segment. Returns the result for the sink pad. */
GstFlowReturn gst_vae_queue_set_seqnum(GstVaeQueue *queue, guint32 seqnum);

/* Functions for any thread. */

/* Durations of the current session: one video frame, the last input minus the
 * first output timestamp, and a slice. They are 0 without a session. */
typedef struct GstVaeQueueTimes {
    GstClockTime frame, collect, slice;
    gint look_ahead; /* steps for which a result waits */
    GstVaeDecoderFacts decoder;
} GstVaeQueueTimes;
GstVaeQueueTimes gst_vae_queue_times(GstVaeQueue *queue);
/* Returns the number of slices that may wait. */
guint gst_vae_queue_depth(GstVaeQueue *queue);
/* Returns the number of steps in the element. */
guint gst_vae_queue_n_steps(GstVaeQueue *queue);

/* The caller of the functions below holds the lock, unless a comment says
 * otherwise. */

/* Empties both lists and returns the items of the fifo. */
GQueue gst_vae_queue_take_all(GstVaeQueue *queue);
/* Begins a flush and wakes all waiting threads. */
void gst_vae_queue_set_flushing(GstVaeQueue *queue);
void gst_vae_queue_start(GstVaeQueue *queue);
/* Returns TRUE if downstream no longer needs the step. */
gboolean gst_vae_queue_is_unwanted(const GstVaeQueue *queue,
                                   const GstVaeItem *item);
/* For the task: waits for the next item that can be pushed. Returns NULL during
 * a flush. Sets *unwanted if downstream no longer needs the item. */
GstVaeItem *gst_vae_queue_next(GstVaeQueue *queue, gboolean *unwanted);
/* For the worker: takes the waiting steps that can be in one call, at most a
 * slice. The first step of a sequence is in a call of its own, so that its
 * picture leaves at once and the later slices are whole. The head of the work
 * list must be a step. */
guint gst_vae_queue_take_slice(GstVaeQueue *queue, GstVaeItem **items);
/* Returns the number of steps at the head of the work list that continue the
 * step `before`. Sets *whole if no further step can join them. */
guint gst_vae_queue_count_behind(GstVaeQueue *queue, const GstVaeItem *before,
                                 gboolean *whole);

/* Returns TRUE if an error has ended the queue. Also returns the number of
 * flushes so far and the segment's seqnum; both may be NULL. The caller does
 * not hold the lock. */
gboolean gst_vae_queue_is_fatal(GstVaeQueue *queue, guint *flushes,
                                guint32 *seqnum);
/* Refuses all input until a flush. flushes: the number of flushes before the
 * error was posted; if there was another flush since, this does nothing. item:
 * the item that the task could not push, or NULL if the worker failed. The
 * caller does not hold the lock. */
void gst_vae_queue_end(GstVaeQueue *queue, const GstVaeItem *item,
                       GstFlowReturn ret, guint flushes);
/* For the task: sets the result for the sink pad. The caller does not hold the
 * lock. */
void gst_vae_queue_set_result(GstVaeQueue *queue, GstFlowReturn ret);
/* For the task: it has handled an item of gst_vae_queue_next(). The caller does
 * not hold the lock. */
void gst_vae_queue_pushed(GstVaeQueue *queue, GstVaeItem *item,
                          gboolean delivered);

G_END_DECLS
#endif
