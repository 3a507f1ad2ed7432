/*
 * worker.h: the one thread of an element that calls the engine. It opens models
 * and sessions, runs slices, writes checkpoints and frees the memory of the
 * device.
 */
#ifndef GST_VAE_WORKER_H
#define GST_VAE_WORKER_H

#include "load.h"
#include "slice.h"

G_BEGIN_DECLS

typedef struct GstVaeWorker {
    GstVaeQueue *queue;
    GThread *thread;      /* used while the element changes its state */
    guint64 idle_release; /* the property; under the object lock */

    GstVaeLoader loader;
    GstVaeEngine engine;

    /* Under the lock of the queue. */
    gboolean release_wanted;
    guint64 release_after; /* steps taken before the first release, */
    guint64 release_last;  /* and before the last one */
} GstVaeWorker;

/* FALSE: there is no thread; an error was posted. */
gboolean gst_vae_worker_start(GstVaeWorker *worker);
void gst_vae_worker_stop(GstVaeWorker *worker);
/* Drops all requests. The thread is gone. */
void gst_vae_worker_reset(GstVaeWorker *worker);

/* Has the worker open a session after all steps that wait, and frees the one
 * before. On an error that one goes on. load: a checkpoint for it, or NULL.
 * VAE_ERR_CANCELLED: a flush. */
VaeStatus gst_vae_worker_open(GstVaeWorker *worker, GstVaeSession *session,
                              const gchar *load, VaeCheckpoint *loaded,
                              VaeError *error);

/* Once all steps that wait now are taken: frees the memory of the device. Any
 * thread. */
void gst_vae_worker_release(GstVaeWorker *worker);
/* Once they are pushed: writes a checkpoint. Any thread. */
void gst_vae_worker_save(GstVaeWorker *worker, const gchar *path);

G_END_DECLS
#endif
