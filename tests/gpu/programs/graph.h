/*
 * graph.h: what the programs that the backend records are made of.
 */
#ifndef GPU_GRAPH_H
#define GPU_GRAPH_H

#include "cuda_rt.h"
#include "vae/vae.h"

/* Prints a recorded program as a JSON object: how many kernels, copies and
 * fills it has, the bytes copied, and the kernels by name. Prints null if it is
 * none that was recorded. Programs are not recorded in the order in which they
 * are made. */
void graph_tell(VaeRtGraph graph);

/* Prints the stream's programs as a JSON list, each with its graph and the
 * copies that this should make. A graph holds all ops but the first and the
 * last, which are launched beside it. */
void graph_tell_programs(const VaeStream *stream);

#endif
