/*
 * send.h: the object latentdemux, and the functions that send its events and
 * latents. Their caller holds the stream lock of the sink pad.
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

    /* Properties, guarded by the object lock. */
    GstLatentSettings settings;
    guint64 max_push_size;
    gboolean follow;
    gint warm_up, key_unit_warm_up;

    /* Guarded by the stream lock of the sink pad. */
    gboolean pull;
    GstLatentBytes bytes; /* the header, or what was collected so far */
    /* In push mode. whole: latents are sent at EOS. window: the bytes after the
     * header; empty before the header. flow: of the last buffer. eos: all bytes
     * have come. ended: EOS or SEGMENT_DONE was sent. */
    gboolean whole, eos, ended;
    GstLatentWindow window;
    GstFlowReturn flow;
    GstLatentRun run;
    gboolean start_due, segment_due; /* events to send */
    guint32 seqnum; /* of the segment and EOS; 0 before the first segment */

    /* Written with both locks held. clip does not change while known is TRUE.
     */
    gboolean known;
    GstLatentClip clip;
    GstSegment segment;

    /* Guarded by the object lock. A seek in time that upstream executes, or
     * NULL, and its warm-up. */
    GstEvent *pending;
    GstLatentWarmUp pending_warm_up;
};

/* Posts the library's error. Returns GST_FLOW_CUSTOM_ERROR, which here means
 * "failed, and the error is posted". */
GstFlowReturn gst_latent_send_fail(GstLatentDemux *self, const VaeError *error);
/* Forgets the clip. */
void gst_latent_send_close(GstLatentDemux *self);
/* Finds the clip in `bytes` of a file of `total` bytes and begins at its start.
 * No clip may be open. */
GstFlowReturn gst_latent_send_open(GstLatentDemux *self, guint64 total,
                                   const gchar *name);
/* Sets *wait if the next latent of a recording that is followed is not there
 * yet. */
GstFlowReturn gst_latent_send_follow(GstLatentDemux *self, gboolean *wait);
/* TRUE if a pushed file stays in memory as a whole. The caller holds the stream
 * lock or the object lock, and the clip is known. */
gboolean gst_latent_send_is_kept(const GstLatentDemux *self);
/* Sends the due events, and moves to the next latent to send, run.next. Returns
 * GST_FLOW_EOS if there is none. */
GstFlowReturn gst_latent_send_advance(GstLatentDemux *self);
/* Sends the due events and the next latent. Returns GST_FLOW_EOS after the last
 * latent. */
GstFlowReturn gst_latent_send_next(GstLatentDemux *self);
/* Asks the decoder downstream. Returns `latents` of GST_VAE_LOOK_AHEAD_QUERY,
 * or 0. facts may be NULL. */
gint gst_latent_send_ask(GstLatentDemux *self, GstVaeDecoderFacts *facts);
/* Ends a run that stopped with ret: sends EOS and posts the error if it was not
 * posted yet. */
void gst_latent_send_end(GstLatentDemux *self, GstFlowReturn ret);

G_END_DECLS
#endif
