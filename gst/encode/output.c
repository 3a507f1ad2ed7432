/*
 * output.c: allocates the memory for latents, and adds the steps to the
 * engine's call.
 */
#include "call.h"
#include "encode.h"
#include "group.h"
#include "metas.h"

void
gst_vae_encode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                 GstQuery *query)
{
    if (gst_query_get_n_allocation_params(query) > 0)
        gst_query_parse_nth_allocation_param(query, 0, &session->allocator,
                                             &session->allocation);
}

static VaeStatus
add_latent(GstVaeCall *call, GstVaeItem *item, VaeError *error)
{
    GstVaeSession *session = item->session;
    const gsize size = gst_vae_latent_info_size(&session->latent);
    GstVaeOut *out = &item->out[0];

    out->buffer =
        gst_buffer_new_allocate(session->allocator, size, &session->allocation);
    if (!out->buffer ||
        !gst_vae_call_add_latent(call, session, out->buffer, GST_MAP_WRITE))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "no memory for a latent of %zu bytes", size);
    gst_vae_call_stamp(out);
    if (out->metas)
        gst_vae_metas_copy(out->buffer, out->metas);
    gst_vae_group_add(out->buffer, out->frames, out->length);
    if (!item->start)
        GST_BUFFER_FLAG_SET(out->buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    if (item->discont)
        GST_BUFFER_FLAG_SET(out->buffer, GST_BUFFER_FLAG_DISCONT);
    return VAE_OK;
}

VaeStatus
gst_vae_encode_add_step(GstElement *element, GstVaeCall *call, GstVaeItem *item,
                        VaeError *error)
{
    GstVaeSession *session = item->session;

    VaeStatus status = VAE_OK;

    for (guint i = 0; i < item->n_in && status == VAE_OK; i++)
        status = gst_vae_call_add_picture(call, session, item->in[i],
                                          GST_MAP_READ, error);
    return status == VAE_OK ? add_latent(call, item, error) : status;
}
