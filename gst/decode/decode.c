/**
 * SECTION:element-vaedecode
 * @title: vaedecode
 * @short_description: decodes latents of video diffusion models to raw video
 *
 * Takes latents, one in a buffer, and gives the frames that each stands for:
 * one for the first of a sequence and, for the usual models, four for every
 * later one. Frames leave while latents still come in. A buffer without
 * DELTA_UNIT (unless #GstVaeDecode:sequence says otherwise), DISCONT, a flush
 * and new caps begin a sequence.
 *
 * A sequence may begin with a later latent, as after a seek (DELTA_UNIT is set,
 * or OFFSET is above 0). It then has no context, and its first group gives only
 * its last frame.
 *
 * A #GstVaeBase:model that is set while playing takes over at the next
 * sequence, or with #GstVaeDecode::restart at the next latent.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=latents.safetensors ! latentdemux ! \
 *     vaedecode model=wan2.1_vae.safetensors ! \
 *     videoconvert ! videoscale ! autovideosink
 * ]|
 * Shows a clip at its own pace.
 * |[
 * gst-launch-1.0 -m filesrc location=latents.safetensors ! latentdemux ! \
 *     vaedecode model=wan2.1_vae.safetensors post-stats=true ! \
 *     videoconvert ! vp8enc deadline=1 target-bitrate=4000000 ! webmmux ! \
 *     filesink location=clip.webm
 * ]|
 * Makes a file of it, and tells every second how fast that goes.
 */
#include "decode.h"

#include "details.h"
#include "enums.h"
#include "error.h"
#include "offer.h"
#include "pads.h"
#include "switch.h"
#include "tensor_meta.h"
#include "tensors.h"
#include "video.h"

GST_DEBUG_CATEGORY(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

GType gst_vae_decode_get_type(void);
G_DEFINE_TYPE(GstVaeDecode, gst_vae_decode, gst_vae_base_get_type())
GST_ELEMENT_REGISTER_DEFINE(vaedecode, "vaedecode", GST_RANK_MARGINAL,
                            gst_vae_decode_get_type())

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS(GST_VAE_LATENT_CAPS "; " GST_VAE_TENSORS_CAPS));

static gboolean
mismatch(GError **error, const VaeModelInfo *model, const gchar *what,
         const gchar *found, const gchar *wanted)
{
    gst_vae_set_mismatch(error, (GstVaeMismatch){what, found, wanted},
                         "The latents have %s %s, the model %s wants %s", what,
                         found, model->path, wanted);
    return FALSE;
}

static gboolean
same_int(GError **error, const VaeModelInfo *model, const gchar *what,
         gint found, gint wanted)
{
    gchar a[16], b[16];

    if (found == 0 || found == wanted)
        return TRUE;
    g_snprintf(a, sizeof a, "%d", found);
    g_snprintf(b, sizeof b, "%d", wanted);
    return mismatch(error, model, what, a, b);
}

/* Latent caps against the model: space, channels, law of frames, grid. */
static gboolean
check_latents(const GstVaeLatentInfo *in, const VaeModelInfo *model,
              GError **error)
{
    const gint s = model->spatial;
    gchar found[64], wanted[64];

    if (in->space[0] && g_strcmp0(in->space, model->space) != 0)
        return mismatch(error, model, "latent-space", in->space,
                        model->space ? model->space : "another");
    if (!same_int(error, model, "channels", in->channels,
                  model->latent_channels) ||
        !same_int(error, model, "temporal-factor", in->temporal_factor,
                  model->temporal) ||
        !same_int(error, model, "first-frames", in->first_frames,
                  model->decode.first_out))
        return FALSE;
    if ((in->width && (in->width + s - 1) / s != in->latent_width) ||
        (in->height && (in->height + s - 1) / s != in->latent_height)) {
        g_snprintf(found, sizeof found, "%dx%d for %dx%d pixels",
                   in->latent_width, in->latent_height, in->width, in->height);
        g_snprintf(wanted, sizeof wanted, "%dx%d", (in->width + s - 1) / s,
                   (in->height + s - 1) / s);
        return mismatch(error, model, "a grid of", found, wanted);
    }
    return TRUE;
}

static gboolean
check_size(const GstVaeLatentInfo *in, const VaeModelInfo *model,
           GError **error)
{
    if (in->width <= GST_VAE_MAX_PIXELS && in->height <= GST_VAE_MAX_PIXELS)
        return TRUE;
    g_set_error(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                "Latents of %dx%d are a picture of %dx%d pixels with %s; more "
                "than %d each way are not possible",
                in->latent_width, in->latent_height, in->width, in->height,
                model->path, GST_VAE_MAX_PIXELS);
    return FALSE;
}

/* One that the caps of latents state is possible; the property, and what comes
 * of a rate of tensors, need not be. */
static gboolean
check_rate(const GstVaeLatentInfo *in, GError **error)
{
    if (gst_vae_rate_is_possible(in->fps_n, in->fps_d))
        return TRUE;
    g_set_error(
        error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
        "The framerate of the video would be %d/%d, wanted " GST_VAE_RATES,
        in->fps_n, in->fps_d);
    return FALSE;
}

/* Fills in fields that the caps leave open: size, rate, normalization. */
static void
complete(GstVaeDecode *self)
{
    GstVaeLatentInfo *in = &self->in;
    const VaeModelInfo *model = self->base.choice.info;
    gint mode;

    if (!in->width)
        in->width = in->latent_width * model->spatial;
    if (!in->height)
        in->height = in->latent_height * model->spatial;
    GST_OBJECT_LOCK(self);
    mode = self->normalization;
    if (!in->fps_d && self->fps_n > 0) {
        in->fps_n = self->fps_n;
        in->fps_d = self->fps_d;
    }
    GST_OBJECT_UNLOCK(self);
    if (!in->fps_d) {
        in->fps_n = model->fps_n;
        in->fps_d = model->fps_d;
        GST_INFO_OBJECT(self, "no framerate stated: %d/%d, usual for %s",
                        in->fps_n, in->fps_d, model->arch);
    }
    if (mode != GST_VAE_NORMALIZATION_AUTO)
        in->normalization =
            mode == GST_VAE_NORMALIZATION_RAW ? VAE_RAW : VAE_NORMALIZED;
}

static gchar *
find_model(GstVaeBase *base, GError **error)
{
    return gst_vae_models_find(GST_VAE_DECODE(base)->in.space, error);
}

static gboolean
set_caps(GstVaeBase *base, GstCaps *caps, GError **error)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);

    self->tensors = gst_vae_tensors_is_caps(caps);
    if (!gst_vae_tensors_info_from_caps(caps, &self->in, error))
        return FALSE;
    if (!gst_vae_base_use_model(base, error))
        return FALSE;
    if (self->tensors)
        gst_vae_tensors_video_rate(&self->in,
                                   self->base.choice.info->decode.step_out);
    if (!check_latents(&self->in, self->base.choice.info, error))
        return FALSE;
    complete(self);
    return check_rate(&self->in, error) &&
           check_size(&self->in, self->base.choice.info, error);
}

static gboolean
is_format(GQuark field, GValue *value, gpointer data)
{
    return g_strcmp0(g_quark_to_string(field), "format") == 0;
}

/* Those of the caps that have the format agreed on before, where downstream
 * still takes it in the memory that it names first: a picture that changes its
 * format in the middle of a stream is a new one to many elements. Takes caps.
 */
static GstCaps *
keep_format(GstVaeBase *base, GstCaps *caps)
{
    GstCaps *agreed = NULL, *both;

    g_mutex_lock(&base->queue.lock);
    if (base->queue.session)
        agreed = gst_caps_copy(base->queue.session->caps);
    g_mutex_unlock(&base->queue.lock);
    if (!agreed ||
        !gst_caps_features_is_equal(gst_caps_get_features(agreed, 0),
                                    gst_caps_get_features(caps, 0))) {
        gst_clear_caps(&agreed);
        return caps;
    }
    gst_structure_filter_and_map_in_place(gst_caps_get_structure(agreed, 0),
                                          is_format, NULL);
    both = gst_caps_intersect_full(agreed, caps, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(agreed);
    if (gst_caps_is_empty(both)) {
        gst_caps_unref(both);
        return caps;
    }
    gst_caps_unref(caps);
    return both;
}

/* Raw caps of this size that downstream takes too; NULL: none. */
static GstCaps *
raw_caps(GstVaeDecode *self)
{
    const GstVaeLatentInfo *in = &self->in;
    GstPad *pad = self->base.srcpad;
    GstCaps *template = gst_pad_get_pad_template_caps(pad), *ours, *peer;

    ours = gst_caps_make_writable(template);
    gst_caps_set_simple(ours, "width", G_TYPE_INT, in->width, "height",
                        G_TYPE_INT, in->height, "framerate", GST_TYPE_FRACTION,
                        in->fps_n, in->fps_d, "pixel-aspect-ratio",
                        GST_TYPE_FRACTION, in->par_d ? in->par_n : 1,
                        in->par_d ? in->par_d : 1, NULL);
    for (gint i = GST_VAE_MASTERING; i <= GST_VAE_CONTENT_LIGHT; i++)
        if (in->words[i][0])
            gst_caps_set_simple(ours, gst_vae_words_field(i), G_TYPE_STRING,
                                in->words[i], NULL);
    ours = gst_vae_cuda_offer(&self->base.cuda, ours);
    peer = gst_pad_peer_query_caps(pad, ours);
    if (peer) {
        GstCaps *both =
            gst_caps_intersect_full(ours, peer, GST_CAPS_INTERSECT_FIRST);

        gst_caps_unref(ours);
        gst_caps_unref(peer);
        ours = both;
    }
    if (gst_caps_is_empty(ours))
        gst_clear_caps(&ours);
    if (!ours)
        return NULL;
    return gst_vae_video_fixate(keep_format(&self->base, ours), in);
}

static void
set_look_ahead(GstVaeDecode *self, GstVaeSession *session)
{
    gint look_ahead;

    GST_OBJECT_LOCK(self);
    look_ahead = self->look_ahead;
    GST_OBJECT_UNLOCK(self);
    session->params.low_latency = look_ahead >= 0;
    session->params.look_ahead = MAX(look_ahead, 0);
}

static gboolean
negotiate(GstVaeBase *base, GstVaeSession *session, GError **error)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);
    const GstVaeLatentInfo *in = &self->in;

    session->caps = raw_caps(self);
    if (!session->caps) {
        gchar *why = gst_vae_cuda_why_not(&base->cuda);

        g_set_error(error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                    "Downstream takes no video of %dx%d pixels at %d/%d in "
                    "any of the formats " GST_VAE_RAW_FORMATS "%s%s",
                    in->width, in->height, in->fps_n, in->fps_d,
                    why ? " of the host's memory; " : "", why ? why : "");
        g_free(why);
        return FALSE;
    }
    if (!gst_vae_video_info(session->caps, &session->video, error))
        return FALSE;
    if (!gst_vae_base_fill_session(base, session, error))
        return FALSE;
    gst_vae_base_set_pictures(session, &session->video, session->caps);
    session->latent = *in;
    session->params.width = in->width;
    session->params.height = in->height;
    session->params.normalization = in->normalization;
    set_look_ahead(self, session);
    session->frame_time =
        gst_util_uint64_scale_int(GST_SECOND, in->fps_d, in->fps_n);
    return TRUE;
}

static void
set_times(GstVaeBase *base, GstVaeSession *session)
{
    const VaeModelInfo *info = gst_vae_model_info(session->model);

    session->step_time = session->frame_time * info->decode.step_out;
    session->collect_time =
        session->frame_time * gst_vae_decode_delay_of(session);
}

/* What is done before a latent: ends the sequence before it, takes a checkpoint
 * or another model. */
static GstFlowReturn
prepare_latent(GstVaeDecode *self, const GstBuffer *latent, GstVaeStep *step,
               gboolean *cold)
{
    GstFlowReturn ret = GST_FLOW_OK;

    /* Frames in the segment may wait for latents behind it. */
    if (step->behind && (step->start || !gst_vae_decode_is_waiting(self))) {
        /* The next latent follows without this one. */
        self->need_start = self->discont = TRUE;
        return GST_FLOW_EOS;
    }
    if (step->start)
        ret = gst_vae_decode_drain(self);
    if (step->start && ret == GST_FLOW_OK)
        ret = gst_vae_decode_load(self, latent, step);
    if (ret == GST_FLOW_OK && !self->resuming)
        ret = gst_vae_base_switch(&self->base, step->start, step->pts, cold);
    /* A switch that failed has ended the sequence, too. */
    if (!*cold && !self->resuming)
        step->start |= self->need_start;
    return ret;
}

/* The step of one latent; takes it. */
static GstFlowReturn
push_latent(GstVaeDecode *self, GstBuffer *latent)
{
    GstVaeBase *base = &self->base;
    GstVaeStep step = gst_vae_decode_step(self, latent);
    gboolean cold = FALSE;
    GstFlowReturn ret;
    GstVaeItem *item;

    if (GST_BUFFER_OFFSET_IS_VALID(latent))
        self->latent = GST_BUFFER_OFFSET(latent);
    ret = prepare_latent(self, latent, &step, &cold);
    if (ret != GST_FLOW_OK) {
        gst_buffer_unref(latent);
        return ret;
    }
    item = self->resuming ? gst_vae_decode_resume_step(self, latent, step)
                          : gst_vae_decode_plan_step(self, latent, &step);
    if (!item)
        return GST_FLOW_OK;
    item->cold = cold;
    gst_vae_decode_delay(self, item);
    gst_vae_decode_mark(self, item);
    return gst_vae_base_push_step(base, item);
}

static GstFlowReturn
collect_many(GstVaeDecode *self, GstBuffer *buffer)
{
    GstClockTime left = GST_BUFFER_DURATION(buffer);
    GstFlowReturn ret = GST_FLOW_OK;

    for (gint i = 0; i < self->in.frames && ret == GST_FLOW_OK; i++) {
        GstBuffer *part = gst_vae_decode_split(self, buffer, i, &left);

        if (!part) {
            GST_ELEMENT_ERROR(self, RESOURCE, READ, (NULL),
                              ("a buffer of latents cannot be read"));
            ret = GST_FLOW_ERROR;
            break;
        }
        ret = push_latent(self, part);
    }
    gst_buffer_unref(buffer);
    return ret;
}

static GError *
wrong_size(GstVaeDecode *self, gsize size, gsize wanted)
{
    const GstVaeLatentInfo *in = &self->in;
    gchar *found = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", size);
    gchar *needed = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", wanted);
    GError *error = NULL;

    gst_vae_set_mismatch(&error, (GstVaeMismatch){"size", found, needed},
                         "A buffer of %s came, wanted %" G_GSIZE_FORMAT
                         " for %d latents of %dx%dx%d %s",
                         found, wanted, in->frames, in->channels,
                         in->latent_height, in->latent_width,
                         vae_type_name(in->type));
    g_free(needed);
    g_free(found);
    return error;
}

/* The latents of a buffer; NULL: it has none, and the error is told. Takes
 * buffer. */
static GstBuffer *
read_latents(GstVaeDecode *self, GstBuffer *buffer)
{
    const gsize wanted = gst_vae_latent_info_size(&self->in);
    GError *error = NULL;
    gsize size;

    buffer = gst_vae_tensor_meta_take(buffer, &self->in,
                                      self->base.choice.info->space, &error);
    if (!buffer) {
        gst_vae_queue_drain(&self->base.queue);
        gst_vae_base_post(&self->base, error);
        return NULL;
    }
    size = gst_buffer_get_size(buffer);
    if (size != wanted) {
        gst_vae_queue_drain(&self->base.queue); /* what was good goes out */
        gst_vae_base_post(&self->base, wrong_size(self, size, wanted));
        gst_clear_buffer(&buffer);
    }
    return buffer;
}

static GstFlowReturn
collect(GstVaeBase *base, GstBuffer *buffer)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);

    buffer = read_latents(self, buffer);
    if (!buffer)
        return GST_FLOW_ERROR;
    buffer = gst_vae_decode_flag(self, buffer);
    if (self->in.frames > 1)
        return collect_many(self, buffer);
    return push_latent(self, buffer);
}

static void
restart(GstVaeBase *base)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);

    self->need_start = TRUE;
    self->discont = TRUE;
    self->told_continues = self->earlier = FALSE;
    gst_vae_decode_forget(self);
}

static GstFlowReturn
finish(GstVaeBase *base)
{
    return gst_vae_decode_drain(GST_VAE_DECODE(base));
}

static void
segment(GstVaeBase *base)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);

    self->anchor = self->input_end = GST_CLOCK_TIME_NONE;
    self->since_anchor = 0;
    self->frame = self->latent = 0;
}

static void
propose_allocation(GstVaeBase *base, GstQuery *query)
{
    /* Latents are read from any memory. */
}

static void
gst_vae_decode_class_init(GstVaeDecodeClass *klass)
{
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    GstVaeBaseClass *base_class = &klass->parent_class;

    GST_DEBUG_CATEGORY_INIT(gst_vae_decode_debug, "vaedecode", 0,
                            "latents to raw video");
    gst_vae_decode_install(G_OBJECT_CLASS(klass));
    gst_element_class_add_static_pad_template(element_class, &sink_template);
    gst_element_class_add_pad_template(
        element_class, gst_vae_cuda_template("src", GST_PAD_SRC));
    gst_element_class_set_static_metadata(
        element_class, "VAE latent decoder", "Codec/Decoder/Video",
        "Decodes latents of video diffusion models to raw video",
        GST_VAE_AUTHOR);
    gst_element_class_add_static_metadata(element_class,
                                          GST_ELEMENT_METADATA_DOC_URI,
                                          GST_VAE_DOCS "/streaming.md");
    base_class->direction = VAE_DECODE;
    base_class->category = gst_vae_decode_debug;
    base_class->set_caps = set_caps;
    base_class->find_model = find_model;
    base_class->negotiate = negotiate;
    base_class->set_times = set_times;
    base_class->collect = collect;
    base_class->finish = finish;
    base_class->restart = restart;
    base_class->segment = segment;
    base_class->propose_allocation = propose_allocation;
    base_class->decide_allocation = gst_vae_decode_decide_allocation;
    base_class->add_step = gst_vae_decode_add_step;
}

static void
gst_vae_decode_init(GstVaeDecode *self)
{
    self->fps_d = 1;
    self->look_ahead = -1;
    g_queue_init(&self->waiting);
    self->anchor = self->input_end = GST_CLOCK_TIME_NONE;
    gst_vae_pads_init(&self->base);
}
