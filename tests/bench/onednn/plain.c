/*
 * plain.c: see plain.h.
 */
#include "plain.h"

#include <stdio.h>
#include <stdlib.h>

#include "alloc.h"
#include "product.h"

/* Zeros behind the last row or column. */
static int
pad_end(const VaeOp *op, int in, int out)
{
    const int past = (out - 1) * op->conv.s + op->conv.k - op->conv.pad - in;
    return past > 0 ? past : 0;
}

void
plain_open(Plain *plain, VaeDnnl *dnnl, const VaeOp *op)
{
    const VaeShape x = op->x->shape, y = op->y->shape;
    const int k = op->conv.k, kt = op->conv.kt, s = op->conv.s;
    const int pad = op->conv.pad, more = op->conv.up ? 2 : 1;
    const int h = more * x.h, w = more * x.w;
    const VaeDnnlConv conv = {
        .flat = kt == 1,
        .x_type = op->x->type,
        .y_type = op->y->type,
        .x_c = x.c,
        .y_c = y.c,
        .x = {kt, h, w},
        .y = {1, y.h, y.w},
        .k = {kt, k, k},
        .stride = {1, s, s},
        .begin = {0, pad, pad},
        .end = {0, pad_end(op, h, y.h), pad_end(op, w, y.w)}};
    *plain = (Plain){0};
    product_need(vae_dnnl_conv(dnnl, &conv, false, &plain->primitive),
                 "a convolution");
    for (int i = 0; i < VAE_DNNL_SLOTS; i++) {
        const size_t bytes = i == VAE_DNNL_SCRATCH ? plain->primitive.scratch
                             : plain->primitive.layout[i]
                                 ? vae_dnnl_bytes(plain->primitive.layout[i])
                                 : 0;
        if (bytes == 0)
            continue;
        plain->operand[i] = vae_mem_alloc(bytes);
        product_need(plain->operand[i]
                         ? vae_dnnl_set(&plain->primitive, (VaeDnnlSlot) i,
                                        plain->operand[i])
                         : VAE_DNNL_NO_MEMORY,
                     "memory");
    }
}

void
plain_close(Plain *plain)
{
    for (int i = 0; i < VAE_DNNL_SLOTS; i++)
        vae_mem_free(plain->operand[i]);
    vae_dnnl_free(&plain->primitive);
}

void
plain_run(const Plain *plain, const VaeDnnl *dnnl, const VaeOp *op)
{
    for (int f = 0; f < op->y->shape.t; f++)
        product_need(vae_dnnl_execute(dnnl, &plain->primitive), "to run");
    product_need(vae_dnnl_wait(dnnl), "to run");
}

double
plain_flop(const VaeOp *op)
{
    const VaeShape y = op->y->shape;
    return 2.0 * op->conv.kt * op->conv.k * op->conv.k * op->x->shape.c * y.c *
           y.t * y.h * y.w;
}
