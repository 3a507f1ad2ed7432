/*
 * worker.c: the thread on which a cpu backend uses oneDNN and OpenMP.
 */
#include <omp.h>

#include "cpu.h"
#include "vae-private/os.h"

VaeStatus
vae_cpu_status(VaeDnnlStatus status, const VaeOp *op, const char *doing,
               VaeError *error)
{
    if (status == VAE_DNNL_OK)
        return VAE_OK;
    return vae_fail(
        error, status == VAE_DNNL_NO_MEMORY ? VAE_ERR_MEMORY : VAE_ERR_BACKEND,
        "%s: oneDNN cannot %s: %s (%d)", op->name, doing, vae_dnnl_word(status),
        status);
}

static void *
worker(void *user)
{
    VaeBackend *cpu = user;
    omp_set_dynamic(0);
    omp_set_num_threads(cpu->params.threads);
    pthread_mutex_lock(&cpu->lock);
    for (;;) {
        while (!cpu->job && !cpu->stop)
            pthread_cond_wait(&cpu->posted, &cpu->lock);
        if (cpu->stop)
            break;
        pthread_mutex_unlock(&cpu->lock);
        const VaeStatus result = cpu->job(cpu->user);
        pthread_mutex_lock(&cpu->lock);
        cpu->result = result;
        cpu->job = NULL;
        pthread_cond_signal(&cpu->finished);
    }
    pthread_mutex_unlock(&cpu->lock);
    return NULL;
}

/*
 * Adds an OpenMP thread that sleeps. At every barrier, threads of libgomp spin
 * for 300,000 rounds before they sleep, which takes 10 ms and more. If the
 * process has more OpenMP threads than processors, they spin for only 1,000
 * rounds. With one thread per processor and other load, such as the other
 * elements of a pipeline, the long spin takes processor time from the threads
 * for which the spinning ones wait. Only the environment can set the number of
 * rounds.
 */
static void *
spin_workaround(void *user)
{
    VaeBackend *cpu = user;
#pragma omp parallel num_threads(2)
#pragma omp single nowait
    {
        pthread_mutex_lock(&cpu->lock);
        while (!cpu->stop)
            pthread_cond_wait(&cpu->closing, &cpu->lock);
        pthread_mutex_unlock(&cpu->lock);
    }
    return NULL;
}

VaeStatus
vae_cpu_on_worker(VaeBackend *cpu, VaeStatus (*job)(void *user), void *user)
{
    pthread_mutex_lock(&cpu->turn);
    pthread_mutex_lock(&cpu->lock);
    cpu->job = job;
    cpu->user = user;
    pthread_cond_signal(&cpu->posted);
    while (cpu->job)
        pthread_cond_wait(&cpu->finished, &cpu->lock);
    const VaeStatus result = cpu->result;
    pthread_mutex_unlock(&cpu->lock);
    pthread_mutex_unlock(&cpu->turn);
    return result;
}

static void
stop_thread(VaeBackend *cpu, pthread_t *thread)
{
    pthread_mutex_lock(&cpu->lock);
    cpu->stop = true;
    pthread_cond_signal(&cpu->posted);
    pthread_cond_signal(&cpu->closing);
    pthread_mutex_unlock(&cpu->lock);
    pthread_join(*thread, NULL);
}

/* The threads of the application handle its signals. */
int
vae_cpu_start(VaeBackend *cpu)
{
    int failed = vae_os_thread(&cpu->worker, worker, cpu);
    if (!failed) {
        failed = vae_os_thread(&cpu->spin_workaround, spin_workaround, cpu);
        if (failed)
            stop_thread(cpu, &cpu->worker);
    }
    return failed;
}

void
vae_cpu_stop(VaeBackend *cpu)
{
    stop_thread(cpu, &cpu->worker);
    stop_thread(cpu, &cpu->spin_workaround);
}
