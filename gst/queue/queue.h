/*
 * queue.h: steps and events between the sink pad, the worker and the source
 * pad.
 *
 *   sink pad --> fifo {event | step} --> task of the source pad
 *          \--> work {step | CAPS event | session to open} --> worker
 *
 * The fifo keeps events at their place among steps. Steps and CAPS events are
 * in both lists; the task waits for the head of the fifo to be ready, the sink
 * pad for room.
 */
#ifndef GST_VAE_QUEUE_H
#define GST_VAE_QUEUE_H

#include "item.h"

G_BEGIN_DECLS

typedef struct GstVaeQueue {
    GstElement *element;
    guint depth; /* the property queue-depth; under the object lock */

    /* One lock for the queue, the worker and the pool of the source pad: the
     * sink pad waits for room or a flush; the task for a step, a flush or an
     * error; the worker for steps, a pool, a load, a checkpoint, a release, a
     * flush or its end. Each of these waits is one g_cond_wait(). A change of
     * any of it is a broadcast, upon which waiters look again. The object lock
     * and those of stats, latency and QoS may be taken while it is held. */
    GMutex lock;
    GCond cond;

    GQueue fifo;       /* GstVaeItem, for the task */
    guint n_steps;     /* in the fifo */
    gboolean pushing;  /* the task pushes an item that left the fifo */
    GQueue work;       /* GstVaeItem, for the worker */
    guint64 queued;    /* steps ever put into work */
    guint64 taken;     /* steps ever taken out of it */
    guint slice_limit; /* steps of a slice, from the plan; 0: not known */

    gboolean stop; /* the worker ends: nothing more is done */
    gboolean flushing;
    guint flushes;          /* so many began */
    gboolean fatal;         /* after an error: nothing more until a flush */
    GstFlowReturn result;   /* for the sink pad */
    guint segment_id;       /* counts STREAM_START and SEGMENT, from 1 */
    guint discarded;        /* id that downstream had enough of, or 0 */
    guint32 seqnum;         /* of the segment */
    GstVaeSession *session; /* of the steps that come in, or NULL */
} GstVaeQueue;

void gst_vae_queue_init(GstVaeQueue *queue);
/* It is empty and nobody uses it any more. */
void gst_vae_queue_clear(GstVaeQueue *queue);
/* As if nothing had come yet; the lists are empty. */
void gst_vae_queue_reset(GstVaeQueue *queue);

/* The sink pad's. */

/* Appends a step of the session that is current; waits for room. Takes
 * item. */
GstFlowReturn gst_vae_queue_push_step(GstVaeQueue *queue, GstVaeItem *item);
/* Appends a serialized event; never waits. session goes with a CAPS event.
 * Takes event. */
gboolean gst_vae_queue_push_event(GstVaeQueue *queue, GstEvent *event,
                                  GstVaeSession *session);
/* Waits until all that was queued is pushed; FALSE: a flush or an error came
 * first. */
gboolean gst_vae_queue_drain(GstVaeQueue *queue);
gboolean gst_vae_queue_is_flushing(GstVaeQueue *queue);
/* GST_FLOW_FLUSHING, or the result for the sink pad. */
GstFlowReturn gst_vae_queue_result(GstVaeQueue *queue);
/* Makes session, taken, that of the steps to come, and returns the one
 * before. (transfer full) */
GstVaeSession *gst_vae_queue_set_session(GstVaeQueue *queue,
                                         GstVaeSession *session);
/* The current session with another model, once its memory is known; NULL: a
 * flush or an error came first. (transfer full) */
GstVaeSession *gst_vae_queue_successor(GstVaeQueue *queue, GstVaeModel *model);
/* A segment of this seqnum comes; returns the result so far. */
GstFlowReturn gst_vae_queue_set_seqnum(GstVaeQueue *queue, guint32 seqnum);

/* Any thread's. */

/* Durations of the current session, 0 without one: one video frame; the last
 * input minus the first output timestamp; a slice. */
typedef struct GstVaeQueueTimes {
    GstClockTime frame, collect, slice;
    gint look_ahead; /* of a decoder: latents */
} GstVaeQueueTimes;
GstVaeQueueTimes gst_vae_queue_times(GstVaeQueue *queue);
/* How many slices may wait. */
guint gst_vae_queue_depth(GstVaeQueue *queue);
/* Steps in the element. */
guint gst_vae_queue_n_steps(GstVaeQueue *queue);

/* The lock is held on entry and exit of all that follows, unless it says
 * otherwise. */

/* Empties both lists and returns the items of the fifo. */
GQueue gst_vae_queue_take_all(GstVaeQueue *queue);
/* Wakes all that wait. */
void gst_vae_queue_set_flushing(GstVaeQueue *queue);
void gst_vae_queue_start(GstVaeQueue *queue);
/* TRUE: nobody wants the step any more. */
gboolean gst_vae_queue_is_unwanted(const GstVaeQueue *queue,
                                   const GstVaeItem *item);
/* The task's: waits for the next item that can go out; NULL: a flush.
 * *unwanted: downstream wants no more of it. */
GstVaeItem *gst_vae_queue_next(GstVaeQueue *queue, gboolean *unwanted);
/* The worker's: takes up to max steps that go into one call: those that wait,
 * up to the slice size. The first of a sequence goes alone, so that its picture
 * leaves at once and the slices after it are whole. The head of the work list
 * is a step. */
guint gst_vae_queue_take_slice(GstVaeQueue *queue, GstVaeItem **items,
                               guint max);
/* Steps at the head of the work list that could be begun behind the one
 * before. *whole: no more can come. */
guint gst_vae_queue_count_behind(GstVaeQueue *queue, const GstVaeItem *before,
                                 gboolean *whole);

/* TRUE: an error has ended the queue. Also returns the number of flushes so far
 * and the seqnum of the segment (NULL is fine). No lock. */
gboolean gst_vae_queue_is_fatal(GstVaeQueue *queue, guint *flushes,
                                guint32 *seqnum);
/* Ends all that comes until a flush, unless one came meanwhile: flushes is how
 * many there were before the bus was told. item: the task could not push it;
 * NULL: the worker failed. No lock. */
void gst_vae_queue_end(GstVaeQueue *queue, const GstVaeItem *item,
                       GstFlowReturn ret, guint flushes);
/* The task's: sets the result for the sink pad. No lock. */
void gst_vae_queue_set_result(GstVaeQueue *queue, GstFlowReturn ret);
/* The task's: it is done with an item of gst_vae_queue_next(). No lock. */
void gst_vae_queue_pushed(GstVaeQueue *queue, GstVaeItem *item,
                          gboolean delivered);

G_END_DECLS
#endif
