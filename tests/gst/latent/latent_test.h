/*
 * latent_test.h: writes latent files, and runs pipelines to their end.
 */
#ifndef LATENT_TEST_H
#define LATENT_TEST_H

#include "vae-private/tensors.h"
#include "vae_test.h"

/* The clip of most tests. The bytes of channel c of latent k are the same in
 * every layout. */
typedef struct Clip {
    VaeType type;
    gint t, c, h, w;
} Clip;

typedef enum { BCTHW, CTHW, TCHW } Order;

/* Returns latent k as [C, h, w], of step_bytes() bytes. (transfer full) */
guint8 *step_data(const Clip *clip, gint k);
gsize step_bytes(const Clip *clip);
/* Returns the whole clip in this order. (transfer full) */
guint8 *clip_data(const Clip *clip, Order order);

/* Writes the clip as tensor `name`, with n pairs of metadata. This and the next
 * functions return the path. */
const gchar *write_clip(const gchar *file, const gchar *name, const Clip *clip,
                        Order order, const VaeMetadata *metadata, gsize n);
/* Writes file "a" with the tensor "latent" in the order CTHW, with metadata or
 * without. */
const gchar *described_clip(const Clip *clip, const VaeMetadata *metadata,
                            gsize n);
const gchar *plain_clip(const Clip *clip);
/* The same as npy, in float32 or float16. */
const gchar *write_npy(const gchar *file, const Clip *clip, Order order);
const gchar *write_bytes(const gchar *file, gconstpointer data, gsize size);
/* Returns the whole file. (transfer full) */
GBytes *read_bytes(const gchar *path);

/* The output of a pipeline that has an element named "sink". A new run frees
 * the previous one, and the end of a test frees the last one. */
typedef struct Run {
    GstElement *pipeline;
    GPtrArray *buffers; /* that reached the sink */
    gboolean eos;
    gchar *error, *warning, *info; /* the first text of each kind, or NULL */
    GQuark domain;                 /* of the error */
    gint code;
    gchar *source; /* name of the element that posted the error */
} Run;

/* Parses the pipeline, but does not start it. */
Run *run_new(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
/* Waits for EOS, an error or segment-done. */
void run_wait(Run *run);
/* run_new(), PLAYING, run_wait(), NULL. */
Run *run_all(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
/* Plays filesrc ! latentdemux properties ! fakesink to the end. Behind a queue,
 * which has no pull mode, the demuxer is in push mode. */
enum { PULL, PUSH };
Run *demux(gint way, const gchar *path, const gchar *properties);
/* Pauses filesrc ! latentdemux properties ! more fakesink, with the first
 * buffer in the sink. */
Run *run_preroll(const gchar *path, const gchar *properties, const gchar *more);
/* Changes to PLAYING, and waits. */
void run_play(Run *run);

/* Checks that the buffers are the clip from latent `from` on. */
void assert_clip(const Run *run, const Clip *clip, gint from);
/* Checks that the run failed with these words in the message. */
void assert_error(const Run *run, GQuark domain, gint code, const gchar *words);

#endif
