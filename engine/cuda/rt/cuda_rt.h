/*
 * cuda_rt.h: what the CUDA backend asks of the CUDA run time. An emulation on
 * the CPU stands in for cuda_rt.c in the tests.
 *
 * Calls that return int return 0 or a code that vae_rt_words() explains. A
 * failed kernel or copy may be told by any later call.
 */
#ifndef VAE_CUDA_RT_H
#define VAE_CUDA_RT_H

#include "kernels.h"

typedef struct VaeRtDevice {
    char name[256];
    int capability; /* 90 for 9.0 */
    uint64_t memory;
    int driver, runtime; /* CUDA versions, 13000 for 13.0 */
} VaeRtDevice;

/* Work on a device, done in order; a cudaStream_t and the like. */
typedef void *VaeRtStream;
typedef void *VaeRtEvent;
typedef void *VaeRtGraph;

const char *vae_rt_words(int code);
/* True for the code that means out of memory. */
bool vae_rt_is_memory(int code);
/* The first failure since the last call, of this thread's launches. */
int vae_rt_failure(void);

/* 0 only with a count of 1 or more. */
int vae_rt_devices(int *count);
int vae_rt_device(int device, VaeRtDevice *out);
/* The device of this thread's calls from here on. */
int vae_rt_use(int device);
int vae_rt_memory_left(uint64_t *bytes);

/* Device memory, 256-byte aligned, and memory of the host that copies of
 * vae_rt_copy() to and from a device need in order to overlap with work. */
int vae_rt_alloc(void **out, size_t bytes);
void vae_rt_free(void *block);
int vae_rt_alloc_host(void **out, size_t bytes);
void vae_rt_free_host(void *block);

int vae_rt_stream_new(VaeRtStream *out);
void vae_rt_stream_free(VaeRtStream stream);
/* Waits for all work of the stream. */
int vae_rt_stream_sync(VaeRtStream stream);
/* What the stream gets from here on waits for the event. */
int vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event);

int vae_rt_event_new(VaeRtEvent *out);
void vae_rt_event_free(VaeRtEvent event);
/* The event comes when the stream's work so far is done. */
int vae_rt_event_record(VaeRtEvent event, VaeRtStream stream);
int vae_rt_event_sync(VaeRtEvent event);
/* Milliseconds between two events that have come. */
int vae_rt_event_span(VaeRtEvent from, VaeRtEvent to, float *ms);

/* Between any two of device memory, that of vae_rt_alloc_host() and other
 * host memory; with the last, only stream order is promised. */
int vae_rt_copy(void *dst, const void *src, size_t bytes, VaeRtStream stream);
int vae_rt_zero(void *dst, size_t bytes, VaeRtStream stream);

/* Between begin and end the stream's work is recorded and not done. */
int vae_rt_capture_begin(VaeRtStream stream);
int vae_rt_capture_end(VaeRtStream stream, VaeRtGraph *out);
int vae_rt_graph_run(VaeRtGraph graph, VaeRtStream stream);
void vae_rt_graph_free(VaeRtGraph graph);

/* Names what this thread does between the two for a profiler that watches;
 * nothing without one, or in a build without NVTX. */
void vae_rt_range_begin(const char *name);
void vae_rt_range_end(void);

/* The kernels; VaeQueue.stream is a VaeRtStream. */
const VaeKernels *vae_rt_kernels(void);

#endif
