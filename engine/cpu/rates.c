/*
 * rates.c: measures the machine's peak rates: a large matrix product by the
 * library that computes convolutions, and a copy of memory.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu.h"

/* SIDE: at 2048 and above, oneDNN's products no longer become faster. COPY is
 * larger than the caches. */
enum { SIDE = 2048, COPY = 128 << 20, RUNS = 7 };

enum { OPERANDS = VAE_DNNL_DST + 1 };

typedef struct Rates {
    VaeBackend *cpu;
    VaePrecision precision;
    VaeDnnlPrimitive product;
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

static VaeDnnlStatus
make_product(Rates *r)
{
    const VaeDnnlProduct product = {.m = SIDE,
                                    .k = SIDE,
                                    .n = SIDE,
                                    .type = r->precision == VAE_PRECISION_BF16
                                                ? VAE_TYPE_BF16
                                                : VAE_TYPE_F32,
                                    .dst_type = VAE_TYPE_F32,
                                    .scale = 1};
    return vae_dnnl_product(&r->cpu->dnnl, &product, false, &r->product);
}

static VaeDnnlStatus
take_operands(Rates *r)
{
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int i = 0; i < OPERANDS && s == VAE_DNNL_OK; i++) {
        r->operand[i] = vae_mem_alloc(vae_dnnl_bytes(r->product.layout[i]));
        s = r->operand[i]
                ? vae_dnnl_set(&r->product, (VaeDnnlSlot) i, r->operand[i])
                : VAE_DNNL_NO_MEMORY;
    }
    r->scratch = s == VAE_DNNL_OK ? vae_mem_alloc(r->product.scratch) : NULL;
    if (s == VAE_DNNL_OK)
        s = r->scratch ? vae_dnnl_set(&r->product, VAE_DNNL_SCRATCH, r->scratch)
                       : VAE_DNNL_NO_MEMORY;
    return s;
}

static VaeDnnlStatus
time_product(Rates *r)
{
    double took[RUNS];
    const double side = SIDE;
    VaeDnnlStatus s = VAE_DNNL_OK;
    for (int i = -1; i < RUNS && s == VAE_DNNL_OK; i++) {
        const double start = now();
        s = vae_dnnl_execute(&r->cpu->dnnl, &r->product);
        if (s == VAE_DNNL_OK)
            s = vae_dnnl_wait(&r->cpu->dnnl);
        if (i >= 0)
            took[i] = now() - start;
    }
    if (s != VAE_DNNL_OK)
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
    VaeDnnlStatus s = make_product(r);
    if (s == VAE_DNNL_OK)
        s = take_operands(r);
    if (s == VAE_DNNL_OK)
        s = time_product(r);
    for (int i = 0; i < OPERANDS; i++)
        vae_mem_free(r->operand[i]);
    vae_mem_free(r->scratch);
    vae_dnnl_free(&r->product);
    const VaeStatus status =
        vae_cpu_status(s, &op, "multiply matrices", r->error);
    return status == VAE_OK ? time_copy(r) : status;
}

VaeStatus
vae_cpu_rates(VaeBackend *cpu, VaePrecision precision, VaeRates *out,
              VaeError *error)
{
    Rates r = {.cpu = cpu, .precision = precision, .out = out, .error = error};
    return vae_cpu_on_worker(cpu, rates_job, &r);
}
