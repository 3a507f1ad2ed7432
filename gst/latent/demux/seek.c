/*
 * seek.c: chooses the latents that are read after a seek, and answers queries
 * about the clip.
 */
#include "seek.h"

#include <math.h>

/* Number of latents in a group of reverse playback. A group is decoded forwards
 * and shown backwards, so the decoder holds its frames. */
#define BACKWARD_GROUP 8

/* Returns the start of the latent at a time, or of the next latent if the SNAP
 * flags select it and it starts before stop. Returns `time` itself after the
 * end of the clip. */
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

/* Converts a position of a seek to a time of the clip, as gst_segment_do_seek()
 * does. */
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
        return "only by time or frames";
    if ((flags & GST_SEEK_FLAG_INSTANT_RATE_CHANGE) &&
        (rate < 0) != (segment->rate < 0))
        return "an instant change of rate keeps the direction";
    from = resolve(segment, start_type, start, segment->start);
    to = resolve(segment, stop_type, stop, segment->stop);
    return GST_CLOCK_TIME_IS_VALID(from) && from > to
               ? "the start is after the stop"
               : NULL;
}

/* Converts a position in frames to a position in time. */
static gint64
frames_to_time(const GstLatentClip *clip, GstSeekType type, gint64 value)
{
    if (type == GST_SEEK_TYPE_NONE || (type == GST_SEEK_TYPE_SET && value < 0))
        return value;
    if (type == GST_SEEK_TYPE_SET)
        return (gint64) gst_latent_clip_frame_time(clip,
                                                   MIN(value, clip->frames));
    value = CLAMP(clip->frames + value, 0, clip->frames);
    return (gint64) gst_latent_clip_frame_time(clip, value) -
           (gint64) gst_latent_clip_time(clip, clip->data.t);
}

GstEvent *
gst_latent_seek_by_time(const GstLatentClip *clip, GstEvent *event)
{
    gdouble rate;
    GstFormat format;
    GstSeekFlags flags;
    GstSeekType start_type, stop_type;
    gint64 start, stop;
    GstClockTime interval;
    GstEvent *timed;

    gst_event_parse_seek(event, &rate, &format, &flags, &start_type, &start,
                         &stop_type, &stop);
    if (format != GST_FORMAT_DEFAULT)
        return gst_event_ref(event);
    gst_event_parse_seek_trickmode_interval(event, &interval);
    timed =
        gst_event_new_seek(rate, GST_FORMAT_TIME, flags, start_type,
                           frames_to_time(clip, start_type, start), stop_type,
                           frames_to_time(clip, stop_type, stop));
    gst_event_set_seqnum(timed, gst_event_get_seqnum(event));
    gst_event_set_seek_trickmode_interval(timed, interval);
    return timed;
}

/* sinkpad: NULL if upstream is not flushed */
static void
push_flush(GstPad *sinkpad, GstPad *srcpad, GstEvent *flush, guint32 seqnum)
{
    gst_event_set_seqnum(flush, seqnum);
    if (sinkpad)
        gst_pad_push_event(sinkpad, gst_event_ref(flush));
    gst_pad_push_event(srcpad, flush);
}

void
gst_latent_seek_stop(GstPad *sinkpad, GstPad *srcpad, gboolean pull,
                     GstEvent *event)
{
    const guint32 seqnum = gst_event_get_seqnum(event);
    GstPad *up = pull ? sinkpad : NULL;
    GstSeekFlags flags;

    gst_event_parse_seek(event, NULL, NULL, &flags, NULL, NULL, NULL, NULL);
    if (flags & GST_SEEK_FLAG_FLUSH)
        push_flush(up, srcpad, gst_event_new_flush_start(), seqnum);
    else
        gst_pad_pause_task(sinkpad);
    GST_PAD_STREAM_LOCK(sinkpad);
    if (flags & GST_SEEK_FLAG_FLUSH)
        push_flush(up, srcpad, gst_event_new_flush_stop(TRUE), seqnum);
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
    if ((flags & GST_SEEK_FLAG_KEY_UNIT) && rate > 0 &&
        start_type != GST_SEEK_TYPE_NONE)
        segment->start = segment->time = segment->position =
            snap(clip, flags, segment->start, segment->stop);
}

gboolean
gst_latent_seek_is_quick(GstEvent *event)
{
    GstSeekFlags flags;

    gst_event_parse_seek(event, NULL, NULL, &flags, NULL, NULL, NULL, NULL);
    return (flags & GST_SEEK_FLAG_TRICKMODE_KEY_UNITS) ||
           ((flags & GST_SEEK_FLAG_KEY_UNIT) &&
            !(flags & GST_SEEK_FLAG_ACCURATE));
}

/* Runs ------------------------------------------------------------------ */

/* Begins a run that shows [shown, end). */
static void
set_run(GstLatentRun *run, const GstLatentClip *clip, gint shown, gint end)
{
    const gint start = gst_latent_clip_start(clip, shown);
    gint first = MAX(shown - run->warm_up, start);

    if (run->multiple > 0)
        first -= (first - start) % run->multiple;
    run->discont |= first != run->next;
    run->next = first;
    run->shown = shown;
    run->end = MAX(shown, end);
}

/* Returns the distance between two shown latents of a trick mode. Without a
 * stated interval, the decoder decodes no more latents per second than at the
 * normal rate, and at rate 1 half as many. */
static gint
stride_of(const GstLatentClip *clip, gdouble rate, gint warm_up,
          GstClockTime interval)
{
    const gdouble whole = (gdouble) warm_up + 1;
    const gdouble usual = ceil(whole * MAX(fabs(rate), 2));

    if (interval == 0)
        return (gint) MIN(usual, (gdouble) clip->data.t + 1);
    return (gint) MAX(whole, (gdouble) gst_latent_clip_at(clip, interval));
}

void
gst_latent_run_begin(GstLatentRun *run, const GstLatentClip *clip,
                     const GstSegment *segment, GstLatentWarmUp warm_up,
                     GstClockTime interval)
{
    const gboolean backward = segment->rate < 0;
    const guint64 from = backward ? segment->start : segment->position;
    const guint64 to = backward ? segment->position : segment->stop;

    *run = (GstLatentRun){.warm_up = MIN(warm_up.latents, clip->data.t),
                          .multiple = clip->counts.chunk ? clip->counts.chunk
                                                         : warm_up.multiple,
                          .backward = backward,
                          .next = -1};
    run->low = gst_latent_clip_at(clip, from);
    run->high = clip->data.t;
    if (to == 0)
        run->high = 0;
    else if (GST_CLOCK_TIME_IS_VALID(to))
        run->high = MIN(gst_latent_clip_at(clip, to - 1) + 1, run->high);
    if (segment->flags & GST_SEGMENT_FLAG_TRICKMODE_KEY_UNITS)
        run->stride = stride_of(clip, segment->rate, run->warm_up, interval);
    run->until = backward ? run->high : MIN(run->low + run->stride, run->high);
    if (run->high <= run->low) { /* nothing is shown */
        run->warm_up = 0;
        set_run(run, clip, run->low, run->low);
    } else if (!backward) {
        set_run(run, clip, run->low, run->stride ? run->low + 1 : run->high);
    } else {
        set_run(run, clip,
                MAX(run->low, run->high - (run->stride ? 1 : BACKWARD_GROUP)),
                run->high);
    }
}

void
gst_latent_run_end(GstLatentRun *run, gint t)
{
    run->high = MIN(run->high, t);
    run->end = MIN(run->end, t);
    run->until = MIN(run->until, t);
}

/* Moves to the next latent of a trick mode. */
static gboolean
skip(GstLatentRun *run, const GstLatentClip *clip)
{
    const gint step = run->stride;

    if (run->backward ? run->shown <= run->low : run->shown + step >= run->high)
        return FALSE;
    if (run->backward) {
        run->until = run->shown;
        set_run(run, clip, MAX(run->shown - step, run->low), 0);
    } else {
        set_run(run, clip, run->shown + step, 0);
        run->until = MIN(run->shown + step, run->high);
    }
    run->end = run->shown + 1;
    return TRUE;
}

gboolean
gst_latent_run_continue(GstLatentRun *run, const GstLatentClip *clip)
{
    if (run->high <= run->low)
        return FALSE;
    if (run->stride)
        return skip(run, clip);
    if (!run->backward || run->shown <= run->low)
        return FALSE;
    set_run(run, clip, MAX(run->shown - BACKWARD_GROUP, run->low), run->shown);
    return TRUE;
}

/* Queries --------------------------------------------------------------- */

static gboolean
convert(const GstLatentClip *clip, GstFormat from, gint64 value, GstFormat to,
        gint64 *result)
{
    if (value < 0 || (from != GST_FORMAT_TIME && from != GST_FORMAT_DEFAULT) ||
        (to != GST_FORMAT_TIME && to != GST_FORMAT_DEFAULT))
        return FALSE;
    if (from == to)
        *result = value;
    else if (to == GST_FORMAT_DEFAULT)
        *result = gst_latent_clip_frame_at(clip, (GstClockTime) value);
    else
        *result = (gint64) gst_latent_clip_frame_time(clip, value);
    return TRUE;
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

static gboolean
answer_position(const GstLatentClip *clip, const GstSegment *segment,
                GstQuery *query)
{
    const guint64 position =
        gst_segment_to_stream_time(segment, GST_FORMAT_TIME, segment->position);
    GstFormat format;
    gint64 value;

    gst_query_parse_position(query, &format, NULL);
    if (!convert(clip, GST_FORMAT_TIME, (gint64) position, format, &value))
        return FALSE;
    gst_query_set_position(query, format, value);
    return TRUE;
}

/* Converts the length of the clip to a format. Returns FALSE for other formats,
 * and if the length is not known. */
static gboolean
length_in(const GstLatentClip *clip, GstFormat format, gint64 *length)
{
    return !clip->open &&
           convert(clip, GST_FORMAT_DEFAULT, clip->frames, format, length);
}

static gboolean
answer_convert(const GstLatentClip *clip, GstQuery *query)
{
    GstFormat from, to;
    gint64 value, result;

    gst_query_parse_convert(query, &from, &value, &to, NULL);
    if (!convert(clip, from, value, to, &result))
        return FALSE;
    gst_query_set_convert(query, from, value, to, result);
    return TRUE;
}

gboolean
gst_latent_seek_answer(const GstLatentClip *clip, const GstSegment *segment,
                       gboolean seekable, GstQuery *query)
{
    GstFormat format;
    gint64 length = -1;
    gboolean known = TRUE;

    switch (GST_QUERY_TYPE(query)) {
    case GST_QUERY_POSITION:
        return answer_position(clip, segment, query);
    case GST_QUERY_DURATION:
        gst_query_parse_duration(query, &format, NULL);
        known = length_in(clip, format, &length);
        gst_query_set_duration(query, format, length);
        return known;
    case GST_QUERY_SEEKING:
        gst_query_parse_seeking(query, &format, NULL, NULL, NULL);
        known = length_in(clip, format, &length);
        gst_query_set_seeking(query, format, seekable && known, 0, length);
        return TRUE;
    case GST_QUERY_CONVERT:
        return answer_convert(clip, query);
    default:
        answer_segment(segment, query);
        return TRUE;
    }
}
