/*
 * fake.h: a backend that computes almost nothing, for tests of everything
 * around the engine. It replaces the cuda backend: VAE_CUDA_MODULE names it,
 * and backend=auto finds it.
 *
 * Each frame and latent has one value. The value depends on all units of the
 * sequence so far, but not on slices, threads or times. A lost, doubled or
 * swapped unit therefore changes all later values.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdatomic.h>
#include <stdbool.h>

typedef enum FakePoint {
    FAKE_UPLOAD,
    FAKE_COMPUTE,
    FAKE_DOWNLOAD,
} FakePoint;

/*
 * A test program may define and export this function. It is called before every
 * op of a run, on the thread of the run. op: its number, of n_ops. steps: of
 * this run. first: the run begins a sequence. cancel: is set when the run must
 * end; a call that waits must check it.
 *
 * Without this function a step sleeps for VAE_FAKE_STEP_US microseconds, and a
 * run for VAE_FAKE_RUN_US more; both are 0 by default.
 */
void fake_backend_at(FakePoint point, int op, int n_ops, int steps, bool first,
                     const atomic_bool *cancel);

/*
 * A test program may also define and export this one. It is called before each
 * program of a stream is prepared. If it returns true, the preparation waits
 * until the stream is cancelled.
 */
bool fake_backend_waits(void);

#endif
