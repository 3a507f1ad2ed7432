/*
 * timing.c: computes which frames a latent gives, and their times.
 */
#include <string.h>

#include "decode.h"

#include "group.h"
#include "metas.h"

GST_DEBUG_CATEGORY(gst_vae_decode_debug); /* of the whole element */
#define GST_CAT_DEFAULT gst_vae_decode_debug

/* If a timestamp differs by at most this from the counted time, the counted
 * time is used, so that frames leave no gaps. A frame with at most this much of
 * its time inside the segment is not shown. */
#define ROUNDING GST_USECOND

GstClockTime
gst_vae_decode_frames_time(const GstVaeDecode *self, guint64 n)
{
    return gst_util_uint64_scale(n, GST_SECOND * self->in.fps_d,
                                 self->in.fps_n);
}

guint64
gst_vae_decode_frames_before(const GstVaeDecode *self, guint64 k)
{
    return (guint64) vae_count_frames(vae_model_counts(self->base.choice.info),
                                      (gint64) k);
}

guint64
gst_vae_decode_frames_in(const GstVaeDecode *self, GstClockTime time)
{
    return gst_util_uint64_scale_round(time, self->in.fps_n,
                                       (guint64) self->in.fps_d * GST_SECOND);
}

/* Returns TRUE if the frame from `from` to `to` is the last one of the
 * segment. */
static gboolean
is_last(const GstSegment *segment, guint64 from, guint64 to)
{
    const guint64 stop = GST_CLOCK_TIME_IS_VALID(segment->stop)
                             ? segment->stop
                             : segment->duration;

    if (segment->rate < 0)
        return from <= segment->start + ROUNDING;
    return GST_CLOCK_TIME_IS_VALID(stop) && to + ROUNDING >= stop;
}

void
gst_vae_decode_plan_frame(GstVaeDecode *self, GstVaeOut *out, GstClockTime pts,
                          GstClockTime end)
{
    guint64 from, to;

    out->offset = self->frame++;
    out->needed = gst_segment_clip(&self->base.input.segment, GST_FORMAT_TIME,
                                   pts, end, &from, &to) &&
                  (to - from > ROUNDING || end - pts <= ROUNDING);
    if (!out->needed)
        return;
    out->pts = from;
    out->duration = to - from;
    out->last = is_last(&self->base.input.segment, from, to);
    out->running = gst_vae_base_running_time(
        &self->base, self->base.input.segment.rate < 0 ? to : from);
    out->stream = gst_segment_to_stream_time(&self->base.input.segment,
                                             GST_FORMAT_TIME, from);
}

/* Sets the time from which frames are counted. If pts is the rounded time of a
 * whole number of frames, this is 0, so that the times do not depend on the
 * first latent. Otherwise it is pts. */
static void
set_anchor(GstVaeDecode *self, GstClockTime pts)
{
    const guint64 frames = gst_vae_decode_frames_in(self, pts);

    self->anchor = pts;
    self->since_anchor = 0;
    if (gst_vae_decode_frames_time(self, frames) == pts) {
        self->anchor = 0;
        self->since_anchor = frames;
    }
}

/* Returns the end of the frames that are planned, or NONE before the first. */
static GstClockTime
frames_end(const GstVaeDecode *self)
{
    if (!GST_CLOCK_TIME_IS_VALID(self->anchor))
        return GST_CLOCK_TIME_NONE;
    return self->anchor + gst_vae_decode_frames_time(self, self->since_anchor);
}

/* Returns the time at which a step begins. This is its timestamp. If the
 * timestamp is missing or within ROUNDING of the counted time, it is the
 * counted time. */
static GstClockTime
begin_at(GstVaeDecode *self, GstClockTime pts)
{
    GstClockTime counted = frames_end(self);

    if (GST_CLOCK_TIME_IS_VALID(pts) &&
        (!GST_CLOCK_TIME_IS_VALID(counted) ||
         MAX(pts, counted) - MIN(pts, counted) > ROUNDING)) {
        counted = pts;
        set_anchor(self, pts);
    } else if (!GST_CLOCK_TIME_IS_VALID(counted)) {
        counted = self->base.input.segment.start;
        set_anchor(self, counted);
    }
    return counted;
}

/* Warns if the timestamps of latents do not follow the rate, and the latents
 * have no meta with the duration of their frames. The first such latent may be
 * a pause, so the second one brings the warning. */
static void
check_times(GstVaeDecode *self, const GstBuffer *latent, GstClockTime end)
{
    const GstClockTime pts = GST_BUFFER_PTS(latent);
    GstClockTime length;
    guint frames;

    if (!GST_CLOCK_TIME_IS_VALID(pts) || !GST_CLOCK_TIME_IS_VALID(end) ||
        MAX(pts, end) - MIN(pts, end) <= gst_vae_decode_frames_time(self, 1) ||
        gst_vae_group_get(latent, &frames, &length) || ++self->jumps != 2)
        return;
    GST_ELEMENT_WARNING(
        self, STREAM, FORMAT,
        ("The times of latents do not follow framerate=%d/%d, and nothing says "
         "how long their frames last: frames overlap or leave gaps. Put "
         "videorate before vaeencode or after vaedecode",
         self->in.fps_n, self->in.fps_d),
        ("a latent begins at %" GST_TIME_FORMAT ", the frames before it end at "
         "%" GST_TIME_FORMAT,
         GST_TIME_ARGS(pts), GST_TIME_ARGS(end)));
}

GstVaeStep
gst_vae_decode_step(GstVaeDecode *self, const GstBuffer *latent)
{
    const GstSegment *s = &self->base.input.segment;
    const GstClockTime end = frames_end(self);
    GstVaeStep step = {.pts = begin_at(self, GST_BUFFER_PTS(latent))};

    step.start = self->need_start || GST_BUFFER_IS_DISCONT(latent) ||
                 !GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
    if (!step.start)
        check_times(self, latent, end);
    step.behind =
        s->rate > 0 && GST_CLOCK_TIME_IS_VALID(s->stop) && step.pts >= s->stop;
    return step;
}

/* Returns how many frames of a group of n fit in the duration. */
static guint
trimmed(GstVaeDecode *self, GstClockTime duration, guint n)
{
    if (!GST_CLOCK_TIME_IS_VALID(duration))
        return n;
    return CLAMP(gst_vae_decode_frames_in(self, duration), 1, n);
}

gboolean
gst_vae_decode_begins(GstVaeDecode *self, const GstBuffer *latent)
{
    const VaeSteps *steps = &self->base.choice.info->decode;

    return !GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT) &&
           GST_BUFFER_DURATION_IS_VALID(latent) &&
           trimmed(self, GST_BUFFER_DURATION(latent), steps->step_out) <=
               (guint) steps->first_out;
}

gboolean
gst_vae_decode_begins_chunk(GstVaeDecode *self, const GstBuffer *latent)
{
    const VaeModelInfo *info = self->base.choice.info;
    const gboolean delta =
        GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
    const GstClockTime length = GST_BUFFER_DURATION(latent);
    GstClockTime own;
    guint frames;

    if (info->chunk == 0)
        return TRUE;
    if (gst_vae_group_get(latent, &frames, &own))
        return frames == 1;
    if (GST_CLOCK_TIME_IS_VALID(length) &&
        trimmed(self, length, (guint) info->decode.step_out) == 1)
        return TRUE;
    if (GST_BUFFER_OFFSET_IS_VALID(latent))
        return GST_BUFFER_OFFSET(latent) % (guint64) info->chunk == 0;
    return !delta || !GST_CLOCK_TIME_IS_VALID(length);
}

/* Returns TRUE if a latent that begins a sequence is not the first one of its
 * clip. The first one has the duration of one frame. */
static gboolean
is_without_context(GstVaeDecode *self, const GstBuffer *buffer)
{
    const gboolean delta =
        GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    const guint first = self->base.choice.info->decode.first_out;
    const guint later = self->base.choice.info->decode.step_out;

    if (first == later || self->base.choice.info->chunk > 0)
        return FALSE;
    if (delta)
        return TRUE;
    if (!GST_BUFFER_OFFSET_IS_VALID(buffer) || GST_BUFFER_OFFSET(buffer) == 0)
        return FALSE;
    return trimmed(self, GST_BUFFER_DURATION(buffer), later) > first;
}

/* Plans the first latent of a sequence: it gives first_out frames, which are
 * the last of a whole group if the clip began earlier. The rest of that group
 * is a gap. */
static guint
plan_start(GstVaeDecode *self, GstVaeItem *item, const GstBuffer *buffer,
           GstClockTime *pts)
{
    const guint first = self->base.choice.info->decode.first_out;
    const guint skip = self->base.choice.info->decode.step_out - first;
    const guint64 k = GST_BUFFER_OFFSET(buffer);
    guint64 from, to, frame;
    const gboolean stated = gst_vae_group_get_frame(buffer, &frame);

    item->start = TRUE;
    if (stated)
        self->frame = frame;
    else if (self->base.input.segment.rate < 0 && k == 0)
        self->frame = 0;
    if (self->base.choice.info->chunk > 0 && !stated &&
        (self->frame == 0 || item->discont) &&
        GST_BUFFER_OFFSET_IS_VALID(buffer))
        self->frame = gst_vae_decode_frames_before(self, k);
    if (!is_without_context(self, buffer))
        return first;
    GST_INFO_OBJECT(self, "a sequence begins in the middle of a clip");
    item->partial = TRUE;
    if (!stated && GST_BUFFER_OFFSET_IS_VALID(buffer) && k > 0)
        self->frame = gst_vae_decode_frames_before(self, k) + skip;
    else
        self->frame += skip;
    if (gst_segment_clip(&self->base.input.segment, GST_FORMAT_TIME, *pts,
                         *pts + gst_vae_decode_frames_time(self, skip), &from,
                         &to))
        item->before = gst_event_new_gap(from, to - from);
    self->since_anchor += skip;
    *pts = self->anchor + gst_vae_decode_frames_time(self, self->since_anchor);
    return first;
}

/* Returns the number of frames in a group of at most n. *length: receives their
 * duration, or NONE if it is that of the nominal rate. */
static guint
group_of(GstVaeDecode *self, const GstBuffer *buffer, guint n,
         GstClockTime *length)
{
    GstClockTime nominal;
    guint frames;

    if (!gst_vae_group_get(buffer, &frames, length) || frames > n) {
        *length = GST_CLOCK_TIME_NONE;
        return trimmed(self, GST_BUFFER_DURATION(buffer), n);
    }
    nominal = gst_vae_decode_frames_time(self, frames);
    if (MAX(*length, nominal) - MIN(*length, nominal) <= GST_VAE_JITTER)
        *length = GST_CLOCK_TIME_NONE;
    return frames;
}

static gboolean
is_trick_mode(GstVaeDecode *self)
{
    return (self->base.input.segment.flags &
            GST_SEGMENT_FLAG_TRICKMODE_KEY_UNITS) != 0;
}

/* With TRICKMODE_KEY_UNITS, the first frame of a latent is shown for the time
 * of the whole latent. Returns the end of this time, or 0 without the trick
 * mode. */
static GstClockTime
stays_until(GstVaeDecode *self, const GstBuffer *buffer)
{
    if (!is_trick_mode(self) || !GST_BUFFER_PTS_IS_VALID(buffer) ||
        !GST_BUFFER_DURATION_IS_VALID(buffer))
        return 0;
    return GST_BUFFER_PTS(buffer) + GST_BUFFER_DURATION(buffer);
}

/* Plans the n frames of a step that begins at pts. length: their duration
 * together; NONE: that of the nominal rate. The first frame ends at `stay` or
 * later. */
static void
plan_frames(GstVaeDecode *self, GstVaeItem *item, guint n, GstClockTime pts,
            GstClockTime length, GstClockTime stay)
{
    const gboolean own = GST_CLOCK_TIME_IS_VALID(length);
    const GstClockTime begin = pts;

    for (guint i = 0; i < n; i++) {
        GstClockTime end;

        self->since_anchor++;
        if (own)
            end = begin + gst_util_uint64_scale(length, i + 1, n);
        else
            end = self->anchor +
                  gst_vae_decode_frames_time(self, self->since_anchor);
        gst_vae_decode_plan_frame(self, &item->out[i], pts,
                                  i == 0 ? MAX(end, stay) : end);
        pts = end;
    }
    if (own)
        set_anchor(self, pts);
}

/* Returns the number of frames of a latent that is not the first one of its
 * sequence. place: its index in its chunk. */
static guint
later_frames(const GstVaeDecode *self, guint64 place)
{
    const VaeModelInfo *info = self->base.choice.info;

    return (guint) (info->chunk > 0 && place == 0 ? info->decode.first_out
                                                  : info->decode.step_out);
}

/* Hides all frames of a latent that is only decoded. With TRICKMODE_KEY_UNITS,
 * hides all except the first. */
static void
hide_frames(GstVaeDecode *self, GstVaeItem *item, const GstBuffer *buffer)
{
    const gboolean hidden =
        GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DECODE_ONLY);

    if (!hidden && !is_trick_mode(self))
        return;
    gst_clear_event(&item->before);
    for (guint i = hidden ? 0 : 1; i < item->n_out; i++)
        item->out[i].needed = FALSE;
}

GstVaeItem *
gst_vae_decode_plan_step(GstVaeDecode *self, GstBuffer *buffer,
                         const GstVaeStep *step)
{
    const gint chunk = self->base.choice.info->chunk;
    GstVaeItem *item = gst_vae_item_new_step();
    GstClockTime pts = step->pts, length = GST_CLOCK_TIME_NONE;
    guint keep;

    if (step->start)
        self->first = self->latent;
    self->latent++;
    item->first = self->first;
    if (chunk > 0)
        item->place = (self->latent - 1 - self->first) % (guint64) chunk;
    item->discont = self->discont || GST_BUFFER_IS_DISCONT(buffer);
    item->backward = self->base.input.segment.rate < 0;
    self->need_start = self->discont = FALSE;
    if (step->start) {
        item->n_out = plan_start(self, item, buffer, &pts);
        keep = item->before ? item->n_out
                            : group_of(self, buffer, item->n_out, &length);
    } else {
        item->n_out = later_frames(self, item->place);
        keep = group_of(self, buffer, item->n_out, &length);
    }
    plan_frames(self, item, keep, pts, length, stays_until(self, buffer));
    hide_frames(self, item, buffer);
    item->in[0] = buffer;
    if (!item->partial) /* otherwise the frame of the metas is missing */
        item->out[0].metas = gst_buffer_ref(buffer);
    item->n_in = 1;
    return item;
}

/* Copies latent i of a buffer. (transfer full) */
static GstBuffer *
copy_latent(GstVaeDecode *self, GstBuffer *buffer, gint i)
{
    const GstVaeLatentInfo *in = &self->in;
    const gsize step = gst_vae_latent_info_step_size(in);
    const gsize plane = step / in->channels;
    GstBuffer *part;
    GstMapInfo from, to;

    if (in->layout == GST_VAE_LATENT_TCHW)
        return gst_buffer_copy_region(buffer, GST_BUFFER_COPY_MEMORY, i * step,
                                      step);
    if (!gst_buffer_map(buffer, &from, GST_MAP_READ))
        return NULL;
    part = gst_buffer_new_allocate(NULL, step, NULL);
    if (part && gst_buffer_map(part, &to, GST_MAP_WRITE)) {
        for (gint c = 0; c < in->channels; c++)
            memcpy(to.data + c * plane,
                   from.data + ((gsize) c * in->frames + i) * plane, plane);
        gst_buffer_unmap(part, &to);
    } else {
        gst_clear_buffer(&part);
    }
    gst_buffer_unmap(buffer, &from);
    return part;
}

/* Sets the flags and times of part i of a buffer. Only the last part can have
 * fewer frames. left: remaining duration of the buffer, or NONE. */
static void
label(GstVaeDecode *self, GstBuffer *part, const GstBuffer *whole, gint i,
      GstClockTime *left)
{
    const VaeSteps *steps = &self->base.choice.info->decode;
    const gint chunk = self->base.choice.info->chunk;
    const guint64 place = chunk > 0 ? (self->latent - self->first) % chunk : 0;
    GstClockTime group =
        gst_vae_decode_frames_time(self, later_frames(self, place));

    if (i == 0) {
        GST_BUFFER_PTS(part) = GST_BUFFER_PTS(whole);
        if (GST_BUFFER_IS_DISCONT(whole))
            GST_BUFFER_FLAG_SET(part, GST_BUFFER_FLAG_DISCONT);
        if (!GST_BUFFER_FLAG_IS_SET(whole, GST_BUFFER_FLAG_DELTA_UNIT))
            group = gst_vae_decode_frames_time(self, steps->first_out);
    }
    if (GST_BUFFER_FLAG_IS_SET(whole, GST_BUFFER_FLAG_DECODE_ONLY))
        GST_BUFFER_FLAG_SET(part, GST_BUFFER_FLAG_DECODE_ONLY);
    if (i > 0 || GST_BUFFER_FLAG_IS_SET(whole, GST_BUFFER_FLAG_DELTA_UNIT))
        GST_BUFFER_FLAG_SET(part, GST_BUFFER_FLAG_DELTA_UNIT);
    if (GST_CLOCK_TIME_IS_VALID(*left)) {
        GST_BUFFER_DURATION(part) =
            i + 1 < self->in.frames ? MIN(group, *left) : *left;
        *left -= GST_BUFFER_DURATION(part);
    }
}

GstBuffer *
gst_vae_decode_split(GstVaeDecode *self, GstBuffer *buffer, gint i,
                     GstClockTime *left)
{
    GstBuffer *part = copy_latent(self, buffer, i);

    if (part)
        label(self, part, buffer, i, left);
    if (part && i == 0)
        gst_vae_metas_copy(part, buffer);
    return part;
}
