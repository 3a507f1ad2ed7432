/*
 * read.c: tensors of any framework, by DLPack or the buffer protocol.
 */
#include "tensor.h"

#include <stdlib.h>
#include <stdio.h>

static PyObject *
from_buffer(PyObject *object, bool writable)
{
    VaePyTensor *t = vae_py_tensor_new();
    Py_buffer *view = calloc(1, sizeof *view);
    if (!t || !view) {
        Py_XDECREF(t);
        free(view);
        return PyErr_NoMemory();
    }
    if (PyObject_GetBuffer(object, view,
                           PyBUF_STRIDES | PyBUF_FORMAT |
                               (writable ? PyBUF_WRITABLE : 0)) != 0) {
        free(view);
        Py_DECREF(t);
        return NULL;
    }
    t->view = view;
    t->n_dims = view->ndim;
    t->data = view->buf;
    t->readonly = view->readonly;
    t->device = (VaePyDlDevice){VAE_PY_DL_CPU, 0};
    const char *format = view->format ? view->format : "B";
    format += *format == '<' || *format == '=' || *format == '@';
    t->type = (VaePyDlType){3, (uint8_t) (8 * view->itemsize), 1};
    vae_py_set_format(t, format);
    if (t->n_dims > VAE_PY_DIMS) {
        Py_DECREF(t);
        return vae_py_fail("", "at most 8",
                           "a tensor has %d dimensions, expected at most 8",
                           view->ndim);
    }
    for (int d = 0; d < t->n_dims; d++) {
        t->shape[d] = view->shape[d];
        t->strides[d] = view->strides[d];
    }
    return (PyObject *) t;
}

static PyObject *
from_capsule(PyObject *capsule)
{
    VaePyDlManaged *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (!m)
        return NULL;
    if (m->n_dims > VAE_PY_DIMS)
        return vae_py_fail("", "at most 8",
                           "a tensor has %d dimensions, expected at most 8",
                           (int) m->n_dims);
    VaePyTensor *t = vae_py_tensor_new();
    if (!t || PyCapsule_SetName(capsule, "used_dltensor") != 0) {
        Py_XDECREF(t);
        return NULL;
    }
    t->managed = m;
    t->n_dims = m->n_dims;
    t->type = m->type;
    t->device = m->device;
    t->data = (char *) m->data + m->byte_offset;
    vae_py_name_type(t);
    for (int d = 0; d < t->n_dims; d++)
        t->shape[d] = m->shape[d];
    vae_py_pack_strides(t);
    for (int d = 0; m->strides && d < t->n_dims; d++)
        t->strides[d] = m->strides[d] * vae_py_item_size(t);
    return (PyObject *) t;
}

/* Passes the stream that reads the tensor, if it is on a GPU. */
static PyObject *
call_dlpack(PyObject *object)
{
    PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    int type = 0, index = 0;
    if (!device || !PyArg_ParseTuple(device, "ii", &type, &index)) {
        Py_XDECREF(device);
        return NULL;
    }
    Py_DECREF(device);
    PyObject *call = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *none = PyTuple_New(0);
    /* 1 is the default stream, which the engine's events wait for. */
    PyObject *named =
        type == VAE_PY_DL_CUDA ? Py_BuildValue("{si}", "stream", 1) : NULL;
    PyObject *capsule = call && none ? PyObject_Call(call, none, named) : NULL;
    Py_XDECREF(named);
    Py_XDECREF(none);
    Py_XDECREF(call);
    return capsule;
}

PyObject *
vae_py_tensor(PyObject *self, PyObject *args)
{
    PyObject *object;
    int writable = 0;
    if (!PyArg_ParseTuple(args, "O|p", &object, &writable))
        return NULL;
    if (vae_py_is_tensor(object)) {
        Py_INCREF(object);
        return object;
    }
    if (PyObject_CheckBuffer(object))
        return from_buffer(object, writable);
    if (!PyObject_HasAttrString(object, "__dlpack__")) {
        PyErr_Format(PyExc_TypeError,
                     "expected a tensor (with __dlpack__ or the buffer "
                     "protocol), found %R",
                     Py_TYPE(object));
        return NULL;
    }
    PyObject *capsule = call_dlpack(object);
    PyObject *made = capsule ? from_capsule(capsule) : NULL;
    Py_XDECREF(capsule);
    return made;
}

PyObject *
vae_py_typed(PyObject *self, PyObject *args)
{
    PyObject *object, *shape;
    const char *dtype;
    if (!PyArg_ParseTuple(args, "OsO!", &object, &dtype, &PyTuple_Type, &shape))
        return NULL;
    VaePyTensor *t = (VaePyTensor *) from_buffer(object, false);
    if (!t)
        return NULL;
    const uint64_t found = (uint64_t) t->view->len;
    if (!vae_py_packed(t, t->n_dims) || !vae_py_set_dtype(t, dtype) ||
        !vae_py_set_shape(t, shape) || vae_py_bytes(t) != found) {
        Py_DECREF(t);
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError,
                         "%llu bytes are no packed %s of this shape",
                         (unsigned long long) found, dtype);
        return NULL;
    }
    vae_py_pack_strides(t);
    return (PyObject *) t;
}
