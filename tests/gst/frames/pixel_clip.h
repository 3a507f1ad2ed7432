/*
 * pixel_clip.h: clips of a small network whose latents are one pixel.
 */
#ifndef PIXEL_CLIP_H
#define PIXEL_CLIP_H

#include "vae_play.h"

#include "vae-private/model.h"

typedef struct PixelClip {
    const char *(*weights)(void);
    VaeCounts counts;
    guint channels;    /* at most 48 */
    gfloat scale;      /* factor of the numbers */
    const char *space; /* stated in a file; NULL: none */
} PixelClip;

guint pixel_frames(const PixelClip *c, guint latents);
/* Returns latent k with the time of its frames, and DELTA_UNIT if k > 0. */
GstBuffer *pixel_latent(const PixelClip *c, guint k);
/* Pushes latents k0 .. k1 - 1. */
void pixel_push(const PixelClip *c, GstHarness *h, guint k0, guint k1);
/* Decodes a sequence of n latents in slices of this size, to its end. Returns
 * the MD5 of all frames. */
gchar *pixel_run(const PixelClip *c, GstHarness *h, guint slice, guint n);
typedef struct PixelCheckpoint {
    guint saved;      /* latents before the checkpoint */
    guint had;        /* frames that had left when it was written */
    gboolean carries; /* the checkpoint has the carries */
    guint k0;         /* first latent that the loading decoder gets */
} PixelCheckpoint;

/* Decoder a writes a checkpoint. Decoder b loads it, and its frames must be the
 * rest of those of a. */
void pixel_checkpoint(const PixelClip *c, GstHarness *a, GstHarness *b,
                      PixelCheckpoint p);

/* Writes n latents to a file of vae_test_path(). */
const gchar *pixel_write(const PixelClip *c, guint n);
VaePlay *pixel_play(const PixelClip *c, const gchar *path);
/* The same, from a seek to frames first .. last to the end. */
VaePlay *pixel_play_at(const PixelClip *c, const gchar *path, gdouble rate,
                       GstSeekFlags flags, guint first, guint last);
/* Checks that a seek to frames first .. last gives the same frames as the whole
 * clip. Backwards, the last frame comes first. */
void pixel_segment(const PixelClip *c, const gchar *path, VaePlay *whole,
                   guint first, guint last);
void pixel_backwards(const PixelClip *c, const gchar *path, VaePlay *whole,
                     guint first, guint last);

#endif
