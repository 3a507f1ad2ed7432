/*
 * vae_play.h: writes latent files and runs pipelines that keep every frame.
 */
#ifndef VAE_PLAY_H
#define VAE_PLAY_H

#include "vae_test.h"

/* Writes n latents of vae_test_latent() to a file of vae_test_path(). rate: of
 * the video, as a fraction. */
const gchar *vae_play_write(guint n, int width, int height, const char *rate);

typedef struct VaeShown {
    GstBuffer *buffer;
    GstClockTime pts, end;
    GstClockTime cut; /* the part before the segment */
    GstClockTime running;
} VaeShown;

typedef struct VaePlay {
    GstElement *pipeline, *sink;
    GArray *shown; /* VaeShown, in order; guarded by the lock */
    GMutex lock;
} VaePlay;

/* Creates a pipeline with a basesink "s" that signals handoffs, in NULL. */
VaePlay *vae_play_make(const gchar *text);
/* The same in PAUSED, with the first frame in the sink. */
VaePlay *vae_play_new(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
void vae_play_free(VaePlay *play);
/* Drops the list of shown frames. A flush also does this. */
void vae_play_forget(VaePlay *play);
void vae_play_set(VaePlay *play, GstState state);
/* Waits for EOS or SEGMENT_DONE. Any other end fails. (transfer full) */
GstMessage *vae_play_wait(VaePlay *play);
/* Changes to PLAYING and waits for EOS. */
void vae_play_to_end(VaePlay *play);
/* Seeks in time with GST_SEEK_TYPE_SET. stop may be NONE. */
gboolean vae_play_seek(VaePlay *play, GstSeekFlags flags, GstClockTime start,
                       GstClockTime stop);
const VaeShown *vae_play_frame(VaePlay *play, guint i);

gboolean vae_play_same_bytes(GstBuffer *a, GstBuffer *b);

#endif
