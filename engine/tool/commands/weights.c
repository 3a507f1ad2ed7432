/*
 * weights.c: makes a full-size model with generated weights.
 */
#include "tool.h"

int
command_weights(const Options *o)
{
    VaeModel *model = NULL;
    VaeError error;
    OutputFormat format;
    VaeStatus status =
        output_format(o->argument[1], "weights", &format, &error);
    if (status == VAE_OK)
        status = vae_model_generate(o->argument[0], &model, &error);
    if (status == VAE_OK)
        status = vae_model_write(model, o->argument[1], o->dtype, &error);
    vae_model_free(&model);
    return status == VAE_OK ? EXIT_OK : fail(&error);
}
