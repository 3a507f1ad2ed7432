/*
 * open.c: opens the clip of a file with its tables, and closes it.
 */
#include "error.h"
#include "metadata.h"
#include "send.h"

#include <string.h>

#include "vae-private/os.h"

#define GST_CAT_DEFAULT gst_latent_demux_debug

void
gst_latent_send_close(GstLatentDemux *self)
{
    GST_OBJECT_LOCK(self);
    self->known = FALSE;
    gst_segment_init(&self->segment, GST_FORMAT_TIME);
    GST_OBJECT_UNLOCK(self);
    gst_latent_clip_clear(&self->clip);
    self->seqnum = 0;
}

/* Reads the bytes of a table into *data. */
static GstFlowReturn
read_table(GstLatentDemux *self, const gchar *name, const VaeTensorInfo *table,
           gpointer *data)
{
    const gsize size = (gsize) table->bytes;
    GstFlowReturn ret = GST_FLOW_OK;
    VaeError error = {0};
    *data = g_try_malloc(size);
    if (!*data) {
        vae_fail(&error, VAE_ERR_MEMORY, "%s: no memory for \"%s\"", name,
                 table->name);
        return gst_latent_send_fail(self, &error);
    }
    if (self->pull)
        ret =
            gst_latent_pull(self->sinkpad, table->offset, *data, size, &error);
    else
        memcpy(*data, self->bytes.data + table->offset, size);
    if (ret != GST_FLOW_OK)
        g_clear_pointer(data, g_free);
    return ret == GST_FLOW_CUSTOM_ERROR ? gst_latent_send_fail(self, &error)
                                        : ret;
}

static GstFlowReturn
read_sequences(GstLatentDemux *self, const gchar *name)
{
    GstLatentClip *clip = &self->clip;
    const VaeTensorInfo *table;
    VaeError error = {0};
    gpointer rows;
    if (vae_latent_sequences_find(clip->file, &clip->data, &table, &error) !=
        VAE_OK)
        return gst_latent_send_fail(self, &error);
    if (!table)
        return GST_FLOW_OK;
    GstFlowReturn ret = read_table(self, name, table, &rows);
    if (ret != GST_FLOW_OK)
        return ret;
    if (gst_latent_clip_use_sequences(clip, table, rows, &error) != VAE_OK)
        ret = gst_latent_send_fail(self, &error);
    g_free(rows);
    return ret;
}

/* A clip with impossible times is played at its frame rate, after a WARNING. */
static GstFlowReturn
read_times(GstLatentDemux *self, const gchar *name)
{
    GstLatentClip *clip = &self->clip;
    const VaeTensorInfo *table = gst_latent_clip_find_times(clip);
    GstFlowReturn ret = GST_FLOW_OK;
    gpointer times = NULL;
    if (!table)
        return GST_FLOW_OK;
    if (gst_latent_clip_times_fit(clip, table))
        ret = read_table(self, name, table, &times);
    if (ret == GST_FLOW_OK &&
        (!times || !gst_latent_clip_take_times(clip, times)))
        GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                            ("%s: the numbers in \"" GST_LATENT_TIMES
                             "\" are no valid times; the frame rate is used",
                             name),
                            (NULL));
    return ret;
}

/* Opens the clip in `bytes` of a file of total bytes, by the properties. */
static VaeStatus
open_clip(GstLatentDemux *self, const GstLatentBytes *bytes, guint64 total,
          const gchar *name, GstLatentClip *clip, VaeError *error)
{
    GstLatentSettings settings;
    GST_OBJECT_LOCK(self);
    gst_latent_settings_copy(&settings, &self->settings);
    GST_OBJECT_UNLOCK(self);
    gst_latent_send_ask(self, &settings.decoder);
    const VaeStatus status =
        gst_latent_clip_open(clip, bytes, total, name, &settings, error);
    gst_latent_settings_clear(&settings);
    return status;
}

/* Posts a WARNING if the layout of the clip is a guess. Reads its numbers,
 * which may tell more, if they are not too many. */
static void
tell_layout(GstLatentDemux *self)
{
    enum { MOST = 64 << 20 };
    VaeLatentClip clip = self->clip.data;
    const guint64 size = (guint64) clip.t * (guint64) clip.channels *
                         MIN(clip.t_stride, clip.c_stride);
    g_autofree guint8 *data = NULL;
    gchar line[700];
    GST_INFO_OBJECT(self, "tensor %s is read as %s: %s of %s", clip.tensor,
                    vae_layout_name(&clip), VAE_COUNTED(clip.t, "latent"),
                    VAE_COUNTED(clip.channels, "channel"));
    if (!clip.layout_guessed && !clip.channels_may_be_last &&
        !clip.may_be_video)
        return;
    if (self->pull && size <= MOST)
        data = g_try_malloc((gsize) size);
    if (data && gst_latent_pull(self->sinkpad, clip.offset, data, (gsize) size,
                                NULL) == GST_FLOW_OK)
        clip.data = data;
    if (vae_layout_doubt(&clip, line, sizeof line))
        GST_ELEMENT_WARNING(self, STREAM, FORMAT, ("%s", line), (NULL));
}

/* Finds the clip in `bytes` of a file of total bytes. */
static GstFlowReturn
find_clip(GstLatentDemux *self, guint64 total, const gchar *name)
{
    VaeError error = {0};
    if (open_clip(self, &self->bytes, total, name, &self->clip, &error) !=
        VAE_OK)
        return gst_latent_send_fail(self, &error);
    tell_layout(self);
    if (self->clip.warning)
        GST_ELEMENT_WARNING(self, STREAM, FORMAT, ("%s", self->clip.warning),
                            (NULL));
    if (self->clip.info.rate_assumed)
        GST_INFO_OBJECT(self, "%s states no framerate, timed at %d/%d", name,
                        self->clip.info.fps_n, self->clip.info.fps_d);
    if (!self->clip.open &&
        vae_tensor_file_metadata(self->clip.file, GST_LATENT_KEY_RECORDING))
        GST_ELEMENT_WARNING(self, STREAM, DEMUX,
                            ("%s: the recording was interrupted, or its header "
                             "was sent first; it has %s",
                             name,
                             VAE_COUNTED(self->clip.data.t, "complete latent")),
                            (NULL));
    if (!self->clip.info.space[0])
        gst_vae_inform(GST_ELEMENT(self),
                       "%s states no latent space: that of the model of "
                       "vaedecode counts, or else latent-space of latentdemux",
                       name);
    const GstFlowReturn ret = read_sequences(self, name);
    return ret == GST_FLOW_OK ? read_times(self, name) : ret;
}

GstFlowReturn
gst_latent_send_open(GstLatentDemux *self, guint64 total, const gchar *name)
{
    const GstFlowReturn ret = find_clip(self, total, name);
    if (ret != GST_FLOW_OK)
        return ret;
    GST_OBJECT_LOCK(self);
    gst_segment_init(&self->segment, GST_FORMAT_TIME);
    if (!self->clip.open)
        self->segment.duration =
            gst_latent_clip_time(&self->clip, self->clip.data.t);
    self->known = TRUE;
    GST_OBJECT_UNLOCK(self);
    gst_latent_run_begin(&self->run, &self->clip, &self->segment,
                         (GstLatentWarmUp){0}, 0);
    self->start_due = self->segment_due = TRUE;
    return GST_FLOW_OK;
}

/* The recording that is followed has t latents. frames: as in
 * gst_latent_clip_end(). */
static void
end_clip(GstLatentDemux *self, gint t, gint64 frames)
{
    GST_OBJECT_LOCK(self);
    gst_latent_clip_end(&self->clip, t, frames);
    self->segment.duration = gst_latent_clip_time(&self->clip, t);
    GST_OBJECT_UNLOCK(self);
    gst_latent_run_end(&self->run, t);
}

/* Reads the header again. If the recording has ended, the clip gets its end.
 * latentmux may be about to write this header, so one that cannot be read is
 * read again later. */
static GstFlowReturn
reread(GstLatentDemux *self)
{
    g_autofree gchar *name = gst_latent_source_name(self->sinkpad);
    GstLatentBytes bytes = {0};
    GstLatentClip whole = {0};
    VaeError error = {0};
    guint64 total;
    GstFlowReturn ret =
        gst_latent_pull_header(self->sinkpad, name, &bytes, &total, &error);
    if (ret == GST_FLOW_OK &&
        open_clip(self, &bytes, total, name, &whole, &error) == VAE_OK &&
        !vae_tensor_file_metadata(whole.file, GST_LATENT_KEY_RECORDING))
        end_clip(self, whole.data.t, whole.frames);
    gst_latent_clip_clear(&whole);
    gst_latent_bytes_clear(&bytes);
    return ret == GST_FLOW_CUSTOM_ERROR ? gst_latent_send_fail(self, &error)
                                        : ret;
}

/* TRUE if the recorder locked the file and is gone. Locks of a file that has no
 * path here are not known. */
static gboolean
is_cut(GstLatentDemux *self)
{
    g_autofree gchar *path = gst_latent_source_name(self->sinkpad);
    return vae_tensor_file_metadata(self->clip.file, GST_LATENT_KEY_LOCKED) &&
           g_file_test(path, G_FILE_TEST_IS_REGULAR) && !vae_os_is_locked(path);
}

/* Ends the clip after its complete latents. */
static void
end_cut(GstLatentDemux *self)
{
    const VaeLatentClip *data = &self->clip.data;
    g_autofree gchar *name = gst_latent_source_name(self->sinkpad);
    const guint64 size = gst_latent_length(self->sinkpad) - data->offset;
    end_clip(self, (gint) (size / data->t_stride), 0);
    GST_ELEMENT_WARNING(self, STREAM, DEMUX,
                        ("%s: the recording was cut: its recorder no longer "
                         "locks the file, and its header leaves the number of "
                         "latents open. It has %s",
                         name, VAE_COUNTED(data->t, "complete latent")),
                        (NULL));
}

/* The last latent of a recording may have fewer frames than others, so a latent
 * is sent when the next one has come, too. */
GstFlowReturn
gst_latent_send_follow(GstLatentDemux *self, gboolean *wait)
{
    const VaeLatentClip *data = &self->clip.data;
    const guint64 need = data->offset + (self->run.next + 2) * data->t_stride;
    *wait = FALSE;
    if (!self->pull || !self->clip.open ||
        gst_latent_length(self->sinkpad) >= need)
        return GST_FLOW_OK;
    const gboolean cut = is_cut(self); /* before the header is read again */
    const GstFlowReturn ret = reread(self);
    if (ret == GST_FLOW_OK && cut && self->clip.open)
        end_cut(self);
    *wait = self->clip.open;
    return ret;
}
