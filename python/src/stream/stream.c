/*
 * stream.c: a decoder or an encoder.
 */
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PyTypeObject *stream_type;

static bool
is_stopped(void *user)
{
    return ((VaePyStream *) user)->stop;
}

static void
dealloc(PyObject *self)
{
    VaePyStream *s = (VaePyStream *) self;
    PyTypeObject *type = Py_TYPE(self);
    /* The threads of a stream do not exist in the child of a fork. */
    if (s->process == getpid())
        vae_stream_free(&s->stream);
    for (int i = 0; i < s->n_lines; i++)
        free(s->lines[i]);
    pthread_mutex_destroy(&s->lock);
    Py_XDECREF(s->model);
    ((freefunc) PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static VaeStatus
run_new(VaePyWork *work, VaeError *error)
{
    VaePyStream *s = ((VaePyCall *) work)->stream;
    return vae_stream_new(s->model->model, &s->params, &s->stream, error);
}

static void
cancel_new(VaePyWork *work)
{
    ((VaePyCall *) work)->stream->stop = true;
}

/* new(model, settings, colour): colour is (matrix, full_range, site_center,
 * site_top). */
static PyObject *
new_stream(PyObject *self, PyObject *args)
{
    PyObject *model, *settings;
    int matrix = 0, full = 0, center = 0, top = 0;
    if (!PyArg_ParseTuple(args, "O!O!(ippp)", vae_py_model_type, &model,
                          &PyDict_Type, &settings, &matrix, &full, &center,
                          &top))
        return NULL;
    allocfunc alloc = (allocfunc) PyType_GetSlot(stream_type, Py_tp_alloc);
    VaePyStream *s = (VaePyStream *) alloc(stream_type, 0);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->process = getpid();
    s->params = (VaeStreamParams) VAE_INIT(VaeStreamParams);
    s->params.cancelled = is_stopped;
    vae_py_keep_lines(s);
    s->model = (VaePyModel *) Py_NewRef(model);
    if (vae_py_settings(settings, &s->params) != 0) {
        Py_DECREF(s);
        return NULL;
    }
    s->like = (VaePicture){.pixels = s->params.pixels,
                           .width = s->params.width,
                           .height = s->params.height,
                           .matrix = (VaeMatrix) matrix,
                           .full_range = full,
                           .site_center = center,
                           .site_top = top};
    VaePyCall c = {{run_new, cancel_new}, s};
    if (vae_py_run(&c.work) != 0) {
        Py_DECREF(s);
        return NULL;
    }
    return (PyObject *) s;
}

static VaeStatus
run_release(VaePyWork *work, VaeError *error)
{
    return vae_stream_release(((VaePyCall *) work)->stream->stream, error);
}

static VaeStatus
run_resume(VaePyWork *work, VaeError *error)
{
    return vae_stream_resume(((VaePyCall *) work)->stream->stream, error);
}

static PyObject *
simple(PyObject *self, VaeStatus (*run)(VaePyWork *work, VaeError *error))
{
    VaePyCall c = {{run}, (VaePyStream *) self};
    return vae_py_is_ready(c.stream) ? vae_py_call(&c) : NULL;
}

static PyObject *
release(PyObject *self, PyObject *none)
{
    return simple(self, run_release);
}

static PyObject *
resume(PyObject *self, PyObject *none)
{
    return simple(self, run_resume);
}

static PyObject *
close_stream(PyObject *self, PyObject *none)
{
    VaePyStream *s = (VaePyStream *) self;
    if (s->stream && !vae_py_is_ready(s))
        return NULL;
    vae_stream_free(&s->stream);
    Py_RETURN_NONE;
}

static PyObject *
cancel(PyObject *self, PyObject *none)
{
    VaePyStream *s = (VaePyStream *) self;
    if (s->stream)
        vae_stream_cancel(s->stream);
    Py_RETURN_NONE;
}

static PyObject *
reset(PyObject *self, PyObject *none)
{
    VaePyStream *s = (VaePyStream *) self;
    if (!vae_py_is_ready(s))
        return NULL;
    vae_py_tell_nonfinite(s);
    vae_stream_reset(s->stream);
    s->told_nonfinite = false;
    s->nonfinite_before = vae_stream_stats(s->stream)->nonfinite;
    Py_RETURN_NONE;
}

/* restart(latents, warm_up) */
static PyObject *
restart(PyObject *self, PyObject *args)
{
    VaePyStream *s = (VaePyStream *) self;
    unsigned long long latents;
    int warm_up;
    VaeError error = {0};
    if (!PyArg_ParseTuple(args, "Ki", &latents, &warm_up) ||
        !vae_py_is_ready(s))
        return NULL;
    if (latents == 0)
        vae_stream_reset(s->stream);
    else if (vae_stream_restart(s->stream, latents, &error) != VAE_OK)
        return vae_py_raise(&error);
    vae_stream_warm_up(s->stream, warm_up);
    Py_RETURN_NONE;
}

/* count(steps): units in and out of the next steps. */
static PyObject *
count(PyObject *self, PyObject *args)
{
    VaePyStream *s = (VaePyStream *) self;
    int steps, in, out;
    if (!PyArg_ParseTuple(args, "i", &steps) || !vae_py_is_ready(s))
        return NULL;
    if (steps < 0 || steps > 1 << 24) {
        PyErr_SetString(PyExc_ValueError, "expected 0 to 2^24 steps");
        return NULL;
    }
    vae_stream_count(s->stream, steps, &in, &out);
    return Py_BuildValue("ii", in, out);
}

/* drain_count(steps): the steps that remain, and the results of the next. */
static PyObject *
drain_count(PyObject *self, PyObject *args)
{
    VaePyStream *s = (VaePyStream *) self;
    int steps, frames = 0;
    if (!PyArg_ParseTuple(args, "i", &steps) || !vae_py_is_ready(s))
        return NULL;
    const int left = vae_stream_drain_count(s->stream, steps, &frames);
    return Py_BuildValue("ii", left, frames);
}

static PyObject *
warm_up_cost(PyObject *self, PyObject *args)
{
    VaePyStream *s = (VaePyStream *) self;
    int steps;
    if (!PyArg_ParseTuple(args, "i", &steps) || !vae_py_is_ready(s))
        return NULL;
    return PyLong_FromLong(vae_stream_warm_up_cost(s->stream, steps));
}

static PyObject *
get_plan(PyObject *self, void *unused)
{
    VaePyStream *s = (VaePyStream *) self;
    return vae_py_is_ready(s) ? vae_py_plan_dict(vae_stream_get_plan(s->stream))
                              : NULL;
}

static PyObject *
get_stats(PyObject *self, void *unused)
{
    VaePyStream *s = (VaePyStream *) self;
    if (!vae_py_is_ready(s))
        return NULL;
    const VaeStreamStats *t = vae_stream_stats(s->stream);
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"runs_first", t->runs_first},
        {"runs_next", t->runs_next},
        {"runs_next1", t->runs_next1},
        {"runs_without_context", t->runs_without_context},
        {"units_in", t->units_in},
        {"units_out", t->units_out},
        {"nonfinite", t->nonfinite},
        {"nonfinite_steps", t->nonfinite_steps},
        {"recovered_steps", t->recovered_steps},
        {"busy_ns", t->busy_ns},
        {"last_ns", t->last_ns},
        {"upload_ns", t->upload_ns},
        {"compute_ns", t->compute_ns},
        {"download_ns", t->download_ns},
        {"released", t->released},
    };
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof counts / sizeof *counts; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(counts[i].value);
        if (!value || PyDict_SetItemString(dict, counts[i].name, value) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* normalization(by_file, by_user): who states that of the latents. */
static PyObject *
normalization(PyObject *self, PyObject *args)
{
    int by_file, by_user;
    if (!PyArg_ParseTuple(args, "pp", &by_file, &by_user))
        return NULL;
    vae_stream_word_doubts(
        ((VaePyStream *) self)->stream,
        (VaeDoubtWords){.stated = by_file ? "the file states" : NULL,
                        .chosen = by_user});
    Py_RETURN_NONE;
}

static PyGetSetDef properties[] = {
    {"plan", get_plan, NULL, "The plan: a dict.", NULL},
    {"stats", get_stats, NULL, "Counts since it was opened: a dict.", NULL},
    {0}};

static PyMethodDef methods[] = {
    {"decode", vae_py_decode, METH_VARARGS, "decode(latents, frames)"},
    {"encode", vae_py_encode, METH_VARARGS,
     "encode(frames, latents, mean, logvar)"},
    {"drain", vae_py_drain, METH_VARARGS, "drain(steps, frames)"},
    {"drain_latents", vae_py_drain_latents, METH_VARARGS,
     "drain_latents(steps, latents, mean, logvar)"},
    {"drain_count", drain_count, METH_VARARGS, "drain_count(steps)"},
    {"count", count, METH_VARARGS, "count(steps): units in and out"},
    {"reset", reset, METH_NOARGS, "Begins the next sequence."},
    {"restart", restart, METH_VARARGS, "restart(latents, warm_up)"},
    {"warm_up_cost", warm_up_cost, METH_VARARGS, "warm_up_cost(steps)"},
    {"cancel", cancel, METH_NOARGS, "Ends the running call."},
    {"release", release, METH_NOARGS, "Frees the memory of the device."},
    {"resume", resume, METH_NOARGS, "Allocates it again."},
    {"save", vae_py_save, METH_VARARGS, "save(path, carries, frames)"},
    {"load", vae_py_load, METH_VARARGS,
     "load(path): begin, next, latents, frames"},
    {"lines", vae_py_lines, METH_NOARGS, "What the engine said."},
    {"normalization", normalization, METH_VARARGS,
     "normalization(by_file, by_user): who states that of the latents."},
    {"close", close_stream, METH_NOARGS, "Frees the stream."},
    {0}};

static PyType_Slot slots[] = {{Py_tp_doc, (void *) "A decoder or an encoder."},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {0}};

static PyType_Spec spec = {
    "gst_vae.Stream", sizeof(VaePyStream), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

static PyMethodDef functions[] = {
    {"new_stream", new_stream, METH_VARARGS,
     "new_stream(model, settings, (matrix, full_range, site_center, "
     "site_top))"},
    {"setting_texts", vae_py_setting_texts, METH_NOARGS,
     "What each setting does, and its values."},
    {0}};

int
vae_py_add_stream(PyObject *module)
{
    stream_type = (PyTypeObject *) PyType_FromSpec(&spec);
    return !stream_type ||
                   PyModule_AddObjectRef(module, "Stream",
                                         (PyObject *) stream_type) ||
                   PyModule_AddFunctions(module, functions)
               ? -1
               : 0;
}
