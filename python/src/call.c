/*
 * call.c: calls of the engine without the interpreter's lock, and its errors as
 * exceptions.
 */
#include "python.h"

#include <pthread.h>
#include <stdarg.h>
#include <time.h>

static PyObject *error_type, *memory_type, *cancelled_type;

int
vae_py_add_errors(PyObject *module)
{
    error_type = PyErr_NewExceptionWithDoc(
        "gst_vae.Error",
        "An error of gst-vae. Its text is a sentence. status names its kind; "
        "tensor, found and expected repeat parts of the sentence, or are \"\".",
        NULL, NULL);
    if (!error_type)
        return -1;
    PyObject *bases = PyTuple_Pack(2, error_type, PyExc_MemoryError);
    memory_type = PyErr_NewExceptionWithDoc(
        "gst_vae.OutOfMemory", "Memory was refused, or the plan does not fit.",
        bases, NULL);
    Py_XDECREF(bases);
    cancelled_type = PyErr_NewExceptionWithDoc(
        "gst_vae.Cancelled", "cancel() ended the call.", error_type, NULL);
    return PyModule_AddObjectRef(module, "Error", error_type) ||
                   PyModule_AddObjectRef(module, "OutOfMemory", memory_type) ||
                   PyModule_AddObjectRef(module, "Cancelled", cancelled_type)
               ? -1
               : 0;
}

static void
set_text(PyObject *object, const char *name, const char *text)
{
    PyObject *value =
        PyUnicode_DecodeUTF8(text, (Py_ssize_t) strlen(text), "replace");
    if (!value || PyObject_SetAttrString(object, name, value) != 0)
        PyErr_Clear();
    Py_XDECREF(value);
}

PyObject *
vae_py_raise(const VaeError *error)
{
    PyObject *type = error->status == VAE_ERR_MEMORY      ? memory_type
                     : error->status == VAE_ERR_CANCELLED ? cancelled_type
                                                          : error_type;
    char said[sizeof error->message];
    vae_py_spell(error->message, said, sizeof said);
    PyObject *text =
        PyUnicode_DecodeUTF8(said, (Py_ssize_t) strlen(said), "replace");
    PyObject *made =
        text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
    Py_XDECREF(text);
    if (!made)
        return NULL;
    set_text(made, "status", vae_status_name(error->status));
    set_text(made, "tensor", error->tensor);
    set_text(made, "found", error->found);
    set_text(made, "expected", error->expected);
    PyErr_SetObject(type, made);
    Py_DECREF(made);
    return NULL;
}

PyObject *
vae_py_fail(const char *found, const char *expected, const char *format, ...)
{
    VaeError error = {.status = VAE_ERR_ARGUMENT};
    va_list args;
    va_start(args, format);
    vsnprintf(error.message, sizeof error.message, format, args);
    va_end(args);
    snprintf(error.found, sizeof error.found, "%s", found);
    snprintf(error.expected, sizeof error.expected, "%s", expected);
    return vae_py_raise(&error);
}

/* ------------------------------------------------------------------ */

enum { POLL_NS = 20 * 1000 * 1000 };

typedef struct Job {
    VaePyWork *work;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    clockid_t clock; /* of the wait for it */
    bool done;
    VaeStatus status;
    VaeError error;
} Job;

static void *
run_job(void *data)
{
    Job *job = data;
    const VaeStatus status = job->work->run(job->work, &job->error);
    pthread_mutex_lock(&job->lock);
    job->status = status;
    job->done = true;
    pthread_cond_signal(&job->ended);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

/* Waits for the end of the job, but not for long; true if it has ended. */
static bool
wait_job(Job *job)
{
    struct timespec until;
    clock_gettime(job->clock, &until);
    until.tv_nsec += POLL_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&job->lock);
    int code = 0;
    while (!job->done && code == 0)
        code = pthread_cond_timedwait(&job->ended, &job->lock, &until);
    const bool done = job->done;
    pthread_mutex_unlock(&job->lock);
    return done;
}

/* Serves signals until the job has ended; true if one of them raised. */
static bool
serve(Job *job)
{
    bool raised = false, done = false;
    while (!done) {
        Py_BEGIN_ALLOW_THREADS done = wait_job(job);
        Py_END_ALLOW_THREADS if (!raised && PyErr_CheckSignals() != 0)
        {
            raised = true;
            job->work->cancel(job->work);
        }
    }
    return raised;
}

int
vae_py_run(VaePyWork *work)
{
    Job job = {.work = work, .clock = CLOCK_MONOTONIC};
    pthread_condattr_t clock;
    pthread_t thread;
    pthread_mutex_init(&job.lock, NULL);
    pthread_condattr_init(&clock);
    /* mingw-w64 has only the other clock for this. */
    if (pthread_condattr_setclock(&clock, job.clock) != 0)
        job.clock = CLOCK_REALTIME;
    pthread_cond_init(&job.ended, &clock);
    pthread_condattr_destroy(&clock);
    bool raised = false;
    if (pthread_create(&thread, NULL, run_job, &job) == 0) {
        raised = serve(&job);
        pthread_join(thread, NULL);
    } else {
        /* Without a thread, a signal waits for the end of the work. */
        Py_BEGIN_ALLOW_THREADS run_job(&job);
        Py_END_ALLOW_THREADS raised = PyErr_CheckSignals() != 0;
    }
    pthread_cond_destroy(&job.ended);
    pthread_mutex_destroy(&job.lock);
    if (!raised && job.status != VAE_OK)
        vae_py_raise(&job.error);
    return raised || job.status != VAE_OK ? -1 : 0;
}
