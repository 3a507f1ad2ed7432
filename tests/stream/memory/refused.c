/*
 * refused.c: a stream that does not fit is refused quickly: with few plans, and
 * without questions to the backend, which take long. The error then names a
 * lower bound of the memory.
 *
 * refused MODEL BACKEND PRECISION. The linker redirects vae_program_plan(),
 * vae_cpu_can_strip() and vae_mem_left() to this file.
 */
#include <math.h>

#include "../streams.h"

#include "stream.h"

static int planned, asked;
static uint64_t left = UINT64_MAX; /* free memory */

/* The names are the linker's. */
bool __real_vae_program_plan(VaeProgram *p);
bool __wrap_vae_program_plan(VaeProgram *p);
bool __real_vae_cpu_can_strip(void *cpu, const VaeOp *op);
bool __wrap_vae_cpu_can_strip(void *cpu, const VaeOp *op);

uint64_t __wrap_vae_mem_left(int threads, bool *limited);

uint64_t
__wrap_vae_mem_left(int threads, bool *limited)
{
    (void) threads;
    *limited = false;
    return left;
}

bool
__wrap_vae_program_plan(VaeProgram *p)
{
    planned++;
    return __real_vae_program_plan(p);
}

bool
__wrap_vae_cpu_can_strip(void *cpu, const VaeOp *op)
{
    asked++;
    return __real_vae_cpu_can_strip(cpu, op);
}

static void
refuse(const Bed *bed, VaeDirection direction, bool tiles, int most)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    const VaeStreamParams params = {.struct_size = sizeof params,
                                    .direction = direction,
                                    .backend = bed->backend,
                                    .precision = bed->precision,
                                    .width = 512,
                                    .height = 512,
                                    .memory_limit = 1,
                                    .threads = 1,
                                    .tiles = tiles};
    planned = asked = 0;
    expect(vae_stream_plan(bed->model, &params, &plan, &error) ==
               VAE_ERR_MEMORY,
           "%s", error.message);
    expect(planned > 0 && planned <= most && asked == 0,
           "%s, tiles %s: %d programs planned, %d questions about strips",
           direction == VAE_DECODE ? "decode" : "encode",
           tiles ? "blend" : "off", planned, asked);
}

/* A memory limit that a refusal names as a lower bound does not suffice. With
 * higher limits, refusals name memory that suffices. */
static void
follow(const Bed *bed, VaeDirection direction)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    VaeStreamParams params = {.struct_size = sizeof params,
                              .direction = direction,
                              .backend = bed->backend,
                              .precision = bed->precision,
                              .width = 32,
                              .height = 32,
                              .memory_limit = 1,
                              .threads = 1};
    double mib = 0;
    vae_stream_plan(bed->model, &params, &plan, &error);
    const bool bound = sscanf(error.found, "more than %lf", &mib) == 1;
    params.memory_limit = (size_t) (mib * 1048576);
    expect(bound && vae_stream_plan(bed->model, &params, &plan, &error) ==
                        VAE_ERR_MEMORY,
           "%.1f MiB: %s", mib, error.message);
    for (int part = 0; part < 8; part++) {
        const uint64_t limit = params.memory_limit += 1 << 18;
        double enough = 0;
        if (vae_stream_plan(bed->model, &params, &plan, &error) == VAE_OK)
            break;
        const bool named = sscanf(error.found, "%lf", &enough) == 1;
        params.memory_limit = (size_t) ceil(enough * 1048576);
        expect(named && params.memory_limit > limit &&
                   vae_stream_plan(bed->model, &params, &plan, &error) ==
                       VAE_OK,
               "%.1f MiB: %s", enough, error.message);
        params.memory_limit = limit;
    }
}

/* The smaller picture that a refusal suggests fits in the same memory. */
static void
take_advice(const Bed *bed, VaeStreamParams params, const char *refusal)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    const char *at = strstr(refusal, "settings that would fit: ");
    for (; at; at = strstr(at + 1, ", or "))
        if (sscanf(at, "settings that would fit: %dx%d (", &params.width,
                   &params.height) == 2 ||
            sscanf(at, ", or %dx%d (", &params.width, &params.height) == 2)
            expect(vae_stream_plan(bed->model, &params, &plan, &error) ==
                       VAE_OK,
                   "%s: %s", refusal, error.message);
}

/* A rung that fits is chosen. If none fits, the refusal names the least
 * memory. */
static void
try_limit(const Bed *bed, VaeStreamParams params, uint64_t limit,
          uint64_t least)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    const double needed = (double) least / 1048576;
    double mib = 0;
    left = limit;
    if (params.memory_limit)
        params.memory_limit = (size_t) limit;
    const VaeStatus status =
        vae_stream_plan(bed->model, &params, &plan, &error);
    if (limit >= least) {
        expect(status == VAE_OK && plan.peak <= limit,
               "%.2f MiB, least %.2f: %s", (double) limit / 1048576, needed,
               error.message);
        return;
    }
    const bool good = sscanf(error.found, "more than %lf", &mib) == 1
                          ? mib <= needed + 0.05
                          : sscanf(error.found, "%lf", &mib) == 1 &&
                                fabs(mib - ceil(needed * 10) / 10) < 0.01;
    expect(status == VAE_ERR_MEMORY && good, "%.2f MiB, least %.2f: %s",
           (double) limit / 1048576, needed, error.message);
    take_advice(bed, params, error.message);
}

/* The last rung does not always need the least memory: in bf16, strips need
 * more memory of the library. The limit is that of the caller, or the free
 * memory, of which most rungs may use only a part. */
static void
compare(const Bed *bed, bool limited)
{
    VaeRungPlan rungs[VAE_RUNGS];
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    const VaeStreamParams params = {.struct_size = sizeof params,
                                    .backend = bed->backend,
                                    .precision = bed->precision,
                                    .width = 48,
                                    .height = 32,
                                    .memory_limit = limited ? SIZE_MAX : 0,
                                    .threads = 1};
    uint64_t least = UINT64_MAX;
    int n;
    must(vae_stream_plan_ladder(bed->model, &params, &plan, rungs, &n, &error),
         &error);
    for (int i = 0; i < n; i++)
        if (rungs[i].plan.peak < least)
            least = rungs[i].plan.peak;
    try_limit(bed, params, least, least);
    try_limit(bed, params, least - 1, least);
    for (uint64_t limit = 1 << 19; limit < 3 << 20 && limited;
         limit += limit / 2)
        try_limit(bed, params, limit, least);
    left = UINT64_MAX;
}

int
main(int argc, char **argv)
{
    /* A plan has at most three programs. The ladder has eight rungs, and there
     * are ten sizes of tiles. The advice tries a precision, six sizes of the
     * picture, and tiles. */
    enum { PROGRAM = 3, RUNGS = 8, TILES = 10, ADVICE = 1 + 6 };
    Bed bed;
    bed_open_main(&bed, argc, argv);
    const bool bf16 = bed.precision == VAE_PRECISION_BF16;
    for (int d = 0; d < 2 && !bf16; d++) {
        const VaeDirection direction = d ? VAE_ENCODE : VAE_DECODE;
        refuse(&bed, direction, false, PROGRAM * (RUNGS + ADVICE + TILES + 1));
        refuse(&bed, direction, true,
               PROGRAM * (RUNGS + TILES + ADVICE * (TILES + 1)));
        follow(&bed, direction);
    }
    if (bf16) {
        compare(&bed, true);
        compare(&bed, false);
    }
    return bed_close(&bed);
}
