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
add_latent(GstVaeCall *call, GstVaeSession *session, GstVaeOut *out,
           VaeError *error)
{
    const gsize size = gst_vae_latent_info_size(&session->latent);

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
    if (out->offset > 0)
        GST_BUFFER_FLAG_SET(out->buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    return VAE_OK;
}

VaeStatus
gst_vae_encode_add_step(GstElement *element, GstVaeCall *call, GstVaeItem *item,
                        VaeError *error)
{
    GstVaeBase *base = GST_VAE_BASE(element);
    GstVaeSession *session = item->session;
    VaeStatus status = VAE_OK;

    for (guint i = 0; i < item->n_in && status == VAE_OK; i++)
        status = gst_vae_call_add_picture(call, session, item->in[i],
                                          GST_MAP_READ, error);
    base->mark_discont |= item->discont;
    for (guint i = 0; i < item->n_out && status == VAE_OK; i++) {
        status = add_latent(call, session, &item->out[i], error);
        if (base->mark_discont && status == VAE_OK)
            GST_BUFFER_FLAG_SET(item->out[i].buffer, GST_BUFFER_FLAG_DISCONT);
        base->mark_discont = FALSE;
    }
    return status;
}
