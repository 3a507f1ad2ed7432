/*
 * python.h: shared by the files of the extension. It uses only the Limited API
 * of Python 3.10, so that one build serves all later versions.
 */
#ifndef GST_VAE_PYTHON_H
#define GST_VAE_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack.h"
#include "vae-private/stream.h"

/*
 * The Limited API has the buffer protocol since 3.11. Python 3.10 has the same
 * functions with the same layout, but its headers hide them.
 */
#ifndef PyBUF_SIMPLE
#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;
PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
PyAPI_FUNC(int)
    PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
#endif

/* call.c */

/* Makes the exceptions of the module; 0 or -1. */
int vae_py_add_errors(PyObject *module);
/* Raises the exception of a status; returns NULL. */
PyObject *vae_py_raise(const VaeError *error);
/* Raises Error with the parts; format as in PyUnicode_FromFormat(). */
PyObject *vae_py_fail(const char *found, const char *expected,
                      const char *format, ...);
/* The same for an error of Python such as TypeError. */

typedef struct VaePyWork {
    VaeStatus (*run)(struct VaePyWork *work, VaeError *error);
    /* Asks run() to return soon. */
    void (*cancel)(struct VaePyWork *work);
} VaePyWork;
/*
 * Calls work->run() on a thread of its own, without the interpreter's lock.
 * Meanwhile the signals of Python are served: if one raises, such as
 * KeyboardInterrupt, the work is cancelled. Returns 0, or -1 with an exception.
 */
int vae_py_run(VaePyWork *work);

/* tensor/ */

#define VAE_PY_DIMS 8

typedef struct VaePyTensor {
    PyObject_HEAD int n_dims;
    int64_t shape[VAE_PY_DIMS], strides[VAE_PY_DIMS]; /* strides in bytes */
    char dtype[24];
    VaePyDlType type;
    VaePyDlDevice device;
    char *data;
    bool readonly;
    /* The owner of the data: one of these. */
    PyObject *base;
    VaePyDlManaged *managed;
    Py_buffer *view;
    void *block;
} VaePyTensor;

extern PyTypeObject *vae_py_tensor_type;
int vae_py_add_tensor(PyObject *module);
bool vae_py_is_tensor(PyObject *object);
/* The VaeType of the elements; false if it has none. */
bool vae_py_vae_type(const VaePyTensor *t, VaeType *out);
int vae_py_item_size(const VaePyTensor *t);
/* True if the last n dimensions have no gaps. */
bool vae_py_packed(const VaePyTensor *t, int n);
/* "16x3x4", as the engine writes shapes. */
const char *vae_py_dims(const VaePyTensor *t, char *buffer, size_t size);
/* A view of memory that base keeps; NULL with an exception. */
PyObject *vae_py_view(PyObject *base, const char *dtype, int n_dims,
                      const int64_t *shape, const int64_t *strides, void *data,
                      bool readonly);
/* A packed copy as float32 if the tensor is float64, else the tensor itself.
 * NULL with an exception. */
PyObject *vae_py_narrowed(PyObject *tensor, PyObject *unused);

/* model.c */

typedef struct VaePyModel {
    PyObject_HEAD VaeModel *model;
} VaePyModel;

extern PyTypeObject *vae_py_model_type;
int vae_py_add_model(PyObject *module);
/* A dict from "sO" pairs and such. Steals the values; NULL values end with an
 * exception. */
PyObject *vae_py_plan_dict(const VaePlan *plan);

/* words.c */

/* Writes a sentence with settings spelled as keyword arguments, such as
 * layout="tchw". Returns out. */
const char *vae_py_spell(const char *line, char *out, size_t size);
PyObject *vae_py_spelled(PyObject *self, PyObject *text);

/* settings.c */

/* Fills params from the settings of a dict; NULL or -1 with an exception. */
int vae_py_settings(PyObject *dict, VaeStreamParams *params);
/* A dict: what each setting does, and its values. */
PyObject *vae_py_setting_texts(PyObject *self, PyObject *none);
/* A value of an enumeration by its word, for arguments; false raises. */
bool vae_py_direction(const char *word, VaeDirection *out);

/* stream/ */

int vae_py_add_stream(PyObject *module);

/* pictures.c */

/* Fills *out from a tensor [H, W, 3], or from a tuple of planes. The settings
 * of colour are those of `like`. False with an exception. */
bool vae_py_picture(PyObject *object, const VaePicture *like, bool writable,
                    VaePicture *out);
bool vae_py_pixels(const char *word, VaePixels *out);

/* clip.c */

int vae_py_add_clip(PyObject *module);

#endif
