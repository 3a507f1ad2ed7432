/*
 * type.c: the class gst_vae.Tensor.
 */
#include "tensor.h"

#include <stdlib.h>

static void
dealloc(PyObject *self)
{
    VaePyTensor *t = (VaePyTensor *) self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(t->base);
    if (t->managed && t->managed->deleter)
        t->managed->deleter(t->managed);
    if (t->view) {
        PyBuffer_Release(t->view);
        free(t->view);
    }
    free(t->block);
    ((freefunc) PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static Py_ssize_t
length(PyObject *self)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    if (t->n_dims > 0)
        return (Py_ssize_t) t->shape[0];
    PyErr_SetString(PyExc_TypeError, "a scalar has no length");
    return -1;
}

static PyObject *
dims_tuple(const int64_t *dims, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int d = 0; tuple && d < n; d++)
        if (PyTuple_SetItem(tuple, d, PyLong_FromLongLong(dims[d])) != 0)
            Py_CLEAR(tuple);
    return tuple;
}

enum { SHAPE, STRIDES, DTYPE, DEVICE, ADDRESS, READONLY };

static PyObject *
get(PyObject *self, void *which)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    switch ((intptr_t) which) {
    case SHAPE:
        return dims_tuple(t->shape, t->n_dims);
    case STRIDES:
        return dims_tuple(t->strides, t->n_dims);
    case DTYPE:
        return PyUnicode_FromString(t->dtype);
    case DEVICE:
        return t->device.type == VAE_PY_DL_CUDA
                   ? PyUnicode_FromFormat("cuda:%d", (int) t->device.index)
                   : PyUnicode_FromString("cpu");
    case ADDRESS:
        return PyLong_FromVoidPtr(t->data);
    default:
        return PyBool_FromLong(t->readonly);
    }
}

static PyObject *
repr(PyObject *self)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    char dims[128];
    return PyUnicode_FromFormat("<gst_vae.Tensor %s %s>", t->dtype,
                                vae_py_dims(t, dims, sizeof dims));
}

static PyGetSetDef properties[] = {
    {"shape", get, NULL, "The dimensions.", (void *) SHAPE},
    {"strides", get, NULL, "Bytes between elements.", (void *) STRIDES},
    {"dtype", get, NULL, "\"float32\", \"uint8\", ...", (void *) DTYPE},
    {"device", get, NULL, "\"cpu\" or \"cuda:0\".", (void *) DEVICE},
    {"address", get, NULL, "Of the first element.", (void *) ADDRESS},
    {"readonly", get, NULL, "True: cannot be written.", (void *) READONLY},
    {0}};

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction) (void (*)(void)) vae_py_dlpack,
     METH_VARARGS | METH_KEYWORDS, "The tensor for a framework."},
    {"__dlpack_device__", vae_py_dlpack_device, METH_NOARGS, "Its device."},
    {"moved", vae_py_moved, METH_VARARGS, "moved(*axes): another order."},
    {"part", vae_py_part, METH_VARARGS,
     "part(first, end) of the first dimension."},
    {"packed", vae_py_without_gaps, METH_VARARGS, "packed(n): without gaps."},
    {"tobytes", vae_py_tobytes, METH_NOARGS, "Packed bytes."},
    {"copied", vae_py_copied, METH_NOARGS, "A packed copy."},
    {"narrowed", vae_py_narrowed, METH_NOARGS,
     "A packed copy as float32, if it is float64."},
    {"grown", vae_py_grown, METH_NOARGS, "With a first dimension of 1."},
    {0}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     (void *) ("A tensor: numpy.asarray(t), torch.from_dlpack(t) and "
               "memoryview(t) share its memory.")},
    {Py_tp_dealloc, dealloc},
    {Py_tp_repr, repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_sq_length, length},
    {Py_sq_item, vae_py_item},
    {Py_bf_getbuffer, vae_py_get_buffer},
    {Py_bf_releasebuffer, vae_py_release_buffer},
    {0}};

static PyType_Spec spec = {
    "gst_vae.Tensor", sizeof(VaePyTensor), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

static PyMethodDef functions[] = {
    {"tensor", vae_py_tensor, METH_VARARGS,
     "tensor(object): a view of its memory."},
    {"typed", vae_py_typed, METH_VARARGS, "typed(data, dtype, shape)"},
    {"empty", vae_py_empty, METH_VARARGS, "empty(shape, dtype)"},
    {0}};

int
vae_py_add_tensor(PyObject *module)
{
    vae_py_tensor_type = (PyTypeObject *) PyType_FromSpec(&spec);
    return !vae_py_tensor_type ||
                   PyModule_AddObjectRef(module, "Tensor",
                                         (PyObject *) vae_py_tensor_type) ||
                   PyModule_AddFunctions(module, functions)
               ? -1
               : 0;
}
