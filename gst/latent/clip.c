/*
 * clip.c: opens the clip in a latent file, and converts between its times,
 * frames and latents.
 */
#include "clip.h"

#include <string.h>

#include "enums.h"
#include "metadata.h"
#include "vae-private/axes.h"
#include "vae-private/spaces.h"
#include "vae-private/status.h"

/* Adds a line to the warning. */
static void
warn(void *clip, const char *line)
{
    gchar **warning = &((GstLatentClip *) clip)->warning, *before = *warning;
    *warning =
        before ? g_strdup_printf("%s; %s", before, line) : g_strdup(line);
    vae_text_printable(*warning);
    g_free(before);
}

/* Returns the latent space: of the property, or else as stated. */
static const gchar *
choose_space(GstLatentClip *clip, const gchar *value)
{
    gchar line[700];
    if (value && vae_overrides(clip->data.file, "latent-space",
                               clip->data.space, value, line, sizeof line))
        warn(clip, line);
    return value ? value : clip->data.space;
}

/* Refuses a name that is too long for the caps. A shortened name would be
 * another name. */
static VaeStatus
fill_space(GstLatentClip *clip, const gchar *name, const gchar *value,
           VaeError *error)
{
    const gchar *space = choose_space(clip, value);
    if (!space)
        return VAE_OK;
    G_STATIC_ASSERT(sizeof clip->info.space == 64);
    if (strlen(space) >= sizeof clip->info.space ||
        !g_utf8_validate(space, -1, NULL))
        return vae_fail_parts(
            error, VAE_ERR_FORMAT,
            (VaeErrorParts){NULL, space, "a name of 1 to 63 bytes of UTF-8"},
            "%s: the latent space has %zu bytes, expected a name of 1 to 63 "
            "bytes of UTF-8",
            name, strlen(space));
    g_strlcpy(clip->info.space, space, sizeof clip->info.space);
    return VAE_OK;
}

/* The caps state what the user or the file states, or how ComfyUI saves the
 * space. The decoder decides what an unknown space of ComfyUI is. */
static void
fill_normalization(GstLatentClip *clip, gint setting)
{
    GstVaeLatentInfo *info = &clip->info;
    VaeLatentClip *data = &clip->data;
    const gboolean is_set = setting != GST_VAE_NORMALIZATION_AUTO;
    const VaeNormalization value = (VaeNormalization) (setting - 1);
    gchar line[700];
    if (is_set && data->normalization_stated &&
        vae_normalization_overrides(info->space, data->file,
                                    data->normalization, value, line,
                                    sizeof line)) {
        warn(clip, line);
        data->normalization_stated = false;
    }
    info->normalization_stated = is_set || data->normalization_stated ||
                                 data->normalization != VAE_NORMALIZED;
    info->normalization = is_set ? value : data->normalization;
    if (vae_space_find(info->space))
        info->normalization =
            vae_space_normalization(info->space, info->normalization);
}

/* The space whose usual numbers a file has: that of the caps, or else the usual
 * one with so many channels. */
static const VaeSpace *
find_usual(const GstVaeLatentInfo *info)
{
    const VaeSpace *space = info->space[0] ? vae_space_find(info->space)
                                           : vae_space_usual(info->channels);
    return space ? space : vae_space_at(0);
}

static VaeStatus
check_rate(const gchar *name, const gchar *what, gint n, gint d,
           VaeError *error)
{
    if (gst_vae_rate_is_possible(n, d))
        return VAE_OK;
    return vae_mismatch(error, VAE_ERR_FORMAT, NULL,
                        "%s: %s is {%d/%d}, expected {=" GST_VAE_RATES "}",
                        name, what, n, d);
}

/* The caps always state the rate, so that the decoder and this element compute
 * the same times. */
static VaeStatus
fill_framerate(GstLatentClip *clip, const gchar *name,
               const GstLatentSettings *settings, VaeError *error)
{
    const gint n = settings->fps_n, d = settings->fps_d;
    GstVaeLatentInfo *info = &clip->info;
    clip->own_rate = n > 0;
    if (n == 0 && clip->data.fps_n > 0 && clip->data.fps_d > 0) {
        info->fps_n = clip->data.fps_n;
        info->fps_d = clip->data.fps_d;
        return check_rate(name, "vae.framerate", info->fps_n, info->fps_d,
                          error);
    }
    info->rate_assumed = n == 0;
    info->fps_n = n;
    info->fps_d = d;
    if (n == 0 && !info->space[0] && settings->decoder.fps_n > 0) {
        info->fps_n = settings->decoder.fps_n;
        info->fps_d = settings->decoder.fps_d;
    } else if (n == 0) {
        info->fps_n = find_usual(info)->fps;
        info->fps_d = 1;
    }
    return check_rate(name, "the property framerate", info->fps_n, info->fps_d,
                      error);
}

VaeCounts
gst_latent_clip_counts(const GstVaeLatentInfo *info)
{
    VaeCounts counts = find_usual(info)->counts;
    if (info->temporal_factor > 0)
        counts.temporal = info->temporal_factor;
    return counts;
}

/* Returns the sequence of a latent or, with by_frame, of a frame, by binary
 * search: a file may have as many sequences as latents. */
static const VaeLatentSequence *
sequence_of(const GstLatentClip *clip, gint64 number, gboolean by_frame)
{
    const VaeLatentSequence *s = clip->sequences;
    gint low = 0, high = clip->n_sequences;
    while (high - low > 1) {
        const gint middle = low + (high - low) / 2;
        if ((by_frame ? s[middle].before : s[middle].first) <= number)
            low = middle;
        else
            high = middle;
    }
    return &s[low];
}

gint64
gst_latent_clip_first_frame(const GstLatentClip *clip, gint k)
{
    if (!clip->sequences)
        return vae_count_frames(clip->counts, k);
    const VaeLatentSequence *s = sequence_of(clip, k, FALSE);
    return s->before + vae_count_frames(clip->counts, k - s->first);
}

/* A decoder that is not known yet may give more or fewer frames than those that
 * the usual space has. */
static void
warn_of_frames(GstLatentClip *clip)
{
    gchar line[300];
    if (vae_tensor_file_find(clip->file, VAE_SEQUENCES))
        return;
    g_snprintf(line, sizeof line,
               "%s: vae.frames is %" G_GINT64_FORMAT
               ", but %s with %s each have %" G_GINT64_FORMAT
               "; it is ignored: if they have another number, set latent-space",
               clip->data.file, clip->data.frames,
               VAE_COUNTED(clip->data.t, "latent"),
               VAE_COUNTED(clip->counts.temporal, "frame"), clip->frames);
    warn(clip, line);
}

/* Sets the number of frames. It is the number that the file states, if this
 * ends within the last latent. Otherwise it is the number of frames in all
 * latents. */
static void
fill_frames(GstLatentClip *clip, const GstLatentSettings *settings)
{
    const gchar *text =
        vae_tensor_file_metadata(clip->file, GST_LATENT_KEY_TEMPORAL);
    guint64 factor;
    if (text && g_ascii_string_to_unsigned(text, 10, 1, 64, &factor, NULL))
        clip->info.temporal_factor = factor;
    else if (!clip->info.space[0])
        clip->info.temporal_factor = settings->decoder.temporal;
    clip->counts = gst_latent_clip_counts(&clip->info);
    const gint64 stated = clip->data.frames;
    clip->frames = gst_latent_clip_first_frame(clip, clip->data.t);
    if (stated > gst_latent_clip_first_frame(clip, clip->data.t - 1) &&
        stated < clip->frames)
        clip->frames = stated;
    else if (stated > 0 && stated != clip->frames)
        warn_of_frames(clip);
}

static VaeStatus
fill_info(GstLatentClip *clip, const gchar *name,
          const GstLatentSettings *settings, VaeError *error)
{
    GstVaeLatentInfo *info = &clip->info;
    gst_vae_latent_info_init(info);
    info->type = clip->data.type;
    info->channels = clip->data.channels;
    info->layout_guessed = clip->data.layout_guessed;
    info->latent_width = clip->data.width;
    info->latent_height = clip->data.height;
    if (clip->data.width_px > 0 && clip->data.height_px > 0) {
        info->width = clip->data.width_px;
        info->height = clip->data.height_px;
    }
    if (fill_space(clip, name, settings->space, error) != VAE_OK)
        return error->status;
    fill_normalization(clip, settings->normalization);
    fill_frames(clip, settings);
    gst_latent_metadata_read(clip->file, info);
    return fill_framerate(clip, name, settings, error);
}

VaeStatus
gst_latent_clip_open(GstLatentClip *clip, const GstLatentBytes *bytes,
                     guint64 total, const gchar *name,
                     const GstLatentSettings *settings, VaeError *error)
{
    const VaeLatentOptions options = {
        .struct_size = sizeof(VaeLatentOptions),
        .tensor = settings->tensor,
        .layout = settings->layout,
        .batch_index = settings->batch_index,
        .channels = settings->decoder.latent_channels,
        .temporal = settings->decoder.temporal,
        .chunk = settings->decoder.chunk,
        .space = settings->space,
        .own_normalization =
            settings->normalization != GST_VAE_NORMALIZATION_AUTO ||
            settings->decoder.own_normalization,
        .own_framerate = settings->fps_n > 0,
        .warn = warn,
        .user = clip};
    VaeStatus status = vae_tensor_file_open_memory(
        bytes->data, bytes->size, total, name, &clip->file, error);
    clip->data = (VaeLatentClip) VAE_INIT(VaeLatentClip);
    if (status == VAE_OK)
        status = vae_latent_clip_find(clip->file, &options, &clip->data, error);
    if (status == VAE_OK)
        clip->open =
            total == G_MAXUINT64 &&
            vae_tensor_file_metadata(clip->file, GST_LATENT_KEY_RECORDING);
    if (status == VAE_OK)
        status = fill_info(clip, name, settings, error);
    if (status != VAE_OK)
        gst_latent_clip_clear(clip);
    return status;
}

void
gst_latent_clip_advise(const GstLatentClip *clip, gint channels, gchar *text,
                       gsize size)
{
    const VaeTensorInfo *t =
        vae_tensor_file_find(clip->file, clip->data.tensor);
    const VaeLatentLayout layout = *vae_layout_name(&clip->data) == 't'
                                       ? VAE_LAYOUT_TCHW
                                       : VAE_LAYOUT_CTHW;
    vae_axes_advice(t->dims, t->n_dims, layout, channels, text, size);
}

void
gst_latent_clip_end(GstLatentClip *clip, gint t, gint64 frames)
{
    clip->open = FALSE;
    clip->data.t = t;
    clip->frames = gst_latent_clip_first_frame(clip, t);
    if (frames > gst_latent_clip_first_frame(clip, t - 1))
        clip->frames = MIN(frames, clip->frames);
}

void
gst_latent_clip_clear(GstLatentClip *clip)
{
    vae_tensor_file_free(&clip->file);
    g_free(clip->times);
    g_free(clip->sequences);
    g_free(clip->warning);
    memset(clip, 0, sizeof *clip);
}

static GstClockTime
frame_time(const GstLatentClip *clip, guint64 frame)
{
    return gst_util_uint64_scale(frame, GST_SECOND * clip->info.fps_d,
                                 clip->info.fps_n);
}

const VaeTensorInfo *
gst_latent_clip_find_times(const GstLatentClip *clip)
{
    return clip->data.batch == 1 && !clip->own_rate
               ? vae_tensor_file_find(clip->file, GST_LATENT_TIMES)
               : NULL;
}

gboolean
gst_latent_clip_times_fit(const GstLatentClip *clip, const VaeTensorInfo *t)
{
    return t->type == VAE_TYPE_U8 && t->supported && t->n_dims == 2 &&
           t->dims[0] == clip->data.t &&
           t->dims[1] == (gint64) sizeof(GstLatentTime);
}

gboolean
gst_latent_clip_take_times(GstLatentClip *clip, GstLatentTime *times)
{
    gint64 latest = -1;
    for (gint k = 0; k < clip->data.t; k++) {
        GstLatentTime *t = &times[k];
        t->pts = GINT64_FROM_LE(t->pts);
        t->duration = GINT64_FROM_LE(t->duration);
        if (t->pts <= latest || t->duration < 0 ||
            t->duration > G_MAXINT64 - t->pts) {
            g_free(times);
            return FALSE;
        }
        latest = t->pts;
    }
    clip->times = times;
    return TRUE;
}

VaeStatus
gst_latent_clip_use_sequences(GstLatentClip *clip, const VaeTensorInfo *table,
                              const void *rows, VaeError *error)
{
    const gint n = (gint) table->dims[0];
    VaeLatentSequence *list = g_try_new(VaeLatentSequence, n);
    if (!list)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for %d sequences", n);
    const VaeStatus status = vae_latent_sequences_parse(
        clip->file, &clip->data, rows, clip->counts, list, error);
    if (status != VAE_OK) {
        g_free(list);
        return status;
    }
    clip->sequences = list;
    clip->n_sequences = n;
    clip->frames = list[n - 1].before + list[n - 1].frames;
    return VAE_OK;
}

gint
gst_latent_clip_start(const GstLatentClip *clip, gint k)
{
    return clip->sequences ? (gint) sequence_of(clip, k, FALSE)->first : 0;
}

gint
gst_latent_clip_frames(const GstLatentClip *clip, gint k)
{
    const gint64 end = k + 1 < clip->data.t
                           ? gst_latent_clip_first_frame(clip, k + 1)
                           : clip->frames;
    return (gint) (end - gst_latent_clip_first_frame(clip, k));
}

GstClockTime
gst_latent_clip_time(const GstLatentClip *clip, gint k)
{
    if (clip->times) {
        const GstLatentTime *t = &clip->times[MIN(k, clip->data.t - 1)];
        return (GstClockTime) (k < clip->data.t ? t->pts
                                                : t->pts + t->duration);
    }
    return frame_time(clip, k < clip->data.t
                                ? gst_latent_clip_first_frame(clip, k)
                                : clip->frames);
}

/* Returns the last latent that does not begin after `time`. */
static gint
search_times(const GstLatentClip *clip, GstClockTime time)
{
    gint low = 0, high = clip->data.t;
    while (high - low > 1) {
        const gint middle = low + (high - low) / 2;
        if ((GstClockTime) clip->times[middle].pts <= time)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the latent of a frame. */
static gint
latent_of(const GstLatentClip *clip, gint64 frame)
{
    gint64 first = 0;
    if (frame >= clip->frames)
        return clip->data.t;
    if (clip->sequences) {
        const VaeLatentSequence *s = sequence_of(clip, frame, TRUE);
        first = s->first;
        frame -= s->before;
    }
    return (gint) (first + vae_count_latents(clip->counts, frame + 1) - 1);
}

gint
gst_latent_clip_at(const GstLatentClip *clip, GstClockTime time)
{
    if (!clip->times)
        return latent_of(clip, gst_latent_clip_frame_at(clip, time));
    return time < gst_latent_clip_time(clip, clip->data.t)
               ? search_times(clip, time)
               : clip->data.t;
}

GstClockTime
gst_latent_clip_frame_time(const GstLatentClip *clip, gint64 frame)
{
    const gint k = latent_of(clip, frame);
    if (k >= clip->data.t)
        return gst_latent_clip_time(clip, clip->data.t);
    if (!clip->times)
        return frame_time(clip, (guint64) frame);
    return (GstClockTime) clip->times[k].pts +
           gst_util_uint64_scale(
               (guint64) clip->times[k].duration,
               (guint64) (frame - gst_latent_clip_first_frame(clip, k)),
               (guint64) gst_latent_clip_frames(clip, k));
}

/* Returns the frame of latent k that is shown at a time, by the times in the
 * file. */
static gint64
frame_within(const GstLatentClip *clip, gint k, GstClockTime time)
{
    const gint64 last =
        gst_latent_clip_first_frame(clip, k) + gst_latent_clip_frames(clip, k);
    gint64 frame = gst_latent_clip_first_frame(clip, k);
    while (frame + 1 < last &&
           gst_latent_clip_frame_time(clip, frame + 1) <= time)
        frame++;
    return frame;
}

gint64
gst_latent_clip_frame_at(const GstLatentClip *clip, GstClockTime time)
{
    if (clip->times) {
        const gint k = gst_latent_clip_at(clip, time);
        return k < clip->data.t ? frame_within(clip, k, time) : clip->frames;
    }
    guint64 frame = gst_util_uint64_scale(time, clip->info.fps_n,
                                          GST_SECOND * clip->info.fps_d);
    /* Times of frames are rounded down, so the computed frame may be one too
     * early. */
    if (frame_time(clip, frame + 1) <= time)
        frame++;
    return (gint64) MIN(frame, (guint64) clip->frames);
}
