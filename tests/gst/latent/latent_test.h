/*
 * latent_test.h: latent files made by code, and pipelines run to their end.
 */
#ifndef LATENT_TEST_H
#define LATENT_TEST_H

#include <gst/check/gstcheck.h>

#include "vae-private/tensors.h"

/* The clip of most tests: the bytes of latent k, channel c are the same in
 * every layout. */
typedef struct Clip {
    VaeType type;
    gint t, c, h, w;
} Clip;

typedef enum { BCTHW, CTHW, TCHW } Order;

/* A folder of this test alone, made and removed by the fixture. */
extern gchar *test_folder;

/* test_folder/name; (transfer full) */
gchar *test_path(const gchar *name);
/* [C, h, w] of latent k; step_bytes() of them. (transfer full) */
guint8 *step_data(const Clip *clip, gint k);
gsize step_bytes(const Clip *clip);
/* The whole clip in an order. (transfer full) */
guint8 *clip_data(const Clip *clip, Order order);

/* Writes the clip as tensor `name`; metadata are n pairs. Returns the path.
 * (transfer full) */
gchar *write_clip(const gchar *file, const gchar *name, const Clip *clip,
                  Order order, const VaeMetadata *metadata, gsize n);
/* The same as npy, float32 or float16. (transfer full) */
gchar *write_npy(const gchar *file, const Clip *clip, Order order);
gchar *write_bytes(const gchar *file, gconstpointer data, gsize size);
/* The whole file; (transfer full) */
GBytes *read_bytes(const gchar *path);

/* What a pipeline with an element named "sink" gave. */
typedef struct Run {
    GstElement *pipeline;
    GPtrArray *buffers; /* that reached the sink */
    gboolean eos, segment_done;
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
/* filesrc ! latentdemux properties ! more fakesink, paused with its first
 * buffer in the sink. */
Run *run_preroll(const gchar *path, const gchar *properties, const gchar *more);
void run_free(Run *run);

/* The buffers are the clip from latent `from` on. */
void assert_clip(const Run *run, const Clip *clip, gint from);
/* The run failed with these words in the message. */
void assert_error(const Run *run, GQuark domain, gint code, const gchar *words);

/* Adds a case with the folder and, where GST_TRACERS has the leaks tracer,
 * a look at what is still alive. */
TCase *latent_tcase(Suite *suite, const gchar *name);
int latent_main(int argc, char **argv, Suite *suite);

#endif
