/*
 * module.c: the extension gst_vae._engine, which the Python files of the
 * package use. It is not for others.
 */
#include "python.h"

#include "vae/version.h"

static PyObject *
available(PyObject *self, PyObject *args)
{
    const char *word;
    char why[512];
    VaeBackendKind kind;
    if (!PyArg_ParseTuple(args, "s", &word))
        return NULL;
    if (!vae_backend_parse(word, &kind))
        return vae_py_fail(word, "auto, cuda, cpu or ref",
                           "the backend is %s, expected auto, cuda, cpu or ref",
                           word);
    if (vae_backend_available(kind, why, sizeof why))
        return PyUnicode_FromString("");
    return PyUnicode_DecodeUTF8(why, (Py_ssize_t) strlen(why), "replace");
}

static PyMethodDef functions[] = {
    {"unavailable", available, METH_VARARGS,
     "unavailable(backend): why it does not work here, or \"\"."},
    {"spell", vae_py_spelled, METH_O,
     "spell(text): a sentence with settings as keyword arguments."},
    {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "gst_vae._engine",
                                        NULL,
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__engine(void);

PyMODINIT_FUNC
PyInit__engine(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (vae_py_add_errors(module) || vae_py_add_tensor(module) ||
        vae_py_add_model(module) || vae_py_add_stream(module) ||
        vae_py_add_clip(module) ||
        PyModule_AddStringConstant(module, "version", vae_version()))
        Py_CLEAR(module);
    return module;
}
