/*
 * seek_bed.h: a clip, what an undisturbed run of it shows, and a player for
 * seeks. The bed of a test is closed behind the test.
 */
#ifndef SEEK_BED_H
#define SEEK_BED_H

#include "vae_play.h"

#define LW 6
#define LH 4
#define LATENTS 60
#define FRAMES (4 * LATENTS - 3)
#define FLUSH (GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE)

extern VaePlay *play;

/* Writes the clip, plays all of it, and prerolls `play`. */
void bed_open(gint fps_n, gint fps_d);
/* A new `play` with these properties of the demuxer, in PAUSED or NULL. */
void bed_play(const char *demux);
void bed_make_play(const char *demux);

/* When frame n begins. */
GstClockTime at(guint n);
/* Seeks, and plays to the end or pauses. */
void show(GstSeekFlags flags, GstClockTime start, GstClockTime stop);
void preroll(GstSeekFlags flags, GstClockTime start, GstClockTime stop);
/* Frame i of `play`, and of the undisturbed run. */
const VaeShown *frame(guint i);
const VaeShown *whole_frame(guint n);

/* The shown frames are `first` to `last`, the first of them from start on, and
 * the last until stop. */
void check_frames_from(guint first, guint last, GstClockTime start,
                       GstClockTime stop);
void check_frames(guint first, guint last);
/* A number of the decoder's stats. */
gint64 stat_of(const char *field);

#endif
