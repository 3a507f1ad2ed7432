/*
 * vectors.h: clips in memory, run through streams and compared; shared by the
 * golden and the stream tests.
 */
#ifndef VAE_TEST_VECTORS_H
#define VAE_TEST_VECTORS_H

#include "../scoped.h"
#include "vae-private/tensors.h"
#include "vae-private/stream.h"

enum { TEST_SKIP = 77 };

/* Ends the test on an error. */
void must(VaeStatus status, const VaeError *error);
/* Ends the test as skipped. */
_Noreturn void test_skip(const char *why);

/* malloc(n) that ends the test when there is none. */
void *test_alloc(size_t n);

/* The folder in VAE_TEST_DATA or VAE_TEST_VECTORS joined with what the format
 * says; false when the variable is not set or the file not there. */
bool test_path(char *out, size_t size, const char *variable, const char *format,
               ...) VAE_PRINTF(4, 5);

/* Opens NAME.safetensors of a folder; ends the test without it. */
VaeTensorFile *test_open(const char *folder, const char *name);
/* All of a tensor as floats, to be freed; ends the test without it. */
float *test_read(const VaeTensorFile *file, const char *name,
                 const VaeTensorInfo **info);

/* [a, b, plane] -> [b, a, plane], to be freed. */
float *test_swap(const float *src, int64_t a, int64_t b, int64_t plane);
/* [3, T, plane] -> [T, plane, 3] and back, to be freed. */
float *test_interleave(const float *src, int64_t t, int64_t plane);
float *test_planes(const float *src, int64_t t, int64_t plane);

/*
 * A clip and what a stream makes of it. Latents are [T][C, h, w] with the
 * padded size, frames [T, H, W, channels] in the network's range or video_u8.
 */
typedef struct TestClip {
    int t, frames, width, height;
    int channels;            /* of a pixel; 0: 3 */
    float *latents;          /* read by decode, written by encode */
    float *mean, *logvar;    /* NULL, or written by encode */
    float *video;            /* written by decode, read by encode ... */
    const uint8_t *video_u8; /* ... unless this is set */
    uint8_t *rgb;            /* decode writes 8 bits here instead, where set */
} TestClip;

/* A clip to decode: latents [C, T, h, w], and room for frames [n, H, W, 3]. */
TestClip test_clip(const float *latents, const VaeTensorInfo *l,
                   const VaeTensorInfo *frames);
void clip_free(TestClip *clip);
/* The numbers of a row of a frame. */
size_t clip_row(const TestClip *clip);
/* Frame i, in bytes if they are not NULL, else in video. */
VaePicture clip_picture(const TestClip *clip, const uint8_t *bytes, int i);

/* Opens a stream; its slices are of one step if the parameters leave the size
 * open. Skips the test where this machine cannot compute so. */
VaeStream *test_stream(VaeModel *model, VaeStreamParams params);

/* plan: steps of each call, the last one again and again; 0 ends it. A call
 * that would need more than is left is shortened. */
VaeStatus test_run(VaeStream *stream, const VaeModelInfo *info,
                   VaeDirection direction, const TestClip *clip,
                   const int *plan, VaeError *error);

typedef struct TestBound {
    double max_abs;   /* 0: none */
    double min_psnr;  /* 0: none */
    double low, high; /* clamped to before the PSNR, whose peak is their
                         difference; both 0: not clamped, peak 2 */
} TestBound;

/* Prints a line with the worst value's place; false past the bound. */
bool test_compare(const char *what, const float *got, const float *want,
                  const int64_t *dims, int n_dims, TestBound bound);

#endif
