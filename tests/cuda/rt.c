/*
 * rt.c: tests cuda_rt.c with a run-time library that refuses every call, and
 * stores the last error as CUDA does. An error that a call has returned must
 * not be reported again as the error of a launch. Also tests large blocks of
 * pinned memory, and ranges for a profiler.
 */
#include <cuda_runtime_api.h>
#ifdef VAE_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu.h"

static int failed;

static void
expect(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok  " : "FAIL", what);
    failed += !good;
}

static cudaError_t last;
static int driver; /* version of the driver; -1: the call fails */
static bool empty; /* the call succeeds and finds no devices */

static cudaError_t
refuse(void)
{
    return last = cudaErrorNotSupported;
}

#define REFUSED(name, ...)                                                     \
    cudaError_t name(__VA_ARGS__)                                              \
    {                                                                          \
        return refuse();                                                       \
    }

REFUSED(cudaGetDeviceProperties, struct cudaDeviceProp *prop, int device)
REFUSED(cudaMemGetInfo, size_t *left, size_t *all)
REFUSED(cudaMalloc, void **out, size_t bytes)
REFUSED(cudaFree, void *block)
REFUSED(cudaHostAlloc, void **out, size_t bytes, unsigned int flags)
REFUSED(cudaFreeHost, void *block)
REFUSED(cudaStreamCreateWithFlags, cudaStream_t *out, unsigned int flags)
REFUSED(cudaStreamDestroy, cudaStream_t stream)
REFUSED(cudaStreamSynchronize, cudaStream_t stream)
REFUSED(cudaStreamWaitEvent, cudaStream_t stream, cudaEvent_t event,
        unsigned int flags)
REFUSED(cudaEventCreateWithFlags, cudaEvent_t *out, unsigned int flags)
REFUSED(cudaEventDestroy, cudaEvent_t event)
REFUSED(cudaEventRecord, cudaEvent_t event, cudaStream_t stream)
REFUSED(cudaEventSynchronize, cudaEvent_t event)
REFUSED(cudaEventElapsedTime, float *ms, cudaEvent_t from, cudaEvent_t to)
REFUSED(cudaMemcpyAsync, void *dst, const void *src, size_t bytes,
        enum cudaMemcpyKind kind, cudaStream_t stream)
REFUSED(cudaMemsetAsync, void *dst, int value, size_t bytes,
        cudaStream_t stream)
REFUSED(cudaStreamBeginCapture, cudaStream_t stream,
        enum cudaStreamCaptureMode mode)
REFUSED(cudaStreamEndCapture, cudaStream_t stream, cudaGraph_t *out)
REFUSED(cudaGraphInstantiate, cudaGraphExec_t *out, cudaGraph_t graph,
        unsigned long long flags)
REFUSED(cudaGraphUpload, cudaGraphExec_t graph, cudaStream_t stream)
REFUSED(cudaGraphDestroy, cudaGraph_t graph)
REFUSED(cudaGraphLaunch, cudaGraphExec_t graph, cudaStream_t stream)
REFUSED(cudaGraphExecDestroy, cudaGraphExec_t graph)

static bool accepts; /* otherwise calls are refused */

/* The registered memory. */
static struct {
    void *data; /* or NULL */
    size_t bytes;
    unsigned flags;
} registered;

cudaError_t
cudaHostRegister(void *data, size_t bytes, unsigned int flags)
{
    if (!accepts || registered.data)
        return refuse();
    registered.data = data;
    registered.bytes = bytes;
    registered.flags = flags;
    return cudaSuccess;
}

cudaError_t
cudaHostUnregister(void *data)
{
    if (!accepts || !data || data != registered.data)
        return refuse();
    registered.data = NULL;
    return cudaSuccess;
}

/* The state of a thread in the library and in the driver. */
static void *context = &driver;
static int device_used;
static enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;

cudaError_t
cudaSetDevice(int device)
{
    if (!accepts)
        return refuse();
    device_used = device;
    context = &device_used;
    return cudaSuccess;
}

cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *other)
{
    const enum cudaStreamCaptureMode before = mode;
    if (!accepts)
        return refuse();
    mode = *other;
    *other = before;
    return cudaSuccess;
}

static int
get_current(void **out)
{
    *out = context;
    return 0;
}

static int
set_current(void *it)
{
    context = it;
    return 0;
}

static cudaError_t
driver_function(const char *name, void **out)
{
    int (*get)(void **) = get_current, (*set)(void *) = set_current;
    if (!accepts)
        return refuse();
    if (strcmp(name, "cuCtxGetCurrent") == 0)
        memcpy(out, &get, sizeof *out);
    else if (strcmp(name, "cuCtxSetCurrent") == 0)
        memcpy(out, &set, sizeof *out);
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                 unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *found)
{
    return driver_function(name, out);
}
#else
cudaError_t
cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult *found)
{
    return driver_function(name, out);
}
#endif

/* A thread with an application's context, and a thread without a context. */
static void
entered(void *before)
{
    VaeRtCaller caller, inner;
    accepts = true;
    context = before;
    bool good = vae_rt_enter(3, &caller) == 0 && device_used == 3 &&
                context == &device_used && mode == cudaStreamCaptureModeRelaxed;
    good = good && vae_rt_enter(3, &inner) == 0;
    vae_rt_leave(&inner);
    good =
        good && context == &device_used && mode == cudaStreamCaptureModeRelaxed;
    vae_rt_leave(&caller);
    expect(good && context == before && mode == cudaStreamCaptureModeGlobal,
           before ? "a thread with a context" : "a thread without a context");
    accepts = false;
}

static bool
is_mapped(void *page)
{
    unsigned char resident;
    return mincore(page, 1, &resident) == 0;
}

/* A large block of pinned memory. */
static void
large_block(void)
{
    const size_t bytes = ((size_t) 64 << 20) + 1;
    const VaeBackend cuda = {.params = {.threads = 2}};
    VaeError error;
    void *block;
    accepts = true;
    VaeStatus status = vae_cuda_map_pinned(&cuda, bytes, &block, &error);
    expect(status == VAE_OK && block && block == registered.data &&
               registered.bytes == bytes &&
               registered.flags == cudaHostRegisterPortable,
           "a large block is registered for all contexts");
    void *other = block;
    status = vae_cuda_map_pinned(&cuda, bytes, &block, &error);
    expect(status == VAE_OK && !block && vae_rt_failure() == 0,
           "a registration that is refused");
    expect(!vae_cuda_unmap_pinned(&error) && registered.data == other,
           "a block of the run time is not unregistered");
    expect(vae_cuda_unmap_pinned(other) && !registered.data &&
               !is_mapped(other),
           "a large block is freed");
    status = vae_cuda_map_pinned(&cuda, bytes, &block, &error);
    accepts = false;
    expect(status == VAE_OK && vae_cuda_unmap_pinned(block) &&
               vae_rt_failure() == 0 && !is_mapped(block),
           "it is freed without a device");
    registered.data = NULL;
    status = vae_cuda_map_pinned(&cuda, bytes - 2, &block, &error);
    expect(status == VAE_OK && !block, "a small block");
}

cudaError_t
cudaGetDeviceCount(int *count)
{
    return empty ? cudaSuccess : refuse();
}

cudaError_t
cudaDriverGetVersion(int *version)
{
    *version = driver;
    return driver < 0 ? refuse() : cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t
cudaGetLastError(void)
{
    const cudaError_t code = last;
    last = cudaSuccess;
    return code;
}

const char *
cudaGetErrorString(cudaError_t code)
{
    return "refused";
}

const VaeKernels vae_kernels_cuda;

/* ------------------------------------------------------------------ */

/* code: the return value of a call, which is not 0. */
static void
told_once(int code, const char *what)
{
    expect(code == cudaErrorNotSupported && vae_rt_failure() == 0, what);
}

/* Tests the codes after which the process must end, by driver_types.h. */
static void
last_words(void)
{
    static const int codes[] = {226, 700, 702, 710, 714, 715, 716,
                                717, 718, 719, 721, 810, 911};
    int silent = 0;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        silent += !strstr(vae_rt_words(codes[i]), "cannot use CUDA any more");
    expect(silent == 0, "codes after which the process must end");
}

static void
expect_words(int code, const char *first, const char *second)
{
    const char *words = vae_rt_words(code);
    expect(strstr(words, first) && strstr(words, second) &&
               vae_rt_failure() == 0,
           words);
}

/* The message says what is wrong with the machine, and how to correct it. */
static void
machine_words(void)
{
    int n = 1;
    driver = 0;
    expect_words(cudaErrorInsufficientDriver, "there is no NVIDIA driver",
                 "backend cpu");
    driver = -1;
    expect_words(cudaErrorInsufficientDriver, "there is no NVIDIA driver",
                 "container runtime");
    driver = 12020;
    expect_words(cudaErrorInsufficientDriver,
                 "the NVIDIA driver supports CUDA 12.2",
                 "this build needs 13.0");
    unsetenv("CUDA_VISIBLE_DEVICES");
    expect(!strcmp(vae_rt_words(cudaErrorNoDevice), "there is no NVIDIA GPU"),
           "no GPU");
    setenv("CUDA_VISIBLE_DEVICES", "7,8", 1);
    expect_words(cudaErrorNoDevice, "there is no NVIDIA GPU",
                 "CUDA_VISIBLE_DEVICES lets this process see, which is "
                 "\"7,8\"");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    expect_words(cudaErrorNoDevice, "CUDA_VISIBLE_DEVICES", "\"\"");
    empty = true;
    expect(vae_rt_devices(&n) == cudaErrorNoDevice && n == 0, "a count of 0");
    empty = false;
}

/* ------------------------------------------------------------------ */
/* A profiler that was loaded with the program. */

#ifdef VAE_HAVE_NVTX
static char ranges[64];

static int NVTX_API
range_begins(const char *name)
{
    strcat(strcat(ranges, name), "(");
    return 0;
}

static int NVTX_API
range_ends(void)
{
    strcat(ranges, ")");
    return 0;
}

static int NVTX_API
watch(NvtxGetExportTableFunc_t tables)
{
    const NvtxExportTableCallbacks *callbacks = tables(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer) range_begins;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer) range_ends;
    return 1;
}

NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = watch;

static void
watched(void)
{
    vae_rt_range_begin("decode");
    vae_rt_range_begin("decoder.conv1");
    vae_rt_range_end();
    vae_rt_range_begin("decoder.conv2");
    vae_rt_range_end();
    vae_rt_range_end();
    expect(!strcmp(ranges, "decode(decoder.conv1()decoder.conv2())"), ranges);
}
#endif

int
main(void)
{
    int n;
    float ms;
    char byte = 0;
    void *out;
    uint64_t left;
    VaeRtDevice device;
    VaeRtCaller caller;
    told_once(vae_rt_devices(&n), "devices");
    told_once(vae_rt_device(0, &device), "device");
    told_once(vae_rt_enter(0, &caller), "enter");
    vae_rt_leave(&caller);
    expect(vae_rt_failure() == 0, "leave");
    told_once(vae_rt_memory_left(&left), "memory_left");
    told_once(vae_rt_alloc(&out, 1), "alloc");
    told_once(vae_rt_alloc_host(&out, 1), "alloc_host");
    told_once(vae_rt_pin(&byte, 1), "pin");
    told_once(vae_rt_stream_new(&out), "stream_new");
    told_once(vae_rt_stream_sync(&byte), "stream_sync");
    told_once(vae_rt_stream_wait(&byte, &byte), "stream_wait");
    told_once(vae_rt_event_new(&out), "event_new");
    told_once(vae_rt_event_record(&byte, &byte), "event_record");
    told_once(vae_rt_event_sync(&byte), "event_sync");
    told_once(vae_rt_event_span(&byte, &byte, &ms), "event_span");
    told_once(vae_rt_copy(&byte, &byte, 1, &byte), "copy");
    told_once(vae_rt_zero(&byte, 1, &byte), "zero");
    told_once(vae_rt_capture_begin(&byte), "capture_begin");
    told_once(vae_rt_capture_end(&byte, &out), "capture_end");
    told_once(vae_rt_graph_run(&byte, &byte), "graph_run");
    vae_rt_free(&byte);
    vae_rt_free_host(&byte);
    vae_rt_unpin(&byte);
    vae_rt_stream_free(&byte);
    vae_rt_event_free(&byte);
    vae_rt_graph_free(&byte);
    expect(vae_rt_failure() == 0, "freeing memory");
    last = cudaErrorInvalidConfiguration; /* as after a failed launch */
    expect(vae_rt_failure() == cudaErrorInvalidConfiguration &&
               vae_rt_failure() == 0,
           "a launch");
    entered(&failed);
    entered(NULL);
    large_block();
    last_words();
    machine_words();
#ifdef VAE_HAVE_NVTX
    watched();
#endif
    return failed != 0;
}
