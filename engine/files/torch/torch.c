/*
 * The format of torch.save() since PyTorch 1.6: a zip archive of stored members
 * in one folder. <folder>/data.pkl is a pickle of a tensor, of dicts of tensors
 * or of a list or tuple of tensors, which are named 0, 1 and so on.
 * <folder>/data/<key> holds the bytes of one storage; a tensor is a view of a
 * storage. <folder>/byteorder, in newer files, is "little" or "big".
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "dict.h"
#include "pickle_stack.h"
#include "zip.h"

/* Longer names of folders and storages than any that torch.save() writes. */
#define MAX_FOLDER 256
#define MAX_KEY 64

/* Characters of a number from a list, and a NUL. */
#define MAX_NUMBER 21

/* Limit for a file that is read into memory because it cannot be mapped. */
#define MAX_READ ((uint64_t) 1 << 30)

typedef struct Torch {
    VaeTensorFile *file;
    VaeZip zip;
    VaePickle pickle;
    char folder[MAX_FOLDER];
    size_t n_names; /* bytes of file->names in use */
    bool several;   /* so that one may be of a kind that is not supported */
} Torch;

static const VaeZipMember *
find(const Torch *t, const char *name)
{
    char path[MAX_FOLDER + MAX_KEY + 16];
    const int n = snprintf(path, sizeof path, "%s/%s", t->folder, name);
    return vae_zip_find(&t->zip, path, (size_t) n);
}

/* Fails because of a value of the next tensor. */
static VaeStatus
fail_value(const Torch *t, const char *what, const char *found,
           const char *expected, VaeError *error)
{
    const char *name = t->file->names + t->n_names;
    return vae_mismatch(error, VAE_ERR_FORMAT, name,
                        "%s: tensor \"%.*s\": %s {%s}, expected {=%s}",
                        t->file->label, VAE_NAME_SHOWN, name, what, found,
                        expected);
}

static VaeStatus VAE_PRINTF(3, 4)
    fail_tensor(const Torch *t, VaeError *error, const char *format, ...)
{
    char what[500];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return vae_fail_parts(
        error, VAE_ERR_FORMAT,
        (VaeErrorParts){.tensor = t->file->names + t->n_names},
        "%s: tensor \"%.*s\": %s", t->file->label, VAE_NAME_SHOWN,
        t->file->names + t->n_names, what);
}

/* Finds the folder of the first member. */
static VaeStatus
find_folder(Torch *t, VaeError *error)
{
    const VaeZipMember *first = t->zip.first;
    const char *slash = memchr(first->name, '/', first->name_size);
    const size_t n = slash != NULL ? (size_t) (slash - first->name) : 0;
    if (n > 0 && n < sizeof t->folder && memchr(first->name, 0, n) == NULL)
        memcpy(t->folder, first->name, n);
    if (t->folder[0] != '\0' && find(t, "constants.pkl") != NULL)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: is a TorchScript program; only tensors are read, "
                        "as torch.save() writes a state_dict()",
                        t->file->label);
    if (t->folder[0] != '\0' && find(t, "data.pkl") != NULL)
        return VAE_OK;
    char name[VAE_NAME_SHOWN];
    return vae_fail(
        error, VAE_ERR_FORMAT,
        "%s: is a zip archive, but none of PyTorch: it has no data.pkl beside "
        "its first member \"%s\"",
        t->file->label,
        vae_shown(first->name, first->name_size, name, sizeof name));
}

static VaeStatus
check_byteorder(const Torch *t, VaeError *error)
{
    const VaeZipMember *m = find(t, "byteorder");
    char found[16];
    if (m == NULL)
        return VAE_OK;
    const size_t n =
        m->size < sizeof found ? (size_t) m->size : sizeof found - 1;
    const VaeStatus status = vae_file_bytes(t->file, m->offset, n, error);
    if (status != VAE_OK)
        return status;
    vae_shown((const char *) t->zip.bytes + m->offset, n, found, sizeof found);
    if (strcmp(found, "little") == 0)
        return VAE_OK;
    return vae_mismatch(
        error, VAE_ERR_FORMAT, NULL,
        "%s: its byte order is \"{%s}\", expected \"{=little}\"",
        t->file->label, found);
}

/* ------------------------------------------------------------------ */

/* Adds a text to the name of the next tensor, of *n bytes. */
static void
add_text(const Torch *t, const VaePickleValue *text, size_t *n)
{
    memcpy(t->file->names + t->n_names + *n, vae_pickle_text(&t->pickle, text),
           text->n);
    *n += text->n;
}

/* Makes the key the name of the next tensor, of *size bytes with its NUL. */
static VaeStatus
take_name(const Torch *t, const VaeTorchTensor *at, size_t *size,
          VaeError *error)
{
    const VaePickleValue *key = &at->entry->key;
    char *name = t->file->names + t->n_names;
    size_t n = 0;
    if (key->kind == VAE_PICKLE_INT) {
        *size =
            (size_t) snprintf(name, MAX_NUMBER, "%" PRId64, key->number) + 1;
        return VAE_OK;
    }
    if (at->part) {
        add_text(t, &at->part->key, &n);
        name[n++] = '.';
    }
    add_text(t, key, &n);
    *size = n + 1;
    errno = 0;
    json_t *probe = json_stringn(name, n); /* NULL if it is no UTF-8 */
    if (probe == NULL && errno == ENOMEM)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory for a name",
                        t->file->label);
    const bool good = probe != NULL && memchr(name, 0, n) == NULL;
    json_decref(probe);
    if (good)
        return VAE_OK;
    char shown[VAE_NAME_SHOWN];
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: the name \"%s\" of a tensor is no UTF-8 text",
                    t->file->label, vae_shown(name, n, shown, sizeof shown));
}

/* Finds the storage's member and checks its size. */
static VaeStatus
find_storage(const Torch *t, const VaePickleValue *storage,
             const VaeZipMember **out, VaeError *error)
{
    const VaePickleValue *items = vae_pickle_items(&t->pickle, storage);
    const VaePickleGlobal *type = vae_pickle_global(&items[1]);
    const char *text = vae_pickle_text(&t->pickle, &items[2]);
    const int64_t n = items[4].number;
    char path[MAX_KEY + 8], shown[MAX_KEY];
    vae_shown(text, items[2].n, shown, sizeof shown);
    *out = NULL;
    if (items[2].n < MAX_KEY && memchr(text, 0, items[2].n) == NULL) {
        snprintf(path, sizeof path, "data/%.*s", (int) items[2].n, text);
        *out = find(t, path);
    }
    if (*out == NULL)
        return fail_tensor(t, error, "its storage \"%s\" is not in the archive",
                           shown);
    if (n >= 0 && (uint64_t) n <= (*out)->size / (uint64_t) type->size &&
        (uint64_t) n * (uint64_t) type->size == (*out)->size)
        return VAE_OK;
    char what[MAX_KEY + 32], found[32], expected[48];
    snprintf(what, sizeof what, "its storage \"%s\" has", shown);
    snprintf(found, sizeof found, "%" PRIu64 " bytes", (*out)->size);
    snprintf(expected, sizeof expected, "%" PRId64 " elements of %d", n,
             type->size);
    return fail_value(t, what, found, expected, error);
}

static VaeStatus
read_dims(const Torch *t, const VaePickleValue *size, VaeTensorInfo *info,
          VaeError *error)
{
    if (size->n > VAE_MAX_DIMS)
        return fail_tensor(t, error, "%u dimensions, at most %d are read",
                           size->n, VAE_MAX_DIMS);
    info->n_dims = (int) size->n;
    const VaePickleValue *items = vae_pickle_items(&t->pickle, size);
    for (int i = 0; i < info->n_dims; i++) {
        info->dims[i] = items[i].number;
        if (items[i].kind != VAE_PICKLE_INT || info->dims[i] < 0)
            return fail_tensor(t, error,
                               "dimension %d is no integer of 0 or more", i);
    }
    return VAE_OK;
}

static VaeStatus
fail_stride(const Torch *t, int i, int64_t is, int64_t stride, VaeError *error)
{
    char what[80], found[32], expected[32];
    snprintf(what, sizeof what,
             "is not contiguous " VAE_STRIDED ": stride %d is", i);
    snprintf(found, sizeof found, "%" PRId64, is);
    snprintf(expected, sizeof expected, "%" PRId64, stride);
    return fail_value(t, what, found, expected, error);
}

/* Checks that the elements are contiguous in C order. */
static VaeStatus
check_strides(const Torch *t, const VaePickleValue *stride,
              const VaeTensorInfo *info, uint64_t count, VaeError *error)
{
    const VaePickleValue *items = vae_pickle_items(&t->pickle, stride);
    if ((int64_t) stride->n != info->n_dims)
        return fail_tensor(t, error, "%u strides for %d dimensions", stride->n,
                           info->n_dims);
    int64_t expected = 1;
    for (int i = info->n_dims - 1; i >= 0; i--) {
        if (items[i].kind != VAE_PICKLE_INT)
            return fail_tensor(t, error, "stride %d is no integer", i);
        if (count == 0 || info->dims[i] == 1)
            continue;
        if (items[i].number != expected)
            return fail_stride(t, i, items[i].number, expected, error);
        expected *= info->dims[i];
    }
    return VAE_OK;
}

/* Fills info for the tensor whose name is at file->names + n_names. */
static VaeStatus
read_tensor(const Torch *t, const VaePickleValue *tensor, VaeTensorInfo *info,
            VaeError *error)
{
    const VaePickleValue *args = vae_pickle_items(&t->pickle, tensor);
    const VaePickleValue *storage = vae_pickle_items(&t->pickle, &args[0]);
    const VaePickleGlobal *type = vae_pickle_global(&storage[1]);
    const VaeZipMember *member;
    *info = (VaeTensorInfo){.name = t->file->names + t->n_names,
                            .type = type->type,
                            .supported = type->supported,
                            .type_name = type->type_name};
    VaeStatus status = find_storage(t, &args[0], &member, error);
    if (status == VAE_OK)
        status = read_dims(t, &args[2], info, error);
    if (status != VAE_OK)
        return status;
    char text[200];
    const int64_t from = args[1].number, elements = storage[4].number;
    uint64_t count;
    const bool counted =
        vae_dims_count(info->dims, info->n_dims, &count) && count <= INT64_MAX;
    const bool inside = counted && from >= 0 && from <= elements &&
                        count <= (uint64_t) (elements - from);
    if (counted)
        status = check_strides(t, &args[3], info, count, error);
    /* A tensor after expand() has more elements than its storage. */
    if (!inside && status == VAE_OK)
        return fail_tensor(
            t, error,
            "shape %s from element %" PRId64
            " reaches past its storage of %" PRId64 " elements",
            vae_dims_text(info->dims, info->n_dims, text, sizeof text), from,
            elements);
    assert(member);
    if (inside) {
        info->bytes = count * (uint64_t) type->size;
        info->offset = member->offset + (uint64_t) from * (uint64_t) type->size;
    }
    if (status == VAE_OK || !t->several)
        return status;
    info->supported = false;
    info->strided = true;
    return VAE_OK;
}

static VaeStatus
make_room(const Torch *t, size_t n, size_t text, VaeError *error)
{
    t->file->names = vae_mem_alloc(text);
    if (t->file->names == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory for names",
                        t->file->label);
    return vae_tensor_file_room(t->file, n, error);
}

static VaeStatus
read_single(Torch *t, VaeError *error)
{
    static const char name[] = "latent";
    VaeStatus status = make_room(t, 1, sizeof name, error);
    if (status != VAE_OK)
        return status;
    memcpy(t->file->names, name, sizeof name);
    return read_tensor(t, &t->pickle.result, &t->file->tensors[0], error);
}

static VaeStatus
read_dict(Torch *t, VaePickleValue dict, VaeError *error)
{
    const VaePickle *p = &t->pickle;
    VaeTorchTensor at = {0};
    size_t text, size, i = 0;
    VaeStatus status = VAE_OK;
    if (dict.kind == VAE_PICKLE_DICT)
        status = vae_torch_enter(p, t->file->label, &dict, error);
    if (status != VAE_OK)
        return status;
    const size_t n = vae_torch_count(p, &dict, &text);
    /* Distinct names are distinct texts in the pickle, so they fit into it. */
    if (text > p->size)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: the names of tensors appear twice",
                        t->file->label);
    t->several = n > 1;
    status = make_room(t, n, text + n * MAX_NUMBER, error);
    while (status == VAE_OK && vae_torch_next(p, &dict, &at)) {
        const VaePickleEntry *e = at.entry;
        if (dict.kind == VAE_PICKLE_DICT && e->key.kind != VAE_PICKLE_TEXT)
            return vae_torch_bad_key(t->file->label, &e->key, error);
        status = take_name(t, &at, &size, error);
        if (status == VAE_OK)
            status = read_tensor(t, &e->value, &t->file->tensors[i++], error);
        t->n_names += size;
    }
    return status;
}

static VaeStatus
tuple_to_list(VaePickle *p, VaePickleValue *value, VaeError *error)
{
    const VaePickleValue *items = vae_pickle_items(p, value);
    const size_t n = value->n;
    VaeStatus status = vae_pickle_push_dict(p, VAE_PICKLE_LIST, error);
    if (status == VAE_OK)
        status = vae_pickle_pop(p, value, error);
    return status == VAE_OK ? vae_pickle_append(p, value, items, n, error)
                            : status;
}

static VaeStatus
read_archive(Torch *t, VaeError *error)
{
    const char *label = t->file->label;
    VaeStatus status = vae_zip_open(&t->zip, t->file, error);
    if (status == VAE_OK)
        status = find_folder(t, error);
    if (status == VAE_OK)
        status = check_byteorder(t, error);
    if (status != VAE_OK)
        return status;
    const VaeZipMember *m = find(t, "data.pkl");
    if (m->size <= VAE_MAX_PICKLE)
        status = vae_file_bytes(t->file, m->offset, m->size, error);
    if (status != VAE_OK)
        return status;
    status = vae_pickle_run(&t->pickle, t->zip.bytes + m->offset,
                            (size_t) m->size, label, error);
    if (status != VAE_OK)
        return status;
    VaePickleValue result = t->pickle.result;
    if (result.kind == VAE_PICKLE_TENSOR)
        return read_single(t, error);
    if (result.kind == VAE_PICKLE_TUPLE)
        status = tuple_to_list(&t->pickle, &result, error);
    size_t text;
    if (status == VAE_OK && (result.kind == VAE_PICKLE_DICT ||
                             (result.kind == VAE_PICKLE_LIST &&
                              vae_torch_count(&t->pickle, &result, &text) > 0)))
        return read_dict(t, result, error);
    return status != VAE_OK
               ? status
               : vae_mismatch(error, VAE_ERR_FORMAT, NULL,
                              "%s: holds {%s}, expected {=a tensor, or a dict "
                              "or list of tensors}; save a tensor, by "
                              "torch.save(x, FILE)",
                              label, vae_torch_kind(&result));
}

VaeStatus
vae_torch_parse(VaeTensorFile *file, VaeError *error)
{
    Torch t = {.file = file};
    VaeStatus status = read_archive(&t, error);
    vae_pickle_clear(&t.pickle);
    vae_zip_clear(&t.zip);
    return status;
}

VaeStatus
vae_torch_need(uint64_t total, const char *label, uint64_t *need,
               VaeError *error)
{
    if (total == VAE_TOTAL_UNKNOWN)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: a PyTorch file cannot be read from its start "
                        "alone: its directory is at its end",
                        label);
    if (total > MAX_READ)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: a PyTorch file of %" PRIu64
                        " bytes, at most %" PRIu64
                        " are read unless it is opened by its path",
                        label, total, MAX_READ);
    *need = total;
    return VAE_OK;
}

bool
vae_torch_is(const uint8_t *bytes, size_t size)
{
    return vae_zip_is(bytes, size);
}
