/*
 * busy.c: one call at a time of a stream.
 */
#include "stream.h"

#include <unistd.h>

static void
cancel(VaePyWork *work)
{
    VaePyStream *s = ((VaePyCall *) work)->stream;
    s->stop = true;
    vae_stream_cancel(s->stream);
}

bool
vae_py_is_ready(const VaePyStream *s)
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

PyObject *
vae_py_call(VaePyCall *call)
{
    call->work.cancel = cancel;
    call->stream->stop = false;
    call->stream->busy = true;
    const bool good = vae_py_run(&call->work) == 0;
    call->stream->busy = false;
    return good ? Py_NewRef(Py_None) : NULL;
}
