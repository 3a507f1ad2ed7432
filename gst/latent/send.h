/*
 * send.h: a latentdemux, and how it sends what it found. All is under
 * the sink pad's stream lock.
 */
#ifndef GST_LATENT_SEND_H
#define GST_LATENT_SEND_H

#include "bytes.h"
#include "clip.h"
#include "seek.h"

G_BEGIN_DECLS

GST_DEBUG_CATEGORY_EXTERN(gst_latent_demux_debug);

#define GST_TYPE_LATENT_DEMUX (gst_latent_demux_get_type())
G_DECLARE_FINAL_TYPE(GstLatentDemux, gst_latent_demux, GST, LATENT_DEMUX,
                     GstElement)

struct _GstLatentDemux {
    GstElement parent;
    GstPad *sinkpad, *srcpad;

    /* Properties, under the object lock. */
    GstLatentSettings settings;
    guint64 max_push_size;
    gint warm_up, key_unit_warm_up;

    /* Under the sink pad's stream lock. */
    gboolean pull;
    GstLatentBytes bytes; /* in pull mode of the header only */
    GstLatentRun run;
    gboolean start_due, segment_due; /* events to send */
    guint32 seqnum; /* of the segment and the EOS, 0 before a seek */

    /* Written under both locks. clip does not change while it is known. */
    gboolean known;
    GstLatentClip clip;
    GstSegment segment;
};

/* Posts what the library said. GST_FLOW_CUSTOM_ERROR, which is returned, stands
 * for "failed and posted" here. */
GstFlowReturn gst_latent_send_fail(GstLatentDemux *self, const VaeError *error);
/* Forgets the clip. */
void gst_latent_send_close(GstLatentDemux *self);
/* Finds the clip in `bytes` of a file of total bytes, and begins at its start.
 * There is none yet. */
GstFlowReturn gst_latent_send_open(GstLatentDemux *self, guint64 total,
                                   const gchar *name);
/* Sends the events that are due and the next latent; GST_FLOW_EOS behind the
 * last one. */
GstFlowReturn gst_latent_send_next(GstLatentDemux *self);
/* Ends a run that stopped with ret: the EOS and, where nobody has posted
 * yet, the error. */
void gst_latent_send_end(GstLatentDemux *self, GstFlowReturn ret);

G_END_DECLS
#endif
