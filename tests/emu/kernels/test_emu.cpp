/*
 * test_emu.cpp: tests the emulation. Correct kernels run, and each kind of
 * wrong kernel ends the process with a message that names the fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.cuh"
#include "ptx/matrix.cuh"

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define ASAN true
#else
#define ASAN false
#endif

namespace
{

enum { THREADS = 64 };

int failures;
float out[THREADS];

void
expect(bool ok, const char *what)
{
    if (!ok) {
        printf("FAIL: %s\n", what);
        failures++;
    }
}

/* ------------------------------------------------------- right kernels */

/* Each thread reads the number that its neighbour writes, with or without a
 * barrier in between. */
VAE_KERNEL void
rotate(float *y, int step, bool barrier)
{
    VAE_SHARED(float, shared);
    const int i = (int) threadIdx.x;
    shared[i] = (float) i;
    if (barrier)
        __syncthreads();
    y[i] = shared[(i + THREADS + step) % THREADS];
}

/* Runs three launches, one in each order. Returns the number of correct ones.
 */
int
right_launches(int step, bool barrier)
{
    int right = 0;
    for (int k = 0; k < 3; k++) {
        vae_launch(rotate, 1, THREADS, sizeof out, nullptr, out, step, barrier);
        bool ok = true;
        for (int i = 0; i < THREADS; i++)
            ok = ok && out[i] == (float) ((i + THREADS + step) % THREADS);
        right += ok;
    }
    return right;
}

VAE_KERNEL void
shuffles(float *y)
{
    const float v = (float) threadIdx.x;
    y[threadIdx.x] = vae_lanes_sum(v, 32) + __shfl_sync(VAE_ALL_LANES, v, 3);
}

VAE_KERNEL void
copies(float *y)
{
    VAE_SHARED(float, shared);
    static const float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int i = 0; i < 2; i++) {
        vae_ptx_copy_async(shared + 4 * i, from + 4 * i, false);
        vae_ptx_copy_commit();
    }
    vae_ptx_copy_wait<1>();
    y[0] = shared[0];
    y[1] = shared[4]; /* not copied yet: NaN */
    vae_ptx_copy_wait<0>();
    y[2] = shared[4];
}

typedef void (*Submitted)(void *task);
Submitted held_run;
void *held_task, *held_stream;

void
hold(void *stream, Submitted run, void *task)
{
    held_stream = stream;
    held_run = run;
    held_task = task;
}

void
test_right(void)
{
    expect(right_launches(1, true) == 3, "a barrier orders reads and writes");
    expect(right_launches(-1, true) == 3, "a barrier orders them downwards");
    expect(right_launches(1, false) < 3, "a missing barrier shows");
    expect(right_launches(-1, false) < 3, "it shows downwards");
    vae_launch(shuffles, 1, THREADS, 0, nullptr, out);
    expect(out[0] == 496 + 3 && out[63] == 1520 + 35, "sums over lanes");
    float got[3];
    vae_launch(copies, 1, 32, 32, nullptr, got);
    expect(got[0] == 1 && got[1] != got[1] && got[2] == 5,
           "copies are there when they are waited for");

    vae_emu_set_submit(hold);
    out[5] = -1;
    vae_launch(rotate, 1, THREADS, sizeof out, out, out, 0, true);
    expect(out[5] == -1 && held_stream == out, "a launch can be held back");
    held_run(held_task);
    expect(out[5] == 5, "a launch that was held back runs");
    vae_emu_set_submit(nullptr);
}

/* ------------------------------------------------------- wrong kernels */

VAE_KERNEL void
some_return(void)
{
    if (threadIdx.x < 5)
        return;
    __syncthreads();
}

VAE_KERNEL void
two_barriers(void)
{
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads();
}

VAE_KERNEL void
few_lanes(float *y)
{
    if (threadIdx.x % 32 < 16)
        y[threadIdx.x] = __shfl_xor_sync(VAE_ALL_LANES, 1.0f, 1);
}

VAE_KERNEL void
part_mask(float *y)
{
    y[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);
}

VAE_KERNEL void
two_shuffles(float *y)
{
    if (threadIdx.x % 2)
        y[threadIdx.x] = __shfl_sync(VAE_ALL_LANES, 1.0f, 1);
    else
        y[threadIdx.x] = __shfl_xor_sync(VAE_ALL_LANES, 1.0f, 1);
}

VAE_KERNEL void
past_shared(void)
{
    VAE_SHARED(float, shared);
    shared[threadIdx.x + 1] = 0;
}

VAE_KERNEL void
odd_address(const uint16_t *x)
{
    uint32_t word[4];
    vae_load16(word, x + 1);
}

VAE_KERNEL void
forgotten_copy(const uint16_t *x)
{
    VAE_SHARED(float, shared);
    vae_ptx_copy_async(shared, x, false);
    vae_ptx_copy_commit();
}

VAE_KERNEL void
not_tf32(void)
{
    float d[4] = {0};
    uint32_t a[4] = {0}, b[2] = {0, 1};
    vae_ptx_multiply_tf32(d, a, b);
}

alignas(16) const uint16_t numbers[16] = {0};

/* The child process must end by itself after it has printed `words`. */
void
expect_end(void (*run)(void), const char *words)
{
    int ends[2];
    char text[4096];
    size_t n = 0;
    fflush(stdout);
    if (pipe(ends))
        abort();
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        run();
        _exit(0);
    }
    close(ends[1]);
    ssize_t got;
    while (n + 1 < sizeof text &&
           (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t) got;
    text[n] = 0;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if ((WIFEXITED(status) && !WEXITSTATUS(status)) || !strstr(text, words)) {
        printf("FAIL: expected the end with \"%s\", got status %d and: %s\n",
               words, status, text);
        failures++;
    }
}

void
test_wrong(void)
{
    expect_end([] { vae_launch(some_return, 1, THREADS, 0, nullptr); },
               "threads wait for others");
    expect_end([] { vae_launch(two_barriers, 1, THREADS, 0, nullptr); },
               "is at the barrier");
    expect_end([] { vae_launch(few_lanes, 1, THREADS, 0, nullptr, out); },
               "threads wait for others");
    expect_end([] { vae_launch(part_mask, 1, THREADS, 0, nullptr, out); },
               "mask 0000ffff");
    expect_end([] { vae_launch(two_shuffles, 1, THREADS, 0, nullptr, out); },
               "while its warp is at");
    expect_end(
        [] {
            vae_launch(past_shared, 1, THREADS, sizeof(float) * THREADS,
                       nullptr);
        },
        ASAN ? "AddressSanitizer" : "shared memory was written outside");
    expect_end([] { vae_launch(odd_address, 1, THREADS, 0, nullptr, numbers); },
               "16 bytes at");
    expect_end(
        [] { vae_launch(forgotten_copy, 1, THREADS, 16, nullptr, numbers); },
        "before its copies are waited for");
    expect_end([] { vae_launch(not_tf32, 1, THREADS, 0, nullptr); },
               "00000001 is no TF32");
    expect_end([] { vae_launch(some_return, 0, THREADS, 0, nullptr); },
               "a grid of 0 x 1 x 1");
    expect_end(
        [] {
            vae_emu_set_capability(86);
            vae_launch(some_return, 1, THREADS, (99 << 10) + 1, nullptr);
        },
        "with 101377 bytes");
    expect_end(
        [] { vae_launch(some_return, 1, THREADS, (227 << 10) + 1, nullptr); },
        "with 232449 bytes");
    expect_end(
        [] {
            vae_emu_set_capability(75);
            vae_launch(some_return, 1, THREADS, (64 << 10) + 1, nullptr);
        },
        "with 65537 bytes");
    expect_end(
        [] { vae_launch(some_return, dim3(1, 65536), THREADS, 0, nullptr); },
        "a grid of 1 x 65536 x 1");
}

} // namespace

int
main(void)
{
    test_right();
    test_wrong();
    printf("%d failed\n", failures);
    return failures != 0;
}
