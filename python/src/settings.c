/*
 * settings.c: the settings of a stream by name, in one table.
 */
#include "python.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

typedef enum Kind { WORD, INT, INT64, SEED, BOOL, SHARE } Kind;

typedef struct Setting {
    const char *name;
    Kind kind;
    size_t offset;
    bool (*parse)(const char *word, int *out); /* of WORD */
    const char *words;
} Setting;

#define PARSER(name, type, function)                                           \
    static bool name(const char *word, int *out)                               \
    {                                                                          \
        type value;                                                            \
        const bool good = function(word, &value);                              \
        if (good)                                                              \
            *out = (int) value;                                                \
        return good;                                                           \
    }
PARSER(parse_backend, VaeBackendKind, vae_backend_parse)
PARSER(parse_precision, VaePrecision, vae_precision_parse)
PARSER(parse_normalization, VaeNormalization, vae_normalization_parse)
PARSER(parse_nan_policy, VaeNanPolicy, vae_nan_policy_parse)
PARSER(parse_spill, VaeSpill, vae_spill_parse)
PARSER(parse_pixels, VaePixels, vae_py_pixels)

static bool
direction_of(const char *word, VaeDirection *out)
{
    *out = strcmp(word, "encode") == 0 ? VAE_ENCODE : VAE_DECODE;
    return *out == VAE_ENCODE || strcmp(word, "decode") == 0;
}
PARSER(parse_direction, VaeDirection, direction_of)

static bool
parse_posterior(const char *word, int *out)
{
    *out =
        strcmp(word, "sample") == 0 ? VAE_POSTERIOR_SAMPLE : VAE_POSTERIOR_MEAN;
    return *out == VAE_POSTERIOR_SAMPLE || strcmp(word, "mean") == 0;
}

static bool
parse_tiles(const char *word, int *out)
{
    *out = strcmp(word, "blend") == 0 ? VAE_TILES_BLEND : VAE_TILES_OFF;
    return *out == VAE_TILES_BLEND || strcmp(word, "off") == 0;
}

#define AT(member) offsetof(VaeStreamParams, member)

static const Setting settings[] = {
    {"direction", WORD, AT(direction), parse_direction, "decode or encode"},
    {"width", INT, AT(width), NULL, NULL},
    {"height", INT, AT(height), NULL, NULL},
    {"backend", WORD, AT(backend), parse_backend, "auto, cuda, cpu or ref"},
    {"precision", WORD, AT(precision), parse_precision,
     "auto, fp32, tf32, fp16 or bf16"},
    {"slice_size", INT, AT(slice_size), NULL, NULL},
    {"frames_at_once", INT, AT(frames_at_once), NULL, NULL},
    {"threads", INT, AT(threads), NULL, NULL},
    {"device", INT, AT(device), NULL, NULL},
    {"deterministic", BOOL, AT(deterministic), NULL, NULL},
    {"restarts", BOOL, AT(restarts), NULL, NULL},
    {"normalization", WORD, AT(normalization), parse_normalization,
     "normalized, raw or comfyui"},
    {"posterior", WORD, AT(posterior), parse_posterior, "mean or sample"},
    {"spill", WORD, AT(spill), parse_spill, "auto, off or host"},
    {"seed", SEED, AT(seed), NULL, NULL},
    {"nan_policy", WORD, AT(nan_policy), parse_nan_policy,
     "pass, fallback or error"},
    {"pixels", WORD, AT(pixels), parse_pixels, "a pixel format"},
    {"memory_limit", SHARE, AT(memory_limit), NULL,
     "auto, bytes, a size such as 8G, or a share such as 75%"},
    {"low_latency", BOOL, AT(low_latency), NULL, NULL},
    {"look_ahead", INT, AT(look_ahead), NULL, NULL},
    {"resume_ms", INT64, AT(resume_ms), NULL, NULL},
    {"strips", INT64, AT(strips), NULL, NULL},
    {"pictures_on_device", INT64, AT(pictures_on_device), NULL, NULL},
    {"tiles", WORD, AT(tiles), parse_tiles, "off or blend"},
    {"tile_width", INT64, AT(tile_width), NULL, NULL},
    {"tile_height", INT64, AT(tile_height), NULL, NULL},
    {"tile_overlap", INT64, AT(tile_overlap), NULL, NULL},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static bool
wrong(const Setting *s, PyObject *value, const char *expected)
{
    PyObject *text = PyObject_Str(value);
    PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    if (bytes) {
        const char *found = PyBytes_AsString(bytes);
        vae_py_fail(found, expected, "%s is %s, expected %s", s->name, found,
                    expected);
    }
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    return false;
}

static bool
set_whole(const Setting *s, PyObject *value, VaeStreamParams *params)
{
    char *at = (char *) params + s->offset;
    int overflow = 0;
    if (!PyLong_Check(value) || PyBool_Check(value))
        return wrong(s, value, "a whole number");
    const long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || (s->kind == INT && (n < INT_MIN || n > INT_MAX)))
        return wrong(s, value, "a smaller number");
    if (s->kind == INT)
        *(int *) at = (int) n;
    else
        *(int64_t *) at = n;
    return true;
}

static bool
set_seed(const Setting *s, PyObject *value, VaeStreamParams *params)
{
    if (!PyLong_Check(value))
        return wrong(s, value, "a whole number");
    params->seed = PyLong_AsUnsignedLongLong(value);
    if (!PyErr_Occurred())
        return true;
    PyErr_Clear();
    return wrong(s, value, "0 to 2^64 - 1");
}

/* Bytes, or the words of vaetool. */
static bool
set_limit(const Setting *s, PyObject *value, VaeStreamParams *params)
{
    if (PyLong_Check(value)) {
        params->memory_limit = PyLong_AsSize_t(value);
        if (!PyErr_Occurred())
            return true;
        PyErr_Clear();
        return wrong(s, value, s->words);
    }
    Py_ssize_t size;
    const char *word =
        PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : NULL;
    return (word && vae_memory_limit_parse(word, &params->memory_limit,
                                           &params->memory_share)) ||
           wrong(s, value, s->words);
}

static bool
set_word(const Setting *s, PyObject *value, VaeStreamParams *params)
{
    int number;
    Py_ssize_t size;
    const char *word =
        PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, &size) : NULL;
    if (!word || !s->parse(word, &number))
        return wrong(s, value, s->words);
    if (s->offset == AT(tiles))
        params->tiles = number;
    else
        memcpy((char *) params + s->offset, &number, sizeof number);
    return true;
}

static bool
set(const Setting *s, PyObject *value, VaeStreamParams *params)
{
    switch (s->kind) {
    case WORD:
        return set_word(s, value, params);
    case SEED:
        return set_seed(s, value, params);
    case SHARE:
        return set_limit(s, value, params);
    case BOOL: {
        const int truth = PyObject_IsTrue(value);
        *(bool *) ((char *) params + s->offset) = truth > 0;
        return truth >= 0;
    }
    default:
        return set_whole(s, value, params);
    }
}

int
vae_py_settings(PyObject *dict, VaeStreamParams *params)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    params->device = -1;
    while (PyDict_Next(dict, &at, &key, &value)) {
        int i = 0;
        while (i < SETTINGS &&
               PyUnicode_CompareWithASCIIString(key, settings[i].name) != 0)
            i++;
        if (i == SETTINGS) {
            PyErr_Format(PyExc_TypeError, "there is no setting %R", key);
            return -1;
        }
        if (!set(&settings[i], value, params))
            return -1;
    }
    return 0;
}

PyObject *
vae_py_setting_names(PyObject *self, PyObject *none)
{
    PyObject *tuple = PyTuple_New(SETTINGS);
    for (int i = 0; tuple && i < SETTINGS; i++)
        if (PyTuple_SetItem(tuple, i, PyUnicode_FromString(settings[i].name)) !=
            0)
            Py_CLEAR(tuple);
    return tuple;
}

bool
vae_py_direction(const char *word, VaeDirection *out)
{
    if (direction_of(word, out))
        return true;
    vae_py_fail(word, "decode or encode",
                "the direction is %s, expected decode or encode", word);
    return false;
}
