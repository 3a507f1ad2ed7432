/*
 * mux.h: latentmux writes latent buffers to a safetensors file.
 */
#ifndef GST_LATENT_MUX_H
#define GST_LATENT_MUX_H

#include <gst/base/base.h>

#include "header.h"
#include "record.h"

G_BEGIN_DECLS

#define GST_TYPE_LATENT_MUX (gst_latent_mux_get_type())
G_DECLARE_FINAL_TYPE(GstLatentMux, gst_latent_mux, GST, LATENT_MUX, GstElement)

GST_ELEMENT_REGISTER_DECLARE(latentmux)

GST_DEBUG_CATEGORY_EXTERN(gst_latent_mux_debug);

typedef enum {
    GST_LATENT_MUX_EMPTY,   /* nothing sent */
    GST_LATENT_MUX_WRITING, /* after the first header */
    GST_LATENT_MUX_DONE     /* after the last header, or failed */
} GstLatentMuxState;

struct _GstLatentMux {
    GstElement parent;
    GstPad *sinkpad, *srcpad;

    guint64 max_kept_size; /* property, guarded by the object lock */

    /* Under the sink pad's stream lock. */
    GstLatentMuxState state;
    GstCaps *caps;    /* the caps of info; NULL before the first caps */
    GstCaps *refused; /* the last caps, if their error was posted; or NULL */
    GstVaeLatentInfo info;
    GstTagList *tags; /* the tags in the header, or NULL */
    /* Tags from upstream by GstTagScope, or NULL. Those of the stream come
     * before those of the medium. */
    GstTagList *upstream[2];
    GstStructure *group; /* of the next latent, or NULL; see group.h */
    GstLatentHeader header;
    GstLatentRecord record;
    gboolean warned, times_told, tags_told, stream_told;
    /* If downstream cannot seek: the latents until EOS, or else the header went
     * first and is never replaced. */
    GstAdapter *kept;
    gboolean streamed;
    gint lock; /* the locked file, or -1 */
    /* origin: running time minus timestamp in the first segment. shift: the
     * same in the current segment, minus origin. Both may wrap around. */
    GstClockTime origin, shift;
};

/* write.c: the file, for the streaming thread */

/* Posts an error with the latent space. (takes error) */
void gst_latent_mux_post(GstLatentMux *self, GError *error);
/* Ends the lock of the file. */
void gst_latent_mux_unlock(GstLatentMux *self);
/* Sends the first header, or keeps the file in memory. */
GstFlowReturn gst_latent_mux_begin(GstLatentMux *self);
/* Sends one latent of the right size. (takes buffer) */
GstFlowReturn gst_latent_mux_write(GstLatentMux *self, GstBuffer *buffer);
/* Sends the tables after the latents, and the true header over the first one.
 * Sends the whole file if it was kept. */
GstFlowReturn gst_latent_mux_complete(GstLatentMux *self);

G_END_DECLS
#endif
