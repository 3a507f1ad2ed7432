/*
 * choose.c: chooses and opens a stream's backend, and its precision. If the
 * processor's flags do not decide the precision, AUTO times convolutions. Warns
 * if the precision that was asked for is slow.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "choose.h"
#include "machine.h"
#include "vae-private/os.h"

/*
 * AUTO chooses fp32 if the largest convolutions take at least this factor
 * longer in bf16. All other ops are faster in bf16, because they move half the
 * bytes. On an AMD EPYC with AVX512_BF16 the largest convolutions took 0.51 to
 * 1.09 times as long in bf16 as in fp32, and whole networks 0.49 to 0.87 times
 * (docs/measurements/cpu.md).
 */
#define SLOWER 1.15

/* Width and height of the timed picture, in latent pixels. */
enum { SIDE = 4 };

typedef struct Times {
    double seconds[2]; /* fp32, bf16; zeros: nothing to compare */
} Times;

static VaeStatus
build(const VaeMachine *m, VaePrecision precision, VaeProgram **out)
{
    const int unit =
        m->params.direction == VAE_DECODE ? 1 : m->model->info.spatial;
    VaeCarrySet carries = {0};
    const VaeStatus status =
        vae_model_build(m->model,
                        &(VaeBuildParams){.direction = m->params.direction,
                                          .steps = 1,
                                          .height = SIDE * unit,
                                          .width = SIDE * unit,
                                          .act = vae_act_type(precision),
                                          .sum = VAE_TYPE_F32,
                                          .label = "precision",
                                          .carries = &carries},
                        out, NULL);
    if (status == VAE_OK)
        vae_program_fuse(*out, *out, vae_machine_fusions(m), (VaeCuts){0});
    vae_carry_set_free(&carries);
    return status;
}

static VaeStatus
make_times(void *user, void *dst, VaeError *error)
{
    const VaeMachine *m = user;
    VaeProgram *programs[2] = {NULL, NULL};
    Times times = {{0, 0}};
    if (build(m, VAE_PRECISION_FP32, &programs[0]) == VAE_OK &&
        build(m, VAE_PRECISION_BF16, &programs[1]) == VAE_OK &&
        !m->class->compare(
            m->backend, (const VaeProgram *const[]){programs[0], programs[1]},
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
take_times(VaeMachine *m)
{
    struct {
        char table[8];
        int direction;
    } key = {.table = "times", .direction = (int) m->params.direction};
    const void *times = NULL;
    const VaeWeightRequest request = {.key = &key,
                                      .key_size = sizeof key,
                                      .bytes = sizeof(Times),
                                      .make = make_times,
                                      .user = m};
    if (vae_weight_cache_get(&m->model->weights, &request, &times, NULL) !=
        VAE_OK)
        return (Times){{0, 0}};
    return *(const Times *) times;
}

static void
settle_precision(VaeMachine *m)
{
    const VaeStreamParams *p = &m->params;
    const bool automatic = p->precision == VAE_PRECISION_AUTO &&
                           p->direction == VAE_DECODE && !p->deterministic;
    if (m->class->compare && p->deterministic && m->why[0] &&
        m->plan.precision == VAE_PRECISION_FP32)
        snprintf(m->why + strlen(m->why), sizeof m->why - strlen(m->why), "%s",
                 ", and deterministic times nothing");
    if (!m->class->compare || m->shares || !automatic)
        return;
    const Times times = take_times(m);
    const double fp32 = times.seconds[0], bf16 = times.seconds[1];
    if (fp32 <= 0 || bf16 <= 0)
        return;
    m->plan.precision =
        bf16 > SLOWER * fp32 ? VAE_PRECISION_FP32 : VAE_PRECISION_BF16;
    snprintf(m->why, sizeof m->why,
             "the model's largest convolutions take %.2f times as long in "
             "bf16 as in fp32",
             bf16 / fp32);
}

void
vae_machine_warn_of_precision(VaeMachine *m)
{
    const VaeStreamParams *p = &m->params;
    char line[300];
    if (!m->class->compare || m->shares || !p->warn || p->deterministic ||
        p->precision != VAE_PRECISION_BF16)
        return;
    const Times times = take_times(m);
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

/* ------------------------------------------------------------------ */
/* The backend.                                                        */

/* A log function that also keeps the first and the last line. */
typedef struct Reasons {
    VaeLog to;
    char first[600], last[600];
} Reasons;

static void
keep(void *user, const char *line)
{
    Reasons *r = user;
    snprintf(r->last, sizeof r->last, "%s", line);
    if (!r->first[0])
        snprintf(r->first, sizeof r->first, "%s", line);
    vae_log(&r->to, "%s", line);
}

/* Chooses the next backend. passed: the log for the reasons why AUTO skips
 * backends. */
static VaeStatus
choose_next(VaeMachine *m, const VaeMachine *shared, int *next,
            const VaeLog *passed, VaeError *error)
{
    const VaeLog log = {m->params.log, m->params.log_user};
    VaeBackendChoice choice = {.kind = m->params.backend,
                               .precision = m->params.precision,
                               .direction = m->params.direction,
                               .next = *next};
    VaeOpeningMark begin = vae_opening_begin(&m->opening);
    const VaeStatus status = vae_backend_choose(&choice, passed, error);
    vae_opening_end(&m->opening, VAE_OPENING_BACKEND, begin);
    if (status != VAE_OK)
        return status;
    *next = choice.next;
    m->class = choice.class;
    m->plan.precision = choice.chosen;
    m->plan.backend = m->class->kind;
    /* More threads only wait for each other. A library may even end the process
     * if the system refuses a thread. */
    const int cpus = vae_os_processors(), most = cpus < 2 ? 8 : 4 * cpus;
    m->plan.threads = m->params.threads ? m->params.threads : cpus;
    if (m->plan.threads > most)
        m->plan.threads = most;
    begin = vae_opening_begin(&m->opening);
    const VaeStatus opened =
        shared
            ? VAE_OK
            : m->class->open(
                  &(VaeBackendParams){.precision = m->plan.precision,
                                      .threads = m->plan.threads,
                                      .device = m->params.device,
                                      .deterministic = m->params.deterministic,
                                      .pixels = vae_machine_widest(m),
                                      .pictures_on_device =
                                          m->params.pictures_on_device != 0 &&
                                          !m->params.tiles &&
                                          !m->model->info.in_tiles,
                                      .log = log,
                                      .opening = &m->opening,
                                      .cancelled = m->params.cancelled},
                  &m->backend, &m->device, error);
    vae_opening_end(&m->opening, VAE_OPENING_DEVICE, begin);
    if (opened != VAE_OK)
        return opened;
    if (shared) {
        m->backend = shared->backend;
        m->device = shared->device;
    }
    m->plan.threads = m->device.threads;
    m->plan.device = m->device.name;
    memcpy(m->why, choice.why, sizeof m->why);
    settle_precision(m);
    return VAE_OK;
}

/* Warns if AUTO chooses a backend without devices although a device other than
 * the first was named. */
static void
warn_of_device(const VaeMachine *m, const char *why)
{
    char line[800];
    assert(m->class);
    if (!m->params.warn || m->params.backend != VAE_BACKEND_AUTO ||
        m->params.device <= 0 || m->class->memory_left)
        return;
    snprintf(line, sizeof line,
             "device %d was asked for, and the %s backend is taken: %s",
             m->params.device, vae_backend_name(m->plan.backend), why);
    m->params.warn(m->params.log_user, line);
}

/* Warns if AUTO chooses the slowest backend. */
static void
warn_of_ref(const VaeMachine *m, const char *why)
{
    char line[800];
    if (!m->params.warn || m->params.backend != VAE_BACKEND_AUTO ||
        m->plan.backend != VAE_BACKEND_REF)
        return;
    snprintf(line, sizeof line,
             "the ref backend computes, in plain C, about 10 times slower "
             "than the cpu backend: %s",
             why);
    m->params.warn(m->params.log_user, line);
}

/* Tries one backend after another, because AUTO also skips those that cannot be
 * opened. */
VaeStatus
vae_machine_choose_backend(VaeMachine *m, const VaeMachine *shared,
                           VaeError *error)
{
    Reasons reasons = {.to = {m->params.log, m->params.log_user}};
    const VaeLog log = {keep, &reasons};
    int next = 0;
    VaeError why = {0};
    VaeStatus status = choose_next(m, shared, &next, &log, &why);
    while (m->params.backend == VAE_BACKEND_AUTO && m->class &&
           m->class->kind != VAE_BACKEND_REF &&
           (status == VAE_ERR_BACKEND || status == VAE_ERR_UNSUPPORTED)) {
        vae_log(&log, "backend %s is not taken: %s",
                vae_backend_name(m->class->kind), why.message);
        status = choose_next(m, shared, &next, &log, &why);
    }
    if (error && status != VAE_OK)
        *error = why;
    if (status == VAE_OK)
        warn_of_device(m, reasons.first);
    if (status == VAE_OK)
        warn_of_ref(m, reasons.last);
    return status;
}
