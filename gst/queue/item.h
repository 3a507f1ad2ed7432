/*
 * item.h: an item of the queue. It is an event or a step. A step has the
 * buffers that the engine takes at once, and the buffers that it returns for
 * them.
 */
#ifndef GST_VAE_ITEM_H
#define GST_VAE_ITEM_H

#include "vae-private/stream.h"

#include "session.h"

G_BEGIN_DECLS

/* The most frames or latents that a step takes or returns. */
#define GST_VAE_MAX_UNITS 16

/* An output buffer of a step. */
typedef struct GstVaeOut {
    GstClockTime pts, duration;
    GstClockTime running, stream; /* running and stream time, for QoS */
    guint64 offset;
    guint frames;        /* of a latent */
    GstClockTime length; /* duration of these frames by their own times */
    gboolean needed;     /* FALSE: trimmed or outside the segment */
    gboolean last;       /* of the segment; never dropped as late */
    GstBuffer *metas;    /* the input buffer of its metas, or NULL */
    GstBuffer *buffer;
} GstVaeOut;

/* A request to open a session, for which a thread waits. It is only in the work
 * list. */
typedef struct GstVaeOpen {
    const gchar *load; /* file of a checkpoint to load, or NULL */
    VaeCheckpoint *loaded;
    VaeError *error; /* receives the result */
} GstVaeOpen;

/* The streaming thread of the sink pad creates an item. The worker fills in the
 * output buffers of a queued step. The task of the source pad pushes them when
 * the item is ready. The lock of the queue guards ready, gone and delivered. */
typedef struct GstVaeItem {
    gint refs;
    GstEvent *event;  /* NULL: a step */
    GstVaeOpen *open; /* not NULL: a session to open */
    GstVaeSession *session;
    guint segment_id;

    gboolean ready;     /* the worker is done with it */
    gboolean gone;      /* the task is done with it */
    gboolean delivered; /* all its buffers were pushed */
    GstFlowReturn result;

    gboolean start;           /* begins a sequence */
    gboolean without_context; /* a later step without context */
    gboolean discont;
    gboolean drain;       /* has no input: gives the delayed results */
    gboolean backward;    /* its buffers are pushed in reverse order */
    gboolean partial;     /* begins a sequence inside a clip */
    gboolean reveals;     /* gives the first frames after steps without any */
    gboolean checkpoint;  /* a checkpoint is due after it */
    guint64 frames;       /* OFFSET of the frame after the step */
    guint64 first;        /* latent of the clip that begins the sequence */
    guint64 place;        /* of its latent in a chunk; only without context */
    gchar *source;        /* file of the input if a sequence begins, or NULL */
    GstEvent *before;     /* pushed before the buffers, or NULL */
    GstClockTime arrived; /* when it was queued, by gst_util_get_timestamp() */
    GstClockTime running; /* running time of the first needed buffer, or NONE */
    GstClockTime position; /* stream time of its end, or NONE */
    guint n_in, n_out;
    GstBuffer *in[GST_VAE_MAX_UNITS];
    GstVaeOut out[GST_VAE_MAX_UNITS];
} GstVaeItem;

GstVaeItem *gst_vae_item_new_event(GstEvent *event, GstVaeSession *session);
GstVaeItem *gst_vae_item_new_step(void);
GstVaeItem *gst_vae_item_new_open(GstVaeSession *session, GstVaeOpen *open);
GstVaeItem *gst_vae_item_ref(GstVaeItem *item);
void gst_vae_item_unref(GstVaeItem *item);

/* Returns TRUE if the item is a step that continues the step before it, so that
 * both can be in one call. A step that reveals is the last of its call, so that
 * its frames do not wait for those of later steps. */
gboolean gst_vae_item_follows(const GstVaeItem *item, const GstVaeItem *before);

G_END_DECLS
#endif
