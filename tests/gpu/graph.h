/*
 * graph.h: what the programs that the backend records are made of.
 */
#ifndef GPU_GRAPH_H
#define GPU_GRAPH_H

/* Forgets the graphs so far. */
void graph_forget(void);
/* Those made since, in order, as a JSON list: how many kernels, copies and
 * fills each has, the bytes copied, and the kernels by name. */
void graph_tell(void);

#endif
