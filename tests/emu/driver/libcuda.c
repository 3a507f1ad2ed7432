/*
 * libcuda.c: the part of a CUDA driver that gstreamer-cuda needs. Its memory is
 * host memory, like that of the emulated device. Contexts are only names. Four
 * functions return counts: emu_driver_copies() of copies, emu_driver_waits() of
 * waits for a stream, emu_driver_events() of recorded events, and
 * emu_driver_events_alive() of events that are not freed.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PITCH = 512, DEVICES = 2, EVENT_BYTES = 256 };

/* nvcodec 1.22 pushes a context for each of its decoders and never pops it. */
enum { DEPTH = 64 };

/* Numbers from the driver's interface. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CU_MEMORYTYPE_HOST = 1,
    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
};

/* One side of a CUDA_MEMCPY2D, and the whole struct. */
typedef struct Side {
    size_t x, y;
    int type;
    void *host;
    uintptr_t device;
    void *array;
    size_t pitch;
} Side;

typedef struct Copy {
    Side from, to;
    size_t width, height;
} Copy;

#define CALL(name, ...)                                                        \
    int name(__VA_ARGS__);                                                     \
    int name(__VA_ARGS__)

static char primary[DEVICES];
static atomic_int copies, waits, events, events_alive;
static _Thread_local void *stack[DEPTH];
static _Thread_local int depth;

CALL(cuInit, unsigned int flags)
{
    return CUDA_SUCCESS;
}

CALL(cuDriverGetVersion, int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

CALL(cuGetErrorName, int error, const char **name)
{
    *name = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "an error";
    return CUDA_SUCCESS;
}

CALL(cuGetErrorString, int error, const char **words)
{
    return cuGetErrorName(error, words);
}

CALL(cuDeviceGetCount, int *count)
{
    *count = DEVICES;
    return CUDA_SUCCESS;
}

CALL(cuDeviceGet, int *device, int number)
{
    *device = number;
    return number >= 0 && number < DEVICES ? CUDA_SUCCESS
                                           : CUDA_ERROR_INVALID_DEVICE;
}

CALL(cuDeviceGetName, char *name, int size, int device)
{
    snprintf(name, (size_t) size, "the emulated device");
    return CUDA_SUCCESS;
}

CALL(cuDeviceGetAttribute, int *value, int which, int device)
{
    *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
             : which == CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT      ? PITCH
                                                                   : 0;
    return CUDA_SUCCESS;
}

CALL(cuDeviceCanAccessPeer, int *can, int device, int peer)
{
    *can = 0;
    return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxRetain, void **context, int device)
{
    *context = &primary[device];
    return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxRelease_v2, int device)
{
    return CUDA_SUCCESS;
}

CALL(cuCtxPushCurrent_v2, void *context)
{
    if (depth == DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CALL(cuCtxPopCurrent_v2, void **context)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

CALL(cuCtxCreate_v2, void **context, unsigned int flags, int device)
{
    *context = malloc(1);
    return *context ? cuCtxPushCurrent_v2(*context) : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuCtxDestroy_v2, void *context)
{
    free(context);
    return CUDA_SUCCESS;
}

/* As in the driver, memory belongs to a context. */
static void *
take(size_t bytes)
{
    void *block =
        depth ? aligned_alloc(PITCH, (bytes + PITCH - 1) / PITCH * PITCH)
              : NULL;
    if (block)
        memset(block, 0xee, bytes);
    return block;
}

CALL(cuMemAllocPitch_v2, uintptr_t *out, size_t *pitch, size_t width,
     size_t height, unsigned int element)
{
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    *out = (uintptr_t) take(*pitch * height);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CALL(cuMemAlloc_v2, uintptr_t *out, size_t bytes)
{
    *out = (uintptr_t) take(bytes);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CALL(cuMemAllocHost_v2, void **out, size_t bytes)
{
    *out = take(bytes);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CALL(cuMemFree_v2, uintptr_t block)
{
    free((void *) block);
    return CUDA_SUCCESS;
}

CALL(cuMemFreeHost, void *block)
{
    free(block);
    return CUDA_SUCCESS;
}

CALL(cuMemcpy2D_v2, const Copy *copy)
{
    const Side *from = &copy->from, *to = &copy->to;
    const bool up = from->type == CU_MEMORYTYPE_HOST;
    const bool down = to->type == CU_MEMORYTYPE_HOST;
    const char *src = up ? from->host : (const char *) from->device;
    char *dst = down ? to->host : (char *) to->device;
    copies++;
    for (size_t y = 0; y < copy->height; y++)
        memmove(dst + (to->y + y) * to->pitch + to->x,
                src + (from->y + y) * from->pitch + from->x, copy->width);
    return CUDA_SUCCESS;
}

CALL(cuMemcpy2DAsync_v2, const Copy *copy, void *stream)
{
    return cuMemcpy2D_v2(copy);
}

CALL(cuStreamCreate, void **stream, unsigned int flags)
{
    *stream = malloc(1);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuStreamDestroy_v2, void *stream)
{
    free(stream);
    return CUDA_SUCCESS;
}

CALL(cuStreamDestroy, void *stream)
{
    return cuStreamDestroy_v2(stream);
}

CALL(cuStreamSynchronize, void *stream)
{
    waits++;
    return CUDA_SUCCESS;
}

/* All work is done at once, so an event has always happened. The bytes of an
 * event are 0, which the emulated device reads as an event that was never
 * recorded. */
CALL(cuEventCreate, void **event, unsigned int flags)
{
    *event = calloc(1, EVENT_BYTES);
    events_alive += *event != NULL;
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuEventDestroy_v2, void *event)
{
    events_alive--;
    free(event);
    return CUDA_SUCCESS;
}

CALL(cuEventRecord, void *event, void *stream)
{
    events++;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ */
/* Functions of this driver for the tests, and functions that gstreamer-cuda
 * only needs to exist. */

CALL(emu_driver_copies, void)
{
    return copies;
}

CALL(emu_driver_waits, void)
{
    return waits;
}

CALL(emu_driver_events, void)
{
    return events;
}

CALL(emu_driver_events_alive, void)
{
    return events_alive;
}

#define NOT_SUPPORTED(name)                                                    \
    CALL(name, void)                                                           \
    {                                                                          \
        return CUDA_ERROR_NOT_SUPPORTED;                                       \
    }

/* All versions of gstreamer-cuda need these functions. */
NOT_SUPPORTED(cuCtxEnablePeerAccess)
NOT_SUPPORTED(cuCtxDisablePeerAccess)
NOT_SUPPORTED(cuGraphicsMapResources)
NOT_SUPPORTED(cuGraphicsUnmapResources)
NOT_SUPPORTED(cuGraphicsUnregisterResource)
NOT_SUPPORTED(cuModuleLoadData)
NOT_SUPPORTED(cuModuleUnload)
NOT_SUPPORTED(cuModuleGetFunction)
NOT_SUPPORTED(cuTexObjectCreate)
NOT_SUPPORTED(cuTexObjectDestroy)
NOT_SUPPORTED(cuLaunchKernel)
NOT_SUPPORTED(cuGraphicsGLRegisterImage)
NOT_SUPPORTED(cuGraphicsGLRegisterBuffer)
NOT_SUPPORTED(cuGLGetDevices_v2)
NOT_SUPPORTED(cuGraphicsResourceSetMapFlags_v2)
NOT_SUPPORTED(cuGraphicsSubResourceGetMappedArray)
NOT_SUPPORTED(cuGraphicsResourceGetMappedPointer_v2)
/* gstreamer-cuda 1.24 and later need these functions. */
NOT_SUPPORTED(cuCtxSynchronize)
NOT_SUPPORTED(cuCtxGetLimit)
NOT_SUPPORTED(cuCtxSetLimit)
NOT_SUPPORTED(cuDeviceGetUuid)
NOT_SUPPORTED(cuMemcpyDtoD_v2)
NOT_SUPPORTED(cuMemcpyDtoDAsync_v2)
NOT_SUPPORTED(cuMemcpyDtoH_v2)
NOT_SUPPORTED(cuMemcpyDtoHAsync_v2)
NOT_SUPPORTED(cuMemcpyHtoD_v2)
NOT_SUPPORTED(cuMemcpyHtoDAsync_v2)
NOT_SUPPORTED(cuMemsetD2D8_v2)
NOT_SUPPORTED(cuMemsetD2D8Async)
NOT_SUPPORTED(cuMemsetD2D16_v2)
NOT_SUPPORTED(cuMemsetD2D16Async)
NOT_SUPPORTED(cuMemsetD2D32_v2)
NOT_SUPPORTED(cuMemsetD2D32Async)
NOT_SUPPORTED(cuEventSynchronize)
NOT_SUPPORTED(cuIpcGetEventHandle)
NOT_SUPPORTED(cuIpcOpenEventHandle)
NOT_SUPPORTED(cuIpcGetMemHandle)
NOT_SUPPORTED(cuIpcOpenMemHandle)
NOT_SUPPORTED(cuIpcCloseMemHandle)
