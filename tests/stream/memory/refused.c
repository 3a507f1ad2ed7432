/*
 * refused.c: a refusal takes little planning, and asks the backend nothing,
 * which takes long. It calls the memory that it knows by then a lower bound.
 *
 * refused MODEL BACKEND PRECISION. Calls of vae_program_plan() and
 * vae_cpu_can_strip() come here first.
 */
#include <math.h>

#include "../streams.h"

#include "stream.h"

static int planned, asked;

/* The names are the linker's. */
bool __real_vae_program_plan(VaeProgram *p);
bool __wrap_vae_program_plan(VaeProgram *p);
bool __real_vae_cpu_can_strip(void *cpu, const VaeOp *op);
bool __wrap_vae_cpu_can_strip(void *cpu, const VaeOp *op);

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
           "%s, tiles %s: %d programs planned, %d strips asked for",
           direction == VAE_DECODE ? "decode" : "encode",
           tiles ? "blend" : "off", planned, asked);
}

/* The memory that a refusal calls too little is too little. From there on,
 * refusals name memory that is enough. */
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

int
main(int argc, char **argv)
{
    /* At most three programs of a plan; eight rungs, ten sizes of tiles; and
     * the advice tries a precision, six sizes of the picture, and tiles. */
    enum { PROGRAM = 3, RUNGS = 8, TILES = 10, ADVICE = 1 + 6 };
    Bed bed;
    bed_open_main(&bed, argc, argv);
    for (int d = 0; d < 2; d++) {
        const VaeDirection direction = d ? VAE_ENCODE : VAE_DECODE;
        refuse(&bed, direction, false, PROGRAM * (RUNGS + ADVICE + TILES + 1));
        refuse(&bed, direction, true,
               PROGRAM * (RUNGS + TILES + ADVICE * (TILES + 1)));
        follow(&bed, direction);
    }
    return bed_close(&bed);
}
