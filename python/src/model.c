/*
 * model.c: a VAE, opened from files or from tensors in memory.
 */
#include "python.h"

#include <stdlib.h>
#include <string.h>

#include "vae-private/model.h"

PyTypeObject *vae_py_model_type;

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    vae_model_free(&((VaePyModel *) self)->model);
    ((freefunc) PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *
wrap(VaeModel *model)
{
    allocfunc alloc =
        (allocfunc) PyType_GetSlot(vae_py_model_type, Py_tp_alloc);
    VaePyModel *m = (VaePyModel *) alloc(vae_py_model_type, 0);
    if (m)
        m->model = model;
    else
        vae_model_free(&model);
    return (PyObject *) m;
}

/* open_file(path, variant) */
static PyObject *
open_file(PyObject *self, PyObject *args)
{
    PyObject *path;
    VaeModelOptions options = VAE_INIT(VaeModelOptions);
    VaeModel *model = NULL;
    VaeError error = {0};
    VaeStatus status;
    if (!PyArg_ParseTuple(args, "O&z", PyUnicode_FSConverter, &path,
                          &options.variant))
        return NULL;
    const char *name = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS status =
        vae_model_open(name, &options, &model, &error);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    return status == VAE_OK ? wrap(model) : vae_py_raise(&error);
}

/* The tensors of a model, as long as it lives. */
typedef struct Holder {
    PyObject *pairs; /* tuple of (name, Tensor) */
} Holder;

static void
release(void *user)
{
    Holder *h = user;
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(h->pairs);
    PyGILState_Release(state);
    free(h);
}

static bool
describe(void *user, size_t i, VaeTensorInfo *out)
{
    const Holder *h = user;
    if ((Py_ssize_t) i >= PyTuple_Size(h->pairs))
        return false;
    PyObject *pair = PyTuple_GetItem(h->pairs, (Py_ssize_t) i);
    const VaePyTensor *t = (VaePyTensor *) PyTuple_GetItem(pair, 1);
    Py_ssize_t size;
    out->name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(pair, 0), &size);
    out->type_name = t->dtype;
    out->supported = vae_py_vae_type(t, &out->type);
    out->n_dims = t->n_dims;
    memcpy(out->dims, t->shape, sizeof out->dims);
    out->data = t->data;
    return true;
}

static bool
check_pairs(PyObject *pairs)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(pairs); i++) {
        PyObject *pair = PyTuple_GetItem(pairs, i);
        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2 ||
            !PyUnicode_Check(PyTuple_GetItem(pair, 0)) ||
            !vae_py_is_tensor(PyTuple_GetItem(pair, 1))) {
            PyErr_SetString(PyExc_TypeError, "expected (name, Tensor)");
            return false;
        }
        const VaePyTensor *t = (VaePyTensor *) PyTuple_GetItem(pair, 1);
        if (t->device.type == VAE_PY_DL_CUDA || !vae_py_packed(t, t->n_dims)) {
            PyErr_SetString(PyExc_ValueError,
                            "expected packed tensors in host memory");
            return false;
        }
    }
    return true;
}

enum { MOST_METADATA = 64 };

/* Reads a dict of texts; the texts belong to it. */
static bool
read_metadata(PyObject *dict, VaeMetadata *out, size_t *n)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, size;
    *n = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (*n == MOST_METADATA || !PyUnicode_Check(key) ||
            !PyUnicode_Check(value)) {
            PyErr_Format(PyExc_TypeError,
                         "expected at most %d texts as metadata",
                         (int) MOST_METADATA);
            return false;
        }
        out[(*n)++] = (VaeMetadata){PyUnicode_AsUTF8AndSize(key, &size),
                                    PyUnicode_AsUTF8AndSize(value, &size)};
    }
    return true;
}

/* open_tensors(name, pairs, metadata, config, variant) */
static PyObject *
open_tensors(PyObject *self, PyObject *args)
{
    VaeTensorList list = VAE_INIT(VaeTensorList);
    VaeModelOptions options = VAE_INIT(VaeModelOptions);
    VaeMetadata metadata[MOST_METADATA];
    PyObject *pairs, *dict;
    VaeModel *model = NULL;
    VaeError error = {0};
    if (!PyArg_ParseTuple(args, "sO!O!zz", &list.name, &PyTuple_Type, &pairs,
                          &PyDict_Type, &dict, &list.config,
                          &options.variant) ||
        !check_pairs(pairs) || !read_metadata(dict, metadata, &list.n_metadata))
        return NULL;
    Holder *h = calloc(1, sizeof *h);
    if (!h)
        return PyErr_NoMemory();
    Py_INCREF(pairs);
    h->pairs = pairs;
    list.tensor = describe;
    list.release = release;
    list.user = h;
    list.metadata = metadata;
    if (vae_model_open_tensors(&list, &options, &model, &error) == VAE_OK)
        return wrap(model);
    release(h);
    return vae_py_raise(&error);
}

/* ------------------------------------------------------------------ */

static PyObject *
steps_tuple(const VaeSteps *s)
{
    return Py_BuildValue("iiii", s->first_in, s->first_out, s->step_in,
                         s->step_out);
}

static PyObject *
floats(const float *values, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++)
        if (PyTuple_SetItem(tuple, i, PyFloat_FromDouble(values[i])) != 0)
            Py_CLEAR(tuple);
    return tuple;
}

static PyObject *
get_info(PyObject *self, void *unused)
{
    const VaeModelInfo *i = vae_model_info(((VaePyModel *) self)->model);
    return Py_BuildValue(
        "{ss,ss,ss,ss,ss,si,si,si,sN,sN,sN,sN,sN,sN,sN,sN,s(dd),s(ii),ss,sn,sK,"
        "si,si,si,si,si,si}",
        "arch", i->arch, "space", i->space, "names", i->names, "reason",
        i->reason, "path", i->path, "latent_channels", i->latent_channels,
        "spatial", i->spatial, "temporal", i->temporal, "has_decoder",
        PyBool_FromLong(i->has_decoder), "has_encoder",
        PyBool_FromLong(i->has_encoder), "has_posterior",
        PyBool_FromLong(i->has_posterior), "takes_normalized",
        PyBool_FromLong(i->takes_normalized), "mean",
        floats(i->mean, i->latent_channels), "std",
        floats(i->std, i->latent_channels), "decode_steps",
        steps_tuple(&i->decode), "encode_steps", steps_tuple(&i->encode),
        "pixel_range", (double) i->pixel_low, (double) i->pixel_high,
        "framerate", i->fps_n, i->fps_d, "weights_type",
        vae_type_name(i->weights_type), "tensor_count",
        (Py_ssize_t) i->tensor_count, "weights_bytes",
        (unsigned long long) i->weights_bytes, "look_ahead", i->look_ahead,
        "delay", i->delay, "chunk", i->chunk, "scale", i->scale, "in_channels",
        i->in_channels, "out_channels", i->out_channels);
}

static PyObject *
fingerprint(PyObject *self, PyObject *none)
{
    VaeModel *model = ((VaePyModel *) self)->model;
    char text[65];
    VaeError error = {0};
    VaeStatus status;
    Py_BEGIN_ALLOW_THREADS status = vae_model_fingerprint(model, text, &error);
    Py_END_ALLOW_THREADS return status == VAE_OK ? PyUnicode_FromString(text)
                                                 : vae_py_raise(&error);
}

static PyObject *
history(PyObject *self, PyObject *args)
{
    const char *word;
    VaeDirection direction;
    VaeError error = {0};
    int steps = 0;
    if (!PyArg_ParseTuple(args, "s", &word) ||
        !vae_py_direction(word, &direction))
        return NULL;
    if (vae_model_history(((VaePyModel *) self)->model, direction, &steps,
                          &error) != VAE_OK)
        return vae_py_raise(&error);
    return PyLong_FromLong(steps);
}

/* The engine counts up to 2^56. */
static PyObject *
count(PyObject *self, PyObject *args,
      int64_t (*counts)(const VaeModel *model, int64_t n))
{
    long long n;
    if (!PyArg_ParseTuple(args, "L", &n))
        return NULL;
    if (n < 0 || n > 1LL << 56) {
        PyErr_SetString(PyExc_ValueError, "expected a count from 0 to 2^56");
        return NULL;
    }
    return PyLong_FromLongLong(n ? counts(((VaePyModel *) self)->model, n) : 0);
}

static PyObject *
frames_of(PyObject *self, PyObject *args)
{
    return count(self, args, vae_model_frames_of);
}

static PyObject *
latents_of(PyObject *self, PyObject *args)
{
    return count(self, args, vae_model_latents_of);
}

/* ------------------------------------------------------------------ */

PyObject *
vae_py_plan_dict(const VaePlan *p)
{
    char setting[160];
    vae_plan_setting(p, setting, sizeof setting);
    return Py_BuildValue(
        "{ss,ss,ss,sK,sK,sK,sK,sK,sK,sK,sK,sK,sK,sK,sd,sd,si,si,si,si,si,si,si,"
        "s(iii),sK,ss}",
        "setting", setting, "backend", vae_backend_name(p->backend),
        "precision", vae_precision_name(p->precision), "total",
        (unsigned long long) p->total, "peak", (unsigned long long) p->peak,
        "weights", (unsigned long long) p->weights, "carries",
        (unsigned long long) p->carries, "spilled",
        (unsigned long long) p->spilled, "arena", (unsigned long long) p->arena,
        "scratch", (unsigned long long) p->scratch, "staging",
        (unsigned long long) p->staging, "fallback",
        (unsigned long long) p->fallback, "library",
        (unsigned long long) p->library, "loading",
        (unsigned long long) p->loading, "flop_first", p->flop_first,
        "flop_step", p->flop_step, "slice_size", p->slice_size,
        "frames_at_once", p->frames_at_once, "threads", p->threads,
        "padded_width", p->padded_width, "padded_height", p->padded_height,
        "delay", p->delay, "strips", p->strips, "tiles", p->tiles,
        p->tile_width, p->tile_height, "tiled", (unsigned long long) p->tiled,
        "device", p->device ? p->device : "");
}

typedef struct Planning {
    VaePyWork work;
    VaeModel *model;
    VaeStreamParams params;
    VaePlan plan;
    VaeRungPlan rungs[VAE_RUNGS];
    int n_rungs;
    volatile bool stop;
} Planning;

static bool
is_stopped(void *user)
{
    return ((Planning *) user)->stop;
}

static VaeStatus
run_plan(VaePyWork *work, VaeError *error)
{
    Planning *p = (Planning *) work;
    return vae_stream_plan_ladder(p->model, &p->params, &p->plan, p->rungs,
                                  &p->n_rungs, error);
}

static void
stop_plan(VaePyWork *work)
{
    ((Planning *) work)->stop = true;
}

static PyObject *
ladder(Planning *p)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < p->n_rungs; i++) {
        p->rungs[i].plan.device = NULL; /* of a stream that is gone */
        PyObject *rung = vae_py_plan_dict(&p->rungs[i].plan);
        PyObject *chosen = PyBool_FromLong(p->rungs[i].chosen);
        if (!rung || PyDict_SetItemString(rung, "chosen", chosen) != 0 ||
            PyList_Append(list, rung) != 0)
            Py_CLEAR(list);
        Py_XDECREF(rung);
        Py_XDECREF(chosen);
    }
    return list;
}

/* plan(settings): what a stream would take, without its memory. */
static PyObject *
plan(PyObject *self, PyObject *args)
{
    PyObject *settings;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &settings))
        return NULL;
    Planning *p = calloc(1, sizeof *p);
    if (!p)
        return PyErr_NoMemory();
    *p = (Planning){.work = {run_plan, stop_plan},
                    .model = ((VaePyModel *) self)->model,
                    .params = VAE_INIT(VaeStreamParams),
                    .plan = VAE_INIT(VaePlan)};
    p->params.cancelled = is_stopped;
    p->params.log_user = p;
    PyObject *made = NULL;
    if (vae_py_settings(settings, &p->params) == 0 &&
        vae_py_run(&p->work) == 0) {
        PyObject *rungs = ladder(p);
        made = rungs ? vae_py_plan_dict(&p->plan) : NULL;
        if (made && PyDict_SetItemString(made, "ladder", rungs) != 0)
            Py_CLEAR(made);
        Py_XDECREF(rungs);
    }
    free(p);
    return made;
}

/* ------------------------------------------------------------------ */

static PyObject *
get_doubt(PyObject *self, void *unused)
{
    char text[VAE_CHOICE], said[VAE_CHOICE];
    if (vae_model_choice(((VaePyModel *) self)->model, text))
        return PyUnicode_DecodeFSDefault(vae_py_spell(text, said, sizeof said));
    Py_RETURN_NONE;
}

static PyGetSetDef properties[] = {
    {"info", get_info, NULL, "What was recognised: a dict.", NULL},
    {"doubt", get_doubt, NULL,
     "A warning if it could be several networks, or None.", NULL},
    {0}};

/* check_output(path): fails if the path leads to a file of the model. */
static PyObject *
check_output(PyObject *self, PyObject *args)
{
    PyObject *path;
    VaeError error;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    const VaeStatus status = vae_model_check_output(
        ((VaePyModel *) self)->model, NULL, PyBytes_AsString(path), &error);
    Py_DECREF(path);
    if (status != VAE_OK)
        return vae_py_raise(&error);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"check_output", check_output, METH_VARARGS, "check_output(path)"},
    {"fingerprint", fingerprint, METH_NOARGS, "SHA-256 of the weights."},
    {"history", history, METH_VARARGS, "history(direction): steps."},
    {"frames_of", frames_of, METH_VARARGS, "frames_of(latents)"},
    {"latents_of", latents_of, METH_VARARGS, "latents_of(frames)"},
    {"plan", plan, METH_VARARGS, "plan(settings)"},
    {0}};

static PyType_Slot slots[] = {{Py_tp_doc, (void *) "A VAE."},
                              {Py_tp_dealloc, dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {0}};

static PyType_Spec spec = {
    "gst_vae.Model", sizeof(VaePyModel), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

static PyMethodDef functions[] = {
    {"open_file", open_file, METH_VARARGS, "open_file(path, variant)"},
    {"open_tensors", open_tensors, METH_VARARGS,
     "open_tensors(name, pairs, metadata, config, variant)"},
    {0}};

int
vae_py_add_model(PyObject *module)
{
    vae_py_model_type = (PyTypeObject *) PyType_FromSpec(&spec);
    return !vae_py_model_type ||
                   PyModule_AddObjectRef(module, "Model",
                                         (PyObject *) vae_py_model_type) ||
                   PyModule_AddFunctions(module, functions)
               ? -1
               : 0;
}
