/*
 * seek.c: where latentdemux begins to read after a seek.
 */
#include "seek.h"

/* The nearest start of a latent to time, in the direction of the flags; time
 * itself where there is none before stop. */
static GstClockTime
snap(const GstLatentClip *clip, GstSeekFlags flags, GstClockTime time,
     GstClockTime stop)
{
    const gint k = gst_latent_clip_at(clip, time);
    GstClockTime before, after;
    gboolean up = (flags & GST_SEEK_FLAG_SNAP_AFTER) != 0;

    if (k >= clip->data.t)
        return time;
    before = gst_latent_clip_time(clip, k);
    after = gst_latent_clip_time(clip, k + 1);
    if ((flags & GST_SEEK_FLAG_SNAP_NEAREST) == GST_SEEK_FLAG_SNAP_NEAREST)
        up = after - time < time - before;
    if (before == time || !up || k + 1 >= clip->data.t || after >= stop)
        return before;
    return after;
}

/* A position of a seek as a time of the clip, as gst_segment_do_seek() takes
 * it. */
static guint64
resolve(const GstSegment *segment, GstSeekType type, gint64 value,
        guint64 current)
{
    if (type == GST_SEEK_TYPE_NONE)
        return current;
    if (type == GST_SEEK_TYPE_SET && value < 0)
        return GST_CLOCK_TIME_NONE;
    if (type == GST_SEEK_TYPE_END)
        value += (gint64) segment->duration;
    return CLAMP(value, 0, (gint64) segment->duration);
}

const gchar *
gst_latent_seek_refused(const GstSegment *segment, GstEvent *event)
{
    gdouble rate;
    GstFormat format;
    GstSeekFlags flags;
    GstSeekType start_type, stop_type;
    gint64 start, stop;
    guint64 from, to;

    gst_event_parse_seek(event, &rate, &format, &flags, &start_type, &start,
                         &stop_type, &stop);
    if (format != GST_FORMAT_TIME)
        return "only by time";
    if (rate <= 0)
        return "only forwards";
    if (flags & GST_SEEK_FLAG_INSTANT_RATE_CHANGE)
        return "no instant change of rate";
    from = resolve(segment, start_type, start, segment->start);
    to = resolve(segment, stop_type, stop, segment->stop);
    return GST_CLOCK_TIME_IS_VALID(from) && from > to
               ? "the start is behind the stop"
               : NULL;
}

static void
push_flush(GstPad *sinkpad, GstPad *srcpad, GstEvent *flush, guint32 seqnum)
{
    gst_event_set_seqnum(flush, seqnum);
    gst_pad_push_event(sinkpad, gst_event_ref(flush));
    gst_pad_push_event(srcpad, flush);
}

void
gst_latent_seek_stop(GstPad *sinkpad, GstPad *srcpad, GstEvent *event)
{
    const guint32 seqnum = gst_event_get_seqnum(event);
    GstSeekFlags flags;

    gst_event_parse_seek(event, NULL, NULL, &flags, NULL, NULL, NULL, NULL);
    if (flags & GST_SEEK_FLAG_FLUSH)
        push_flush(sinkpad, srcpad, gst_event_new_flush_start(), seqnum);
    else
        gst_pad_pause_task(sinkpad);
    GST_PAD_STREAM_LOCK(sinkpad);
    if (flags & GST_SEEK_FLAG_FLUSH)
        push_flush(sinkpad, srcpad, gst_event_new_flush_stop(TRUE), seqnum);
}

void
gst_latent_seek_apply(const GstLatentClip *clip, GstEvent *event,
                      GstSegment *segment)
{
    gdouble rate;
    GstSeekFlags flags;
    GstSeekType start_type, stop_type;
    gint64 start, stop;
    gboolean update;

    gst_event_parse_seek(event, &rate, NULL, &flags, &start_type, &start,
                         &stop_type, &stop);
    gst_segment_do_seek(segment, rate, GST_FORMAT_TIME, flags, start_type,
                        (guint64) start, stop_type, (guint64) stop, &update);
    if ((flags & GST_SEEK_FLAG_KEY_UNIT) && start_type != GST_SEEK_TYPE_NONE)
        segment->start = segment->time = segment->position =
            snap(clip, flags, segment->start, segment->stop);
}

gint
gst_latent_seek_first(const GstLatentClip *clip, const GstSegment *segment,
                      gint warm_up)
{
    const gint shown = gst_latent_clip_at(clip, segment->position);

    return shown < clip->data.t ? MAX(shown - warm_up, 0) : clip->data.t;
}

static void
answer_segment(const GstSegment *segment, GstQuery *query)
{
    const GstFormat time = GST_FORMAT_TIME;
    const guint64 stop = GST_CLOCK_TIME_IS_VALID(segment->stop)
                             ? segment->stop
                             : segment->duration;

    gst_query_set_segment(
        query, segment->rate, time,
        (gint64) gst_segment_to_stream_time(segment, time, segment->start),
        (gint64) gst_segment_to_stream_time(segment, time, stop));
}

gboolean
gst_latent_seek_answer(const GstSegment *segment, gboolean seekable,
                       GstQuery *query)
{
    GstFormat format = GST_FORMAT_TIME;

    switch (GST_QUERY_TYPE(query)) {
    case GST_QUERY_POSITION:
        gst_query_parse_position(query, &format, NULL);
        gst_query_set_position(
            query, format,
            (gint64) gst_segment_to_stream_time(segment, GST_FORMAT_TIME,
                                                segment->position));
        break;
    case GST_QUERY_DURATION:
        gst_query_parse_duration(query, &format, NULL);
        gst_query_set_duration(query, format, (gint64) segment->duration);
        break;
    case GST_QUERY_SEEKING:
        gst_query_parse_seeking(query, &format, NULL, NULL, NULL);
        gst_query_set_seeking(query, format,
                              seekable && format == GST_FORMAT_TIME, 0,
                              (gint64) segment->duration);
        return TRUE;
    default:
        answer_segment(segment, query);
    }
    return format == GST_FORMAT_TIME;
}
