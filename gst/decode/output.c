/*
 * output.c: allocates the memory for frames, and adds the steps to the engine's
 * call.
 */
#include "call.h"
#include "decode.h"
#include "frames.h"
#include "metas.h"
#include "video.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

/* The maximum quality of QOS messages in GStreamer, and its default. */
#define FULL_QUALITY 1000000

/* Returns TRUE if the pool may run out of buffers. */
static gboolean
is_bounded(GstBufferPool *pool)
{
    GstStructure *config = gst_buffer_pool_get_config(pool);
    guint max = 0;

    gst_buffer_pool_config_get_params(config, NULL, NULL, NULL, &max);
    gst_structure_free(config);
    return max > 0;
}

/* Creates a pool if downstream offers none that fits. */
static GstBufferPool *
own_pool(GstVaeSession *session, guint size, gboolean video_meta)
{
    GstBufferPool *pool = gst_video_buffer_pool_new();
    GstStructure *config = gst_buffer_pool_get_config(pool);

    gst_buffer_pool_config_set_params(config, session->caps, size, 0, 0);
    gst_buffer_pool_config_set_allocator(config, session->allocator,
                                         &session->allocation);
    if (video_meta)
        gst_buffer_pool_config_add_option(config,
                                          GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(pool, config))
        gst_clear_object(&pool);
    return pool;
}

/* Returns downstream's pool, or NULL. needed: the number of buffers in use at
 * once. */
static GstBufferPool *
offered_pool(GstVaeSession *session, GstQuery *query, guint needed,
             gboolean video_meta)
{
    GstBufferPool *pool = NULL;
    GstStructure *config;
    guint size, min, max;

    if (gst_query_get_n_allocation_pools(query) == 0)
        return NULL;
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
    if (!pool || (max > 0 && max < min + needed)) {
        gst_clear_object(&pool);
        return NULL;
    }
    config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(
        config, session->caps, MAX(size, GST_VIDEO_INFO_SIZE(&session->video)),
        min, max);
    if (video_meta &&
        gst_buffer_pool_has_option(pool, GST_BUFFER_POOL_OPTION_VIDEO_META))
        gst_buffer_pool_config_add_option(config,
                                          GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(pool, config))
        gst_clear_object(&pool);
    return pool;
}

void
gst_vae_decode_decide_allocation(GstVaeBase *base, GstVaeSession *session,
                                 GstQuery *query)
{
    const gboolean video_meta =
        gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    const VaeModelInfo *info = gst_vae_model_info(session->model);
    const guint depth = gst_vae_queue_depth(&base->queue);
    GstBufferPool *pool;
    guint steps;

    /* The automatic slice size is at most 4 steps. Buffers are needed for the
     * steps in the queue, in the engine and in the task. */
    steps = session->params.slice_size ? session->params.slice_size : 4;
    if (gst_query_get_n_allocation_params(query) > 0)
        gst_query_parse_nth_allocation_param(query, 0, &session->allocator,
                                             &session->allocation);
    pool =
        offered_pool(session, query,
                     (depth + 2) * steps * info->decode.step_out, video_meta);
    if (pool && gst_vae_video_is_cuda(session->caps) &&
        !gst_vae_cuda_is_pool(pool))
        gst_clear_object(&pool);
    if (pool && !gst_buffer_pool_set_active(pool, TRUE))
        gst_clear_object(&pool);
    GST_DEBUG_OBJECT(base, "%s pool, video meta %d",
                     pool ? "downstream's" : "own", video_meta);
    if (!pool && gst_vae_video_is_cuda(session->caps)) {
        pool = gst_vae_cuda_pool(&base->cuda, session->caps,
                                 GST_VIDEO_INFO_SIZE(&session->video));
        if (pool && !gst_buffer_pool_set_active(pool, TRUE))
            gst_clear_object(&pool);
    } else if (!pool) {
        pool =
            own_pool(session, GST_VIDEO_INFO_SIZE(&session->video), video_meta);
        if (pool)
            gst_buffer_pool_set_active(pool, TRUE);
        /* Rows are padded to a multiple of 4 bytes, and the planes of 4:2:0 to
         * even sizes. */
        session->clear =
            session->params.width % 8 != 0 || session->params.height % 2 != 0;
    }
    session->pool = pool;
    session->bounded = pool && is_bounded(pool);
}

/* Returns TRUE and posts a QOS message if a frame is too late for the sink. The
 * last frame stays on the screen, so the sink gets it however late it is. */
static gboolean
is_late(GstVaeBase *base, const GstVaeOut *out)
{
    GstClockTime earliest;
    GstMessage *message;
    guint64 frames, dropped;
    gdouble proportion;

    if (out->last ||
        !gst_vae_qos_is_late(&base->qos, out->running, &earliest, &proportion))
        return FALSE;
    dropped = gst_vae_stats_dropped(&base->stats, &frames);
    message = gst_message_new_qos(GST_OBJECT(base), FALSE, out->running,
                                  out->stream, out->pts, out->duration);
    gst_message_set_qos_values(message, GST_CLOCK_DIFF(out->running, earliest),
                               proportion, FULL_QUALITY);
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, frames, dropped);
    gst_element_post_message(GST_ELEMENT(base), message);
    return TRUE;
}

/* Allocates a buffer for one frame, and maps it as the next picture of the
 * call. */
static VaeStatus
add_frame(GstVaeSession *session, GstVaeCall *call, GstVaeOut *out,
          VaeError *error)
{
    GstFlowReturn ret = GST_FLOW_ERROR;

    if (session->pool)
        ret = gst_buffer_pool_acquire_buffer(session->pool, &out->buffer, NULL);
    if (ret == GST_FLOW_FLUSHING)
        return vae_fail(error, VAE_ERR_CANCELLED, "the pool is flushing");
    if (ret != GST_FLOW_OK)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a frame: %s",
                        gst_flow_get_name(ret));
    /* Clears the padding, too, so that a dump of the frames is the same in
     * every run. */
    if (session->clear)
        gst_buffer_memset(out->buffer, 0, 0, gst_buffer_get_size(out->buffer));
    if (out->metas)
        gst_vae_metas_copy(out->buffer, out->metas);
    gst_vae_call_stamp(out);
    return gst_vae_call_add_picture(call, session, out->buffer, GST_MAP_WRITE,
                                    error);
}

VaeStatus
gst_vae_decode_add_step(GstElement *element, GstVaeCall *call, GstVaeItem *item,
                        VaeError *error)
{
    GstVaeBase *base = GST_VAE_BASE(element);
    GstVaeSession *session = item->session;
    VaeStatus status = VAE_OK;

    if (!item->drain) {
        if (!gst_vae_call_add_latent(call, session, item->in[0], GST_MAP_READ))
            return vae_fail(error, VAE_ERR_READ, "a latent cannot be read");
    }
    base->mark_discont |= item->discont;
    for (guint i = 0; i < item->n_out && status == VAE_OK; i++) {
        GstVaeOut *out = &item->out[i];

        if (!out->needed || is_late(base, out)) {
            gst_vae_call_add_picture(call, session, NULL, 0, NULL);
            continue;
        }
        status = add_frame(session, call, out, error);
        if (base->mark_discont && status == VAE_OK)
            GST_BUFFER_FLAG_SET(out->buffer, GST_BUFFER_FLAG_DISCONT);
        base->mark_discont = FALSE;
    }
    return status;
}
