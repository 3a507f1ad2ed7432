/*
 * dict.c: finds the tensors in the dicts and lists of a pickle.
 */
#include "dict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Keys under which programs keep the weights in a larger dict. */
static const char *const usual[] = {"ema_state_dict",
                                    "state_dict",
                                    "model_state_dict",
                                    "model_state",
                                    "model",
                                    "params",
                                    "params_ema",
                                    "ema",
                                    "weights",
                                    "vae",
                                    "module"};

/* Of a search: dicts in each other, dicts, and values for the error. */
enum { DEPTH = 3, MOST_DICTS = 64, MOST_VALUES = 4096 };

/* Bytes; longer keys are no part of a network. */
enum { MAX_PART = 32 };

static bool
is_key(const VaePickle *p, const VaePickleValue *key, const char *text)
{
    return key->kind == VAE_PICKLE_TEXT && key->n == strlen(text) &&
           memcmp(vae_pickle_text(p, key), text, key->n) == 0;
}

static bool
is_part(const VaePickleEntry *e)
{
    return e->value.kind == VAE_PICKLE_DICT && e->key.kind == VAE_PICKLE_TEXT &&
           e->key.n <= MAX_PART;
}

/* True if the dicts in it are the parts of a network. */
static bool
has_parts(const VaePickle *p, const VaePickleValue *dict)
{
    const VaePickleEntry *e = NULL;
    while ((e = vae_pickle_next(p, dict, e)) != NULL)
        if (is_part(e) &&
            (is_key(p, &e->key, "encoder") || is_key(p, &e->key, "decoder")))
            return true;
    return false;
}

bool
vae_torch_next(const VaePickle *p, const VaePickleValue *dict,
               VaeTorchTensor *t)
{
    if (t->steps == 0)
        t->joined = has_parts(p, dict);
    /* More steps: a dict contains another one twice. */
    while (t->steps++ <= 2 * p->entries.n) {
        const VaePickleEntry *e =
            vae_pickle_next(p, t->part ? &t->part->value : dict, t->entry);
        t->entry = e ? e : t->part;
        if (!e && !t->part)
            return false;
        if (!e) {
            t->part = NULL;
        } else if (e->value.kind == VAE_PICKLE_TENSOR) {
            return true;
        } else if (t->joined && !t->part && is_part(e)) {
            t->part = e;
            t->entry = NULL;
        }
    }
    return false;
}

size_t
vae_torch_count(const VaePickle *p, const VaePickleValue *dict, size_t *text)
{
    VaeTorchTensor t = {0};
    size_t n = 0;
    *text = 0;
    for (; vae_torch_next(p, dict, &t); n++) {
        *text += t.entry->key.kind == VAE_PICKLE_TEXT ? t.entry->key.n + 1 : 0;
        *text += t.part ? t.part->key.n + 1 : 0;
    }
    return n;
}

const char *
vae_torch_kind(const VaePickleValue *value)
{
    static const char *const kinds[] = {
        [VAE_PICKLE_NONE] = "None",      [VAE_PICKLE_BOOL] = "a truth value",
        [VAE_PICKLE_INT] = "a number",   [VAE_PICKLE_FLOAT] = "a number",
        [VAE_PICKLE_TEXT] = "a text",    [VAE_PICKLE_GLOBAL] = "a type",
        [VAE_PICKLE_TUPLE] = "a tuple",  [VAE_PICKLE_LIST] = "a list",
        [VAE_PICKLE_DICT] = "a dict",    [VAE_PICKLE_STORAGE] = "a storage",
        [VAE_PICKLE_TENSOR] = "a tensor"};
    return kinds[value->kind];
}

VaeStatus
vae_torch_bad_key(const char *label, const VaePickleValue *key, VaeError *error)
{
    char number[32] = "";
    if (key->kind == VAE_PICKLE_INT)
        snprintf(number, sizeof number, ", %" PRId64, key->number);
    return vae_mismatch(
        error, VAE_ERR_FORMAT, NULL,
        "%s: a tensor's name in its dict is {%s%s}, expected {=a text}; save "
        "the tensors with names, by torch.save(%s, FILE), or one tensor alone",
        label, vae_torch_kind(key), number,
        "{str(k): t for k, t in x.items()}");
}

static bool
is_usual(const VaePickle *p, const VaePickleValue *key)
{
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (is_key(p, key, usual[i]))
            return true;
    return false;
}

/* The number of tensors in a value, if it is a list, a tuple or a dict. */
static size_t
count_within(const VaePickle *p, const VaePickleValue *value)
{
    size_t n = 0, text;
    if (value->kind == VAE_PICKLE_LIST || value->kind == VAE_PICKLE_DICT)
        return vae_torch_count(p, value, &text);
    if (value->kind != VAE_PICKLE_TUPLE)
        return 0;
    for (uint32_t i = 0; i < value->n; i++)
        n += vae_pickle_items(p, value)[i].kind == VAE_PICKLE_TENSOR;
    return n;
}

/* A search for tensors in a dict. */
typedef struct Search {
    const VaePickle *p;
    const char *label; /* the name of the file */
    int left;          /* dicts that may still be searched */
} Search;

/* A value in the dict, and how a program gets it: x["model"]["vae"]. */
typedef struct Place {
    VaePickleValue value;
    size_t n; /* tensors */
    char path[600];
} Place;

static Place
place_in(const VaePickle *p, const Place *dict, const VaePickleEntry *e)
{
    Place place = {e->value, 0, ""};
    char key[VAE_NAME_SHOWN];
    vae_shown(vae_pickle_text(p, &e->key), e->key.n, key, sizeof key);
    snprintf(place.path, sizeof place.path, "%.400s[\"%s\"]", dict->path, key);
    return place;
}

/* Finds a list or a dict of tensors under any key. */
static bool
find_any(Search *s, const Place *dict, int depth, Place *out)
{
    const VaePickleEntry *e = NULL;
    while (s->left-- > 0 &&
           (e = vae_pickle_next(s->p, &dict->value, e)) != NULL) {
        if (e->key.kind != VAE_PICKLE_TEXT)
            continue;
        Place in = place_in(s->p, dict, e);
        in.n = count_within(s->p, &e->value);
        if (in.n > 0)
            *out = in;
        if (in.n > 0 || (depth > 1 && e->value.kind == VAE_PICKLE_DICT &&
                         find_any(s, &in, depth - 1, out)))
            return true;
    }
    return false;
}

/* Fails because of a dict without tensors. Names a list or dict of tensors in
 * it. */
static VaeStatus
fail_dict(Search *s, const Place *dict, VaeError *error)
{
    Place found;
    s->left = MOST_VALUES;
    if (!find_any(s, dict, DEPTH, &found))
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: has no tensors in its dict, nor in a list or dict "
                        "in it; save a tensor, by torch.save(x, FILE)",
                        s->label);
    return vae_mismatch(
        error, VAE_ERR_FORMAT, NULL,
        "%s: its dict has no tensors, but %s in it is {a %s of %s}, "
        "expected {=a tensor}: save this alone, by torch.save(%s, FILE)",
        s->label, found.path,
        found.value.kind == VAE_PICKLE_DICT   ? "dict"
        : found.value.kind == VAE_PICKLE_LIST ? "list"
                                              : "tuple",
        VAE_COUNTED(found.n, "tensor"), found.path);
}

/* Replaces *at by the dict with the most tensors: itself, or one in it under
 * usual keys. */
static VaeStatus
find_most(Search *s, Place *at, int depth, VaeError *error)
{
    const VaePickleEntry *e = NULL;
    Place most = {0};
    size_t text;
    at->n = vae_torch_count(s->p, &at->value, &text);
    while (depth > 0 && (e = vae_pickle_next(s->p, &at->value, e)) != NULL) {
        if (e->value.kind != VAE_PICKLE_DICT || !is_usual(s->p, &e->key) ||
            s->left-- <= 0)
            continue;
        Place in = place_in(s->p, at, e);
        const VaeStatus status = find_most(s, &in, depth - 1, error);
        if (status != VAE_OK)
            return status;
        if (in.n > 0 && most.n > 0)
            return vae_fail_parts(
                error, VAE_ERR_FORMAT,
                (VaeErrorParts){NULL, "several", "one dict of tensors"},
                "%s: holds tensors under %s and %s, expected one dict of "
                "tensors: save one alone, by torch.save(%s, FILE)",
                s->label, most.path, in.path, most.path);
        if (in.n > 0)
            most = in;
    }
    if (most.n > at->n)
        *at = most;
    return VAE_OK;
}

VaeStatus
vae_torch_enter(const VaePickle *p, const char *label, VaePickleValue *dict,
                VaeError *error)
{
    Search s = {p, label, MOST_DICTS};
    Place at = {*dict, 0, "x"};
    const VaeStatus status = find_most(&s, &at, DEPTH, error);
    if (status != VAE_OK)
        return status;
    if (at.n == 0)
        return fail_dict(&s, &at, error);
    *dict = at.value;
    return VAE_OK;
}
