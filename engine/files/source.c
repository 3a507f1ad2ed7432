/*
 * source.c: tensors in the memory of the caller, which a function describes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "files.h"

static VaeStatus
wrong(const VaeTensorFile *file, VaeStatus status, const char *tensor,
      const char *found, const char *expected, VaeError *error)
{
    return vae_mismatch(error, status, tensor,
                        "%s: tensor \"%.*s\" has {%s}, expected {=%s}",
                        file->label, VAE_NAME_SHOWN, tensor, found, expected);
}

static VaeStatus
check_dims(const VaeTensorFile *file, const VaeTensorInfo *t, VaeError *error)
{
    char found[48];
    if (t->n_dims < 0 || t->n_dims > VAE_MAX_DIMS) {
        snprintf(found, sizeof found, "%d dimensions", t->n_dims);
        return wrong(file, VAE_ERR_ARGUMENT, t->name, found, "0 to 8", error);
    }
    for (int d = 0; d < t->n_dims; d++)
        if (t->dims[d] < 0) {
            snprintf(found, sizeof found, "a dimension of %" PRId64,
                     t->dims[d]);
            return wrong(file, VAE_ERR_FORMAT, t->name, found, "0 or more",
                         error);
        }
    return VAE_OK;
}

/* Checks what the source said, and computes bytes. */
static VaeStatus
check(const VaeTensorFile *file, VaeTensorInfo *t, VaeError *error)
{
    static const char *const types[] = {"F32", "F16", "BF16", "U8", "F64"};
    uint64_t count;
    if (t->supported && (unsigned) t->type > VAE_TYPE_F64) {
        char found[32];
        snprintf(found, sizeof found, "type %d", (int) t->type);
        return wrong(file, VAE_ERR_ARGUMENT, t->name, found, "a VaeType",
                     error);
    }
    if (t->supported)
        t->type_name = types[t->type];
    const VaeStatus status = check_dims(file, t, error);
    if (status != VAE_OK)
        return status;
    if (!vae_dims_count(t->dims, t->n_dims, &count) ||
        __builtin_mul_overflow(count, vae_type_size(t->type), &t->bytes))
        return wrong(file, VAE_ERR_FORMAT, t->name, "2^64 bytes or more",
                     "a size that fits into memory", error);
    if (t->supported && t->bytes > 0 && !t->data)
        return wrong(file, VAE_ERR_ARGUMENT, t->name, "no data", "its address",
                     error);
    return VAE_OK;
}

/* The file's own copy of a text; NULL if it is no UTF-8, or without memory. */
static const char *
keep(const VaeTensorFile *file, const char *text)
{
    json_t *texts = json_object_get(file->header, "texts");
    json_t *copy = json_string(text);
    return json_array_append_new(texts, copy) == 0 ? json_string_value(copy)
                                                   : NULL;
}

/* Describes tensor i in t; false if there is none. */
static bool
ask(const VaeTensorFile *file, size_t i, VaeTensorInfo *t)
{
    *t = (VaeTensorInfo){.supported = true};
    return file->source->tensor(file->source->user, i, t);
}

static VaeStatus
add(VaeTensorFile *file, VaeTensorInfo *t, VaeError *error)
{
    if (!t->name)
        return vae_fail(error, VAE_ERR_ARGUMENT, "%s: tensor %zu has no name",
                        file->label, file->n_tensors);
    VaeStatus status = check(file, t, error);
    if (status != VAE_OK)
        return status;
    t->name = keep(file, t->name);
    t->type_name = keep(file, t->type_name ? t->type_name : "unknown");
    if (!t->name || !t->type_name)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: the name or type of tensor %zu is no UTF-8",
                        file->label, file->n_tensors);
    file->tensors[file->n_tensors++] = *t;
    return VAE_OK;
}

static VaeStatus
copy_metadata(VaeTensorFile *file, VaeError *error)
{
    const VaeTensorList *s = file->source;
    for (size_t i = 0; i < s->n_metadata; i++) {
        const VaeMetadata *m = &s->metadata[i];
        if (json_object_set_new(file->metadata, m->key ? m->key : "",
                                json_string(m->value)) != 0)
            return vae_fail(error, VAE_ERR_ARGUMENT,
                            "%s: metadata %zu is no key and value in UTF-8",
                            file->label, i);
    }
    return VAE_OK;
}

VaeStatus
vae_source_parse(VaeTensorFile *file, VaeError *error)
{
    VaeTensorInfo t;
    size_t n = 0;
    file->header = json_pack("{s[],s{}}", "texts", "metadata");
    if (!file->header)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", file->label);
    file->metadata = json_object_get(file->header, "metadata");
    while (ask(file, n, &t))
        n++;
    VaeStatus status = vae_tensor_file_room(file, n, error);
    file->n_tensors = 0;
    while (status == VAE_OK && file->n_tensors < n &&
           ask(file, file->n_tensors, &t))
        status = add(file, &t, error);
    if (status == VAE_OK)
        status = copy_metadata(file, error);
    file->source = NULL;
    return status;
}
