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
 * A test program that defines and exports this is called before every op of a
 * run, on the thread that runs. op: of n_ops. steps: of this run. first: it
 * begins a sequence. cancel: is set where the run is to end; a call that waits
 * looks at it.
 *
 * Without it, a step takes VAE_FAKE_STEP_US microseconds of sleep and a run
 * VAE_FAKE_RUN_US more; neither by default.
 */
void fake_backend_at(FakePoint point, int op, int n_ops, int steps, bool first,
                     const atomic_bool *cancel);

/*
 * A test program that exports this is called before each program of a stream is
 * prepared. True: the preparation waits until the stream is cancelled.
 */
bool fake_backend_waits(void);

#endif
