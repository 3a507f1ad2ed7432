/*
 * base.h: the base of vaedecode and vaeencode.
 *
 *   sink pad --collect--> steps --+--> queue {event | step} --> source pad
 *   sink events ------------------+      |
 *                                        +--> worker (the engine)
 *
 * The chain function makes steps out of buffers, with all their timestamps,
 * and waits while the queue is full. The worker is the only thread that calls
 * the engine; it runs as many queued steps at once as a slice may have and
 * marks them ready. The task of the source pad pushes the head of the queue
 * as soon as it is ready, so events keep their place among buffers.
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

/* Properties that go into the streams of the engine; under the object lock. */
typedef struct GstVaeSettings {
    gint precision, nan_policy, spill;
    guint slice_size, threads;
    gboolean deterministic;
    gchar *memory_limit;
    guint64 resume_timeout;
} GstVaeSettings;

/* The model that is used, and the one that the application wants. */
typedef struct GstVaeChoice {
    /* Under the object lock. */
    gchar *property;
    gboolean wanted;         /* it was set and not yet taken */
    gboolean restart_wanted; /* the signal `restart` came */

    /* Streaming thread of the sink pad, or the thread that has stopped it. */
    GstVaeModel *model;       /* in use, or NULL */
    const VaeModelInfo *info; /* of model */
    gchar *path;              /* of its file */
    gchar *setting;           /* the property when it was taken */
} GstVaeChoice;

/* Caps and segment that came in. Streaming thread of the sink pad, or the
 * thread that has stopped it. */
typedef struct GstVaeInput {
    GstSegment segment;
    GstCaps *caps; /* NULL: none that hold */
    GstCaps *refused_caps;
    GError *no_model;       /* no file for the caps, not posted yet */
    gchar *refusal;         /* the error of a negotiation, posted already */
    gboolean no_caps_told;  /* the error of a buffer before any */
    gboolean negative_told; /* the warning of a negative time */
    gboolean renegotiate;   /* a CAPS event may be lost to a flush */
    GstTagList *tags;       /* of the stream, from upstream, or NULL */
    gboolean tags_due;      /* they have to be sent, even if there are none */
} GstVaeInput;

typedef struct GstVaeBase {
    GstElement parent;
    GstPad *sinkpad, *srcpad;

    GstVaeSettings settings;
    GstVaeChoice choice;
    GstVaeInput input;
    GstVaeCheckpoints checkpoints;

    GstVaeQueue queue;
    GstVaeWorker worker;
    GstVaeCuda cuda;
    GstVaeStats stats;
    GstVaeLatency latency;
    GstVaeQos qos;
    GstVaeProgress progress;

    /* The task's: active, or NULL. Others, with the lock of the queue, may make
     * it flush, so that the task's allocation and a flush exclude each
     * other. */
    GstBufferPool *pool;
    /* The task's, or the thread's that has stopped it: frames of a group that
     * goes out backwards, the last one first. */
    GQueue held;
} GstVaeBase;

typedef struct GstVaeBaseClass GstVaeBaseClass;

struct GstVaeBaseClass {
    GstElementClass parent_class;

    VaeDirection direction;
    GstDebugCategory *category; /* of all that the element logs */

    /* Streaming thread. caps are those of the sink pad; calls
     * gst_vae_base_use_model(). On failure fills error, which stays empty if a
     * flush is the reason. Afterwards negotiate() is called. */
    gboolean (*set_caps)(GstVaeBase *base, GstCaps *caps, GError **error);
    /* The file where the property names none. (transfer full) */
    gchar *(*find_model)(GstVaeBase *base, GError **error);
    /* Fills a session, except refs and its memory, for the caps of the sink pad
     * and what downstream takes. Errors as above. */
    gboolean (*negotiate)(GstVaeBase *base, GstVaeSession *session,
                          GError **error);
    /* Fills the times of a session, which has all else. */
    void (*set_times)(GstVaeBase *base, GstVaeSession *session);
    /* Turns one buffer (transfer full) into steps. */
    GstFlowReturn (*collect)(GstVaeBase *base, GstBuffer *buffer);
    /* Ends the sequence: the buffers that were collected become steps.
     * Optional. */
    GstFlowReturn (*finish)(GstVaeBase *base);
    /* Drops the buffers that were collected; the next one begins a sequence. */
    void (*restart)(GstVaeBase *base);
    /* A flush, or before anything comes: besides restart(), drops the requests
     * of events. Optional. */
    void (*flush)(GstVaeBase *base);
    /* Upstream asks for a sequence that begins with the next buffer. Optional:
     * a decoder is told by the latents. */
    void (*key_unit)(GstVaeBase *base);
    /* The tags of a stream that hold for the output. Takes list, which is
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

    GstVaeAddStep add_step; /* the worker's; element is a GstVaeBase */
};

#define GST_TYPE_VAE_BASE (gst_vae_base_get_type())
#define GST_VAE_BASE(object) ((GstVaeBase *) (object))
#define GST_VAE_BASE_GET_CLASS(object)                                         \
    G_TYPE_INSTANCE_GET_CLASS(object, GST_TYPE_VAE_BASE, GstVaeBaseClass)
GType gst_vae_base_get_type(void);

/* GST_CAT_DEFAULT of the files that both elements share; `base` is in scope. */
#define GST_VAE_BASE_CATEGORY (GST_VAE_BASE_GET_CLASS(base)->category)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstVaeBase, gst_object_unref)

/* Property ids of the subclasses begin here. */
#define GST_VAE_BASE_LAST_PROPERTY 32

/* Called by the instance init of a subclass, whose class has the pad templates:
 * makes the pads, without functions, and ties the parts together. */
void gst_vae_base_setup(GstVaeBase *base);
/* The open model and what the properties say about the stream. FALSE: a
 * property is not valid. */
gboolean gst_vae_base_fill_session(GstVaeBase *base, GstVaeSession *session,
                                   GError **error);
/* The session's pictures, of these caps. Those of later caps may be others. */
void gst_vae_base_set_pictures(GstVaeSession *session,
                               const GstVideoInfo *video, const GstCaps *caps);
/* A timestamp of the current segment as running time, or NONE. Streaming
 * thread. */
GstClockTime gst_vae_base_running_time(GstVaeBase *base, GstClockTime pts);
/* Posts error and frees it; its details have the model and its latent space.
 * Streaming thread, or the one that starts the element. */
void gst_vae_base_post(GstVaeBase *base, GError *error);
/* Appends a step to the queue; waits for room. Takes item. Streaming thread. */
GstFlowReturn gst_vae_base_push_step(GstVaeBase *base, GstVaeItem *item);

G_END_DECLS
#endif
