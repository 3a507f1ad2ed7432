/*
 * product.c: see product.h.
 */
#include "product.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "alloc.h"

clockid_t product_clock = CLOCK_MONOTONIC;

void
product_need(VaeDnnlStatus status, const char *what)
{
    if (status == VAE_DNNL_OK)
        return;
    fprintf(stderr, "oneDNN refuses %s: %s\n", what, vae_dnnl_word(status));
    exit(3);
}

void
product_open(Product *g, int side, bool bf16)
{
    const VaeDnnlProduct product = {.m = side,
                                    .k = side,
                                    .n = side,
                                    .type = bf16 ? VAE_TYPE_BF16 : VAE_TYPE_F32,
                                    .dst_type = VAE_TYPE_F32,
                                    .scale = 1};
    *g = (Product){.side = side};
    product_need(vae_dnnl_open(&g->dnnl), "an engine");
    product_need(vae_dnnl_product(&g->dnnl, &product, false, &g->primitive),
                 "the product");
    for (int i = 0; i < VAE_DNNL_SLOTS; i++) {
        if (!g->primitive.layout[i])
            continue;
        g->operand[i] = vae_mem_alloc(vae_dnnl_bytes(g->primitive.layout[i]));
        product_need(
            g->operand[i]
                ? vae_dnnl_set(&g->primitive, (VaeDnnlSlot) i, g->operand[i])
                : VAE_DNNL_NO_MEMORY,
            "memory");
    }
}

void
product_close(Product *g)
{
    for (int i = 0; i < VAE_DNNL_SLOTS; i++)
        vae_mem_free(g->operand[i]);
    vae_dnnl_free(&g->primitive);
    vae_dnnl_close(&g->dnnl);
}

double
product_now(void)
{
    struct timespec t;
    clock_gettime(product_clock, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

double
product_run(const Product *g)
{
    const double start = product_now();
    product_need(vae_dnnl_execute(&g->dnnl, &g->primitive), "to run");
    product_need(vae_dnnl_wait(&g->dnnl), "to run");
    return product_now() - start;
}

double
product_flop(const Product *g)
{
    const double side = g->side;
    return 2 * side * side * side;
}
