/*
 * queries.c: answers the queries of both pads.
 */
#include "queries.h"

#include "enums.h"
#include "foreign.h"
#include "offer.h"
#include "share.h"
#include "video.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

static gboolean
query_accept(GstVaeBase *base, GstQuery *query)
{
    GstCaps *caps;

    gst_query_parse_accept_caps(query, &caps);
    gst_query_set_accept_caps_result(query,
                                     gst_vae_foreign_accepts(base, caps));
    return TRUE;
}

/* Answers with the template. CUDAMemory is left out if the element cannot use
 * it. Interlaced video is added, so that set_caps() gets it and posts an error
 * that names deinterlace. */
static gboolean
query_caps(GstVaeBase *base, GstQuery *query)
{
    GstCaps *caps = gst_pad_get_pad_template_caps(base->sinkpad), *filter;

    if (GST_VAE_BASE_GET_CLASS(base)->direction == VAE_ENCODE &&
        !gst_vae_cuda_possible(&base->cuda))
        caps = gst_vae_cuda_remove(caps);
    if (GST_VAE_BASE_GET_CLASS(base)->direction == VAE_ENCODE)
        caps = gst_vae_video_add_interlaced(caps);
    gst_query_parse_caps(query, &filter);
    if (filter) {
        GstCaps *both =
            gst_caps_intersect_full(filter, caps, GST_CAPS_INTERSECT_FIRST);

        gst_caps_unref(caps);
        caps = both;
    }
    gst_query_set_caps_result(query, caps);
    gst_caps_unref(caps);
    return TRUE;
}

/* Returns FALSE for any other custom query. */
static gboolean
query_look_ahead(GstVaeBase *base, GstQuery *query)
{
    const GstStructure *s = gst_query_get_structure(query);
    const GstVaeQueueTimes times = gst_vae_queue_times(&base->queue);
    GstVaeDecoderFacts decoder = times.decoder;
    gint normalization = GST_VAE_NORMALIZATION_AUTO;

    if (!s || !gst_structure_has_name(s, GST_VAE_LOOK_AHEAD_QUERY))
        return FALSE;
    if (!decoder.latent_channels)
        decoder = gst_vae_loader_facts(&base->worker.loader);
    if (GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE)
        g_object_get(base, "normalization", &normalization, NULL);
    gst_structure_set(gst_query_writable_structure(query), "latents",
                      G_TYPE_INT, times.look_ahead, "latent_channels",
                      G_TYPE_INT, decoder.latent_channels, "temporal",
                      G_TYPE_INT, decoder.temporal, "chunk", G_TYPE_INT,
                      decoder.chunk, "fps_n", G_TYPE_INT, decoder.fps_n,
                      "fps_d", G_TYPE_INT, decoder.fps_d, "look_back",
                      G_TYPE_INT, decoder.look_back, "window", G_TYPE_INT,
                      decoder.window, "own_normalization", G_TYPE_BOOLEAN,
                      normalization != GST_VAE_NORMALIZATION_AUTO, NULL);
    return TRUE;
}

/* Waits until all frames of the input have left. */
static gboolean
drain(GstVaeBase *base, GstQuery *query)
{
    const GstStructure *s = gst_query_get_structure(query);

    if (!gst_vae_base_finish(base) || !gst_vae_queue_drain(&base->queue))
        return FALSE;
    if (!s || !gst_structure_has_field(s, GST_VAE_DRAIN_DECODER))
        gst_pad_peer_query(base->srcpad, query);
    return TRUE;
}

gboolean
gst_vae_sink_query(GstPad *pad, GstObject *parent, GstQuery *query)
{
    GstVaeBase *base = GST_VAE_BASE(parent);

    switch (GST_QUERY_TYPE(query)) {
    case GST_QUERY_ACCEPT_CAPS:
        return query_accept(base, query);
    case GST_QUERY_CAPS:
        return query_caps(base, query);
    case GST_QUERY_CONTEXT:
        return gst_vae_cuda_answer(&base->cuda, query) ||
               gst_pad_query_default(pad, parent, query);
    case GST_QUERY_ALLOCATION:
        GST_VAE_BASE_GET_CLASS(base)->propose_allocation(base, query);
        return TRUE;
    case GST_QUERY_CUSTOM:
        return query_look_ahead(base, query) ||
               gst_pad_query_default(pad, parent, query);
    case GST_QUERY_DRAIN:
        return drain(base, query);
    default:
        if (GST_QUERY_IS_SERIALIZED(query) &&
            !gst_vae_queue_drain(&base->queue))
            return FALSE;
        return gst_pad_query_default(pad, parent, query);
    }
}

/* Asks upstream, which knows the true times. Only conversions of bytes, which
 * are those of our video, are computed here. */
static gboolean
query_convert(GstVaeBase *base, GstQuery *query)
{
    GstFormat from, to;
    GstVideoInfo info;
    GstCaps *caps;
    gint64 value, result;
    gboolean known;

    gst_query_parse_convert(query, &from, &value, &to, NULL);
    if (from != GST_FORMAT_BYTES && to != GST_FORMAT_BYTES &&
        gst_pad_peer_query(base->sinkpad, query))
        return TRUE;
    caps = gst_pad_get_current_caps(base->srcpad);
    known = caps && GST_VAE_BASE_GET_CLASS(base)->direction == VAE_DECODE &&
            gst_video_info_from_caps(&info, caps) &&
            gst_video_info_convert(&info, from, value, to, &result);
    gst_clear_caps(&caps);
    if (known)
        gst_query_set_convert(query, from, value, to, result);
    return known;
}

/* Answers with the position of the last buffer that left. The position of
 * upstream is later, by the buffers that wait in the element. Returns FALSE if
 * no buffer has left, or if its position cannot be converted. */
static gboolean
query_position(GstVaeBase *base, GstQuery *query)
{
    GstEvent *event =
        gst_pad_get_sticky_event(base->srcpad, GST_EVENT_SEGMENT, 0);
    const GstSegment *segment;
    GstClockTime position;
    GstFormat format;
    gint64 value;
    gboolean known = FALSE;

    g_mutex_lock(&base->queue.lock);
    position = base->position;
    g_mutex_unlock(&base->queue.lock);
    gst_query_parse_position(query, &format, NULL);
    if (event && GST_CLOCK_TIME_IS_VALID(position)) {
        gst_event_parse_segment(event, &segment);
        position =
            gst_segment_to_stream_time(segment, GST_FORMAT_TIME, position);
        known = GST_CLOCK_TIME_IS_VALID(position) &&
                gst_pad_query_convert(base->srcpad, GST_FORMAT_TIME,
                                      (gint64) position, format, &value);
    }
    if (known)
        gst_query_set_position(query, format, value);
    gst_clear_event(&event);
    return known;
}

/* Answers with the latency of upstream, plus the time from the first timestamp
 * of a group to its last buffer, plus the time to compute. */
static gboolean
query_latency(GstVaeBase *base, GstQuery *query)
{
    const guint depth = gst_vae_queue_depth(&base->queue);
    GstClockTime min, max, own;
    GstVaeQueueTimes times;
    gboolean live;

    if (!gst_pad_peer_query(base->sinkpad, query))
        return FALSE;
    gst_query_parse_latency(query, &live, &min, &max);
    times = gst_vae_queue_times(&base->queue);
    own = times.collect + gst_vae_latency_report(&base->latency, live);
    GST_DEBUG_OBJECT(base, "latency %" GST_TIME_FORMAT " of our own",
                     GST_TIME_ARGS(own));
    if (GST_CLOCK_TIME_IS_VALID(max))
        max += own + depth * times.slice;
    gst_query_set_latency(query, live, min + own, max);
    return TRUE;
}

/* True if the query asks what a file of latents states: this element makes the
 * caps of its output. */
static gboolean
is_of_file(GstQuery *query)
{
    const GstStructure *s = gst_query_get_structure(query);

    return s && gst_structure_has_name(s, GST_VAE_STATED_QUERY);
}

gboolean
gst_vae_src_query(GstPad *pad, GstObject *parent, GstQuery *query)
{
    if (GST_QUERY_TYPE(query) == GST_QUERY_LATENCY)
        return query_latency(GST_VAE_BASE(parent), query);
    if (GST_QUERY_TYPE(query) == GST_QUERY_CONVERT)
        return query_convert(GST_VAE_BASE(parent), query);
    if (GST_QUERY_TYPE(query) == GST_QUERY_POSITION &&
        query_position(GST_VAE_BASE(parent), query))
        return TRUE;
    if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT &&
        gst_vae_cuda_answer(&GST_VAE_BASE(parent)->cuda, query))
        return TRUE;
    return !is_of_file(query) && gst_pad_query_default(pad, parent, query);
}
