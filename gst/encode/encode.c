/**
 * SECTION:element-vaeencode
 * @title: vaeencode
 * @short_description: encodes raw video to latents of video diffusion models
 *
 * Encodes each group of frames to a latent, in a buffer of its own. With most
 * models, the first frame of a sequence is a group, and every four later frames
 * are a group. The latents of HunyuanVideo 1.0 leave with a later group, or at
 * the end of the sequence. The first latent of a sequence has no DELTA_UNIT,
 * and its OFFSET is 0. A sequence begins at a frame with DISCONT, after a
 * flush, after new caps, after a gap in the middle of a group or while latents
 * wait, after a force-key-unit event and after #GstVaeEncode:key-int-max
 * latents or #GstVaeEncode:key-int-max-time. A #GstVaeBase:model that is set
 * while playing takes over at the next start of a sequence.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! decodebin ! videoconvert ! \
 *     vaeencode model=wan2.1_vae.safetensors ! latentmux ! \
 *     filesink location=latents.safetensors
 * ]|
 * Encodes any video.
 * |[
 * gst-launch-1.0 videotestsrc num-buffers=17 ! \
 *     video/x-raw,width=416,height=240,framerate=16/1 ! \
 *     vaeencode model=wan2.1_vae.safetensors posterior=sample seed=7 ! \
 *     latentmux ! filesink location=latents.safetensors
 * ]|
 * Takes a sample from the distribution instead of its mean.
 */
#include "encode.h"

#include "delay.h"
#include "docs.h"
#include "frames.h"
#include "offer.h"
#include "pads.h"
#include "refusal.h"
#include "share.h"
#include "switch.h"
#include "tensor_meta.h"
#include "tensors.h"
#include "video.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_encode_debug);
#define GST_CAT_DEFAULT gst_vae_encode_debug

GType gst_vae_encode_get_type(void);
G_DEFINE_TYPE(GstVaeEncode, gst_vae_encode, gst_vae_base_get_type())
GST_ELEMENT_REGISTER_DEFINE(vaeencode, "vaeencode", GST_RANK_MARGINAL,
                            gst_vae_encode_get_type())

/* Returns the latent space that downstream requests, or NULL. (transfer
 * full) */
static gchar *
requested_space(GstVaeEncode *self)
{
    GstCaps *caps = gst_pad_get_allowed_caps(self->base.srcpad);
    gchar *space = NULL;

    if (caps && !gst_caps_is_any(caps) && !gst_caps_is_empty(caps))
        space = g_strdup(gst_structure_get_string(
            gst_caps_get_structure(caps, 0), "latent-space"));
    gst_clear_caps(&caps);
    return space;
}

static gchar *
find_model(GstVaeBase *base, GError **error)
{
    gchar *space = requested_space(GST_VAE_ENCODE(base));
    gchar *path = space ? gst_vae_models_find(space, error)
                        : gst_vae_models_find_any(error);

    g_free(space);
    return path;
}

static gboolean
set_caps(GstVaeBase *base, GstCaps *caps, GError **error)
{
    GstVaeEncode *self = GST_VAE_ENCODE(base);

    if (!gst_vae_video_info(caps, &self->in, error) ||
        !gst_vae_base_use_model(base, error))
        return FALSE;
    self->uneven_told = FALSE;
    if (gst_vae_video_is_cuda(caps))
        gst_vae_cuda_usable(&base->cuda);
    if (self->in.fps_n > 0)
        self->frame_time = gst_util_uint64_scale_int(GST_SECOND, self->in.fps_d,
                                                     self->in.fps_n);
    else
        self->frame_time =
            gst_util_uint64_scale_int(GST_SECOND, self->base.choice.info->fps_d,
                                      self->base.choice.info->fps_n);
    return TRUE;
}

static void
set_list(GstCaps *caps, const gchar *field, const gchar *words)
{
    GValue list = G_VALUE_INIT;

    g_value_init(&list, GST_TYPE_LIST);
    if (gst_value_deserialize(&list, words))
        gst_caps_set_value(caps, field, &list);
    g_value_unset(&list);
}

/* The network sees RGB. The caps keep how the YUV was made of it, and the HDR
 * data, for the element that makes video again. */
static void
keep_picture(GstVaeEncode *self, GstVaeLatentInfo *info)
{
    const GstStructure *s = gst_caps_get_structure(self->base.input.caps, 0);
    gchar *words = GST_VIDEO_INFO_IS_YUV(&self->in)
                       ? gst_video_colorimetry_to_string(&self->in.colorimetry)
                       : NULL;

    gst_vae_latent_info_set_words(info, GST_VAE_COLORIMETRY, words);
    g_free(words);
    for (gint i = GST_VAE_CHROMA_SITE; i < GST_VAE_N_WORDS; i++)
        if (i != GST_VAE_CHROMA_SITE || GST_VIDEO_INFO_IS_YUV(&self->in))
            gst_vae_latent_info_set_words(
                info, i, gst_structure_get_string(s, gst_vae_words_field(i)));
}

/* Describes the latents that this model makes of this video, as float32. */
static GstVaeLatentInfo
latent_info(GstVaeEncode *self)
{
    const VaeModelInfo *model = self->base.choice.info;
    const GstVideoInfo *in = &self->in;
    GstVaeLatentInfo info;

    gst_vae_latent_info_init(&info);
    info.channels = model->latent_channels;
    info.width = in->width;
    info.height = in->height;
    info.latent_width = (in->width + model->spatial - 1) / model->spatial;
    info.latent_height = (in->height + model->spatial - 1) / model->spatial;
    info.fps_n = in->fps_n;
    info.fps_d = in->fps_n > 0 ? in->fps_d : 0;
    /* avidemux of GStreamer 1.22 sends -1/1 for some files. */
    if (in->par_n > 0 && in->par_d > 0) {
        info.par_n = in->par_n;
        info.par_d = in->par_d;
    }
    keep_picture(self, &info);
    info.temporal_factor = model->temporal;
    info.first_frames = model->decode.first_out;
    if (model->space)
        g_strlcpy(info.space, model->space, sizeof info.space);
    return info;
}

/* Returns the caps of latents, with choices where downstream may choose. */
static GstCaps *
latent_caps(GstVaeEncode *self)
{
    const GstVaeLatentInfo info = latent_info(self);
    GstCaps *caps = gst_vae_latent_info_to_caps(&info);

    set_list(caps, "type", "{ float32, float16, bfloat16 }");
    set_list(caps, "normalization", "{ normalized, raw, comfyui }");
    gst_caps_append(caps, gst_vae_tensors_caps(
                              &info, vae_model_counts(self->base.choice.info)));
    return caps;
}

static const VaeType types[] = {VAE_TYPE_F32, VAE_TYPE_F16, VAE_TYPE_BF16};

/* Returns latent_caps() with the field `tensors`. It repeats the type, so each
 * type has a structure of its own. */
static GstCaps *
offered_caps(GstVaeEncode *self, const GstCaps *ours)
{
    GstVaeLatentInfo info = latent_info(self);
    GstCaps *caps = gst_caps_new_empty();

    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        GstCaps *one = gst_caps_copy_nth(ours, 0);

        info.type = types[i];
        gst_caps_set_simple(one, "type", G_TYPE_STRING, vae_type_name(types[i]),
                            NULL);
        gst_vae_tensor_meta_describe(one, &info);
        gst_caps_append(caps, one);
    }
    gst_caps_append(caps, gst_caps_copy_nth(ours, 1));
    return caps;
}

/* Returns the error for downstream, which accepts none of our caps. (transfer
 * full) */
static GError *
refusal(GstVaeBase *base, const VaeModelInfo *model, const GstCaps *ours)
{
    GstCaps *theirs = gst_pad_peer_query_caps(base->srcpad, NULL);
    gchar *what = g_strdup_printf("Downstream does not take the latents of %s",
                                  model->path);
    GError *error = gst_vae_refusal(what, ours, theirs, TRUE);

    g_free(what);
    gst_caps_unref(theirs);
    return error;
}

static gboolean
negotiate(GstVaeBase *base, GstVaeSession *session, GError **error)
{
    GstVaeEncode *self = GST_VAE_ENCODE(base);
    GstCaps *ours = latent_caps(self), *offer, *caps;

    offer = offered_caps(self, ours);
    caps = gst_pad_peer_query_caps(base->srcpad, offer);
    session->caps =
        gst_caps_intersect_full(offer, caps, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(offer);
    gst_caps_unref(caps);
    if (gst_caps_is_empty(session->caps)) {
        *error = refusal(base, base->choice.info, ours);
        gst_caps_unref(ours);
        return FALSE;
    }
    gst_caps_unref(ours);
    session->words.chosen =
        gst_structure_get_string(gst_caps_get_structure(session->caps, 0),
                                 "normalization") != NULL;
    session->caps = gst_caps_fixate(session->caps);
    if (!gst_vae_tensors_info_from_caps(session->caps, &session->latent, error))
        return FALSE;
    /* A structure of other/tensors describes its latents itself. */
    if (!gst_vae_tensors_is_caps(session->caps))
        gst_vae_tensor_meta_describe(session->caps, &session->latent);
    if (!gst_vae_base_fill_session(base, session, error))
        return FALSE;
    gst_vae_base_set_pictures(session, &self->in, base->input.caps);
    session->params.width = self->in.width;
    session->params.height = self->in.height;
    session->params.normalization = session->latent.normalization;
    session->frame_time = self->frame_time;
    self->out = session->latent;
    return TRUE;
}

/* Changes the type of the latents. The stream computes for the normalization,
 * which stays. */
static gboolean
adapt(GstVaeBase *base, GstVaeSession *session, GError **error)
{
    GstVaeLatentInfo info = session->latent;
    GstCaps *offer = gst_caps_new_empty(), *peer, *caps;
    gboolean ok = !gst_vae_tensors_is_caps(session->caps);

    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        info.type = types[i];
        peer = gst_vae_latent_info_to_caps(&info);
        gst_vae_tensor_meta_describe(peer, &info);
        gst_caps_append(offer, peer);
    }
    peer = gst_pad_peer_query_caps(base->srcpad, offer);
    caps = gst_caps_intersect_full(offer, peer, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(peer);
    if (ok && error && gst_caps_is_empty(caps))
        *error = refusal(base, gst_vae_model_info(session->model), offer);
    ok = ok && !gst_caps_is_empty(caps);
    gst_caps_unref(offer);
    if (ok) {
        caps = gst_caps_fixate(caps);
        ok = gst_vae_latent_info_from_caps(caps, &info, NULL);
    }
    if (ok && !error) {
        g_mutex_lock(&base->queue.lock);
        gst_caps_replace(&session->caps, caps);
        session->latent = info;
        g_mutex_unlock(&base->queue.lock);
    }
    gst_caps_unref(caps);
    return ok;
}

static void
set_times(GstVaeBase *base, GstVaeSession *session)
{
    const VaeModelInfo *info = gst_vae_model_info(session->model);
    const VaeSteps *steps = &info->encode, *back = &info->decode;

    session->step_time = session->frame_time * steps->step_in;
    /* Without a delay, latent k goes out after frame first_in + k step_in - 1
     * with the time of frame first_out + (k - 1) step_out. */
    session->collect_time =
        session->frame_time *
            (steps->first_in - 1 + back->step_out - back->first_out) +
        gst_vae_delay_time(session);
}

static void
drop_encoded(const GstTagList *list, const gchar *tag, gpointer out)
{
    if (gst_tag_get_flag(tag) == GST_TAG_FLAG_ENCODED)
        gst_tag_list_remove_tag(out, tag);
}

/* Tags about the encoding of the video do not describe the latents. */
static GstTagList *
tags(GstVaeBase *base, GstTagList *list)
{
    GstTagList *out = gst_tag_list_copy(list);
    const guint bitrate =
        gst_vae_latent_info_bitrate(&GST_VAE_ENCODE(base)->out);

    gst_tag_list_foreach(list, drop_encoded, out);
    gst_tag_list_unref(list);
    gst_tag_list_add(out, GST_TAG_MERGE_REPLACE, GST_TAG_VIDEO_CODEC,
                     GST_VAE_LATENT_CODEC, GST_TAG_ENCODER, PACKAGE " " VERSION,
                     NULL);
    if (bitrate > 0)
        gst_tag_list_add(out, GST_TAG_MERGE_REPLACE, GST_TAG_BITRATE, bitrate,
                         NULL);
    return out;
}

static void
flush(GstVaeBase *base)
{
    GstVaeEncode *self = GST_VAE_ENCODE(base);

    GST_OBJECT_LOCK(self);
    g_array_set_size(self->requests, 0);
    GST_OBJECT_UNLOCK(self);
}

static gboolean
src_event(GstVaeBase *base, GstEvent *event)
{
    GstVaeEncode *self = GST_VAE_ENCODE(base);
    GstVaeKeyRequest request = {GST_CLOCK_TIME_NONE, 0};

    if (GST_EVENT_TYPE(event) == GST_EVENT_QOS)
        return !gst_vae_qos_is_enabled(&base->qos);
    if (!gst_video_event_is_force_key_unit(event) ||
        !gst_video_event_parse_upstream_force_key_unit(event, &request.time,
                                                       NULL, &request.count))
        return FALSE;
    GST_OBJECT_LOCK(self);
    g_array_append_val(self->requests, request);
    GST_OBJECT_UNLOCK(self);
    return TRUE;
}

static void
propose_allocation(GstVaeBase *base, GstQuery *query)
{
    GstBufferPool *pool = NULL;
    GstCaps *caps;
    GstVideoInfo info;
    const guint depth = gst_vae_queue_depth(&base->queue);

    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    gst_query_parse_allocation(query, &caps, NULL);
    /* Counts the frames that are collected, that wait, and that are
     * computed. */
    if (!caps || !gst_video_info_from_caps(&info, caps))
        return;
    if (gst_vae_video_is_cuda(caps) && gst_vae_cuda_usable(&base->cuda))
        pool = gst_vae_cuda_pool(&base->cuda, caps, info.size);
    gst_query_add_allocation_pool(query, pool, info.size, 4 * (depth + 2), 0);
    gst_clear_object(&pool);
}

static void
finalize(GObject *object)
{
    gst_vae_encode_forget(GST_VAE_ENCODE(object));
    g_array_unref(GST_VAE_ENCODE(object)->requests);
    G_OBJECT_CLASS(gst_vae_encode_parent_class)->finalize(object);
}

static void
gst_vae_encode_class_init(GstVaeEncodeClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    GstVaeBaseClass *base_class = &klass->parent_class;

    GST_DEBUG_CATEGORY_INIT(gst_vae_encode_debug, "vaeencode", 0,
                            "raw video to latents");
    object_class->finalize = finalize;
    gst_vae_encode_install(object_class);
    gst_element_class_add_pad_template(
        element_class, gst_vae_cuda_template("sink", GST_PAD_SINK));
    gst_element_class_add_pad_template(
        element_class,
        gst_vae_latent_template("src", GST_PAD_SRC, GST_VAE_TENSORS_CAPS));
    gst_element_class_set_static_metadata(
        element_class, "VAE latent encoder", "Codec/Encoder/Video",
        "Encodes raw video to latents of video diffusion models. Properties "
        "to set first: model, precision, memory-limit",
        GST_VAE_AUTHOR);
    gst_vae_set_page(element_class, "streaming.md");
    base_class->direction = VAE_ENCODE;
    base_class->category = gst_vae_encode_debug;
    base_class->set_caps = set_caps;
    base_class->find_model = find_model;
    base_class->negotiate = negotiate;
    base_class->adapt = adapt;
    base_class->set_times = set_times;
    base_class->collect = gst_vae_encode_collect;
    base_class->finish = gst_vae_encode_finish;
    base_class->restart = gst_vae_encode_restart;
    base_class->flush = flush;
    base_class->key_unit = gst_vae_encode_key_unit;
    base_class->tags = tags;
    base_class->end = gst_vae_encode_end;
    base_class->segment = gst_vae_encode_segment;
    base_class->src_event = src_event;
    base_class->propose_allocation = propose_allocation;
    base_class->decide_allocation = gst_vae_encode_decide_allocation;
    base_class->add_step = gst_vae_encode_add_step;
}

static void
gst_vae_encode_init(GstVaeEncode *self)
{
    self->next = GST_CLOCK_TIME_NONE;
    self->requests = g_array_new(FALSE, FALSE, sizeof(GstVaeKeyRequest));
    gst_vae_pads_init(&self->base);
}
