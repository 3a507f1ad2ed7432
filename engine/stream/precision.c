/*
 * precision.c: chooses the precision for AUTO by timing convolutions, if the
 * processor's flags do not decide it. Warns if the precision asked for is slow.
 */
#include <stdio.h>
#include <string.h>

#include "stream.h"

/*
 * AUTO takes fp32 if the largest convolutions take more than this many times as
 * long in bf16. All other ops are faster in bf16, which moves half the bytes.
 * On an AMD EPYC with AVX512_BF16 whole networks took 0.49 to 0.91 times as
 * long where these took 0.51 to 1.10 times (docs/measurements/cpu.md).
 */
#define SLOWER 1.15

/* Width and height of the timed picture, in latent pixels. */
enum { SIDE = 4 };

typedef struct Times {
    double seconds[2]; /* fp32, bf16; zeros: nothing to compare */
} Times;

static VaeStatus
build(const VaeStream *s, VaePrecision precision, VaeProgram **out)
{
    const int unit =
        s->params.direction == VAE_DECODE ? 1 : s->model->info.spatial;
    VaeCarrySet carries = {0};
    const VaeStatus status =
        vae_model_build(s->model,
                        &(VaeBuildParams){.direction = s->params.direction,
                                          .steps = 1,
                                          .height = SIDE * unit,
                                          .width = SIDE * unit,
                                          .act = vae_act_type(precision),
                                          .sum = VAE_TYPE_F32,
                                          .label = "precision",
                                          .carries = &carries},
                        out, NULL);
    if (status == VAE_OK)
        vae_program_fuse(*out, *out, s->class->fusions, (VaeCuts){0});
    vae_carry_set_free(&carries);
    return status;
}

static VaeStatus
make_times(void *user, void *dst, VaeError *error)
{
    const VaeStream *s = user;
    VaeProgram *programs[2] = {NULL, NULL};
    Times times = {{0, 0}};
    if (build(s, VAE_PRECISION_FP32, &programs[0]) == VAE_OK &&
        build(s, VAE_PRECISION_BF16, &programs[1]) == VAE_OK &&
        !s->class->compare(
            s->backend, (const VaeProgram *const[]){programs[0], programs[1]},
            times.seconds))
        times = (Times){{0, 0}};
    vae_program_free(&programs[0]);
    vae_program_free(&programs[1]);
    memcpy(dst, &times, sizeof times);
    return VAE_OK;
}

/* Takes the times from the model's cache, because all of its streams must
 * choose the same precision. */
static Times
take_times(VaeStream *s)
{
    struct {
        char table[8];
        int direction;
    } key = {.table = "times", .direction = (int) s->params.direction};
    const void *times = NULL;
    const VaeWeightRequest request = {.key = &key,
                                      .key_size = sizeof key,
                                      .bytes = sizeof(Times),
                                      .make = make_times,
                                      .user = s};
    if (vae_weight_cache_get(&s->model->weights, &request, &times, NULL) !=
        VAE_OK)
        return (Times){{0, 0}};
    return *(const Times *) times;
}

void
vae_stream_settle_precision(VaeStream *s)
{
    const VaeStreamParams *p = &s->params;
    const bool automatic = p->precision == VAE_PRECISION_AUTO &&
                           p->direction == VAE_DECODE && !p->deterministic;
    if (s->class->compare && p->deterministic && s->why[0] &&
        s->plan.precision == VAE_PRECISION_FP32)
        snprintf(s->why + strlen(s->why), sizeof s->why - strlen(s->why), "%s",
                 ", and deterministic times nothing");
    if (!s->class->compare || s->borrowed || !automatic)
        return;
    const Times times = take_times(s);
    const double fp32 = times.seconds[0], bf16 = times.seconds[1];
    if (fp32 <= 0 || bf16 <= 0)
        return;
    s->plan.precision =
        bf16 > SLOWER * fp32 ? VAE_PRECISION_FP32 : VAE_PRECISION_BF16;
    snprintf(s->why, sizeof s->why,
             "the model's largest convolutions take %.2f times as long in "
             "bf16 as in fp32",
             bf16 / fp32);
}

void
vae_stream_warn_of_precision(VaeStream *s)
{
    const VaeStreamParams *p = &s->params;
    char line[300];
    if (!s->class->compare || s->borrowed || !p->warn ||
        p->precision != VAE_PRECISION_BF16)
        return;
    const Times times = take_times(s);
    const double fp32 = times.seconds[0], bf16 = times.seconds[1];
    if (fp32 <= 0 || bf16 <= SLOWER * fp32)
        return;
    snprintf(line, sizeof line,
             "precision bf16 is slow on this processor, which has no AMX: "
             "the model's largest convolutions would be %.1f times as fast "
             "in fp32; use precision fp32 or auto, or keep bf16 to save "
             "memory",
             bf16 / fp32);
    p->warn(p->log_user, line);
}
