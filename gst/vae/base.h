/*
 * base.h: the base of vaedecode and vaeencode.
 *
 *   sink pad --collect--> steps --+--> queue {event | step} --> source pad
 *   sink events ------------------+      |
 *                                        +--> worker (the engine)
 *
 * The chain function converts buffers to steps with all their timestamps, and
 * waits while the queue is full. The worker is the only thread that calls the
 * engine. It runs up to a slice of queued steps in one call and marks them
 * ready. The task of the source pad pushes the head of the queue when it is
 * ready, so that events keep their place among buffers.
 *
 * This header is private to the plugin. element.c has the type, its properties
 * and its states.
 */
#ifndef GST_VAE_BASE_H
#define GST_VAE_BASE_H

#include "context.h"
#include "progress.h"
#include "qos.h"
#include "worker.h"

G_BEGIN_DECLS

/* Properties of the engine's streams, guarded by the object lock. */
typedef struct GstVaeSettings {
    VaeStreamParams params; /* without memory_limit and the size */
    gchar *memory_limit;
    guint64 resume_timeout;
} GstVaeSettings;

/* The model in use, and the model that the application requests. */
typedef struct GstVaeChoice {
    /* Guarded by the object lock. */
    gchar *property;
    gboolean requested;         /* the property was set and not yet used */
    gboolean restart_requested; /* the signal `restart` was emitted */

    /* For the streaming thread of the sink pad, or the thread that stopped it.
     */
    GstVaeModel *model;       /* in use, or NULL */
    const VaeModelInfo *info; /* of model */
    gchar *path;              /* its file */
    gchar *setting;           /* the value of the property at that time */
} GstVaeChoice;

/* The caps and the segment of the input. For the streaming thread of the sink
 * pad, or the thread that stopped it. */
typedef struct GstVaeInput {
    GstSegment segment;
    GstCaps *caps; /* NULL: no valid caps */
    GstCaps *refused_caps;
    GError *late_error;     /* of the caps; the next buffer posts it */
    gchar *refusal;         /* the posted error of a negotiation */
    gboolean no_caps_told;  /* posted: a buffer came before any caps */
    gboolean negative_told; /* posted: a timestamp is negative */
    gboolean tiles_told;    /* posted: a size of tiles has no effect */
    gboolean renegotiate;   /* a flush may have dropped a CAPS event */
    GstTagList *tags;       /* the stream's tags from upstream, or NULL */
    gboolean tags_due;      /* the tags, even if NULL, must be sent */
    GstStructure *group;    /* of the next latent, or NULL; see group.h */
} GstVaeInput;

/* Results that come later than their input, see delay.h. */
typedef struct GstVaeDelay {
    GQueue waiting;         /* GstVaeOut: planned, but not in a step yet */
    guint64 planned, given; /* results of the sequence */
} GstVaeDelay;

typedef struct GstVaeBase {
    GstElement parent;
    GstPad *sinkpad, *srcpad;

    GstVaeSettings settings;
    GstVaeChoice choice;
    GstVaeInput input;
    GstVaeDelay delay;
    GstVaeCheckpoints checkpoints;

    GstVaeQueue queue;
    GstVaeWorker worker;
    GstVaeCuda cuda;
    GstVaeStats stats;
    GstVaeLatency latency;
    GstVaeQos qos;
    GstVaeProgress progress;

    /* The task's active pool, or NULL. Another thread may set it flushing while
     * it holds the lock of the queue, so that an allocation of the task does
     * not block a flush. */
    GstBufferPool *pool;
    /* Start and end of the buffer that left last, or NONE. Guarded by the lock
     * of the queue. */
    GstClockTime position, position_end;
    gboolean mark_discont; /* the next buffer gets the flag DISCONT; for the
                              worker */
    /* Frames of a group that is pushed in reverse order. For the task, or the
     * thread that stopped it. */
    GQueue held;
} GstVaeBase;

typedef struct GstVaeBaseClass GstVaeBaseClass;

struct GstVaeBaseClass {
    GstElementClass parent_class;

    VaeDirection direction;
    GstDebugCategory *category; /* of the element's log */

    /* For the streaming thread: handles the caps of the sink pad and calls
     * gst_vae_base_use_model(). On failure it sets error, except after a flush.
     * negotiate() is called next. */
    gboolean (*set_caps)(GstVaeBase *base, GstCaps *caps, GError **error);
    /* Finds the file if the property names none. (transfer full) */
    gchar *(*find_model)(GstVaeBase *base, GError **error);
    /* Fills a session for the caps of the sink pad and the caps that downstream
     * accepts, except refs and the allocation. Errors are those of set_caps().
     */
    gboolean (*negotiate)(GstVaeBase *base, GstVaeSession *session,
                          GError **error);
    /* For the task: changes the caps of a session without steps in the engine
     * to those that downstream accepts by now. With an error it changes
     * nothing, also for a session that has steps there: the error says why
     * downstream accepts none, and stays NULL for another reason. Optional. */
    gboolean (*adapt)(GstVaeBase *base, GstVaeSession *session, GError **error);
    /* Fills the times of an otherwise complete session. */
    void (*set_times)(GstVaeBase *base, GstVaeSession *session);
    /* Turns one buffer (transfer full) into steps. */
    GstFlowReturn (*collect)(GstVaeBase *base, GstBuffer *buffer);
    /* Ends the sequence and converts the collected buffers to steps. Optional.
     */
    GstFlowReturn (*finish)(GstVaeBase *base);
    /* Drops the collected buffers. The next buffer begins a sequence. */
    void (*restart)(GstVaeBase *base);
    /* For a flush and for the start: does what restart() does, and drops the
     * requests of events. Optional. */
    void (*flush)(GstVaeBase *base);
    /* Upstream requests that the next buffer begins a sequence. Optional: a
     * decoder recognises this in the latents. */
    void (*key_unit)(GstVaeBase *base);
    /* Converts the tags of the input stream to those of the output. Optional.
     * (takes list, which is writable) */
    GstTagList *(*tags)(GstVaeBase *base, GstTagList *list);
    /* Returns the timestamp at which a buffer follows those before, or NONE. */
    GstClockTime (*end)(GstVaeBase *base);
    /* Called if the next timestamps do not continue the old ones: end() is then
     * NONE. */
    void (*segment)(GstVaeBase *base);
    /* Handles an upstream event. Returns TRUE if the event is not forwarded.
     * For any thread. Optional. */
    gboolean (*src_event)(GstVaeBase *base, GstEvent *event);
    void (*propose_allocation)(GstVaeBase *base, GstQuery *query);

    /* For the task of the source pad: handles the answer to an ALLOCATION
     * query.
     */
    void (*decide_allocation)(GstVaeBase *base, GstVaeSession *session,
                              GstQuery *query);

    GstVaeAddStep add_step; /* for the worker; element is a GstVaeBase */
};

#define GST_TYPE_VAE_BASE (gst_vae_base_get_type())
#define GST_VAE_BASE(object) ((GstVaeBase *) (object))
#define GST_VAE_BASE_GET_CLASS(object)                                         \
    G_TYPE_INSTANCE_GET_CLASS(object, GST_TYPE_VAE_BASE, GstVaeBaseClass)
GType gst_vae_base_get_type(void);

/* The GST_CAT_DEFAULT of files that both elements share. It uses the variable
 * `base`. */
#define GST_VAE_BASE_CATEGORY (GST_VAE_BASE_GET_CLASS(base)->category)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstVaeBase, gst_object_unref)

/* The first property id of the subclasses. */
#define GST_VAE_BASE_LAST_PROPERTY 32

/* Called by the instance init of a subclass, whose class has the pad templates.
 * Creates the pads without functions and connects the parts of the element. */
void gst_vae_base_setup(GstVaeBase *base);
/* Sets the session's model to the open one, and its parameters from the
 * properties. Returns FALSE if a property is not valid. */
gboolean gst_vae_base_fill_session(GstVaeBase *base, GstVaeSession *session,
                                   GError **error);
/* Sets the pixel format and memory of the session's pictures for these caps.
 * Later caps may differ. */
void gst_vae_base_set_pictures(GstVaeSession *session,
                               const GstVideoInfo *video, const GstCaps *caps);
/* Converts a timestamp of the current segment to running time, or NONE. For the
 * streaming thread. */
GstClockTime gst_vae_base_running_time(GstVaeBase *base, GstClockTime pts);
/* Ends the sequence: the collected buffers become steps or are dropped. */
gboolean gst_vae_base_finish(GstVaeBase *base);
/* Posts an error and frees it. The message's details contain the model and its
 * latent space. For the streaming thread, or the thread that starts the
 * element.
 */
void gst_vae_base_post(GstVaeBase *base, GError *error);
/* Appends a step to the queue and waits for room. For the streaming thread.
 * (takes item) */
GstFlowReturn gst_vae_base_push_step(GstVaeBase *base, GstVaeItem *item);

G_END_DECLS
#endif
