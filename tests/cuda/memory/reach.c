/*
 * reach.c: the pictures that fit on cards of 8 and 24 GB, by plans over the
 * emulated device. Nothing is computed.
 */

#include "../../stream/streams.h"
#include "model.h"

#define GIB ((size_t) 1 << 30)

static void
fits(const VaeArch *arch, VaeModel *model, VaeDirection direction, int width,
     int height, size_t limit)
{
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = direction,
                                    .backend = VAE_BACKEND_CUDA,
                                    .width = width,
                                    .height = height,
                                    .memory_limit = limit,
                                    .device = -1,
                                    .deterministic = true};
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    const VaeStatus status = vae_stream_plan(model, &params, &plan, &error);
    expect(status == VAE_OK && plan.peak <= limit,
           "%s, %s, %dx%d within %zu GiB: %.2f GiB, %.2f on the host, slices "
           "of %d, %d frames at once, %d strips %s",
           arch->name, direction == VAE_DECODE ? "decode" : "encode", width,
           height, limit / GIB, (double) plan.peak / (double) GIB,
           (double) plan.spilled / (double) GIB, plan.slice_size,
           plan.frames_at_once, plan.strips, error.message);
}

int
main(void)
{
    for (int i = 0; vae_archs[i]; i++) {
        VaeModel *model;
        VaeError error;
        must(vae_model_preset(vae_archs[i], true, true, &model, &error),
             &error);
        if (model->info.has_decoder)
            fits(vae_archs[i], model, VAE_DECODE, 1920, 1080, 7 * GIB);
        if (model->info.has_encoder)
            fits(vae_archs[i], model, VAE_ENCODE, 1920, 1080, 7 * GIB);
        if (strcmp(vae_archs[i]->name, "seedvr2") == 0)
            fits(vae_archs[i], model, VAE_DECODE, 3840, 2160, 23 * GIB);
        vae_model_free(&model);
    }
    return tests_end();
}
