/*
 * stream.c: opens and frees a stream.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sized.h"
#include "stream.h"
#include "vae-private/settings.h"
#include "vae-private/spaces.h"

static VaeStatus
check_size(const VaeModelInfo *info, const VaeStreamParams *p, VaeError *error)
{
    if (p->width >= 1 && p->height >= 1 && p->width <= VAE_MAX_SIDE &&
        p->height <= VAE_MAX_SIDE)
        return VAE_OK;
    char found[32], expected[32], hint[128] = "";
    snprintf(found, sizeof found, "%dx%d", p->width, p->height);
    snprintf(expected, sizeof expected, "1x1 to %dx%d", VAE_MAX_SIDE,
             VAE_MAX_SIDE);
    if (p->direction == VAE_DECODE && (p->width == 0 || p->height == 0))
        snprintf(hint, sizeof hint,
                 "; for a file of latents that states no size, it is %d "
                 "(VaeModelInfo.spatial) times that of the latents",
                 info->spatial);
    return vae_fail_parts(error, VAE_ERR_SIZE,
                          (VaeErrorParts){NULL, found, expected},
                          "size %s, expected %s%s", found, expected, hint);
}

static VaeStatus
check_params(const VaeModel *model, const VaeStreamParams *p, VaeError *error)
{
    const VaeModelInfo *info = vae_model_info(model);
    const bool decode = p->direction == VAE_DECODE;
    if (decode ? !info->has_decoder : !info->has_encoder)
        return vae_fail(error, VAE_ERR_MODEL,
                        "%s holds no %s weights, only "
                        "the %s's",
                        info->path, decode ? "decoder" : "encoder",
                        decode ? "encoder" : "decoder");
    if (p->precision == VAE_PRECISION_FP16 && model->no_fp16)
        return vae_fail_parts(
            error, VAE_ERR_UNSUPPORTED,
            (VaeErrorParts){.found = "fp16", .expected = "bf16, tf32 or fp32"},
            "%s: precision is fp16, expected bf16, tf32 or fp32: %s",
            info->path, model->no_fp16);
    if (!decode && p->posterior != VAE_POSTERIOR_MEAN && !info->has_posterior)
        return vae_fail(error, VAE_ERR_UNSUPPORTED,
                        "%s has no posterior to sample: its encoder gives the "
                        "latents themselves",
                        info->arch);
    return VAE_OK;
}

/* ------------------------------------------------------------------ */
/* Making and freeing.                                                 */

static void
set_statistics(VaeStream *s)
{
    const VaeModelInfo *info = &s->model->info;
    const bool raw = s->params.normalization == VAE_RAW;
    s->normalise = raw == info->takes_normalized;
    for (int i = 0; i < info->latent_channels; i++) {
        const float std = info->std[i], mean = info->mean[i];
        s->std[i] = info->takes_normalized ? 1 / std : std;
        s->mean[i] = info->takes_normalized ? -mean / std : mean;
        s->scale[i] = s->normalise ? s->std[i] : 1;
        s->shift[i] = s->normalise ? s->mean[i] : 0;
    }
}

/* Sets the delay: the look-ahead that the user asks for, or the look-ahead of
 * exact results. */
static void
set_delay(VaeStream *s)
{
    const VaeModelInfo *info = &s->model->info;
    VaeStreamParams *p = &s->params;
    if (!vae_stream_has_delay(s) || p->look_ahead < 0 ||
        p->look_ahead >= info->look_ahead)
        p->low_latency = false;
    s->plan.delay = vae_stream_has_delay(s) ? info->delay : 0;
    if (p->low_latency && p->look_ahead * info->temporal < s->plan.delay)
        s->plan.delay = p->look_ahead * info->temporal;
}

/* Plans the fallback stream in fp32. The memory limit holds for both streams
 * together and is checked later. Without a fallback a slice cannot be computed
 * again step by step, so a policy that looks at steps has slices of 1. */
static VaeStatus
plan_fallback(VaeStream *s, VaeError *error)
{
    VaeStreamParams params = s->params;
    if (params.nan_policy != VAE_NAN_FALLBACK ||
        (s->plan.precision != VAE_PRECISION_FP16 &&
         s->plan.precision != VAE_PRECISION_BF16)) {
        if (params.nan_policy != VAE_NAN_PASS)
            s->params.slice_size = 1;
        return VAE_OK;
    }
    params.nan_policy = VAE_NAN_PASS;
    params.backend = s->plan.backend;
    params.precision = VAE_PRECISION_FP32;
    params.threads = s->plan.threads;
    params.slice_size = 1;
    params.memory_limit = SIZE_MAX;
    params.dump = NULL;
    const VaeStatus status =
        vae_stream_open(s->model, &params, &(VaeTerms){.borrowed = s->borrowed},
                        &s->fallback, error);
    if (s->fallback)
        s->fallback->fallback_of = s;
    return status;
}

VaeStatus
vae_stream_open(VaeModel *model, const VaeStreamParams *params,
                const VaeTerms *terms, VaeStream **out, VaeError *error)
{
    *out = NULL;
    VaeStreamParams own;
    VaeStatus status = vae_sized_read(&own, sizeof own, params,
                                      VAE_SIZE_UP_TO(VaeStreamParams, height),
                                      "VaeStreamParams", error);
    if (status == VAE_OK)
        status = check_size(&model->info, &own, error);
    if (status == VAE_OK)
        status = vae_settings_check(&own, error);
    if (status == VAE_OK)
        status = check_params(model, &own, error);
    if (status != VAE_OK)
        return status;
    VaeStream *s = vae_mem_alloc(sizeof *s);
    if (!s)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    s->model = vae_model_ref(model);
    s->params = own;
    s->params.normalization =
        vae_space_normalization(model->info.space, own.normalization);
    s->plan.struct_size = sizeof s->plan;
    s->borrowed = terms->borrowed;
    s->few_rungs = terms->few_rungs;
    s->steps =
        own.direction == VAE_DECODE ? model->info.decode : model->info.encode;
    /* an encoder's run ends with its chunk */
    if (own.direction == VAE_ENCODE && model->info.chunk &&
        own.slice_size >= model->info.chunk)
        s->params.slice_size = model->info.chunk - 1;
    set_statistics(s);
    set_delay(s);
    status = vae_stream_set_tiles(s, error);
    if (status == VAE_OK)
        status = vae_stream_choose_backend(s, error);
    if (status == VAE_OK)
        status = plan_fallback(s, error);
    if (status == VAE_OK)
        status =
            vae_stream_choose_rung(s, terms->make, terms->all_rungs, error);
    if (status == VAE_OK)
        vae_stream_warn_of_precision(s);
    *out = s;
    return status;
}

VaeStatus
vae_stream_try(const VaeStream *s, const VaeStreamParams *params, VaePlan *out)
{
    VaeStream *other;
    const VaeTerms terms = {.borrowed = s->class->memory_left ? NULL : s,
                            .few_rungs = true};
    const VaeStatus status =
        vae_stream_open(s->model, params, &terms, &other, NULL);
    if (status == VAE_OK && other)
        *out = other->plan;
    vae_stream_free(&other);
    return status;
}

void
vae_stream_free(VaeStream **stream)
{
    VaeStream *s = *stream;
    *stream = NULL;
    if (!s)
        return;
    vae_stream_judge_end(s);
    assert(s->class || !s->backend);
    if (s->backend && s->class->finish)
        s->class->finish(s->backend, 0, VAE_FINISH_DISCARD, NULL);
    vae_stream_free(&s->fallback);
    vae_stream_drop_programs(s);
    if (s->backend) {
        vae_stream_free_memory(s);
        vae_stream_free_tiles(s);
        vae_carries_free(&s->carries);
        if (!s->borrowed)
            s->class->close(&s->backend);
    }
    for (int i = 0; i < PROGRAMS; i++)
        vae_mem_free(s->times[i]);
    vae_stream_free_waiting(s);
    vae_stream_guard_free(s);
    vae_model_free(&s->model);
    vae_mem_free(s);
}
