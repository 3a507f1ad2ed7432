/*
 * gstvaedecoderun.c: memory for frames, and the engine's call.
 */
#include "gstvaedecode.h"

#include "gstvaevideo.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

/* A late stream still shows a picture this often. */
#define SHOW_EVERY GST_SECOND

/* A pool of our own where downstream offers none that fits. */
static GstBufferPool *
own_pool(GstVaeSession *session, guint size, gboolean video_meta)
{
    GstBufferPool *pool = gst_video_buffer_pool_new();
    GstStructure *config = gst_buffer_pool_get_config(pool);

    gst_buffer_pool_config_set_params(config, session->caps, size, 0, 0);
    if (video_meta)
        gst_buffer_pool_config_add_option(config,
                                          GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(pool, config))
        gst_clear_object(&pool);
    return pool;
}

/* Downstream's pool, or NULL. needed buffers are out at once. */
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
    guint steps, depth;
    GstBufferPool *pool;

    GST_OBJECT_LOCK(base);
    depth = base->settings.queue_depth;
    GST_OBJECT_UNLOCK(base);
    /* Up to 4 steps of a slice unless told otherwise; what waits, what is
     * computed and what is pushed. */
    steps = session->params.slice_size ? session->params.slice_size : 4;
    pool =
        offered_pool(session, query,
                     (depth + 2) * steps * info->decode.step_out, video_meta);
    if (pool && !gst_buffer_pool_set_active(pool, TRUE))
        gst_clear_object(&pool);
    GST_DEBUG_OBJECT(base, "%s pool, video meta %d",
                     pool ? "downstream's" : "own", video_meta);
    if (!pool) {
        pool =
            own_pool(session, GST_VIDEO_INFO_SIZE(&session->video), video_meta);
        if (pool)
            gst_buffer_pool_set_active(pool, TRUE);
        /* Rows are rounded up to 4 bytes, planes of 4:2:0 to even sizes. */
        session->clear =
            session->params.width % 8 != 0 || session->params.height % 2 != 0;
    }
    session->pool = pool;
}

/* Posts what a dropped frame is worth to the application. */
static void
post_qos(GstVaeBase *base, const GstVaeItem *item, const GstVaeOut *out,
         GstClockTime earliest)
{
    GstMessage *message;
    guint64 frames, dropped;

    g_mutex_lock(&base->lock);
    dropped = ++base->counters.dropped;
    frames = base->counters.frames;
    g_mutex_unlock(&base->lock);
    message = gst_message_new_qos(GST_OBJECT(base), FALSE, out->running,
                                  GST_CLOCK_TIME_NONE, out->pts, out->duration);
    gst_message_set_qos_values(message, GST_CLOCK_DIFF(out->running, earliest),
                               1.0, 1000000);
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, frames, dropped);
    gst_element_post_message(GST_ELEMENT(base), message);
}

/* Whether the sink has no more use for a frame. */
static gboolean
is_late(GstVaeBase *base, const GstVaeItem *item, const GstVaeOut *out)
{
    GstClockTime earliest;
    gboolean qos, late;

    GST_OBJECT_LOCK(base);
    qos = base->settings.qos;
    GST_OBJECT_UNLOCK(base);
    g_mutex_lock(&base->lock);
    earliest = base->earliest;
    late = qos && GST_CLOCK_TIME_IS_VALID(earliest) &&
           GST_CLOCK_TIME_IS_VALID(out->running) && out->running < earliest &&
           GST_CLOCK_TIME_IS_VALID(base->shown) &&
           out->running < base->shown + SHOW_EVERY;
    if (!late)
        base->shown = out->running;
    g_mutex_unlock(&base->lock);
    if (late)
        post_qos(base, item, out, earliest);
    return late;
}

/* What one call of the engine needs, mapped. */
typedef struct Call {
    guint n_latents, n_frames;
    VaeLatent *latents;
    GstMapInfo *maps;
    VaePicture *pictures;
    GstVideoFrame *frames; /* buffer NULL: not converted */
} Call;

static Call
call_new(GstVaeItem **items, guint n)
{
    Call call = {0};
    guint n_frames = 0;

    for (guint i = 0; i < n; i++)
        n_frames += items[i]->n_out;
    call.latents = g_new0(VaeLatent, n);
    call.maps = g_new0(GstMapInfo, n);
    call.pictures = g_new0(VaePicture, n_frames);
    call.frames = g_new0(GstVideoFrame, n_frames);
    return call;
}

static void
call_clear(Call *call, GstVaeItem **items)
{
    for (guint i = 0; i < call->n_latents; i++)
        gst_buffer_unmap(items[i]->in[0], &call->maps[i]);
    for (guint i = 0; i < call->n_frames; i++)
        if (call->frames[i].buffer)
            gst_video_frame_unmap(&call->frames[i]);
    g_free(call->latents);
    g_free(call->maps);
    g_free(call->pictures);
    g_free(call->frames);
}

/* A buffer for one frame, mapped as the next picture of the call. */
static VaeStatus
add_frame(GstVaeSession *session, Call *call, GstVaeOut *out, VaeError *error)
{
    GstVideoFrame *frame = &call->frames[call->n_frames];
    GstFlowReturn ret = GST_FLOW_ERROR;

    if (session->pool)
        ret = gst_buffer_pool_acquire_buffer(session->pool, &out->buffer, NULL);
    if (ret == GST_FLOW_FLUSHING)
        return vae_fail(error, VAE_ERR_CANCELLED, "the pool is flushing");
    if (ret != GST_FLOW_OK)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a frame: %s",
                        gst_flow_get_name(ret));
    /* So that a dump of the frames is the same in every run. */
    if (session->clear)
        gst_buffer_memset(out->buffer, 0, 0, gst_buffer_get_size(out->buffer));
    if (!gst_video_frame_map(frame, &session->video, out->buffer,
                             GST_MAP_WRITE)) {
        frame->buffer = NULL;
        return vae_fail(error, VAE_ERR_MEMORY,
                        "a frame from downstream cannot be written");
    }
    gst_vae_video_frame_picture(frame, &call->pictures[call->n_frames]);
    GST_BUFFER_PTS(out->buffer) = out->pts;
    GST_BUFFER_DURATION(out->buffer) = out->duration;
    GST_BUFFER_OFFSET(out->buffer) = out->offset;
    GST_BUFFER_OFFSET_END(out->buffer) = out->offset + 1;
    return VAE_OK;
}

static VaeStatus
add_step(GstVaeBase *base, Call *call, GstVaeItem *item, VaeError *error)
{
    GstVaeSession *session = item->session;
    gboolean discont = item->discont;
    VaeStatus status = VAE_OK;

    if (!gst_buffer_map(item->in[0], &call->maps[call->n_latents],
                        GST_MAP_READ))
        return vae_fail(error, VAE_ERR_READ, "a latent cannot be read");
    call->latents[call->n_latents].type = session->latent.type;
    call->latents[call->n_latents].data = call->maps[call->n_latents].data;
    gst_vae_decode_check(GST_VAE_DECODE(base), item,
                         &call->latents[call->n_latents]);
    call->n_latents++;
    for (guint i = 0; i < item->n_out && status == VAE_OK; i++) {
        GstVaeOut *out = &item->out[i];

        gst_vae_video_picture(&session->video, &call->pictures[call->n_frames]);
        if (out->wanted && !is_late(base, item, out)) {
            status = add_frame(session, call, out, error);
            if (discont && status == VAE_OK)
                GST_BUFFER_FLAG_SET(out->buffer, GST_BUFFER_FLAG_DISCONT);
            discont = FALSE;
        }
        call->n_frames++;
    }
    return status;
}

VaeStatus
gst_vae_decode_run(GstVaeBase *base, VaeStream *stream, GstVaeItem **items,
                   guint n, VaeError *error)
{
    Call call = call_new(items, n);
    VaeStatus status = VAE_OK;

    for (guint i = 0; i < n && status == VAE_OK; i++)
        status = add_step(base, &call, items[i], error);
    if (status == VAE_OK)
        status = vae_stream_decode(stream, call.latents, (int) call.n_latents,
                                   call.pictures, (int) call.n_frames, error);
    call_clear(&call, items);
    return status;
}
