/*
 * product.h: a product of two square matrices by oneDNN, the yardstick of the
 * cpu backend. Weights are in the library's own layout.
 */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "dnnl.h"

typedef struct Product {
    VaeDnnl dnnl;
    VaeDnnlPrimitive primitive;
    void *operand[VAE_DNNL_SLOTS];
    int side;
} Product;

enum { PRODUCT_SIDE = 2048 }; /* what others quote */

/* Of two side x side matrices, in fp32 or bf16. Ends the process with 3 where
 * the library refuses. */
void product_open(Product *product, int side, bool bf16);
void product_close(Product *product);

/* Computes it once; seconds. By as many threads as OpenMP uses here. */
double product_run(const Product *product);
double product_flop(const Product *product);

/* Seconds, of a clock that only goes forward. */
double product_now(void);

#endif
