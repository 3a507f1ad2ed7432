/*
 * stream.c: a decoder or an encoder.
 */
#include "python.h"
#include "vae-private/model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PyTypeObject *stream_type;

enum { LINES = 64 };

typedef struct Stream {
    PyObject_HEAD VaeStream *stream;
    PyObject *model;
    VaeStreamParams params;
    VaePicture like; /* all members but the memory */
    bool busy;       /* under the interpreter's lock */
    volatile bool stop;
    pid_t process;
    pthread_mutex_t lock; /* guards lines */
    char *lines[LINES];   /* the letter of its kind and a sentence */
    int n_lines;
    bool told_nonfinite;       /* of the clip */
    uint64_t nonfinite_before; /* values of earlier clips */
} Stream;

/* Any thread calls it. */
static void
keep_line(Stream *s, char kind, const char *line)
{
    const size_t size = strlen(line) + 2;
    pthread_mutex_lock(&s->lock);
    char *kept = s->n_lines < LINES ? malloc(size) : NULL;
    if (kept) {
        kept[0] = kind;
        memcpy(kept + 1, line, size - 1);
        s->lines[s->n_lines++] = kept;
    }
    pthread_mutex_unlock(&s->lock);
}

static void
log_line(void *user, const char *line)
{
    keep_line(user, 'i', line);
}

static void
warn_line(void *user, const char *line)
{
    keep_line(user, 'w', line);
}

static void
doubt_line(void *user, const char *line)
{
    keep_line(user, 'd', line);
}

static bool
is_stopped(void *user)
{
    return ((Stream *) user)->stop;
}

static void
dealloc(PyObject *self)
{
    Stream *s = (Stream *) self;
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

/* ------------------------------------------------------------------ */

typedef enum Task {
    NEW,
    DECODE,
    ENCODE,
    DRAIN,
    RELEASE,
    RESUME,
    SAVE,
    LOAD
} Task;

typedef struct Call {
    VaePyWork work;
    Stream *stream;
    Task task;
    VaeLatentIn *in;
    VaeLatentOut *out;
    VaePicture *pictures;
    int n_latents, n_pictures, steps;
    VaeCheckpointParams checkpoint;
    VaeCheckpoint found;
} Call;

static VaeStatus
run(VaePyWork *work, VaeError *error)
{
    Call *c = (Call *) work;
    VaeStream *s = c->stream->stream;
    switch (c->task) {
    case NEW:
        return vae_stream_new(((VaePyModel *) c->stream->model)->model,
                              &c->stream->params, &c->stream->stream, error);
    case DECODE:
        return vae_stream_decode(s, c->in, c->n_latents, c->pictures,
                                 c->n_pictures, error);
    case ENCODE:
        return vae_stream_encode(s, c->pictures, c->n_pictures, c->out,
                                 c->n_latents, error);
    case DRAIN:
        return c->out ? vae_stream_drain_latents(s, c->steps, c->out,
                                                 c->n_latents, error)
                      : vae_stream_drain(s, c->steps, c->pictures,
                                         c->n_pictures, error);
    case RELEASE:
        return vae_stream_release(s, error);
    case RESUME:
        return vae_stream_resume(s, error);
    case SAVE:
        return vae_stream_save(s, &c->checkpoint, error);
    default:
        return vae_stream_load(s, &c->checkpoint, &c->found, error);
    }
}

static void
cancel_call(VaePyWork *work)
{
    Call *c = (Call *) work;
    c->stream->stop = true;
    if (c->task != NEW)
        vae_stream_cancel(c->stream->stream);
}

/* True if the stream can be called now. */
static bool
is_ready(Stream *s)
{
    if (s->process != getpid())
        vae_py_fail("", "",
                    "the stream was opened before a fork; open it in "
                    "the process that uses it");
    else if (!s->stream)
        vae_py_fail("closed", "open", "the stream is closed");
    else if (s->busy)
        vae_py_fail("two threads", "one thread at a time",
                    "another thread uses this stream");
    else
        return true;
    return false;
}

/* Runs a call; frees its arrays. */
static PyObject *
finish(Call *c, bool good)
{
    c->work = (VaePyWork){run, cancel_call};
    if (good) {
        c->stream->stop = false;
        c->stream->busy = true;
        good = vae_py_run(&c->work) == 0;
        c->stream->busy = false;
    }
    free(c->in);
    free(c->out);
    free(c->pictures);
    if (!good)
        return NULL;
    Py_INCREF(Py_None);
    return Py_None;
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
    Stream *s = (Stream *) alloc(stream_type, 0);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->process = getpid();
    s->params = (VaeStreamParams) VAE_INIT(VaeStreamParams);
    s->params.log = log_line;
    s->params.warn = warn_line;
    s->params.doubt = doubt_line;
    s->params.cancelled = is_stopped;
    s->params.log_user = s;
    Py_INCREF(model);
    s->model = model;
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
    Call c = {.stream = s, .task = NEW};
    PyObject *done = finish(&c, true);
    if (!done) {
        Py_DECREF(s);
        return NULL;
    }
    Py_DECREF(done);
    return (PyObject *) s;
}

/* ------------------------------------------------------------------ */

/* Checks a tensor [n, C, h, w] of latents whose latents have no gaps. */
static bool
check_latents(const Stream *s, PyObject *object, const char *what, int n)
{
    const VaePlan *plan = vae_stream_get_plan(s->stream);
    const VaeModelInfo *info = vae_model_info(((VaePyModel *) s->model)->model);
    const int dims[] = {info->latent_channels,
                        plan->padded_height / info->spatial,
                        plan->padded_width / info->spatial};
    char found[128], expected[96];
    VaeType type;
    if (!vae_py_is_tensor(object)) {
        PyErr_Format(PyExc_TypeError, "expected a Tensor of %s", what);
        return false;
    }
    const VaePyTensor *t = (VaePyTensor *) object;
    bool good = t->n_dims == 4 && (n < 0 || t->shape[0] == n);
    for (int d = 0; d < 3; d++)
        good = good && t->shape[d + 1] == dims[d];
    if (!good) {
        snprintf(expected, sizeof expected, "latents of %dx%dx%d", dims[0],
                 dims[1], dims[2]);
        vae_py_dims(t, found, sizeof found);
        vae_py_fail(found, expected,
                    "%s are %s, expected %s (for %dx%d pixels)", what, found,
                    expected, s->params.width, s->params.height);
        return false;
    }
    if (!vae_py_vae_type(t, &type) || type > VAE_TYPE_BF16) {
        static const char types[] = "float32, float16, bfloat16 or float64";
        vae_py_fail(t->dtype, types,
                    "%s are %s, expected %s: convert them, by .float() of "
                    "torch or .astype(\"float32\") of numpy",
                    what, t->dtype, types);
        return false;
    }
    if (!vae_py_packed(t, 3) || t->device.type == VAE_PY_DL_CUDA) {
        vae_py_fail("gaps, or a device", "packed latents in host memory",
                    "%s are not packed in host memory", what);
        return false;
    }
    return true;
}

static bool
add_pictures(Call *c, PyObject *frames, bool writable)
{
    const Py_ssize_t n = PySequence_Size(frames);
    if (n < 0)
        return false;
    c->pictures = calloc((size_t) n + 1, sizeof *c->pictures);
    if (!c->pictures) {
        PyErr_NoMemory();
        return false;
    }
    c->n_pictures = (int) n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *frame = PySequence_GetItem(frames, i);
        const bool good = frame && vae_py_picture(frame, &c->stream->like,
                                                  writable, &c->pictures[i]);
        Py_XDECREF(frame); /* its tensor keeps the memory */
        if (!good)
            return false;
    }
    return true;
}

/* decode(latents, frames): a tensor [n, C, h, w], and a sequence of pictures.
 */
static PyObject *
decode(PyObject *self, PyObject *args)
{
    Stream *s = (Stream *) self;
    Call c = {.stream = s, .task = DECODE};
    PyObject *latents, *frames;
    if (!PyArg_ParseTuple(args, "OO", &latents, &frames) || !is_ready(s) ||
        !check_latents(s, latents, "the latents", -1))
        return NULL;
    const VaePyTensor *t = (VaePyTensor *) latents;
    c.n_latents = (int) t->shape[0];
    c.in = calloc((size_t) c.n_latents + 1, sizeof *c.in);
    if (!c.in)
        return PyErr_NoMemory();
    for (int i = 0; i < c.n_latents; i++) {
        vae_py_vae_type(t, &c.in[i].type);
        c.in[i].data = t->data + i * t->strides[0];
    }
    return finish(&c, add_pictures(&c, frames, true));
}

/* Sets where the latents of a call go, and their moments: tensors
 * [n, C, h, w]; both moments are None or float32. */
static bool
add_results(Call *c, PyObject *latents, PyObject *const moments[2])
{
    if (!check_latents(c->stream, latents, "the latents", -1))
        return false;
    const VaePyTensor *t = (VaePyTensor *) latents;
    c->n_latents = (int) t->shape[0];
    c->out = calloc((size_t) c->n_latents + 1, sizeof *c->out);
    if (!c->out) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < c->n_latents; i++) {
        vae_py_vae_type(t, &c->out[i].type);
        c->out[i].data = t->data + i * t->strides[0];
    }
    for (int k = 0; k < 2 && moments[k] != Py_None; k++) {
        const VaePyTensor *m = (VaePyTensor *) moments[k];
        if (!check_latents(c->stream, moments[k], "the moments", c->n_latents))
            return false;
        for (int i = 0; i < c->n_latents; i++)
            *(k ? &c->out[i].logvar : &c->out[i].mean) =
                (float *) (void *) (m->data + i * m->strides[0]);
    }
    return true;
}

/* encode(frames, latents, mean, logvar) */
static PyObject *
encode(PyObject *self, PyObject *args)
{
    Call c = {.stream = (Stream *) self, .task = ENCODE};
    PyObject *latents, *frames, *moments[2];
    if (!PyArg_ParseTuple(args, "OOOO", &frames, &latents, &moments[0],
                          &moments[1]) ||
        !is_ready(c.stream))
        return NULL;
    return finish(&c, add_results(&c, latents, moments) &&
                          add_pictures(&c, frames, false));
}

/* drain_latents(steps, latents, mean, logvar) */
static PyObject *
drain_latents(PyObject *self, PyObject *args)
{
    Call c = {.stream = (Stream *) self, .task = DRAIN};
    PyObject *latents, *moments[2];
    if (!PyArg_ParseTuple(args, "iOOO", &c.steps, &latents, &moments[0],
                          &moments[1]) ||
        !is_ready(c.stream))
        return NULL;
    return finish(&c, add_results(&c, latents, moments));
}

/* drain(steps, frames) */
static PyObject *
drain(PyObject *self, PyObject *args)
{
    Call c = {.stream = (Stream *) self, .task = DRAIN};
    PyObject *frames;
    if (!PyArg_ParseTuple(args, "iO", &c.steps, &frames) || !is_ready(c.stream))
        return NULL;
    return finish(&c, add_pictures(&c, frames, true));
}

/* ------------------------------------------------------------------ */

static PyObject *
simple(PyObject *self, Task task)
{
    Call c = {.stream = (Stream *) self, .task = task};
    return is_ready(c.stream) ? finish(&c, true) : NULL;
}

static PyObject *
release(PyObject *self, PyObject *none)
{
    return simple(self, RELEASE);
}

static PyObject *
resume(PyObject *self, PyObject *none)
{
    return simple(self, RESUME);
}

/* False, with an error, if a network that computes windows of latents would
 * write a checkpoint without carries where they are wanted. */
static bool
has_carries(const Stream *s)
{
    const VaeModel *model = ((VaePyModel *) s->model)->model;
    if (vae_model_window(model, s->params.tile_plan) == 0)
        return true;
    vae_py_fail("carries=True", "carries=False",
                "%s computes windows of latents, whose checkpoints have no "
                "carries; compute the clip again, or decode in an element, "
                "which sends the latents of the window again",
                vae_model_info(model)->arch);
    return false;
}

/* save(path, carries, frames) */
static PyObject *
save(PyObject *self, PyObject *args)
{
    Call c = {.stream = (Stream *) self, .task = SAVE};
    c.checkpoint = (VaeCheckpointParams) VAE_INIT(VaeCheckpointParams);
    PyObject *path;
    int carries;
    unsigned long long frames;
    if (!PyArg_ParseTuple(args, "O&pK", PyUnicode_FSConverter, &path, &carries,
                          &frames))
        return NULL;
    c.checkpoint.path = PyBytes_AsString(path);
    c.checkpoint.carries = carries;
    c.checkpoint.frames = frames;
    PyObject *done = is_ready(c.stream) && (!carries || has_carries(c.stream))
                         ? finish(&c, true)
                         : NULL;
    Py_DECREF(path);
    return done;
}

/* load(path): (begin, next, latents, frames) */
static PyObject *
load(PyObject *self, PyObject *args)
{
    Call c = {.stream = (Stream *) self, .task = LOAD};
    c.checkpoint = (VaeCheckpointParams) VAE_INIT(VaeCheckpointParams);
    c.found = (VaeCheckpoint) VAE_INIT(VaeCheckpoint);
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    c.checkpoint.path = PyBytes_AsString(path);
    PyObject *done = is_ready(c.stream) ? finish(&c, true) : NULL;
    Py_DECREF(path);
    if (!done)
        return NULL;
    Py_DECREF(done);
    return Py_BuildValue("KKKK", (unsigned long long) c.found.begin,
                         (unsigned long long) c.found.next,
                         (unsigned long long) c.found.latents,
                         (unsigned long long) c.found.frames);
}

static PyObject *
close_stream(PyObject *self, PyObject *none)
{
    Stream *s = (Stream *) self;
    if (s->stream && !is_ready(s))
        return NULL;
    vae_stream_free(&s->stream);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *
cancel(PyObject *self, PyObject *none)
{
    Stream *s = (Stream *) self;
    if (s->stream)
        vae_stream_cancel(s->stream);
    Py_INCREF(Py_None);
    return Py_None;
}

/* Warns once a clip of latents with values that are not finite. */
static void
tell_nonfinite(Stream *s)
{
    char line[100];
    const uint64_t n =
        s->stream ? vae_stream_stats(s->stream)->nonfinite - s->nonfinite_before
                  : 0;
    if (n == 0 || s->told_nonfinite)
        return;
    s->told_nonfinite = true;
    snprintf(line, sizeof line,
             "%s of the latents%s %s not finite, or too large for float32",
             VAE_COUNTED(n, "value"),
             s->params.direction == VAE_ENCODE ? " that the frames give" : "",
             n == 1 ? "is" : "are");
    keep_line(s, 'd', line);
}

static PyObject *
reset(PyObject *self, PyObject *none)
{
    Stream *s = (Stream *) self;
    if (!is_ready(s))
        return NULL;
    tell_nonfinite(s);
    vae_stream_reset(s->stream);
    s->told_nonfinite = false;
    s->nonfinite_before = vae_stream_stats(s->stream)->nonfinite;
    Py_INCREF(Py_None);
    return Py_None;
}

/* restart(latents, warm_up) */
static PyObject *
restart(PyObject *self, PyObject *args)
{
    Stream *s = (Stream *) self;
    unsigned long long latents;
    int warm_up;
    VaeError error = {0};
    if (!PyArg_ParseTuple(args, "Ki", &latents, &warm_up) || !is_ready(s))
        return NULL;
    if (latents == 0)
        vae_stream_reset(s->stream);
    else if (vae_stream_restart(s->stream, latents, &error) != VAE_OK)
        return vae_py_raise(&error);
    vae_stream_warm_up(s->stream, warm_up);
    Py_INCREF(Py_None);
    return Py_None;
}

/* count(steps): units in and out of the next steps. */
static PyObject *
count(PyObject *self, PyObject *args)
{
    Stream *s = (Stream *) self;
    int steps, in, out;
    if (!PyArg_ParseTuple(args, "i", &steps) || !is_ready(s))
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
    Stream *s = (Stream *) self;
    int steps, frames = 0;
    if (!PyArg_ParseTuple(args, "i", &steps) || !is_ready(s))
        return NULL;
    const int left = vae_stream_drain_count(s->stream, steps, &frames);
    return Py_BuildValue("ii", left, frames);
}

static PyObject *
warm_up_cost(PyObject *self, PyObject *args)
{
    Stream *s = (Stream *) self;
    int steps;
    if (!PyArg_ParseTuple(args, "i", &steps) || !is_ready(s))
        return NULL;
    return PyLong_FromLong(vae_stream_warm_up_cost(s->stream, steps));
}

static const char *
kind_of(char letter)
{
    return letter == 'w' ? "warning" : letter == 'd' ? "doubt" : "log";
}

/* lines(): what the engine said since the last call, [(kind, text)]. */
static PyObject *
lines(PyObject *self, PyObject *none)
{
    Stream *s = (Stream *) self;
    char *taken[LINES];
    tell_nonfinite(s);
    pthread_mutex_lock(&s->lock);
    const int n = s->n_lines;
    memcpy(taken, s->lines, sizeof taken);
    s->n_lines = 0;
    pthread_mutex_unlock(&s->lock);
    PyObject *list = PyList_New(0);
    for (int i = 0; i < n; i++) {
        PyObject *line =
            list ? Py_BuildValue("ss", kind_of(taken[i][0]), taken[i] + 1)
                 : NULL;
        if (list && (!line || PyList_Append(list, line) != 0))
            Py_CLEAR(list);
        Py_XDECREF(line);
        free(taken[i]);
    }
    return list;
}

static PyObject *
get_plan(PyObject *self, void *unused)
{
    Stream *s = (Stream *) self;
    return is_ready(s) ? vae_py_plan_dict(vae_stream_get_plan(s->stream))
                       : NULL;
}

static PyObject *
get_stats(PyObject *self, void *unused)
{
    Stream *s = (Stream *) self;
    if (!is_ready(s))
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
        ((Stream *) self)->stream,
        (VaeDoubtWords){.stated = by_file ? "the file states" : NULL,
                        .chosen = by_user});
    Py_INCREF(Py_None);
    return Py_None;
}

static PyGetSetDef properties[] = {
    {"plan", get_plan, NULL, "The plan: a dict.", NULL},
    {"stats", get_stats, NULL, "Counts since it was opened: a dict.", NULL},
    {0}};

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, "decode(latents, frames)"},
    {"encode", encode, METH_VARARGS, "encode(frames, latents, mean, logvar)"},
    {"drain", drain, METH_VARARGS, "drain(steps, frames)"},
    {"drain_latents", drain_latents, METH_VARARGS,
     "drain_latents(steps, latents, mean, logvar)"},
    {"drain_count", drain_count, METH_VARARGS, "drain_count(steps)"},
    {"count", count, METH_VARARGS, "count(steps): units in and out"},
    {"reset", reset, METH_NOARGS, "Begins the next sequence."},
    {"restart", restart, METH_VARARGS, "restart(latents, warm_up)"},
    {"warm_up_cost", warm_up_cost, METH_VARARGS, "warm_up_cost(steps)"},
    {"cancel", cancel, METH_NOARGS, "Ends the running call."},
    {"release", release, METH_NOARGS, "Frees the memory of the device."},
    {"resume", resume, METH_NOARGS, "Allocates it again."},
    {"save", save, METH_VARARGS, "save(path, carries, frames)"},
    {"load", load, METH_VARARGS, "load(path): begin, next, latents, frames"},
    {"lines", lines, METH_NOARGS, "What the engine said."},
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
    "gst_vae.Stream", sizeof(Stream), 0,
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
