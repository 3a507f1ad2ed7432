/*
 * delay.c: the frames of a decoder with a delay. They are planned when their
 * latent arrives, because it has their times. Then they wait for the step that
 * computes them.
 */
#include "decode.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

static gint
exact_delay(const GstVaeSession *session)
{
    return vae_model_reach(gst_vae_model_info(session->model),
                           session->params.tile_plan)
        .delay;
}

/* The number of frames between the newest frame that a latent completes and the
 * latent's own last frame. */
static guint
delay_of(const GstVaeSession *session)
{
    const VaeModelInfo *info = gst_vae_model_info(session->model);
    const gint ahead = gst_vae_session_look_ahead(session);

    return (guint) MIN(ahead * info->decode.step_out, exact_delay(session));
}

/* The first frames of a sequence may wait for the frame after them. */
static guint
held_by(const GstVaeSession *session)
{
    const VaeModelInfo *info = gst_vae_model_info(session->model);

    return delay_of(session) == (guint) exact_delay(session)
               ? (guint) info->held
               : 0;
}

guint64
gst_vae_decode_waiting_of(const GstVaeSession *session, guint64 all)
{
    const guint64 delay = delay_of(session);

    return all <= delay + held_by(session) ? all : delay;
}

GstClockTime
gst_vae_decode_delay_time(const GstVaeSession *session)
{
    return session->frame_time * (delay_of(session) + held_by(session));
}

/* Returns the number of frames that the engine gives of the sequence, after all
 * its latents so far and `steps` steps of its end. */
static guint64
given_after(const GstVaeDecode *self, const GstVaeSession *session, gint steps)
{
    const VaeModelInfo *info = gst_vae_model_info(session->model);
    const gint64 all = (gint64) self->planned;
    const gint64 end =
        all + steps * info->decode.step_out - exact_delay(session);
    gint64 n = all - (gint64) gst_vae_decode_waiting_of(session, self->planned);

    if (steps > 0 && end > info->held)
        n = MAX(n, end);
    return (guint64) CLAMP(n, 0, all);
}

/* Moves the frames before number `until` from those that wait to the item. */
static void
take(GstVaeDecode *self, GstVaeItem *item, guint64 until)
{
    g_assert(until - self->given <= GST_VAE_MAX_UNITS);
    item->n_out = 0;
    for (; self->given < until; self->given++) {
        GstVaeOut *out = g_queue_pop_head(&self->waiting);

        item->out[item->n_out++] = *out;
        g_free(out);
    }
    item->frames = self->frame - g_queue_get_length(&self->waiting);
    gst_vae_stats_waiting(&self->base.stats,
                          g_queue_get_length(&self->waiting));
}

static void
free_out(gpointer data)
{
    GstVaeOut *out = data;

    gst_clear_buffer(&out->metas);
    g_free(out);
}

void
gst_vae_decode_forget(GstVaeDecode *self)
{
    g_queue_clear_full(&self->waiting, free_out);
    gst_vae_stats_waiting(&self->base.stats, 0);
    self->planned = self->given = 0;
}

void
gst_vae_decode_delay(GstVaeDecode *self, GstVaeItem *item)
{
    const GstVaeSession *session = self->base.queue.session;

    if (item->start || item->without_context)
        gst_vae_decode_forget(self);
    if (gst_vae_model_info(session->model)->delay == 0)
        return;
    for (guint i = 0; i < item->n_out; i++) {
        GstVaeOut *out = g_new(GstVaeOut, 1);

        *out = item->out[i];
        g_queue_push_tail(&self->waiting, out);
    }
    self->planned += item->n_out;
    take(self, item, given_after(self, session, 0));
}

void
gst_vae_decode_delay_resume(GstVaeDecode *self, guint64 n, GstClockTime pts)
{
    const guint64 wait = gst_vae_decode_waiting_of(self->base.queue.session, n);
    const guint64 late = MAX(gst_vae_decode_frames_time(self, wait), pts) - pts;

    self->planned = n;
    self->given = n - wait;
    self->frame -= wait;
    if (late > 0)
        GST_WARNING_OBJECT(self,
                           "%" G_GUINT64_FORMAT " frames that wait are "
                           "older than time 0: the times must go on",
                           wait);
    for (guint64 i = wait; i > 0; i--) {
        const GstClockTime end =
            pts - MIN(pts, gst_vae_decode_frames_time(self, i - 1));
        GstVaeOut *out = g_new0(GstVaeOut, 1);

        gst_vae_decode_plan_frame(
            self, out, pts - MIN(pts, gst_vae_decode_frames_time(self, i)),
            end);
        g_queue_push_tail(&self->waiting, out);
    }
}

gboolean
gst_vae_decode_is_waiting(const GstVaeDecode *self)
{
    for (const GList *l = self->waiting.head; l; l = l->next)
        if (((const GstVaeOut *) l->data)->needed)
            return TRUE;
    return FALSE;
}

GstFlowReturn
gst_vae_decode_drain(GstVaeDecode *self)
{
    GstVaeBase *base = &self->base;
    const GstVaeSession *session = base->queue.session;
    GstFlowReturn ret = GST_FLOW_OK;

    if (g_queue_is_empty(&self->waiting))
        return GST_FLOW_OK;
    GST_DEBUG_OBJECT(self, "%u frames are due at the end of the sequence",
                     g_queue_get_length(&self->waiting));
    for (gint step = 1; ret == GST_FLOW_OK && gst_vae_decode_is_waiting(self);
         step++) {
        const guint64 until = given_after(self, session, step);
        GstVaeItem *item;

        if (until == self->given)
            continue;
        item = gst_vae_item_new_step();
        item->drain = TRUE;
        item->backward = base->input.segment.rate < 0;
        take(self, item, until);
        ret = gst_vae_base_push_step(base, item);
    }
    gst_vae_decode_forget(self);
    self->need_start = self->discont = TRUE;
    return ret;
}
