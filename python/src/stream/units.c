/*
 * units.c: latents and frames of a call, in the memory of their tensors.
 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum Task { DECODE, ENCODE, DRAIN, DRAIN_LATENTS } Task;

typedef struct Units {
    VaePyCall call;
    Task task;
    VaeLatentIn *in;
    VaeLatentOut *out;
    VaePicture *pictures;
    int n_latents, n_pictures, steps;
} Units;

static VaeStatus
run(VaePyWork *work, VaeError *error)
{
    Units *u = (Units *) work;
    VaeStream *s = u->call.stream->stream;
    switch (u->task) {
    case DECODE:
        return vae_stream_decode(s, u->in, u->n_latents, u->pictures,
                                 u->n_pictures, error);
    case ENCODE:
        return vae_stream_encode(s, u->pictures, u->n_pictures, u->out,
                                 u->n_latents, error);
    case DRAIN:
        return vae_stream_drain(s, u->steps, u->pictures, u->n_pictures, error);
    default:
        return vae_stream_drain_latents(s, u->steps, u->out, u->n_latents,
                                        error);
    }
}

/* Runs a call; frees its arrays. */
static PyObject *
finish(Units *u, bool good)
{
    PyObject *done = good ? vae_py_call(&u->call) : NULL;
    free(u->in);
    free(u->out);
    free(u->pictures);
    return done;
}

/* The memory of n elements and one more; NULL with an exception. */
static void *
array(Py_ssize_t n, size_t size)
{
    void *block = calloc((size_t) n + 1, size);
    return block ? block : PyErr_NoMemory();
}

/* Checks a tensor [n, C, h, w] of latents whose latents have no gaps. */
static bool
check_latents(const VaePyStream *s, PyObject *object, const char *what, int n)
{
    const VaePlan *plan = vae_stream_get_plan(s->stream);
    const VaeModelInfo *info = vae_model_info(s->model->model);
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

/* Sets the pictures of a call: a sequence of them. */
static bool
add_pictures(Units *u, PyObject *frames, bool writable)
{
    const Py_ssize_t n = PySequence_Size(frames);
    if (n < 0 || !(u->pictures = array(n, sizeof *u->pictures)))
        return false;
    u->n_pictures = (int) n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *frame = PySequence_GetItem(frames, i);
        const bool good = frame && vae_py_picture(frame, &u->call.stream->like,
                                                  writable, &u->pictures[i]);
        Py_XDECREF(frame); /* its tensor keeps the memory */
        if (!good)
            return false;
    }
    return true;
}

/* Sets the latents of a call, where they are and where they go. */
static bool
add_latents(Units *u, PyObject *latents)
{
    if (!check_latents(u->call.stream, latents, "the latents", -1))
        return false;
    const VaePyTensor *t = (VaePyTensor *) latents;
    u->n_latents = (int) t->shape[0];
    u->in = array(u->n_latents, sizeof *u->in);
    u->out = u->in ? array(u->n_latents, sizeof *u->out) : NULL;
    for (int i = 0; u->out && i < u->n_latents; i++) {
        char *data = t->data + i * t->strides[0];
        vae_py_vae_type(t, &u->in[i].type);
        u->in[i].data = data;
        u->out[i] = (VaeLatentOut){.type = u->in[i].type, .data = data};
    }
    return u->out;
}

/* Sets where the latents of a call go, and their moments: both are None or
 * float32. */
static bool
add_results(Units *u, PyObject *latents, PyObject *const moments[2])
{
    if (!add_latents(u, latents))
        return false;
    for (int k = 0; k < 2 && moments[k] != Py_None; k++) {
        const VaePyTensor *m = (VaePyTensor *) moments[k];
        if (!check_latents(u->call.stream, moments[k], "the moments",
                           u->n_latents))
            return false;
        for (int i = 0; i < u->n_latents; i++)
            *(k ? &u->out[i].logvar : &u->out[i].mean) =
                (float *) (void *) (m->data + i * m->strides[0]);
    }
    return true;
}

PyObject *
vae_py_decode(PyObject *self, PyObject *args)
{
    Units u = {{{run}, (VaePyStream *) self}, DECODE};
    PyObject *latents, *frames;
    if (!PyArg_ParseTuple(args, "OO", &latents, &frames) ||
        !vae_py_is_ready(u.call.stream))
        return NULL;
    return finish(&u,
                  add_latents(&u, latents) && add_pictures(&u, frames, true));
}

PyObject *
vae_py_encode(PyObject *self, PyObject *args)
{
    Units u = {{{run}, (VaePyStream *) self}, ENCODE};
    PyObject *latents, *frames, *moments[2];
    if (!PyArg_ParseTuple(args, "OOOO", &frames, &latents, &moments[0],
                          &moments[1]) ||
        !vae_py_is_ready(u.call.stream))
        return NULL;
    return finish(&u, add_results(&u, latents, moments) &&
                          add_pictures(&u, frames, false));
}

PyObject *
vae_py_drain_latents(PyObject *self, PyObject *args)
{
    Units u = {{{run}, (VaePyStream *) self}, DRAIN_LATENTS};
    PyObject *latents, *moments[2];
    if (!PyArg_ParseTuple(args, "iOOO", &u.steps, &latents, &moments[0],
                          &moments[1]) ||
        !vae_py_is_ready(u.call.stream))
        return NULL;
    return finish(&u, add_results(&u, latents, moments));
}

PyObject *
vae_py_drain(PyObject *self, PyObject *args)
{
    Units u = {{{run}, (VaePyStream *) self}, DRAIN};
    PyObject *frames;
    if (!PyArg_ParseTuple(args, "iO", &u.steps, &frames) ||
        !vae_py_is_ready(u.call.stream))
        return NULL;
    return finish(&u, add_pictures(&u, frames, true));
}
