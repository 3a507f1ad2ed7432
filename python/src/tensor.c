/*
 * tensor.c: tensors of any framework, by DLPack or the buffer protocol, and
 * tensors of our own that frameworks read in the same ways.
 */
#include "python.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *vae_py_tensor_type;

static const struct Known {
    const char *name, *format; /* format of the buffer protocol, or NULL */
    VaePyDlType type;
    int vae; /* VaeType, or -1 */
} known[] = {
    {"float32", "f", {VAE_PY_DL_FLOAT, 32, 1}, VAE_TYPE_F32},
    {"float16", "e", {VAE_PY_DL_FLOAT, 16, 1}, VAE_TYPE_F16},
    {"bfloat16", NULL, {VAE_PY_DL_BFLOAT, 16, 1}, VAE_TYPE_BF16},
    {"uint8", "B", {VAE_PY_DL_UINT, 8, 1}, VAE_TYPE_U8},
    {"uint16", "H", {VAE_PY_DL_UINT, 16, 1}, -1},
    {"float64", "d", {VAE_PY_DL_FLOAT, 64, 1}, VAE_TYPE_F64},
};
enum { KNOWN = sizeof known / sizeof *known };

static const struct Known *
known_of(const VaePyTensor *t)
{
    for (int i = 0; i < KNOWN; i++)
        if (memcmp(&known[i].type, &t->type, sizeof t->type) == 0)
            return &known[i];
    return NULL;
}

bool
vae_py_is_tensor(PyObject *object)
{
    return PyObject_TypeCheck(object, vae_py_tensor_type);
}

bool
vae_py_vae_type(const VaePyTensor *t, VaeType *out)
{
    const struct Known *k = known_of(t);
    if (!k || k->vae < 0)
        return false;
    *out = (VaeType) k->vae;
    return true;
}

int
vae_py_item_size(const VaePyTensor *t)
{
    return t->type.bits * t->type.lanes / 8;
}

bool
vae_py_packed(const VaePyTensor *t, int n)
{
    int64_t size = vae_py_item_size(t);
    for (int d = t->n_dims - 1; d >= t->n_dims - n; d--) {
        if (t->shape[d] != 1 && t->strides[d] != size)
            return false;
        size *= t->shape[d];
    }
    return true;
}

const char *
vae_py_dims(const VaePyTensor *t, char *buffer, size_t size)
{
    return vae_dims_text(t->shape, t->n_dims, buffer, size);
}

static uint64_t
count_of(const VaePyTensor *t)
{
    uint64_t n = 1;
    for (int d = 0; d < t->n_dims; d++)
        n *= (uint64_t) t->shape[d];
    return n;
}

static VaePyTensor *
new_tensor(void)
{
    allocfunc alloc =
        (allocfunc) PyType_GetSlot(vae_py_tensor_type, Py_tp_alloc);
    return (VaePyTensor *) alloc(vae_py_tensor_type, 0);
}

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

/* Sets the strides of packed data. */
static void
pack_strides(VaePyTensor *t)
{
    int64_t size = vae_py_item_size(t);
    for (int d = t->n_dims - 1; d >= 0; d--) {
        t->strides[d] = size;
        size *= t->shape[d];
    }
}

static void
name_type(VaePyTensor *t)
{
    static const char *const codes[] = {"int",    "uint",    "float", "opaque",
                                        "bfloat", "complex", "bool"};
    const unsigned code = t->type.code;
    snprintf(t->dtype, sizeof t->dtype, "%s%d", code < 7 ? codes[code] : "type",
             t->type.bits);
}

/* ------------------------------------------------------------------ */

static PyObject *
from_buffer(PyObject *object, bool writable)
{
    VaePyTensor *t = new_tensor();
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
    snprintf(t->dtype, sizeof t->dtype, "%s", format);
    t->type = (VaePyDlType){3, (uint8_t) (8 * view->itemsize), 1};
    for (int i = 0; i < KNOWN; i++)
        if (known[i].format && strcmp(known[i].format, format) == 0) {
            t->type = known[i].type;
            name_type(t);
        }
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
    VaePyTensor *t = new_tensor();
    if (!t || PyCapsule_SetName(capsule, "used_dltensor") != 0) {
        Py_XDECREF(t);
        return NULL;
    }
    t->managed = m;
    t->n_dims = m->n_dims;
    t->type = m->type;
    t->device = m->device;
    t->data = (char *) m->data + m->byte_offset;
    name_type(t);
    for (int d = 0; d < t->n_dims; d++)
        t->shape[d] = m->shape[d];
    pack_strides(t);
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

/* tensor(object, writable=False): a view of the object's memory. */
static PyObject *
tensor(PyObject *self, PyObject *args)
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

/* ------------------------------------------------------------------ */

static bool
set_shape(VaePyTensor *t, PyObject *shape)
{
    t->n_dims = (int) PyTuple_Size(shape);
    if (t->n_dims < 0 || t->n_dims > VAE_PY_DIMS) {
        PyErr_SetString(PyExc_ValueError, "expected 0 to 8 dimensions");
        return false;
    }
    for (int d = 0; d < t->n_dims; d++) {
        t->shape[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
        if (t->shape[d] < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a dimension is negative");
            return false;
        }
    }
    return true;
}

static bool
set_dtype(VaePyTensor *t, const char *dtype)
{
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(known[i].name, dtype) == 0) {
            t->type = known[i].type;
            snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
            return true;
        }
    vae_py_fail(dtype, "float32, float16, bfloat16 or uint8",
                "the type %s is not known, expected float32, float16, bfloat16 "
                "or uint8",
                dtype);
    return false;
}

PyObject *
vae_py_view(PyObject *base, const char *dtype, int n_dims, const int64_t *shape,
            const int64_t *strides, void *data, bool readonly)
{
    VaePyTensor *t = new_tensor();
    if (!t || !set_dtype(t, dtype)) {
        Py_XDECREF(t);
        return NULL;
    }
    t->n_dims = n_dims;
    memcpy(t->shape, shape, (size_t) n_dims * sizeof *shape);
    memcpy(t->strides, strides, (size_t) n_dims * sizeof *strides);
    t->device = (VaePyDlDevice){VAE_PY_DL_CPU, 0};
    t->data = data;
    t->readonly = readonly;
    Py_INCREF(base);
    t->base = base;
    return (PyObject *) t;
}

/* empty(shape, dtype): memory of our own, not initialized. */
static PyObject *
empty(PyObject *self, PyObject *args)
{
    PyObject *shape;
    const char *dtype;
    if (!PyArg_ParseTuple(args, "O!s", &PyTuple_Type, &shape, &dtype))
        return NULL;
    VaePyTensor *t = new_tensor();
    if (!t || !set_shape(t, shape) || !set_dtype(t, dtype)) {
        Py_XDECREF(t);
        return NULL;
    }
    t->device = (VaePyDlDevice){VAE_PY_DL_CPU, 0};
    pack_strides(t);
    uint64_t bytes = (uint64_t) vae_py_item_size(t);
    bool fits = true;
    for (int d = 0; d < t->n_dims; d++)
        fits = fits &&
               !__builtin_mul_overflow(bytes, (uint64_t) t->shape[d], &bytes);
    if (!fits || posix_memalign(&t->block, 64, bytes ? bytes : 1) != 0) {
        t->block = NULL;
        Py_DECREF(t);
        VaeError error = {.status = VAE_ERR_MEMORY};
        snprintf(error.message, sizeof error.message,
                 "no memory for a tensor of %llu bytes",
                 (unsigned long long) bytes);
        return vae_py_raise(&error);
    }
    t->data = t->block;
    return (PyObject *) t;
}

/* A tensor that shares the memory of t, with dimension d moved or fixed. */
static VaePyTensor *
share(PyObject *self)
{
    const VaePyTensor *from = (VaePyTensor *) self;
    VaePyTensor *t = new_tensor();
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

/* t.moved(*axes): the dimensions in another order. */
static PyObject *
moved(PyObject *self, PyObject *axes)
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

/* t.part(first, end): a part of the first dimension. */
static PyObject *
part(PyObject *self, PyObject *args)
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

/* t.grown(): with a first dimension of 1. */
static PyObject *
grown(PyObject *self, PyObject *none)
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

static PyObject *
item(PyObject *self, Py_ssize_t i)
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

static Py_ssize_t
length(PyObject *self)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    if (t->n_dims > 0)
        return (Py_ssize_t) t->shape[0];
    PyErr_SetString(PyExc_TypeError, "a scalar has no length");
    return -1;
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

static PyObject *
copy_of(PyObject *self, bool narrow)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    if (t->device.type == VAE_PY_DL_CUDA) {
        PyErr_SetString(PyExc_ValueError, "the tensor is in device memory");
        return NULL;
    }
    VaePyTensor *copy = share(self);
    if (!copy)
        return NULL;
    Py_CLEAR(copy->base);
    if (narrow)
        set_dtype(copy, "float32");
    const uint64_t bytes = count_of(t) * (uint64_t) vae_py_item_size(copy);
    if (posix_memalign(&copy->block, 64, bytes ? bytes : 1) != 0) {
        copy->block = NULL;
        Py_DECREF(copy);
        return PyErr_NoMemory();
    }
    copy->data = copy->block;
    copy->readonly = false;
    pack_strides(copy);
    if (bytes > 0)
        copy_packed(copy->data, t, narrow, 0, t->data);
    return (PyObject *) copy;
}

/* t.copied(): a packed copy. */
static PyObject *
copied(PyObject *self, PyObject *none)
{
    return copy_of(self, false);
}

PyObject *
vae_py_narrowed(PyObject *self, PyObject *none)
{
    if (strcmp(((VaePyTensor *) self)->dtype, "float64") == 0)
        return copy_of(self, true);
    Py_INCREF(self);
    return self;
}

/* t.packed(n): t itself if its last n dimensions have no gaps, else a copy. */
static PyObject *
packed(PyObject *self, PyObject *args)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    int n = t->n_dims;
    if (!PyArg_ParseTuple(args, "|i", &n))
        return NULL;
    if (n >= 0 && n <= t->n_dims && vae_py_packed(t, n)) {
        Py_INCREF(self);
        return self;
    }
    return copied(self, NULL);
}

/* ------------------------------------------------------------------ */

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
static PyObject *
dlpack(PyObject *self, PyObject *args, PyObject *named)
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

static PyObject *
dlpack_device(PyObject *self, PyObject *none)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    return Py_BuildValue("ii", (int) t->device.type, (int) t->device.index);
}

typedef struct Buffer {
    Py_ssize_t shape[VAE_PY_DIMS], strides[VAE_PY_DIMS];
} Buffer;

static int
get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const VaePyTensor *t = (VaePyTensor *) self;
    const struct Known *k = known_of(t);
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
    const int size = vae_py_item_size(t);
    *view = (Py_buffer){
        .buf = t->data,
        .obj = self,
        .len = (Py_ssize_t) count_of(t) * size,
        .itemsize = size,
        .readonly = t->readonly,
        .ndim = t->n_dims,
        .format = flags & PyBUF_FORMAT ? (char *) k->format : NULL,
        .shape = flags & PyBUF_ND ? b->shape : NULL,
        .strides = flags & (PyBUF_STRIDES & ~PyBUF_ND) ? b->strides : NULL,
        .internal = b};
    Py_INCREF(self);
    return 0;
}

static void
release_buffer(PyObject *self, Py_buffer *view)
{
    free(view->internal);
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
    {"__dlpack__", (PyCFunction) (void (*)(void)) dlpack,
     METH_VARARGS | METH_KEYWORDS, "The tensor for a framework."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "Its device."},
    {"moved", moved, METH_VARARGS, "moved(*axes): another order."},
    {"part", part, METH_VARARGS, "part(first, end) of the first dimension."},
    {"packed", packed, METH_VARARGS, "packed(n): without gaps."},
    {"copied", copied, METH_NOARGS, "A packed copy."},
    {"narrowed", vae_py_narrowed, METH_NOARGS,
     "A packed copy as float32, if it is float64."},
    {"grown", grown, METH_NOARGS, "With a first dimension of 1."},
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
    {Py_sq_item, item},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {0}};

static PyType_Spec spec = {
    "gst_vae.Tensor", sizeof(VaePyTensor), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

static PyMethodDef functions[] = {
    {"tensor", tensor, METH_VARARGS, "tensor(object): a view of its memory."},
    {"empty", empty, METH_VARARGS, "empty(shape, dtype)"},
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
