/*
 * split.h: computes the layers at the full frame rate in groups of frames.
 *
 * The layers between the pictures and the last upsampling in time of a decoder,
 * or the first downsampling in time of an encoder, have the largest tensors.
 * They need less memory if they compute one group of frames after another. Each
 * convolution over time then reads its context from its carry, as it does from
 * step to step. The bytes of the results are the same.
 *
 * A convolution of one tap may make two frames from one. A rearrangement then
 * separates them. Each group runs both ops, so that no tensor holds all frames.
 * A group of one frame computes the other frame of its pair again.
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
