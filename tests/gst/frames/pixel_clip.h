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
    guint channels;    /* at most 32 */
    gfloat scale;      /* of the numbers */
    const char *space; /* stated in a file; NULL: none */
} PixelClip;

guint pixel_frames(const PixelClip *c, guint latents);
/* Latent k, with the time of its frames and the flag of a later one. */
GstBuffer *pixel_latent(const PixelClip *c, guint k);
/* Pushes latents k0 .. k1 - 1. */
void pixel_push(const PixelClip *c, GstHarness *h, guint k0, guint k1);
/* All frames of a sequence of n latents in slices of that size, the end
 * included; returns their MD5. */
gchar *pixel_run(const PixelClip *c, GstHarness *h, guint slice, guint n);
/* a writes a checkpoint behind `saved` latents, of which `had` frames are out
 * then; b loads it, gets the latents from k0 on, and gives the other frames. */
void pixel_checkpoint(const PixelClip *c, GstHarness *a, GstHarness *b,
                      guint saved, guint had, gboolean carries, guint k0);

/* Writes n latents into a file in a folder of its own; vae_play_remove() it. */
gchar *pixel_write(const PixelClip *c, guint n);
VaePlay *pixel_play(const PixelClip *c, const gchar *path);
/* The same, played to the end from a seek to frames first to last. */
VaePlay *pixel_play_at(const PixelClip *c, const gchar *path, gdouble rate,
                       GstSeekFlags flags, guint first, guint last);
/* Frames first to last, alone, are those of the whole clip. Played backwards,
 * they come the last one first. */
void pixel_segment(const PixelClip *c, const gchar *path, VaePlay *whole,
                   guint first, guint last);
void pixel_backwards(const PixelClip *c, const gchar *path, VaePlay *whole,
                     guint first, guint last);

#endif
