/*
 * clips.h: a clip that a stream on the emulated device computes call by call.
 */
#ifndef VAE_TEST_CUDA_CLIPS_H
#define VAE_TEST_CUDA_CLIPS_H

#include "../refuse.h"
#include "../stream/streams.h"

/* The calls run the programs first, next, next1 and next. */
enum { LATENTS = 6, SLICE = 2, SIZE = 16, CALLS = 4 };
extern const int steps[CALLS];
extern const int whole[CALLS + 1]; /* ends with 0 */
extern const int
    calls[]; /* the same in two calls, with several runs in flight */

const char *name_of(VaeDirection direction);
/* Returns parameters for fp32 and slices of SLICE, with which the ladder has
 * only one rung. */
VaeStreamParams params_of(VaeDirection direction);
/* Opens the model again, so that no other stream shares its weights. */
VaeModel *open_model(const Bed *bed);
TestClip new_clip(const Bed *bed);
/* A log function: appends the line to user, a text of at most SAID bytes. */
enum { SAID = 8000 };
void listen(void *user, const char *line);
VaeStream *open_stream(VaeModel *model, VaeDirection direction);
/* Returns the free bytes of the device. */
uint64_t memory_left(void);

typedef struct Place {
    VaeDirection direction;
    const TestClip *clip;
    int t, frame; /* latents and frames so far */
} Place;

/* Makes the next call, which computes n steps. After an error *at is unchanged.
 */
VaeStatus call(const Bed *bed, VaeStream *stream, Place *at, int n,
               VaeError *error);

/* Makes the calls steps[from] to steps[to]. An error ends the test. */
void run_steps(const Bed *bed, VaeStream *stream, Place *at, int from, int to);

/* want: the right result. got: the input, and memory for a result. */
typedef struct Clips {
    TestClip input, want, results, got;
} Clips;

Clips open_clips(const Bed *bed, VaeDirection direction);
void close_clips(Clips *c);
/* True if got has the bytes of want. */
bool same_clips(const Bed *bed, const Clips *c, VaeDirection direction);
/* Runs `got` in the calls `calls`, into poisoned memory. */
void run_clips(const Bed *bed, VaeStream *stream, VaeDirection direction,
               Clips *c);

/* Frees the model, and checks that nothing of the device is left. Returns the
 * result of main(). */
int device_close(Bed *bed);

#endif
