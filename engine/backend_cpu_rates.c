/*
 * backend_cpu_rates.c: what this machine does at most: a large product of
 * matrices by the library that computes convolutions, and a copy of memory.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend_cpu.h"

/* A side of 2048 is the least at which oneDNN's products level off; the copies
 * are larger than caches. */
enum { SIDE = 2048, COPY = 128 << 20, RUNS = 7 };

enum { SRC, WEIGHTS, DST, OPERANDS };

typedef struct Rates {
    VaeBackend *cpu;
    VaeCpuPrimitive product;
    void *operand[OPERANDS], *scratch;
    VaeRates *out;
    VaeError *error;
} Rates;

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static int
by_size(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static dnnl_status_t
make_product(Rates *r)
{
    static const VaeCpuArg args[] = {
        [SRC] = {DNNL_ARG_SRC, dnnl_query_src_md, 0},
        [WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
        [DST] = {DNNL_ARG_DST, dnnl_query_dst_md, 0},
    };
    const dnnl_data_type_t type = vae_cpu_type(
        r->cpu->params.precision == VAE_PRECISION_BF16 ? VAE_TYPE_BF16
                                                       : VAE_TYPE_F32);
    const dnnl_dims_t dims = {SIDE, SIDE};
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t s = dnnl_memory_desc_init_by_tag(&a, 2, dims, type, dnnl_ab);
    if (s == dnnl_success)
        s = dnnl_memory_desc_init_by_tag(&b, 2, dims, type,
                                         dnnl_format_tag_any);
    if (s == dnnl_success)
        s = dnnl_memory_desc_init_by_tag(&c, 2, dims, dnnl_f32, dnnl_ab);
    if (s == dnnl_success)
        s = dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c);
    if (s == dnnl_success)
        s = vae_cpu_attr(&attr);
    if (s == dnnl_success)
        s = vae_cpu_primitive_op(r->cpu, &desc, attr, NULL, args, OPERANDS,
                                 false, &r->product);
    dnnl_primitive_attr_destroy(attr);
    return s;
}

static dnnl_status_t
take_operands(Rates *r)
{
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i < OPERANDS && s == dnnl_success; i++) {
        r->operand[i] =
            vae_mem_alloc(dnnl_memory_desc_get_size(&r->product.md[i]));
        s = r->operand[i] ? vae_cpu_set(&r->product, i, r->operand[i])
                          : dnnl_out_of_memory;
    }
    r->scratch = s == dnnl_success ? vae_mem_alloc(r->product.scratch) : NULL;
    if (s == dnnl_success)
        s = r->scratch ? vae_cpu_set_scratch(&r->product, r->scratch)
                       : dnnl_out_of_memory;
    return s;
}

static dnnl_status_t
time_product(Rates *r)
{
    double took[RUNS];
    const double side = SIDE;
    dnnl_status_t s = dnnl_success;
    for (int i = -1; i < RUNS && s == dnnl_success; i++) {
        const double start = now();
        s = vae_cpu_execute(r->cpu, &r->product);
        if (s == dnnl_success)
            s = dnnl_stream_wait(r->cpu->stream);
        if (i >= 0)
            took[i] = now() - start;
    }
    if (s != dnnl_success)
        return s;
    qsort(took, RUNS, sizeof *took, by_size);
    r->out->flops = 2 * side * side * side / took[RUNS / 2];
    return s;
}

static VaeStatus
time_copy(Rates *r)
{
    double took[RUNS];
    uint8_t *from = vae_mem_alloc(COPY), *to = vae_mem_alloc(COPY);
    for (int i = -1; from && to && i < RUNS; i++) {
        const double start = now();
#pragma omp parallel
        {
            const size_t n = (size_t) omp_get_num_threads();
            const size_t k = (size_t) omp_get_thread_num();
            const size_t begin = COPY / n * k;
            memcpy(to + begin, from + begin,
                   k + 1 == n ? COPY - begin : COPY / n);
        }
        if (i >= 0)
            took[i] = now() - start;
    }
    const bool done = from && to;
    vae_mem_free(from);
    vae_mem_free(to);
    if (!done)
        return vae_fail(r->error, VAE_ERR_MEMORY,
                        "out of memory for a copy of %d bytes", COPY);
    qsort(took, RUNS, sizeof *took, by_size);
    r->out->bytes = 2.0 * COPY / took[RUNS / 2];
    return VAE_OK;
}

static VaeStatus
rates_job(void *user)
{
    static const VaeOp op = {.kind = VAE_OP_CONV, .name = "rates"};
    Rates *r = user;
    dnnl_status_t s = make_product(r);
    if (s == dnnl_success)
        s = take_operands(r);
    if (s == dnnl_success)
        s = time_product(r);
    for (int i = 0; i < OPERANDS; i++)
        vae_mem_free(r->operand[i]);
    vae_mem_free(r->scratch);
    vae_cpu_primitive_free(&r->product);
    const VaeStatus status =
        vae_cpu_status(s, &op, "multiply matrices", r->error);
    return status == VAE_OK ? time_copy(r) : status;
}

VaeStatus
vae_cpu_rates(VaeBackend *cpu, VaeRates *out, VaeError *error)
{
    Rates r = {.cpu = cpu, .out = out, .error = error};
    return vae_cpu_on_worker(cpu, rates_job, &r);
}
