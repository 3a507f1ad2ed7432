/*
 * checkpoint.c: saves and loads the state of a stream.
 */
#include "stream.h"

typedef struct Checkpoint {
    VaePyCall call;
    VaeCheckpointParams params;
    VaeCheckpoint found;
} Checkpoint;

static VaeStatus
run_save(VaePyWork *work, VaeError *error)
{
    Checkpoint *c = (Checkpoint *) work;
    return vae_stream_save(c->call.stream->stream, &c->params, error);
}

static VaeStatus
run_load(VaePyWork *work, VaeError *error)
{
    Checkpoint *c = (Checkpoint *) work;
    return vae_stream_load(c->call.stream->stream, &c->params, &c->found,
                           error);
}

/* False, with an error, if a network that computes windows of latents would
 * write a checkpoint without carries where they are wanted. */
static bool
has_carries(const VaePyStream *s)
{
    const VaeModel *model = s->model->model;
    if (vae_model_window(model, s->params.tile_plan) == 0)
        return true;
    vae_py_fail("carries=True", "carries=False",
                "%s computes windows of latents, whose checkpoints have no "
                "carries; compute the clip again, or decode in an element, "
                "which sends the latents of the window again",
                vae_model_info(model)->arch);
    return false;
}

PyObject *
vae_py_save(PyObject *self, PyObject *args)
{
    VaePyStream *s = (VaePyStream *) self;
    Checkpoint c = {{{run_save}, s}, VAE_INIT(VaeCheckpointParams)};
    PyObject *path, *done = NULL;
    int carries;
    unsigned long long frames;
    if (!PyArg_ParseTuple(args, "O&pK", PyUnicode_FSConverter, &path, &carries,
                          &frames))
        return NULL;
    c.params.path = PyBytes_AsString(path);
    c.params.carries = carries;
    c.params.frames = frames;
    if (vae_py_is_ready(s) && (!carries || has_carries(s)))
        done = vae_py_call(&c.call);
    Py_DECREF(path);
    return done;
}

PyObject *
vae_py_load(PyObject *self, PyObject *args)
{
    VaePyStream *s = (VaePyStream *) self;
    Checkpoint c = {{{run_load}, s},
                    VAE_INIT(VaeCheckpointParams),
                    VAE_INIT(VaeCheckpoint)};
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    c.params.path = PyBytes_AsString(path);
    PyObject *done = vae_py_is_ready(s) ? vae_py_call(&c.call) : NULL;
    Py_DECREF(path);
    if (!done)
        return NULL;
    Py_DECREF(done);
    return Py_BuildValue("KKKK", (unsigned long long) c.found.begin,
                         (unsigned long long) c.found.next,
                         (unsigned long long) c.found.latents,
                         (unsigned long long) c.found.frames);
}
