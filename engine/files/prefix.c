/*
 * prefix.c: a VAE inside a larger file: its tensors have a prefix.
 */
#include <stdio.h>
#include <string.h>

#include "files.h"

/* What programs write before the names of a VAE's tensors, also several. Each
 * sorts before "decoder." or after "encoder.". */
static const char *const words[] = {"vae.", "first_stage_model.", "module.",
                                    "model.", "_orig_mod."};

static size_t
skip_word(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(name, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return 0;
}

/* The length of a prefix before "encoder." or "decoder."; 0: there is none. */
static size_t
prefix_size(const char *name)
{
    size_t n = 0, word;
    while ((word = skip_word(name + n)) > 0)
        n += word;
    return strncmp(name + n, "encoder.", 8) == 0 ||
                   strncmp(name + n, "decoder.", 8) == 0
               ? n
               : 0;
}

/* The length of a prefix before the half that is not known; 0: there is none.
 */
static size_t
unknown_size(const char *name, const char *half)
{
    const char *found = strstr(name, half);
    return found && prefix_size(name) == 0 ? (size_t) (found - name) : 0;
}

static bool
next_prefix(const VaeTensorFile *file, bool known, size_t *at,
            char prefix[VAE_MAX_PREFIX])
{
    for (; *at < file->n_tensors; ++*at) {
        const char *name = file->sorted[*at]->name;
        const size_t n =
            known ? prefix_size(name) : unknown_size(name, "decoder.");
        if (n == 0 || n >= VAE_MAX_PREFIX ||
            (n == strlen(prefix) && strncmp(name, prefix, n) == 0))
            continue;
        memcpy(prefix, name, n);
        prefix[n] = '\0';
        return true;
    }
    return false;
}

bool
vae_tensor_file_next_prefix(const VaeTensorFile *file, size_t *at,
                            char prefix[VAE_MAX_PREFIX])
{
    return next_prefix(file, true, at, prefix);
}

bool
vae_tensor_file_next_unknown(const VaeTensorFile *file, size_t *at,
                             char prefix[VAE_MAX_PREFIX])
{
    return next_prefix(file, false, at, prefix);
}

/* Finds a name with a prefix before the half that is not known, and the length
 * of the prefix. Returns NULL if there is none. */
static const char *
find_unknown(const VaeTensorFile *file, const char *half, int *n)
{
    for (size_t i = 0; i < file->n_tensors; i++) {
        const char *name = file->sorted[i]->name;
        *n = (int) unknown_size(name, half);
        if (*n > 0)
            return name;
    }
    return NULL;
}

const char *
vae_tensor_file_prefix_advice(const VaeTensorFile *file, char *text,
                              size_t size)
{
    int n;
    const char *name = find_unknown(file, "decoder.", &n);
    if (!name) /* text encoders have such names, too */
        name = find_unknown(file, "encoder.", &n);
    text[0] = '\0';
    if (!name)
        return text;
    snprintf(text, size,
             "; the prefix \"%.*s\" of its tensors is not known; if they are a "
             "VAE, set variant to the prefix; known are",
             n < VAE_NAME_SHOWN ? n : VAE_NAME_SHOWN, name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s %s", i ? "," : "", words[i]);
    }
    return text;
}

/* Copies the tensors with the prefix of the part; without one, those whose
 * names begin with none of its words. */
static void
take_tensors(VaeTensorFile *part, const VaeTensorFile *whole)
{
    const size_t skip = strlen(part->prefix);
    part->n_tensors = 0;
    for (size_t i = 0; i < whole->n_tensors; i++) {
        const char *name = whole->tensors[i].name;
        if (skip ? strncmp(name, part->prefix, skip) != 0 : skip_word(name) > 0)
            continue;
        part->tensors[part->n_tensors] = whole->tensors[i];
        part->tensors[part->n_tensors++].name = name + skip;
    }
}

VaeStatus
vae_tensor_file_part(VaeTensorFile *whole, const char *prefix,
                     VaeTensorFile **out, VaeError *error)
{
    VaeTensorFile *part;
    VaeStatus status = vae_tensor_file_new(whole->name, 1, &part, error);
    *out = part;
    if (status == VAE_OK)
        status = vae_tensor_file_room(part, whole->n_tensors, error);
    if (status == VAE_OK) {
        strcpy(part->prefix, prefix);
        take_tensors(part, whole);
        status = vae_tensor_file_sort(part, error);
    }
    if (status != VAE_OK) {
        vae_tensor_file_free(out);
        return status;
    }
    part->shards[part->n_shards++] = whole;
    return VAE_OK;
}

VaeTensorFile *
vae_tensor_file_whole(VaeTensorFile *part)
{
    VaeTensorFile *whole = part->shards[0];
    part->n_shards = 0;
    vae_tensor_file_free(&part);
    return whole;
}
