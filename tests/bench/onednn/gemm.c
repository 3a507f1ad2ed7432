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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "median.h"
#include "product.h"

enum { RUNS = 4096 };

int
main(int argc, char **argv)
{
    static double took[RUNS];
    Product product;
    const int threads = argc == 4 ? atoi(argv[2]) : 0;
    const double seconds = argc == 4 ? atof(argv[3]) : 0;
    const bool narrow = argc == 4 && strcmp(argv[1], "bf16") == 0;
    if (threads < 1 || seconds <= 0 ||
        (!narrow && strcmp(argv[1], "fp32") != 0)) {
        fprintf(stderr, "usage: bench-gemm fp32|bf16 THREADS SECONDS\n");
        return 2;
    }
    omp_set_num_threads(threads);
    product_open(&product, PRODUCT_SIDE, narrow);
    int n = 0;
    const double begin = product_now();
    do
        took[n++] = product_run(&product);
    while (n < RUNS && product_now() - begin < seconds);
    product_close(&product);
    printf("%.1f\n", product_flop(&product) / median(took, (size_t) n) * 1e-9);
    return 0;
}
