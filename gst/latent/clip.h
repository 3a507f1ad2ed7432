/*
 * clip.h: presents the clip in a latent file as a stream: its caps and the time
 * of each latent. The user's settings supply what the file does not state.
 */
#ifndef GST_LATENT_CLIP_H
#define GST_LATENT_CLIP_H

#include <gst/gst.h>

#include "vae-private/tensors.h"

#include "bytes.h"
#include "latent.h"
#include "settings.h"

G_BEGIN_DECLS

/* The frame rate that latentmux assumes if the caps have none. */
#define GST_LATENT_FALLBACK_FPS_N 16
#define GST_LATENT_FALLBACK_FPS_D 1

/* A tensor beside the latents, U8 [T, 16], with a GstLatentTime for each
 * latent, little endian. It exists only if the times do not follow the frame
 * rate. */
#define GST_LATENT_TIMES "latent_times"

/* The time of a latent, relative to the first, and the duration of its frames
 * in nanoseconds. */
typedef struct GstLatentTime {
    gint64 pts, duration;
} GstLatentTime;

typedef struct GstLatentClip {
    VaeTensorFile *file;
    VaeLatentClip data;
    GstVaeLatentInfo info;
    gboolean open;        /* data.t and frames are not known yet, but huge */
    gboolean own_rate;    /* the user sets it; the file's times are ignored */
    VaeCounts counts;     /* frames of its latents */
    gint64 frames;        /* frames of the whole clip */
    GstLatentTime *times; /* time of each latent; NULL: by the frame rate */
    VaeLatentSequence *sequences; /* NULL: the clip is one sequence */
    gint n_sequences;
    gchar *warning; /* what of the file or of a property is ignored, or NULL */
} GstLatentClip;

/*
 * Finds the clip in the first bytes of a file of `total` bytes; see
 * vae_tensor_file_open_memory(). The caller zeroes clip before. bytes must live
 * until gst_latent_clip_clear(). After a failure there is nothing to clear.
 */
VaeStatus gst_latent_clip_open(GstLatentClip *clip, const GstLatentBytes *bytes,
                               guint64 total, const gchar *name,
                               const GstLatentSettings *settings,
                               VaeError *error);
void gst_latent_clip_clear(GstLatentClip *clip);
/* Writes what to do if a model expects so many channels, or "". */
void gst_latent_clip_advise(const GstLatentClip *clip, gint channels,
                            gchar *text, gsize size);
/* Ends an open clip after latent t - 1. frames: its number of frames, or 0 if
 * the last latent has all of its frames. */
void gst_latent_clip_end(GstLatentClip *clip, gint t, gint64 frames);

/* Returns the tensor of the latents' times, or NULL if the file has none, or if
 * they are ignored. */
const VaeTensorInfo *gst_latent_clip_find_times(const GstLatentClip *clip);
/* Returns FALSE if the tensor does not have a time for each latent. */
gboolean gst_latent_clip_times_fit(const GstLatentClip *clip,
                                   const VaeTensorInfo *tensor);
/* Uses the times of all latents, in the file's format. Returns FALSE, without
 * using them, if they are not valid. (takes times) */
gboolean gst_latent_clip_take_times(GstLatentClip *clip, GstLatentTime *times);
/* Uses the rows of a table that vae_latent_sequences_find() has found. */
VaeStatus gst_latent_clip_use_sequences(GstLatentClip *clip,
                                        const VaeTensorInfo *table,
                                        const void *rows, VaeError *error);
/* Returns the numbers of frames of latents: those of the info, or else those of
 * its latent space. */
VaeCounts gst_latent_clip_counts(const GstVaeLatentInfo *info);
/* Returns the first latent of the sequence that contains latent k. */
gint gst_latent_clip_start(const GstLatentClip *clip, gint k);
/* Returns the number of the first frame of latent k in the file. */
gint64 gst_latent_clip_first_frame(const GstLatentClip *clip, gint k);
/* Returns the number of frames of latent k. */
gint gst_latent_clip_frames(const GstLatentClip *clip, gint k);
/* Returns the time of latent k, or the end of the clip if k is data.t. */
GstClockTime gst_latent_clip_time(const GstLatentClip *clip, gint k);
/* Returns the latent of the frame that is shown at a time, or data.t after the
 * end of the clip. */
gint gst_latent_clip_at(const GstLatentClip *clip, GstClockTime time);
/* Returns the time of a frame, or the end of the clip after the last frame. */
GstClockTime gst_latent_clip_frame_time(const GstLatentClip *clip,
                                        gint64 frame);
/* Returns the frame that is shown at a time, or the number of frames after the
 * end of the clip. */
gint64 gst_latent_clip_frame_at(const GstLatentClip *clip, GstClockTime time);

G_END_DECLS
#endif
