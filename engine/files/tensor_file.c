/*
 * tensor_file.c: a file of tensors in memory: its tensors, their data, its
 * metadata. open.c makes it.
 */
#include "files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "vae-private/os.h"

/* Messages show this many bytes from the end of a longer path. */
#define LABEL_SHOWN ((size_t) 300)

const char *
vae_file_label(const char *name)
{
    const size_t length = strlen(name);
    return length <= LABEL_SHOWN ? name : name + length - LABEL_SHOWN;
}

const char *
vae_shown(const char *text, size_t n, char *buffer, size_t size)
{
    size_t i = 0;
    for (; i < n && i + 1 < size; i++)
        buffer[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    buffer[i] = '\0';
    return buffer;
}

bool
vae_dims_count(const int64_t *dims, int n, uint64_t *count)
{
    *count = 1;
    for (int i = 0; i < n; i++) {
        if (__builtin_mul_overflow(*count, (uint64_t) dims[i], count))
            return false;
    }
    return true;
}

const char *
vae_dims_text(const int64_t *dims, int n, char *buffer, size_t size)
{
    if (size == 0)
        return buffer;
    snprintf(buffer, size, "%s", n == 0 ? "scalar" : "");
    size_t used = 0;
    for (int i = 0; i < n && used < size; i++) {
        const int length = snprintf(buffer + used, size - used, "%s%" PRId64,
                                    i == 0 ? "" : "x", dims[i]);
        used += length > 0 ? (size_t) length : 0;
    }
    return buffer;
}

static int
compare_names(const void *a, const void *b)
{
    const VaeTensorInfo *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

VaeStatus
vae_tensor_file_sort(VaeTensorFile *file, VaeError *error)
{
    const size_t n = file->n_tensors;
    for (size_t i = 0; i < n; i++)
        file->sorted[i] = &file->tensors[i];
    if (n > 0)
        qsort(file->sorted, n, sizeof(VaeTensorInfo *), compare_names);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(file->sorted[i - 1]->name, file->sorted[i]->name) == 0)
            return vae_fail(error, VAE_ERR_FORMAT,
                            "%s: tensor \"%.*s\" appears twice", file->label,
                            VAE_NAME_SHOWN, file->sorted[i]->name);
    }
    return VAE_OK;
}

VaeStatus
vae_tensor_file_room(VaeTensorFile *file, size_t n, VaeError *error)
{
    /* n comes from a header in memory, so the products cannot overflow. */
    file->tensors = vae_mem_alloc(n * sizeof *file->tensors);
    file->sorted = vae_mem_alloc(n * sizeof(VaeTensorInfo *));
    if (file->tensors == NULL || file->sorted == NULL)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s: no memory for a list of %zu tensors", file->label,
                        n);
    file->n_tensors = n;
    return VAE_OK;
}

VaeStatus
vae_tensor_file_new(const char *name, size_t n_shards, VaeTensorFile **out,
                    VaeError *error)
{
    const size_t length = strlen(name) + 1;
    VaeTensorFile *file = vae_mem_alloc(sizeof *file);
    if (file) {
        file->name = vae_mem_alloc(length);
        file->shards = vae_mem_alloc(n_shards * sizeof *file->shards);
    }
    *out = file;
    if (!file || !file->name || !file->shards) {
        vae_tensor_file_free(out);
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(name));
    }
    memcpy(file->name, name, length);
    file->label = vae_file_label(file->name);
    return VAE_OK;
}

VaeStatus
vae_file_check_link(const char *path, VaeError *error)
{
    char *target = vae_os_broken_link(path);
    if (!target)
        return VAE_OK;
    const VaeStatus status = vae_fail_parts(
        error, VAE_ERR_NOT_FOUND,
        (VaeErrorParts){NULL, "a link without a target", "a file"},
        "%s: is a symbolic link to %s, which does not exist; expected a file",
        vae_file_label(path), target);
    free(target);
    return status;
}

bool
vae_file_is_there(const char *path)
{
    return vae_os_is_kind(path, VAE_FILE_REGULAR) ||
           vae_file_check_link(path, NULL) != VAE_OK;
}

VaeStatus
vae_file_fail(const char *path, const char *what, VaeError *error)
{
    const int code = errno;
    const bool missing = code == ENOENT || code == ENOTDIR;
    const VaeStatus status = missing          ? VAE_ERR_NOT_FOUND
                             : code == ENOMEM ? VAE_ERR_MEMORY
                                              : VAE_ERR_READ;
    if (missing && vae_file_check_link(path, error) != VAE_OK)
        return status;
    return vae_fail(error, status, "%s: cannot %s: %s", vae_file_label(path),
                    what, strerror(code));
}

static VaeStatus
fail_kind(const char *label, const char *kind, VaeError *error)
{
    return vae_mismatch(error, VAE_ERR_READ, NULL,
                        "%s: is a {%s}, expected a {=regular file}", label,
                        kind);
}

VaeStatus
vae_file_too_short(const char *label, const char *tensor, const char *what,
                   uint64_t total, uint64_t expected, VaeError *error)
{
    return vae_mismatch(error, VAE_ERR_FORMAT, tensor,
                        "%s: %s reaches past the end of the file ({%s}, "
                        "expected {=%s})",
                        label, what, VAE_COUNTED(total, "byte"),
                        VAE_COUNTED(expected, "byte"));
}

VaeStatus
vae_file_begin(const char *path, VaeTensorFile *out, VaeError *error)
{
    const char *label = vae_file_label(path);
    const int fd = vae_os_open(path, VAE_OPEN_READ | VAE_OPEN_NO_WAIT);
    if (fd < 0)
        return vae_file_fail(path, "open", error);
    VaeStatus status = VAE_OK;
    VaeFileFacts facts;
    void *map = NULL;
    if (!vae_os_facts_of(fd, &facts)) {
        status = vae_file_fail(path, "open", error);
    } else if (facts.kind == VAE_FILE_FOLDER) {
        status = fail_kind(label, "directory", error);
    } else if (facts.kind != VAE_FILE_REGULAR) {
        status = fail_kind(label, "device or pipe", error);
    } else if (facts.size == 0) {
        status = vae_fail_parts(
            error, VAE_ERR_FORMAT,
            (VaeErrorParts){NULL, "an empty file", "a file of tensors"},
            "%s: the file is empty", label);
    } else {
        map = vae_os_reserve((size_t) facts.size);
        if (map == NULL)
            status = vae_fail(error, VAE_ERR_MEMORY,
                              "%s: no memory for a file of %" PRIu64 " bytes",
                              label, facts.size);
    }
    if (status != VAE_OK) {
        close(fd);
        return status;
    }
    *out = (VaeTensorFile){.label = label,
                           .bytes = map,
                           .size = (size_t) facts.size,
                           .total = facts.size,
                           .map = map,
                           .fd = fd,
                           .fetches = true};
    return VAE_OK;
}

VaeStatus
vae_file_map(VaeTensorFile *file, VaeError *error)
{
    if (!vae_os_show_file(file->map, file->size, file->fd))
        return vae_file_fail(file->label, "map", error);
    file->fetches = false;
    return VAE_OK;
}

void
vae_file_end(const VaeTensorFile *file)
{
    if (file->map != NULL) {
        vae_os_unreserve(file->map, file->size);
        close(file->fd);
    }
}

void
vae_tensor_file_free(VaeTensorFile **file)
{
    if (file == NULL || *file == NULL)
        return;
    VaeTensorFile *f = *file;
    *file = NULL;
    for (size_t i = 0; i < f->n_shards; i++)
        vae_tensor_file_free(&f->shards[i]);
    vae_mem_free(f->shards);
    json_decref(f->header);
    vae_mem_free(f->names);
    vae_mem_free(f->sorted);
    vae_mem_free(f->tensors);
    vae_file_end(f);
    vae_mem_free(f->name);
    vae_mem_free(f);
}

/* The file, of this one and its shards, that maps the tensor; NULL if none. */
static const VaeTensorFile *
mapped_by(const VaeTensorFile *file, const VaeTensorInfo *t)
{
    const VaeTensorFile *found = NULL;
    for (size_t i = 0; i < file->n_shards && !found; i++)
        found = mapped_by(file->shards[i], t);
    const uintptr_t map = (uintptr_t) file->map, data = (uintptr_t) t->data;
    if (!found && map && data >= map && data - map < file->size)
        found = file;
    return found;
}

static VaeStatus
fail_short(const VaeTensorFile *file, VaeError *error)
{
    VaeFileFacts facts;
    if (!vae_os_facts_of(file->fd, &facts))
        return vae_file_fail(file->label, "read", error);
    return vae_mismatch(error, VAE_ERR_READ, NULL,
                        "%s: was cut short to {%" PRIu64
                        " bytes} after it had been opened with {=%zu}",
                        file->label, facts.size, file->size);
}

/* Reads n bytes of the file from offset. */
static VaeStatus
read_at(const VaeTensorFile *file, uint64_t offset, void *dst, size_t n,
        VaeError *error)
{
    uint8_t *to = dst;
    while (n > 0) {
        const ssize_t got = vae_os_read_at(file->fd, to, n, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return vae_file_fail(file->label, "read", error);
        if (got == 0)
            return fail_short(file, error);
        to += got;
        offset += (uint64_t) got;
        n -= (size_t) got;
    }
    return VAE_OK;
}

static VaeStatus
fail_memory(const VaeTensorFile *file, VaeError *error)
{
    return vae_fail(error, VAE_ERR_MEMORY,
                    "%s: no memory for tensors (%zu bytes)", file->label,
                    file->size);
}

/* Reads n bytes of the file from offset to their place in its space. */
static VaeStatus
fill(const VaeTensorFile *file, uint64_t offset, size_t n, VaeError *error)
{
    uint8_t *to = (uint8_t *) file->map + offset;
    return vae_os_commit(to, n) ? read_at(file, offset, to, n, error)
                                : fail_memory(file, error);
}

VaeStatus
vae_file_bytes(const VaeTensorFile *file, uint64_t from, uint64_t n,
               VaeError *error)
{
    return file->map ? fill(file, from, (size_t) n, error) : VAE_OK;
}

/* The pages of a tensor in a mapped file. */
static void
pages_of(const VaeTensorFile *file, const VaeTensorInfo *t, uint64_t *from,
         size_t *size)
{
    const uint64_t page = (uint64_t) vae_os_page();
    const uint64_t at =
        (uint64_t) ((const uint8_t *) t->data - (const uint8_t *) file->map);
    const uint64_t end = (at + t->bytes + page - 1) / page * page;
    *from = at / page * page;
    *size = (size_t) ((end < file->size ? end : file->size) - *from);
}

/* Replaces the mapping by memory that has no pages yet. */
static VaeStatus
unmap_file(VaeTensorFile *file, VaeError *error)
{
    if (!file->fetches && !vae_os_hide_file(file->map, file->size))
        return fail_memory(file, error);
    file->fetches = true;
    return VAE_OK;
}

VaeStatus
vae_tensor_file_fetch(const VaeTensorFile *file, const VaeTensorInfo *t,
                      VaeError *error)
{
    VaeTensorFile *f = (VaeTensorFile *) mapped_by(file, t);
    uint64_t from;
    size_t size;
    if (!f || t->bytes == 0)
        return VAE_OK;
    pages_of(f, t, &from, &size);
    VaeStatus status = unmap_file(f, error);
    if (status == VAE_OK)
        status = fill(f, from, size, error);
    return status;
}

void
vae_tensor_file_drop(const VaeTensorFile *file, const VaeTensorInfo *t)
{
    const VaeTensorFile *f = mapped_by(file, t);
    uint64_t from;
    size_t size;
    if (!f || !f->fetches || t->bytes == 0)
        return;
    pages_of(f, t, &from, &size);
    vae_os_decommit((uint8_t *) f->map + from, size);
}

VaeStatus
vae_tensor_file_read(const VaeTensorFile *file, const VaeTensorInfo *t,
                     uint64_t from, void *dst, size_t n, VaeError *error)
{
    const VaeTensorFile *f = mapped_by(file, t);
    const uint8_t *data = (const uint8_t *) t->data + from;
    if (f)
        return read_at(f, (uint64_t) (data - (const uint8_t *) f->map), dst, n,
                       error);
    memcpy(dst, data, n);
    return VAE_OK;
}

const char *
vae_tensor_file_name(const VaeTensorFile *file)
{
    return file->name;
}

bool
vae_tensor_file_is_from(const VaeTensorFile *file, const char *path)
{
    VaeFileFacts facts;
    if (file->map && vae_os_facts_of(file->fd, &facts) &&
        vae_os_is_file(path, &facts))
        return true;
    for (size_t i = 0; i < file->n_shards; i++)
        if (vae_tensor_file_is_from(file->shards[i], path))
            return true;
    return false;
}

size_t
vae_tensor_file_count(const VaeTensorFile *file)
{
    return file->n_tensors;
}

const VaeTensorInfo *
vae_tensor_file_at(const VaeTensorFile *file, size_t i)
{
    return i < file->n_tensors ? &file->tensors[i] : NULL;
}

const VaeTensorInfo *
vae_tensor_file_find(const VaeTensorFile *file, const char *name)
{
    size_t low = 0, high = file->n_tensors;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, file->sorted[middle]->name);
        if (order == 0)
            return file->sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool
vae_tensor_file_has_prefix(const VaeTensorFile *file, const char *prefix)
{
    const size_t n = strlen(prefix);
    size_t low = 0, high = file->n_tensors;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strncmp(prefix, file->sorted[middle]->name, n);
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

const char *
vae_tensor_file_metadata(const VaeTensorFile *file, const char *key)
{
    const char *text = json_string_value(json_object_get(file->metadata, key));
    for (size_t i = 0; text == NULL && i < file->n_shards; i++)
        text = vae_tensor_file_metadata(file->shards[i], key);
    return text;
}

bool
vae_tensor_file_metadata_at(const VaeTensorFile *file, size_t i,
                            VaeMetadata *out)
{
    json_t *all = file->metadata;
    for (size_t k = 0; json_object_size(all) == 0 && k < file->n_shards; k++)
        all = file->shards[k]->metadata;
    void *at = json_object_iter(all);
    for (; at && i > 0; i--)
        at = json_object_iter_next(all, at);
    if (!at)
        return false;
    *out = (VaeMetadata){json_object_iter_key(at),
                         json_string_value(json_object_iter_value(at))};
    return true;
}
