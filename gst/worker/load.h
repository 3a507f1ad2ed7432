/*
 * load.h: models that the worker opens while somebody waits for them.
 */
#ifndef GST_VAE_LOAD_H
#define GST_VAE_LOAD_H

#include "queue.h"

G_BEGIN_DECLS

typedef enum {
    GST_VAE_LOAD_NONE,
    GST_VAE_LOAD_WANTED,
    GST_VAE_LOAD_DONE
} GstVaeLoadState;

/* Under the lock of the queue, unless said otherwise. */
typedef struct GstVaeLoader {
    GstElement *element;
    GstDebugCategory *category;
    GstVaeQueue *queue;
    gchar *variant; /* the property; under the object lock */

    GstVaeLoadState state;
    gchar *path, *path_variant; /* of the model that was asked for last */
    VaeError error;
    GstVaeModel *model; /* of path, nobody's yet; or NULL */
} GstVaeLoader;

void gst_vae_loader_reset(GstVaeLoader *loader);

/*
 * Has the worker open a model and waits for it, at most until deadline
 * (monotonic microseconds, 0: none) and not while flushing, where that is
 * asked for. Returns VAE_OK, the error, or VAE_ERR_CANCELLED when it stopped
 * waiting; the next call for the same file goes on waiting. out (transfer
 * full): the model, or NULL to leave it for the next call.
 */
VaeStatus gst_vae_loader_load(GstVaeLoader *loader, const gchar *path,
                              gint64 deadline, gboolean until_flush,
                              GstVaeModel **out, VaeError *error);

/* The worker's: runs the load that somebody waits for. Lock held on entry and
 * exit. */
void gst_vae_loader_run(GstVaeLoader *loader);

G_END_DECLS
#endif
