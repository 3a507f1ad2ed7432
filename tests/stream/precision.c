/*
 * precision.c: tests which precision and backend AUTO chooses, and what the log
 * says about it.
 *
 * The test replaces two functions of the cpu backend: the one that times
 * convolutions, and the one that checks if oneDNN can be used.
 */
#include "streams.h"

#include "cpu.h"

enum { SIZE = 32 };

/* The values that these functions return, and the number of timings. */
static double fp32_seconds, bf16_seconds;
static bool there = true;
static int compared;

/* The linker gives these names. */
bool __real_vae_cpu_compare(VaeBackend *cpu,
                            const VaeProgram *const programs[2],
                            double seconds[2]);
bool __wrap_vae_cpu_compare(VaeBackend *cpu,
                            const VaeProgram *const programs[2],
                            double seconds[2]);
bool __real_vae_dnnl_usable(char *why, size_t size);
bool __wrap_vae_dnnl_usable(char *why, size_t size);

bool
__wrap_vae_cpu_compare(VaeBackend *cpu, const VaeProgram *const programs[2],
                       double seconds[2])
{
    double real[2];
    const bool known = __real_vae_cpu_compare(cpu, programs, real);
    expect(known == (vae_dnnl_has_bf16() && !vae_dnnl_has_amx()) &&
               (!known || (real[0] > 0 && real[1] > 0)),
           "fp32 and bf16 are timed: %d, %g s, %g s", known, real[0], real[1]);
    compared++;
    seconds[0] = fp32_seconds;
    seconds[1] = bf16_seconds;
    return fp32_seconds > 0;
}

bool
__wrap_vae_dnnl_usable(char *why, size_t size)
{
    if (!there)
        snprintf(why, size, "it is hidden from this test");
    return there && __real_vae_dnnl_usable(why, size);
}

/* The log and the plan of a stream. */
typedef struct Told {
    VaePlan plan;
    char last[600], warning[600]; /* last line of the log; its only warning */
    int warnings;
} Told;

static void
hear(void *user, const char *line)
{
    Told *t = user;
    snprintf(t->last, sizeof t->last, "%s", line);
}

static void
hear_warning(void *user, const char *line)
{
    Told *t = user;
    snprintf(t->warning, sizeof t->warning, "%s", line);
    t->warnings++;
}

/* Plans a stream of a newly opened model. */
static Told
plan(VaeStreamParams params, double fp32, double bf16)
{
    Told told = {.plan = VAE_INIT(VaePlan)};
    VaeError error;
    Bed bed;
    fp32_seconds = fp32;
    bf16_seconds = bf16;
    bed_open(&bed, "taehv/taew2_1", "ref", "fp32");
    params.width = params.height = SIZE;
    params.slice_size = 1;
    params.threads = 2;
    params.log = hear;
    params.warn = hear_warning;
    params.log_user = &told;
    must(vae_stream_plan(bed.model, &params, &told.plan, &error), &error);
    vae_model_free(&bed.model);
    return told;
}

static void
check_choice(void)
{
    VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                              .backend = VAE_BACKEND_CPU};
    Told t = plan(params, 1, 0.5);
    expect(t.plan.precision == VAE_PRECISION_BF16 &&
               strstr(t.last, "bf16 since") && strstr(t.last, "0.50 times") &&
               t.warnings == 0,
           "auto takes bf16 if it is faster: %s", t.last);
    t = plan(params, 1, 1.1);
    expect(t.plan.precision == VAE_PRECISION_BF16 && t.warnings == 0,
           "auto takes bf16 if only convolutions are a little slower: %s",
           t.last);
    t = plan(params, 1, 1.2);
    expect(t.plan.precision == VAE_PRECISION_FP32 &&
               strstr(t.last, "fp32 since") && t.warnings == 0,
           "auto takes fp32 if bf16 is slower: %s", t.last);
    t = plan(params, 0, 0);
    expect(t.plan.precision == (vae_dnnl_has_amx() ? VAE_PRECISION_BF16
                                                   : VAE_PRECISION_FP32) &&
               strstr(t.last, "since the processor has"),
           "auto decides by the processor if nothing is timed: %s", t.last);
    compared = 0;
    params.deterministic = true;
    t = plan(params, 1, 0.5);
    expect(compared == 0 && strstr(t.last, "since the processor has") &&
               (t.plan.precision == VAE_PRECISION_BF16 ||
                strstr(t.last, "deterministic times nothing")),
           "a deterministic stream decides by the processor: %s", t.last);
    params.deterministic = false;
    params.direction = VAE_ENCODE;
    t = plan(params, 1, 0.5);
    expect(compared == 0 && t.plan.precision == VAE_PRECISION_FP32,
           "encoding stays fp32: %s", t.last);
}

/* bf16 is used if the user requests it. A warning states its cost. */
static void
check_asked(void)
{
    VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                              .backend = VAE_BACKEND_CPU,
                              .precision = VAE_PRECISION_BF16};
    Told t = plan(params, 1, 2.5);
    expect(t.plan.precision == VAE_PRECISION_BF16 && t.warnings == 1 &&
               strstr(t.warning, "2.5 times as fast in fp32"),
           "one warning about a slow bf16: %s", t.warning);
    t = plan(params, 1, 0.5);
    expect(t.warnings == 0, "no warning about a fast bf16: %s", t.warning);
    compared = 0;
    params.deterministic = true;
    t = plan(params, 1, 2.5);
    expect(compared == 0 && t.warnings == 0,
           "a deterministic stream times nothing: %s", t.warning);
    params.deterministic = false;
    params.precision = VAE_PRECISION_FP32;
    t = plan(params, 1, 0.5);
    expect(compared == 0 && t.warnings == 0, "no warning about fp32: %s",
           t.warning);
}

static void
check_ref(void)
{
    VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                              .backend = VAE_BACKEND_AUTO,
                              .device = -1};
    if (vae_backend_available(VAE_BACKEND_CUDA, NULL, 0)) {
        printf("not here: a GPU computes\n");
        return;
    }
    there = false;
    Told t = plan(params, 0, 0);
    expect(t.plan.backend == VAE_BACKEND_REF && t.warnings == 1 &&
               strstr(t.warning, "plain C") && strstr(t.warning, "hidden"),
           "one warning if auto takes plain C, %d: %s", t.warnings, t.warning);
    params.backend = VAE_BACKEND_REF;
    t = plan(params, 0, 0);
    expect(t.warnings == 0, "no warning if ref is requested: %s", t.warning);
    there = true;
}

/* The convolutions of a model are timed once, and all its streams have the same
 * result. */
static void
check_once(void)
{
    VaeError error;
    VaePlan plans[2] = {VAE_INIT(VaePlan), VAE_INIT(VaePlan)};
    Bed bed;
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .backend = VAE_BACKEND_CPU,
                                    .width = SIZE,
                                    .height = SIZE,
                                    .slice_size = 1};
    bed_open(&bed, "taehv/taew2_1", "ref", "fp32");
    compared = 0;
    fp32_seconds = 1;
    for (int i = 0; i < 2; i++) {
        bf16_seconds = i ? 2 : 0.5;
        must(vae_stream_plan(bed.model, &params, &plans[i], &error), &error);
    }
    expect(compared == 1 && plans[0].precision == VAE_PRECISION_BF16 &&
               plans[1].precision == VAE_PRECISION_BF16,
           "timed %d time for two streams of a model", compared);
    vae_model_free(&bed.model);
}

int
main(void)
{
    char why[200];
    VaePrecision taken;
    if (vae_backend_cpu.usable(VAE_PRECISION_BF16, &taken, why, sizeof why)) {
        check_choice();
        check_asked();
        check_once();
    } else {
        printf("not here: %s\n", why);
    }
    check_ref();
    return tests_end();
}
