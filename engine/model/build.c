/*
 * build.c: builds a model's programs.
 */
#include "model.h"

static VaeStatus
find(void *user, const VaeTensorQuery *q, long *out, VaeError *error)
{
    *out = vae_model_find_required(user, q->name, q->likely);
    return *out >= 0
               ? VAE_OK
               : vae_fail(error, VAE_ERR_MODEL,
                          "tensor \"%s\" is not part of this model", q->name);
}

/* Like find(), but adds a new tensor to the list. */
static VaeStatus
require(void *user, const VaeTensorQuery *q, long *out, VaeError *error)
{
    *out = vae_model_require(user, q);
    return *out >= 0 ? VAE_OK
                     : vae_fail(error, VAE_ERR_MEMORY, "out of memory");
}

static const VaeTensorInfo *
required_at(void *user, long i)
{
    const VaeModel *m = user;
    return &m->required[i].found;
}

VaeStatus
vae_model_build(const VaeModel *model, const VaeBuildParams *params,
                VaeProgram **out, VaeError *error)
{
    const bool decode = params->direction == VAE_DECODE;
    const VaeModelInfo *info = &model->info;
    VaeBuildParams p = *params;
    p.network = (VaeNetwork){.forward = decode ? model->arch->decode
                                               : model->arch->encode,
                             .arch_data = model->arch_data,
                             .steps = decode ? info->decode : info->encode,
                             .latent_channels = info->latent_channels,
                             .tensors = {.find = p.dry_run ? require : find,
                                         .at = required_at,
                                         .user = (VaeModel *) model,
                                         .file = model->file}};
    return vae_program_build(&p, out, error);
}

/* ------------------------------------------------------------------ */

static VaeStatus
dry_run(VaeModel *model, VaeDirection direction, bool first, VaeError *error)
{
    VaeCarrySet carries = {0};
    const int side = direction == VAE_DECODE ? 2 : 2 * model->info.spatial;
    VaeProgram *program;
    const VaeStatus status =
        vae_model_build(model,
                        &(VaeBuildParams){.direction = direction,
                                          .first = first,
                                          .steps = 1,
                                          .height = side,
                                          .width = side,
                                          .act = VAE_TYPE_F32,
                                          .label = "dry run",
                                          .carries = &carries,
                                          .dry_run = true},
                        &program, error);
    vae_program_free(&program);
    vae_carry_set_free(&carries);
    return status;
}

VaeStatus
vae_model_dry_run(VaeModel *model, VaeError *error)
{
    const bool has[2] = {model->info.has_decoder, model->info.has_encoder};
    for (int d = 0; d < 2; d++)
        for (int first = 0; has[d] && first < 2; first++) {
            const VaeStatus status =
                dry_run(model, d ? VAE_ENCODE : VAE_DECODE, first, error);
            if (status != VAE_OK)
                return status;
            if (d == 0)
                model->n_decoder = model->n_required;
        }
    return VAE_OK;
}

VaeStatus
vae_model_history(const VaeModel *model, VaeDirection direction, int *steps,
                  VaeError *error)
{
    const bool decode = direction == VAE_DECODE;
    const VaeModelInfo *info = &model->info;
    const int side = decode ? 1 : info->spatial;
    VaeCarrySet carries = {0};
    VaeProgram *next = NULL;
    if (decode ? !info->has_decoder : !info->has_encoder)
        return vae_fail(error, VAE_ERR_MODEL, "%s has no %s", info->path,
                        decode ? "decoder" : "encoder");
    VaeStatus status = vae_model_build(model,
                                       &(VaeBuildParams){.direction = direction,
                                                         .steps = 1,
                                                         .height = side,
                                                         .width = side,
                                                         .label = "history",
                                                         .carries = &carries},
                                       &next, error);
    if (status == VAE_OK && !vae_program_receptive_field(next, steps))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    vae_program_free(&next);
    vae_carry_set_free(&carries);
    return status;
}
