/*
 * clip.c: the latents of a file, as a tensor that shares the mapped file.
 * float64 is copied to float32. Also the axes of latents in memory.
 */
#include "python.h"

#include <stdlib.h>
#include <string.h>

#include "vae-private/axes.h"
#include "vae-private/model.h"
#include "vae-private/settings.h"
#include "vae-private/spaces.h"

static PyTypeObject *clip_type;

typedef struct Clip {
    PyObject_HEAD VaeTensorFile *file;
    PyObject *owner; /* of the file; NULL: this object */
    VaeLatentClip clip;
    char *space; /* overrides stated_space, or NULL */
    const char *stated_space;
    Py_ssize_t sequences;
    char doubt[1200]; /* what to warn of, or "" */
} Clip;

static void
keep_doubt(void *user, const char *line)
{
    Clip *c = user;
    const size_t n = strlen(c->doubt);
    snprintf(c->doubt + n, sizeof c->doubt - n, "%s%s", n ? "; " : "", line);
}

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Clip *c = (Clip *) self;
    if (!c->owner)
        vae_tensor_file_free(&c->file);
    Py_XDECREF(c->owner);
    free(c->space);
    ((freefunc) PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static VaeStatus
find(Clip *c, const VaeLatentOptions *options, VaeError *error)
{
    const VaeTensorInfo *table = NULL;
    char line[700];
    VaeStatus status = vae_latent_clip_find(c->file, options, &c->clip, error);
    if (status == VAE_OK)
        status = vae_latent_sequences_find(c->file, &c->clip, &table, error);
    c->stated_space = c->clip.space;
    if (c->space)
        c->clip.space = c->space;
    c->sequences = table ? (Py_ssize_t) table->dims[0] : 1;
    if (status == VAE_OK && vae_layout_doubt(&c->clip, line, sizeof line))
        keep_doubt(c, line);
    if (status == VAE_OK && !options->own_normalization &&
        vae_normalization_assumed(&c->clip)) {
        snprintf(line, sizeof line, VAE_NO_NORMALIZATION, c->clip.file);
        keep_doubt(c, line);
    }
    return status;
}

/* Opens the file, or uses that of another clip. */
static VaeStatus
find_in(Clip *c, PyObject *where, const VaeLatentOptions *options,
        VaeError *error)
{
    VaeStatus status = VAE_OK;
    if (PyBytes_Check(where)) {
        status = vae_tensor_file_open(PyBytes_AsString(where), &c->file, error);
    } else {
        c->file = ((Clip *) where)->file;
        c->owner = Py_NewRef(where);
    }
    return status == VAE_OK ? find(c, options, error) : status;
}

static bool
parse_layout(const char *word, VaeLatentLayout *out)
{
    if (vae_layout_parse(word, out))
        return true;
    PyErr_Format(
        PyExc_ValueError,
        "the layout is \"%s\", expected auto, cthw, tchw, bcthw or btchw",
        word);
    return false;
}

static bool
check_normalization(const char *word)
{
    const VaeSetting *s = vae_setting_find("normalization");
    VaeNormalization found;
    char expected[64];
    if (!word || vae_normalization_parse(word, &found))
        return true;
    vae_setting_expected(s, expected, sizeof expected);
    vae_py_fail(word, expected, "normalization is %s, expected %s", word,
                expected);
    return false;
}

/* open_clip(path, tensor, batch_index, layout, normalization, own_framerate,
 * space, channels, temporal, chunk). path: may be a clip of the file. */
static PyObject *
open_clip(PyObject *self, PyObject *args)
{
    VaeLatentOptions options = VAE_INIT(VaeLatentOptions);
    PyObject *path, *where;
    const char *layout, *normalization, *space;
    int framerate;
    VaeError error = {0};
    if (!PyArg_ParseTuple(args, "Oziszpziii", &path, &options.tensor,
                          &options.batch_index, &layout, &normalization,
                          &framerate, &space, &options.channels,
                          &options.temporal, &options.chunk))
        return NULL;
    options.own_normalization = normalization != NULL;
    options.own_framerate = framerate;
    options.warn = keep_doubt;
    options.space = space;
    if (!parse_layout(layout, &options.layout) ||
        !check_normalization(normalization))
        return NULL;
    if (PyObject_TypeCheck(path, clip_type))
        where = Py_NewRef(path);
    else if (!PyUnicode_FSConverter(path, &where))
        return NULL;
    allocfunc alloc = (allocfunc) PyType_GetSlot(clip_type, Py_tp_alloc);
    Clip *c = (Clip *) alloc(clip_type, 0);
    if (c) {
        c->clip = (VaeLatentClip) VAE_INIT(VaeLatentClip);
        c->space = space ? strdup(space) : NULL;
        options.user = c;
        if (find_in(c, where, &options, &error) != VAE_OK) {
            vae_py_raise(&error);
            Py_CLEAR(c);
        }
    }
    Py_DECREF(where);
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
        "{ss,sN,sz,ss,sN,s(ii),sz,s(ii),sL,sn,sL}", "tensor", c->tensor,
        "layout_guessed", PyBool_FromLong(c->layout_guessed), "space", c->space,
        "normalization", vae_normalization_name(c->normalization),
        "normalization_stated", PyBool_FromLong(c->normalization_stated),
        "framerate", c->fps_n, c->fps_d, "pixel_aspect_ratio",
        vae_tensor_file_metadata(((Clip *) self)->file,
                                 "vae.pixel_aspect_ratio"),
        "size", c->width_px, c->height_px, "frames", (long long) c->frames,
        "sequences", ((Clip *) self)->sequences, "batch", (long long) c->batch);
}

/* check(model, width, height): raises if a decoder of the model does not take
 * the clip for pictures of this size. 0: the size is that of the latents. */
static PyObject *
check(PyObject *self, PyObject *args)
{
    const VaeLatentClip *c = &((Clip *) self)->clip;
    VaeError error = {0};
    PyObject *model;
    int width, height;
    if (!PyArg_ParseTuple(args, "Oii", &model, &width, &height))
        return NULL;
    if (!PyObject_TypeCheck(model, vae_py_model_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a Model");
        return NULL;
    }
    const VaeModel *m = ((VaePyModel *) model)->model;
    const VaeModelInfo *info = vae_model_info(m);
    if (vae_model_check_clip(m, c, width ? width : c->width * info->spatial,
                             height ? height : c->height * info->spatial,
                             &error) != VAE_OK)
        return vae_py_raise(&error);
    Py_RETURN_NONE;
}

static PyObject *
get_doubt(PyObject *self, void *unused)
{
    const Clip *c = (Clip *) self;
    char said[1400];
    if (c->doubt[0])
        return PyUnicode_DecodeFSDefault(
            vae_py_spell(c->doubt, said, sizeof said));
    Py_RETURN_NONE;
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
    if (strcmp(setting, "latent_space") == 0)
        differs = vae_overrides(c->file, setting, ((Clip *) self)->stated_space,
                                value, line, sizeof line);
    else if (c->normalization_stated && vae_normalization_parse(value, &set))
        differs = vae_normalization_overrides(space, c->file, c->normalization,
                                              set, line, sizeof line);
    if (differs)
        return PyUnicode_DecodeFSDefault(line);
    Py_RETURN_NONE;
}

/* lost(out): what to warn of if frames are written to out, or None. */
static PyObject *
lost(PyObject *self, PyObject *args)
{
    PyObject *out;
    char line[1200];
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &out))
        return NULL;
    const bool is = vae_latents_lost(
        ((Clip *) self)->file, PyBytes_AsString(out), false, line, sizeof line);
    Py_DECREF(out);
    if (is)
        return PyUnicode_DecodeFSDefault(line);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"lost", lost, METH_VARARGS, "lost(out)"},
    {"check", check, METH_VARARGS, "check(model, width, height)"},
    {"overrides", overrides, METH_VARARGS, "overrides(setting, value, space)"},
    {0}};

static PyGetSetDef properties[] = {
    {"latents", get_latents, NULL, "Tensor [C, T, h, w].", NULL},
    {"info", get_info, NULL, "What the file states: a dict.", NULL},
    {"doubt", get_doubt, NULL,
     "A warning if the layout is a guess, a statement is ignored or the "
     "normalization is not stated, or None.",
     NULL},
    {0}};

static PyType_Slot slots[] = {{Py_tp_doc, (void *) "The latents of a file."},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_getset, properties},
                              {Py_tp_methods, methods},
                              {0}};

static PyType_Spec spec = {
    "gst_vae.Clip", sizeof(Clip), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

/* ------------------------------------------------------------------ */
/* Latents in memory.                                                  */

/* Fills the clip, the first of a batch, in the order [C, T, h, w]. */
static void
fill_axes(const VaePyTensor *t, VaeAxes *axes)
{
    int from[4];
    vae_axes_order(t->n_dims, axes->layout, from);
    for (int d = 0; d < 4; d++) {
        axes->dims[d] = from[d] < 0 ? 1 : t->shape[from[d]];
        axes->strides[d] = from[d] < 0 ? 0 : t->strides[from[d]];
    }
}

static PyObject *
refuse_axes(const VaePyTensor *t, const VaeAxes *axes, int64_t channels)
{
    char found[128], expected[96], advice[160];
    const int c = (int) channels;
    const bool tchw = axes->layout == VAE_LAYOUT_TCHW;
    vae_py_dims(t, found, sizeof found);
    snprintf(expected, sizeof expected,
             tchw ? "[T, %d, h, w] or [B, T, %d, h, w]"
                  : "[%d, h, w], [%d, T, h, w] or [B, %d, T, h, w]",
             c, c, c);
    vae_axes_advice(t->shape, t->n_dims, axes->layout, channels, advice,
                    sizeof advice);
    return vae_py_fail(found, expected, "the latents are %s, expected %s%s",
                       found[0] ? found : "a scalar", expected, advice);
}

/* read_axes(tensor, channels, images, layout): whether latents are [T, C, h, w]
 * or, with a batch, [B, T, C, h, w], and what to warn of, or None. */
static PyObject *
read_axes(PyObject *self, PyObject *args)
{
    PyObject *object;
    VaeAxesKnown known = {0};
    VaeAxes axes = {.what = "latents"};
    long long channels;
    int images;
    const char *layout;
    char line[700], said[800];
    if (!PyArg_ParseTuple(args, "O!Lps", vae_py_tensor_type, &object, &channels,
                          &images, &layout) ||
        !parse_layout(layout, &axes.layout))
        return NULL;
    const VaePyTensor *t = (VaePyTensor *) object;
    known.channels = channels;
    known.images = images;
    const bool possible = t->n_dims >= 3 && t->n_dims <= 5;
    if (axes.layout == VAE_LAYOUT_AUTO && possible)
        axes.layout =
            vae_axes_find(t->shape, t->n_dims, &known, &axes.order_guessed,
                          &axes.may_be_last, &axes.may_be_video);
    if (possible)
        fill_axes(t, &axes);
    if (axes.dims[0] != channels)
        return refuse_axes(t, &axes, channels);
    if (t->device.type != VAE_PY_DL_CUDA && vae_py_vae_type(t, &axes.type))
        axes.data = t->data;
    return Py_BuildValue(
        "(Nz)",
        PyBool_FromLong(t->n_dims > 3 && axes.layout == VAE_LAYOUT_TCHW),
        vae_axes_doubt(&axes, line, sizeof line)
            ? vae_py_spell(line, said, sizeof said)
            : NULL);
}

static PyMethodDef functions[] = {
    {"read_axes", read_axes, METH_VARARGS,
     "read_axes(tensor, channels, images, layout)"},
    {"open_clip", open_clip, METH_VARARGS,
     "open_clip(path, tensor, batch_index, layout, normalization, "
     "own_framerate, space, channels, temporal, chunk)"},
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
