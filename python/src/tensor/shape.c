/*
 * shape.c: parts, other orders and packed copies of a tensor.
 */
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

/* A tensor that shares the memory of t, with dimension d moved or fixed. */
static VaePyTensor *
share(PyObject *self)
{
    const VaePyTensor *from = (VaePyTensor *) self;
    VaePyTensor *t = vae_py_tensor_new();
    if (!t)
        return NULL;
    t->n_dims = from->n_dims;
    memcpy(t->shape, from->shape, sizeof t->shape);
    memcpy(t->strides, from->strides, sizeof t->strides);
    memcpy(t->dtype, from->dtype, sizeof t->dtype);
    t->type = from->type;
    t->device = from->device;
    t->data = from->data;
    t->readonly = from->readonly;
    Py_INCREF(self);
    t->base = self;
    return t;
}

PyObject *
vae_py_moved(PyObject *self, PyObject *axes)
{
    const VaePyTensor *from = (VaePyTensor *) self;
    unsigned seen = 0;
    if (PyTuple_Size(axes) != from->n_dims) {
        PyErr_SetString(PyExc_ValueError, "expected each axis once");
        return NULL;
    }
    VaePyTensor *t = share(self);
    for (int d = 0; t && d < t->n_dims; d++) {
        const long axis = PyLong_AsLong(PyTuple_GetItem(axes, d));
        if (axis < 0 || axis >= t->n_dims || (seen & 1u << axis)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "expected each axis once");
            Py_CLEAR(t);
            break;
        }
        seen |= 1u << axis;
        t->shape[d] = from->shape[axis];
        t->strides[d] = from->strides[axis];
    }
    return (PyObject *) t;
}

PyObject *
vae_py_part(PyObject *self, PyObject *args)
{
    const VaePyTensor *from = (VaePyTensor *) self;
    Py_ssize_t first, end;
    if (!PyArg_ParseTuple(args, "nn", &first, &end))
        return NULL;
    if (from->n_dims == 0 || first < 0 || end < first || end > from->shape[0]) {
        PyErr_SetString(PyExc_IndexError, "a part is outside of the tensor");
        return NULL;
    }
    VaePyTensor *t = share(self);
    if (t) {
        t->data += first * t->strides[0];
        t->shape[0] = end - first;
    }
    return (PyObject *) t;
}

PyObject *
vae_py_grown(PyObject *self, PyObject *none)
{
    if (((VaePyTensor *) self)->n_dims == VAE_PY_DIMS) {
        PyErr_SetString(PyExc_ValueError, "the tensor has 8 dimensions");
        return NULL;
    }
    VaePyTensor *t = share(self);
    if (t) {
        memmove(t->shape + 1, t->shape, sizeof t->shape - sizeof t->shape[0]);
        memmove(t->strides + 1, t->strides,
                sizeof t->strides - sizeof t->strides[0]);
        t->shape[0] = 1;
        t->n_dims++;
    }
    return (PyObject *) t;
}

PyObject *
vae_py_item(PyObject *self, Py_ssize_t i)
{
    const VaePyTensor *from = (VaePyTensor *) self;
    if (from->n_dims == 0 || i < 0 || i >= from->shape[0]) {
        PyErr_SetString(PyExc_IndexError, "the index is outside of the tensor");
        return NULL;
    }
    VaePyTensor *t = share(self);
    if (t) {
        t->data += i * t->strides[0];
        t->n_dims--;
        memmove(t->shape, t->shape + 1, sizeof t->shape - sizeof t->shape[0]);
        memmove(t->strides, t->strides + 1,
                sizeof t->strides - sizeof t->strides[0]);
    }
    return (PyObject *) t;
}

/* Copies t, with its strides, to packed memory; returns its end. If narrow, t
 * is float64, and the copy is float32. */
static char *
copy_packed(char *dst, const VaePyTensor *t, bool narrow, int dim,
            const char *src)
{
    const int size = vae_py_item_size(t);
    const bool row = dim == t->n_dims - 1 && t->strides[dim] == size;
    if (row || dim == t->n_dims) {
        const size_t n = row ? (size_t) t->shape[dim] : 1;
        if (narrow)
            vae_type_to_float((float *) (void *) dst, src, VAE_TYPE_F64, n);
        else
            memcpy(dst, src, n * (size_t) size);
        return dst + n * (narrow ? sizeof(float) : (size_t) size);
    }
    for (int64_t i = 0; i < t->shape[dim]; i++)
        dst = copy_packed(dst, t, narrow, dim + 1, src + i * t->strides[dim]);
    return dst;
}

static bool
on_host(const VaePyTensor *t)
{
    if (t->device.type != VAE_PY_DL_CUDA)
        return true;
    PyErr_SetString(PyExc_ValueError, "the tensor is in device memory");
    return false;
}

static PyObject *
copy_of(PyObject *self, bool narrow)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    if (!on_host(t))
        return NULL;
    VaePyTensor *copy = share(self);
    if (!copy)
        return NULL;
    Py_CLEAR(copy->base);
    if (narrow)
        vae_py_set_dtype(copy, "float32");
    const uint64_t bytes = vae_py_bytes(copy);
    if (!vae_py_allocate(copy, bytes)) {
        Py_DECREF(copy);
        return PyErr_NoMemory();
    }
    copy->readonly = false;
    vae_py_pack_strides(copy);
    if (bytes > 0)
        copy_packed(copy->data, t, narrow, 0, t->data);
    return (PyObject *) copy;
}

PyObject *
vae_py_copied(PyObject *self, PyObject *none)
{
    return copy_of(self, false);
}

PyObject *
vae_py_tobytes(PyObject *self, PyObject *none)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    if (!on_host(t))
        return NULL;
    const uint64_t size = vae_py_bytes(t);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t) size);
    if (bytes && size > 0)
        copy_packed(PyBytes_AsString(bytes), t, false, 0, t->data);
    return bytes;
}

PyObject *
vae_py_narrowed(PyObject *self, PyObject *none)
{
    if (strcmp(((VaePyTensor *) self)->dtype, "float64") == 0)
        return copy_of(self, true);
    Py_INCREF(self);
    return self;
}

PyObject *
vae_py_without_gaps(PyObject *self, PyObject *args)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    int n = t->n_dims;
    if (!PyArg_ParseTuple(args, "|i", &n))
        return NULL;
    if (n >= 0 && n <= t->n_dims && vae_py_packed(t, n)) {
        Py_INCREF(self);
        return self;
    }
    return copy_of(self, false);
}
