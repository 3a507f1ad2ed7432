/*
 * seek_bed.h: a clip, the frames of an undisturbed run of it, and a player for
 * seeks. The fixture of a test is freed after the test.
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
/* Creates a new `play` with these properties of the demuxer, in PAUSED or
 * NULL. */
void bed_play(const char *demux);
void bed_make_play(const char *demux);

/* When frame n begins. */
GstClockTime at(guint n);
/* Seeks, and plays to the end or pauses. */
void show(GstSeekFlags flags, GstClockTime start, GstClockTime stop);
void preroll(GstSeekFlags flags, GstClockTime start, GstClockTime stop);
/* Returns frame i of `play`, or of the undisturbed run. */
const VaeShown *frame(guint i);
const VaeShown *whole_frame(guint n);

/* Checks that the shown frames are `first` to `last`. The first one begins at
 * start, and the last one ends at stop. */
void check_frames_from(guint first, guint last, GstClockTime start,
                       GstClockTime stop);
void check_frames(guint first, guint last);
/* Returns a number of the decoder's stats. */
gint64 stat_of(const char *field);

#endif
