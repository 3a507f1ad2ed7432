/*
 * base.c: creates and frees the parts of an element.
 */
#include "base.h"

#include "details.h"
#include "error.h"
#include "source.h"
#include "video.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_engine_debug);
#define GST_CAT_DEFAULT GST_VAE_BASE_CATEGORY

static GstPad *
add_pad(GstVaeBase *base, GstVaeBaseClass *klass, const gchar *name)
{
    GstPadTemplate *template =
        gst_element_class_get_pad_template(GST_ELEMENT_CLASS(klass), name);
    GstPad *pad = gst_pad_new_from_template(template, name);

    gst_element_add_pad(GST_ELEMENT(base), pad);
    return pad;
}

static void
setup_worker(GstVaeBase *base, GstVaeBaseClass *klass)
{
    GstVaeEngine *engine = &base->worker.engine;
    GstVaeLoader *loader = &base->worker.loader;

    base->worker.queue = &base->queue;
    engine->element = GST_ELEMENT(base);
    engine->category = klass->category;
    engine->decodes = klass->direction == VAE_DECODE;
    engine->add_step = klass->add_step;
    engine->cuda = &base->cuda;
    engine->queue = &base->queue;
    engine->stats = &base->stats;
    engine->latency = &base->latency;
    engine->qos = &base->qos;
    engine->checkpoints = &base->checkpoints;
    loader->element = GST_ELEMENT(base);
    loader->category = klass->category;
    loader->queue = &base->queue;
}

void
gst_vae_base_setup(GstVaeBase *base)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    const gboolean decodes = klass->direction == VAE_DECODE;

    base->sinkpad = add_pad(base, klass, "sink");
    base->srcpad = add_pad(base, klass, "src");
    setup_worker(base, klass);
    base->cuda.sinkpad = base->sinkpad;
    base->cuda.srcpad = base->srcpad;
    base->stats.decodes = decodes;
    base->progress.sinkpad = base->sinkpad;
    base->progress.code = decodes ? "decode" : "encode";
}

gboolean
gst_vae_base_finish(GstVaeBase *base)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);

    return !klass->finish || !base->input.caps ||
           klass->finish(base) == GST_FLOW_OK;
}

GstClockTime
gst_vae_base_running_time(GstVaeBase *base, GstClockTime pts)
{
    return gst_segment_to_running_time(&base->input.segment, GST_FORMAT_TIME,
                                       pts);
}

/* Stream time at the end of a step; NONE: not known, or outside the segment. */
static GstClockTime
end_of(GstVaeBase *base, const GstVaeItem *item)
{
    const GstVaeOut *last = &item->out[MAX(item->n_out, 1) - 1];
    GstClockTime end = last->pts;

    if (item->n_out == 0 || !GST_CLOCK_TIME_IS_VALID(end))
        return GST_CLOCK_TIME_NONE;
    if (GST_CLOCK_TIME_IS_VALID(last->duration))
        end += last->duration;
    return gst_segment_to_stream_time(&base->input.segment, GST_FORMAT_TIME,
                                      end);
}

GstFlowReturn
gst_vae_base_push_step(GstVaeBase *base, GstVaeItem *item)
{
    if (item->start || item->discont)
        item->source = gst_vae_source_path(base->sinkpad);
    item->position = item->backward ? GST_CLOCK_TIME_NONE : end_of(base, item);
    item->running = GST_CLOCK_TIME_NONE;
    for (guint i = item->n_out; i > 0; i--)
        if (item->out[i - 1].needed)
            item->running =
                gst_vae_base_running_time(base, item->out[i - 1].pts);
    return gst_vae_queue_push_step(&base->queue, item);
}

/* A live source gives one step at a time. Waiting for more would add
 * latency. */
static gboolean
upstream_is_live(GstVaeBase *base)
{
    GstQuery *query = gst_query_new_latency();
    gboolean live = FALSE;

    if (gst_pad_peer_query(base->sinkpad, query))
        gst_query_parse_latency(query, &live, NULL, NULL);
    gst_query_unref(query);
    return live;
}

static void
log_line(void *user, const char *line)
{
    GST_CAT_INFO_OBJECT(gst_vae_engine_debug, user, "%s", line);
}

static void
warn_line(void *user, const char *line)
{
    GstVaeBase *base = user;

    GST_ELEMENT_WARNING(base, RESOURCE, NOT_FOUND, ("%s", line), (NULL));
}

/* For the worker. Each image, and each round of a loop, is a sequence: the same
 * doubt is posted once. */
static void
doubt_line(void *user, const char *line)
{
    GstVaeBase *base = user;
    GstVaeEngine *engine = &base->worker.engine;
    const guint hash =
        g_str_hash(line) ^ (engine->source ? g_str_hash(engine->source) : 0);

    if (engine->doubt == hash)
        return;
    engine->doubt = hash;
    gst_vae_warn_input(engine->element, engine->source, line, NULL);
}

static bool
gives_up(void *user)
{
    GstVaeBase *base = user;

    return gst_vae_worker_gives_up(&base->worker);
}

/* Takes the object lock. */
static gboolean
read_memory_limit(GstVaeBase *base, VaeStreamParams *params, GError **error)
{
    static const gchar expected[] =
        "auto, a size such as 12G, or a part of the free memory such as 75%";
    gchar *word, *message;
    gboolean good;

    GST_OBJECT_LOCK(base);
    word = g_strdup(base->settings.memory_limit ? base->settings.memory_limit
                                                : "auto");
    GST_OBJECT_UNLOCK(base);
    good = vae_memory_limit_parse(word, &params->memory_limit,
                                  &params->memory_share);
    if (!good) {
        message = g_strdup_printf("memory-limit is \"%s\", expected %s", word,
                                  expected);
        *error = gst_vae_error_new(GST_LIBRARY_ERROR,
                                   GST_LIBRARY_ERROR_SETTINGS, message,
                                   gst_vae_mismatch_details((GstVaeMismatch){
                                       "memory-limit", word, expected}));
        g_free(message);
    }
    g_free(word);
    return good;
}

static void
check_tiles(GstVaeBase *base, const VaeStreamParams *params)
{
    if (base->input.tiles_told || params->tiles ||
        !(params->tile_width || params->tile_height || params->tile_overlap))
        return;
    base->input.tiles_told = TRUE;
    GST_ELEMENT_WARNING(base, LIBRARY, SETTINGS,
                        ("tile-width, tile-height and tile-overlap have no "
                         "effect without tiles=blend"),
                        (NULL));
}

gboolean
gst_vae_base_fill_session(GstVaeBase *base, GstVaeSession *session,
                          GError **error)
{
    GstVaeBaseClass *klass = GST_VAE_BASE_GET_CLASS(base);
    VaeStreamParams *params = &session->params;

    session->model = gst_vae_model_ref(base->choice.model);
    GST_OBJECT_LOCK(base);
    *params = base->settings.params;
    params->resume_ms = (int64_t) (base->settings.resume_timeout / GST_MSECOND);
    GST_OBJECT_UNLOCK(base);
    params->direction = klass->direction;
    check_tiles(base, params);
    /* Nobody plans the settings that are only logged. The session's streams are
     * the base's own. */
    if (gst_debug_category_get_threshold(gst_vae_engine_debug) >=
        GST_LEVEL_INFO)
        params->log = log_line;
    params->warn = warn_line;
    params->doubt = doubt_line;
    params->cancelled = gives_up;
    params->log_user = base;
    if (params->slice_size == 0 && upstream_is_live(base))
        params->slice_size = 1;
    return read_memory_limit(base, params, error);
}

void
gst_vae_base_set_pictures(GstVaeSession *session, const GstVideoInfo *video,
                          const GstCaps *caps)
{
    VaePicture picture;

    session->video = *video;
    gst_vae_video_picture(video, &picture);
    session->params.pixels = picture.pixels;
    session->params.pictures_on_device = caps && gst_vae_video_is_cuda(caps);
}

void
gst_vae_base_post(GstVaeBase *base, GError *error)
{
    const VaeModelInfo *info = base->choice.info;
    gchar *path;

    GST_OBJECT_LOCK(base);
    path = g_strdup(info ? info->path : base->choice.property);
    GST_OBJECT_UNLOCK(base);
    gst_vae_post_gerror(GST_ELEMENT(base), error,
                        gst_vae_error_context(path, info ? info->space : NULL));
    g_free(path);
}
