/*
 * write.c: writes the file of latentmux: its header, the latents and the tables
 * after them.
 */
#include <unistd.h>

#include "clip.h"
#include "details.h"
#include "error.h"
#include "metadata.h"
#include "mux.h"
#include "source.h"
#include "vae-private/os.h"
#include "vae-private/spaces.h"

GST_DEBUG_CATEGORY(gst_latent_mux_debug); /* of the whole element */
#define GST_CAT_DEFAULT gst_latent_mux_debug

void
gst_latent_mux_post(GstLatentMux *self, GError *error)
{
    gst_vae_post_gerror(GST_ELEMENT(self), error,
                        gst_vae_error_context(NULL, self->info.space));
}

/* Seeks downstream to the start of the file, and sends the header there, which
 * the whole file may follow in the buffer. (takes buffer) */
static GstFlowReturn
push_header(GstLatentMux *self, GstBuffer *buffer)
{
    GstSegment segment;
    GST_BUFFER_OFFSET(buffer) = 0;
    GST_BUFFER_OFFSET_END(buffer) = gst_buffer_get_size(buffer);
    gst_segment_init(&segment, GST_FORMAT_BYTES);
    if (!gst_pad_push_event(self->srcpad, gst_event_new_segment(&segment))) {
        gst_buffer_unref(buffer);
        return GST_PAD_IS_FLUSHING(self->srcpad) ? GST_FLOW_FLUSHING
                                                 : GST_FLOW_ERROR;
    }
    return gst_pad_push(self->srcpad, buffer);
}

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
warn_of_tags(GstLatentMux *self)
{
    gchar *lost = gst_latent_fields_lost(self->tags);
    if (lost && !self->tags_told)
        GST_ELEMENT_WARNING(
            self, STREAM, MUX,
            ("A latent file holds words, numbers, dates and images of tags; "
             "these tags are left out: %s",
             lost),
            (NULL));
    self->tags_told |= lost != NULL;
    g_free(lost);
}

/* Collects the tags: those of the application, then those of the stream and of
 * the medium. */
static void
take_tags(GstLatentMux *self)
{
    GstTagSetter *setter = GST_TAG_SETTER(self);
    const GstTagList *own = gst_tag_setter_get_tag_list(setter);
    GstTagList *upstream = gst_tag_list_merge(
        self->upstream[GST_TAG_SCOPE_STREAM],
        self->upstream[GST_TAG_SCOPE_GLOBAL], GST_TAG_MERGE_KEEP);
    gst_clear_tag_list(&self->tags);
    self->tags = gst_tag_list_merge(own, upstream,
                                    gst_tag_setter_get_tag_merge_mode(setter));
    gst_clear_tag_list(&upstream);
    self->header.tags = self->tags;
    warn_of_tags(self);
}

/* Posts *error. */
static GstFlowReturn
fail(GstLatentMux *self, const VaeError *error)
{
    gst_latent_mux_post(
        self, gst_vae_error_new(GST_STREAM_ERROR, GST_STREAM_ERROR_MUX,
                                error->message, gst_vae_error_parts(error)));
    return GST_FLOW_ERROR;
}

/* Sends the first header, whose number of latents is open. With size 0 it is as
 * short as possible. */
static GstFlowReturn
push_open_header(GstLatentMux *self, gsize size)
{
    VaeError error;
    self->header.size = size;
    GstBuffer *header = gst_latent_header_make(&self->header, &error);
    if (!header)
        return fail(self, &error);
    self->header.size = gst_buffer_get_size(header);
    return push_header(self, header);
}

void
gst_latent_mux_unlock(GstLatentMux *self)
{
    if (self->lock >= 0)
        close(self->lock);
    self->lock = -1;
}

/* Locks the file until the end of the recording, so that latentdemux notices a
 * killed recorder. */
static void
lock_file(GstLatentMux *self)
{
    g_autofree gchar *path = gst_vae_source_path(self->srcpad);
    gst_latent_mux_unlock(self);
    if (path)
        self->lock = vae_os_open(path, VAE_OPEN_READ | VAE_OPEN_WRITE);
    if (self->lock >= 0 && vae_os_lock(self->lock))
        self->header.locked = vae_os_is_locked(path);
}

static guint64
most_kept(GstLatentMux *self)
{
    GST_OBJECT_LOCK(self);
    const guint64 max = self->max_kept_size;
    GST_OBJECT_UNLOCK(self);
    return max;
}

/* Begins a file that downstream takes only from its start to its end. */
static GstFlowReturn
begin_unseekable(GstLatentMux *self)
{
    if (most_kept(self) == 0) {
        self->streamed = TRUE;
        return push_open_header(self, 0);
    }
    gst_vae_inform(GST_ELEMENT(self), "Downstream cannot seek: the file is "
                                      "kept in memory and sent at EOS");
    self->kept = gst_adapter_new();
    return GST_FLOW_OK;
}

GstFlowReturn
gst_latent_mux_begin(GstLatentMux *self)
{
    if (!gst_pad_is_linked(self->srcpad))
        return GST_FLOW_NOT_LINKED;
    self->header = (GstLatentHeader){.info = &self->info};
    take_tags(self);
    GstCaps *caps = gst_pad_get_pad_template_caps(self->srcpad);
    gst_pad_push_event(self->srcpad, gst_event_new_caps(caps));
    gst_caps_unref(caps);
    if (!downstream_seekable(self))
        return begin_unseekable(self);
    lock_file(self);
    VaeError error;
    const gsize room = gst_latent_header_room(&self->info, self->tags, &error);
    return room > 0 ? push_open_header(self, room) : fail(self, &error);
}

/* Sends what was kept. Later latents are sent when they come. */
static GstFlowReturn
stop_keeping(GstLatentMux *self)
{
    const gsize size = gst_adapter_available(self->kept);
    GST_ELEMENT_WARNING(
        self, STREAM, MUX,
        ("Downstream cannot seek, and the file is longer than max-kept-size, "
         "%" G_GUINT64_FORMAT " bytes: its latents are sent now, and its "
         "header leaves their number open. latentdemux and vaetool read such a "
         "file, other programs do not. Set max-kept-size higher, or write to a "
         "regular file",
         most_kept(self)),
        (NULL));
    GstBuffer *latents =
        size > 0 ? gst_adapter_take_buffer(self->kept, size) : NULL;
    g_clear_object(&self->kept);
    self->streamed = TRUE;
    take_tags(self);
    const GstFlowReturn ret = push_open_header(self, 0);
    if (ret == GST_FLOW_OK && latents)
        return gst_pad_push(self->srcpad, latents);
    gst_clear_buffer(&latents);
    return ret;
}

/* Sends a part of the file, or keeps a copy: the memory of a latent may belong
 * to a pool. (takes buffer) */
static GstFlowReturn
put(GstLatentMux *self, GstBuffer *buffer)
{
    if (!self->kept)
        return gst_pad_push(self->srcpad, buffer);
    GstBuffer *copy = gst_buffer_copy_deep(buffer);
    gst_buffer_unref(buffer);
    GST_BUFFER_OFFSET(copy) = GST_BUFFER_OFFSET_END(copy) =
        GST_BUFFER_OFFSET_NONE;
    gst_adapter_push(self->kept, copy);
    return GST_FLOW_OK;
}

/* Writes a table of pairs of numbers at *offset, and adds its size to
 * *offset. */
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
    return put(self, buffer);
}

/* Makes the last header. It has all tags that have come, if there is room for
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

/* Writes the tables of the times and of the sequences, if the header has
 * them. */
static GstFlowReturn
push_tables(GstLatentMux *self)
{
    guint64 offset =
        self->header.size +
        self->record.latents * gst_vae_latent_info_step_size(&self->info);
    GstFlowReturn ret = GST_FLOW_OK;
    if (self->header.times)
        ret = push_table(self, self->record.times, &offset);
    if (ret == GST_FLOW_OK && self->header.sequences > 1)
        ret = push_table(self, self->record.sequences, &offset);
    return ret;
}

/* Returns the header and what was kept as one buffer. (takes header) */
static GstBuffer *
append_kept(GstLatentMux *self, GstBuffer *header)
{
    const gsize size = gst_adapter_available(self->kept);
    if (size > 0)
        header = gst_buffer_append(header,
                                   gst_adapter_take_buffer(self->kept, size));
    g_clear_object(&self->kept);
    return header;
}

/* True if the caps do not tell the frames of a latent, and the durations tell
 * no fewer than is usual. */
static gboolean
frames_are_guess(const GstVaeLatentInfo *info, const GstLatentRecord *record)
{
    return info->temporal_factor == 0 && !vae_space_find(info->space) &&
           record->frames ==
               vae_count_frames(gst_latent_clip_counts(info), record->latents);
}

GstFlowReturn
gst_latent_mux_complete(GstLatentMux *self)
{
    GstLatentRecord *record = &self->record;
    GST_DEBUG_OBJECT(
        self, "%" G_GINT64_FORMAT " latents, %" G_GINT64_FORMAT " frames",
        record->latents, record->frames);
    self->state = GST_LATENT_MUX_DONE;
    if (self->streamed)
        return GST_FLOW_OK;
    self->header.latents = record->latents;
    self->header.frames =
        frames_are_guess(&self->info, record) ? -1 : record->frames;
    self->header.sequences = record->latents > 0 ? record->sequences->len : 0;
    self->header.times =
        record->uneven && !record->untimed && record->latents > 0;
    VaeError error;
    GstBuffer *header = last_header(self, &error);
    if (!header)
        return fail(self, &error);
    const GstFlowReturn ret = push_tables(self);
    if (ret == GST_FLOW_OK)
        return push_header(self,
                           self->kept ? append_kept(self, header) : header);
    gst_buffer_unref(header);
    return ret;
}

/* Warns of what a header that went first cannot say. */
static void
warn_of_stream(GstLatentMux *self)
{
    const GstLatentRecord *record = &self->record;
    if (!self->streamed || self->stream_told ||
        (record->sequences->len <= 1 && !record->uneven))
        return;
    self->stream_told = TRUE;
    GST_ELEMENT_WARNING(
        self, STREAM, MUX,
        ("Latent %" G_GINT64_FORMAT " %s, which a file whose header goes first "
         "cannot say. Set max-kept-size higher, write to a regular file, or "
         "send the latents with gdppay",
         record->latents,
         record->sequences->len > 1 ? "begins another sequence"
                                    : "has not the time of the frame rate"),
        (NULL));
}

static void
warn_of_times(GstLatentMux *self)
{
    if (self->times_told || !self->record.untimed || !self->record.uneven)
        return;
    self->times_told = TRUE;
    GST_ELEMENT_WARNING(
        self, STREAM, MUX,
        ("Latent %" G_GINT64_FORMAT
         " has no time, or one that is not after that "
         "of an earlier latent, which the file cannot hold: all latents get "
         "the times of the frame rate. Put videorate before the encoder",
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

GstFlowReturn
gst_latent_mux_write(GstLatentMux *self, GstBuffer *buffer)
{
    const gsize size = gst_buffer_get_size(buffer);
    GstFlowReturn ret = GST_FLOW_OK;
    if (self->kept &&
        gst_adapter_available(self->kept) + size > most_kept(self))
        ret = stop_keeping(self);
    const guint64 offset = self->header.size + self->record.latents * size;
    buffer = gst_buffer_make_writable(buffer);
    if (GST_BUFFER_PTS_IS_VALID(buffer))
        GST_BUFFER_PTS(buffer) += self->shift;
    gst_latent_record_note(&self->record, &self->info, buffer);
    warn_of_sequence(self);
    warn_of_times(self);
    warn_of_stream(self);
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    GST_BUFFER_DURATION(buffer) = GST_CLOCK_TIME_NONE;
    GST_BUFFER_OFFSET(buffer) = offset;
    GST_BUFFER_OFFSET_END(buffer) = offset + size;
    GST_BUFFER_FLAG_UNSET(buffer,
                          GST_BUFFER_FLAG_DELTA_UNIT | GST_BUFFER_FLAG_DISCONT);
    GST_LOG_OBJECT(self, "latent %" G_GINT64_FORMAT ": %" GST_PTR_FORMAT,
                   self->record.latents, buffer);
    if (ret == GST_FLOW_OK)
        ret = put(self, buffer);
    else
        gst_buffer_unref(buffer);
    if (ret == GST_FLOW_OK)
        gst_latent_record_count(&self->record);
    return ret;
}
