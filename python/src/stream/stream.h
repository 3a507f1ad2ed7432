/*
 * stream.h: shared by the files of Stream.
 */
#ifndef GST_VAE_PYTHON_STREAM_H
#define GST_VAE_PYTHON_STREAM_H

#include "python.h"

#include <pthread.h>

enum { VAE_PY_LINES = 64 };

typedef struct VaePyStream {
    PyObject_HEAD VaeStream *stream;
    VaePyModel *model;
    VaeStreamParams params;
    VaePicture like; /* all members but the memory */
    bool busy;       /* under the interpreter's lock */
    volatile bool stop;
    pid_t process;
    pthread_mutex_t lock;      /* guards lines */
    char *lines[VAE_PY_LINES]; /* the letter of its kind and a sentence */
    int n_lines;
    bool told_nonfinite;       /* of the clip */
    uint64_t nonfinite_before; /* values of earlier clips */
} VaePyStream;

/* A call of the engine; another struct can begin with it. */
typedef struct VaePyCall {
    VaePyWork work; /* needs run only */
    VaePyStream *stream;
} VaePyCall;

/* busy.c */

/* True if the stream can be called now; false with an exception. */
bool vae_py_is_ready(const VaePyStream *s);
/* None, or NULL with an exception. */
PyObject *vae_py_call(VaePyCall *call);

/* lines.c */

/* Sets where the engine says its lines. */
void vae_py_keep_lines(VaePyStream *s);
/* Warns once a clip of latents with values that are not finite. */
void vae_py_tell_nonfinite(VaePyStream *s);

/* Methods of Stream; stream.c has their arguments. */

PyObject *vae_py_lines(PyObject *self, PyObject *none);
PyObject *vae_py_decode(PyObject *self, PyObject *args);
PyObject *vae_py_encode(PyObject *self, PyObject *args);
PyObject *vae_py_drain(PyObject *self, PyObject *args);
PyObject *vae_py_drain_latents(PyObject *self, PyObject *args);
PyObject *vae_py_save(PyObject *self, PyObject *args);
PyObject *vae_py_load(PyObject *self, PyObject *args);

#endif
