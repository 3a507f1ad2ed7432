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
 * Of the tags title, comment (as the prompt) and application-name it writes
 * those that came before the first latent, from upstream or by #GstTagSetter,
 * as vae.title, vae.comment and vae.application.
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

#include <stdlib.h>

#include "vae-private/tensors.h"

#include "clip.h"
#include "details.h"
#include "error.h"
#include "group.h"
#include "metadata.h"
#include "tensor_meta.h"

GST_DEBUG_CATEGORY_STATIC(latent_mux_debug);
#define GST_CAT_DEFAULT latent_mux_debug

/* Times that differ by more than this from those of the frame rate are stored.
 * Containers round times to milliseconds. */
#define JITTER (GST_MSECOND + GST_USECOND)

/* Latents that the header keeps room for; more than any disk holds. */
#define MAX_LATENTS ((gint64) 1 << 40)

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
    gsize header_size;
    gint64 latents;
    GstClockTime first; /* the time of the first */
    gint64 frames;      /* of video, in all of them */
    gint64 earlier;     /* in the sequences before this one */
    GArray *times;      /* GstLatentTime of each */
    GArray *sequences;  /* GstLatentSequence */
    gboolean untimed;   /* a latent had no time */
    gboolean uneven;    /* times do not follow the frame rate */
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

static gint
temporal(const GstLatentMux *self)
{
    return self->info.temporal_factor > 0 ? self->info.temporal_factor
                                          : GST_LATENT_FALLBACK_TEMPORAL;
}

/* The header for so many latents and frames, in exactly header_size bytes
 * where that is set. */
static GstBuffer *
make_header(GstLatentMux *self, gint64 latents, gint64 frames, gboolean times,
            gint64 sequences)
{
    const GstVaeLatentInfo *info = &self->info;
    VaeTensorOut tensors[3] = {
        {.name = "latent",
         .type = info->type,
         .n_dims = 4,
         .dims = {latents, info->channels, info->latent_height,
                  info->latent_width}},
        {.name = GST_LATENT_TIMES,
         .type = VAE_TYPE_U8,
         .n_dims = 2,
         .dims = {latents, sizeof(GstLatentTime)}}};
    const gsize n = times ? 2 : 1;
    GstLatentFields fields;
    VaeError error;
    void *bytes;
    gsize size;
    tensors[n] = (VaeTensorOut){.name = GST_LATENT_SEQUENCES,
                                .type = VAE_TYPE_U8,
                                .n_dims = 2,
                                .dims = {sequences, sizeof(GstLatentSequence)}};
    gst_latent_fields_fill(&fields, info, frames, self->tags);
    const VaeTensorHeader header = {tensors, sequences > 1 ? n + 1 : n,
                                    fields.list, fields.n, self->header_size};
    const VaeStatus status =
        vae_tensor_header_make(&header, &bytes, &size, &error);
    gst_latent_fields_clear(&fields);
    if (status != VAE_OK) {
        post(self,
             gst_vae_error_new(GST_STREAM_ERROR, GST_STREAM_ERROR_MUX,
                               error.message, gst_vae_error_parts(&error)));
        return NULL;
    }
    return gst_buffer_new_wrapped_full(0, bytes, size, 0, size, bytes, free);
}

/* Finds out how long the header gets at most. */
static gboolean
measure_header(GstLatentMux *self)
{
    const gint64 step = gst_vae_latent_info_step_size(&self->info) +
                        sizeof(GstLatentTime) + sizeof(GstLatentSequence);
    const gint64 most = MIN(MAX_LATENTS, G_MAXINT64 / step);
    self->header_size = 0;
    GstBuffer *buffer =
        make_header(self, most, most * temporal(self), TRUE, most);
    if (!buffer)
        return FALSE;
    self->header_size = gst_buffer_get_size(buffer);
    gst_buffer_unref(buffer);
    return TRUE;
}

/* Moves downstream to the file's first byte and sends the header there. */
static GstFlowReturn
push_header(GstLatentMux *self, gint64 latents, gint64 frames, gboolean times)
{
    const gint64 sequences = latents > 0 ? self->sequences->len : 0;
    GstSegment segment;
    GstBuffer *buffer = make_header(self, latents, frames, times, sequences);
    if (!buffer)
        return GST_FLOW_ERROR;
    GST_BUFFER_OFFSET(buffer) = 0;
    GST_BUFFER_OFFSET_END(buffer) = self->header_size;
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

/* The header has room for what is known before the first latent. */
static void
take_tags(GstLatentMux *self)
{
    const GstTagList *tags = gst_tag_setter_get_tag_list(GST_TAG_SETTER(self));
    gst_clear_tag_list(&self->tags);
    self->tags = tags ? gst_tag_list_copy(tags) : NULL;
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
    take_tags(self);
    if (!measure_header(self))
        return GST_FLOW_ERROR;
    GstCaps *caps = gst_static_pad_template_get_caps(&src_template);
    gst_pad_push_event(self->srcpad, gst_event_new_caps(caps));
    gst_caps_unref(caps);
    return push_header(self, 0, 0, FALSE);
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

/* Writes the tables behind the latents, and the true header over the first
 * one. */
static GstFlowReturn
complete(GstLatentMux *self)
{
    GST_DEBUG_OBJECT(
        self, "%" G_GINT64_FORMAT " latents, %" G_GINT64_FORMAT " frames",
        self->latents, self->frames);
    self->state = STATE_DONE;
    const gboolean times = self->uneven && !self->untimed && self->latents > 0;
    guint64 offset = self->header_size +
                     self->latents * gst_vae_latent_info_step_size(&self->info);
    GstFlowReturn ret = GST_FLOW_OK;
    if (times)
        ret = push_table(self, self->times, &offset);
    if (ret == GST_FLOW_OK && self->sequences->len > 1)
        ret = push_table(self, self->sequences, &offset);
    return ret == GST_FLOW_OK
               ? push_header(self, self->latents, self->frames, times)
               : ret;
}

static void
frame_rate(const GstLatentMux *self, guint64 *n, guint64 *d)
{
    const GstVaeLatentInfo *info = &self->info;
    *n = info->fps_n > 0 ? info->fps_n : GST_LATENT_FALLBACK_FPS_N;
    *d = info->fps_n > 0 ? info->fps_d : GST_LATENT_FALLBACK_FPS_D;
}

static GstClockTime
frames_time(const GstLatentMux *self, guint64 frames)
{
    guint64 n, d;
    frame_rate(self, &n, &d);
    return gst_util_uint64_scale(frames, GST_SECOND * d, n);
}

static GstLatentSequence *
last_sequence(const GstLatentMux *self)
{
    return &g_array_index(self->sequences, GstLatentSequence,
                          self->sequences->len - 1);
}

/* Frames in front of the next latent in its sequence. */
static gint64
frames_before(const GstLatentMux *self)
{
    const gint64 n = self->latents - last_sequence(self)->first;
    return n > 0 ? 1 + (n - 1) * temporal(self) : 0;
}

/* Frames of the next latent, up to `full`: as many as its meta or its duration
 * says; 0: nothing says it. */
static gint64
stated_frames(const GstLatentMux *self, const GstBuffer *buffer, gint64 full)
{
    GstClockTime length;
    guint64 n, d;
    guint frames;
    if (gst_vae_group_get(buffer, &frames, &length))
        return MIN(frames, full);
    if (!GST_BUFFER_DURATION_IS_VALID(buffer))
        return 0;
    frame_rate(self, &n, &d);
    return CLAMP((gint64) gst_util_uint64_scale_round(
                     GST_BUFFER_DURATION(buffer), n, GST_SECOND * d),
                 1, full);
}

static gint64
count_frames(const GstLatentMux *self, const GstBuffer *buffer)
{
    const gint64 full =
        self->latents > last_sequence(self)->first ? temporal(self) : 1;
    const gint64 stated = stated_frames(self, buffer, full);
    return stated > 0 ? stated : full;
}

static gboolean
differ(GstClockTime a, GstClockTime b)
{
    return MAX(a, b) - MIN(a, b) > JITTER;
}

/* Notes the time of the next latent, which has so many frames. Without the
 * meta of vaeencode its duration is the nominal one. */
static void
note_time(GstLatentMux *self, const GstBuffer *buffer, gint64 frames)
{
    const GstClockTime pts = GST_BUFFER_PTS(buffer);
    const GstClockTime nominal = frames_time(self, frames);
    GstLatentTime time = {.duration = nominal};
    GstClockTime length;
    guint n;
    if (self->latents == 0)
        self->first = pts;
    if (!GST_CLOCK_TIME_IS_VALID(pts) ||
        !GST_CLOCK_TIME_IS_VALID(self->first) || pts < self->first ||
        pts - self->first > G_MAXINT64) {
        self->untimed = TRUE;
        self->uneven |= GST_CLOCK_TIME_IS_VALID(pts) &&
                        GST_CLOCK_TIME_IS_VALID(self->first);
        return;
    }
    if (gst_vae_group_get(buffer, &n, &length))
        time.duration = (gint64) length;
    time.pts = (gint64) (pts - self->first);
    if (self->times->len > 0 &&
        g_array_index(self->times, GstLatentTime, self->times->len - 1).pts >
            time.pts)
        self->untimed = self->uneven = TRUE;
    self->uneven |=
        differ(time.duration, nominal) ||
        differ(time.pts,
               frames_time(self, self->earlier + frames_before(self)));
    g_array_append_val(self->times, time);
}

static void
warn_of_times(GstLatentMux *self)
{
    if (self->times_told || !self->untimed || !self->uneven)
        return;
    self->times_told = TRUE;
    GST_ELEMENT_WARNING(
        self, STREAM, MUX,
        ("Latent %" G_GINT64_FORMAT " has no time, or one before that of an "
         "earlier latent, which the file cannot hold: all latents get the "
         "times of the frame rate. Put videorate in front of the encoder",
         self->latents),
        (NULL));
}

/* Begins a sequence where the next latent does. Without DELTA_UNIT, but with
 * more than the one frame of a first latent, it rather lacks the flag. */
static void
note_sequence(GstLatentMux *self, const GstBuffer *buffer)
{
    const GstLatentSequence next = {.first = self->latents};
    if (self->latents > 0 &&
        GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT))
        return;
    if (self->latents == 0 || stated_frames(self, buffer, 2) == 1) {
        self->earlier = self->frames;
        g_array_append_val(self->sequences, next);
        return;
    }
    if (!self->warned)
        GST_ELEMENT_WARNING(
            self, STREAM, MUX,
            ("Latent %" G_GINT64_FORMAT
             " begins a new sequence by its flags, but has not the duration of "
             "one frame: it is written as the continuation of the one before. "
             "Set DELTA_UNIT on it, or that duration",
             self->latents),
            (NULL));
    self->warned = TRUE;
}

static GstFlowReturn
write_latent(GstLatentMux *self, GstBuffer *buffer)
{
    const gsize size = gst_buffer_get_size(buffer);
    const guint64 offset = self->header_size + self->latents * size;
    note_sequence(self, buffer);
    const gint64 frames = count_frames(self, buffer);
    const gint64 before = frames_before(self);
    note_time(self, buffer, frames);
    warn_of_times(self);
    buffer = gst_buffer_make_writable(buffer);
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    GST_BUFFER_DURATION(buffer) = GST_CLOCK_TIME_NONE;
    GST_BUFFER_OFFSET(buffer) = offset;
    GST_BUFFER_OFFSET_END(buffer) = offset + size;
    GST_BUFFER_FLAG_UNSET(buffer,
                          GST_BUFFER_FLAG_DELTA_UNIT | GST_BUFFER_FLAG_DISCONT);
    GST_LOG_OBJECT(self, "latent %" G_GINT64_FORMAT ": %" GST_PTR_FORMAT,
                   self->latents, buffer);
    const GstFlowReturn ret = gst_pad_push(self->srcpad, buffer);
    if (ret == GST_FLOW_OK) {
        self->latents++;
        last_sequence(self)->frames = before + frames;
        self->frames = self->earlier + before + frames;
    }
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
                         self->latents, is, wanted);
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
             self->latents),
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
    self->header_size = 0;
    self->latents = self->frames = self->earlier = 0;
    g_array_set_size(self->sequences, 0);
    self->warned = self->untimed = self->uneven = self->times_told = FALSE;
    g_array_set_size(self->times, 0);
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
    if (self->state == STATE_WRITING)
        GST_INFO_OBJECT(self, "tags behind the first latent are not written");
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
    g_array_unref(GST_LATENT_MUX(object)->times);
    g_array_unref(GST_LATENT_MUX(object)->sequences);
    G_OBJECT_CLASS(gst_latent_mux_parent_class)->finalize(object);
}

static void
gst_latent_mux_init(GstLatentMux *self)
{
    self->times = g_array_new(FALSE, FALSE, sizeof(GstLatentTime));
    self->sequences = g_array_new(FALSE, FALSE, sizeof(GstLatentSequence));
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
