/*
 * nearest.c: the error for weights of an unknown model: names the nearest known
 * model and the differences.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "model.h"

typedef struct Candidate {
    int arch, naming;
    size_t matched, required;
    double score; /* tensors in both / tensors in either; a tensor is the same
                     if it has the name and the number of dimensions */
} Candidate;

/* The file's tensor for required tensor i of the preset, or NULL. */
static const VaeTensorInfo *
find_required(const VaeModel *m, const VaeModel *preset, size_t i)
{
    char renamed[256];
    if (!vae_model_rename(preset, preset->required[i].name, renamed))
        return NULL;
    return vae_tensor_file_find(m->file, renamed);
}

static void
match_names(const VaeModel *m, VaeModel *preset, int arch, Candidate *best)
{
    const size_t held = vae_tensor_file_count(m->file);
    for (int naming = 0; naming <= preset->arch->other_names; naming++) {
        size_t matched = 0, same = 0;
        preset->naming = naming;
        for (size_t i = 0; i < preset->n_required; i++) {
            const VaeTensorInfo *t = find_required(m, preset, i);
            matched += t != NULL;
            same += t && t->n_dims == preset->required[i].n_dims;
        }
        const double score =
            (double) same / (double) (held + preset->n_required - same);
        if (score > best->score)
            *best =
                (Candidate){arch, naming, matched, preset->n_required, score};
    }
}

static VaeStatus
open_preset(const VaeModel *m, int arch, VaeModel **out)
{
    const bool decoder = vae_model_has_prefix(m, "decoder.");
    const bool encoder = vae_model_has_prefix(m, "encoder.");
    VaeError error;
    return vae_model_preset(vae_archs[arch], decoder || !encoder,
                            encoder || !decoder, out, &error);
}

/* Adds "; missing: 2 (a, b)" to the text, unless the list is empty. */
static void
add_list(char *text, size_t size, const char *what, const VaeListing *list)
{
    const size_t n = strlen(text);
    if (list->count)
        snprintf(text + n, size - n, "; %s: %d (%s%s)", what, list->count,
                 list->text, list->count > 3 ? ", ..." : "");
}

/* Lists the tensors that the preset does not have; false if out of memory. */
static bool
list_extra(const VaeModel *m, const VaeModel *preset, VaeListing *extra)
{
    const size_t n = vae_tensor_file_count(m->file);
    bool *used = calloc(n + 1, sizeof *used);
    if (!used)
        return false;
    for (size_t k = 0; k < preset->n_required; k++) {
        const VaeTensorInfo *t = find_required(m, preset, k);
        if (t)
            used[t - vae_tensor_file_at(m->file, 0)] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (!used[i])
            vae_listing_add(extra, "%s", vae_tensor_file_at(m->file, i)->name);
    free(used);
    return true;
}

static VaeStatus
differences(const VaeModel *m, const VaeModel *preset, const Candidate *best,
            VaeError *error)
{
    VaeListing missing = {.most = 3}, other = {.most = 3}, extra = {.most = 3};
    char renamed[256], is[96], should[96], lists[1600] = "";
    for (size_t i = 0; i < preset->n_required; i++) {
        const VaeRequiredTensor *d = &preset->required[i];
        const VaeTensorInfo *t = find_required(m, preset, i);
        if (!t)
            vae_listing_add(
                &missing, "%s",
                vae_model_rename(preset, d->name, renamed) ? renamed : d->name);
        else if (t->n_dims != d->n_dims ||
                 memcmp(t->dims, d->dims,
                        (size_t) d->n_dims * sizeof *d->dims) != 0)
            vae_listing_add(
                &other, "%s is %s, %s in that model", t->name,
                vae_dims_text(t->dims, t->n_dims, is, sizeof is),
                vae_dims_text(d->dims, d->n_dims, should, sizeof should));
    }
    if (!list_extra(m, preset, &extra))
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", m->path);
    add_list(lists, sizeof lists, "missing", &missing);
    add_list(lists, sizeof lists, "of another shape", &other);
    add_list(lists, sizeof lists, "not part of it", &extra);
    return vae_fail(
        error, VAE_ERR_MODEL,
        "%s: weights of no known VAE; the nearest is %s: %zu of its "
        "%s are there by name%s",
        m->path, preset->arch->name, best->matched,
        VAE_COUNTED(best->required, "tensor"), lists);
}

static VaeStatus
fail_unlike_all(const VaeModel *m, VaeError *error)
{
    VaeListing names = {0};
    char advice[400];
    for (size_t i = 0; i < vae_tensor_file_count(m->file); i++)
        vae_listing_add(&names, "%s", vae_tensor_file_at(m->file, i)->name);
    return vae_fail_parts(
        error, VAE_ERR_MODEL,
        (VaeErrorParts){NULL, names.text, "weights of a known VAE"},
        "%s: weights of no known VAE%s; it holds %s%s%s%s%s%s", m->path,
        vae_tensor_file_looks_like(m->file), VAE_COUNTED(names.count, "tensor"),
        names.count ? " (" : "", names.text,
        names.count > VAE_LISTED ? ", ..." : "", names.count ? ")" : "",
        vae_tensor_file_prefix_advice(m->file, advice, sizeof advice));
}

VaeStatus
vae_model_unknown(const VaeModel *m, VaeError *error)
{
    Candidate best = {0};
    VaeModel *preset;
    for (int i = 0; vae_archs[i]; i++) {
        if (open_preset(m, i, &preset) != VAE_OK)
            continue;
        match_names(m, preset, i, &best);
        vae_model_free(&preset);
    }
    if (!best.matched || open_preset(m, best.arch, &preset) != VAE_OK)
        return fail_unlike_all(m, error);
    preset->naming = best.naming;
    const VaeStatus status = differences(m, preset, &best, error);
    vae_model_free(&preset);
    return status;
}
