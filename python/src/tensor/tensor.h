/*
 * tensor.h: shared by the files of this folder. What other files use is in
 * python.h.
 */
#ifndef GST_VAE_PYTHON_TENSOR_H
#define GST_VAE_PYTHON_TENSOR_H

#include "python.h"

/* base.c */

typedef struct VaePyKnown {
    const char *name, *format; /* format of the buffer protocol, or NULL */
    VaePyDlType type;
    int vae; /* VaeType, or -1 */
} VaePyKnown;

/* The row of the type of t, or NULL. */
const VaePyKnown *vae_py_known(const VaePyTensor *t);
/* The bytes without gaps; UINT64_MAX if 64 bits do not hold their number. */
uint64_t vae_py_bytes(const VaePyTensor *t);
/* A tensor without data, or NULL with an exception. */
VaePyTensor *vae_py_tensor_new(void);
/* Sets the strides of packed data. */
void vae_py_pack_strides(VaePyTensor *t);
/* Sets the name of the type, such as "float32". */
void vae_py_name_type(VaePyTensor *t);
/* Sets the name of a format of the buffer protocol, and its type if tensors
 * have it. */
void vae_py_set_format(VaePyTensor *t, const char *format);
/* Sets the type by its name; false with an exception. */
bool vae_py_set_dtype(VaePyTensor *t, const char *dtype);
/* Sets the shape to that of a tuple; false with an exception. */
bool vae_py_set_shape(VaePyTensor *t, PyObject *shape);
/* Gives a tensor its own memory of at least these bytes; false if there is not
 * enough. */
bool vae_py_allocate(VaePyTensor *t, uint64_t bytes);
/* empty(shape, dtype): memory of our own, not initialized. */
PyObject *vae_py_empty(PyObject *self, PyObject *args);

/* read.c */

/* tensor(object, writable=False): a view of the object's memory. */
PyObject *vae_py_tensor(PyObject *self, PyObject *args);
/* typed(data, dtype, shape): packed bytes as a tensor. */
PyObject *vae_py_typed(PyObject *self, PyObject *args);

/* shape.c: methods of a tensor */

/* t.moved(*axes): the dimensions in another order. */
PyObject *vae_py_moved(PyObject *self, PyObject *axes);
/* t.part(first, end): a part of the first dimension. */
PyObject *vae_py_part(PyObject *self, PyObject *args);
/* t.grown(): with a first dimension of 1. */
PyObject *vae_py_grown(PyObject *self, PyObject *none);
/* t[i]: without the first dimension. */
PyObject *vae_py_item(PyObject *self, Py_ssize_t i);
/* t.tobytes(): packed, of any type. */
PyObject *vae_py_tobytes(PyObject *self, PyObject *none);
/* t.copied(): a packed copy. */
PyObject *vae_py_copied(PyObject *self, PyObject *none);
/* t.packed(n): t itself if its last n dimensions have no gaps, else a copy. */
PyObject *vae_py_without_gaps(PyObject *self, PyObject *args);

/* export.c */

PyObject *vae_py_dlpack(PyObject *self, PyObject *args, PyObject *named);
PyObject *vae_py_dlpack_device(PyObject *self, PyObject *none);
int vae_py_get_buffer(PyObject *self, Py_buffer *view, int flags);
void vae_py_release_buffer(PyObject *self, Py_buffer *view);

#endif
