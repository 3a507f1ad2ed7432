/*
 * ends.c: checks that the emulated device detects overlapping memory, calls
 * without the lock of recordings, and wrong calls for pinned memory. A wrong
 * kernel or call ends the process, so the test runs it in a child process. A
 * wrong convolution of the library gives NaN.
 */
#include <sys/wait.h>

#include "../stream/streams.h"
#include "emu_state.h"
#include "gpu.h"

enum { C = 4, SIDE = 6, T = 2, PIXELS = SIDE * SIDE, KERNEL = 3 };
enum { X = (T + KERNEL - 1) * PIXELS * C, Y = T * PIXELS * C };
enum { WEIGHTS = KERNEL * KERNEL * KERNEL * C * C };
enum { ROOM = 4096 }; /* floats for a kernel's tensors */

static const VaeCudaConvShape shape = {.t = T,
                                       .h = SIDE,
                                       .w = SIDE,
                                       .c_in = C,
                                       .ho = SIDE,
                                       .wo = SIDE,
                                       .c_out = C,
                                       .k = KERNEL,
                                       .kt = KERNEL,
                                       .s = 1,
                                       .st = 1,
                                       .pad_y = 1,
                                       .pad_x = 1,
                                       .add = true};

/* Offsets in one block of device memory, in elements. */
typedef struct Places {
    size_t x, y, add, weight, bias, workspace;
} Places;

static const Places apart = {0, X, X + Y, X + 2 * Y, X + 3 * Y, X + 4 * Y};

/* Returns the sum of the results, which is NaN if one of them is NaN. */
static double
convolve(const Places *at)
{
    enum { ALL = X + 4 * Y + 4096 };
    static float numbers[ALL], results[Y];
    VaeCudaConvs *convs;
    VaeCudaConv *conv;
    VaeError error;
    VaeRtStream stream;
    void *block;
    double sum = 0;
    for (int i = 0; i < ALL; i++)
        numbers[i] = (float) (i % 13 - 6) / 8;
    pthread_mutex_lock(&vae_cuda_recording);
    must(vae_cuda_convs_new(NULL, &convs, &error), &error);
    must(vae_cuda_conv_new(convs, &shape, &(VaeCudaChoice){"2 1"}, &conv,
                           &error),
         &error);
    if (vae_rt_stream_new(&stream) || vae_rt_alloc(&block, sizeof numbers) ||
        vae_rt_copy(block, numbers, sizeof numbers, stream))
        return NAN;
    float *m = block;
    must(vae_cuda_conv_bind(conv,
                            &(VaeCudaConvArgs){.x = m + at->x,
                                               .y = m + at->y,
                                               .add = m + at->add,
                                               .weight = m + at->weight,
                                               .bias = m + at->bias,
                                               .workspace = m + at->workspace},
                            &error),
         &error);
    must(vae_cuda_conv_run(conv, stream, &error), &error);
    if (vae_rt_copy(results, m + at->y, sizeof results, stream) ||
        vae_rt_stream_sync(stream))
        return NAN;
    for (int i = 0; i < Y; i++)
        sum += (double) results[i];
    vae_cuda_conv_free(&conv);
    vae_cuda_convs_free(&convs);
    pthread_mutex_unlock(&vae_cuda_recording);
    vae_rt_free(block);
    vae_rt_stream_free(stream);
    return sum;
}

static void
overlaps(void)
{
    Places at = apart;
    expect(isfinite(convolve(&at)), "no overlap");
    at.add = at.y;
    expect(isfinite(convolve(&at)), "the result over the addend");
    at.add = at.y + C;
    expect(isnan(convolve(&at)), "the result partly over the addend");
    at = apart;
    at.y = X - C; /* overlaps the end of the last frame */
    expect(isnan(convolve(&at)), "the result over the input");
    at = apart;
    at.workspace = at.weight + WEIGHTS - 4;
    expect(isnan(convolve(&at)), "the workspace over the weights");
    at = apart;
    at.workspace = at.add + Y - 4;
    expect(isnan(convolve(&at)), "the workspace over the addend");
}

/* Returns true if the launch ends the process. */
static bool
ends(void (*launch)(float *m, size_t y), size_t y)
{
    void *block;
    int status = 0;
    if (vae_rt_alloc(&block, 4 * ROOM))
        return false;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        launch(block, y);
        _exit(0);
    }
    waitpid(child, &status, 0);
    vae_rt_free(block);
    return WIFSIGNALED(status);
}

/* ------------------------------------------------------------------ */
/* Each kernel reads from the beginning of m, and writes to m + y.      */

static VaeRtStream stream;
/* The parameter that is at the place of the input, or -1. */
static int moved = -1;

static float *
input(float *m)
{
    return moved < 0 ? m : m + 1024;
}

static float *
parameter(float *m, int i)
{
    return moved == i ? m + 62 : m + 512 + 64 * i;
}

#define LAUNCH(kernel, Args, ...)                                              \
    vae_rt_kernels()->kernel(&(VaeQueue){.threads = 1, .stream = stream},      \
                             &(Args){__VA_ARGS__})

static void
norm_to(float *m, size_t y)
{
    LAUNCH(norm, VaeNormArgs, .kind = VAE_NORM_RMS, .x = input(m), .y = m + y,
           .gain = parameter(m, 0), .offset = parameter(m, 1), .t = 2, .h = 2,
           .w = 2, .c = 8);
}

static void
norm_with_tail_at(float *m, size_t y)
{
    LAUNCH(norm, VaeNormArgs, .kind = VAE_NORM_RMS, .x = m + 256, .y = m,
           .tail = m + y, .tail_frames = 1, .t = 2, .h = 2, .w = 2, .c = 8);
}

static void
group_with_sums_at(float *m, size_t y)
{
    LAUNCH(norm, VaeNormArgs, .kind = VAE_NORM_GROUP, .x = m, .y = m + 256,
           .gain = m + 512, .offset = m + 512, .sums = (double *) (m + y),
           .t = 2, .h = 2, .w = 2, .c = 8, .groups = 2, .eps = 1);
}

static void
group_statistics_to(float *m, size_t y)
{
    LAUNCH(norm, VaeNormArgs, .kind = VAE_NORM_GROUP, .x = m,
           .sums = (double *) (m + 512), .statistics = (double *) (m + y),
           .t = 2, .h = 2, .w = 2, .c = 8, .groups = 2, .eps = 1);
}

static void
group_by_statistics_to(float *m, size_t y)
{
    LAUNCH(norm, VaeNormArgs, .kind = VAE_NORM_GROUP, .x = input(m), .y = m + y,
           .gain = parameter(m, 0), .offset = parameter(m, 1),
           .statistics = (double *) parameter(m, 2), .t = 2, .h = 2, .w = 2,
           .c = 8, .groups = 2);
}

static void
cast_to(float *m, size_t y)
{
    LAUNCH(cast, VaeCastArgs, .x = m, .y = m + y, .n = 64);
}

static void
clamp_to(float *m, size_t y)
{
    LAUNCH(clamp, VaeClampArgs, .x = m, .y = m + y, .n = 64);
}

static void
clamp_to_16_bits(float *m, size_t y)
{
    LAUNCH(clamp, VaeClampArgs, .x = m, .y = m + y, .y_type = VAE_TYPE_BF16,
           .n = 64);
}

static void
attention_to(float *m, size_t y)
{
    LAUNCH(attention, VaeAttentionArgs, .qkv = m, .y = m + y, .t = 1, .n = 4,
           .c = 8);
}

static void
unfold_to(float *m, size_t y)
{
    LAUNCH(rearrange, VaeRearrangeArgs, .kind = VAE_UNFOLD_NEAREST, .x = m,
           .y = m + y, .t = 1, .h = 4, .w = 4, .c = 4, .ft = 1, .fs = 2);
}

static void
fold_to(float *m, size_t y)
{
    LAUNCH(rearrange, VaeRearrangeArgs, .kind = VAE_FOLD_CRQ, .x = m,
           .y = m + y, .t = 1, .h = 4, .w = 4, .c = 16, .ft = 1, .fs = 2);
}

static void
reflect_to(float *m, size_t y)
{
    LAUNCH(rearrange, VaeRearrangeArgs, .kind = VAE_REFLECT, .x = m, .y = m + y,
           .t = 1, .h = 4, .w = 4, .c = 4, .ft = 1, .fs = 1, .rows = 6,
           .top = 1);
}

/* The last phase ends at element 64 of the result. */
static void
join_to(float *m, size_t y)
{
    LAUNCH(rearrange, VaeRearrangeArgs, .kind = VAE_JOIN_PHASES, .x = m,
           .y = m + y, .t = 1, .h = 2, .w = 2, .c = 4, .ft = 1, .fs = 2,
           .phase = 16);
}

static void
duplicate_to(float *m, size_t y)
{
    LAUNCH(shortcut, VaeShortcutArgs, .kind = VAE_SHORTCUT_DUP, .x = m,
           .y = m + y, .t = 1, .h = 2, .w = 2, .cx = 16, .cy = 8, .ft = 1,
           .fs = 2);
}

static void
average_to(float *m, size_t y)
{
    LAUNCH(shortcut, VaeShortcutArgs, .kind = VAE_SHORTCUT_AVERAGE, .x = m,
           .y = m + y, .t = 1, .h = 4, .w = 4, .cx = 4, .cy = 8, .ft = 1,
           .fs = 2);
}

static void
depthwise_to(float *m, size_t y)
{
    LAUNCH(depthwise, VaeDepthwiseArgs, .x = input(m), .y = m + y,
           .weight = parameter(m, 0), .t = 1, .h = 2, .w = 4, .n = 4);
}

static void
latent_in_to(float *m, size_t y)
{
    LAUNCH(latent_in, VaeLatentInArgs, .src = input(m), .y = m + y,
           .scale = parameter(m, 0), .shift = parameter(m, 1),
           .nonfinite = (uint64_t *) parameter(m, 2), .h = 4, .w = 4, .c = 4);
}

static void
latent_out_to(float *m, size_t y)
{
    LAUNCH(latent_out, VaeLatentOutArgs, .x = input(m), .dst = m + y,
           .mean = parameter(m, 0), .std = parameter(m, 1),
           .nonfinite = (uint64_t *) parameter(m, 2),
           .mean_out = parameter(m, 3), .logvar_out = parameter(m, 4), .h = 4,
           .w = 4, .c = 4, .cx = 8);
}

static void
count_to(float *m, size_t y)
{
    LAUNCH(nonfinite, VaeNonfiniteArgs, .x = m, .n = 64,
           .counter = (uint64_t *) (m + y));
}

/* Returns a picture that takes 64 floats. */
static VaePicture
picture_at(float *m)
{
    return (VaePicture){.pixels = VAE_PIXELS_RGB,
                        .width = 4,
                        .height = 2,
                        .data = {(uint8_t *) m},
                        .stride = {244}};
}

static void
picture_out_to(float *m, size_t y)
{
    const VaePicture picture = picture_at(m + y);
    LAUNCH(picture_out, VaePictureOutArgs, .x = m, .h = 4, .w = 4, .c = 4,
           .picture = &picture, .high = 1);
}

static void
picture_in_to(float *m, size_t y)
{
    const VaePicture picture = picture_at(m);
    LAUNCH(picture_in, VaePictureInArgs, .picture = &picture, .y = m + y,
           .h = 4, .w = 4, .c = 4, .high = 1);
}

/* Launches a convolution in bf16. The second half of its input is the carry. */
#define CONVOLVE(in, out, ...)                                                 \
    LAUNCH(conv_matrix, VaeConvMatrixArgs, .type = VAE_TYPE_BF16, .t = 1,      \
           .h = 2, .w = 4, .c_in = 8, .ho = 2, .wo = 4, .c_out = out, .k = 3,  \
           .kt = 2, .pad_y = 1, .pad_x = 1, .past_frames = 1, .x = in,         \
           .past = in + 32, __VA_ARGS__)

static void
conv_to(float *m, size_t y)
{
    CONVOLVE(input(m), 8, .y = m + y, .weight = parameter(m, 0),
             .bias = parameter(m, 1));
}

static void
conv_added_to(float *m, size_t y)
{
    CONVOLVE(m + 1024, 16, .y = m + y, .add = m, .weight = m + 2400,
             .bias = m + 512);
}

static void
conv_with_norm_at(float *m, size_t y)
{
    CONVOLVE(input(m), 16, .y = m + 256, .weight = m + 2400, .bias = m + 512,
             .norm = {.y = m + y,
                      .gain = parameter(m, 0),
                      .offset = parameter(m, 1)});
}

static void
conv_with_only_norm_at(float *m, size_t y)
{
    CONVOLVE(m + 1024, 16, .add = m, .weight = m + 2400, .bias = m + 512,
             .norm.y = m + y);
}

static void
head_to(float *m, size_t y)
{
    CONVOLVE(
        input(m), 3, .wide = true, .y = m + y, .weight = m + 2400,
        .bias = m + 512,
        .front = {.c = 8, .gain = parameter(m, 0), .offset = parameter(m, 1)});
}

static void
copy_to(float *m, size_t y)
{
    if (vae_rt_copy(m + y, m, 64 * sizeof *m, stream))
        _exit(0);
}

/* A kernel must not write to the last number of its input, float 63, or to a
 * parameter at this place. It may write to the begin of its first input if
 * kernels.h allows this. */
static void
kernels_overlap(void)
{
    static const struct {
        const char *name;
        void (*launch)(float *m, size_t y);
        bool in_place;
        int parameters;
    } kernels[] = {
        {"a norm", norm_to, true, 2},
        {"the tail of a norm", norm_with_tail_at},
        {"sums of a norm", group_with_sums_at},
        {"statistics of a norm", group_statistics_to},
        {"a norm by statistics", group_by_statistics_to, true, 3},
        {"a cast", cast_to},
        {"a clamp", clamp_to, true},
        {"a clamp to 16 bits", clamp_to_16_bits},
        {"an attention", attention_to},
        {"an unfolding", unfold_to},
        {"a folding", fold_to},
        {"a reflected border", reflect_to},
        {"joined phases", join_to},
        {"a shortcut to more pixels", duplicate_to},
        {"a shortcut to fewer pixels", average_to},
        {"a depthwise convolution", depthwise_to, false, 1},
        {"a latent", latent_in_to, false, 3},
        {"an encoded latent", latent_out_to, false, 5},
        {"a counter", count_to},
        {"a picture", picture_out_to},
        {"a network's frame", picture_in_to},
        {"a convolution", conv_to, false, 2},
        {"a convolution added to a tensor", conv_added_to, true},
        {"a norm in a convolution", conv_with_norm_at, false, 2},
        {"a norm alone in a convolution", conv_with_only_norm_at},
        {"a convolution to a picture", head_to, false, 2},
        {"a copy", copy_to},
    };
    if (!expect(vae_rt_stream_new(&stream) == 0, "a stream"))
        return;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        expect(!ends(kernels[i].launch, 2048) && ends(kernels[i].launch, 62) &&
                   ends(kernels[i].launch, 0) != kernels[i].in_place,
               "%s over its input", kernels[i].name);
        for (moved = 0; moved < kernels[i].parameters; moved++)
            expect(!ends(kernels[i].launch, 2048) &&
                       ends(kernels[i].launch, 62),
                   "%s over parameter %d", kernels[i].name, moved);
        moved = -1;
    }
    vae_rt_stream_free(stream);
}

static void
open_library(float *m, size_t y)
{
    VaeCudaConvs *convs;
    VaeError error;
    must(vae_cuda_convs_new(NULL, &convs, &error), &error);
}

static void
begin_recording(float *m, size_t y)
{
    if (vae_rt_capture_begin(stream))
        _exit(0);
}

static void
end_recording(float *m, size_t y)
{
    VaeRtGraph graph;
    pthread_mutex_lock(&vae_cuda_recording);
    begin_recording(m, y);
    pthread_mutex_unlock(&vae_cuda_recording);
    vae_rt_capture_end(stream, &graph);
}

static void
all_locked(float *m, size_t y)
{
    VaeRtGraph graph;
    pthread_mutex_lock(&vae_cuda_recording);
    open_library(m, y);
    begin_recording(m, y);
    vae_rt_capture_end(stream, &graph);
    pthread_mutex_unlock(&vae_cuda_recording);
}

/* Tests calls that need the lock of recordings, with it and without it. */
static void
recording_lock(void)
{
    if (!expect(vae_rt_stream_new(&stream) == 0, "a stream"))
        return;
    expect(!ends(all_locked, 0), "calls with the lock of recordings");
    expect(ends(open_library, 0), "the library opens without the lock");
    expect(ends(begin_recording, 0), "a recording begins without the lock");
    expect(ends(end_recording, 0), "a recording ends without the lock");
    vae_rt_stream_free(stream);
}

/* Memory of the program, and what a call does with it. */
static float words[64];

static void
pin_half(float *m, size_t y)
{
    if (vae_rt_pin(words, sizeof words / 2))
        _exit(0);
}

static void
pin_and_unpin(float *m, size_t y)
{
    pin_half(m, y);
    vae_rt_unpin(words);
}

static void
unpin_twice(float *m, size_t y)
{
    pin_and_unpin(m, y);
    vae_rt_unpin(words);
}

static void
pin_while_recording(float *m, size_t y)
{
    pthread_mutex_lock(&vae_cuda_recording);
    begin_recording(m, y);
    pin_half(m, y);
}

static void
unpin_while_recording(float *m, size_t y)
{
    pin_half(m, y);
    pthread_mutex_lock(&vae_cuda_recording);
    begin_recording(m, y);
    vae_rt_unpin(words);
}

static void
copy_over_pin(float *m, size_t y)
{
    pin_half(m, y);
    if (vae_rt_copy(m, words, sizeof words / 2 + 4, stream))
        _exit(0);
}

/* Memory must not be pinned twice, not even a part of it. Memory of the run
 * time must not be pinned. */
static void
pins(void)
{
    const size_t half = sizeof words / 2;
    void *block;
    if (!expect(vae_rt_stream_new(&stream) == 0 &&
                    vae_rt_alloc_host(&block, 4096) == 0 &&
                    vae_rt_pin(words, half) == 0,
                "a stream, a block and a pin"))
        return;
    expect(vae_rt_pin(words, 4) == EMU_REFUSED &&
               vae_rt_pin(words + 31, 8) == EMU_REFUSED &&
               vae_rt_pin((uint8_t *) block + 4092, 8) == EMU_REFUSED &&
               vae_rt_pin(words + 32, half) == 0 && emu_pins() == 2,
           "memory cannot be pinned twice");
    vae_rt_unpin(words + 32);
    vae_rt_unpin(words);
    vae_rt_free_host(block);
    expect(!ends(pin_and_unpin, 0) && ends(unpin_twice, 0),
           "memory cannot be unpinned twice");
    expect(ends(pin_while_recording, 0) && ends(unpin_while_recording, 0),
           "memory cannot be pinned or unpinned during a recording");
    expect(ends(copy_over_pin, 0), "a copy must not leave pinned memory");
    vae_rt_stream_free(stream);
}

int
main(void)
{
    overlaps();
    kernels_overlap();
    recording_lock();
    pins();
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}
