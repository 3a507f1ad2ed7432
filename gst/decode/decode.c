/**
 * SECTION:element-vaedecode
 * @title: vaedecode
 * @short_description: decodes latents of video diffusion models to raw video
 *
 * Decodes each latent to a group of frames. With most models, the first latent
 * of a sequence gives one frame, and every later latent gives four. Frames
 * leave while later latents are still being generated. A sequence begins at a
 * buffer without DELTA_UNIT (unless #GstVaeDecode:sequence is `continuous`) or
 * with DISCONT, after a flush and after new caps.
 *
 * A sequence may begin in the middle of a clip, for example after a seek. The
 * element recognises its first latent by DELTA_UNIT, or by an OFFSET above 0.
 * This latent has no context, and gives only the last frame of its group.
 *
 * A #GstVaeBase:model that is set while playing takes over at the next start of
 * a sequence. With #GstVaeDecode::restart, it takes over at the next latent.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=latents.safetensors ! latentdemux ! \
 *     vaedecode model=wan2.1_vae.safetensors ! \
 *     videoconvert ! videoscale ! clocksync ! autovideosink sync=false
 * ]|
 * Shows a clip at its own pace.
 * |[
 * gst-launch-1.0 -m filesrc location=latents.safetensors ! latentdemux ! \
 *     vaedecode model=wan2.1_vae.safetensors post-stats=true ! \
 *     videoconvert ! vp8enc deadline=1 target-bitrate=4000000 ! webmmux ! \
 *     filesink location=clip.webm
 * ]|
 * Makes a video file of the clip, and posts the speed every second.
 */
#include "decode.h"

#include "delay.h"
#include "details.h"
#include "docs.h"
#include "metas.h"
#include "offer.h"
#include "pads.h"
#include "switch.h"
#include "tensors.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

GType gst_vae_decode_get_type(void);
G_DEFINE_TYPE(GstVaeDecode, gst_vae_decode, gst_vae_base_get_type())
GST_ELEMENT_REGISTER_DEFINE(vaedecode, "vaedecode", GST_RANK_MARGINAL,
                            gst_vae_decode_get_type())

static gchar *
find_model(GstVaeBase *base, GError **error)
{
    return gst_vae_models_find(GST_VAE_DECODE(base)->in.space, error);
}

/* Called before each latent. Ends the previous sequence if the latent begins a
 * new one, loads a checkpoint, and changes the model if requested. */
static GstFlowReturn
prepare_latent(GstVaeDecode *self, const GstBuffer *latent, GstVaeStep *step,
               gboolean *without_context)
{
    GstFlowReturn ret = GST_FLOW_OK;

    /* Frames in the segment may wait for latents after the segment. */
    if (step->behind &&
        (step->start || !gst_vae_delay_is_waiting(&self->base))) {
        /* Drops this latent. The next one begins a sequence. */
        self->need_start = self->discont = TRUE;
        return GST_FLOW_EOS;
    }
    if (step->start)
        ret = gst_vae_decode_finish(&self->base);
    if (step->start && ret == GST_FLOW_OK)
        ret = gst_vae_decode_load(self, latent, step);
    if (ret == GST_FLOW_OK && !self->resuming)
        ret = gst_vae_base_switch(&self->base, step->start, step->pts,
                                  without_context);
    /* A failed switch has ended the sequence as well. */
    if (!*without_context && !self->resuming)
        step->start |= self->need_start;
    return ret;
}

/* Drops a latent before the first whole chunk. (takes latent) */
static GstFlowReturn
drop_latent(GstVaeDecode *self, GstBuffer *latent, GstClockTime pts)
{
    GST_INFO_OBJECT(self, "dropping a latent inside a chunk: a sequence begins "
                          "with the first one of a chunk");
    if (GST_BUFFER_DURATION_IS_VALID(latent))
        gst_vae_queue_push_event(
            &self->base.queue,
            gst_event_new_gap(pts, GST_BUFFER_DURATION(latent)), NULL);
    self->need_start = self->discont = TRUE;
    gst_buffer_unref(latent);
    return GST_FLOW_OK;
}

/* Queues the step of one latent. (takes latent) */
static GstFlowReturn
push_latent(GstVaeDecode *self, GstBuffer *latent)
{
    GstVaeBase *base = &self->base;
    GstVaeStep step = gst_vae_decode_step(self, latent);
    gboolean without_context = FALSE;
    GstFlowReturn ret;
    GstVaeItem *item;

    if (GST_BUFFER_OFFSET_IS_VALID(latent))
        self->latent = GST_BUFFER_OFFSET(latent);
    ret = prepare_latent(self, latent, &step, &without_context);
    if (ret != GST_FLOW_OK) {
        gst_buffer_unref(latent);
        return ret;
    }
    if (step.start && !self->resuming &&
        !gst_vae_decode_begins_chunk(self, latent))
        return drop_latent(self, latent, step.pts);
    item = self->resuming ? gst_vae_decode_resume_step(self, latent, step)
                          : gst_vae_decode_plan_step(self, latent, &step);
    if (!item)
        return GST_FLOW_OK;
    item->without_context = without_context;
    gst_vae_delay_step(base, item);
    item->frames = self->frame - g_queue_get_length(&base->delay.waiting);
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
wrong_size(GstVaeDecode *self, gsize size, gsize expected)
{
    const GstVaeLatentInfo *in = &self->in;
    gchar *found = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", size);
    gchar *needed = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", expected);
    GError *error = NULL;

    gst_vae_set_mismatch(
        &error, (GstVaeMismatch){"size", found, needed},
        "A buffer has %s, expected %" G_GSIZE_FORMAT " for %s of %dx%dx%d %s",
        found, expected, VAE_COUNTED(in->frames, "latent"), in->channels,
        in->latent_height, in->latent_width, vae_type_name(in->type));
    g_free(needed);
    g_free(found);
    return error;
}

/* Returns the latents of the buffer, or posts an error and returns NULL. (takes
 * buffer) */
static GstBuffer *
read_latents(GstVaeDecode *self, GstBuffer *buffer)
{
    const gsize expected = gst_vae_latent_info_size(&self->in);
    GError *error = NULL;
    gsize size;

    buffer = gst_vae_metas_latents(buffer, &self->in,
                                   self->base.choice.info->space, &error);
    if (!buffer) {
        gst_vae_queue_drain(&self->base.queue);
        gst_vae_base_post(&self->base, error);
        return NULL;
    }
    size = gst_buffer_get_size(buffer);
    if (size != expected) {
        /* Earlier frames are pushed first. */
        gst_vae_queue_drain(&self->base.queue);
        gst_vae_base_post(&self->base, wrong_size(self, size, expected));
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
    self->jumps = 0;
    gst_vae_delay_forget(base);
}

static GstClockTime
end(GstVaeBase *base)
{
    return GST_VAE_DECODE(base)->input_end;
}

static void
segment(GstVaeBase *base)
{
    GstVaeDecode *self = GST_VAE_DECODE(base);

    self->anchor = self->input_pts = self->input_end = GST_CLOCK_TIME_NONE;
    self->since_anchor = 0;
    self->frame = self->latent = 0;
}

static void
propose_allocation(GstVaeBase *base, GstQuery *query)
{
    /* The decoder reads latents from any memory. */
}

static void
gst_vae_decode_class_init(GstVaeDecodeClass *klass)
{
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    GstVaeBaseClass *base_class = &klass->parent_class;

    GST_DEBUG_CATEGORY_INIT(gst_vae_decode_debug, "vaedecode", 0,
                            "latents to raw video");
    gst_vae_decode_install(G_OBJECT_CLASS(klass));
    gst_element_class_add_pad_template(
        element_class,
        gst_vae_latent_template("sink", GST_PAD_SINK, GST_VAE_TENSORS_CAPS));
    gst_element_class_add_pad_template(
        element_class, gst_vae_cuda_template("src", GST_PAD_SRC));
    gst_element_class_set_static_metadata(
        element_class, "VAE latent decoder", "Codec/Decoder/Video",
        "Decodes latents of video diffusion models to raw video. Properties "
        "to set first: model, precision, memory-limit",
        GST_VAE_AUTHOR);
    gst_vae_set_page(element_class, "streaming.md");
    base_class->direction = VAE_DECODE;
    base_class->category = gst_vae_decode_debug;
    base_class->set_caps = gst_vae_decode_set_caps;
    base_class->find_model = find_model;
    base_class->negotiate = gst_vae_decode_negotiate;
    base_class->adapt = gst_vae_decode_adapt;
    base_class->set_times = gst_vae_decode_set_times;
    base_class->collect = collect;
    base_class->finish = gst_vae_decode_finish;
    base_class->restart = restart;
    base_class->end = end;
    base_class->segment = segment;
    base_class->propose_allocation = propose_allocation;
    base_class->decide_allocation = gst_vae_decode_decide_allocation;
    base_class->add_step = gst_vae_decode_add_step;
}

static void
gst_vae_decode_init(GstVaeDecode *self)
{
    self->fps_d = 1;
    self->anchor = self->input_pts = self->input_end = GST_CLOCK_TIME_NONE;
    gst_vae_pads_init(&self->base);
}
