/*
 * check.h: the harness of the kernel checks.
 *
 * One program tests one family of kernels. It ends with
 *
 *     VAE_CHECK_MAIN(check_this, check_that)
 *
 * A function tests its cases like this:
 *
 *     if (!vae_check_begin(t, "this_n%zu", n))
 *         return;
 *     float *x = vae_check_random(t, n, 1);
 *     float *want = vae_check_buffer(t, n * 4, 4);
 *     float *got = vae_check_buffer(t, n * 4, 4);
 *     t->ref->this(&t->queue, want, x, n);
 *     t->dut->this(&t->queue, got, x, n);
 *     vae_check_close(t, "y", got, want, n, (VaeBound){1e-6, 1e-6});
 *     while (vae_check_bench(t, 8.0 * n, 0))
 *         t->dut->this(&t->queue, got, x, n);
 *
 * The random numbers of a case depend on the program's seed and on the name of
 * the case, so that a case gives the same result alone. Buffers live until the
 * next case begins, which checks the guards around them. A failed check is
 * printed with the options that repeat it, and the run continues.
 *
 * Options: --seed N, --only TEXT (cases whose name contains it), --bench
 * (also times them), --threads N (of t->queue), --list.
 */
#ifndef VAE_CHECK_H
#define VAE_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "vae-private/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_COUNT(a) (sizeof(a) / sizeof(a)[0])

typedef struct VaeCheckBlock VaeCheckBlock;

typedef struct VaeCheck {
    const VaeKernels *ref;
    const VaeKernels *dut; /* under test: cpu, cuda, or NULL without them */
    bool cuda;             /* dut is cuda, emulated: F16 everywhere */
    VaeQueue
        queue; /* with --threads threads and the best vector instructions */

    /* Private. */
    uint64_t seed, state;
    const char *only;
    bool bench, list;
    char name[128];
    int cases, failures, case_failures;
    VaeCheckBlock *blocks;
    uint64_t bench_start, bench_calls;
} VaeCheck;

typedef void (*VaeCheckFunc)(VaeCheck *t);

/* Returns the exit status of the program: 0, 1, or 2 for wrong options. */
int vae_check_main(int argc, char **argv, const VaeCheckFunc *funcs, size_t n);
#define VAE_CHECK_MAIN(...)                                                    \
    int main(int argc, char **argv)                                            \
    {                                                                          \
        static const VaeCheckFunc all[] = {__VA_ARGS__};                       \
                                                                               \
        return vae_check_main(argc, argv, all, VAE_COUNT(all));                \
    }

/* Begins a case. Returns false if it must not run. Names contain no spaces. */
bool vae_check_begin(VaeCheck *t, const char *format, ...) VAE_PRINTF(2, 3);

/*
 * Returns memory between guards, filled with 0xff, which is NaN in every float
 * type. size: the bytes of an element. The address is a multiple of size, and
 * in some cases also of 64. With AddressSanitizer the guards are poisoned.
 */
void *vae_check_buffer(VaeCheck *t, size_t bytes, size_t size);
/* The same, at an address of a multiple of 64 plus `past` bytes. */
void *vae_check_buffer_at(VaeCheck *t, size_t bytes, size_t past);
/* Returns a counter that kernels increment, with the value `from`. */
uint64_t *vae_check_counter(VaeCheck *t, uint64_t from);
/* Returns n floats of a nearly normal distribution with this deviation. */
float *vae_check_random(VaeCheck *t, size_t n, float deviation);
/* Returns the same numbers as BF16. */
uint16_t *vae_check_bf16(VaeCheck *t, const float *x, size_t n);
/* Converts BF16 to floats. */
float *vae_check_floats(VaeCheck *t, const uint16_t *x, size_t n);
/* Returns the n expected results of a SiLU in a type of 16 bits, which are y
 * rounded. A kernel may round a number that is off by 2^-17 of y or by 1e-36. A
 * result of such a rounding in `found` is also expected. */
const void *vae_check_silu(VaeCheck *t, const void *found, const float *y,
                           size_t n, VaeType type);

/* Converts n floats to a type, at a multiple of 64 plus `past` bytes, and back.
 */
void *vae_check_narrow(VaeCheck *t, const float *x, size_t n, VaeType type,
                       size_t past);
float *vae_check_widen(VaeCheck *t, const void *x, size_t n, VaeType type);
size_t vae_check_size(VaeType type); /* bytes of an element */

uint64_t vae_check_bits(VaeCheck *t);               /* 64 random bits */
int vae_check_range(VaeCheck *t, int from, int to); /* both included */

/* Reports that the case failed. The run continues. */
void vae_check_fail(VaeCheck *t, const char *format, ...) VAE_PRINTF(2, 3);
/* Fails with the text unless ok. Returns ok. */
bool vae_check_that(VaeCheck *t, bool ok, const char *text);
/* |got - want| <= absolute + relative * |want|. NaN equals only NaN. */
typedef struct VaeBound {
    double absolute, relative;
} VaeBound;
static const VaeBound vae_no_difference = {0, 0};
void vae_check_close(VaeCheck *t, const char *what, const float *got,
                     const float *want, size_t n, VaeBound bound);
/* Compares one row of n channels with its definition. Returns false, and
 * reports the first difference above the bound; format: which row. */
bool vae_check_row(VaeCheck *t, const float *got, const double *want, int n,
                   double bound, const char *format, ...) VAE_PRINTF(6, 7);
void vae_check_equal(VaeCheck *t, const char *what, const void *got,
                     const void *want, size_t bytes);

/* Returns a guarded buffer for VaeNormArgs.sums, large enough for both tables.
 */
double *vae_check_norm_sums(VaeCheck *t, const VaeNormArgs *a);

/*
 * Returns true while the timed loop must continue; always false without
 * --bench. The first round is a warm-up. bytes and flop: those of one round, or
 * 0 if unknown.
 */
bool vae_check_bench(VaeCheck *t, double bytes, double flop);

/* Enumerates queues whose results must be equal to the byte: with 1, 2 and 3
 * threads and every vector instruction set. Returns false after the last one.
 * The emulated cuda kernels run their threads in another order at each call. A
 * device (VAE_CHECK_DEVICE) heeds none of this: each call runs twice. */
bool vae_check_queue(size_t i, VaeQueue *q);
/* False if equal calls run their threads in the same order, as an interpreter
 * does. */
bool vae_check_order_varies(void);

#ifdef __cplusplus
}
#endif
#endif
