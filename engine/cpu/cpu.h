/*
 * cpu.h: declarations that the files of the cpu backend share.
 *
 * All oneDNN objects of a backend are made, run and freed on its worker thread,
 * whose number of OpenMP threads is set once.
 */
#ifndef VAE_BACKEND_CPU_H
#define VAE_BACKEND_CPU_H

#include <pthread.h>

#include "host.h"
#include "dnnl.h"

struct VaeBackend {
    VaeBackendParams params;
    VaeDnnl dnnl;

    VaeRoom raw; /* temporary memory of the worker for reordering weights */

    pthread_t worker, spin_workaround;
    pthread_mutex_t turn; /* held by the caller from post to result */
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t posted, finished, closing;
    VaeStatus (*job)(void *user); /* NULL: none */
    void *user;
    VaeStatus result;
    bool stop;
};

/* Starts the worker. Returns 0 or an error number of pthreads. cpu's locks and
 * conditions must exist. */
int vae_cpu_start(VaeBackend *cpu);
void vae_cpu_stop(VaeBackend *cpu);
/* Runs job on the worker and waits. Allocates nothing. */
VaeStatus vae_cpu_on_worker(VaeBackend *cpu, VaeStatus (*job)(void *user),
                            void *user);

/* Returns VAE_OK for VAE_DNNL_OK, VAE_ERR_MEMORY for VAE_DNNL_NO_MEMORY, else
 * VAE_ERR_BACKEND. The message names the op, the action that failed ("make the
 * convolution") and oneDNN's word for the failure. */
VaeStatus vae_cpu_status(VaeDnnlStatus status, const VaeOp *op,
                         const char *doing, VaeError *error);

/*
 * These set own, run, own_free and impl of exec->ops[i], and increase
 * exec->scratch and exec->weight_bytes. cache NULL: only sizes. After an error
 * own may be set; it is freed with the exec.
 */
VaeStatus vae_cpu_conv(VaeBackend *cpu, VaeWeightCache *cache, VaeExec *exec,
                       int i, VaeError *error);
/* The same for an op with conv.up. */
VaeStatus vae_cpu_conv_up(VaeBackend *cpu, VaeWeightCache *cache, VaeExec *exec,
                          int i, VaeError *error);
/* The same for an op with conv.winograd. */
VaeStatus vae_cpu_winograd(VaeBackend *cpu, VaeWeightCache *cache,
                           VaeExec *exec, int i, VaeError *error);
VaeStatus vae_cpu_attention(VaeBackend *cpu, VaeWeightCache *cache,
                            VaeExec *exec, int i, VaeError *error);

/* The class's prepare(), on the worker. */
VaeStatus vae_cpu_prepare(VaeBackend *cpu, VaeWeightCache *cache,
                          const VaeProgram *program, VaeExec **out,
                          VaeError *error);

/* VaeFusions.can_strip of the class. */
bool vae_cpu_can_strip(void *cpu, const VaeOp *conv);

/* The class's compare(). */
bool vae_cpu_compare(VaeBackend *cpu, const VaeProgram *const programs[2],
                     double seconds[2]);

#endif
