/*
 * worker.h: the only thread of an element that calls the engine. It opens
 * models and sessions, runs slices, writes checkpoints and frees device memory.
 */
#ifndef GST_VAE_WORKER_H
#define GST_VAE_WORKER_H

#include "load.h"
#include "slice.h"

G_BEGIN_DECLS

typedef struct GstVaeWorker {
    GstVaeQueue *queue;
    GThread *thread;      /* changed only by changes of the element's state */
    guint64 idle_release; /* the property; guarded by the object lock */

    GstVaeLoader loader;
    GstVaeEngine engine;

    /* Guarded by the lock of the queue. */
    gboolean release_requested;
    guint64 release_after; /* number of taken steps at the first request */
    guint64 release_last;  /* number of taken steps at the last request */
    gboolean awaited;      /* a thread waits for the session that is opened */
} GstVaeWorker;

/* Returns FALSE, after posting an error, if the thread cannot be created. */
gboolean gst_vae_worker_start(GstVaeWorker *worker);
void gst_vae_worker_stop(GstVaeWorker *worker);
/* Drops all requests. The thread must have ended. */
void gst_vae_worker_reset(GstVaeWorker *worker);

/* Lets the worker open a session after all waiting steps and free the previous
 * one. After an error the previous session continues. load: file of a
 * checkpoint for the new session, or NULL. Returns VAE_ERR_CANCELLED after a
 * flush. */
VaeStatus gst_vae_worker_open(GstVaeWorker *worker, GstVaeSession *session,
                              const gchar *load, VaeCheckpoint *loaded,
                              VaeError *error);

/* Returns TRUE if no thread needs the session that is opened: the element
 * stops, or a flush came and only a thread waits for the session. For any
 * thread. */
gboolean gst_vae_worker_gives_up(GstVaeWorker *worker);

/* Frees the device memory after all waiting steps were taken. For any thread.
 */
void gst_vae_worker_release(GstVaeWorker *worker);
/* Writes a checkpoint after all waiting steps were pushed. For any thread. */
void gst_vae_worker_save(GstVaeWorker *worker, const gchar *path);

G_END_DECLS
#endif
