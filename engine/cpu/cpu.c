/*
 * cpu.c: the class of the cpu backend. Its functions run on the worker.
 */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "cpu.h"

/* ------------------------------------------------------------------ */
/* Opening and closing.                                                */

/* Arguments of a function of the class, for the worker. */
typedef struct Job {
    VaeBackend *cpu;
    VaeError *error;
    VaeWeightCache *cache;
    const VaeProgram *program;
    const VaeRun *run;
    VaeExec *exec;
} Job;

/* The number of threads that OpenMP really uses. The environment may allow
 * fewer than requested (OMP_THREAD_LIMIT). A oneDNN primitive made for more
 * threads does not write all of its result. */
static int
team_size(int requested)
{
    int size = 1;
#pragma omp parallel num_threads(requested)
#pragma omp single nowait
    size = omp_get_num_threads();
    return size;
}

static VaeStatus
open_job(void *user)
{
    const Job *j = user;
    const int requested = j->cpu->params.threads, size = team_size(requested);
    if (size < requested)
        vae_log(&j->cpu->params.log, "OpenMP gives %d of %d threads", size,
                requested);
    j->cpu->params.threads = size;
    omp_set_num_threads(size);
    const VaeDnnlStatus s = vae_dnnl_open(&j->cpu->dnnl);
    char version[40];
    vae_dnnl_version(version, sizeof version);
    vae_log(&j->cpu->params.log, "backend cpu: %s", version);
    if (s == VAE_DNNL_OK)
        return VAE_OK;
    return vae_fail(j->error, VAE_ERR_BACKEND,
                    "oneDNN gives no CPU engine: %s (%d)", vae_dnnl_word(s), s);
}

static VaeStatus
close_job(void *user)
{
    VaeBackend *cpu = user;
    vae_dnnl_close(&cpu->dnnl);
    return VAE_OK;
}

static void
cpu_free(VaeBackend *cpu)
{
    pthread_cond_destroy(&cpu->closing);
    pthread_cond_destroy(&cpu->finished);
    pthread_cond_destroy(&cpu->posted);
    pthread_mutex_destroy(&cpu->lock);
    pthread_mutex_destroy(&cpu->turn);
    vae_mem_free(cpu);
}

static void
cpu_close(VaeBackend **backend)
{
    VaeBackend *cpu = *backend;
    *backend = NULL;
    if (!cpu)
        return;
    vae_cpu_on_worker(cpu, close_job, cpu);
    vae_cpu_stop(cpu);
    cpu_free(cpu);
    vae_mem_team(false);
}

static VaeStatus
cpu_open(const VaeBackendParams *params, VaeBackend **out, VaeDevice *device,
         VaeError *error)
{
    bool limited;
    *out = NULL;
    /* OpenMP ends the process if it cannot start a thread. */
    if (vae_mem_left(params->threads, &limited) == 0 && limited)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "this process's limits (ulimit -v, -d) leave no "
                        "memory for %d threads: raise them",
                        params->threads);
    VaeBackend *cpu = vae_mem_alloc(sizeof *cpu);
    if (!cpu)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    cpu->params = *params;
    vae_host_describe(device, params->threads);
    pthread_mutex_init(&cpu->turn, NULL);
    pthread_mutex_init(&cpu->lock, NULL);
    pthread_cond_init(&cpu->posted, NULL);
    pthread_cond_init(&cpu->finished, NULL);
    pthread_cond_init(&cpu->closing, NULL);
    const int failed = vae_cpu_start(cpu);
    if (failed) {
        cpu_free(cpu);
        return vae_fail(error, VAE_ERR_BACKEND,
                        "the CPU backend cannot start its threads: %s",
                        strerror(failed));
    }
    vae_mem_team(true);
    const VaeStatus status =
        vae_cpu_on_worker(cpu, open_job, &(Job){cpu, error});
    if (status == VAE_OK)
        *out = cpu;
    else
        cpu_close(&cpu);
    return status;
}

/* ------------------------------------------------------------------ */
/* Capabilities of the machine.                                        */

/* Without AVX512_BF16, oneDNN emulates bf16. With AMX, bf16 is faster than
 * fp32. With AVX512_BF16 alone, compare() decides. */
static bool
cpu_usable(VaePrecision requested, VaePrecision *out, char *why, size_t size)
{
    if (!vae_dnnl_usable(why, size))
        return false;
    const bool bf16 = vae_dnnl_has_bf16(), amx = vae_dnnl_has_amx();
    if (requested == VAE_PRECISION_AUTO) {
        requested = amx ? VAE_PRECISION_BF16 : VAE_PRECISION_FP32;
        snprintf(why, size, "the processor has %s",
                 amx    ? "AMX"
                 : bf16 ? "AVX512_BF16 without AMX"
                        : "neither AMX nor AVX512_BF16");
    }
    *out = requested;
    if (requested == VAE_PRECISION_FP32 ||
        (requested == VAE_PRECISION_BF16 && bf16))
        return true;
    if (requested == VAE_PRECISION_BF16)
        snprintf(why, size,
                 "precision bf16 needs a processor with "
                 "AVX512_BF16 or AMX; use fp32 or auto");
    else
        snprintf(why, size, "it computes in fp32 or bf16, not in %s",
                 vae_precision_name(requested));
    return false;
}

/* ------------------------------------------------------------------ */
/* Programs.                                                           */

static VaeStatus
prepare_job(void *user)
{
    Job *j = user;
    return vae_cpu_prepare(j->cpu, j->cache, j->program, &j->exec, j->error);
}

static VaeStatus
cpu_prepare(VaeBackend *cpu, VaeWeightCache *cache, const VaeProgram *program,
            VaeExec **out, VaeError *error)
{
    Job j = {cpu, error, .cache = cache, .program = program};
    const VaeStatus status = vae_cpu_on_worker(cpu, prepare_job, &j);
    *out = j.exec;
    return status;
}

static VaeStatus
exec_free_job(void *user)
{
    vae_exec_free(user);
    return VAE_OK;
}

static void
cpu_exec_free(VaeBackend *cpu, VaeExec **exec)
{
    if (*exec)
        vae_cpu_on_worker(cpu, exec_free_job, exec);
}

static VaeStatus
run_job(void *user)
{
    const Job *j = user;
    return vae_host_run(j->exec, j->run, j->error);
}

static VaeStatus
cpu_run(VaeBackend *cpu, VaeExec *exec, const VaeRun *run, VaeError *error)
{
    return vae_cpu_on_worker(cpu, run_job,
                             &(Job){cpu, error, .run = run, .exec = exec});
}

const VaeBackendClass vae_backend_cpu = {
    .name = "cpu",
    .kind = VAE_BACKEND_CPU,
    .usable = cpu_usable,
    .encode_precision = VAE_PRECISION_FP32,
    .fusions = {.upsample = true,
                .winograd = true,
                .can_strip = vae_cpu_can_strip},
    .by_threads = true,
    .leaves_out = true,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = vae_host_alloc,
    .free = vae_host_free,
    .prepare = cpu_prepare,
    .exec_free = cpu_exec_free,
    .bind = vae_host_bind,
    .run = cpu_run,
    .compare = vae_cpu_compare};
