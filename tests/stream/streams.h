/*
 * streams.h: models, generated clips and plain calls for the stream tests.
 */
#ifndef VAE_TEST_STREAMS_H
#define VAE_TEST_STREAMS_H

#include "../golden/vectors.h"

typedef struct Bed {
    VaeModel *model;
    const VaeModelInfo *info;
    VaeBackendKind backend;
    VaePrecision precision;
    int threads;
} Bed;

/* Ends the test with 77 where the model's file, the backend or the precision
 * is not there. name: a folder of golden vectors ("wan21", "taehv/taew2_1")
 * in the source tree, or an architecture and "-full" for generated weights of
 * its real widths. */
void bed_open(Bed *bed, const char *name, const char *backend,
              const char *precision);
/* The same for a main() that takes MODEL BACKEND PRECISION, with one thread. */
void bed_open_main(Bed *bed, int argc, char **argv);
/* The same for the main() of a test over the emulated device, which takes MODEL
 * STRIDE: on cuda, in fp32. Returns STRIDE, at least 1. */
int bed_open_device(Bed *bed, int argc, char **argv);
/* The golden weights of that name; false where there are none. */
bool weights_path(char *out, size_t size, const char *name);
VaeStream *bed_stream(const Bed *bed, VaeStreamParams params);

/* t latents and their frames at width x height; numbers depend on seed. */
TestClip bed_clip(const Bed *bed, int t, int width, int height, int seed);
void clip_free(TestClip *clip);
size_t clip_latent_count(const Bed *bed, const TestClip *clip);
size_t clip_video_count(const TestClip *clip);
/* Fills what a direction writes with a pattern that no result has. */
void clip_poison(const Bed *bed, TestClip *clip, VaeDirection direction);

/* Runs the clip by the plan from a new stream or after a reset. */
void run_clip(const Bed *bed, VaeStream *stream, VaeDirection direction,
              const TestClip *clip, const int *plan);
/* What it wrote: address and bytes. */
const void *clip_result(const Bed *bed, const TestClip *clip,
                        VaeDirection direction, size_t *bytes);
bool same_result(const Bed *bed, const TestClip *a, const TestClip *b,
                 VaeDirection direction, const char *what);

void must(VaeStatus status, const VaeError *error);
/* Counts and prints; a failed one makes tests_end() return 1. */
bool expect(bool good, const char *format, ...) VAE_PRINTF(2, 3);
int tests_end(void);

#endif
