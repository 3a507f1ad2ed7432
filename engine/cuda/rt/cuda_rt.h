/*
 * cuda_rt.h: the functions of the CUDA run time that the CUDA backend uses. In
 * the tests an emulation on the CPU replaces cuda_rt.c.
 *
 * Calls that return int return 0 or a code that vae_rt_words() explains. Any
 * later call may report the failure of a kernel or a copy.
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

/* A cudaStream_t, which does its work on a device in order; a cudaEvent_t; a
 * cudaGraphExec_t. */
typedef void *VaeRtStream;
typedef void *VaeRtEvent;
typedef void *VaeRtGraph;

const char *vae_rt_words(int code);
/* True for the code that means out of memory. */
bool vae_rt_is_memory(int code);
/* Returns and clears the failure of this thread's launches since the last call.
 */
int vae_rt_failure(void);

/* Returns 0 only if *count is 1 or more. */
int vae_rt_devices(int *count);
int vae_rt_device(int device, VaeRtDevice *out);

/* The context of this thread and its mode for recordings, both the caller's. */
typedef struct VaeRtCaller {
    void *context;
    int mode;
} VaeRtCaller;

/* Selects the device for the later calls of this thread, and allows them while
 * another thread of the process, perhaps the application's, records a stream:
 * otherwise such a call fails, and so does that recording. */
int vae_rt_enter(int device, VaeRtCaller *out);
/* Gives the thread back what it had, also after vae_rt_enter() has failed. */
void vae_rt_leave(const VaeRtCaller *caller);
int vae_rt_memory_left(uint64_t *bytes);

/* Device memory, 256-byte aligned, and pinned host memory. Copies between host
 * and device overlap with other work only from and to pinned memory. */
int vae_rt_alloc(void **out, size_t bytes);
void vae_rt_free(void *block);
int vae_rt_alloc_host(void **out, size_t bytes);
void vae_rt_free_host(void *block);

/* Pins host memory that was allocated otherwise. */
int vae_rt_pin(void *data, size_t bytes);
void vae_rt_unpin(void *data);

int vae_rt_stream_new(VaeRtStream *out);
void vae_rt_stream_free(VaeRtStream stream);
/* Waits for all work of the stream. */
int vae_rt_stream_sync(VaeRtStream stream);
/* Makes all later work of the stream wait for the event. */
int vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event);

int vae_rt_event_new(VaeRtEvent *out);
void vae_rt_event_free(VaeRtEvent event);
/* The event occurs when all earlier work of the stream is done. */
int vae_rt_event_record(VaeRtEvent event, VaeRtStream stream);
int vae_rt_event_sync(VaeRtEvent event);
/* Milliseconds between two events that have occurred. */
int vae_rt_event_span(VaeRtEvent from, VaeRtEvent to, float *ms);

/* Copies between device memory, memory of vae_rt_alloc_host() and other host
 * memory. Copies from and to other host memory keep the order of the stream but
 * may not overlap with other work. */
int vae_rt_copy(void *dst, const void *src, size_t bytes, VaeRtStream stream);
int vae_rt_zero(void *dst, size_t bytes, VaeRtStream stream);

/* Between begin and end, work for the stream is recorded, not done. */
int vae_rt_capture_begin(VaeRtStream stream);
int vae_rt_capture_end(VaeRtStream stream, VaeRtGraph *out);
int vae_rt_graph_run(VaeRtGraph graph, VaeRtStream stream);
void vae_rt_graph_free(VaeRtGraph graph);

/* Names the work of this thread between the two calls for a profiler. Does
 * nothing without a profiler, or in a build without NVTX. */
void vae_rt_range_begin(const char *name);
void vae_rt_range_end(void);

/* The kernels; VaeQueue.stream is a VaeRtStream. */
const VaeKernels *vae_rt_kernels(void);

#endif
