/*
 * delay.c: results that come later than their input, and the end of their
 * sequence.
 */
#include "delay.h"

#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

/* The results of a later step. */
static gint
rate_of(const GstVaeSession *session)
{
    return session->params.direction == VAE_DECODE
               ? gst_vae_model_info(session->model)->decode.step_out
               : 1;
}

static gint
exact_delay(const GstVaeSession *session)
{
    const VaeStreamParams *params = &session->params;

    return vae_model_reach(gst_vae_model_info(session->model),
                           params->direction, params->tile_plan)
        .delay;
}

/* The number of results between the newest one that a step completes and the
 * step's own last one. */
static guint
delay_of(const GstVaeSession *session)
{
    const gint ahead = gst_vae_session_look_ahead(session);

    return (guint) MIN(ahead * rate_of(session), exact_delay(session));
}

/* The first results of a sequence may wait for the one after them. */
static guint
held_by(const GstVaeSession *session)
{
    const guint delay = delay_of(session);

    return delay > 0 && delay == (guint) exact_delay(session)
               ? (guint) gst_vae_model_info(session->model)->held
               : 0;
}

guint64
gst_vae_delay_waiting_of(const GstVaeSession *session, guint64 all)
{
    const guint64 delay = delay_of(session);

    return all <= delay + held_by(session) ? all : delay;
}

GstClockTime
gst_vae_delay_time(const GstVaeSession *session)
{
    return session->step_time / (guint) rate_of(session) *
           (delay_of(session) + held_by(session));
}

/* Returns the number of results that the engine gives of the sequence, after
 * all its steps so far and `steps` steps of its end. */
static guint64
given_after(const GstVaeBase *base, const GstVaeSession *session, gint steps)
{
    const gint64 all = (gint64) base->delay.planned;
    const gint64 end = all + steps * rate_of(session) - exact_delay(session);
    gint64 n =
        all - (gint64) gst_vae_delay_waiting_of(session, base->delay.planned);

    if (steps > 0 && end > gst_vae_model_info(session->model)->held)
        n = MAX(n, end);
    return (guint64) CLAMP(n, 0, all);
}

/* Moves the results before number `until` from those that wait to the item. */
static void
take(GstVaeBase *base, GstVaeItem *item, guint64 until)
{
    GstVaeDelay *delay = &base->delay;

    g_assert(until - delay->given <= GST_VAE_MAX_UNITS);
    item->n_out = 0;
    for (; delay->given < until; delay->given++) {
        GstVaeOut *out = g_queue_pop_head(&delay->waiting);

        item->out[item->n_out++] = *out;
        g_free(out);
    }
    gst_vae_stats_waiting(&base->stats, g_queue_get_length(&delay->waiting));
}

static void
free_out(gpointer data)
{
    GstVaeOut *out = data;

    gst_clear_buffer(&out->metas);
    g_free(out);
}

void
gst_vae_delay_forget(GstVaeBase *base)
{
    g_queue_clear_full(&base->delay.waiting, free_out);
    gst_vae_stats_waiting(&base->stats, 0);
    base->delay.planned = base->delay.given = 0;
}

void
gst_vae_delay_add(GstVaeBase *base, const GstVaeOut *out)
{
    GstVaeOut *copy = g_new(GstVaeOut, 1);

    *copy = *out;
    g_queue_push_tail(&base->delay.waiting, copy);
}

void
gst_vae_delay_step(GstVaeBase *base, GstVaeItem *item)
{
    const GstVaeSession *session = base->queue.session;

    if (item->start || item->without_context)
        gst_vae_delay_forget(base);
    if (exact_delay(session) == 0)
        return;
    for (guint i = 0; i < item->n_out; i++)
        gst_vae_delay_add(base, &item->out[i]);
    base->delay.planned += item->n_out;
    take(base, item, given_after(base, session, 0));
}

gboolean
gst_vae_delay_is_waiting(const GstVaeBase *base)
{
    for (const GList *l = base->delay.waiting.head; l; l = l->next)
        if (((const GstVaeOut *) l->data)->needed)
            return TRUE;
    return FALSE;
}

GstFlowReturn
gst_vae_delay_drain(GstVaeBase *base)
{
    const GstVaeSession *session = base->queue.session;
    GstFlowReturn ret = GST_FLOW_OK;

    if (g_queue_is_empty(&base->delay.waiting))
        return GST_FLOW_OK;
    GST_DEBUG_OBJECT(base, "%u results are due at the end of the sequence",
                     g_queue_get_length(&base->delay.waiting));
    for (gint step = 1; ret == GST_FLOW_OK && gst_vae_delay_is_waiting(base);
         step++) {
        const guint64 until = given_after(base, session, step);
        GstVaeItem *item;

        if (until == base->delay.given)
            continue;
        item = gst_vae_item_new_step();
        item->drain = TRUE;
        item->backward = base->input.segment.rate < 0;
        take(base, item, until);
        ret = gst_vae_base_push_step(base, item);
    }
    gst_vae_delay_forget(base);
    return ret;
}
