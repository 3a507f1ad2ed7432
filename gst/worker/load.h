/*
 * load.h: the worker opens a model while another thread waits for it.
 */
#ifndef GST_VAE_LOAD_H
#define GST_VAE_LOAD_H

#include "queue.h"

G_BEGIN_DECLS

typedef enum {
    GST_VAE_LOAD_NONE,
    GST_VAE_LOAD_REQUESTED,
    GST_VAE_LOAD_DONE
} GstVaeLoadState;

/* Guarded by the lock of the queue, unless a comment says otherwise. */
typedef struct GstVaeLoader {
    GstElement *element;
    GstDebugCategory *category;
    GstVaeQueue *queue;
    gchar *variant; /* the property; guarded by the object lock */

    GstVaeLoadState state;
    gchar *path, *path_variant; /* of the last request */
    VaeError error;
    GstVaeModel *model; /* the loaded model until it is taken, or NULL */
} GstVaeLoader;

void gst_vae_loader_reset(GstVaeLoader *loader);

/*
 * Lets the worker open a model and waits for it until `deadline` (monotonic
 * microseconds; 0: no limit). until_flush: a flush ends the wait, too. Returns
 * VAE_OK, an error, or VAE_ERR_CANCELLED if the wait ended early. The next call
 * for the same file continues to wait. out: receives the model (transfer full);
 * NULL keeps it for the next call.
 */
VaeStatus gst_vae_loader_load(GstVaeLoader *loader, const gchar *path,
                              gint64 deadline, gboolean until_flush,
                              GstVaeModel **out, VaeError *error);

/* Returns the facts of the loaded model that is not taken yet. For any thread.
 */
GstVaeDecoderFacts gst_vae_loader_facts(GstVaeLoader *loader);

/* For the worker: runs a requested load. The caller holds the lock. */
void gst_vae_loader_run(GstVaeLoader *loader);

G_END_DECLS
#endif
