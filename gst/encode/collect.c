/*
 * collect.c: collects frames into groups, and makes steps with times of them.
 */
#include "encode.h"

#include "delay.h"
#include "enums.h"
#include "group.h"
#include "metas.h"
#include "switch.h"
#include "video.h"

GST_DEBUG_CATEGORY(gst_vae_encode_debug); /* of the whole element */
#define GST_CAT_DEFAULT gst_vae_encode_debug

void
gst_vae_encode_forget(GstVaeEncode *self)
{
    for (guint i = 0; i < self->n_pending; i++)
        gst_clear_buffer(&self->pending[i]);
    self->n_pending = 0;
    for (guint i = 0; i < self->n_uncovered; i++)
        gst_clear_buffer(&self->uncovered[i].metas);
    self->n_uncovered = 0;
    gst_clear_buffer(&self->last);
    gst_vae_delay_forget(&self->base);
}

void
gst_vae_encode_restart(GstVaeBase *base)
{
    GstVaeEncode *self = GST_VAE_ENCODE(base);

    gst_vae_encode_forget(self);
    self->need_start = TRUE;
    self->discont = TRUE;
}

GstClockTime
gst_vae_encode_end(GstVaeBase *base)
{
    return GST_VAE_ENCODE(base)->next;
}

void
gst_vae_encode_segment(GstVaeBase *base)
{
    GST_VAE_ENCODE(base)->next = GST_CLOCK_TIME_NONE;
}

/* Warns of the first n frames whose times are further from even ones than a
 * frame lasts at the rate of the caps: a latent has one time and one length. */
static void
check_even(GstVaeEncode *self, guint n, GstClockTime length)
{
    const GstClockTime begin = self->uncovered[0].pts;

    for (guint i = 1; i < n && !self->uneven_told; i++) {
        const GstClockTime even =
            begin + gst_util_uint64_scale_int(length, (gint) i, (gint) n);
        const GstClockTimeDiff off =
            GST_CLOCK_DIFF(even, self->uncovered[i].pts);

        if ((GstClockTime) ABS(off) <= self->frame_time)
            continue;
        self->uneven_told = TRUE;
        GST_ELEMENT_WARNING(
            self, STREAM, FORMAT,
            ("The times of frames jump within a latent, which has one time for "
             "all of them: they are spread evenly, and a frame is "
             "%" G_GINT64_FORMAT " ms off. Put videorate before vaeencode",
             (gint64) ABS(off) / GST_MSECOND),
            ("the frame at %" GST_TIME_FORMAT
             " gets the time %" GST_TIME_FORMAT,
             GST_TIME_ARGS(self->uncovered[i].pts), GST_TIME_ARGS(even)));
    }
}

/* Returns how long the next n frames last. If durations end before the next
 * frame begins, they are of a wrong rate. The distances between the frames then
 * count. */
static GstClockTime
length_of(const GstVaeEncode *self, guint n)
{
    const GstVaeSpan *span = self->uncovered, *last = &span[n - 1];
    GstClockTime length = last->end > span->pts ? last->end - span->pts : 0;

    for (guint i = 0; i + 1 < n; i++)
        if (span[i].end + GST_VAE_JITTER < span[i + 1].pts &&
            last->pts > span->pts)
            length = MAX(
                length, gst_util_uint64_scale(last->pts - span->pts, n, n - 1));
    return length;
}

/* The times of the next latent, from its frames. */
static void
cover(GstVaeEncode *self, guint n, GstVaeOut *out)
{
    const gboolean whole = n <= self->n_uncovered;

    n = MIN(n, self->n_uncovered);
    out->pts = self->uncovered[0].pts;
    out->frames = n;
    out->duration = out->length = length_of(self, n);
    if (out->length > 0)
        check_even(self, n, out->length);
    /* If times jump, they do not show how long n frames last. */
    if (self->in.fps_n > 0) {
        const GstClockTime frames = gst_util_uint64_scale(
            n, GST_SECOND * (guint64) self->in.fps_d, (guint64) self->in.fps_n);
        const GstClockTime frame = frames / n;

        if (out->duration + frame < frames || out->duration > frames + frame)
            out->duration = frames;
    }
    /* Without a rate a duration would look like a trimmed group. */
    if (whole && self->in.fps_n == 0)
        out->duration = GST_CLOCK_TIME_NONE;
    out->metas = g_steal_pointer(&self->uncovered[0].metas);
    for (guint i = 1; i < n; i++)
        gst_clear_buffer(&self->uncovered[i].metas);
    self->n_uncovered -= n;
    for (guint i = 0; i < self->n_uncovered; i++)
        self->uncovered[i] = self->uncovered[i + n];
}

/* Returns TRUE if the next latent is the first of a sequence or of a chunk. */
static gboolean
begins(const GstVaeEncode *self)
{
    const gint chunk = self->base.choice.info->chunk;

    return self->need_start || (chunk > 0 && self->latent % chunk == 0);
}

static guint
group_size(const GstVaeEncode *self)
{
    return begins(self) ? self->base.choice.info->encode.first_in
                        : self->base.choice.info->encode.step_in;
}

/* Turns the frames of a whole group into a step. */
static GstFlowReturn
push_group(GstVaeEncode *self)
{
    const VaeSteps *decode = &self->base.choice.info->decode;
    GstVaeItem *item = gst_vae_item_new_step();

    item->start = self->need_start;
    item->discont = self->discont;
    if (self->need_start)
        self->latent = 0;
    item->n_in = self->n_pending;
    for (guint i = 0; i < self->n_pending; i++)
        item->in[i] = g_steal_pointer(&self->pending[i]);
    self->n_pending = 0;
    item->n_out = 1;
    cover(self, begins(self) ? decode->first_out : decode->step_out,
          &item->out[0]);
    item->out[0].needed = TRUE;
    item->out[0].offset = self->latent++;
    self->need_start = self->discont = FALSE;
    gst_vae_delay_step(&self->base, item);
    return gst_vae_base_push_step(&self->base, item);
}

GstFlowReturn
gst_vae_encode_finish(GstVaeBase *base)
{
    GstVaeEncode *self = GST_VAE_ENCODE(base);
    GstFlowReturn ret = GST_FLOW_OK;
    gint tail;

    if (self->n_uncovered == 0 && !gst_vae_delay_is_waiting(base))
        return GST_FLOW_OK;
    GST_OBJECT_LOCK(self);
    tail = self->tail;
    GST_OBJECT_UNLOCK(self);
    while (tail == GST_VAE_TAIL_REPEAT && self->n_uncovered > 0 &&
           ret == GST_FLOW_OK) {
        while (self->n_pending < group_size(self))
            self->pending[self->n_pending++] = gst_buffer_ref(self->last);
        ret = push_group(self);
    }
    if (self->n_uncovered > 0)
        GST_INFO_OBJECT(self,
                        "%u frames at the end of a sequence fill no "
                        "group and are dropped",
                        self->n_uncovered);
    if (ret == GST_FLOW_OK)
        ret = gst_vae_delay_drain(base);
    gst_vae_encode_forget(self);
    self->need_start = TRUE;
    return ret;
}

void
gst_vae_encode_key_unit(GstVaeBase *base)
{
    GST_DEBUG_OBJECT(base, "a sequence begins by request");
    gst_vae_encode_finish(base);
    GST_VAE_ENCODE(base)->need_start = TRUE;
}

/* Removes the requests that are due, and returns the count of the latest
 * one. */
static gboolean
take_requests(GstVaeEncode *self, GstClockTime running, guint *count)
{
    gboolean due = FALSE;

    GST_OBJECT_LOCK(self);
    for (guint i = 0; i < self->requests->len;) {
        const GstVaeKeyRequest *r =
            &g_array_index(self->requests, GstVaeKeyRequest, i);

        if (GST_CLOCK_TIME_IS_VALID(r->time) && running < r->time) {
            i++;
            continue;
        }
        due = TRUE;
        *count = r->count;
        g_array_remove_index(self->requests, i);
    }
    GST_OBJECT_UNLOCK(self);
    return due;
}

/* Begins a sequence where a force-key-unit event is due; tells downstream. */
static void
begin_if_forced(GstVaeEncode *self, GstClockTime pts)
{
    const GstSegment *s = &self->base.input.segment;
    const GstClockTime running = gst_vae_base_running_time(&self->base, pts);
    guint count = 0;

    if (!take_requests(self, running, &count))
        return;
    gst_vae_encode_key_unit(&self->base);
    gst_vae_queue_push_event(
        &self->base.queue,
        gst_video_event_new_downstream_force_key_unit(
            pts, gst_segment_to_stream_time(s, GST_FORMAT_TIME, pts), running,
            FALSE, count),
        NULL);
}

/* Ends a sequence that is as long as it may be, so that another latent, whose
 * first frame begins at pts, would be too much. */
static void
end_if_full(GstVaeEncode *self, GstClockTime pts)
{
    const GstClockTime end = pts + group_size(self) * self->frame_time;

    GST_OBJECT_LOCK(self);
    const guint64 most = (guint64) self->key_int_max;
    const GstClockTime longest = self->key_int_max_time;
    GST_OBJECT_UNLOCK(self);
    if (!self->need_start && self->n_pending == 0 &&
        ((most > 0 && self->latent >= most) ||
         (longest > 0 && end > self->begin + longest)))
        gst_vae_encode_key_unit(&self->base);
}

/* Sets the time of a frame: its own one, else a counted one. Returns FALSE if
 * it is outside the segment. */
static gboolean
frame_span(GstVaeEncode *self, const GstBuffer *buffer, GstVaeSpan *span)
{
    GstClockTime duration = GST_BUFFER_DURATION(buffer);

    if (GST_BUFFER_PTS_IS_VALID(buffer))
        self->next = GST_BUFFER_PTS(buffer);
    else if (!GST_CLOCK_TIME_IS_VALID(self->next))
        self->next = self->base.input.segment.start;
    if (!GST_CLOCK_TIME_IS_VALID(duration))
        duration = self->frame_time;
    span->pts = self->next;
    span->end = self->next + duration;
    self->next = span->end;
    return gst_segment_clip(&self->base.input.segment, GST_FORMAT_TIME,
                            span->pts, span->end, &span->pts, &span->end);
}

GstFlowReturn
gst_vae_encode_collect(GstVaeBase *base, GstBuffer *buffer)
{
    GstVaeEncode *self = GST_VAE_ENCODE(base);
    GstFlowReturn ret = GST_FLOW_OK;
    gboolean without_context;
    GstVaeSpan span;

    if (!frame_span(self, buffer, &span)) {
        GST_LOG_OBJECT(self, "dropping a frame outside the segment");
        gst_buffer_unref(buffer);
        return GST_FLOW_OK;
    }
    if (GST_BUFFER_IS_DISCONT(buffer) && !self->need_start) {
        ret = gst_vae_encode_finish(base);
        self->need_start = self->discont = TRUE;
    }
    begin_if_forced(self, span.pts);
    end_if_full(self, span.pts);
    if (self->need_start && self->n_pending == 0)
        self->begin = span.pts;
    if (ret == GST_FLOW_OK && self->need_start && self->n_pending == 0)
        ret = gst_vae_base_switch(base, TRUE, span.pts, &without_context);
    if (ret != GST_FLOW_OK) {
        gst_buffer_unref(buffer);
        return ret;
    }
    gst_buffer_replace(&self->last, buffer);
    span.metas = gst_vae_metas_take(buffer);
    self->uncovered[self->n_uncovered++] = span;
    self->pending[self->n_pending++] = buffer;
    return self->n_pending < group_size(self) ? GST_FLOW_OK : push_group(self);
}
