/*
 * pads.c: handles the buffers and events of both pads.
 */
#include "pads.h"

#include <gst/video/video.h>

#include "details.h"
#include "foreign.h"
#include "group.h"
#include "negotiate.h"
#include "push.h"
#include "queries.h"
#include "switch.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* Returns the flow return after a failure. Input that was refused because of a
 * flush, or because the pads are being deactivated, is no failure. */
static GstFlowReturn
flow_after_failure(GstVaeBase *base, GstFlowReturn ret)
{
    return gst_vae_queue_is_flushing(&base->queue) ? GST_FLOW_FLUSHING : ret;
}

/* Returns TRUE for a negative number that was cast to unsigned. Sums with it
 * would overflow. */
static gboolean
is_negative(GstClockTime time)
{
    return GST_CLOCK_TIME_IS_VALID(time) && time > G_MAXINT64;
}

/* Removes negative times, and posts a WARNING for the first. (takes buffer) */
static GstBuffer *
check_times(GstVaeBase *base, GstBuffer *buffer)
{
    const GstClockTime pts = GST_BUFFER_PTS(buffer);
    const GstClockTime duration = GST_BUFFER_DURATION(buffer);

    if (!is_negative(pts) && !is_negative(duration))
        return buffer;
    if (!base->input.negative_told)
        GST_ELEMENT_WARNING(
            base, STREAM, FORMAT,
            ("A buffer has a negative %s, which is treated as missing: it "
             "follows the buffer before it",
             is_negative(pts) ? "timestamp" : "duration"),
            ("%" G_GINT64_FORMAT " ns",
             (gint64) (is_negative(pts) ? pts : duration)));
    base->input.negative_told = TRUE;
    buffer = gst_buffer_make_writable(buffer);
    if (is_negative(pts))
        GST_BUFFER_PTS(buffer) = GST_CLOCK_TIME_NONE;
    if (is_negative(duration))
        GST_BUFFER_DURATION(buffer) = GST_CLOCK_TIME_NONE;
    return buffer;
}

/* Returns TRUE if the stream runs backwards, which an encoder cannot
 * reverse. */
static gboolean
is_wrong_way(GstVaeBase *base)
{
    return base->input.segment.rate < 0 &&
           GST_VAE_BASE_GET_CLASS(base)->direction == VAE_ENCODE;
}

static gboolean
is_no_model(const GError *error)
{
    return gst_vae_error_domain(error) == GST_RESOURCE_ERROR &&
           error->code == GST_RESOURCE_ERROR_NOT_FOUND;
}

static gboolean
sink_caps(GstVaeBase *base, GstEvent *event)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    GError *error = NULL;
    GstCaps *caps;

    gst_event_parse_caps(event, &caps);
    GST_DEBUG_OBJECT(base, "sink caps %" GST_PTR_FORMAT, caps);
    if (base->input.caps && gst_caps_is_equal(caps, base->input.caps)) {
        gst_event_unref(event);
        return TRUE;
    }
    /* A pad sends its sticky caps again with each later buffer. The error is
     * posted once. */
    if (base->input.refused_caps &&
        gst_caps_is_equal(caps, base->input.refused_caps)) {
        gst_event_unref(event);
        return FALSE;
    }
    gst_vae_base_finish(base);
    klass->restart(base);
    gst_caps_replace(&base->input.caps, NULL);
    g_clear_pointer(&base->input.refusal, g_free);
    g_clear_error(&base->input.late_error);
    if (klass->set_caps(base, caps, &error))
        gst_caps_replace(&base->input.caps, caps);
    else if (error)
        gst_caps_replace(&base->input.refused_caps, caps);
    gst_event_unref(event);
    if (base->input.caps)
        return gst_vae_negotiate(base);
    if (!error || !(is_no_model(error) || gst_vae_base_finds_model(base)))
        return gst_vae_refuse(base, error);
    /* If the element refused the caps, decodebin would report a missing plug-in
     * and hide the error. The error is therefore posted at the first buffer. */
    gst_caps_replace(&base->input.refused_caps, NULL);
    base->input.late_error = error;
    return TRUE;
}

static void
refuse_rate(GstVaeBase *base)
{
    gchar *rate = g_strdup_printf("%g", base->input.segment.rate);

    GST_ELEMENT_ERROR_WITH_DETAILS(
        base, STREAM, NOT_IMPLEMENTED,
        ("The video runs backwards (rate %s, expected more than 0), but every "
         "latent needs the frames before it",
         rate),
        ("the segment has this rate"),
        ("field", G_TYPE_STRING, "rate", "found", G_TYPE_STRING, rate,
         "expected", G_TYPE_STRING, "more than 0", NULL));
    g_free(rate);
}

/* Returns TRUE if the next buffer has a place in the new segment at which it
 * follows the buffers before. Such a segment only moves its ends:
 * matroskademux moves the start to that of the sound. */
static gboolean
continues(GstVaeBase *base, const GstSegment *next)
{
    const GstSegment *old = &base->input.segment;
    const GstClockTime end = GST_VAE_BASE_GET_CLASS(base)->end(base);

    if (next->format != GST_FORMAT_TIME || next->rate <= 0 ||
        next->rate != old->rate || next->applied_rate != old->applied_rate)
        return FALSE;
    const GstClockTime running =
        gst_segment_to_running_time(next, GST_FORMAT_TIME, end);
    return GST_CLOCK_TIME_IS_VALID(running) &&
           (next->base == old->base ||
            running == gst_vae_base_running_time(base, end));
}

static gboolean
sink_segment(GstVaeBase *base, GstEvent *event)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    const guint32 seqnum = gst_event_get_seqnum(event);
    GstSegment next;

    gst_event_copy_segment(event, &next);
    const gboolean goes_on = continues(base, &next);
    if (!goes_on)
        gst_vae_base_finish(base);
    base->input.segment = next;
    if (is_wrong_way(base)) {
        gst_event_unref(event);
        refuse_rate(base);
        return FALSE;
    }
    if (base->input.segment.format != GST_FORMAT_TIME) {
        GST_INFO_OBJECT(base, "segment in %s: counting time from 0",
                        gst_format_get_name(base->input.segment.format));
        gst_segment_init(&base->input.segment, GST_FORMAT_TIME);
        gst_event_unref(event);
        event = gst_event_new_segment(&base->input.segment);
        gst_event_set_seqnum(event, seqnum);
    }
    if (gst_vae_queue_set_seqnum(&base->queue, seqnum) == GST_FLOW_EOS)
        klass->restart(base); /* a flush has dropped steps */
    if (!goes_on)
        klass->segment(base);
    /* A flush has dropped the CAPS event. It is sent again before the
     * segment. */
    if (base->input.renegotiate && !gst_pad_has_current_caps(base->srcpad) &&
        !gst_vae_negotiate(base)) {
        gst_event_unref(event);
        return FALSE;
    }
    return gst_vae_queue_push_event(&base->queue, event, NULL);
}

static gboolean
sink_gap(GstVaeBase *base, GstEvent *event)
{
    GstGapFlags flags = 0;

    gst_vae_base_finish(base);
    gst_event_parse_gap_flags(event, &flags);
    if (flags & GST_GAP_FLAG_MISSING_DATA)
        GST_VAE_BASE_GET_CLASS(base)->restart(base);
    return gst_vae_queue_push_event(&base->queue, event, NULL);
}

static gboolean
sink_flush_start(GstVaeBase *base, GstEvent *event)
{
    gboolean ok = gst_pad_push_event(base->srcpad, event);

    gst_vae_push_set_flushing(base);
    gst_pad_pause_task(base->srcpad);
    return ok;
}

static gboolean
sink_flush_stop(GstVaeBase *base, GstEvent *event)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    gboolean ok = gst_pad_push_event(base->srcpad, event);

    gst_vae_push_clear(base, TRUE);
    gst_caps_replace(&base->input.refused_caps, NULL);
    g_clear_pointer(&base->input.refusal, g_free);
    gst_clear_structure(&base->input.group);
    base->input.no_caps_told = base->input.negative_told = FALSE;
    gst_segment_init(&base->input.segment, GST_FORMAT_TIME);
    klass->restart(base);
    if (klass->flush)
        klass->flush(base);
    klass->segment(base);
    base->input.renegotiate = base->input.caps != NULL;
    return gst_vae_push_start(base) && ok;
}

/* Sends the tags of the stream, changed to those of the output. */
static gboolean
push_tags(GstVaeBase *base)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    GstTagList *list = base->input.tags;

    if (!klass->tags || !base->input.tags_due)
        return TRUE;
    base->input.tags_due = FALSE;
    list = list ? gst_tag_list_copy(list) : gst_tag_list_new_empty();
    return gst_vae_queue_push_event(
        &base->queue, gst_event_new_tag(klass->tags(base, list)), NULL);
}

static GstFlowReturn
chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    GstVaeBase *base = GST_VAE_BASE(parent);

    if (base->input.late_error) {
        gst_vae_refuse(base, g_steal_pointer(&base->input.late_error));
        gst_buffer_unref(buffer);
        return flow_after_failure(base, GST_FLOW_NOT_NEGOTIATED);
    }
    if (!base->input.caps || is_wrong_way(base)) {
        if (!base->input.caps)
            gst_vae_foreign_bytes(base, buffer);
        gst_buffer_unref(buffer);
        return flow_after_failure(
            base, base->input.caps ? GST_FLOW_ERROR : GST_FLOW_NOT_NEGOTIATED);
    }
    if ((base->input.renegotiate || gst_pad_check_reconfigure(base->srcpad)) &&
        !gst_vae_negotiate(base)) {
        gst_buffer_unref(buffer);
        return flow_after_failure(base, GST_FLOW_NOT_NEGOTIATED);
    }
    push_tags(base);
    buffer = gst_vae_group_use_event(&base->input.group, buffer);
    return GST_VAE_BASE_GET_CLASS(base)->collect(base,
                                                 check_times(base, buffer));
}

static gboolean
sink_tags(GstVaeBase *base, GstEvent *event)
{
    GstTagList *list;

    gst_event_parse_tag(event, &list);
    if (!GST_VAE_BASE_GET_CLASS(base)->tags ||
        gst_tag_list_get_scope(list) != GST_TAG_SCOPE_STREAM)
        return gst_vae_queue_push_event(&base->queue, event, NULL);
    gst_tag_list_replace(&base->input.tags, list);
    gst_event_unref(event);
    base->input.tags_due = TRUE;
    return push_tags(base);
}

static gboolean
sink_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    GstVaeBase *base = GST_VAE_BASE(parent);
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);

    GST_LOG_OBJECT(base, "%" GST_PTR_FORMAT, event);
    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_FLUSH_START:
        return sink_flush_start(base, event);
    case GST_EVENT_FLUSH_STOP:
        return sink_flush_stop(base, event);
    case GST_EVENT_CAPS:
        return sink_caps(base, event);
    case GST_EVENT_SEGMENT:
        return sink_segment(base, event);
    case GST_EVENT_GAP:
        return sink_gap(base, event);
    case GST_EVENT_TAG:
        return sink_tags(base, event);
    case GST_EVENT_STREAM_START:
        gst_vae_base_finish(base);
        klass->restart(base);
        klass->segment(base);
        gst_clear_tag_list(&base->input.tags);
        break;
    case GST_EVENT_EOS:
    case GST_EVENT_SEGMENT_DONE:
        gst_vae_base_finish(base);
        klass->segment(base);
        break;
    default:
        if (!GST_EVENT_IS_SERIALIZED(event))
            return gst_pad_push_event(base->srcpad, event);
        if (gst_vae_group_take_event(&base->input.group, event)) {
            gst_event_unref(event);
            return TRUE;
        }
        if (klass->key_unit && gst_video_event_is_force_key_unit(event))
            klass->key_unit(base);
        break;
    }
    return gst_vae_queue_push_event(&base->queue, event, NULL);
}

/* Returns the flow return for an event. With a plain event function, the pad
 * would turn every refusal into an error, also during a flush, and the next
 * buffer would return it to the source. */
static GstFlowReturn
sink_event_full(GstPad *pad, GstObject *parent, GstEvent *event)
{
    const gboolean caps = GST_EVENT_TYPE(event) == GST_EVENT_CAPS;

    if (sink_event(pad, parent, event))
        return GST_FLOW_OK;
    return flow_after_failure(GST_VAE_BASE(parent),
                              caps ? GST_FLOW_NOT_NEGOTIATED : GST_FLOW_ERROR);
}

/* Returns TRUE if the seek would reverse the stream of an encoder. */
static gboolean
is_wrong_seek(GstVaeBase *base, GstEvent *event)
{
    gdouble seek_rate;

    gst_event_parse_seek(event, &seek_rate, NULL, NULL, NULL, NULL, NULL, NULL);
    return seek_rate < 0 &&
           GST_VAE_BASE_GET_CLASS(base)->direction == VAE_ENCODE;
}

static gboolean
src_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    GstVaeBase *base = GST_VAE_BASE(parent);
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);

    if (GST_EVENT_TYPE(event) == GST_EVENT_SEEK && is_wrong_seek(base, event)) {
        GST_WARNING_OBJECT(base, "no encoding backwards: every latent needs "
                                 "the frames before it");
        gst_event_unref(event);
        return FALSE;
    }
    if (GST_EVENT_TYPE(event) == GST_EVENT_QOS)
        gst_vae_qos_event(&base->qos, event,
                          gst_vae_queue_times(&base->queue).frame);
    if (klass->src_event && klass->src_event(base, event)) {
        gst_event_unref(event);
        return TRUE;
    }
    return gst_pad_event_default(pad, parent, event);
}

static gboolean
sink_activate(GstPad *pad, GstObject *parent, GstPadMode mode, gboolean active)
{
    if (mode != GST_PAD_MODE_PUSH)
        return FALSE;
    if (!active)
        gst_vae_push_set_flushing(GST_VAE_BASE(parent));
    return TRUE;
}

static gboolean
src_activate(GstPad *pad, GstObject *parent, GstPadMode mode, gboolean active)
{
    GstVaeBase *base = GST_VAE_BASE(parent);

    if (mode != GST_PAD_MODE_PUSH)
        return FALSE;
    if (active)
        return gst_vae_push_start(base);
    gst_vae_push_set_flushing(base);
    return gst_pad_stop_task(pad);
}

void
gst_vae_pads_reset(GstVaeBase *base)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);

    gst_segment_init(&base->input.segment, GST_FORMAT_TIME);
    gst_caps_replace(&base->input.caps, NULL);
    gst_caps_replace(&base->input.refused_caps, NULL);
    g_clear_pointer(&base->input.refusal, g_free);
    base->input.no_caps_told = base->input.negative_told = FALSE;
    base->input.tiles_told = base->input.renegotiate = FALSE;
    gst_clear_structure(&base->input.group);
    gst_clear_tag_list(&base->input.tags);
    g_clear_error(&base->input.late_error);
    klass->restart(base);
    if (klass->flush)
        klass->flush(base);
}

void
gst_vae_pads_init(GstVaeBase *base)
{
    gst_vae_base_setup(base);
    gst_pad_set_chain_function(base->sinkpad, chain);
    gst_pad_set_event_full_function(base->sinkpad, sink_event_full);
    gst_pad_set_query_function(base->sinkpad, gst_vae_sink_query);
    gst_pad_set_activatemode_function(base->sinkpad, sink_activate);
    gst_vae_foreign_watch(base);
    GST_PAD_SET_ACCEPT_INTERSECT(base->sinkpad);

    gst_pad_set_event_function(base->srcpad, src_event);
    gst_pad_set_query_function(base->srcpad, gst_vae_src_query);
    gst_pad_set_activatemode_function(base->srcpad, src_activate);
}
