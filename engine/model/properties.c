/*
 * properties.c: properties of a file of weights, for recognise().
 */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "model.h"
#include "vae-private/os.h"

bool
vae_model_rename(const VaeModel *model, const char *name, char *buffer)
{
    if (model->naming && model->arch->rename)
        return model->arch->rename(model->naming, name, buffer);
    return snprintf(buffer, 256, "%s", name) < 256;
}

const VaeTensorInfo *
vae_model_find(const VaeModel *model, const char *name)
{
    char renamed[256];
    if (!model->file || !vae_model_rename(model, name, renamed))
        return NULL;
    return vae_tensor_file_find(model->file, renamed);
}

int
vae_model_dim(const VaeModel *model, int dim, const char *format, ...)
{
    char name[200];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const VaeTensorInfo *t = vae_model_find(model, name);
    if (!t || dim >= t->n_dims || t->dims[dim] > 65536)
        return 0;
    return (int) t->dims[dim];
}

bool
vae_model_needs(const VaeModel *model, const char *name, VaeError *error)
{
    char renamed[256];
    if (vae_model_find(model, name))
        return true;
    if (!vae_model_rename(model, name, renamed))
        snprintf(renamed, sizeof renamed, "%s", name);
    vae_mismatch(error, VAE_ERR_MODEL, renamed,
                 "has the tensor names of %s, but {no tensor} {=%s}",
                 model->arch->name, renamed);
    return false;
}

/* Tensors of the file whose first dimension is n. */
static size_t
count_wide(const VaeModel *m, int n)
{
    size_t count = 0;
    for (size_t i = 0; i < vae_tensor_file_count(m->file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(m->file, i);
        count += t->n_dims > 0 && t->dims[0] == n;
    }
    return count;
}

int
vae_model_likelier(const VaeModel *model, int a, int b)
{
    if (a == b || b == 0)
        return a;
    if (a == 0)
        return b;
    return count_wide(model, b) > count_wide(model, a) ? b : a;
}

int
vae_model_width(const VaeModel *model, const char *format, ...)
{
    char name[200];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return vae_model_likelier(model, vae_model_dim(model, 0, "%s.bias", name),
                              vae_model_dim(model, 0, "%s.weight", name));
}

bool
vae_model_has_prefix(const VaeModel *model, const char *prefix)
{
    return vae_tensor_file_has_prefix(model->file, prefix);
}

bool
vae_model_has_block(const VaeModel *model, const char *format, ...)
{
    char name[200], renamed[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return vae_model_rename(model, name, renamed) &&
           vae_tensor_file_has_prefix(model->file, renamed);
}

/* False if value states no number; NAN for anything else. */
static bool
json_number(const json_t *value, double *out)
{
    if (!value || json_is_null(value))
        return false;
    *out = json_is_boolean(value)  ? json_is_true(value)
           : json_is_number(value) ? json_number_value(value)
                                   : (double) NAN;
    return true;
}

bool
vae_model_config(const VaeModel *model, json_t **out, VaeError *error)
{
    const char *text = vae_tensor_file_metadata(model->file, "config");
    *out = json_incref(model->own_config ? model->own_config
                       : text            ? NULL
                                         : model->config);
    return *out || !text ||
           vae_json_load(text, strlen(text), "config in __metadata__", "", out,
                         error) == VAE_OK;
}

bool
vae_model_meta_number(const VaeModel *model, const char *key, double *out)
{
    const char *text = vae_tensor_file_metadata(model->file, key);
    if (text) {
        char *end;
        *out = strtod(text, &end);
        if (strcmp(text, "false") == 0 || strcmp(text, "true") == 0) {
            *out = text[0] == 't';
            return true;
        }
        if (end == text || *end != '\0')
            *out = (double) NAN;
        return true;
    }
    return json_number(
        json_object_get(model->own_config ? model->own_config : model->config,
                        key),
        out);
}

/* Puts a number of a row into the description of the network. */
static void
put_stated(VaeModel *m, const VaeStated *row, double value)
{
    char *at = (char *) m->arch_data + row->at;
    if (row->least == row->most)
        return;
    if (row->real)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &(int){(int) value}, sizeof(int));
}

void
vae_model_read_stated(VaeModel *model, VaeError *error)
{
    const VaeStated *row = model->arch->stated;
    for (; row && row->key; row++) {
        double value = row->usual;
        put_stated(model, row, value);
        if (!model->file || !vae_model_meta_number(model, row->key, &value))
            continue;
        if (value >= row->least && value <= row->most)
            put_stated(model, row, value);
        else if (row->least == row->most)
            vae_fail(error, VAE_ERR_MODEL, "%s is %g, expected %g", row->key,
                     value, row->least);
        else
            vae_fail(error, VAE_ERR_MODEL, "%s is %g, expected %g to %g",
                     row->key, value, row->least, row->most);
    }
}

/* True for a configuration of diffusers, and for one that names no class: the
 * folder may be that of another part of a pipeline. */
static bool
is_of_autoencoder(const json_t *config)
{
    const char *name =
        json_string_value(json_object_get(config, "_class_name"));
    return !name || strstr(name, "Autoencoder");
}

/* Adds a value to the text, which is "silu", "true", "null", "2" or "[2, 2]".
 */
static void
add_value(const json_t *value, char *out, size_t size)
{
    const size_t n = strlen(out);
    out += n;
    size -= n;
    if (json_is_string(value))
        snprintf(out, size, "%s", json_string_value(value));
    else if (json_is_number(value))
        snprintf(out, size, "%g", json_number_value(value));
    else if (!json_is_array(value))
        snprintf(out, size, "%s",
                 json_is_true(value)    ? "true"
                 : json_is_false(value) ? "false"
                 : json_is_null(value)  ? "null"
                                        : "an object");
    else
        for (size_t i = 0; i <= json_array_size(value); i++) {
            const bool end = i == json_array_size(value);
            const size_t length = strlen(out);
            snprintf(out + length, size - length, "%s",
                     end     ? "]"
                     : i > 0 ? ", "
                             : "[");
            if (!end)
                add_value(json_array_get(value, i), out, size);
        }
}

VaeStatus
vae_model_check_fixed(const VaeModel *m, VaeError *error)
{
    const json_t *config = m->own_config ? m->own_config : m->config;
    const VaeFixed *row = is_of_autoencoder(config) ? m->arch->fixed : NULL;
    for (; row && row->key; row++) {
        const json_t *value = json_object_get(config, row->key);
        char text[60] = "";
        add_value(value, text, sizeof text);
        if (value && strcmp(text, row->value) != 0)
            return vae_mismatch(error, VAE_ERR_MODEL, NULL,
                                "%s states %s {%s}; gst-vae has {=%s} only",
                                m->own_config ? "config in __metadata__"
                                              : "config.json",
                                row->key, text, row->value);
    }
    return VAE_OK;
}

const char *
vae_model_variant(const VaeModel *model)
{
    /* The variant may be the prefix of a network. */
    const size_t n = model->variant ? strlen(model->variant) : 0;
    if (n > 0 && model->variant[n - 1] != '.')
        return model->variant;
    const char *text = vae_tensor_file_metadata(model->file, "vae.variant");
    return text ? text : vae_tensor_file_metadata(model->file, "variant");
}

/* ------------------------------------------------------------------ */
/* Variants of the same shapes.                                        */

/* Of ASCII, in any locale. */
static char
lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char) (c - 'A' + 'a') : c;
}

static bool
is_mark(char c)
{
    return c == '_' || c == '-' || c == '.' || c == ' ';
}

static bool
is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

/* True if the text begins with the word. Case does not count, marks are equal,
 * and the text may have one more between two letters: "SD_XL" is sdxl. */
static bool
begins_with(const char *text, const char *word)
{
    const char *w = word;
    for (; *w; text++)
        if (lower(*text) == *w || (is_mark(*text) && is_mark(*w)))
            w++;
        else if (!is_mark(*text) || w == word || !is_letter(w[-1]) ||
                 !is_letter(*w))
            return false;
    return true;
}

static bool
has_word(const char *file, const char *word)
{
    for (; *file; file++)
        if (begins_with(file, word))
            return true;
    return false;
}

static size_t
longest_in(const char *file, const VaeVariant *v)
{
    const char *const words[] = {v->name, v->also};
    size_t longest = 0;
    for (int i = 0; i < 2; i++)
        if (words[i] && strlen(words[i]) > longest && has_word(file, words[i]))
            longest = strlen(words[i]);
    return longest;
}

/* How a variant was chosen. */
typedef struct Choice {
    bool stated;       /* by a statement */
    bool unclear;      /* the name has words of several variants */
    const char *named; /* by this name, in words; or NULL */
    const char
        *among; /* the name has this space, as several variants; or NULL */
} Choice;

/* True if it is named after the latent space, as an installed model. */
static bool
is_named_after(const char *name, const char *space)
{
    const size_t n = strlen(space);
    return strncmp(name, space, n) == 0 && (name[n] == '.' || !name[n]);
}

/* Letters are enough, if they are not too few: "Wan21" has wan2.1. */
static bool
has_space(const char *name, const char *space)
{
    char word[32];
    const size_t letters = strcspn(space, "0123456789");
    snprintf(word, sizeof word, "%.*s", letters > 2 ? (int) letters : 31,
             space);
    return has_word(name, word);
}

/* Returns the first variant of the latent space that the name has, or -1. Sets
 * by->among to the space if several variants have it. known: the variant that
 * the name has, whose own name may contain a space; NULL: the name has none,
 * and must begin with the space. */
static int
spaced_by(const char *name, const VaeVariant *known, const VaeVariant *v, int n,
          Choice *by)
{
    int first = -1, count = 0;
    for (int i = 0; i < n; i++) {
        const char *space = v[i].space;
        if (known ? strstr(known->name, space) || !has_space(name, space)
                  : !is_named_after(name, space))
            continue;
        by->unclear |= count > 0 && strcmp(space, v[first].space) != 0;
        first = count++ ? first : i;
    }
    by->among = count > 1 ? v[first].space : NULL;
    return first;
}

/* The longest name counts, because the name of a family is also that of one of
 * its variants. If it does, the space of another variant says more. -1: the
 * file's name has none of them, or two that are equally long, or words that
 * contradict each other. */
static int
named_by(const char *file, const VaeVariant *v, int n, Choice *by)
{
    int best = -1;
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        const size_t name = longest_in(file, &v[i]);
        if (name >= most)
            best = name > most ? i : -1;
        most = name > most ? name : most;
    }
    const int spaced = best < 0 ? -1 : spaced_by(file, &v[best], v, n, by);
    const bool own = spaced < 0 || (!by->unclear && strcmp(v[spaced].space,
                                                           v[best].space) == 0);
    by->unclear |= !own && !v[best].family;
    if (own || by->unclear)
        by->among = NULL;
    return own ? best : by->unclear ? -1 : spaced;
}

/* Chooses by the names of the path and of the file in it: a folder, or a pair.
 * The name of a variant says more than that of a space. -1: they say nothing.
 */
static int
chosen_by_file(const VaeModel *m, const VaeVariant *v, int n, Choice *by)
{
    const char *const names[] = {
        vae_os_file_name(m->path),
        vae_os_file_name(vae_tensor_file_name(m->file))};
    const char *const whose[] = {vae_os_is_kind(m->path, VAE_FILE_FOLDER)
                                     ? ", and the name of the folder"
                                     : ", and the name of the file",
                                 ", and the name of the file"};
    for (int k = 0; k < 4 && !by->unclear; k++) {
        const char *name = names[k % 2];
        const int i =
            k < 2 ? named_by(name, v, n, by) : spaced_by(name, NULL, v, n, by);
        if (i >= 0) {
            by->named = whose[k % 2];
            return i;
        }
    }
    return -1;
}

static int
stated_variant(const char *stated, const VaeVariant *v, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(v[i].name, stated) == 0 ||
            (v[i].also && strcmp(v[i].also, stated) == 0))
            return i;
    return -1;
}

/* Writes why v[i] of n was chosen. */
static void
give_reason(VaeRecognise *r, const VaeVariant *v, int n, int i,
            const Choice *by, const char *others)
{
    const char *more = by->stated           ? ", and the variant stated"
                       : n > 1 && by->named ? by->named
                                            : "";
    *r->assumed = !by->stated && n > 1 && (!by->named || by->among);
    const int length = snprintf(r->reason, VAE_REASON,
                                "names and shapes of its tensors%s", more);
    if (*r->assumed)
        snprintf(r->reason + length, VAE_REASON - (size_t) length,
                 ", the same as those of %s: variant %s assumed", others,
                 v[i].name);
    r->info->reason = r->reason;
}

int
vae_model_choose_variant(VaeRecognise *r, const VaeVariant *v, int n,
                         const char *what, VaeError *error)
{
    const char *stated = vae_model_variant(r->model);
    Choice by = {.stated = stated};
    const int named = chosen_by_file(r->model, v, n, &by);
    const int other = named >= 0 ? named : n > 0 ? 0 : -1;
    const int i = stated ? stated_variant(stated, v, n) : other;
    VaeListing others = {0};
    for (int k = 0; k < n; k++)
        if (k != i && (stated || !by.among || !strcmp(v[k].space, by.among)))
            vae_listing_add(&others, "%s", v[k].name);
    r->fitting->n = n < VAE_MOST_FITTING ? n : VAE_MOST_FITTING;
    memcpy(r->fitting->list, v, (size_t) r->fitting->n * sizeof *v);
    if (i >= 0)
        give_reason(r, v, n, i, &by, others.text);
    else
        vae_fail(error, VAE_ERR_MODEL, "no %s%s%s is known%s%s", what,
                 stated ? " named " : "", stated ? stated : "",
                 n ? "; variants that fit: " : "", others.text);
    return i;
}

void
vae_listing_add(VaeListing *list, const char *format, ...)
{
    const size_t length = strlen(list->text);
    const int most = list->most ? list->most : VAE_LISTED;
    if (list->count++ >= most || length + 80 > sizeof list->text)
        return;
    char item[160];
    va_list args;
    va_start(args, format);
    vsnprintf(item, sizeof item, format, args);
    va_end(args);
    snprintf(list->text + length, sizeof list->text - length, "%s%s",
             length ? ", " : "", item);
}
