/*
 * attention.h: softmax over blocks of keys, one block after another. The
 * products with K and V are the caller's.
 */
#ifndef VAE_CPU_ATTENTION_H
#define VAE_CPU_ATTENTION_H

#include "kernels.h"

/* Rows of queries, with sums over the blocks so far. Before the first block,
 * most is -inf and sum is 0. */
typedef struct VaeRowSums {
    int rows, c;
    float *most, *sum; /* of each row: largest score, and sum of weights */
    float *shrink;     /* factor for sums of earlier blocks, set by weigh() */
    float *y;          /* rows x c: sum of weighted V */
} VaeRowSums;

void vae_cpu_begin_rows(const VaeRowSums *s);
/* score (rows x n) to weights of the type, in place of the scores if it is
 * F32. */
void vae_cpu_weigh_rows(const VaeQueue *q, const VaeRowSums *s, float *score,
                        int n, void *weight, VaeType type);
/* Adds the product of weights and V, rows x c. */
void vae_cpu_add_rows(const VaeQueue *q, const VaeRowSums *s,
                      const float *product);
/* y (rows x c) of the type = the mean of V. */
void vae_cpu_end_rows(const VaeQueue *q, const VaeRowSums *s, void *y,
                      VaeType type);
/* Copies K and V, 2c of each row of 3c numbers. */
void vae_cpu_keep_rows(const VaeQueue *q, int rows, int c, const void *qkv,
                       VaeType from, void *kept, VaeType type);

#endif
