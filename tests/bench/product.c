/*
 * product.c: see product.h.
 */
#include "product.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void
need(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "oneDNN refuses %s: error %d\n", what, (int) status);
    exit(3);
}

static dnnl_memory_t
operand(const Product *g, const dnnl_memory_desc_t *desc)
{
    dnnl_memory_t memory;
    void *data;
    need(dnnl_memory_create(&memory, desc, g->engine, DNNL_MEMORY_ALLOCATE),
         "memory");
    need(dnnl_memory_get_data_handle(memory, &data), "memory");
    memset(data, 0, dnnl_memory_desc_get_size(desc));
    return memory;
}

void
product_open(Product *g, int side, bool bf16)
{
    const dnnl_data_type_t type = bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t dims = {side, side};
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t made;
    g->side = side;
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

void
product_close(Product *g)
{
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(g->args[i].memory);
    dnnl_primitive_destroy(g->primitive);
    dnnl_stream_destroy(g->stream);
    dnnl_engine_destroy(g->engine);
}

double
product_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

double
product_run(const Product *g)
{
    const double start = product_now();
    need(dnnl_primitive_execute(g->primitive, g->stream, 3, g->args), "to run");
    need(dnnl_stream_wait(g->stream), "to run");
    return product_now() - start;
}

double
product_flop(const Product *g)
{
    const double side = g->side;
    return 2 * side * side * side;
}
