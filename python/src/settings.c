/*
 * settings.c: sets the settings of a stream by name.
 */
#include "python.h"

#include <string.h>

#include "vae-private/settings.h"

static bool
wrong(const VaeSetting *s, const char *found)
{
    char expected[128];
    vae_setting_expected(s, expected, sizeof expected);
    vae_py_fail(found, expected, "%s is %s, expected %s", s->name, found,
                expected);
    return false;
}

static bool
set_text(const VaeSetting *s, const char *text, VaeStreamParams *params)
{
    VaePixels pixels;
    if (strcmp(s->name, "pixels") == 0 && vae_py_pixels(text, &pixels)) {
        params->pixels = pixels;
        return true;
    }
    /* 0 bytes are no limit */
    if (s->kind == VAE_SETTING_MEMORY && strcmp(text, "0") == 0)
        text = "auto";
    return vae_setting_parse(s, params, text) || wrong(s, text);
}

static bool
set(const VaeSetting *s, PyObject *value, VaeStreamParams *params)
{
    if (s->kind == VAE_SETTING_SWITCH) {
        const int truth = PyObject_IsTrue(value);
        vae_setting_set(s, params, truth);
        return truth >= 0;
    }
    PyObject *text = PyObject_Str(value);
    PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    const bool good = bytes && set_text(s, PyBytes_AsString(bytes), params);
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    return good;
}

int
vae_py_settings(PyObject *dict, VaeStreamParams *params)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    vae_settings_init(params);
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        const VaeSetting *s = name ? vae_setting_find(name) : NULL;
        if (!s)
            PyErr_Format(PyExc_TypeError, "there is no setting %R", key);
        if (!s || !set(s, value, params))
            return -1;
    }
    return 0;
}

PyObject *
vae_py_setting_texts(PyObject *self, PyObject *none)
{
    PyObject *texts = PyDict_New();
    const VaeSetting *s;
    for (int i = 0; texts && (s = vae_setting_at(i)); i++) {
        char expected[128];
        vae_setting_expected(s, expected, sizeof expected);
        PyObject *text = PyUnicode_FromFormat(
            "%s: %s", s->sentence ? s->sentence : s->name, expected);
        if (!text || PyDict_SetItemString(texts, s->name, text) != 0)
            Py_CLEAR(texts);
        Py_XDECREF(text);
    }
    return texts;
}

bool
vae_py_direction(const char *word, VaeDirection *out)
{
    const VaeSetting *s = vae_setting_find("direction");
    VaeStreamParams params;
    if (!vae_setting_parse(s, &params, word))
        return wrong(s, word);
    *out = params.direction;
    return true;
}
