/*
 * latent_test.h: latent files made by code, and pipelines run to their end.
 */
#ifndef LATENT_TEST_H
#define LATENT_TEST_H

#include "vae-private/tensors.h"
#include "vae_test.h"

/* The clip of most tests: the bytes of latent k, channel c are the same in
 * every layout. */
typedef struct Clip {
    VaeType type;
    gint t, c, h, w;
} Clip;

typedef enum { BCTHW, CTHW, TCHW } Order;

/* The folder of the program, and a path of a file in it, which stays valid.
 * Files are removed after each test. */
extern gchar *test_folder;
const gchar *test_path(const gchar *name);

/* [C, h, w] of latent k; step_bytes() of them. (transfer full) */
guint8 *step_data(const Clip *clip, gint k);
gsize step_bytes(const Clip *clip);
/* The whole clip in an order. (transfer full) */
guint8 *clip_data(const Clip *clip, Order order);

/* These return the path. Writes the clip as tensor `name`; metadata are n
 * pairs. */
const gchar *write_clip(const gchar *file, const gchar *name, const Clip *clip,
                        Order order, const VaeMetadata *metadata, gsize n);
/* File "a", tensor "latent", CTHW, with metadata or without. */
const gchar *described_clip(const Clip *clip, const VaeMetadata *metadata,
                            gsize n);
const gchar *plain_clip(const Clip *clip);
/* The same as npy, float32 or float16. */
const gchar *write_npy(const gchar *file, const Clip *clip, Order order);
const gchar *write_bytes(const gchar *file, gconstpointer data, gsize size);
/* The whole file; (transfer full) */
GBytes *read_bytes(const gchar *path);

/* The output of a pipeline with an element named "sink". A new run frees the
 * one before, and the end of a test the last one. */
typedef struct Run {
    GstElement *pipeline;
    GPtrArray *buffers; /* that reached the sink */
    gboolean eos;
    gchar *error, *warning, *info; /* the first text of each, or NULL */
    GQuark domain;                 /* of the error */
    gint code;
    gchar *source; /* name of the element that posted the error */
} Run;

/* Parses and starts nothing. */
Run *run_new(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
/* Waits for EOS, an error or segment-done. */
void run_wait(Run *run);
/* run_new(), PLAYING, run_wait(), NULL. */
Run *run_all(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
/* filesrc ! latentdemux properties ! fakesink, to the end; a queue has no pull
 * mode, so behind one the demuxer is pushed to. */
enum { PULL, PUSH };
Run *demux(gint way, const gchar *path, const gchar *properties);
/* filesrc ! latentdemux properties ! more fakesink, paused with its first
 * buffer in the sink. */
Run *run_preroll(const gchar *path, const gchar *properties, const gchar *more);
/* Goes on to PLAYING, and waits. */
void run_play(Run *run);

/* The buffers are the clip from latent `from` on. */
void assert_clip(const Run *run, const Clip *clip, gint from);
/* The run failed with these words in the message. */
void assert_error(const Run *run, GQuark domain, gint code, const gchar *words);

#endif
