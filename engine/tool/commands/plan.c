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
    fprintf(to, "%s: %s, %s, %s, %s, %dx%d inside\n",
            direction == VAE_DECODE ? "decode" : "encode",
            vae_backend_name(plan->backend),
            vae_precision_name(plan->precision),
            VAE_COUNTED(plan->threads, "thread"), setting, plan->padded_width,
            plan->padded_height);
    print_bytes(to, "weights", plan->weights);
    print_bytes(to, "carries", plan->carries);
    if (plan->spilled)
        print_bytes(to, "  on host", plan->spilled);
    if (plan->history)
        print_bytes(to, plan->history_latent ? "history" : "keys, values",
                    plan->history);
    if (plan->history_spilled)
        print_bytes(to, "  on host", plan->history_spilled);
    if (plan->history_latent)
        print_bytes(to, "  a latent", plan->history_latent);
    if (plan->tiled)
        print_bytes(to, "tiles on host", plan->tiled);
    print_bytes(to, "activations", plan->arena);
    print_bytes(to, "scratch", plan->scratch);
    print_bytes(to, "staging", plan->staging);
    print_bytes(to, "library", plan->library);
    print_bytes(to, "ops", plan->ops);
    if (plan->fallback)
        print_bytes(to, "fallback", plan->fallback);
    print_bytes(to, "total", plan->total);
    print_bytes(to, "loading", plan->loading);
    print_bytes(to, "peak", plan->peak);
    fprintf(to, "  first step %.3f GFLOP, later steps %.3f GFLOP\n",
            plan->flop_first * 1e-9, plan->flop_step * 1e-9);
}

/* The memory of each rung of the ladder without a limit, the fastest first. */
static void
print_ladder(const VaeRungPlan *rungs, int n)
{
    char setting[160], text[32], copied[32], bus[32];
    if (n > 0)
        puts("  ladder, with an estimate of the cost: operations, and carries "
             "that are copied");
    for (int i = 0; i < n; i++) {
        const VaePlan *p = &rungs[i].plan;
        vae_plan_setting(p, setting, sizeof setting);
        printf("  %s: peak %llu bytes %s; a step: %.3f GFLOP, %s copied",
               setting, (unsigned long long) p->peak,
               bytes_text(p->peak, text, sizeof text), p->flop_step * 1e-9,
               bytes_text(p->copied_step, copied, sizeof copied));
        if (p->spilled)
            printf(", %s to and from the host",
                   bytes_text(p->bus_step, bus, sizeof bus));
        puts(rungs[i].chosen ? "; chosen" : "");
    }
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
        VaeRungPlan rungs[VAE_RUNGS];
        int n_rungs;
        if (!has[i])
            continue;
        status = vae_stream_plan_ladder(model, &params, &plan, rungs, &n_rungs,
                                        &error);
        if (status == VAE_OK)
            plan_print(stdout, directions[i], &plan);
        else if (n_rungs > 0)
            printf("%s: does not fit in memory\n",
                   directions[i] == VAE_DECODE ? "decode" : "encode");
        print_ladder(rungs, n_rungs);
    }
    vae_model_free(&model);
    return status == VAE_OK ? EXIT_OK : fail(&error);
}
