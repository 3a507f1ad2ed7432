/*
 * flag.c: decides which buffers continue a sequence, by their flags or by the
 * property `sequence`, and ends sequences.
 */
#include "decode.h"

#include "delay.h"
#include "enums.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

/* Returns TRUE if the duration is that of whole groups, so that no latent of
 * the buffer is the first of a clip. */
static gboolean
is_groups(GstVaeDecode *self, GstClockTime time)
{
    return gst_vae_decode_frames_in(self, time) ==
           (guint64) self->in.frames * self->base.choice.info->decode.step_out;
}

/* Returns TRUE if a buffer without a duration continues the one before, by its
 * timestamp. Either it begins whole groups later, or both buffers lack the flag
 * and the duration (appsrc with do-timestamp) and do not follow each other like
 * single pictures at the rate of the caps. */
static gboolean
begins_to_continue(GstVaeDecode *self, GstClockTime pts)
{
    if (!GST_CLOCK_TIME_IS_VALID(self->input_pts) || pts < self->input_pts)
        return FALSE;
    return is_groups(self, pts - self->input_pts) ||
           (self->input_plain &&
            gst_vae_decode_frames_in(self, pts - self->input_pts) != 1);
}

/* Returns TRUE if the buffer continues the one before, by its times. Either it
 * has no times, or it begins at the end of the one before and has the duration
 * of whole groups. */
static gboolean
seems_to_continue(GstVaeDecode *self, const GstBuffer *buffer)
{
    const VaeSteps *steps = &self->base.choice.info->decode;
    const GstClockTime pts = GST_BUFFER_PTS(buffer), end = self->input_end;
    const GstClockTime duration = GST_BUFFER_DURATION(buffer);

    if (steps->first_out == steps->step_out || GST_BUFFER_OFFSET(buffer) == 0)
        return FALSE;
    if (GST_CLOCK_TIME_IS_VALID(duration) && !is_groups(self, duration))
        return FALSE;
    if (!GST_CLOCK_TIME_IS_VALID(pts))
        return TRUE;
    if (!GST_CLOCK_TIME_IS_VALID(duration))
        return begins_to_continue(self, pts);
    return GST_CLOCK_TIME_IS_VALID(end) &&
           MAX(pts, end) - MIN(pts, end) <=
               gst_vae_decode_frames_time(self, 1) / 2;
}

static void
warn_continues(GstVaeDecode *self, const GstBuffer *buffer)
{
    if (self->told_continues)
        return;
    self->told_continues = TRUE;
    GST_ELEMENT_WARNING(
        self, STREAM, FORMAT,
        ("A latent without the flag DELTA_UNIT begins a sequence and gives %d "
         "of its %d frames, but seems to continue the latent before: set "
         "DELTA_UNIT on every latent but the first, or sequence=continuous on "
         "vaedecode",
         self->base.choice.info->decode.first_out,
         self->base.choice.info->decode.step_out),
        ("by its time %" GST_TIME_FORMAT " and duration %" GST_TIME_FORMAT,
         GST_TIME_ARGS(GST_BUFFER_PTS(buffer)),
         GST_TIME_ARGS(GST_BUFFER_DURATION(buffer))));
}

GstBuffer *
gst_vae_decode_flag(GstVaeDecode *self, GstBuffer *buffer)
{
    gboolean continues =
        self->tensors; /* these caps have no flag for a continued sequence */

    GST_OBJECT_LOCK(self);
    continues |= self->sequence == GST_VAE_SEQUENCE_CONTINUOUS;
    GST_OBJECT_UNLOCK(self);
    if (!self->need_start && !GST_BUFFER_IS_DISCONT(buffer) &&
        !GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT)) {
        if (continues) {
            buffer = gst_buffer_make_writable(buffer);
            GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
        } else if (seems_to_continue(self, buffer)) {
            warn_continues(self, buffer);
        }
    }
    self->input_plain =
        !GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT) &&
        !GST_BUFFER_DURATION_IS_VALID(buffer);
    self->input_pts = GST_BUFFER_PTS(buffer);
    self->input_end = GST_CLOCK_TIME_NONE;
    if (GST_BUFFER_PTS_IS_VALID(buffer) && GST_BUFFER_DURATION_IS_VALID(buffer))
        self->input_end = GST_BUFFER_PTS(buffer) + GST_BUFFER_DURATION(buffer);
    return buffer;
}

GstFlowReturn
gst_vae_decode_finish(GstVaeBase *base)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);

    if (!g_queue_is_empty(&base->delay.waiting))
        self->need_start = self->discont = TRUE;
    return gst_vae_delay_drain(base);
}
