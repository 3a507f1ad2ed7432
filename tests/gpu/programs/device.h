/*
 * device.h: device memory full of numbers, and times, for the programs that
 * look at a GPU. Whatever fails ends the program: with 77 where there is no
 * GPU, else with 1.
 */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include "convs.h"
#include "cuda_rt.h"

typedef struct Device {
    VaeRtDevice info;
    VaeRtStream stream;
    VaeCudaConvs *convs;
} Device;

void device_open(Device *d);
void device_close(Device *d);

void device_must(int code, const char *doing);
void device_status(VaeStatus status, const VaeError *error);

/* n elements of the device's memory, from -1 to 1, which depend on seed; the
 * same on the host as they are after rounding, where `host` is not NULL (to be
 * freed), else they repeat after DEVICE_PERIOD: a prime, so that an offset of
 * which bits are lost meets other numbers. */
enum { DEVICE_PERIOD = 1048573 };
void *device_numbers(Device *d, VaeType type, size_t n, uint32_t seed,
                     float **host);
void *device_bytes(Device *d, size_t bytes);
/* n elements back as floats, to be freed. */
float *device_floats(Device *d, const void *p, VaeType type, size_t n);

/* Milliseconds that a run takes on the device: the median of `runs` after one
 * more. */
typedef void (*DeviceRun)(Device *d, void *what);
float device_time(Device *d, DeviceRun run, void *what, int runs);

/* A convolution with memory of its own; n: elements. */
typedef struct DeviceConv {
    VaeCudaConvShape shape;
    VaeCudaConv *conv;
    void *x, *y, *add, *weight, *bias, *workspace;
    size_t n_x, n_y, n_weight;
    float *x_host, *add_host, *weight_host, *bias_host; /* where wanted */
    bool in_place; /* what is added is read from y, where the caller puts it */
} DeviceConv;

void device_conv_open(Device *d, DeviceConv *c, bool on_host);
/* Makes it by that choice and runs it once; false where the device cannot. */
bool device_conv_make(Device *d, DeviceConv *c, const VaeCudaChoice *choice);
void device_conv_run(Device *d, void *conv); /* a DeviceRun */
void device_conv_close(DeviceConv *c);

#endif
