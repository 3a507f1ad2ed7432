/*
 * base.c: the types of elements, and tensors of our own memory.
 */
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *vae_py_tensor_type;

static const VaePyKnown known[] = {
    {"float32", "f", {VAE_PY_DL_FLOAT, 32, 1}, VAE_TYPE_F32},
    {"float16", "e", {VAE_PY_DL_FLOAT, 16, 1}, VAE_TYPE_F16},
    {"bfloat16", NULL, {VAE_PY_DL_BFLOAT, 16, 1}, VAE_TYPE_BF16},
    {"uint8", "B", {VAE_PY_DL_UINT, 8, 1}, VAE_TYPE_U8},
    {"uint16", "H", {VAE_PY_DL_UINT, 16, 1}, -1},
    {"float64", "d", {VAE_PY_DL_FLOAT, 64, 1}, VAE_TYPE_F64},
};
enum { KNOWN = sizeof known / sizeof *known };

const VaePyKnown *
vae_py_known(const VaePyTensor *t)
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
    const VaePyKnown *k = vae_py_known(t);
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

uint64_t
vae_py_bytes(const VaePyTensor *t)
{
    uint64_t n = (uint64_t) vae_py_item_size(t);
    for (int d = 0; d < t->n_dims; d++)
        if (__builtin_mul_overflow(n, (uint64_t) t->shape[d], &n))
            return UINT64_MAX;
    return n;
}

VaePyTensor *
vae_py_tensor_new(void)
{
    allocfunc alloc =
        (allocfunc) PyType_GetSlot(vae_py_tensor_type, Py_tp_alloc);
    return (VaePyTensor *) alloc(vae_py_tensor_type, 0);
}

void
vae_py_pack_strides(VaePyTensor *t)
{
    int64_t size = vae_py_item_size(t);
    for (int d = t->n_dims - 1; d >= 0; d--) {
        t->strides[d] = size;
        size *= t->shape[d];
    }
}

void
vae_py_name_type(VaePyTensor *t)
{
    static const char *const codes[] = {"int",    "uint",    "float", "opaque",
                                        "bfloat", "complex", "bool"};
    const unsigned code = t->type.code;
    /* The codes after these are those of small floats. */
    snprintf(t->dtype, sizeof t->dtype, "%s%d",
             code < 7 ? codes[code] : "small float", t->type.bits);
}

/* Names a format that no tensor has, such as "int64" or "big-endian float32".
 * format: of the module struct, and Z for complex. */
static void
name_format(VaePyTensor *t, const char *format)
{
    const bool big = *format == '>' || *format == '!';
    const char *code = format + big;
    const char *kind = strchr("bhilqn", *code)   ? "int"
                       : strchr("BHILQN", *code) ? "uint"
                       : strchr("efdg", *code)   ? "float"
                       : *code == 'Z'            ? "complex"
                       : *code == '?'            ? "bool"
                                                 : NULL;
    if (!*code || !kind || (code[1] && *code != 'Z'))
        snprintf(t->dtype, sizeof t->dtype, "elements \"%s\"", format);
    else if (*code == '?')
        snprintf(t->dtype, sizeof t->dtype, "bool");
    else
        snprintf(t->dtype, sizeof t->dtype, "%s%s%d", big ? "big-endian " : "",
                 kind, t->type.bits);
}

void
vae_py_set_format(VaePyTensor *t, const char *format)
{
    name_format(t, format);
    for (int i = 0; i < KNOWN; i++)
        if (known[i].format && strcmp(known[i].format, format) == 0) {
            t->type = known[i].type;
            vae_py_name_type(t);
        }
}

bool
vae_py_set_dtype(VaePyTensor *t, const char *dtype)
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
    VaePyTensor *t = vae_py_tensor_new();
    if (!t || !vae_py_set_dtype(t, dtype)) {
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

bool
vae_py_set_shape(VaePyTensor *t, PyObject *shape)
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

bool
vae_py_allocate(VaePyTensor *t, uint64_t bytes)
{
    enum { ALIGNMENT = 64 };
    t->block = bytes < SIZE_MAX - ALIGNMENT ? malloc((size_t) bytes + ALIGNMENT)
                                            : NULL;
    if (!t->block)
        return false;
    const uintptr_t at = (uintptr_t) t->block;
    t->data = (char *) t->block + (ALIGNMENT - at % ALIGNMENT) % ALIGNMENT;
    return true;
}

PyObject *
vae_py_empty(PyObject *self, PyObject *args)
{
    PyObject *shape;
    const char *dtype;
    if (!PyArg_ParseTuple(args, "O!s", &PyTuple_Type, &shape, &dtype))
        return NULL;
    VaePyTensor *t = vae_py_tensor_new();
    if (!t || !vae_py_set_shape(t, shape) || !vae_py_set_dtype(t, dtype)) {
        Py_XDECREF(t);
        return NULL;
    }
    t->device = (VaePyDlDevice){VAE_PY_DL_CPU, 0};
    const uint64_t bytes = vae_py_bytes(t);
    if (!vae_py_allocate(t, bytes)) {
        Py_DECREF(t);
        VaeError error = {.status = VAE_ERR_MEMORY};
        snprintf(error.message, sizeof error.message,
                 "no memory for a tensor of %llu bytes",
                 (unsigned long long) bytes);
        return vae_py_raise(&error);
    }
    vae_py_pack_strides(t);
    return (PyObject *) t;
}
