/*
 * dlpack.h: the structs of DLPack, by which Python's frameworks share tensors.
 * Their layout is that of DLPack's stable interface, before version 1.
 */
#ifndef GST_VAE_DLPACK_H
#define GST_VAE_DLPACK_H

#include <stdint.h>

enum { VAE_PY_DL_INT, VAE_PY_DL_UINT, VAE_PY_DL_FLOAT, VAE_PY_DL_BFLOAT = 4 };
enum { VAE_PY_DL_CPU = 1, VAE_PY_DL_CUDA = 2, VAE_PY_DL_CUDA_HOST = 3 };

typedef struct VaePyDlType {
    uint8_t code, bits;
    uint16_t lanes;
} VaePyDlType;

typedef struct VaePyDlDevice {
    int32_t type, index;
} VaePyDlDevice;

typedef struct VaePyDlManaged {
    void *data;
    VaePyDlDevice device;
    int32_t n_dims;
    VaePyDlType type;
    int64_t *shape, *strides; /* in elements; strides may be NULL: packed */
    uint64_t byte_offset;
    void *owner;
    void (*deleter)(struct VaePyDlManaged *self); /* or NULL */
} VaePyDlManaged;

#endif
