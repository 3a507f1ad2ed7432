/*
 * item.c: creates and frees the items of the queue.
 */
#include "item.h"

static GstVaeItem *
item_new(void)
{
    GstVaeItem *item = g_new0(GstVaeItem, 1);

    item->refs = 1;
    item->result = GST_FLOW_OK;
    return item;
}

GstVaeItem *
gst_vae_item_new_event(GstEvent *event, GstVaeSession *session)
{
    GstVaeItem *item = item_new();

    item->event = event;
    item->session = session ? gst_vae_session_ref(session) : NULL;
    item->ready = GST_EVENT_TYPE(event) != GST_EVENT_EOS;
    return item;
}

GstVaeItem *
gst_vae_item_new_step(void)
{
    return item_new();
}

GstVaeItem *
gst_vae_item_new_open(GstVaeSession *session, GstVaeOpen *open)
{
    GstVaeItem *item = item_new();

    item->session = gst_vae_session_ref(session);
    item->open = open;
    return item;
}

GstVaeItem *
gst_vae_item_ref(GstVaeItem *item)
{
    g_atomic_int_inc(&item->refs);
    return item;
}

void
gst_vae_item_unref(GstVaeItem *item)
{
    if (!item || !g_atomic_int_dec_and_test(&item->refs))
        return;
    for (guint i = 0; i < item->n_in; i++)
        gst_clear_buffer(&item->in[i]);
    for (guint i = 0; i < item->n_out; i++) {
        gst_clear_buffer(&item->out[i].buffer);
        gst_clear_buffer(&item->out[i].metas);
    }
    gst_clear_event(&item->event);
    gst_clear_event(&item->before);
    gst_vae_session_unref(item->session);
    g_free(item->source);
    g_free(item);
}

gboolean
gst_vae_item_follows(const GstVaeItem *item, const GstVaeItem *before)
{
    return !item->event && !item->open && !item->start &&
           !item->without_context && !item->drain && !before->drain &&
           !before->checkpoint && !before->reveals &&
           item->session == before->session;
}
