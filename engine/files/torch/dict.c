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

size_t
vae_torch_count(const VaePickle *p, const VaePickleValue *dict, size_t *text)
{
    size_t n = 0;
    *text = 0;
    const VaePickleEntry *e = NULL;
    while ((e = vae_pickle_next(p, dict, e)) != NULL) {
        if (e->value.kind != VAE_PICKLE_TENSOR)
            continue;
        n++;
        *text += e->key.kind == VAE_PICKLE_TEXT ? e->key.n + 1 : 0;
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
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (key->kind == VAE_PICKLE_TEXT && key->n == strlen(usual[i]) &&
            memcmp(vae_pickle_text(p, key), usual[i], key->n) == 0)
            return true;
    }
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

/* Fails because of a dict without tensors. Names a list or dict of tensors in
 * it. */
static VaeStatus
fail_dict(const VaePickle *p, const char *label, const VaePickleValue *dict,
          VaeError *error)
{
    const VaePickleEntry *e = NULL;
    char key[VAE_NAME_SHOWN];
    while ((e = vae_pickle_next(p, dict, e)) != NULL) {
        const size_t n = count_within(p, &e->value);
        if (n == 0 || e->key.kind != VAE_PICKLE_TEXT)
            continue;
        vae_shown(vae_pickle_text(p, &e->key), e->key.n, key, sizeof key);
        return vae_mismatch(
            error, VAE_ERR_FORMAT, NULL,
            "%s: its dict has no tensors, but \"%s\" in it is {a %s of %s}, "
            "expected {=a tensor}: save this alone, by "
            "torch.save(x[\"%s\"], FILE)",
            label, key,
            e->value.kind == VAE_PICKLE_DICT   ? "dict"
            : e->value.kind == VAE_PICKLE_LIST ? "list"
                                               : "tuple",
            VAE_COUNTED(n, "tensor"), key);
    }
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: has no tensors in its dict, nor in a list or dict in "
                    "it; save a tensor, by torch.save(x, FILE)",
                    label);
}

VaeStatus
vae_torch_enter(const VaePickle *p, const char *label, VaePickleValue *dict,
                VaeError *error)
{
    const VaePickleEntry *e = NULL, *found = NULL;
    size_t text;
    while ((e = vae_pickle_next(p, dict, e)) != NULL) {
        if (e->value.kind != VAE_PICKLE_DICT || !is_usual(p, &e->key) ||
            vae_torch_count(p, &e->value, &text) == 0)
            continue;
        if (found != NULL)
            return vae_fail_parts(
                error, VAE_ERR_FORMAT,
                (VaeErrorParts){NULL, "several", "one dict of tensors"},
                "%s: holds tensors under \"%.*s\" and \"%.*s\", "
                "expected one dict of tensors: save one alone, by "
                "torch.save(x[\"%.*s\"], FILE)",
                label, (int) found->key.n, vae_pickle_text(p, &found->key),
                (int) e->key.n, vae_pickle_text(p, &e->key), (int) found->key.n,
                vae_pickle_text(p, &found->key));
        found = e;
    }
    if (found == NULL)
        return fail_dict(p, label, dict, error);
    *dict = found->value;
    return VAE_OK;
}
