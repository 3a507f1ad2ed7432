/*
 * clip.c: the latents of a file, as a tensor that shares the mapped file.
 * float64 is copied to float32.
 */
#include "python.h"

#include <string.h>

#include "vae-private/spaces.h"

static PyTypeObject *clip_type;

typedef struct Clip {
    PyObject_HEAD VaeTensorFile *file;
    VaeLatentClip clip;
    Py_ssize_t sequences;
} Clip;

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    vae_tensor_file_free(&((Clip *) self)->file);
    ((freefunc) PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static VaeStatus
find(Clip *c, const char *path, const VaeLatentOptions *options,
     VaeError *error)
{
    const VaeTensorInfo *table = NULL;
    VaeStatus status = vae_tensor_file_open(path, &c->file, error);
    if (status == VAE_OK)
        status = vae_latent_clip_find(c->file, options, &c->clip, error);
    if (status == VAE_OK)
        status = vae_latent_sequences_find(c->file, &c->clip, &table, error);
    c->sequences = table ? (Py_ssize_t) table->dims[0] : 1;
    return status;
}

/* open_clip(path, tensor, batch_index, layout) */
static PyObject *
open_clip(PyObject *self, PyObject *args)
{
    VaeLatentOptions options = VAE_INIT(VaeLatentOptions);
    PyObject *path;
    const char *layout;
    VaeError error = {0};
    if (!PyArg_ParseTuple(args, "O&zis", PyUnicode_FSConverter, &path,
                          &options.tensor, &options.batch_index, &layout))
        return NULL;
    if (!vae_layout_parse(layout, &options.layout)) {
        PyErr_Format(PyExc_ValueError,
                     "the layout is \"%s\", expected auto, cthw or tchw",
                     layout);
        Py_DECREF(path);
        return NULL;
    }
    allocfunc alloc = (allocfunc) PyType_GetSlot(clip_type, Py_tp_alloc);
    Clip *c = (Clip *) alloc(clip_type, 0);
    if (c) {
        c->clip = (VaeLatentClip) VAE_INIT(VaeLatentClip);
        if (find(c, PyBytes_AsString(path), &options, &error) != VAE_OK) {
            vae_py_raise(&error);
            Py_CLEAR(c);
        }
    }
    Py_DECREF(path);
    return (PyObject *) c;
}

static PyObject *
get_latents(PyObject *self, void *unused)
{
    const VaeLatentClip *c = &((Clip *) self)->clip;
    const int64_t size = (int64_t) vae_type_size(c->stored);
    const int64_t shape[] = {c->channels, c->t, c->height, c->width};
    const int64_t strides[] = {(int64_t) c->c_stride, (int64_t) c->t_stride,
                               c->width * size, size};
    PyObject *stored = vae_py_view(self, vae_type_name(c->stored), 4, shape,
                                   strides, (void *) (uintptr_t) c->data, true);
    PyObject *made = stored ? vae_py_narrowed(stored, NULL) : NULL;
    Py_XDECREF(stored);
    return made;
}

static PyObject *
get_info(PyObject *self, void *unused)
{
    const VaeLatentClip *c = &((Clip *) self)->clip;
    return Py_BuildValue(
        "{ss,sz,ss,sN,s(ii),s(ii),sL,sn,sL}", "tensor", c->tensor, "space",
        c->space, "normalization", vae_normalization_name(c->normalization),
        "normalization_stated", PyBool_FromLong(c->normalization_stated),
        "framerate", c->fps_n, c->fps_d, "size", c->width_px, c->height_px,
        "frames", (long long) c->frames, "sequences",
        ((Clip *) self)->sequences, "batch", (long long) c->batch);
}

/* overrides(setting, value, space): what to warn of if a value that is set
 * differs from what the file states, or None. space: of the model. */
static PyObject *
overrides(PyObject *self, PyObject *args)
{
    const VaeLatentClip *c = &((Clip *) self)->clip;
    const char *setting, *value, *space;
    VaeNormalization set;
    char line[600];
    bool differs = false;
    if (!PyArg_ParseTuple(args, "ssz", &setting, &value, &space))
        return NULL;
    if (strcmp(setting, "latent-space") == 0)
        differs =
            vae_overrides(c->file, setting, c->space, value, line, sizeof line);
    else if (c->normalization_stated && vae_normalization_parse(value, &set))
        differs = vae_normalization_overrides(space, c->file, c->normalization,
                                              set, line, sizeof line);
    if (differs)
        return PyUnicode_DecodeFSDefault(line);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyMethodDef methods[] = {
    {"overrides", overrides, METH_VARARGS, "overrides(setting, value, space)"},
    {0}};

static PyGetSetDef properties[] = {
    {"latents", get_latents, NULL, "Tensor [C, T, h, w].", NULL},
    {"info", get_info, NULL, "What the file states: a dict.", NULL},
    {0}};

static PyType_Slot slots[] = {{Py_tp_doc, (void *) "The latents of a file."},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_getset, properties},
                              {Py_tp_methods, methods},
                              {0}};

static PyType_Spec spec = {
    "gst_vae.Clip", sizeof(Clip), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

static PyMethodDef functions[] = {
    {"open_clip", open_clip, METH_VARARGS,
     "open_clip(path, tensor, batch_index, layout)"},
    {0}};

int
vae_py_add_clip(PyObject *module)
{
    clip_type = (PyTypeObject *) PyType_FromSpec(&spec);
    return !clip_type ||
                   PyModule_AddObjectRef(module, "Clip",
                                         (PyObject *) clip_type) ||
                   PyModule_AddFunctions(module, functions)
               ? -1
               : 0;
}
