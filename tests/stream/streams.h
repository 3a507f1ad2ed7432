/*
 * streams.h: models, generated clips and plain calls for the stream tests.
 */
#ifndef VAE_TEST_STREAMS_H
#define VAE_TEST_STREAMS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../golden/vectors.h"

typedef struct Bed {
    VaeModel *model;
    const VaeModelInfo *info;
    VaeBackendKind backend;
    VaePrecision precision;
    int threads;
} Bed;

/* Opens a model. Ends the test with status 77 if its file, the backend or the
 * precision is missing. name: a folder of golden vectors ("wan21",
 * "taehv/taew2_1") in the source tree, or an architecture and "-full" for
 * generated weights of its real widths, or the network of toy.h. */
void bed_open(Bed *bed, const char *name, const char *backend,
              const char *precision);
/* The same for a main() with the arguments MODEL BACKEND PRECISION, and one
 * thread. */
void bed_open_main(Bed *bed, int argc, char **argv);
/* The same for a main() with the arguments MODEL STRIDE, for a test on the
 * emulated device: cuda in fp32. Returns STRIDE, at least 1. */
int bed_open_device(Bed *bed, int argc, char **argv);
/* Replaces the weights of the bed by weights that `write` has changed. */
void bed_rewrite(Bed *bed,
                 VaeStatus (*write)(const char *weights, const char *path,
                                    VaeError *error));
/* Writes the path of the golden weights to out. Returns false if there are
 * none. */
bool weights_path(char *out, size_t size, const char *name);
VaeStream *bed_stream(const Bed *bed, VaeStreamParams params);
/* Opens a stream with this slice size and usual parameters. */
VaeStream *bed_slices(const Bed *bed, VaeDirection direction, int width,
                      int height, int slice);

/* These functions end the test on an error. */
VaeStream *new_stream(VaeModel *model, const VaeStreamParams *params);
VaePlan plan_of(VaeModel *model, const VaeStreamParams *params);

/* True if a convolution of the network has a ReLU, which may stop a NaN. */
bool bed_has_relu(const Bed *bed, VaeDirection direction);
/* True if the network adds a tensor after a convolution has read context in it.
 * Such a network computes all frames of a slice at once. */
bool bed_adds_context(const Bed *bed, VaeDirection direction);
/* Returns the number of convolutions that `way` computes, or of all (NULL). */
int convs_by(const VaeStream *stream, const char *way);

/* Makes t latents and their frames at width x height; seed chooses the numbers.
 */
TestClip bed_clip(const Bed *bed, int t, int width, int height, int seed);
/* The same for t steps after the first: whole groups only. */
TestClip bed_later_clip(const Bed *bed, VaeDirection direction, int t,
                        int width, int height, int seed);
size_t clip_latent_count(const Bed *bed, const TestClip *clip);
size_t clip_video_count(const TestClip *clip);
/* Returns the number of units before step k of a sequence, in or out. */
int units_before(const Bed *bed, VaeDirection direction, int k, bool in);
/* Fills the output of a direction with a pattern that no result has. */
void clip_poison(const Bed *bed, TestClip *clip, VaeDirection direction);

/* Runs the clip by the plan from a new stream or after a reset. */
void run_clip(const Bed *bed, VaeStream *stream, VaeDirection direction,
              const TestClip *clip, const int *plan);
/* The same, but returns the error instead of ending the test. */
VaeStatus try_run(const Bed *bed, VaeStream *stream, VaeDirection direction,
                  const TestClip *clip, const int *plan, VaeError *error);
/* Returns the output of a direction: its address and bytes. */
const void *clip_result(const Bed *bed, const TestClip *clip,
                        VaeDirection direction, size_t *bytes);
bool same_result(const Bed *bed, const TestClip *a, const TestClip *b,
                 VaeDirection direction, const char *what);

/* Counts a check and prints it. If one failed, tests_end() returns 1. */
bool expect(bool good, const char *format, ...) VAE_PRINTF(2, 3);
int tests_end(void);
/* Checks the status of a refused call, and that its error says what it found
 * and expected. */
void expect_misuse(VaeStatus status, VaeStatus expected, const VaeError *error,
                   const char *what);
/* Frees the model, and returns the same as tests_end(). */
int bed_close(Bed *bed);

#endif
