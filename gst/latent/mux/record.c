/*
 * record.c: counts the latents, frames and sequences of a recording, and keeps
 * the times of its latents.
 */
#include "record.h"

#include "clip.h"
#include "group.h"

void
gst_latent_record_init(GstLatentRecord *record)
{
    record->times = g_array_new(FALSE, FALSE, sizeof(GstLatentTime));
    record->sequences = g_array_new(FALSE, FALSE, sizeof(GstLatentSequence));
}

void
gst_latent_record_clear(GstLatentRecord *record)
{
    g_array_unref(record->times);
    g_array_unref(record->sequences);
}

void
gst_latent_record_reset(GstLatentRecord *record)
{
    GArray *times = record->times, *sequences = record->sequences;
    g_array_set_size(times, 0);
    g_array_set_size(sequences, 0);
    *record = (GstLatentRecord){.times = times, .sequences = sequences};
}

static void
frame_rate(const GstVaeLatentInfo *info, guint64 *n, guint64 *d)
{
    *n = info->fps_n > 0 ? info->fps_n : GST_LATENT_FALLBACK_FPS_N;
    *d = info->fps_n > 0 ? info->fps_d : GST_LATENT_FALLBACK_FPS_D;
}

static GstClockTime
frames_time(const GstVaeLatentInfo *info, guint64 frames)
{
    guint64 n, d;
    frame_rate(info, &n, &d);
    return gst_util_uint64_scale(frames, GST_SECOND * d, n);
}

static GstLatentSequence *
last_sequence(const GstLatentRecord *record)
{
    return &g_array_index(record->sequences, GstLatentSequence,
                          record->sequences->len - 1);
}

/* Returns the number of frames before the next latent in its sequence. */
static gint64
frames_before(const GstLatentRecord *record, const GstVaeLatentInfo *info)
{
    const gint64 n = record->latents - last_sequence(record)->first;
    return vae_count_frames(gst_latent_clip_counts(info), n);
}

/* Returns the number of frames of the next latent, at most `full`, by its meta
 * or its duration. Returns 0 if neither says it. */
static gint64
stated_frames(const GstVaeLatentInfo *info, const GstBuffer *buffer,
              gint64 full)
{
    GstClockTime length;
    guint64 n, d;
    guint frames;
    if (gst_vae_group_get(buffer, &frames, &length))
        return MIN(frames, full);
    if (!GST_BUFFER_DURATION_IS_VALID(buffer))
        return 0;
    frame_rate(info, &n, &d);
    return CLAMP((gint64) gst_util_uint64_scale_round(
                     GST_BUFFER_DURATION(buffer), n, GST_SECOND * d),
                 1, full);
}

static gint64
count_frames(const GstLatentRecord *record, const GstVaeLatentInfo *info,
             const GstBuffer *buffer)
{
    const VaeCounts counts = gst_latent_clip_counts(info);
    const gint64 n = record->latents - last_sequence(record)->first;
    const gint64 full =
        vae_count_frames(counts, n + 1) - vae_count_frames(counts, n);
    const gint64 stated = stated_frames(info, buffer, full);
    return stated > 0 ? stated : full;
}

static gboolean
differ(GstClockTime a, GstClockTime b)
{
    return MAX(a, b) - MIN(a, b) > GST_VAE_JITTER;
}

/* Notes the time of the next latent. frames: its number of frames. Without the
 * meta of vaeencode, its duration is the nominal one. */
static void
note_time(GstLatentRecord *record, const GstVaeLatentInfo *info,
          const GstBuffer *buffer, gint64 frames)
{
    const GstClockTime pts = GST_BUFFER_PTS(buffer);
    const GstClockTime nominal = frames_time(info, frames);
    GstLatentTime time = {.duration = nominal};
    GstClockTime length;
    guint n;
    if (record->latents == 0)
        record->first = pts;
    if (!GST_CLOCK_TIME_IS_VALID(pts) ||
        !GST_CLOCK_TIME_IS_VALID(record->first) || pts < record->first ||
        pts - record->first > G_MAXINT64) {
        record->untimed = TRUE;
        record->uneven |= GST_CLOCK_TIME_IS_VALID(pts) &&
                          GST_CLOCK_TIME_IS_VALID(record->first);
        return;
    }
    if (gst_vae_group_get(buffer, &n, &length))
        time.duration = (gint64) length;
    time.pts = (gint64) (pts - record->first);
    if (record->times->len > 0 &&
        g_array_index(record->times, GstLatentTime, record->times->len - 1)
                .pts >= time.pts)
        record->untimed = record->uneven = TRUE;
    record->uneven |=
        differ(time.duration, nominal) ||
        differ(time.pts, frames_time(info, record->earlier +
                                               frames_before(record, info)));
    g_array_append_val(record->times, time);
}

/* Begins a sequence if the next latent does. If a latent has no DELTA_UNIT but
 * more frames than a first latent has, the flag is probably missing, and the
 * sequence continues. */
static void
note_sequence(GstLatentRecord *record, const GstVaeLatentInfo *info,
              const GstBuffer *buffer)
{
    const GstLatentSequence next = {.first = record->latents};
    if (record->latents > 0 &&
        GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT))
        return;
    if (record->latents == 0 || stated_frames(info, buffer, 2) == 1) {
        record->earlier = record->frames;
        g_array_append_val(record->sequences, next);
        return;
    }
    record->doubtful = TRUE;
}

void
gst_latent_record_note(GstLatentRecord *record, const GstVaeLatentInfo *info,
                       const GstBuffer *buffer)
{
    note_sequence(record, info, buffer);
    const gint64 frames = count_frames(record, info, buffer);
    note_time(record, info, buffer, frames);
    record->noted = frames_before(record, info) + frames;
}

void
gst_latent_record_count(GstLatentRecord *record)
{
    record->latents++;
    last_sequence(record)->frames = record->noted;
    record->frames = record->earlier + record->noted;
}
