/*
 * group.c: registers GstVaeGroupMeta, and adds it to a latent and reads it.
 */
#include "group.h"

#define NAME "GstVaeGroupMeta"
#define EVENT "GstVaeGroup"

static void
register_once(void)
{
    static const gchar *tags[] = {NULL};
    static gsize done;

    if (g_once_init_enter(&done)) {
        gst_meta_register_custom(NAME, tags, NULL, NULL, NULL);
        g_once_init_leave(&done, 1);
    }
}

void
gst_vae_group_add(GstBuffer *buffer, guint frames, GstClockTime duration)
{
    GstCustomMeta *meta;

    register_once();
    meta = gst_buffer_add_custom_meta(buffer, NAME);
    if (meta)
        gst_structure_set(gst_custom_meta_get_structure(meta), "frames",
                          G_TYPE_UINT, frames, "duration", G_TYPE_UINT64,
                          duration, NULL);
}

gboolean
gst_vae_group_get(const GstBuffer *buffer, guint *frames,
                  GstClockTime *duration)
{
    GstCustomMeta *meta;

    register_once();
    meta = gst_buffer_get_custom_meta((GstBuffer *) buffer, NAME);
    return meta &&
           gst_structure_get(gst_custom_meta_get_structure(meta), "frames",
                             G_TYPE_UINT, frames, "duration", G_TYPE_UINT64,
                             duration, NULL) &&
           *frames > 0 && *duration <= G_MAXINT64;
}

void
gst_vae_group_set_frame(GstBuffer *buffer, guint64 frame)
{
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, NAME);

    if (meta)
        gst_structure_set(gst_custom_meta_get_structure(meta), "frame",
                          G_TYPE_UINT64, frame, NULL);
}

gboolean
gst_vae_group_get_frame(const GstBuffer *buffer, guint64 *frame)
{
    GstCustomMeta *meta;

    register_once();
    meta = gst_buffer_get_custom_meta((GstBuffer *) buffer, NAME);
    return meta && gst_structure_get(gst_custom_meta_get_structure(meta),
                                     "frame", G_TYPE_UINT64, frame, NULL);
}

gboolean
gst_vae_group_is_meta(const GstMeta *meta)
{
    return gst_meta_info_is_custom(meta->info) &&
           gst_custom_meta_has_name((GstCustomMeta *) meta, NAME);
}

GstEvent *
gst_vae_group_event(const GstBuffer *buffer)
{
    GstCustomMeta *meta =
        gst_buffer_get_custom_meta((GstBuffer *) buffer, NAME);
    GstStructure *facts =
        gst_structure_copy(gst_custom_meta_get_structure(meta));

    gst_structure_set_name(facts, EVENT);
    return gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, facts);
}

gboolean
gst_vae_group_take_event(GstStructure **next, GstEvent *event)
{
    if (!gst_event_has_name(event, EVENT))
        return FALSE;
    gst_clear_structure(next);
    *next = gst_structure_copy(gst_event_get_structure(event));
    return TRUE;
}

GstBuffer *
gst_vae_group_use_event(GstStructure **next, GstBuffer *buffer)
{
    GstClockTime duration;
    guint64 frame;
    guint frames;

    if (!*next)
        return buffer;
    if (!gst_vae_group_get(buffer, &frames, &duration) &&
        gst_structure_get(*next, "frames", G_TYPE_UINT, &frames, "duration",
                          G_TYPE_UINT64, &duration, NULL)) {
        buffer = gst_buffer_make_writable(buffer);
        gst_vae_group_add(buffer, frames, duration);
        if (gst_structure_get_uint64(*next, "frame", &frame))
            gst_vae_group_set_frame(buffer, frame);
    }
    gst_clear_structure(next);
    return buffer;
}
