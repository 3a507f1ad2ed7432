/*
 * build.c: builds a model's programs.
 */
#include <string.h>

#include "arguments.h"
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
    if (decode ? !model->arch->decode : !model->arch->encode)
        return vae_fail(error, VAE_ERR_MODEL, "%s has no %s", info->arch,
                        decode ? "decoder" : "encoder");
    p.network = (VaeNetwork){
        .forward = decode ? model->arch->decode : model->arch->encode,
        .arch_data = model->arch_data,
        .steps = decode ? info->decode : info->encode,
        .whole = info->in_tiles,
        .black = info->chunk ? info->temporal - 1 : 0,
        .latent_channels = info->latent_channels,
        .picture_channels = decode ? info->out_channels : info->in_channels,
        .spatial = info->spatial,
        .tensors = {.find = p.dry_run ? require : find,
                    .at = required_at,
                    .user = (VaeModel *) model,
                    .file = model->file}};
    return vae_program_build(&p, out, error);
}

/* ------------------------------------------------------------------ */

static int
longest_window(const VaeModel *model)
{
    const VaeWindows *w = &model->windows;
    return w->size > w->first ? w->size : w->first;
}

/* The frames of a latent, except the first, are complete when temporal - 1 more
 * slots have come after that of the first one of them. A window begins when all
 * its latents are there. From then on each latent gives as many frames as a
 * step of its delay lines, so the two delays differ by whole steps. */
static void
set_delay(VaeModel *model, const VaeProgram *program)
{
    VaeModelInfo *info = &model->info;
    const VaeTensor *x = program->ops[program->n_ops - 1].x;
    info->delay = model->line_delay = x->delay - (info->temporal - 1);
    info->held = x->late;
    for (int i = 0; i < program->n_ops; i++)
        model->noisy = model->noisy || program->ops[i].kind == VAE_OP_NOISE;
    if (model->windows.size)
        info->delay = longest_window(model) * info->temporal +
                      model->line_delay % info->temporal;
    info->look_ahead = (info->delay + info->temporal - 1) / info->temporal;
}

VaeTileLatents
vae_tile_latents(int64_t plan)
{
    static const VaeTileLatents plans[] = {[VAE_TILE_PLAN_DIFFUSERS] = {5, 3},
                                           [VAE_TILE_PLAN_OFFICIAL] = {17, 12}};
    return plans[plan];
}

/* The first tile gives no frame before its last latent is there. A later one
 * gives its first frame then; each latent until the next tile is complete gives
 * as many as its own. */
VaeStatus
vae_model_lacks(const VaeModelInfo *info, VaeDirection direction,
                VaeError *error)
{
    for (int i = 0; vae_archs[i] && direction == VAE_ENCODE; i++)
        if (vae_archs[i]->encode_by &&
            strcmp(vae_archs[i]->name, info->arch) == 0)
            return vae_fail(error, VAE_ERR_UNSUPPORTED,
                            "%s: gst-vae only decodes with %s; to encode, use "
                            "%s, which has the same latent space",
                            info->path, info->arch, vae_archs[i]->encode_by);
    return vae_fail(error, VAE_ERR_MODEL, "%s: has no %s (recognised by %s)",
                    info->path, direction == VAE_DECODE ? "decoder" : "encoder",
                    info->reason);
}

VaeReach
vae_model_reach(const VaeModelInfo *info, VaeDirection direction,
                int64_t tile_plan)
{
    const int later = vae_tile_latents(tile_plan).size - 1;
    if (direction == VAE_ENCODE)
        return info->in_tiles ? (VaeReach){later, later} : (VaeReach){0};
    return info->in_tiles ? (VaeReach){later, info->temporal * (later - 1) + 1}
                          : (VaeReach){info->look_ahead, info->delay};
}

/* Builds for bf16, which tells the two types of tensors apart, and for fp32, in
 * which no conversion gives a convolution an input of its own. */
static VaeStatus
dry_run(VaeModel *model, VaeDirection direction, VaeError *error)
{
    const int side = direction == VAE_DECODE ? 2 : 2 * model->info.spatial;
    VaeCarrySet carries[2] = {{0}, {0}};
    VaeStatus status = VAE_OK;
    for (int i = 0; i < 3 && status == VAE_OK; i++) {
        const bool wide = i == 2;
        const VaeType act = wide ? VAE_TYPE_F32 : VAE_TYPE_BF16;
        VaeProgram *program = NULL;
        status = vae_model_build(model,
                                 &(VaeBuildParams){.direction = direction,
                                                   .first = i == 1,
                                                   .steps = 1,
                                                   .height = side,
                                                   .width = side,
                                                   .act = act,
                                                   .sum = VAE_TYPE_F32,
                                                   .label = "dry run",
                                                   .carries = &carries[wide],
                                                   .dry_run = true},
                                 &program, error);
        if (program && direction == VAE_DECODE && program->delayed)
            set_delay(model, program);
        vae_program_free(&program);
    }
    vae_carry_set_free(&carries[0]);
    vae_carry_set_free(&carries[1]);
    return status;
}

static VaeStatus
require_statistics(VaeModel *model, VaeError *error)
{
    const char *const names[] = {model->arch->mean, model->arch->std};
    const int64_t dims[1] = {model->info.latent_channels};
    for (int i = 0; i < 2; i++)
        if (names[i] &&
            vae_model_require(model, &(VaeTensorQuery){names[i], dims, 1, -1}) <
                0)
            return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    return VAE_OK;
}

static VaeStatus
check_description(const VaeModelInfo *info, VaeError *error)
{
    const struct {
        const char *name;
        int value;
    } positive[] = {{"spatial", info->spatial},
                    {"temporal", info->temporal},
                    {"latent_channels", info->latent_channels},
                    {"fps_n", info->fps_n},
                    {"fps_d", info->fps_d}};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (positive[i].value < 1)
            return vae_fail(error, VAE_ERR_MODEL,
                            "%s: info.%s is %d, expected a positive number",
                            info->arch, positive[i].name, positive[i].value);
    if (!(info->pixel_low < info->pixel_high))
        return vae_fail(error, VAE_ERR_MODEL,
                        "%s: info.pixel_low is %g and info.pixel_high %g, "
                        "expected a smaller and a larger number",
                        info->arch, (double) info->pixel_low,
                        (double) info->pixel_high);
    return VAE_OK;
}

/* The statistics count as the decoder's, or the encoder's if there is none. */
VaeStatus
vae_model_dry_run(VaeModel *model, VaeError *error)
{
    VaeModelInfo *info = &model->info;
    VaeStatus status = check_description(info, error);
    const VaeReach reach =
        vae_model_reach(info, VAE_DECODE, VAE_TILE_PLAN_DIFFUSERS);
    info->look_ahead = info->has_decoder ? reach.look_ahead : 0;
    info->delay = info->has_decoder ? reach.delay : 0;
    if (status == VAE_OK && model->info.has_decoder)
        status = dry_run(model, VAE_DECODE, error);
    if (status == VAE_OK)
        status = require_statistics(model, error);
    model->n_decoder = model->info.has_decoder ? model->n_required : 0;
    if (model->info.has_encoder && status == VAE_OK)
        status = dry_run(model, VAE_ENCODE, error);
    return status;
}

VaeStatus
vae_model_history(const VaeModel *model, VaeDirection direction, int *steps,
                  VaeError *error)
{
    return vae_model_looks_back(
        model, &(VaeStreamParams){.direction = direction}, steps, error);
}

VaeStatus
vae_model_looks_back(const VaeModel *model, const VaeStreamParams *params,
                     int *steps, VaeError *error)
{
    const VaeDirection direction = params->direction;
    const bool decode = direction == VAE_DECODE;
    VaeCarrySet carries = {0};
    VaeProgram *next = NULL;
    VaeStatus status = vae_check_pointers(error, "model, steps", model, steps);
    if (status == VAE_OK)
        status = vae_check_range("direction", (int) direction, VAE_DECODE,
                                 VAE_ENCODE, error);
    if (status != VAE_OK)
        return status;
    const VaeModelInfo *info = &model->info;
    const int side = decode ? 128 : 2 * info->spatial; /* past any window */
    if (decode ? !info->has_decoder : !info->has_encoder)
        return vae_fail(error, VAE_ERR_MODEL, "%s has no %s", info->path,
                        decode ? "decoder" : "encoder");
    status = vae_model_build(model,
                             &(VaeBuildParams){.direction = direction,
                                               .steps = 1,
                                               .height = side,
                                               .width = side,
                                               .label = "history",
                                               .history = (int) params->history,
                                               .carries = &carries},
                             &next, error);
    if (status == VAE_OK && !vae_program_receptive_field(next, steps))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (model->windows.size) /* its last latent needs that before it */
        *steps = longest_window(model);
    /* a latent is behind the blended ones of a tile that begins after these */
    if (info->in_tiles)
        *steps = vae_tile_latents(params->tile_plan).size - 1;
    if (!decode && info->chunk && *steps >= info->chunk)
        *steps = info->chunk - 1; /* one of these begins a chunk */
    vae_program_free(&next);
    vae_carry_set_free(&carries);
    return status;
}
