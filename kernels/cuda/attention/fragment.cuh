/*
 * fragment.cuh: how the 16-bit kernels of attention fill shared memory and read
 * it with vae_ptx_load_matrices().
 */
#ifndef VAE_FRAGMENT_CUH
#define VAE_FRAGMENT_CUH

#include "common.cuh"
#include "ptx/matrix.cuh"

/* Copies eight elements from any address, synchronously. */
VAE_DEVICE void
vae_copy_now(uint16_t *to, const uint16_t *from, bool zero)
{
    uint32_t word[4];
    VAE_UNROLL
    for (int i = 0; i < 4; i++)
        word[i] = zero ? 0 : from[2 * i] | (uint32_t) from[2 * i + 1] << 16;
    vae_store16(to, word);
}

/* This lane's address for loading a 16 x 16 block at (row, column) of a matrix
 * with `stride` elements from row to row. */
VAE_DEVICE const uint16_t *
vae_corner(const uint16_t *p, int stride, int row, int column)
{
    const int lane = (int) threadIdx.x % 32;
    return p + (row + lane % 16) * stride + column + lane / 16 * 8;
}

/* This lane's address if the second 8 x 8 matrix of the block is to the right
 * of its first one, not below. */
VAE_DEVICE const uint16_t *
vae_corner_across(const uint16_t *p, int stride, int row, int column)
{
    const int lane = (int) threadIdx.x % 32;
    return p + (row + lane % 8 + lane / 16 * 8) * stride + column +
           lane / 8 % 2 * 8;
}

#endif
