/*
 * mux.c: latent buffers in, a safetensors file out.
 */

/**
 * SECTION:element-latentmux
 * @title: latentmux
 * @short_description: writes video latents into a safetensors file
 *
 * The file holds one tensor, "latent", in the order [T, C, H, W] and the
 * type of the caps, and as metadata what the caps state: vae.latent_space,
 * vae.normalization, vae.framerate, vae.width, vae.height,
 * vae.temporal_factor, vae.colorimetry, vae.chroma_site,
 * vae.mastering_display_info, vae.content_light_level and, where pixels are not
 * square, vae.pixel_aspect_ratio; besides vae.layout (tchw) and vae.frames, the
 * number of video frames by the durations of the latents.
 *
 * It writes the tags title, comment (as the prompt) and application-name, from
 * upstream or by #GstTagSetter, as vae.title, vae.comment and vae.application.
 * The header has 4 KiB for those that come after the first latent.
 *
 * Where the times of the latents do not follow the frame rate, a second tensor,
 * "latent_times" (U8 [T, 16]), has of each latent two 64-bit integers, little
 * endian: when it begins, after the first, and how long its frames last, in
 * nanoseconds. latentdemux gives these times back. A file of several sequences
 * has a tensor "latent_sequences" (U8 [n, 16]) with two such integers of each:
 * its first latent, and how many frames it holds.
 *
 * How many latents there are stands at the front of the file and is known at
 * the end, so downstream has to be able to seek, as filesink can; for a
 * stream use gdppay. Until the EOS event the header says that the recording is
 * open (vae.recording): of a process that was killed, latentdemux and vaetool
 * read all latents that are in the file as a whole. filesink writes as they
 * come with buffer-mode=unbuffered.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 -e videotestsrc num-buffers=17 ! \
 *     video/x-raw,width=416,height=240,framerate=16/1 ! \
 *     vaeencode model=wan2.1_vae.safetensors ! latentmux ! \
 *     filesink location=latents.safetensors
 * ]|
 * With -e an interrupt ends the file as it should.
 * |[
 * gst-launch-1.0 filesrc location=latents.npy ! \
 *     latentdemux latent-space=wan2.1 ! latentmux ! \
 *     filesink location=latents.safetensors
 * ]|
 * Makes a file that says what it holds of one that does not.
 */

#include "mux.h"

#include "details.h"
#include "error.h"
#include "header.h"
#include "record.h"
#include "tensor_meta.h"

GST_DEBUG_CATEGORY_STATIC(latent_mux_debug);
#define GST_CAT_DEFAULT latent_mux_debug

typedef enum {
    STATE_EMPTY,   /* nothing sent */
    STATE_WRITING, /* behind the first header */
    STATE_DONE     /* behind the last header, or failed */
} State;

struct _GstLatentMux {
    GstElement parent;
    GstPad *sinkpad, *srcpad;

    /* Under the sink pad's stream lock. */
    State state;
    GstCaps *caps; /* NULL before the first ones; as info_to_caps() says */
    GstVaeLatentInfo info;
    GstTagList *tags; /* that the header has, or NULL */
    GstLatentHeader header;
    GstLatentRecord record;
    gboolean warned, times_told;
};

static GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(GST_VAE_LATENT_CAPS));

static GstStaticPadTemplate src_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS,
                            GST_STATIC_CAPS("application/x-safetensors"));

G_DEFINE_TYPE_WITH_CODE(GstLatentMux, gst_latent_mux, GST_TYPE_ELEMENT,
                        G_IMPLEMENT_INTERFACE(GST_TYPE_TAG_SETTER, NULL);
                        GST_DEBUG_CATEGORY_INIT(latent_mux_debug, "latentmux",
                                                0, "latent file muxer"))
GST_ELEMENT_REGISTER_DEFINE(latentmux, "latentmux", GST_RANK_PRIMARY,
                            GST_TYPE_LATENT_MUX)

/* Takes error. */
static void
post(GstLatentMux *self, GError *error)
{
    gst_vae_post_gerror(GST_ELEMENT(self), error,
                        gst_vae_error_context(NULL, self->info.space));
}

/* Header ---------------------------------------------------------------- */

/* Moves downstream to the file's first byte and sends the header there. */
static GstFlowReturn
push_header(GstLatentMux *self, GstBuffer *buffer)
{
    GstSegment segment;
    GST_BUFFER_OFFSET(buffer) = 0;
    GST_BUFFER_OFFSET_END(buffer) = self->header.size;
    gst_segment_init(&segment, GST_FORMAT_BYTES);
    if (!gst_pad_push_event(self->srcpad, gst_event_new_segment(&segment))) {
        gst_buffer_unref(buffer);
        return GST_PAD_IS_FLUSHING(self->srcpad) ? GST_FLOW_FLUSHING
                                                 : GST_FLOW_ERROR;
    }
    return gst_pad_push(self->srcpad, buffer);
}

/* Writing --------------------------------------------------------------- */

static gboolean
downstream_seekable(GstLatentMux *self)
{
    gboolean seekable = FALSE;
    GstQuery *query = gst_query_new_seeking(GST_FORMAT_BYTES);
    if (gst_pad_peer_query(self->srcpad, query))
        gst_query_parse_seeking(query, NULL, &seekable, NULL, NULL);
    gst_query_unref(query);
    return seekable;
}

static void
take_tags(GstLatentMux *self)
{
    const GstTagList *tags = gst_tag_setter_get_tag_list(GST_TAG_SETTER(self));
    gst_clear_tag_list(&self->tags);
    self->tags = tags ? gst_tag_list_copy(tags) : NULL;
    self->header.tags = self->tags;
}

/* Posts *error. */
static GstFlowReturn
fail(GstLatentMux *self, const VaeError *error)
{
    post(self, gst_vae_error_new(GST_STREAM_ERROR, GST_STREAM_ERROR_MUX,
                                 error->message, gst_vae_error_parts(error)));
    return GST_FLOW_ERROR;
}

static GstFlowReturn
begin(GstLatentMux *self)
{
    if (!gst_pad_is_linked(self->srcpad))
        return GST_FLOW_NOT_LINKED;
    if (!downstream_seekable(self)) {
        GST_ELEMENT_ERROR(self, STREAM, MUX,
                          ("Downstream cannot seek, but the front of a latent "
                           "file is written last; write to a regular file, or "
                           "use gdppay for a stream"),
                          (NULL));
        return GST_FLOW_ERROR;
    }
    VaeError error;
    self->header = (GstLatentHeader){.info = &self->info};
    take_tags(self);
    self->header.size = gst_latent_header_room(&self->info, self->tags, &error);
    if (self->header.size == 0)
        return fail(self, &error);
    GstBuffer *header = gst_latent_header_make(&self->header, &error);
    if (!header)
        return fail(self, &error);
    GstCaps *caps = gst_static_pad_template_get_caps(&src_template);
    gst_pad_push_event(self->srcpad, gst_event_new_caps(caps));
    gst_caps_unref(caps);
    return push_header(self, header);
}

/* Writes a table of pairs of numbers at *offset, and moves that behind it. */
static GstFlowReturn
push_table(GstLatentMux *self, GArray *table, guint64 *offset)
{
    const gsize size = table->len * 2 * sizeof(gint64);
    gint64 *numbers = (gint64 *) table->data;
    for (guint i = 0; i < 2 * table->len; i++)
        numbers[i] = GINT64_TO_LE(numbers[i]);
    GstBuffer *buffer = gst_buffer_new_memdup(numbers, size);
    GST_BUFFER_OFFSET(buffer) = *offset;
    *offset += size;
    GST_BUFFER_OFFSET_END(buffer) = *offset;
    return gst_pad_push(self->srcpad, buffer);
}

/* The header at the end, with all tags that have come, if there is room for
 * them. */
static GstBuffer *
last_header(GstLatentMux *self, VaeError *error)
{
    GstTagList *first = g_steal_pointer(&self->tags);
    take_tags(self);
    GstBuffer *header = gst_latent_header_make(&self->header, error);
    if (!header && error->status == VAE_ERR_SIZE) {
        GST_ELEMENT_WARNING(self, STREAM, MUX,
                            ("The tags that came after the first latent are "
                             "too long for the file's header and are left out"),
                            ("%s", error->message));
        self->header.tags = first;
        header = gst_latent_header_make(&self->header, error);
    }
    self->header.tags = NULL;
    gst_clear_tag_list(&first);
    return header;
}

/* Writes the tables behind the latents, and the true header over the first
 * one. */
static GstFlowReturn
complete(GstLatentMux *self)
{
    GstLatentRecord *record = &self->record;
    GST_DEBUG_OBJECT(
        self, "%" G_GINT64_FORMAT " latents, %" G_GINT64_FORMAT " frames",
        record->latents, record->frames);
    self->state = STATE_DONE;
    self->header.latents = record->latents;
    self->header.frames = record->frames;
    self->header.sequences = record->latents > 0 ? record->sequences->len : 0;
    self->header.times =
        record->uneven && !record->untimed && record->latents > 0;
    VaeError error;
    GstBuffer *header = last_header(self, &error);
    if (!header)
        return fail(self, &error);
    guint64 offset =
        self->header.size +
        record->latents * gst_vae_latent_info_step_size(&self->info);
    GstFlowReturn ret = GST_FLOW_OK;
    if (self->header.times)
        ret = push_table(self, record->times, &offset);
    if (ret == GST_FLOW_OK && record->sequences->len > 1)
        ret = push_table(self, record->sequences, &offset);
    if (ret == GST_FLOW_OK)
        return push_header(self, header);
    gst_buffer_unref(header);
    return ret;
}

static void
warn_of_times(GstLatentMux *self)
{
    if (self->times_told || !self->record.untimed || !self->record.uneven)
        return;
    self->times_told = TRUE;
    GST_ELEMENT_WARNING(
        self, STREAM, MUX,
        ("Latent %" G_GINT64_FORMAT " has no time, or one before that of an "
         "earlier latent, which the file cannot hold: all latents get the "
         "times of the frame rate. Put videorate in front of the encoder",
         self->record.latents),
        (NULL));
}

static void
warn_of_sequence(GstLatentMux *self)
{
    if (self->warned || !self->record.doubtful)
        return;
    self->warned = TRUE;
    GST_ELEMENT_WARNING(
        self, STREAM, MUX,
        ("Latent %" G_GINT64_FORMAT
         " begins a new sequence by its flags, but has not the duration of "
         "one frame: it is written as the continuation of the one before. "
         "Set DELTA_UNIT on it, or that duration",
         self->record.latents),
        (NULL));
}

static GstFlowReturn
write_latent(GstLatentMux *self, GstBuffer *buffer)
{
    const gsize size = gst_buffer_get_size(buffer);
    const guint64 offset = self->header.size + self->record.latents * size;
    gst_latent_record_note(&self->record, &self->info, buffer);
    warn_of_sequence(self);
    warn_of_times(self);
    buffer = gst_buffer_make_writable(buffer);
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    GST_BUFFER_DURATION(buffer) = GST_CLOCK_TIME_NONE;
    GST_BUFFER_OFFSET(buffer) = offset;
    GST_BUFFER_OFFSET_END(buffer) = offset + size;
    GST_BUFFER_FLAG_UNSET(buffer,
                          GST_BUFFER_FLAG_DELTA_UNIT | GST_BUFFER_FLAG_DISCONT);
    GST_LOG_OBJECT(self, "latent %" G_GINT64_FORMAT ": %" GST_PTR_FORMAT,
                   self->record.latents, buffer);
    const GstFlowReturn ret = gst_pad_push(self->srcpad, buffer);
    if (ret == GST_FLOW_OK)
        gst_latent_record_count(&self->record);
    return ret;
}

/* (transfer full) */
static GError *
wrong_size(const GstLatentMux *self, gsize size, gsize wanted)
{
    gchar *is = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", size);
    gchar *should = g_strdup_printf("%" G_GSIZE_FORMAT " bytes", wanted);
    GError *error = NULL;
    gst_vae_set_mismatch(&error, (GstVaeMismatch){"size", is, should},
                         "Latent %" G_GINT64_FORMAT
                         " has %s, its caps ask for %" G_GSIZE_FORMAT,
                         self->record.latents, is, wanted);
    g_free(is);
    g_free(should);
    return error;
}

/* The latent of a buffer, whose size it has; NULL: it has none, and the error
 * is told. Takes buffer. */
static GstBuffer *
read_latent(GstLatentMux *self, GstBuffer *buffer)
{
    const gsize wanted = gst_vae_latent_info_step_size(&self->info);
    GError *error = NULL;
    buffer = gst_vae_tensor_meta_take(buffer, &self->info, NULL, &error);
    if (!buffer) {
        post(self, error);
    } else if (gst_buffer_get_size(buffer) != wanted) {
        post(self, wrong_size(self, gst_buffer_get_size(buffer), wanted));
        gst_clear_buffer(&buffer);
    }
    return buffer;
}

static GstFlowReturn
sink_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    GstLatentMux *self = GST_LATENT_MUX(parent);
    GstFlowReturn ret = GST_FLOW_OK;
    if (self->state == STATE_DONE) {
        ret = GST_FLOW_EOS;
    } else if (!self->caps) {
        ret = GST_FLOW_NOT_NEGOTIATED;
    } else if (!(buffer = read_latent(self, buffer))) {
        ret = GST_FLOW_ERROR;
        if (self->state == STATE_WRITING)
            complete(self);
    } else if (self->state == STATE_EMPTY) {
        ret = begin(self);
        self->state = ret == GST_FLOW_OK ? STATE_WRITING : STATE_EMPTY;
    }
    if (ret != GST_FLOW_OK) {
        gst_clear_buffer(&buffer);
    } else {
        ret = write_latent(self, buffer);
    }
    /* A failed write must not be covered by a header that looks right. */
    if (ret < GST_FLOW_EOS)
        self->state = STATE_DONE;
    return ret;
}

/* Events ---------------------------------------------------------------- */

/* Ends the file with what it has. The event comes again with the next
 * buffer, and is refused in silence then. */
static gboolean
refuse_change(GstLatentMux *self, GstCaps *caps)
{
    if (self->state == STATE_WRITING) {
        complete(self);
        gchar *found = gst_caps_to_string(caps);
        gchar *wanted = gst_caps_to_string(self->caps);
        GST_ELEMENT_ERROR_WITH_DETAILS(
            self, STREAM, FORMAT,
            ("The latents change after %" G_GINT64_FORMAT
             " of them, but a file holds one kind",
             self->record.latents),
            ("from %s to %s", wanted, found),
            ("field", G_TYPE_STRING, "caps", "found", G_TYPE_STRING, found,
             "wanted", G_TYPE_STRING, wanted, NULL));
        g_free(found);
        g_free(wanted);
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
        post(self, error);
        return FALSE;
    }
    if (info.layout != GST_VAE_LATENT_CHW) {
        gst_vae_set_mismatch(&error,
                             (GstVaeMismatch){"layout", "another", "chw"},
                             "The caps have %d latents a buffer in another "
                             "layout, wanted layout = chw",
                             info.frames);
        post(self, error);
        return FALSE;
    }
    GstCaps *plain = gst_vae_latent_info_to_caps(&info);
    if (self->state != STATE_EMPTY && !gst_caps_is_equal(self->caps, plain))
        return refuse_change(self, plain);
    gst_caps_replace(&self->caps, plain);
    gst_caps_unref(plain);
    self->info = info;
    return TRUE;
}

static void
reset(GstLatentMux *self)
{
    self->state = STATE_EMPTY;
    self->header = (GstLatentHeader){0};
    gst_latent_record_reset(&self->record);
    self->warned = self->times_told = FALSE;
}

static void
end(GstLatentMux *self)
{
    if (self->state == STATE_WRITING) {
        const GstFlowReturn ret = complete(self);
        /* GST_FLOW_ERROR was posted by who returned it. */
        if (ret != GST_FLOW_OK && ret != GST_FLOW_FLUSHING &&
            ret != GST_FLOW_ERROR)
            GST_ELEMENT_FLOW_ERROR(self, ret);
    } else if (self->state == STATE_EMPTY) {
        GST_ELEMENT_ERROR(self, STREAM, MUX,
                          ("No latents arrived, nothing is written"), (NULL));
    }
}

static void
merge_tags(GstLatentMux *self, GstEvent *event)
{
    GstTagSetter *setter = GST_TAG_SETTER(self);
    GstTagList *tags;
    gst_event_parse_tag(event, &tags);
    gst_tag_setter_merge_tags(setter, tags,
                              gst_tag_setter_get_tag_merge_mode(setter));
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
        ok = set_caps(self, caps);
        gst_event_unref(event);
        return ok;
    case GST_EVENT_TAG:
        merge_tags(self, event);
        gst_event_unref(event);
        return TRUE;
    case GST_EVENT_SEGMENT:
    case GST_EVENT_GAP:
        gst_event_unref(event);
        return TRUE;
    case GST_EVENT_EOS:
        end(self);
        break;
    case GST_EVENT_FLUSH_STOP:
        /* filesink empties its file then. */
        reset(self);
        break;
    default:
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
    }
    return ret;
}

static void
finalize(GObject *object)
{
    gst_clear_caps(&GST_LATENT_MUX(object)->caps);
    gst_clear_tag_list(&GST_LATENT_MUX(object)->tags);
    gst_latent_record_clear(&GST_LATENT_MUX(object)->record);
    G_OBJECT_CLASS(gst_latent_mux_parent_class)->finalize(object);
}

static void
gst_latent_mux_init(GstLatentMux *self)
{
    gst_latent_record_init(&self->record);
    self->sinkpad = gst_pad_new_from_static_template(&sink_template, "sink");
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
    element_class->change_state = GST_DEBUG_FUNCPTR(change_state);
    gst_element_class_add_static_pad_template(element_class, &sink_template);
    gst_element_class_add_static_pad_template(element_class, &src_template);
    gst_element_class_set_static_metadata(
        element_class, "Latent file muxer", "Codec/Muxer/Video",
        "Writes video latents into a safetensors file", GST_VAE_AUTHOR);
    gst_element_class_add_static_metadata(
        element_class, GST_ELEMENT_METADATA_DOC_URI, GST_VAE_DOCS "/using.md");
}
