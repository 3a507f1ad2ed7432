/*
 * lines.c: what the engine says, kept for Python.
 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any thread calls it. */
static void
keep_line(VaePyStream *s, char kind, const char *line)
{
    const size_t size = strlen(line) + 2;
    pthread_mutex_lock(&s->lock);
    char *kept = s->n_lines < VAE_PY_LINES ? malloc(size) : NULL;
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

void
vae_py_keep_lines(VaePyStream *s)
{
    s->params.log = log_line;
    s->params.warn = warn_line;
    s->params.doubt = doubt_line;
    s->params.log_user = s;
}

void
vae_py_tell_nonfinite(VaePyStream *s)
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

static const char *
kind_of(char letter)
{
    return letter == 'w' ? "warning" : letter == 'd' ? "doubt" : "log";
}

/* lines(): what the engine said since the last call, [(kind, text)]. */
PyObject *
vae_py_lines(PyObject *self, PyObject *none)
{
    VaePyStream *s = (VaePyStream *) self;
    char *taken[VAE_PY_LINES];
    vae_py_tell_nonfinite(s);
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
