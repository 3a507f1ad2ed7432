/*
 * mux_test.h: pushes latents to latentmux ! filesink, and reads the file.
 */
#ifndef MUX_TEST_H
#define MUX_TEST_H

#include "latent_test.h"

/* Four latents of small_caps, at 24/1. */
extern const Clip small;
extern const gchar *const small_caps;

#define OUT vae_test_path("out")
#define PLAY_FILE "filesrc location=%s ! latentdemux ! fakesink name=sink"

extern GstHarness *mux;

/* Opens the file OUT. */
void mux_open(const gchar *caps);
/* Pushes latent k. Times may be GST_CLOCK_TIME_NONE. */
GstFlowReturn push_timed(const Clip *clip, gint k, GstClockTime pts,
                         GstClockTime duration, gboolean start);
GstClockTime frame_time(gint frame);
/* Pushes latent k of a sequence, with the duration of this number of frames, or
 * without. */
GstFlowReturn mux_push(const Clip *clip, gint k, gint frames);
void mux_end(void);
/* Closes the file. */
void mux_close(void);
/* Ends the stream and closes the file. No message may be left on the bus. */
void mux_finish(void);

/* Checks that the first error or warning on the bus has these words and comes
 * from latentmux. */
void assert_posted(GstMessageType type, const gchar *words);
void assert_quiet(void);
/* Checks that the file has the first t latents of the clip, and this number of
 * frames. */
void assert_file(const gchar *path, const Clip *clip, gint t, gint64 frames);
void assert_metadata(const gchar *path, const gchar *key,
                     const gchar *expected);

#endif
