/*
 * cuda_rt.h: the functions of the CUDA run time that the CUDA backend uses. In
 * the tests an emulation on the CPU replaces cuda_rt.c.
 *
 * Calls that return int return 0 or an error code, which vae_rt_words()
 * explains. Any later call may report the failure of a kernel or a copy.
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

/* A cudaStream_t, a cudaEvent_t and a cudaGraphExec_t. The work of a stream is
 * done in order. */
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

/* Context and capture mode of the calling thread. */
typedef struct VaeRtCaller {
    void *context;
    int mode;
} VaeRtCaller;

/* Selects the device for the later calls of this thread. Also allows these
 * calls while another thread of the process records a stream; otherwise both
 * the call and that recording would fail. */
int vae_rt_enter(int device, VaeRtCaller *out);
/* Restores the context and the mode, also after vae_rt_enter() has failed. */
void vae_rt_leave(const VaeRtCaller *caller);
int vae_rt_memory_left(uint64_t *bytes);

/* Device memory, 256-byte aligned, and pinned host memory. Only copies from and
 * to pinned memory overlap with other work. */
int vae_rt_alloc(void **out, size_t bytes);
void vae_rt_free(void *block);
int vae_rt_alloc_host(void **out, size_t bytes);
void vae_rt_free_host(void *block);

/* Pins host memory of another allocator. */
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

/* Copies between device memory, pinned memory and other host memory, in the
 * order of the stream. Copies from and to other host memory may not overlap
 * with other work. */
int vae_rt_copy(void *dst, const void *src, size_t bytes, VaeRtStream stream);
int vae_rt_zero(void *dst, size_t bytes, VaeRtStream stream);

/* Between begin and end, work for the stream is recorded, not done. */
int vae_rt_capture_begin(VaeRtStream stream);
int vae_rt_capture_end(VaeRtStream stream, VaeRtGraph *out);
int vae_rt_graph_run(VaeRtGraph graph, VaeRtStream stream);
void vae_rt_graph_free(VaeRtGraph graph);

/* Names the work of this thread between the two calls, for a profiler. Has no
 * effect in a build without NVTX. */
void vae_rt_range_begin(const char *name);
void vae_rt_range_end(void);

/* The kernels; VaeQueue.stream is a VaeRtStream. */
const VaeKernels *vae_rt_kernels(void);

#endif
