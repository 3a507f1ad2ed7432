/*
 * lengths.c: clips of 1 to 33 latents, decoded and encoded by LTX-2, against
 * the official code, which had each clip as a whole (lengths.safetensors).
 */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 33, CELL = 32, GRID = 2, SIDE = CELL * GRID };

static const int one_by_one[] = {1, 0};

static int
frames_of(int t)
{
    return 8 * t - 7;
}

/* Means of 32x32 pixels, to be freed. */
static float *
cell_means(const TestClip *clip)
{
    const size_t n = (size_t) clip->frames * GRID * GRID * 3;
    float *means = test_alloc(n * sizeof *means);
    for (size_t i = 0; i < n; i++) {
        const size_t x = i / 3 % GRID * CELL;
        const size_t row = i / 3 / GRID * CELL; /* of all frames */
        double sum = 0;
        for (size_t k = 0; k < CELL * CELL; k++)
            sum += clip->video[((row + k / CELL) * SIDE + x + k % CELL) * 3 +
                               i % 3];
        means[i] = (float) (sum / (CELL * CELL));
    }
    return means;
}

static void
decode_lengths(Golden *g, VaeModel *model, const float *want)
{
    const VaeModelInfo *info = vae_model_info(model);
    const int64_t in[] = {info->latent_channels, MOST, GRID, GRID};
    SCOPED_BLOCK float *latent =
        test_alloc((size_t) (in[0] * MOST * GRID * GRID) * sizeof *latent);
    vae_generate("latent", in, 4, latent);
    TestClip clip = {.width = SIDE,
                     .height = SIDE,
                     .latents = test_swap(latent, in[0], MOST, GRID * GRID)};
    for (clip.t = 1; clip.t <= MOST; clip.t++) {
        char label[64];
        VaeError error;
        clip.frames = frames_of(clip.t);
        clip.video =
            test_alloc((size_t) clip.frames * SIDE * SIDE * 3 * sizeof(float));
        SCOPED_STREAM VaeStream *stream = golden_stream(
            g, model, (VaeStreamParams){.width = SIDE, .height = SIDE});
        must(test_run(stream, info, VAE_DECODE, &clip, one_by_one, &error),
             &error);
        SCOPED_BLOCK float *got = cell_means(&clip);
        const int64_t dims[] = {clip.frames, GRID, GRID, 3};
        snprintf(label, sizeof label, "%s %d latents", info->arch, clip.t);
        golden_check(g, test_compare(label, got, want, dims, 4,
                                     (TestBound){.max_abs = 2e-5}));
        want += (size_t) clip.frames * GRID * GRID * 3;
        free(clip.video);
    }
    free(clip.latents);
}

/* The official encoder is causal: the latents of a short clip are the first
 * ones of the longest. */
static void
encode_lengths(Golden *g, VaeModel *model, const float *want)
{
    const VaeModelInfo *info = vae_model_info(model);
    const int most = frames_of(MOST), c = info->latent_channels;
    const int64_t in[] = {3, most, CELL, CELL};
    SCOPED_BLOCK float *video =
        test_alloc((size_t) most * CELL * CELL * 3 * sizeof *video);
    SCOPED_BLOCK float *latents = test_swap(want, c, MOST, 1);
    vae_generate("video", in, 4, video);
    SCOPED_CLIP TestClip clip = {
        .width = CELL,
        .height = CELL,
        .video = test_interleave(video, most, CELL * CELL),
        .latents = test_alloc((size_t) (c * MOST) * sizeof(float))};
    for (clip.t = 1; clip.t <= MOST; clip.t++) {
        char label[64];
        VaeError error;
        clip.frames = frames_of(clip.t);
        SCOPED_STREAM VaeStream *stream = golden_stream(
            g, model,
            (VaeStreamParams){
                .direction = VAE_ENCODE, .width = CELL, .height = CELL});
        must(test_run(stream, info, VAE_ENCODE, &clip, one_by_one, &error),
             &error);
        const int64_t dims[] = {clip.t, c};
        snprintf(label, sizeof label, "%s %d frames", info->arch, clip.frames);
        golden_check(g, test_compare(label, clip.latents, latents, dims, 2,
                                     (TestBound){.max_abs = 1e-4}));
    }
}

void
golden_lengths(Golden *g, const char *folder)
{
    char path[512];
    SCOPED_FILE VaeTensorFile *file = test_open(folder, "lengths");
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    SCOPED_MODEL VaeModel *model = golden_model(path);
    float *want = test_read(file, "frames_mean32", NULL);
    decode_lengths(g, model, want);
    free(want);
    if (vae_model_info(model)->has_encoder) {
        want = test_read(file, "latent", NULL);
        encode_lengths(g, model, want);
        free(want);
    }
}
