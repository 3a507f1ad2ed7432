#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"

/* Of a longer path messages show the end. */
#define LABEL_SHOWN ((size_t) 300)

const char *
vae_file_label(const char *name)
{
    const size_t length = strlen(name);
    return length <= LABEL_SHOWN ? name : name + length - LABEL_SHOWN;
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

VaeStatus
vae_tensor_file_room(VaeTensorFile *file, size_t n, VaeError *error)
{
    /* n was counted in a header at hand, so the products are small. */
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
vae_tensor_header_size(const void *bytes, size_t size, uint64_t total,
                       const char *name, uint64_t *need, VaeError *error)
{
    const char *label = vae_file_label(name != NULL ? name : "tensors");
    *need = 0;
    if (total == 0)
        return vae_fail(error, VAE_ERR_FORMAT, "%s: the file is empty", label);
    const uint64_t head = total < VAE_FILE_HEAD ? total : VAE_FILE_HEAD;
    if (size < head) {
        *need = head;
        return VAE_OK;
    }
    if (vae_npy_is(bytes, size))
        return vae_npy_need(bytes, size, total, label, need, error);
    return vae_safetensors_need(bytes, size, total, label, need, error);
}

static int
compare_names(const void *a, const void *b)
{
    const VaeTensorInfo *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static VaeStatus
parse(VaeTensorFile *file, VaeError *error)
{
    uint64_t need = 0;
    VaeStatus status = vae_tensor_header_size(
        file->bytes, file->size, file->total, file->name, &need, error);
    if (status != VAE_OK)
        return status;
    if (need > file->size)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%s: the header takes %" PRIu64 " bytes, %zu are given",
                        file->label, need, file->size);
    if (vae_npy_is(file->bytes, file->size))
        status = vae_npy_parse(file, error);
    else
        status = vae_safetensors_parse(file, error);
    if (status != VAE_OK)
        return status;
    for (size_t i = 0; i < file->n_tensors; i++) {
        VaeTensorInfo *info = &file->tensors[i];
        if (file->size == file->total)
            info->data = file->bytes + info->offset;
        file->sorted[i] = info;
    }
    if (file->n_tensors > 0)
        qsort(file->sorted, file->n_tensors, sizeof(VaeTensorInfo *),
              compare_names);
    return VAE_OK;
}

static VaeTensorFile *
file_new(const char *name)
{
    VaeTensorFile *file = vae_mem_alloc(sizeof *file);
    if (file == NULL)
        return NULL;
    const size_t length = strlen(name) + 1;
    file->name = vae_mem_alloc(length);
    if (file->name == NULL) {
        vae_tensor_file_free(&file);
        return NULL;
    }
    memcpy(file->name, name, length);
    file->label = vae_file_label(file->name);
    return file;
}

VaeStatus
vae_tensor_file_open_memory(const void *bytes, size_t size, uint64_t total,
                            const char *name, VaeTensorFile **out,
                            VaeError *error)
{
    *out = NULL;
    if (name == NULL)
        name = "tensors";
    if (size > total)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "%s: %zu bytes are given of a file of %" PRIu64,
                        vae_file_label(name), size, total);
    VaeTensorFile *file = file_new(name);
    if (file == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(name));
    file->bytes = bytes;
    file->size = size;
    file->total = total;
    const VaeStatus status = parse(file, error);
    if (status != VAE_OK)
        vae_tensor_file_free(&file);
    *out = file;
    return status;
}

static VaeStatus
fail_errno(const char *path, const char *what, VaeError *error)
{
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    const char *words = strerror(errno);
    return vae_fail(error, missing ? VAE_ERR_NOT_FOUND : VAE_ERR_READ,
                    "%s: cannot %s: %s", vae_file_label(path), what, words);
}

/* Maps all of a regular file that is not empty. */
static VaeStatus
map_file(const char *path, void **map, size_t *size, VaeError *error)
{
    /* Without O_NONBLOCK, opening a pipe would wait for its writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail_errno(path, "open", error);
    VaeStatus status = VAE_OK;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        status = fail_errno(path, "open", error);
    } else if (S_ISDIR(st.st_mode)) {
        status =
            vae_fail(error, VAE_ERR_READ, "%s: is a directory, wanted a file",
                     vae_file_label(path));
    } else if (!S_ISREG(st.st_mode)) {
        status = vae_fail(error, VAE_ERR_READ,
                          "%s: is a device or pipe, wanted a regular file",
                          vae_file_label(path));
    } else if (st.st_size == 0) {
        status = vae_fail(error, VAE_ERR_FORMAT, "%s: the file is empty",
                          vae_file_label(path));
    } else {
        *size = (size_t) st.st_size;
        *map = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (*map == MAP_FAILED) {
            *map = NULL;
            status = fail_errno(path, "map", error);
        }
    }
    close(fd);
    return status;
}

VaeStatus
vae_tensor_file_open(const char *path, VaeTensorFile **out, VaeError *error)
{
    *out = NULL;
    void *map = NULL;
    size_t size = 0;
    VaeStatus status = map_file(path, &map, &size, error);
    if (status != VAE_OK)
        return status;
    status = vae_tensor_file_open_memory(map, size, size, path, out, error);
    if (status == VAE_OK)
        (*out)->map = map;
    else
        munmap(map, size);
    return status;
}

void
vae_tensor_file_free(VaeTensorFile **file)
{
    if (file == NULL || *file == NULL)
        return;
    VaeTensorFile *f = *file;
    *file = NULL;
    json_decref(f->header);
    vae_mem_free(f->sorted);
    vae_mem_free(f->tensors);
    if (f->map != NULL)
        munmap(f->map, f->size);
    vae_mem_free(f->name);
    vae_mem_free(f);
}

const char *
vae_tensor_file_name(const VaeTensorFile *file)
{
    return file->name;
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

const char *
vae_tensor_file_metadata(const VaeTensorFile *file, const char *key)
{
    return json_string_value(json_object_get(file->metadata, key));
}
