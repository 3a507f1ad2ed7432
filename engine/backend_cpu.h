/*
 * backend_cpu.h: what the files of the oneDNN backend share. Only they see
 * oneDNN, whose 2.x interface is used.
 *
 * All oneDNN objects of a backend are made, run and freed on its one worker
 * thread, whose OpenMP thread count is set once.
 */
#ifndef VAE_BACKEND_CPU_H
#define VAE_BACKEND_CPU_H

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

#include "backend_host.h"

#define VAE_CPU_MAX_ARGS 6
#define VAE_CPU_IMPL 40 /* of an implementation's name */

struct VaeBackend {
    VaeBackendParams params;
    dnnl_engine_t engine;
    dnnl_stream_t stream;

    VaeRoom raw; /* of the worker, while weights are laid out */

    pthread_t worker, crowd;
    pthread_mutex_t turn; /* held by the caller from post to result */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t posted, finished, closing;
    VaeStatus (*job)(void *user); /* NULL: none */
    void *user;
    VaeStatus result;
    bool stop;
};

/* Runs job on the worker and waits. Takes no memory. */
VaeStatus vae_cpu_on_worker(VaeBackend *cpu, VaeStatus (*job)(void *user),
                            void *user);

/* Which descriptor of a primitive an execution argument has. */
typedef struct VaeCpuArg {
    int arg; /* DNNL_ARG_* */
    dnnl_query_t md;
    int index;
} VaeCpuArg;

/* A primitive with one memory object per argument, in the order of the table
 * it was made with; the last is the scratchpad. */
typedef struct VaeCpuPrimitive {
    dnnl_primitive_t primitive; /* NULL when only planned */
    dnnl_exec_arg_t args[VAE_CPU_MAX_ARGS];
    dnnl_memory_desc_t md[VAE_CPU_MAX_ARGS];
    int n_args;
    size_t scratch;
    char impl[VAE_CPU_IMPL];
} VaeCpuPrimitive;

/* Attributes with the user's scratchpad; the caller destroys them. */
dnnl_status_t vae_cpu_attr(dnnl_primitive_attr_t *attr);

/*
 * From pd, which is destroyed in any case. plan: descriptors and sizes only.
 * args: n <= VAE_CPU_MAX_ARGS - 1 of them. On failure the caller still calls
 * vae_cpu_primitive_free().
 */
dnnl_status_t vae_cpu_primitive(VaeBackend *cpu, dnnl_primitive_desc_t pd,
                                const VaeCpuArg *args, int n, bool plan,
                                VaeCpuPrimitive *out);
/* The same from an operation descriptor: the library's first choice whose
 * name does not begin with `avoid` (NULL: the first). */
dnnl_status_t vae_cpu_primitive_op(VaeBackend *cpu, const void *op_desc,
                                   const_dnnl_primitive_attr_t attr,
                                   const char *avoid, const VaeCpuArg *args,
                                   int n, bool plan, VaeCpuPrimitive *out);
/* src -> dst, arguments 0 and 1. */
dnnl_status_t vae_cpu_reorder(VaeBackend *cpu, const dnnl_memory_desc_t *src,
                              const dnnl_memory_desc_t *dst, bool plan,
                              VaeCpuPrimitive *out);
/* Memory objects as p's, for another thread that executes it. */
dnnl_status_t vae_cpu_arguments(VaeBackend *cpu, const VaeCpuPrimitive *p,
                                VaeCpuPrimitive *out);
void vae_cpu_primitive_free(VaeCpuPrimitive *p);

/* Addresses of argument i and of the scratchpad, then execution. */
dnnl_status_t vae_cpu_set(VaeCpuPrimitive *p, int i, const void *address);
dnnl_status_t vae_cpu_set_scratch(VaeCpuPrimitive *p, void *address);
dnnl_status_t vae_cpu_execute(VaeBackend *cpu, const VaeCpuPrimitive *p);

dnnl_data_type_t vae_cpu_type(VaeType type);

/* VAE_OK for dnnl_success, else VAE_ERR_BACKEND: which op, what it was doing
 * ("make the convolution"), oneDNN's word for the failure. */
VaeStatus vae_cpu_status(dnnl_status_t status, const VaeOp *op,
                         const char *doing, VaeError *error);

/*
 * Fill own, run, own_free and impl of exec->ops[i], and let exec->scratch and
 * exec->weight_bytes grow. model NULL: sizes only. On failure own may be set
 * and is freed with the exec.
 */
VaeStatus vae_cpu_conv(VaeBackend *cpu, VaeModel *model, VaeExec *exec, int i,
                       VaeError *error);
/* The same for an op with conv.up. */
VaeStatus vae_cpu_conv_up(VaeBackend *cpu, VaeModel *model, VaeExec *exec,
                          int i, VaeError *error);
/* The same for an op with conv.tiles. */
VaeStatus vae_cpu_conv_tiles(VaeBackend *cpu, VaeModel *model, VaeExec *exec,
                             int i, VaeError *error);
VaeStatus vae_cpu_attention(VaeBackend *cpu, VaeModel *model, VaeExec *exec,
                            int i, VaeError *error);

/* The class's library(). */
size_t vae_cpu_library(VaeExec *const *execs, int n);

VaeStatus vae_cpu_rates(VaeBackend *cpu, VaeRates *out, VaeError *error);

#endif
