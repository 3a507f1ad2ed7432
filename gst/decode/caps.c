/*
 * caps.c: the caps of the latents, checked against the model, and the caps of
 * the frames, agreed on with downstream.
 */
#include "decode.h"

#include "delay.h"
#include "details.h"
#include "enums.h"
#include "error.h"
#include "offer.h"
#include "refusal.h"
#include "source.h"
#include "switch.h"
#include "tensors.h"
#include "vae-private/spaces.h"
#include "video.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

static gboolean
mismatch(GError **error, const VaeModelInfo *model, const gchar *what,
         const gchar *found, const gchar *expected)
{
    gst_vae_set_mismatch(error, (GstVaeMismatch){what, found, expected},
                         "The latents have %s = %s, the model %s expects %s",
                         what, found, model->path, expected);
    return FALSE;
}

static gboolean
same_int(GError **error, const VaeModelInfo *model, const gchar *what,
         gint found, gint expected)
{
    gchar a[16], b[16];

    if (found == 0 || found == expected)
        return TRUE;
    g_snprintf(a, sizeof a, "%d", found);
    g_snprintf(b, sizeof b, "%d", expected);
    return mismatch(error, model, what, a, b);
}

/* A file of another layout has the number of its latents here. */
static gboolean
wrong_channels(GError **error, const VaeModelInfo *model,
               const GstVaeLatentInfo *in, GstPad *pad)
{
    g_autoptr(GstStructure) file =
        gst_vae_latent_ask_file(pad, model->latent_channels);
    const gchar *advice = file ? gst_structure_get_string(file, "advice") : "";
    gchar found[16], expected[16];

    g_snprintf(found, sizeof found, "%d", in->channels);
    g_snprintf(expected, sizeof expected, "%d", model->latent_channels);
    gst_vae_set_mismatch(
        error, (GstVaeMismatch){"channels", found, expected},
        "The latents have channels = %s, the model %s expects %s%s", found,
        model->path, expected, advice);
    return FALSE;
}

/* A wrong statement can be overridden if the latents fit otherwise. */
static gboolean
wrong_space(GError **error, const VaeModelInfo *model,
            const GstVaeLatentInfo *in)
{
    const gchar *space = in->space;
    const gchar *expected = model->space ? model->space : "another";
    const gboolean known = vae_space_find(space) != NULL;
    const gboolean fits =
        model->space && in->channels == model->latent_channels;

    gst_vae_set_mismatch(
        error, (GstVaeMismatch){"latent-space", space, expected},
        "The latents have latent-space = %s%s, the model %s expects %s%s%s%s%s",
        space, known ? "" : ", which is not known", model->path, expected,
        known ? "; use a model of " : "", known ? space : "",
        !fits   ? ""
        : known ? ", or to override it, set latentdemux latent-space="
                : "; to override it, set latentdemux latent-space=",
        fits ? expected : "");
    return FALSE;
}

/* Compares the caps of the latents with the model: latent space, channels,
 * frames of a latent, and size. */
static gboolean
check_latents(const GstVaeLatentInfo *in, const VaeModelInfo *model,
              GstPad *pad, GError **error)
{
    const gint s = model->spatial / model->scale;
    gchar found[64], expected[64];

    if (in->space[0] && g_strcmp0(in->space, model->space) != 0)
        return wrong_space(error, model, in);
    if (in->channels != model->latent_channels)
        return wrong_channels(error, model, in, pad);
    if (!same_int(error, model, "temporal-factor", in->temporal_factor,
                  model->temporal) ||
        !same_int(error, model, "first-frames", in->first_frames,
                  model->decode.first_out))
        return FALSE;
    if ((in->width && (in->width + s - 1) / s != in->latent_width) ||
        (in->height && (in->height + s - 1) / s != in->latent_height)) {
        g_snprintf(found, sizeof found, "%dx%d for %dx%d pixels",
                   in->latent_width, in->latent_height, in->width, in->height);
        g_snprintf(expected, sizeof expected, "%dx%d", (in->width + s - 1) / s,
                   (in->height + s - 1) / s);
        gst_vae_set_mismatch(error, (GstVaeMismatch){"size", found, expected},
                             "The latents have a grid of %s, the model %s "
                             "expects %s",
                             found, model->path, expected);
        return FALSE;
    }
    return TRUE;
}

static gboolean
check_size(const GstVaeLatentInfo *in, const VaeModelInfo *model,
           GError **error)
{
    gchar found[64];

    if (in->width <= GST_VAE_MAX_PIXELS && in->height <= GST_VAE_MAX_PIXELS)
        return TRUE;
    g_snprintf(found, sizeof found, "%dx%d", in->width, in->height);
    gst_vae_set_mismatch(
        error, (GstVaeMismatch){"size", found, GST_VAE_MAX_TEXT},
        "Latents of %dx%d are a picture of %s pixels with %s, "
        "expected " GST_VAE_MAX_TEXT,
        in->latent_width, in->latent_height, found, model->path);
    return FALSE;
}

/* The caps of latents were checked before. A rate of the property, or one that
 * was computed from tensors, may be impossible. */
static gboolean
check_rate(const GstVaeLatentInfo *in, GError **error)
{
    gchar found[32];

    if (gst_vae_rate_is_possible(in->fps_n, in->fps_d))
        return TRUE;
    g_snprintf(found, sizeof found, "%d/%d", in->fps_n, in->fps_d);
    gst_vae_set_mismatch(
        error, (GstVaeMismatch){"framerate", found, GST_VAE_RATES},
        "The framerate of the video would be %s, expected " GST_VAE_RATES,
        found);
    return FALSE;
}

/* Who states the normalization. A guess is no statement. */
typedef enum { NOBODY, THE_CAPS, THE_FILE, A_PROPERTY } Stater;

/* *set: a property of the element that reads the file does, too. */
static Stater
find_stater(GstVaeDecode *self, gboolean *set)
{
    g_autoptr(GstStructure) file = gst_vae_latent_ask_file(
        self->base.sinkpad, self->base.choice.info->latent_channels);
    gboolean by_file;

    *set = FALSE;
    if (!self->in.normalization_stated)
        return NOBODY;
    if (!file ||
        !gst_structure_get(file, "normalization", G_TYPE_BOOLEAN, &by_file,
                           "own-normalization", G_TYPE_BOOLEAN, set, NULL))
        return THE_CAPS;
    return by_file ? THE_FILE : *set ? A_PROPERTY : NOBODY;
}

/* Warns that the property counts more than a statement. */
static void
tell_override(GstVaeDecode *self, VaeNormalization set)
{
    gboolean set_before;
    const Stater who = find_stater(self, &set_before);
    g_autofree gchar *file =
        who == THE_FILE ? gst_vae_source_path(self->base.sinkpad) : NULL;
    gchar line[600];

    if (who != NOBODY &&
        vae_normalization_overrides(
            self->base.choice.info->space, file ? file : "the input",
            self->in.normalization, set, line, sizeof line))
        gst_vae_warn_input(GST_ELEMENT(self), NULL, line, NULL);
}

static void
tell_no_normalization(GstVaeDecode *self)
{
    g_autofree gchar *file = gst_vae_source_path(self->base.sinkpad);

    gst_vae_inform(GST_ELEMENT(self), VAE_NO_NORMALIZATION,
                   file ? file : "the input");
}

/* Makes the size that of the frames. Fills in fields that the caps leave open:
 * size, rate, normalization. */
static void
complete(GstVaeDecode *self)
{
    GstVaeLatentInfo *in = &self->in;
    const VaeModelInfo *model = self->base.choice.info;
    gint mode;

    in->width = in->width ? in->width * model->scale
                          : in->latent_width * model->spatial;
    in->height = in->height ? in->height * model->scale
                            : in->latent_height * model->spatial;
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
    self->own_normalization = mode != GST_VAE_NORMALIZATION_AUTO;
    if (self->own_normalization) {
        tell_override(self, (VaeNormalization) (mode - 1));
        in->normalization = (VaeNormalization) (mode - 1);
    } else if (!in->normalization_stated && !self->tensors) {
        tell_no_normalization(self);
    }
}

gboolean
gst_vae_decode_set_caps(GstVaeBase *base, GstCaps *caps, GError **error)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);

    self->tensors = gst_vae_tensors_is_caps(caps);
    if (!gst_vae_tensors_info_from_caps(caps, &self->in, error))
        return FALSE;
    if (!gst_vae_base_use_model(base, error))
        return FALSE;
    if (self->tensors)
        gst_vae_tensors_video_rate(&self->in,
                                   vae_model_counts(self->base.choice.info));
    if (!check_latents(&self->in, self->base.choice.info, base->sinkpad, error))
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

/* Keeps only the caps with the format that was negotiated before, if downstream
 * still accepts it in the memory that it names first. Many elements treat a new
 * format in the middle of a stream as a new stream. (takes caps) */
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

/* All raw caps of this size, those with alpha first if the model has it. */
static GstCaps *
offered_caps(GstVaeDecode *self, const GstVaeLatentInfo *in)
{
    GstCaps *caps = gst_caps_make_writable(
        gst_pad_get_pad_template_caps(self->base.srcpad));

    if (self->base.choice.info->out_channels == 4) {
        GstCaps *alpha =
            gst_caps_from_string(GST_VAE_RAW_CAPS_OF("RGBA, BGRA"));

        gst_caps_append(alpha, caps);
        caps = alpha;
    }
    gst_caps_set_simple(caps, "width", G_TYPE_INT, in->width, "height",
                        G_TYPE_INT, in->height, "framerate", GST_TYPE_FRACTION,
                        in->fps_n, in->fps_d, "pixel-aspect-ratio",
                        GST_TYPE_FRACTION, in->par_d ? in->par_n : 1,
                        in->par_d ? in->par_d : 1, NULL);
    for (gint i = GST_VAE_MASTERING; i <= GST_VAE_CONTENT_LIGHT; i++)
        if (in->words[i][0])
            gst_caps_set_simple(caps, gst_vae_words_field(i), G_TYPE_STRING,
                                in->words[i], NULL);
    return gst_vae_cuda_offer(&self->base.cuda, caps);
}

/* Returns the error for downstream, which accepts none of our caps. (transfer
 * full) */
static GError *
refusal(GstVaeDecode *self, const GstCaps *ours)
{
    gchar *why = gst_vae_cuda_why_not(&self->base.cuda);
    GstCaps *theirs = gst_pad_peer_query_caps(self->base.srcpad, NULL);
    gchar *what = g_strdup_printf(
        "Downstream does not take the video of %s%s%s",
        self->base.choice.info->path, why ? "; " : "", why ? why : "");
    GError *error = gst_vae_refusal(what, ours, theirs, FALSE);

    gst_caps_unref(theirs);
    g_free(what);
    g_free(why);
    return error;
}

/* Returns the raw caps of this size that downstream accepts. error may be NULL.
 * For any thread. */
static GstCaps *
raw_caps(GstVaeDecode *self, const GstVaeLatentInfo *in, GError **error)
{
    GstCaps *ours = offered_caps(self, in), *both;
    GstCaps *peer = gst_pad_peer_query_caps(self->base.srcpad, ours);

    both = gst_caps_intersect_full(ours, peer, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(peer);
    if (gst_caps_is_empty(both)) {
        if (error)
            *error = refusal(self, ours);
        gst_clear_caps(&both);
    }
    gst_caps_unref(ours);
    return both ? gst_vae_video_fixate(keep_format(&self->base, both), in)
                : NULL;
}

gboolean
gst_vae_decode_adapt(GstVaeBase *base, GstVaeSession *session, GError **error)
{
    GstCaps *caps = raw_caps(GST_VAE_DECODE(base), &session->latent, error);
    GstVideoInfo video;

    /* The stream has planned where its pictures are. */
    if (!caps ||
        gst_vae_video_is_cuda(caps) != gst_vae_video_is_cuda(session->caps) ||
        !gst_vae_video_info(caps, &video, NULL)) {
        gst_clear_caps(&caps);
        return FALSE;
    }
    if (!error) {
        g_mutex_lock(&base->queue.lock);
        gst_caps_replace(&session->caps, caps);
        session->video = video;
        g_mutex_unlock(&base->queue.lock);
    }
    gst_caps_unref(caps);
    return TRUE;
}

/* Says for the doubts who states the normalization. */
static VaeDoubtWords
doubt_words(GstVaeDecode *self)
{
    static const gchar *const stated[] = {NULL, "the caps state",
                                          "the file states", NULL};
    gboolean set;
    const Stater who = find_stater(self, &set);

    return (VaeDoubtWords){self->own_normalization ? NULL : stated[who],
                           " of vaedecode", self->own_normalization || set};
}

gboolean
gst_vae_decode_negotiate(GstVaeBase *base, GstVaeSession *session,
                         GError **error)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);
    const GstVaeLatentInfo *in = &self->in;

    session->caps = raw_caps(self, in, error);
    if (!session->caps)
        return FALSE;
    if (!gst_vae_video_info(session->caps, &session->video, error))
        return FALSE;
    if (!gst_vae_base_fill_session(base, session, error))
        return FALSE;
    gst_vae_base_set_pictures(session, &session->video, session->caps);
    session->latent = *in;
    session->params.width = in->width;
    session->params.height = in->height;
    session->params.normalization = in->normalization;
    session->words = doubt_words(self);
    session->frame_time =
        gst_util_uint64_scale_int(GST_SECOND, in->fps_d, in->fps_n);
    return TRUE;
}

void
gst_vae_decode_set_times(GstVaeBase *base, GstVaeSession *session)
{
    const VaeModelInfo *info = gst_vae_model_info(session->model);

    session->step_time = session->frame_time * info->decode.step_out;
    session->collect_time = gst_vae_delay_time(session);
}
