/*
 * mux.c: writes latent buffers to a safetensors file.
 */

/**
 * SECTION:element-latentmux
 * @title: latentmux
 * @short_description: writes video latents into a safetensors file
 *
 * The file has a tensor "latent" in the order [T, C, H, W] and in the type of
 * the caps. The metadata of the file has the values of the caps:
 * vae.latent_space, vae.normalization, vae.framerate, vae.width, vae.height,
 * vae.temporal_factor, vae.colorimetry, vae.chroma_site,
 * vae.mastering_display_info, vae.content_light_level and, if pixels are not
 * square, vae.pixel_aspect_ratio. There is no vae.framerate if the caps have
 * framerate-assumed=true. The file also has vae.layout (tchw) and
 * vae.frames, the number of video frames by the durations of the latents. If
 * the caps have layout-guessed=true, it has vae.layout_guess instead, and no
 * vae.frames, nor if only a guess tells them.
 *
 * The element writes the tags title, comment and application-name as vae.title,
 * vae.comment and vae.application, and all others as vae.tag. and the name of
 * the tag. The tags come from upstream or from #GstTagSetter. Tags that come
 * after the first latent may take 4 KiB.
 *
 * If the times of the latents differ from the frame rate, the file has a second
 * tensor, "latent_times" (U8 [T, 16]). It has two little-endian 64-bit integers
 * for each latent, in nanoseconds: the start of the latent, counted from the
 * start of the first one, and the time that its frames last. latentdemux gives
 * these times back. If the file has several sequences, it has a tensor
 * "latent_sequences" (U8 [n, 16]). It has two such integers for each sequence:
 * the index of its first latent, and its number of frames.
 *
 * The header at the front of the file has the number of latents, which is known
 * only at the end. If downstream can seek, as filesink can, the element writes
 * the header again at EOS. Until then the header states that the recording is
 * open (vae.recording), and that the element holds a lock on the file
 * (vae.recording_locked). If the process is killed, latentdemux and vaetool
 * read every latent that is complete in the file. With buffer-mode=unbuffered,
 * filesink writes each latent when it arrives.
 *
 * If downstream cannot seek, as a pipe, a socket or an appsink, the element
 * keeps the file in memory and sends it at EOS as one buffer. If the latents
 * get longer than #GstLatentMux:max-kept-size, it sends an open header and from
 * then on each latent when it comes. Such a file has neither the times nor the
 * sequences of its latents. To send latents live use gdppay.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 -e videotestsrc num-buffers=17 ! \
 *     video/x-raw,width=416,height=240,framerate=16/1 ! \
 *     vaeencode model=wan2.1_vae.safetensors ! latentmux ! \
 *     filesink location=latents.safetensors
 * ]|
 * With -e, the file is also complete after an interrupt.
 * |[
 * gst-launch-1.0 filesrc location=latents.npy ! \
 *     latentdemux latent-space=wan2.1 ! latentmux ! \
 *     filesink location=latents.safetensors
 * ]|
 * Makes a file that states its latent space from a file that does not.
 */

#include "mux.h"

#include "details.h"
#include "docs.h"
#include "fields.h"
#include "group.h"
#include "metas.h"

#define GST_CAT_DEFAULT gst_latent_mux_debug

#define DEFAULT_MAX_KEPT_SIZE ((guint64) 512 << 20)

enum { PROP_0, PROP_MAX_KEPT_SIZE };

static GstStaticPadTemplate src_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS,
                            GST_STATIC_CAPS("application/x-safetensors"));

G_DEFINE_TYPE_WITH_CODE(GstLatentMux, gst_latent_mux, GST_TYPE_ELEMENT,
                        G_IMPLEMENT_INTERFACE(GST_TYPE_TAG_SETTER, NULL);
                        GST_DEBUG_CATEGORY_INIT(gst_latent_mux_debug,
                                                "latentmux", 0,
                                                "latent file muxer"))
GST_ELEMENT_REGISTER_DEFINE(latentmux, "latentmux", GST_RANK_PRIMARY,
                            GST_TYPE_LATENT_MUX)

/* (transfer full) */
static GError *
wrong_size(const GstLatentMux *self, gsize size, gsize expected)
{
    gchar *is = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", size);
    gchar *should = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", expected);
    GError *error = NULL;
    gst_vae_set_mismatch(&error, (GstVaeMismatch){"size", is, should},
                         "Latent %" G_GINT64_FORMAT
                         " has %s, its caps ask for %" G_GSIZE_FORMAT,
                         self->record.latents, is, expected);
    g_free(is);
    g_free(should);
    return error;
}

/* Returns the latent of a buffer, if it has the right size. Otherwise posts an
 * error and returns NULL. (takes buffer) */
static GstBuffer *
read_latent(GstLatentMux *self, GstBuffer *buffer)
{
    const gsize expected = gst_vae_latent_info_step_size(&self->info);
    GError *error = NULL;
    buffer = gst_vae_group_use_event(&self->group, buffer);
    buffer = gst_vae_metas_latents(buffer, &self->info, NULL, &error);
    if (!buffer) {
        gst_latent_mux_post(self, error);
    } else if (gst_buffer_get_size(buffer) != expected) {
        gst_latent_mux_post(
            self, wrong_size(self, gst_buffer_get_size(buffer), expected));
        gst_clear_buffer(&buffer);
    }
    return buffer;
}

static GstFlowReturn
sink_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    GstLatentMux *self = GST_LATENT_MUX(parent);
    GstFlowReturn ret = GST_FLOW_OK;
    if (self->state == GST_LATENT_MUX_DONE) {
        ret = GST_FLOW_EOS;
    } else if (!self->caps) {
        ret = GST_FLOW_NOT_NEGOTIATED;
    } else if (!(buffer = read_latent(self, buffer))) {
        ret = GST_FLOW_ERROR;
        if (self->state == GST_LATENT_MUX_WRITING)
            gst_latent_mux_complete(self);
    } else if (self->state == GST_LATENT_MUX_EMPTY) {
        ret = gst_latent_mux_begin(self);
        self->state =
            ret == GST_FLOW_OK ? GST_LATENT_MUX_WRITING : GST_LATENT_MUX_EMPTY;
    }
    if (ret != GST_FLOW_OK) {
        gst_clear_buffer(&buffer);
    } else {
        ret = gst_latent_mux_write(self, buffer);
    }
    /* After a failed write no header is written, so that the file does not look
     * complete. */
    if (ret < GST_FLOW_EOS)
        self->state = GST_LATENT_MUX_DONE;
    return ret;
}

/* Events ---------------------------------------------------------------- */

/* Returns the first field that differs, and its two values, which the caller
 * frees. */
static const gchar *
find_change(const GstCaps *caps, const GstCaps *before, gchar **found,
            gchar **expected)
{
    const GstStructure *is = gst_caps_get_structure(caps, 0);
    const GstStructure *was = gst_caps_get_structure(before, 0);
    const GstStructure *all[] = {was, is}; /* a field may be missing in one */
    for (guint k = 0; k < G_N_ELEMENTS(all); k++)
        for (gint i = 0; i < gst_structure_n_fields(all[k]); i++) {
            const gchar *name = gst_structure_nth_field_name(all[k], (guint) i);
            const GValue *a = gst_structure_get_value(is, name);
            const GValue *b = gst_structure_get_value(was, name);
            if (a && b && gst_value_compare(a, b) == GST_VALUE_EQUAL)
                continue;
            *found = a ? gst_value_serialize(a) : g_strdup("not stated");
            *expected = b ? gst_value_serialize(b) : g_strdup("not stated");
            return name;
        }
    return NULL;
}

/* Returns the element that keeps a field of the video the same, or NULL. */
static const gchar *
find_cure(const gchar *field)
{
    if (strstr(field, "width") || strstr(field, "height"))
        return "videoscale";
    return g_str_equal(field, "framerate") ? "videorate" : NULL;
}

/* Ends the file with the latents so far. Upstream sends the event again with
 * the next buffer; it is then refused without a second error. */
static gboolean
refuse_change(GstLatentMux *self, GstCaps *caps)
{
    gchar *found = NULL, *expected = NULL;
    if (self->state == GST_LATENT_MUX_WRITING) {
        gst_latent_mux_complete(self);
        const gchar *field = find_change(caps, self->caps, &found, &expected);
        const gchar *cure = find_cure(field);
        GError *error = NULL;
        gst_vae_set_mismatch(
            &error, (GstVaeMismatch){field, found, expected},
            "Latent %" G_GINT64_FORMAT
            " has the %s %s, expected %s, as all latents before it in the "
            "file. Write it to another file%s%s%s",
            self->record.latents, field, found, expected,
            cure ? ", or put " : "", cure ? cure : "",
            cure ? " and fixed caps before vaeencode" : "");
        gst_latent_mux_post(self, error);
        g_free(found);
        g_free(expected);
    }
    gst_caps_unref(caps);
    return FALSE;
}

static gboolean
set_caps(GstLatentMux *self, const GstCaps *caps)
{
    GstVaeLatentInfo info;
    GError *error = NULL;
    if (!gst_vae_latent_info_from_caps(caps, &info, &error)) {
        gst_latent_mux_post(self, error);
        return FALSE;
    }
    if (info.layout != GST_VAE_LATENT_CHW) {
        gst_vae_set_mismatch(&error,
                             (GstVaeMismatch){"layout", "another", "chw"},
                             "The caps have %d latents a buffer in another "
                             "layout, expected layout = chw",
                             info.frames);
        gst_latent_mux_post(self, error);
        return FALSE;
    }
    GstCaps *plain = gst_vae_latent_info_to_caps(&info);
    if (self->state != GST_LATENT_MUX_EMPTY &&
        !gst_caps_is_equal(self->caps, plain))
        return refuse_change(self, plain);
    gst_caps_replace(&self->caps, plain);
    gst_caps_unref(plain);
    self->info = info;
    return TRUE;
}

/* Upstream sends refused caps again with each buffer. Their error is posted
 * once. */
static gboolean
take_caps(GstLatentMux *self, GstCaps *caps)
{
    if (self->refused && gst_caps_is_equal(caps, self->refused))
        return FALSE;
    const gboolean ok = set_caps(self, caps);
    gst_caps_replace(&self->refused, ok ? NULL : caps);
    return ok;
}

static void
reset(GstLatentMux *self)
{
    self->state = GST_LATENT_MUX_EMPTY;
    gst_clear_caps(&self->refused);
    self->header = (GstLatentHeader){0};
    gst_latent_record_reset(&self->record);
    self->warned = self->times_told = self->tags_told = FALSE;
    self->stream_told = self->streamed = FALSE;
    g_clear_object(&self->kept);
    gst_clear_structure(&self->group);
    gst_latent_mux_unlock(self);
    self->origin = self->shift = 0;
}

static void
end(GstLatentMux *self)
{
    if (self->state == GST_LATENT_MUX_WRITING) {
        const GstFlowReturn ret = gst_latent_mux_complete(self);
        /* The element that returned GST_FLOW_ERROR posted it. */
        if (ret != GST_FLOW_OK && ret != GST_FLOW_FLUSHING &&
            ret != GST_FLOW_ERROR)
            GST_ELEMENT_FLOW_ERROR(self, ret);
    } else if (self->state == GST_LATENT_MUX_EMPTY && !self->refused) {
        GST_ELEMENT_ERROR(self, STREAM, MUX,
                          ("No latents arrived, nothing is written"), (NULL));
    }
}

static void
merge_tags(GstLatentMux *self, GstEvent *event)
{
    GstTagList *tags, **list;
    gst_event_parse_tag(event, &tags);
    list = &self->upstream[gst_tag_list_get_scope(tags)];
    if (*list)
        gst_tag_list_insert(*list, tags, GST_TAG_MERGE_REPLACE);
    else
        *list = gst_tag_list_copy(tags);
}

static void
drop_tags(GstLatentMux *self)
{
    gst_clear_tag_list(&self->tags);
    for (guint i = 0; i < G_N_ELEMENTS(self->upstream); i++)
        gst_clear_tag_list(&self->upstream[i]);
}

/* The timestamps of a later segment may begin at 0 again (concat). Its latents
 * follow those before it by their running time. */
static void
take_segment(GstLatentMux *self, GstEvent *event)
{
    const GstSegment *segment;
    gst_event_parse_segment(event, &segment);
    if (segment->format != GST_FORMAT_TIME)
        return;
    const GstClockTime distance = segment->base - segment->start;
    if (self->state == GST_LATENT_MUX_EMPTY)
        self->origin = distance;
    self->shift = distance - self->origin;
}

static gboolean
sink_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    GstLatentMux *self = GST_LATENT_MUX(parent);
    gboolean ok = TRUE;
    GstCaps *caps;
    switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_CAPS:
        gst_event_parse_caps(event, &caps);
        ok = take_caps(self, caps);
        gst_event_unref(event);
        return ok;
    case GST_EVENT_TAG:
        merge_tags(self, event);
        gst_event_unref(event);
        return TRUE;
    case GST_EVENT_SEGMENT:
        take_segment(self, event);
        gst_event_unref(event);
        return TRUE;
    case GST_EVENT_GAP:
        gst_event_unref(event);
        return TRUE;
    case GST_EVENT_EOS:
        end(self);
        break;
    case GST_EVENT_FLUSH_STOP:
        /* filesink truncates its file at this event */
        reset(self);
        break;
    default:
        if (gst_vae_group_take_event(&self->group, event)) {
            gst_event_unref(event);
            return TRUE;
        }
        break;
    }
    return gst_pad_event_default(pad, parent, event);
}

static gboolean
src_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) != GST_EVENT_SEEK)
        return gst_pad_event_default(pad, parent, event);
    GST_DEBUG_OBJECT(parent, "no seek while a file is written");
    gst_event_unref(event);
    return FALSE;
}

/* Element --------------------------------------------------------------- */

static GstStateChangeReturn
change_state(GstElement *element, GstStateChange transition)
{
    GstLatentMux *self = GST_LATENT_MUX(element);
    GST_DEBUG_OBJECT(self, "%s", gst_state_change_get_name(transition));
    const GstStateChangeReturn ret =
        GST_ELEMENT_CLASS(gst_latent_mux_parent_class)
            ->change_state(element, transition);
    if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
        reset(self);
        gst_clear_caps(&self->caps);
        gst_tag_setter_reset_tags(GST_TAG_SETTER(self));
        drop_tags(self);
    }
    return ret;
}

static void
finalize(GObject *object)
{
    gst_clear_caps(&GST_LATENT_MUX(object)->caps);
    gst_clear_caps(&GST_LATENT_MUX(object)->refused);
    drop_tags(GST_LATENT_MUX(object));
    gst_clear_structure(&GST_LATENT_MUX(object)->group);
    gst_latent_mux_unlock(GST_LATENT_MUX(object));
    g_clear_object(&GST_LATENT_MUX(object)->kept);
    gst_latent_record_clear(&GST_LATENT_MUX(object)->record);
    G_OBJECT_CLASS(gst_latent_mux_parent_class)->finalize(object);
}

static const GstVaeField fields[] = {
    GST_VAE_FIELD(PROP_MAX_KEPT_SIZE, GstLatentMux, max_kept_size), {0}};

static void
gst_latent_mux_init(GstLatentMux *self)
{
    self->max_kept_size = DEFAULT_MAX_KEPT_SIZE;
    self->lock = -1;
    gst_latent_record_init(&self->record);
    self->sinkpad = gst_pad_new_from_template(
        gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "sink"),
        "sink");
    gst_pad_set_chain_function(self->sinkpad, sink_chain);
    gst_pad_set_event_function(self->sinkpad, sink_event);
    gst_element_add_pad(GST_ELEMENT(self), self->sinkpad);
    self->srcpad = gst_pad_new_from_static_template(&src_template, "src");
    gst_pad_set_event_function(self->srcpad, src_event);
    gst_pad_use_fixed_caps(self->srcpad);
    gst_element_add_pad(GST_ELEMENT(self), self->srcpad);
}

static void
gst_latent_mux_class_init(GstLatentMuxClass *klass)
{
    GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
    G_OBJECT_CLASS(klass)->finalize = finalize;
    gst_vae_fields_install(G_OBJECT_CLASS(klass), fields);
    /**
     * GstLatentMux:max-kept-size:
     *
     * If downstream cannot seek, the file is kept in memory and sent at EOS.
     * This is the maximum size of its latents. If they get longer, they are
     * sent at once, and the header leaves their number open. With 0 each latent
     * is sent when it comes.
     */
    g_object_class_install_property(
        G_OBJECT_CLASS(klass), PROP_MAX_KEPT_SIZE,
        g_param_spec_uint64("max-kept-size", "Max Kept Size",
                            "Maximum size, in bytes, of the latents that are "
                            "kept in memory until EOS if downstream cannot "
                            "seek. Longer files, or all with 0, are sent with "
                            "an open header",
                            0, G_MAXSIZE, DEFAULT_MAX_KEPT_SIZE,
                            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                GST_PARAM_MUTABLE_READY));
    element_class->change_state = GST_DEBUG_FUNCPTR(change_state);
    gst_element_class_add_pad_template(
        element_class, gst_vae_latent_template("sink", GST_PAD_SINK, NULL));
    gst_element_class_add_static_pad_template(element_class, &src_template);
    gst_element_class_set_static_metadata(
        element_class, "Latent file muxer", "Codec/Muxer/Video",
        "Writes video latents into a safetensors file", GST_VAE_AUTHOR);
    gst_vae_set_page(element_class, "using.md");
}
