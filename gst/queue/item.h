/*
 * item.h: an item of the queue: an event, or a step, that is the buffers that
 * the engine takes at once and those it gives for them.
 */
#ifndef GST_VAE_ITEM_H
#define GST_VAE_ITEM_H

#include "vae-private/stream.h"

#include "session.h"

G_BEGIN_DECLS

/* The most frames or latents one step takes or gives. */
#define GST_VAE_MAX_UNITS 16

/* One buffer that a step gives. */
typedef struct GstVaeOut {
    GstClockTime pts, duration;
    GstClockTime running, stream; /* running and stream time, for QoS */
    guint64 offset;
    guint frames;        /* that a latent stands for */
    GstClockTime length; /* of these, by their own times */
    gboolean wanted;     /* FALSE: trimmed or outside the segment */
    GstBuffer *metas;    /* the buffer that it has metas from, or NULL */
    GstBuffer *buffer;
} GstVaeOut;

/* A session that somebody waits for; in the work list only. */
typedef struct GstVaeOpen {
    const gchar *load; /* a checkpoint for it, or NULL */
    VaeCheckpoint *loaded;
    VaeError *error; /* receives the result */
} GstVaeOpen;

/* Made by the streaming thread of the sink pad. While it is queued, the worker
 * fills in the buffers, and the task of the source pad takes them once it is
 * ready; the three flags of progress are under the lock of the queue. */
typedef struct GstVaeItem {
    gint refs;
    GstEvent *event;  /* NULL: a step */
    GstVaeOpen *open; /* not NULL: a session to open */
    GstVaeSession *session;
    guint segment_id;

    gboolean ready;     /* the worker is done with it */
    gboolean gone;      /* the task is done with it */
    gboolean delivered; /* all of it was pushed */
    GstFlowReturn result;

    gboolean start; /* begins a sequence */
    gboolean cold;  /* a later step without context */
    gboolean discont;
    gboolean drain;        /* no latent: frames due at a sequence's end */
    gboolean backward;     /* the last of its buffers goes out first */
    gboolean partial;      /* begins a sequence, but not its clip */
    gboolean checkpoint;   /* wanted after it */
    guint64 frames;        /* of the sequence, up to its end */
    GstEvent *before;      /* goes out in front of the buffers, or NULL */
    GstClockTime arrived;  /* in the queue, by gst_util_get_timestamp() */
    GstClockTime running;  /* of the first buffer that is wanted, or NONE */
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

/* TRUE: the item is a step that can be computed in one call with the step
 * before it, or behind that. */
gboolean gst_vae_item_follows(const GstVaeItem *item, const GstVaeItem *before);

G_END_DECLS
#endif
