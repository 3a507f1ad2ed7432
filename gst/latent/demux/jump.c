/*
 * jump.c: executes seeks.
 */
#include "jump.h"

#include "task.h"

#define GST_CAT_DEFAULT gst_latent_demux_debug

static gboolean
upstream_seeks(GstLatentDemux *self)
{
    GstQuery *query = gst_query_new_seeking(GST_FORMAT_BYTES);
    gboolean seeks = FALSE;
    if (gst_pad_peer_query(self->sinkpad, query))
        gst_query_parse_seeking(query, NULL, &seeks, NULL, NULL);
    gst_query_unref(query);
    return seeks;
}

gboolean
gst_latent_jump_possible(GstLatentDemux *self)
{
    if (self->pull)
        return TRUE;
    GST_OBJECT_LOCK(self);
    const gboolean known = self->known && !self->clip.open;
    const gboolean kept = known && gst_latent_send_is_kept(self);
    GST_OBJECT_UNLOCK(self);
    return kept || (known && upstream_seeks(self));
}

/* Returns what the decoder needs before the position of a seek. */
static GstLatentWarmUp
warm_up(GstLatentDemux *self, GstEvent *event)
{
    GstVaeDecoderFacts decoder;
    gst_latent_send_ask(self, &decoder);
    GST_OBJECT_LOCK(self);
    const gint set = self->warm_up, quick = self->key_unit_warm_up;
    GST_OBJECT_UNLOCK(self);
    const gint needed =
        decoder.latent_channels > 0 ? decoder.look_back : GST_LATENT_WARM_UP;
    const gint exact = set >= 0 ? set : needed;
    return gst_latent_seek_is_quick(event)
               ? (GstLatentWarmUp){.latents = MIN(quick, exact)}
               : (GstLatentWarmUp){exact, decoder.window};
}

/* Applies a seek. The stream lock is held. */
static void
apply(GstLatentDemux *self, GstEvent *event, GstLatentWarmUp warm)
{
    GstSegment segment = self->segment;
    GstClockTime interval;
    gst_event_parse_seek_trickmode_interval(event, &interval);
    gst_latent_seek_apply(&self->clip, event, &segment);
    GST_OBJECT_LOCK(self);
    self->segment = segment;
    GST_OBJECT_UNLOCK(self);
    gst_latent_run_begin(&self->run, &self->clip, &segment, warm, interval);
    self->segment_due = TRUE;
    self->ended = FALSE;
    self->flow = GST_FLOW_OK;
    self->seqnum = gst_event_get_seqnum(event);
    GST_DEBUG_OBJECT(self, "seek to %" GST_TIME_FORMAT " starts at latent %d",
                     GST_TIME_ARGS(segment.position), self->run.next);
}

/* Returns the reason why upstream cannot seek for this, or NULL. */
static const gchar *
refused_by_bytes(GstEvent *event)
{
    gdouble rate;
    GstSeekFlags flags;
    gst_event_parse_seek(event, &rate, NULL, &flags, NULL, NULL, NULL, NULL);
    if (rate < 0)
        return "upstream has no random access, so there is no way backwards";
    return NULL;
}

/* Converts the seek to one in time. Returns NULL if the seek is refused.
 * (transfer full) */
static GstEvent *
check(GstLatentDemux *self, GstEvent *event)
{
    const gboolean possible = gst_latent_jump_possible(self);
    const gchar *refused = "upstream has no random access";
    GstEvent *timed = NULL;
    GST_OBJECT_LOCK(self);
    if (!self->known) {
        refused = "the file has not been read yet";
    } else if (possible) {
        timed = gst_latent_seek_by_time(&self->clip, event);
        refused = gst_latent_seek_refused(&self->segment, timed);
        if (!refused && !self->pull && !gst_latent_send_is_kept(self))
            refused = refused_by_bytes(timed);
    }
    GST_OBJECT_UNLOCK(self);
    if (!refused)
        return timed;
    GST_WARNING_OBJECT(self, "seek refused: %s", refused);
    gst_clear_event(&timed);
    return NULL;
}

/* Continues at another latent, whose bytes can be read here. */
static gboolean
jump_here(GstLatentDemux *self, GstEvent *timed, GstTaskFunction loop)
{
    gst_latent_seek_stop(self->sinkpad, self->srcpad, self->pull, timed);
    /* The element may have left PAUSED meanwhile. */
    const gboolean done = self->known;
    if (done)
        apply(self, timed, warm_up(self, timed));
    /* A thread whose start failed may wait for the lock, so it is released
     * first. */
    GST_PAD_STREAM_UNLOCK(self->sinkpad);
    const gboolean runs = gst_vae_task_start(self->sinkpad, loop);
    /* The element may have left PAUSED meanwhile, which stops an older task. */
    if (!GST_PAD_IS_ACTIVE(self->sinkpad))
        gst_pad_stop_task(self->sinkpad);
    return done && runs;
}

/* Returns the offset of the first latent to send after a seek. The object lock
 * is held. */
static guint64
offset_after(GstLatentDemux *self, GstEvent *timed, GstLatentWarmUp warm)
{
    GstSegment segment = self->segment;
    GstLatentRun run;
    gst_latent_seek_apply(&self->clip, timed, &segment);
    gst_latent_run_begin(&run, &self->clip, &segment, warm, 0);
    return self->clip.data.offset + run.next * self->clip.data.t_stride;
}

/* Lets upstream seek. Its flush, if any, comes back through the sink pad, and
 * then its segment. */
static gboolean
jump_upstream(GstLatentDemux *self, GstEvent *timed)
{
    GstSeekFlags flags;
    gst_event_parse_seek(timed, NULL, NULL, &flags, NULL, NULL, NULL, NULL);
    const GstLatentWarmUp warm = warm_up(self, timed);
    GST_OBJECT_LOCK(self);
    if (!self->known) { /* the element has left PAUSED meanwhile */
        GST_OBJECT_UNLOCK(self);
        return FALSE;
    }
    const guint64 offset = offset_after(self, timed, warm);
    gst_clear_event(&self->pending);
    self->pending = gst_event_ref(timed);
    self->pending_warm_up = warm;
    GST_OBJECT_UNLOCK(self);
    GstEvent *bytes = gst_event_new_seek(
        1, GST_FORMAT_BYTES, flags & GST_SEEK_FLAG_FLUSH, GST_SEEK_TYPE_SET,
        (gint64) offset, GST_SEEK_TYPE_NONE, -1);
    gst_event_set_seqnum(bytes, gst_event_get_seqnum(timed));
    if (gst_pad_push_event(self->sinkpad, bytes))
        return TRUE;
    GST_WARNING_OBJECT(
        self, "upstream refuses to seek to byte %" G_GUINT64_FORMAT, offset);
    GST_OBJECT_LOCK(self);
    gst_clear_event(&self->pending);
    GST_OBJECT_UNLOCK(self);
    return FALSE;
}

/* The sink plays what comes at another rate, if the seek asks for that. Returns
 * FALSE if it does not. */
static gboolean
change_rate(GstLatentDemux *self, GstEvent *seek)
{
    gdouble rate;
    GstSeekFlags flags;
    gst_event_parse_seek(seek, &rate, NULL, &flags, NULL, NULL, NULL, NULL);
    if (!(flags & GST_SEEK_FLAG_INSTANT_RATE_CHANGE))
        return FALSE;
    GST_OBJECT_LOCK(self);
    const gdouble factor = rate / self->segment.rate;
    GST_OBJECT_UNLOCK(self);
    GstEvent *event = gst_event_new_instant_rate_change(
        factor, (GstSegmentFlags) flags & GST_SEGMENT_INSTANT_FLAGS);
    gst_event_set_seqnum(event, gst_event_get_seqnum(seek));
    gst_pad_push_event(self->srcpad, event);
    return TRUE;
}

gboolean
gst_latent_jump(GstLatentDemux *self, GstEvent *event, GstTaskFunction loop)
{
    GstEvent *timed = check(self, event);
    if (!timed)
        return FALSE;
    GST_OBJECT_LOCK(self);
    const gboolean here =
        self->pull || (self->known && gst_latent_send_is_kept(self));
    GST_OBJECT_UNLOCK(self);
    const gboolean done =
        change_rate(self, timed) ||
        (here ? jump_here(self, timed, loop) : jump_upstream(self, timed));
    gst_event_unref(timed);
    return done;
}

gboolean
gst_latent_jump_is_pending(GstLatentDemux *self)
{
    GST_OBJECT_LOCK(self);
    const gboolean pending = self->pending != NULL;
    GST_OBJECT_UNLOCK(self);
    return pending;
}

void
gst_latent_jump_land(GstLatentDemux *self, guint64 offset)
{
    GST_OBJECT_LOCK(self);
    GstEvent *event = g_steal_pointer(&self->pending);
    const GstLatentWarmUp warm = self->pending_warm_up;
    GST_OBJECT_UNLOCK(self);
    if (event && self->known) {
        gst_latent_window_clear(&self->window);
        gst_latent_window_begin(&self->window, offset, NULL, 0);
        self->eos = FALSE;
        apply(self, event, warm);
    }
    gst_clear_event(&event);
}
