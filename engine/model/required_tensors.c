/*
 * required_tensors.c: lists the tensors that a network requires and finds them
 * in a file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "model.h"

/* The position of a name in by_name, or where to insert it. */
static size_t
required_place(const VaeModel *model, const char *name, bool *found)
{
    size_t low = 0, high = model->n_required;
    *found = false;
    while (low < high && !*found) {
        const size_t mid = low + (high - low) / 2;
        const int order =
            strcmp(model->required[model->by_name[mid]].name, name);
        *found = order == 0;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return high;
}

static bool
is_at(const VaeModel *m, long i, const char *name)
{
    return (size_t) i < m->n_required && strcmp(m->required[i].name, name) == 0;
}

long
vae_model_find_required(const VaeModel *m, const char *name, long likely)
{
    if (is_at(m, likely, name))
        return likely;
    bool found;
    const size_t i = required_place(m, name, &found);
    return found ? (long) m->by_name[i] : -1;
}

/* Makes room for one more required tensor. */
static bool
grow_required(VaeModel *m)
{
    if (m->n_required < m->required_room)
        return true;
    const size_t room = m->required_room ? 2 * m->required_room : 256;
    VaeRequiredTensor *required = realloc(m->required, room * sizeof *required);
    if (required)
        m->required = required;
    size_t *by_name = realloc(m->by_name, room * sizeof *by_name);
    if (by_name)
        m->by_name = by_name;
    if (!required || !by_name)
        return false;
    m->required_room = room;
    return true;
}

long
vae_model_require(VaeModel *m, const VaeTensorQuery *q)
{
    if (is_at(m, q->likely, q->name))
        return q->likely;
    bool found;
    const size_t place = required_place(m, q->name, &found);
    if (found)
        return (long) m->by_name[place];
    if (!grow_required(m))
        return -1;
    VaeRequiredTensor *d = &m->required[m->n_required];
    *d = (VaeRequiredTensor){.name = strdup(q->name), .n_dims = q->n_dims};
    if (!d->name)
        return -1;
    memcpy(d->dims, q->dims, (size_t) q->n_dims * sizeof *q->dims);
    memmove(m->by_name + place + 1, m->by_name + place,
            (m->n_required - place) * sizeof *m->by_name);
    m->by_name[place] = m->n_required;
    return (long) m->n_required++;
}

/* A convolution within frames can have a kernel of one frame in the file. */
static void
drop_time(VaeTensorInfo *t)
{
    if (t->n_dims != 5 || t->dims[2] != 1)
        return;
    t->n_dims = 4;
    memmove(t->dims + 2, t->dims + 3, 2 * sizeof *t->dims);
}

static bool
same_dims(const VaeTensorInfo *t, const VaeRequiredTensor *d)
{
    return t->n_dims == d->n_dims &&
           memcmp(t->dims, d->dims, (size_t) d->n_dims * sizeof *d->dims) == 0;
}

#define TYPES "float32, float16, bfloat16 or float64"

/* The tensors of a file that are not as required, and the parts of an error
 * about the first of them. */
typedef struct Mismatches {
    VaeListing missing, wrong, extra;
    VaeError first;
} Mismatches;

static void
note(VaeError *first, const char *tensor, const char *found,
     const char *expected)
{
    if (first->status == VAE_OK)
        vae_fail_parts(first, VAE_ERR_MODEL,
                       (VaeErrorParts){tensor, found, expected}, "%s", tensor);
}

/* True if a tensor is missing that would tell the shape of this one. */
static bool
follows_missing(const VaeRequiredTensor *d, const Mismatches *all)
{
    bool unknown = false;
    for (int i = 0; i < d->n_dims; i++)
        unknown |= d->dims[i] == 0;
    return unknown && all->missing.count > 0;
}

/* Finds a required tensor in the file and marks it in `used`, which has an
 * entry for each tensor of the file. */
static void
match_one(VaeModel *m, VaeRequiredTensor *d, bool *used, Mismatches *all)
{
    const VaeTensorInfo *t = vae_model_find(m, d->name);
    char renamed[256], is[96], should[96];
    vae_dims_text(d->dims, d->n_dims, should, sizeof should);
    if (!t) {
        const bool known = vae_model_rename(m, d->name, renamed);
        char name[VAE_MAX_PREFIX + sizeof renamed];
        snprintf(name, sizeof name, "%s%s", m->file->prefix,
                 known ? renamed : d->name);
        vae_listing_add(&all->missing, "%s", name);
        note(&all->first, name, "no such tensor", should);
        return;
    }
    if (used)
        used[t - vae_tensor_file_at(m->file, 0)] = true;
    d->found = *t;
    d->found.name = d->name;
    if (d->n_dims == 4)
        drop_time(&d->found);
    const char *name = t->name - strlen(m->file->prefix);
    if (follows_missing(d, all))
        return;
    if (!same_dims(&d->found, d)) {
        vae_dims_text(t->dims, t->n_dims, is, sizeof is);
        vae_listing_add(&all->wrong, "%s is %s, expected %s", name, is, should);
        note(&all->first, name, is, should);
    } else if (t->strided) {
        vae_listing_add(&all->wrong, "%s is not contiguous " VAE_STRIDED, name);
        note(&all->first, name, "not contiguous", "contiguous");
    } else if (!t->supported || t->type == VAE_TYPE_U8) {
        vae_type_words(t->type_name, is, sizeof is);
        vae_listing_add(&all->wrong, "%s has type %s, expected %s", name, is,
                        TYPES);
        note(&all->first, name, is, TYPES);
    }
}

/* True if t is a second name for the data of a required tensor: in PyTorch's
 * files two tensors can share a storage. */
static bool
is_alias(const VaeModel *m, const VaeTensorInfo *t)
{
    for (size_t i = 0; i < m->n_required; i++) {
        const VaeTensorInfo *found = &m->required[i].found;
        if (found->offset == t->offset && found->bytes == t->bytes &&
            found->data == t->data && found->name != NULL)
            return true;
    }
    return false;
}

/* True for what training leaves in a file beside a network: losses, and
 * averages of the weights. */
static bool
is_of_training(const char *name)
{
    static const char *const prefixes[] = {"loss.", "discriminator.", "ema.",
                                           "model_ema.", "ema_model."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* True for a convolution between the halves that a file of one half has kept
 * of the other. */
static bool
is_of_other_half(const VaeModelInfo *info, const char *name)
{
    static const char *const encoder[] = {"quant_conv.", "conv1."};
    static const char *const decoder[] = {"post_quant_conv.", "conv2."};
    for (int i = 0; i < 2; i++)
        if ((!info->has_encoder &&
             strncmp(name, encoder[i], strlen(encoder[i])) == 0) ||
            (!info->has_decoder &&
             strncmp(name, decoder[i], strlen(decoder[i])) == 0))
            return true;
    return false;
}

static void
list_extra(const VaeModel *m, const bool *used, Mismatches *all)
{
    for (size_t i = 0; i < vae_tensor_file_count(m->file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(m->file, i);
        if (!used[i] && !is_alias(m, t) && !is_of_training(t->name) &&
            !is_of_other_half(&m->info, t->name) &&
            !(m->arch->ignores && m->arch->ignores(&m->info, t->name))) {
            const char *name = t->name - strlen(m->file->prefix);
            vae_listing_add(&all->extra, "%s", name);
            note(&all->first, name, name, "no such tensor");
        }
    }
}

static VaeStatus
refuse(const VaeModel *m, const Mismatches *all, VaeError *error)
{
    char text[900];
    int length = snprintf(
        text, sizeof text,
        "%s: has the tensor names of %s, but its tensors do not fit:", m->path,
        m->info.arch);
    const struct {
        const VaeListing *list;
        const char *what;
    } kinds[] = {{&all->missing, "missing"},
                 {&all->wrong, "of the wrong shape or type"},
                 {&all->extra, "not part of it"}};
    int listed = 0;
    for (int k = 0; k < 3; k++)
        if (kinds[k].list->count && length < (int) sizeof text)
            length += snprintf(
                text + length, sizeof text - (size_t) length, "%s %d %s (%s%s)",
                listed++ ? ";" : "", kinds[k].list->count, kinds[k].what,
                kinds[k].list->text,
                kinds[k].list->count > VAE_LISTED ? ", ..." : "");
    return vae_fail_parts(error, VAE_ERR_MODEL,
                          (VaeErrorParts){all->first.tensor, all->first.found,
                                          all->first.expected},
                          "%s", text);
}

VaeStatus
vae_model_match(VaeModel *m, VaeError *error)
{
    Mismatches all = {0};
    bool *used = calloc(vae_tensor_file_count(m->file) + 1, sizeof *used);
    if (!used)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", m->path);
    for (size_t i = 0; i < m->n_required; i++)
        match_one(m, &m->required[i], used, &all);
    list_extra(m, used, &all);
    free(used);
    return all.first.status == VAE_OK ? VAE_OK : refuse(m, &all, error);
}

VaeStatus
vae_model_find_missing(VaeModel *m, VaeError *error)
{
    Mismatches all = {0};
    for (size_t i = 0; i < m->n_required; i++)
        if (!vae_model_find(m, m->required[i].name))
            match_one(m, &m->required[i], NULL, &all);
    return all.missing.count ? refuse(m, &all, error) : VAE_OK;
}
