/*
 * cuda_rt.c: cuda_rt.h over the CUDA run-time library.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_rt.h"

#ifdef VAE_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

/* Returns code and clears the last error. Otherwise vae_rt_failure() would
 * report the same failure again, perhaps for another stream. */
static int
told(int code)
{
    if (code)
        cudaGetLastError();
    return code;
}

/* The run time has the same code for a missing driver and for one that is too
 * old. Every driver of its own major version, such as 13.x, is new enough. */
static const char *
driver_words(char *text, size_t size)
{
    int driver = 0, needed = 0;
    told(cudaDriverGetVersion(&driver)); /* 0 if there is none */
    told(cudaRuntimeGetVersion(&needed));
    if (driver > 0)
        snprintf(text, size,
                 "the NVIDIA driver supports CUDA %d.%d, this build needs "
                 "%d.0; install a later driver, or use backend cpu",
                 driver / 1000, driver % 1000 / 10, needed / 1000);
    else
        snprintf(text, size,
                 "there is no NVIDIA driver; backend cuda needs a GPU and "
                 "its driver, in a container also NVIDIA's container "
                 "runtime; otherwise use backend cpu");
    return text;
}

static const char *
no_device_words(char *text, size_t size)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible)
        return "there is no NVIDIA GPU";
    snprintf(text, size,
             "there is no NVIDIA GPU among those that CUDA_VISIBLE_DEVICES "
             "lets this process see, which is \"%.60s\"",
             visible);
    return text;
}

const char *
vae_rt_words(int code)
{
    static _Thread_local char text[200];
    switch (code) {
    case cudaErrorInsufficientDriver:
        return driver_words(text, sizeof text);
    case cudaErrorNoDevice:
        return no_device_words(text, sizeof text);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
        return "this build has kernels for compute capability " VAE_CUDA_ARCHS
               " only (its option cuda-archs)";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case 226: /* cudaErrorContained and ... */
    case 721: /* ... cudaErrorTensorMemoryLeak, of later releases than 12.4 */
        snprintf(text, sizeof text,
                 "%s; until it ends, this process cannot use CUDA any more",
                 cudaGetErrorString((cudaError_t) code));
        return text;
    default:
        return cudaGetErrorString((cudaError_t) code);
    }
}

bool
vae_rt_is_memory(int code)
{
    return code == cudaErrorMemoryAllocation;
}

int
vae_rt_failure(void)
{
    return cudaGetLastError();
}

int
vae_rt_devices(int *count)
{
    *count = 0;
    const int code = told(cudaGetDeviceCount(count));
    return code || *count > 0 ? code : cudaErrorNoDevice;
}

int
vae_rt_device(int device, VaeRtDevice *out)
{
    struct cudaDeviceProp p;
    *out = (VaeRtDevice){0};
    int code = cudaGetDeviceProperties(&p, device);
    if (!code)
        code = cudaDriverGetVersion(&out->driver);
    if (!code)
        code = cudaRuntimeGetVersion(&out->runtime);
    if (code)
        return told(code);
    snprintf(out->name, sizeof out->name, "%s", p.name);
    out->capability = 10 * p.major + p.minor;
    out->memory = p.totalGlobalMem;
    return 0;
}

/* A function of the driver, which the run time opens; NULL on failure. */
static void *
driver_function(const char *name)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    const int code = cudaGetDriverEntryPointByVersion(
        name, &function, 12000, cudaEnableDefault, &found);
#else
    const int code =
        cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
    return told(code) ? NULL : function;
}

/* cudaGetDevice() and cudaSetDevice() are not enough: the context may not be
 * the device's primary one, and a thread without a context must not get one. */
static void
get_context(void **out)
{
    int (*get)(void **context) = NULL;
    void *function = driver_function("cuCtxGetCurrent");
    memcpy(&get, &function, sizeof function);
    if (!get || get(out))
        *out = NULL;
}

static void
set_context(void *context)
{
    int (*set)(void *context) = NULL;
    void *function = driver_function("cuCtxSetCurrent");
    memcpy(&set, &function, sizeof function);
    if (set)
        set(context);
}

int
vae_rt_enter(int device, VaeRtCaller *out)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    get_context(&out->context);
    int code = cudaThreadExchangeStreamCaptureMode(&mode);
    out->mode = code ? -1 : (int) mode;
    if (!code)
        code = cudaSetDevice(device);
    return told(code);
}

void
vae_rt_leave(const VaeRtCaller *caller)
{
    enum cudaStreamCaptureMode mode = (enum cudaStreamCaptureMode) caller->mode;
    set_context(caller->context);
    if (caller->mode >= 0)
        told(cudaThreadExchangeStreamCaptureMode(&mode));
}

int
vae_rt_memory_left(uint64_t *bytes)
{
    size_t left = 0, all = 0;
    const int code = cudaMemGetInfo(&left, &all);
    *bytes = left;
    return told(code);
}

int
vae_rt_alloc(void **out, size_t bytes)
{
    *out = NULL;
    return told(cudaMalloc(out, bytes));
}

void
vae_rt_free(void *block)
{
    told(cudaFree(block));
}

int
vae_rt_alloc_host(void **out, size_t bytes)
{
    *out = NULL;
    return told(cudaHostAlloc(out, bytes, cudaHostAllocPortable));
}

void
vae_rt_free_host(void *block)
{
    if (block)
        told(cudaFreeHost(block));
}

int
vae_rt_pin(void *data, size_t bytes)
{
    return told(cudaHostRegister(data, bytes, cudaHostRegisterPortable));
}

void
vae_rt_unpin(void *data)
{
    told(cudaHostUnregister(data));
}

int
vae_rt_stream_new(VaeRtStream *out)
{
    *out = NULL;
    return told(
        cudaStreamCreateWithFlags((cudaStream_t *) out, cudaStreamNonBlocking));
}

void
vae_rt_stream_free(VaeRtStream stream)
{
    if (stream)
        told(cudaStreamDestroy(stream));
}

int
vae_rt_stream_sync(VaeRtStream stream)
{
    return told(cudaStreamSynchronize(stream));
}

int
vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event)
{
    return told(cudaStreamWaitEvent(stream, event, 0));
}

int
vae_rt_event_new(VaeRtEvent *out)
{
    *out = NULL;
    return told(
        cudaEventCreateWithFlags((cudaEvent_t *) out, cudaEventBlockingSync));
}

void
vae_rt_event_free(VaeRtEvent event)
{
    if (event)
        told(cudaEventDestroy(event));
}

int
vae_rt_event_record(VaeRtEvent event, VaeRtStream stream)
{
    return told(cudaEventRecord(event, stream));
}

int
vae_rt_event_sync(VaeRtEvent event)
{
    return told(cudaEventSynchronize(event));
}

int
vae_rt_event_span(VaeRtEvent from, VaeRtEvent to, float *ms)
{
    return told(cudaEventElapsedTime(ms, from, to));
}

int
vae_rt_copy(void *dst, const void *src, size_t bytes, VaeRtStream stream)
{
    return told(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
}

int
vae_rt_zero(void *dst, size_t bytes, VaeRtStream stream)
{
    return told(cudaMemsetAsync(dst, 0, bytes, stream));
}

int
vae_rt_capture_begin(VaeRtStream stream)
{
    return told(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

int
vae_rt_capture_end(VaeRtStream stream, VaeRtGraph *out)
{
    cudaGraph_t graph = NULL;
    *out = NULL;
    int code = cudaStreamEndCapture(stream, &graph);
    if (!code)
        code = cudaGraphInstantiate((cudaGraphExec_t *) out, graph, 0);
    if (!code) /* otherwise the first launch would do it */
        code = cudaGraphUpload(*out, stream);
    if (graph)
        cudaGraphDestroy(graph);
    return told(code);
}

int
vae_rt_graph_run(VaeRtGraph graph, VaeRtStream stream)
{
    return told(cudaGraphLaunch(graph, stream));
}

void
vae_rt_graph_free(VaeRtGraph graph)
{
    if (graph)
        told(cudaGraphExecDestroy(graph));
}

void
vae_rt_range_begin(const char *name)
{
#ifdef VAE_HAVE_NVTX
    nvtxRangePushA(name);
#endif
}

void
vae_rt_range_end(void)
{
#ifdef VAE_HAVE_NVTX
    nvtxRangePop();
#endif
}

const VaeKernels *
vae_rt_kernels(void)
{
    return &vae_kernels_cuda;
}
