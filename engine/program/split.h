/*
 * split.h: the layers at the full frame rate, some frames at a time.
 *
 * A decoder makes most of its frames in the last upsampling in time, an encoder
 * loses them in the first downsampling. The layers between there and the
 * pictures have the largest tensors. They need memory for fewer frames if they
 * compute one group of frames after the other: each convolution over time then
 * takes its context from its carry, as it does from step to step. The results
 * are the same to the byte.
 *
 * A convolution of one tap may make two frames of one, which a rearrangement
 * deals out. Each group then has both ops, too, so that their results need no
 * memory for all frames; a group of one frame computes the frame beside it
 * once more.
 */
#ifndef VAE_SPLIT_H
#define VAE_SPLIT_H

#include "program.h"

/* Splits those layers of a recorded program, before it is fused and planned,
 * into groups of that many frames; 0: not at all. Sets program->group, which
 * stays 0 where there is nothing to split. False: out of memory; the program
 * can only be freed. */
bool vae_program_split(VaeProgram *program, int frames);

#endif
