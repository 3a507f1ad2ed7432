/*
 * fake.h: a backend that computes next to nothing, for tests of what is around
 * the engine. It takes the place of the cuda backend: VAE_CUDA_MODULE names it,
 * backend=auto finds it.
 *
 * Every frame and latent that it gives has one value, which depends on all
 * units of the sequence so far and on nothing else: not on slices, threads or
 * times. So a lost, doubled or swapped unit is seen in all that follow.
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

#endif
