/*
 * gemm.c: the rate of a 2048^3 matrix product by oneDNN, the yardstick that
 * the convolutions of the cpu backend are held against.
 *
 *   bench-gemm fp32|bf16 THREADS SECONDS
 *
 * Prints the median rate in GFLOP/s. Weights are in the library's own layout
 * and operands are cache-warm, as those of a convolution are.
 */
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 2048, RUNS = 4096 };

typedef struct Gemm {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
} Gemm;

static void
need(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench-gemm: oneDNN refuses %s: error %d\n", what,
            (int) status);
    exit(3);
}

static dnnl_memory_t
operand(const Gemm *g, const dnnl_memory_desc_t *desc)
{
    dnnl_memory_t memory;
    void *data;
    need(dnnl_memory_create(&memory, desc, g->engine, DNNL_MEMORY_ALLOCATE),
         "memory");
    need(dnnl_memory_get_data_handle(memory, &data), "memory");
    memset(data, 0, dnnl_memory_desc_get_size(desc));
    return memory;
}

static void
make(Gemm *g, dnnl_data_type_t type)
{
    const dnnl_dims_t dims = {SIDE, SIDE};
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t made;
    need(dnnl_engine_create(&g->engine, dnnl_cpu, 0), "an engine");
    need(dnnl_stream_create(&g->stream, g->engine, dnnl_stream_default_flags),
         "a stream");
    need(dnnl_memory_desc_init_by_tag(&a, 2, dims, type, dnnl_ab), "a layout");
    need(dnnl_memory_desc_init_by_tag(&b, 2, dims, type, dnnl_format_tag_any),
         "a layout");
    need(dnnl_memory_desc_init_by_tag(&c, 2, dims, dnnl_f32, dnnl_ab),
         "a layout");
    need(dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c), "the product");
    need(dnnl_primitive_desc_create(&made, &desc, NULL, g->engine, NULL),
         "the product");
    need(dnnl_primitive_create(&g->primitive, made), "the product");
    const dnnl_memory_desc_t *own =
        dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0);
    g->args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, operand(g, &a)};
    g->args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, operand(g, own)};
    g->args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, operand(g, &c)};
    need(dnnl_primitive_desc_destroy(made), "to free");
}

static void
destroy(Gemm *g)
{
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(g->args[i].memory);
    dnnl_primitive_destroy(g->primitive);
    dnnl_stream_destroy(g->stream);
    dnnl_engine_destroy(g->engine);
}

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

int
main(int argc, char **argv)
{
    static double took[RUNS];
    Gemm gemm;
    const int threads = argc == 4 ? atoi(argv[2]) : 0;
    const double seconds = argc == 4 ? atof(argv[3]) : 0;
    const bool narrow = argc == 4 && strcmp(argv[1], "bf16") == 0;
    if (threads < 1 || seconds <= 0 ||
        (!narrow && strcmp(argv[1], "fp32") != 0)) {
        fprintf(stderr, "usage: bench-gemm fp32|bf16 THREADS SECONDS\n");
        return 2;
    }
    omp_set_num_threads(threads);
    make(&gemm, narrow ? dnnl_bf16 : dnnl_f32);
    int n = 0;
    const double begin = now();
    do {
        const double start = now();
        need(dnnl_primitive_execute(gemm.primitive, gemm.stream, 3, gemm.args),
             "to run");
        need(dnnl_stream_wait(gemm.stream), "to run");
        took[n++] = now() - start;
    } while (n < RUNS && now() - begin < seconds);
    destroy(&gemm);
    qsort(took, (size_t) n, sizeof *took, by_size);
    const double side = SIDE;
    printf("%.1f\n", 2 * side * side * side / took[n / 2] * 1e-9);
    return 0;
}
