/*
 * plan.c: prints the memory and work of a stream.
 */
#include "tool.h"

const char *
bytes_text(uint64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double v = (double) bytes / 1024;
    int i = 0;
    while (v >= 1000 && i < 3) {
        v /= 1024;
        i++;
    }
    snprintf(buffer, size, "%.2f %s", v, units[i]);
    return buffer;
}

static void
print_bytes(FILE *to, const char *what, uint64_t bytes)
{
    char text[32];
    fprintf(to, "  %-12s %16llu bytes %12s\n", what, (unsigned long long) bytes,
            bytes_text(bytes, text, sizeof text));
}

void
plan_print(FILE *to, VaeDirection direction, const VaePlan *plan)
{
    char setting[160];
    vae_plan_setting(plan, setting, sizeof setting);
    fprintf(to, "%s: %s, %s, %d thread%s, %s, %dx%d inside\n",
            direction == VAE_DECODE ? "decode" : "encode",
            vae_backend_name(plan->backend),
            vae_precision_name(plan->precision), plan->threads,
            plan->threads == 1 ? "" : "s", setting, plan->padded_width,
            plan->padded_height);
    print_bytes(to, "weights", plan->weights);
    print_bytes(to, "carries", plan->carries);
    if (plan->spilled)
        print_bytes(to, "  on host", plan->spilled);
    if (plan->tiles)
        print_bytes(to, "tiles on host", plan->tiled);
    print_bytes(to, "activations", plan->arena);
    print_bytes(to, "scratch", plan->scratch);
    print_bytes(to, "staging", plan->staging);
    print_bytes(to, "library", plan->library);
    if (plan->fallback)
        print_bytes(to, "fallback", plan->fallback);
    print_bytes(to, "total", plan->total);
    print_bytes(to, "loading", plan->loading);
    print_bytes(to, "peak", plan->peak);
    fprintf(to, "  first step %.3f GFLOP, later steps %.3f GFLOP\n",
            plan->flop_first * 1e-9, plan->flop_step * 1e-9);
}

/* A setting of the ladder. */
typedef struct Rung {
    int slice, frames, strips; /* frames at once; 0: all, and whole pictures */
    VaeSpill spill;
} Rung;

static void
print_rung(VaeModel *model, const VaeStreamParams *params, Rung rung,
           const VaePlan *chosen)
{
    VaeStreamParams one = *params;
    VaePlan plan = VAE_INIT(VaePlan);
    char setting[160], text[32], copied[32], bus[32];
    one.memory_limit = SIZE_MAX;
    one.log = one.warn = NULL;
    one.slice_size = rung.slice;
    one.frames_at_once = rung.frames;
    one.strips = rung.strips ? rung.strips : 1;
    one.spill = rung.spill;
    one.tiles = VAE_TILES_OFF;
    if (vae_stream_plan(model, &one, &plan, NULL) != VAE_OK ||
        plan.frames_at_once != rung.frames || plan.strips != rung.strips ||
        (rung.spill == VAE_SPILL_HOST && plan.spilled == 0))
        return;
    vae_plan_setting(&plan, setting, sizeof setting);
    printf("  %s: peak %llu bytes %s; a step: %.3f GFLOP, %s copied, %s to and "
           "from the host",
           setting, (unsigned long long) plan.peak,
           bytes_text(plan.peak, text, sizeof text), plan.flop_step * 1e-9,
           bytes_text(plan.copied_step, copied, sizeof copied),
           bytes_text(plan.bus_step, bus, sizeof bus));
    const bool same = rung.slice == chosen->slice_size &&
                      rung.frames == chosen->frames_at_once &&
                      rung.strips == chosen->strips && !chosen->tiles &&
                      !plan.spilled == !chosen->spilled;
    printf("%s\n", !same                             ? ""
                   : plan.spilled != chosen->spilled ? "; chosen, in part"
                                                     : "; chosen");
}

/* What each rung of the ladder would take without a limit, the fastest first.
 * chosen: of 0 steps, where none fits. */
static void
print_ladder(VaeModel *model, const VaeStreamParams *params,
             const VaePlan *chosen)
{
    static const Rung rungs[] = {
        {4, 0, 0, VAE_SPILL_OFF},  {2, 0, 0, VAE_SPILL_OFF},
        {1, 0, 0, VAE_SPILL_OFF},  {1, 0, 4, VAE_SPILL_OFF},
        {1, 0, 8, VAE_SPILL_OFF},  {1, 2, 8, VAE_SPILL_OFF},
        {1, 1, 16, VAE_SPILL_OFF}, {1, 0, 0, VAE_SPILL_HOST},
        {1, 0, 4, VAE_SPILL_HOST}, {1, 0, 8, VAE_SPILL_HOST},
        {1, 2, 8, VAE_SPILL_HOST}, {1, 1, 16, VAE_SPILL_HOST}};
    if (params->slice_size || params->strips || params->tile_width)
        return;
    puts("  ladder, with an estimate of the cost: operations, and carries that "
         "are copied");
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++)
        if (params->spill == VAE_SPILL_AUTO || params->spill == rungs[i].spill)
            print_rung(model, params, rungs[i], chosen);
}

int
command_plan(const Options *o)
{
    VaeModel *model = NULL;
    VaeError error;
    VaeStatus status = o->arch ? vae_model_outline(o->arch, &model, &error)
                               : open_model(o, &model, &error);
    if (status != VAE_OK)
        return fail(&error);
    const VaeModelInfo *info = vae_model_info(model);
    const bool has[] = {info->has_decoder, info->has_encoder};
    static const VaeDirection directions[] = {VAE_DECODE, VAE_ENCODE};
    printf("%s at %dx%d\n", info->arch, o->width, o->height);
    for (int i = 0; i < 2 && status == VAE_OK; i++) {
        const VaeStreamParams params =
            stream_params(o, directions[i], o->width, o->height);
        VaePlan plan = VAE_INIT(VaePlan);
        if (!has[i])
            continue;
        status = vae_stream_plan(model, &params, &plan, &error);
        if (status == VAE_OK)
            plan_print(stdout, directions[i], &plan);
        if (status == VAE_OK || status == VAE_ERR_MEMORY)
            print_ladder(model, &params, &plan);
    }
    vae_model_free(&model);
    return status == VAE_OK ? EXIT_OK : fail(&error);
}
