/*
 * reach.c: plans the largest pictures that fit on cards of 8 and 24 GB, on the
 * emulated device, and the largest one on a CPU. Computes nothing.
 *
 * reach cuda | cpu GIB
 */

#include "../../stream/streams.h"
#include "model.h"

#define GIB ((size_t) 1 << 30)

static VaeBackendKind backend;

static void
fits(const VaeArch *arch, VaeModel *model, VaeDirection direction, int width,
     int height, size_t limit)
{
    const bool cpu = backend == VAE_BACKEND_CPU;
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = direction,
                                    .backend = backend,
                                    .precision = cpu ? VAE_PRECISION_BF16
                                                     : VAE_PRECISION_AUTO,
                                    .width = width,
                                    .height = height,
                                    .memory_limit = limit,
                                    .device = -1,
                                    .threads = cpu ? 2 : 0,
                                    .deterministic = true};
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    const VaeStatus status = vae_stream_plan(model, &params, &plan, &error);
    if (cpu && status == VAE_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", error.message);
        exit(TEST_SKIP);
    }
    expect(status == VAE_OK && plan.peak <= limit,
           "%s, %s, %dx%d within %zu GiB: %.2f GiB, %.2f on the host, slices "
           "of %d, %d frames at once, %d strips %s",
           arch->name, direction == VAE_DECODE ? "decode" : "encode", width,
           height, limit / GIB, (double) plan.peak / (double) GIB,
           (double) plan.spilled / (double) GIB, plan.slice_size,
           plan.frames_at_once, plan.strips, error.message);
}

static void
on_device(const VaeArch *arch, VaeModel *model)
{
    /* A group norm over all frames of a tile has its whole layer. Attention
     * over a window has no strips. */
    const bool tiles = model->info.in_tiles;
    const size_t decode = tiles ? 36 : model->noisy ? 12 : 7;
    if (model->info.has_decoder)
        fits(arch, model, VAE_DECODE, 1920, 1080, decode * GIB);
    /* The encoder of HunyuanVideo 1.5 has 1.5 GiB of weights, and carries in
     * fp32. */
    const bool large = strcmp(arch->name, "hunyuan1.5") == 0;
    const size_t encode = tiles ? 37 : large ? 9 : 7;
    if (model->info.has_encoder)
        fits(arch, model, VAE_ENCODE, 1920, 1080, encode * GIB);
    if (strcmp(arch->name, "seedvr2") == 0)
        fits(arch, model, VAE_DECODE, 3840, 2160, 23 * GIB);
}

int
main(int argc, char **argv)
{
    const int cpu_gib = argc == 3 ? atoi(argv[2]) : 0;
    if (argc < 2 || !vae_backend_parse(argv[1], &backend) ||
        (backend == VAE_BACKEND_CPU) != (cpu_gib > 0)) {
        fprintf(stderr, "usage: reach cuda | cpu GIB\n");
        return 2;
    }
    for (int i = 0; vae_archs[i]; i++) {
        SCOPED_MODEL VaeModel *model = NULL;
        VaeError error;
        must(vae_model_preset(vae_archs[i], true, true, &model, &error),
             &error);
        if (backend == VAE_BACKEND_CUDA)
            on_device(vae_archs[i], model);
        else if (strcmp(vae_archs[i]->name, "seedvr2") == 0)
            fits(vae_archs[i], model, VAE_DECODE, 1920, 1080,
                 (size_t) cpu_gib * GIB);
    }
    return tests_end();
}
