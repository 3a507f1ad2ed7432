/*
 * clip.h: the clip in a latent file as a stream: its caps, the time
 * of each latent, and what the user's settings add to a file that does not
 * say.
 */
#ifndef GST_LATENT_CLIP_H
#define GST_LATENT_CLIP_H

#include <gst/gst.h>

#include "vae-private/tensors.h"

#include "bytes.h"
#include "latent.h"
#include "settings.h"

G_BEGIN_DECLS

/* For latentmux: timing when the caps say nothing. */
#define GST_LATENT_FALLBACK_FPS_N 16
#define GST_LATENT_FALLBACK_FPS_D 1
#define GST_LATENT_FALLBACK_TEMPORAL 4

/* A tensor beside the latents, U8 [T, 16]: of each latent a GstLatentTime,
 * little endian. Only where the times do not follow the frame rate. */
#define GST_LATENT_TIMES "latent_times"

/* A tensor beside the latents, U8 [n, 16], of a file of several sequences: of
 * each a GstLatentSequence, little endian. */
#define GST_LATENT_SEQUENCES "latent_sequences"

/* The first latent of a sequence, and how many frames all of its latents
 * hold. */
typedef struct GstLatentSequence {
    gint64 first, frames;
} GstLatentSequence;

/* When a latent begins, after the first, and how long its frames last; ns. */
typedef struct GstLatentTime {
    gint64 pts, duration;
} GstLatentTime;

typedef struct GstLatentClip {
    VaeTensorFile *file;
    VaeLatentClip data;
    GstVaeLatentInfo info;
    gboolean guessed;     /* nobody stated the framerate */
    gboolean own_rate;    /* the user did, so the file's times do not count */
    gint temporal;        /* frames of each latent after the first */
    gint64 frames;        /* of the whole clip */
    GstLatentTime *times; /* of each latent; NULL: by the frame rate */
    GstLatentSequence *sequences; /* NULL: it is one */
    gint n_sequences;
    gchar overruled[64]; /* the setting that the file contradicts, or "" */
} GstLatentClip;

/*
 * Finds the clip in the first bytes of a file of total bytes; see
 * vae_tensor_file_open_memory(). clip is zeroed before and owns nothing of
 * bytes, which have to stay until gst_latent_clip_clear(). Nothing to clear
 * after a failure.
 */
VaeStatus gst_latent_clip_open(GstLatentClip *clip, const GstLatentBytes *bytes,
                               guint64 total, const gchar *name,
                               const GstLatentSettings *settings,
                               VaeError *error);
void gst_latent_clip_clear(GstLatentClip *clip);

/* FALSE: the file has no times that count. *offset: where they are in the file.
 */
gboolean gst_latent_clip_find_times(const GstLatentClip *clip, guint64 *offset);
/* Takes the times of all latents, as they are in the file. FALSE: they are not
 * possible and not used. */
gboolean gst_latent_clip_take_times(GstLatentClip *clip, GstLatentTime *times);
/* The same for the sequences, whose number find() gives. */
gboolean gst_latent_clip_find_sequences(const GstLatentClip *clip,
                                        guint64 *offset, gint *n);
gboolean gst_latent_clip_take_sequences(GstLatentClip *clip,
                                        GstLatentSequence *sequences, gint n);
/* The first latent of the sequence that latent k belongs to. */
gint gst_latent_clip_start(const GstLatentClip *clip, gint k);
/* How many frames latent k stands for. */
gint gst_latent_clip_frames(const GstLatentClip *clip, gint k);
/* When latent k begins; the end of the clip for k = data.t. */
GstClockTime gst_latent_clip_time(const GstLatentClip *clip, gint k);
/* The latent that holds the frame shown at time; data.t behind the end. */
gint gst_latent_clip_at(const GstLatentClip *clip, GstClockTime time);
/* When a frame begins; the end of the clip for one behind the last. */
GstClockTime gst_latent_clip_frame_time(const GstLatentClip *clip,
                                        gint64 frame);
/* The frame shown at time; their number behind the end. */
gint64 gst_latent_clip_frame_at(const GstLatentClip *clip, GstClockTime time);

G_END_DECLS
#endif
