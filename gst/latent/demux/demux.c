/*
 * demux.c: reads latent files and sends latent buffers.
 *
 * If upstream has random access, a task on the sink pad reads the header and
 * then one latent after the other. Otherwise stream.c sends them.
 */

/**
 * SECTION:element-latentdemux
 * @title: latentdemux
 * @short_description: reads video latents from files
 *
 * Sends one buffer for each latent: channels x height x width numbers of the
 * type in the file. The first buffer of a sequence has no DELTA_UNIT flag, all
 * others have it. OFFSET is the index of the latent. The caps and times come
 * from the metadata of the file (vae.latent_space, vae.normalization,
 * vae.framerate, vae.width, vae.height, vae.frames, vae.pixel_aspect_ratio,
 * vae.colorimetry, vae.chroma_site, vae.mastering_display_info,
 * vae.content_light_level, vae.temporal_factor). If the file does not state the
 * latent space, the normalization or the framerate, or states a wrong one, set
 * the property of this name. vae.title, vae.comment, vae.application and all
 * that begin with vae.tag. become tags.
 *
 * A seek needs random access upstream, or a source that seeks by bytes, such as
 * an HTTP server with ranges. A file that the element keeps in memory needs
 * neither, see #GstLatentDemux:max-push-size. The element begins
 * #GstLatentDemux:warm-up latents before the latent of the seek position. The
 * decoder drops the frames before the segment. By default this is as far as its
 * network looks back, so the frames after a seek are those of an undisturbed
 * run. After a seek with KEY_UNIT, the segment begins at the first frame of a
 * latent, and the element sends only #GstLatentDemux:key-unit-warm-up latents
 * before it. With TRICKMODE_KEY_UNITS the element skips most latents.
 * Backwards, latents come in groups, the last group first. Within a group, they
 * come in forward order.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=latents.safetensors ! latentdemux ! \
 *     vaedecode model=wan2.1_vae.safetensors ! \
 *     videoconvert ! videoscale ! clocksync ! autovideosink sync=false
 * ]|
 * |[
 * gst-launch-1.0 filesrc location=latents.npy ! \
 *     latentdemux latent-space=wan2.1 framerate=24/1 ! \
 *     vaedecode model=wan2.1_vae.safetensors ! \
 *     videoconvert ! videoscale ! clocksync ! autovideosink sync=false
 * ]|
 * States the latent space and the rate, because an npy file does not.
 */

#include "demux.h"

#include "docs.h"
#include "enums.h"
#include "fields.h"
#include "jump.h"
#include "stream.h"
#include "task.h"

#define GST_CAT_DEFAULT gst_latent_demux_debug

/* The pause between two looks at a recording that grows. */
#define FOLLOW_USEC 20000

#define DEFAULT_MAX_PUSH_SIZE ((guint64) 512 << 20)

enum {
    PROP_MAX_PUSH_SIZE = GST_LATENT_PROP_LAST,
    PROP_FOLLOW,
    PROP_WARM_UP,
    PROP_KEY_UNIT_WARM_UP
};

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS("application/x-safetensors; application/x-npy; "
                    "application/x-pytorch"));

G_DEFINE_TYPE_WITH_CODE(GstLatentDemux, gst_latent_demux, GST_TYPE_ELEMENT,
                        GST_DEBUG_CATEGORY_INIT(gst_latent_demux_debug,
                                                "latentdemux", 0,
                                                "latent file demuxer"))
GST_ELEMENT_REGISTER_DEFINE(latentdemux, "latentdemux", GST_RANK_PRIMARY,
                            GST_TYPE_LATENT_DEMUX)

/* Pull mode ------------------------------------------------------------- */

/* A recording that is followed may have no byte yet: then sets *wait. */
static GstFlowReturn
pull_header(GstLatentDemux *self, gboolean *wait)
{
    VaeError error;
    guint64 total;
    GST_OBJECT_LOCK(self);
    const gboolean follow = self->follow;
    GST_OBJECT_UNLOCK(self);
    *wait = follow && gst_latent_length(self->sinkpad) == 0;
    if (*wait)
        return GST_FLOW_OK;
    gchar *name = gst_latent_source_name(self->sinkpad);
    GstFlowReturn ret = gst_latent_pull_header(self->sinkpad, name,
                                               &self->bytes, &total, &error);
    if (follow)
        total = G_MAXUINT64;
    if (ret == GST_FLOW_OK)
        ret = gst_latent_send_open(self, total, name);
    else if (ret == GST_FLOW_EOS)
        GST_ELEMENT_ERROR(self, STREAM, DEMUX,
                          ("%s: the stream ended before its first byte", name),
                          (NULL));
    else if (ret == GST_FLOW_CUSTOM_ERROR)
        gst_latent_send_fail(self, &error);
    g_free(name);
    return ret;
}

/* The task of the sink pad. In push mode it runs after a seek in memory. */
static void
loop(GstPad *pad)
{
    GstLatentDemux *self = GST_LATENT_DEMUX(GST_PAD_PARENT(pad));
    GstFlowReturn ret = GST_FLOW_OK;
    gboolean wait = FALSE;
    if (self->pull && !self->known)
        ret = pull_header(self, &wait);
    if (ret == GST_FLOW_OK && !wait)
        ret = gst_latent_send_follow(self, &wait);
    if (ret == GST_FLOW_OK && wait) {
        g_usleep(FOLLOW_USEC);
        return;
    }
    if (ret == GST_FLOW_OK)
        ret = self->pull ? gst_latent_send_next(self)
                         : gst_latent_stream_next(self);
    if (ret == GST_FLOW_OK)
        return;
    gst_pad_pause_task(pad);
    if (ret != GST_FLOW_CUSTOM_SUCCESS)
        gst_latent_send_end(self, ret);
}

static gboolean
src_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) != GST_EVENT_SEEK)
        return gst_pad_event_default(pad, parent, event);
    const gboolean done = gst_latent_jump(GST_LATENT_DEMUX(parent), event,
                                          (GstTaskFunction) loop);
    gst_event_unref(event);
    return done;
}

/* From READY to the first latent the caps are not known, so the answer is ANY.
 * With the caps of the template, decodebin would expose the pad too early and
 * lose latents. Returns FALSE if the default answer is right. */
static gboolean
query_caps(GstLatentDemux *self, GstQuery *query)
{
    GstCaps *filter, *any;
    if (GST_STATE(self) == GST_STATE_NULL ||
        gst_pad_has_current_caps(self->srcpad))
        return FALSE;
    gst_query_parse_caps(query, &filter);
    any = filter ? gst_caps_ref(filter) : gst_caps_new_any();
    gst_query_set_caps_result(query, any);
    gst_caps_unref(any);
    return TRUE;
}

/* Returns FALSE for any other custom query. */
static gboolean
query_stated(GstLatentDemux *self, GstQuery *query)
{
    const GstStructure *s = gst_query_get_structure(query);
    gchar advice[240];
    gboolean known;
    gint channels;
    if (!s || !gst_structure_has_name(s, GST_VAE_STATED_QUERY) ||
        !gst_structure_get_int(s, "channels", &channels))
        return FALSE;
    GST_OBJECT_LOCK(self);
    known = self->known;
    if (known) {
        gst_latent_clip_advise(&self->clip, channels, advice, sizeof advice);
        gst_structure_set(gst_query_writable_structure(query), "advice",
                          G_TYPE_STRING, advice, NULL);
        if (self->settings.normalization == GST_VAE_NORMALIZATION_AUTO)
            gst_structure_set(gst_query_writable_structure(query),
                              "normalization", G_TYPE_BOOLEAN,
                              self->clip.data.normalization_stated, NULL);
    }
    GST_OBJECT_UNLOCK(self);
    return known;
}

static gboolean
src_query(GstPad *pad, GstObject *parent, GstQuery *query)
{
    GstLatentDemux *self = GST_LATENT_DEMUX(parent);
    gboolean known, seekable = FALSE;
    switch (GST_QUERY_TYPE(query)) {
    case GST_QUERY_POSITION:
    case GST_QUERY_DURATION:
    case GST_QUERY_SEEKING:
    case GST_QUERY_CONVERT:
    case GST_QUERY_SEGMENT:
        if (GST_QUERY_TYPE(query) == GST_QUERY_SEEKING)
            seekable = gst_latent_jump_possible(self);
        GST_OBJECT_LOCK(self);
        known =
            self->known && gst_latent_seek_answer(&self->clip, &self->segment,
                                                  seekable, query);
        GST_OBJECT_UNLOCK(self);
        return known;
    case GST_QUERY_CAPS:
        return query_caps(self, query) ||
               gst_pad_query_default(pad, parent, query);
    case GST_QUERY_CUSTOM:
        return query_stated(self, query) ||
               gst_pad_query_default(pad, parent, query);
    default:
        return gst_pad_query_default(pad, parent, query);
    }
}

/* Push mode ------------------------------------------------------------- */

static GstFlowReturn
sink_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    return gst_latent_stream_push(GST_LATENT_DEMUX(parent), buffer);
}

/* Upstream begins at another byte. Returns FALSE after an error. */
static gboolean
sink_segment(GstLatentDemux *self, GstEvent *event)
{
    const GstSegment *segment;
    gst_event_parse_segment(event, &segment);
    if (segment->format != GST_FORMAT_BYTES)
        return TRUE;
    if (gst_latent_jump_is_pending(self)) {
        gst_latent_jump_land(self, segment->start);
        return TRUE;
    }
    if (segment->start == 0)
        return TRUE;
    GST_ELEMENT_ERROR(self, STREAM, DEMUX,
                      ("A latent file has to be read from its start"), (NULL));
    return FALSE;
}

static gboolean
sink_flush(GstLatentDemux *self, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP && !self->pull &&
        !gst_latent_jump_is_pending(self))
        gst_latent_stream_reset(self);
    return gst_pad_push_event(self->srcpad, gst_event_ref(event));
}

static gboolean
sink_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    GstLatentDemux *self = GST_LATENT_DEMUX(parent);
    gboolean ok = TRUE;
    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_FLUSH_START:
    case GST_EVENT_FLUSH_STOP:
        ok = sink_flush(self, event);
        break;
    case GST_EVENT_STREAM_START:
        gst_latent_stream_reset(self);
        break;
    case GST_EVENT_SEGMENT:
        ok = sink_segment(self, event);
        break;
    case GST_EVENT_EOS:
        if (!gst_latent_jump_is_pending(self))
            gst_latent_stream_end(self);
        break;
    default:
        break;
    }
    gst_event_unref(event);
    return ok;
}

/* Element --------------------------------------------------------------- */

static gboolean
sink_activate(GstPad *pad, GstObject *parent)
{
    GstQuery *query = gst_query_new_scheduling();
    const gboolean pull =
        gst_pad_peer_query(pad, query) &&
        gst_query_has_scheduling_mode_with_flags(query, GST_PAD_MODE_PULL,
                                                 GST_SCHEDULING_FLAG_SEEKABLE);
    gst_query_unref(query);
    return gst_pad_activate_mode(
        pad, pull ? GST_PAD_MODE_PULL : GST_PAD_MODE_PUSH, TRUE);
}

static gboolean
sink_activate_mode(GstPad *pad, GstObject *parent, GstPadMode mode,
                   gboolean active)
{
    GstLatentDemux *self = GST_LATENT_DEMUX(parent);
    if (!active)
        return gst_pad_stop_task(pad);
    self->pull = mode == GST_PAD_MODE_PULL;
    return !self->pull || gst_vae_task_start(pad, (GstTaskFunction) loop);
}

static GstStateChangeReturn
change_state(GstElement *element, GstStateChange transition)
{
    GstLatentDemux *self = GST_LATENT_DEMUX(element);
    GST_DEBUG_OBJECT(element, "%s", gst_state_change_get_name(transition));
    const GstStateChangeReturn ret =
        GST_ELEMENT_CLASS(gst_latent_demux_parent_class)
            ->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
        GST_PAD_STREAM_LOCK(
            self->sinkpad); /* a seek may run in another thread */
        gst_latent_stream_reset(self);
        GST_PAD_STREAM_UNLOCK(self->sinkpad);
    }
    return ret;
}

static const GstVaeField fields[] = {
    GST_VAE_FIELD(GST_LATENT_PROP_TENSOR, GstLatentDemux, settings.tensor),
    GST_VAE_FIELD(GST_LATENT_PROP_LAYOUT, GstLatentDemux, settings.layout),
    GST_VAE_FIELD(GST_LATENT_PROP_FRAMERATE, GstLatentDemux, settings.fps_n),
    GST_VAE_FIELD(GST_LATENT_PROP_LATENT_SPACE, GstLatentDemux, settings.space),
    GST_VAE_FIELD(GST_LATENT_PROP_NORMALIZATION, GstLatentDemux,
                  settings.normalization),
    GST_VAE_FIELD(GST_LATENT_PROP_BATCH_INDEX, GstLatentDemux,
                  settings.batch_index),
    GST_VAE_FIELD(PROP_MAX_PUSH_SIZE, GstLatentDemux, max_push_size),
    GST_VAE_FIELD(PROP_FOLLOW, GstLatentDemux, follow),
    GST_VAE_FIELD(PROP_WARM_UP, GstLatentDemux, warm_up),
    GST_VAE_FIELD(PROP_KEY_UNIT_WARM_UP, GstLatentDemux, key_unit_warm_up),
    {0}};

static void
finalize(GObject *object)
{
    GstLatentDemux *self = GST_LATENT_DEMUX(object);
    gst_latent_settings_clear(&self->settings);
    G_OBJECT_CLASS(gst_latent_demux_parent_class)->finalize(object);
}

static void
gst_latent_demux_init(GstLatentDemux *self)
{
    gst_latent_settings_init(&self->settings);
    self->max_push_size = DEFAULT_MAX_PUSH_SIZE;
    self->warm_up = -1;
    self->key_unit_warm_up = GST_LATENT_KEY_UNIT_WARM_UP;
    gst_segment_init(&self->segment, GST_FORMAT_TIME);
    self->sinkpad = gst_pad_new_from_static_template(&sink_template, "sink");
    gst_pad_set_activate_function(self->sinkpad, sink_activate);
    gst_pad_set_activatemode_function(self->sinkpad, sink_activate_mode);
    gst_pad_set_chain_function(self->sinkpad, sink_chain);
    gst_pad_set_event_function(self->sinkpad, sink_event);
    gst_element_add_pad(GST_ELEMENT(self), self->sinkpad);
    self->srcpad = gst_pad_new_from_template(
        gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "src"),
        "src");
    gst_pad_set_event_function(self->srcpad, src_event);
    gst_pad_set_query_function(self->srcpad, src_query);
    gst_pad_use_fixed_caps(self->srcpad);
    gst_element_add_pad(GST_ELEMENT(self), self->srcpad);
}

static void
install_properties(GObjectClass *klass)
{
    gst_latent_settings_install(klass);
    /**
     * GstLatentDemux:max-push-size:
     *
     * Maximum size of what is kept of a file if upstream has no random access,
     * such as a socket. Of a file in the order [T, C, h, w], which latentmux
     * writes, this is one latent. Of one in the order [C, T, h, w], with the
     * times or the sequences of its latents, or of PyTorch, it is the whole
     * file. A larger one is an error.
     */
    g_object_class_install_property(
        klass, PROP_MAX_PUSH_SIZE,
        g_param_spec_uint64("max-push-size", "Max Push Size",
                            "Maximum size, in bytes, of what is kept of a file "
                            "in memory if upstream has no random access",
                            0, G_MAXSIZE, DEFAULT_MAX_PUSH_SIZE,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                GST_PARAM_MUTABLE_READY));
    /**
     * GstLatentDemux:follow:
     *
     * Plays a file that latentmux still writes, until the recording ends. The
     * times are those of the frame rate. latentmux locks the file while it
     * records. If the lock is gone and the recording has not ended, the
     * recorder was killed: the element posts a WARNING and ends after the last
     * complete latent. On a network drive that hides the locks of other hosts,
     * it so ends at once. A file that latentmux could not lock is followed
     * without end if its recorder is killed.
     */
    g_object_class_install_property(
        klass, PROP_FOLLOW,
        g_param_spec_boolean("follow", "Follow",
                             "Wait for more latents of a file that latentmux "
                             "still writes, until the recording ends",
                             FALSE,
                             G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                 GST_PARAM_MUTABLE_READY));
}

/* How many latents come before the position of a seek. */
static void
install_warm_ups(GObjectClass *klass)
{
    /**
     * GstLatentDemux:warm-up:
     *
     * Number of latents that the element sends before the latent of a seek
     * position, so that the network has its context. Their frames are outside
     * the segment, so the decoder drops them. By default the element asks the
     * decoder, and the frames after a seek are exact.
     */
    g_object_class_install_property(
        klass, PROP_WARM_UP,
        g_param_spec_int("warm-up", "Warm Up",
                         "Number of latents to decode, but not show, before a "
                         "seek position (-1 = as many as the decoder's network "
                         "needs for exact frames); a smaller number is faster",
                         -1, G_MAXINT, -1,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                             GST_PARAM_MUTABLE_PLAYING));
    /**
     * GstLatentDemux:key-unit-warm-up:
     *
     * The same number for a seek with KEY_UNIT and without ACCURATE, and for
     * each picture of TRICKMODE_KEY_UNITS. The pictures are approximate until
     * the decoder has decoded as many latents as the network looks back. If
     * #GstLatentDemux:warm-up is smaller, it is used instead.
     */
    g_object_class_install_property(
        klass, PROP_KEY_UNIT_WARM_UP,
        g_param_spec_int("key-unit-warm-up", "Key Unit Warm Up",
                         "Number of latents to decode, but not show, before "
                         "the position of a KEY_UNIT seek, and before each "
                         "picture of TRICKMODE_KEY_UNITS; at most warm-up",
                         0, G_MAXINT, GST_LATENT_KEY_UNIT_WARM_UP,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                             GST_PARAM_MUTABLE_PLAYING));
}

static void
gst_latent_demux_class_init(GstLatentDemuxClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    gst_vae_fields_install(object_class, fields);
    object_class->finalize = finalize;
    element_class->change_state = GST_DEBUG_FUNCPTR(change_state);
    install_properties(object_class);
    install_warm_ups(object_class);
    gst_element_class_add_static_pad_template(element_class, &sink_template);
    gst_element_class_add_pad_template(
        element_class, gst_vae_latent_template("src", GST_PAD_SRC, NULL));
    gst_element_class_set_static_metadata(
        element_class, "Latent file demuxer", "Codec/Demuxer/Video",
        "Reads video latents from files: safetensors, npy, .latent of ComfyUI, "
        "and .pt of PyTorch",
        GST_VAE_AUTHOR);
    gst_vae_set_page(element_class, "using.md");
}
