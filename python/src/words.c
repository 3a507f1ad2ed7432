/*
 * words.c: the sentences of the engine name settings as vaetool and the
 * elements do, "set latent-space to sd". Python has keyword arguments instead.
 */
#include "python.h"

#include <string.h>

typedef struct Text {
    char *to;
    size_t size, n;
} Text;

static void
put(Text *t, const char *from, size_t n)
{
    for (size_t i = 0; i < n && t->n + 1 < t->size; i++)
        t->to[t->n++] = from[i];
    t->to[t->n] = '\0';
}

/* Returns the length of the name that the text begins with, or 0. */
static size_t
name_length(const char *text)
{
    static const char *const names[] = {
        "latent-space", "normalization", "layout", "framerate",
        "batch-index",  "variant",       "tensor"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(text, names[i], n) == 0 && strchr(" ;,:", text[n]))
            return n;
    }
    return 0;
}

static void
put_name(Text *t, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(t, name[i] == '-' ? "_" : name + i, 1);
    put(t, "=", 1);
}

static bool
skip(const char **at, const char *words)
{
    const size_t n = strlen(words);
    const bool is = strncmp(*at, words, n) == 0;
    *at += is ? n : 0;
    return is;
}

/* Puts "VALUE", or "VALUE" or "VALUE". Returns the end of the text. */
static const char *
put_values(Text *t, const char *at)
{
    do {
        const size_t n = strcspn(at, " ;,:"), quotes = *at != '"';
        put(t, "\"", quotes);
        put(t, at, n);
        put(t, "\"", quotes);
        at += n;
        if (strncmp(at, " or ", 4) == 0)
            put(t, " or ", 4);
    } while (skip(&at, " or "));
    return at;
}

const char *
vae_py_spell(const char *line, char *out, size_t size)
{
    Text t = {out, size, 0};
    out[0] = '\0';
    while (*line) {
        const char *at = line;
        const size_t n =
            skip(&at, "set ") || skip(&at, "one with ") ? name_length(at) : 0;
        if (n == 0) {
            put(&t, line++, 1);
            continue;
        }
        put(&t, line, (size_t) (at - line));
        put_name(&t, at, n);
        line = at + n;
        skip(&line, " of vaedecode");
        if (strncmp(line, " to the ", 8) != 0 && skip(&line, " to "))
            line = put_values(&t, line);
    }
    return out;
}

/* spell(text) */
PyObject *
vae_py_spelled(PyObject *self, PyObject *text)
{
    char out[2048];
    Py_ssize_t size;
    const char *line = PyUnicode_AsUTF8AndSize(text, &size);
    return line ? PyUnicode_DecodeUTF8(
                      out,
                      (Py_ssize_t) strlen(vae_py_spell(line, out, sizeof out)),
                      "replace")
                : NULL;
}
