/*
 * export.c: how frameworks read a tensor: DLPack and the buffer protocol.
 */
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

typedef struct Export {
    VaePyDlManaged managed;
    int64_t shape[VAE_PY_DIMS], strides[VAE_PY_DIMS];
} Export;

static void
delete_export(VaePyDlManaged *managed)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF((PyObject *) managed->owner);
    free(managed);
    PyGILState_Release(state);
}

static void
delete_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_export(PyCapsule_GetPointer(capsule, "dltensor"));
}

/* The arguments of the protocol ask for what every tensor here is. */
PyObject *
vae_py_dlpack(PyObject *self, PyObject *args, PyObject *named)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    Export *e = calloc(1, sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    for (int d = 0; d < t->n_dims; d++) {
        e->shape[d] = t->shape[d];
        e->strides[d] = t->strides[d] / vae_py_item_size(t);
    }
    e->managed = (VaePyDlManaged){.data = t->data,
                                  .device = t->device,
                                  .n_dims = t->n_dims,
                                  .type = t->type,
                                  .shape = e->shape,
                                  .strides = e->strides,
                                  .owner = self,
                                  .deleter = delete_export};
    PyObject *capsule = PyCapsule_New(&e->managed, "dltensor", delete_capsule);
    if (capsule)
        Py_INCREF(self);
    else
        free(e);
    return capsule;
}

PyObject *
vae_py_dlpack_device(PyObject *self, PyObject *none)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    return Py_BuildValue("ii", (int) t->device.type, (int) t->device.index);
}

typedef struct Buffer {
    Py_ssize_t shape[VAE_PY_DIMS], strides[VAE_PY_DIMS];
} Buffer;

int
vae_py_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    const VaePyKnown *k = vae_py_known(t);
    view->obj = NULL;
    if (t->device.type == VAE_PY_DL_CUDA || !k || !k->format ||
        (t->readonly && (flags & PyBUF_WRITABLE)) ||
        (!(flags & (PyBUF_STRIDES & ~PyBUF_ND)) &&
         !vae_py_packed(t, t->n_dims))) {
        PyErr_Format(PyExc_BufferError,
                     "no buffer of this kind: the tensor is %s%s; use "
                     "__dlpack__",
                     t->dtype, t->readonly ? ", read only" : "");
        return -1;
    }
    Buffer *b = malloc(sizeof *b);
    if (!b) {
        PyErr_NoMemory();
        return -1;
    }
    for (int d = 0; d < t->n_dims; d++) {
        b->shape[d] = (Py_ssize_t) t->shape[d];
        b->strides[d] = (Py_ssize_t) t->strides[d];
    }
    *view = (Py_buffer){
        .buf = t->data,
        .obj = self,
        .len = (Py_ssize_t) vae_py_bytes(t),
        .itemsize = vae_py_item_size(t),
        .readonly = t->readonly,
        .ndim = t->n_dims,
        .format = flags & PyBUF_FORMAT ? (char *) k->format : NULL,
        .shape = flags & PyBUF_ND ? b->shape : NULL,
        .strides = flags & (PyBUF_STRIDES & ~PyBUF_ND) ? b->strides : NULL,
        .internal = b};
    Py_INCREF(self);
    return 0;
}

void
vae_py_release_buffer(PyObject *self, Py_buffer *view)
{
    free(view->internal);
}
