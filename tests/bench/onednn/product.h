/*
 * product.h: a product of two square matrices by oneDNN, the yardstick of the
 * cpu backend. Weights are in the library's own layout.
 */
#ifndef PRODUCT_H
#define PRODUCT_H

#include <time.h>

#include "dnnl.h"

typedef struct Product {
    VaeDnnl dnnl;
    VaeDnnlPrimitive primitive;
    void *operand[VAE_DNNL_SLOTS];
    int side;
} Product;

enum { PRODUCT_SIDE = 2048 }; /* a common size for published rates */

/* Makes the product of two side x side matrices, in fp32 or bf16. Ends the
 * process with status 3 if the library refuses. */
void product_open(Product *product, int side, bool bf16);
void product_close(Product *product);

/* Computes the product once with OpenMP's threads. Returns seconds. */
double product_run(const Product *product);
double product_flop(const Product *product);

/* Ends the process with status 3 unless the library's status is good. */
void product_need(VaeDnnlStatus status, const char *what);

/* Returns the seconds of product_clock, which is monotonic unless changed. */
double product_now(void);
extern clockid_t product_clock;

#endif
