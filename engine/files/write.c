/*
 * Writes safetensors files.
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

#define LENGTH_BYTES ((size_t) 8)
/* The data begins at a multiple of this, as the format asks for. */
#define DATA_ALIGNMENT ((size_t) 8)
/* Temporary names that are tried when killed processes left theirs behind. */
#define MAX_TEMPORARY 100

/* A file that is being written. */
typedef struct Writing {
    const char *path; /* as the caller gave it, for messages */
    bool again;       /* the same file is written repeatedly */
    VaeTensorHeader content;
    void *header;
    size_t header_size;
} Writing;

static const char *
dtype_of(VaeType type)
{
    switch (type) {
    case VAE_TYPE_F32:
        return "F32";
    case VAE_TYPE_F16:
        return "F16";
    case VAE_TYPE_BF16:
        return "BF16";
    case VAE_TYPE_U8:
        return "U8";
    case VAE_TYPE_F64:
        return "F64";
    }
    return NULL;
}

/* Adds value under a key that must be new and UTF-8; takes value's reference.
 */
static VaeStatus
add(json_t *object, const char *key, json_t *value, VaeError *error)
{
    VaeStatus status = VAE_OK;
    errno = 0;
    json_t *probe = json_string(key);
    if (value == NULL || (probe == NULL && errno == ENOMEM))
        status = vae_fail(error, VAE_ERR_MEMORY, "no memory for a header");
    else if (key == NULL || key[0] == '\0' || probe == NULL)
        status = vae_fail(error, VAE_ERR_ARGUMENT,
                          "the name \"%.*s\" is empty or no UTF-8",
                          VAE_NAME_SHOWN, key == NULL ? "" : key);
    else if (json_object_get(object, key) != NULL)
        status =
            vae_fail(error, VAE_ERR_ARGUMENT, "the name \"%.*s\" appears twice",
                     VAE_NAME_SHOWN, key);
    else if (json_object_set(object, key, value) != 0)
        status = vae_fail(error, VAE_ERR_MEMORY, "no memory for a header");
    json_decref(probe);
    json_decref(value);
    return status;
}

static VaeStatus
tensor_bytes(const VaeTensorOut *tensor, uint64_t *bytes, VaeError *error)
{
    const char *name = tensor->name == NULL ? "" : tensor->name;
    if (dtype_of(tensor->type) == NULL)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "tensor \"%.*s\": %d is no element type",
                        VAE_NAME_SHOWN, name, (int) tensor->type);
    if (tensor->n_dims < 0 || tensor->n_dims > VAE_MAX_DIMS)
        return vae_mismatch(
            error, VAE_ERR_ARGUMENT, name,
            "tensor \"%.*s\": {%d dimensions}, expected {=0 to %d}",
            VAE_NAME_SHOWN, name, tensor->n_dims, VAE_MAX_DIMS);
    for (int i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] < 0)
            return vae_fail(error, VAE_ERR_ARGUMENT,
                            "tensor \"%.*s\": dimension %d is %" PRId64,
                            VAE_NAME_SHOWN, name, i, tensor->dims[i]);
    }
    if (!vae_dims_count(tensor->dims, tensor->n_dims, bytes) ||
        __builtin_mul_overflow(*bytes, vae_type_size(tensor->type), bytes) ||
        *bytes > INT64_MAX)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "tensor \"%.*s\": its size does not fit in 63 bits",
                        VAE_NAME_SHOWN, name);
    return VAE_OK;
}

/* Adds the entry of a tensor whose data begins at *offset, and advances it. */
static VaeStatus
add_tensor(json_t *root, const VaeTensorOut *tensor, uint64_t *offset,
           VaeError *error)
{
    uint64_t bytes;
    const VaeStatus status = tensor_bytes(tensor, &bytes, error);
    if (status != VAE_OK)
        return status;
    const uint64_t begin = *offset;
    if (bytes > INT64_MAX - begin)
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "the size of all tensors does not fit in 63 bits");
    *offset = begin + bytes;
    json_t *shape = json_array();
    for (int i = 0; i < tensor->n_dims; i++)
        json_array_append_new(shape, json_integer(tensor->dims[i]));
    json_t *entry = json_pack(
        "{s:s, s:o, s:[I, I]}", "dtype", dtype_of(tensor->type), "shape", shape,
        "data_offsets", (json_int_t) begin, (json_int_t) *offset);
    if (entry != NULL && json_array_size(shape) != (size_t) tensor->n_dims) {
        json_decref(entry);
        entry = NULL;
    }
    return add(root, tensor->name, entry, error);
}

static VaeStatus
add_all(json_t *root, const VaeTensorHeader *h, VaeError *error)
{
    const VaeMetadata *metadata = h->metadata;
    const VaeTensorOut *tensors = h->tensors;
    VaeStatus status = VAE_OK;
    json_t *strings = h->n_metadata > 0 ? json_object() : NULL;
    for (size_t i = 0; status == VAE_OK && i < h->n_metadata; i++) {
        errno = 0;
        json_t *value = json_string(metadata[i].value);
        if (value == NULL && errno != ENOMEM)
            status = vae_fail(error, VAE_ERR_ARGUMENT,
                              "metadata \"%.*s\": the value is no UTF-8",
                              VAE_NAME_SHOWN, metadata[i].key);
        else
            status = add(strings, metadata[i].key, value, error);
    }
    if (status == VAE_OK && h->n_metadata > 0)
        status = add(root, "__metadata__", json_incref(strings), error);
    json_decref(strings);
    uint64_t offset = 0;
    for (size_t i = 0; status == VAE_OK && i < h->n; i++) {
        if (tensors[i].name != NULL &&
            strcmp(tensors[i].name, "__metadata__") == 0)
            status = vae_fail(error, VAE_ERR_ARGUMENT,
                              "no tensor can be named \"__metadata__\"");
        else
            status = add_tensor(root, &tensors[i], &offset, error);
    }
    return status;
}

static VaeStatus
too_long(size_t bytes, size_t most, VaeError *error)
{
    return vae_mismatch(error, VAE_ERR_SIZE, NULL,
                        "a header of {%zu bytes}, expected {=at most %zu}",
                        bytes, most);
}

/* Makes the header: length, JSON and spaces, padded to pad_to bytes, or to the
 * alignment if pad_to is 0. */
static VaeStatus
make_block(const json_t *root, size_t pad_to, void **out, size_t *size,
           VaeError *error)
{
    const size_t length = json_dumpb(root, NULL, 0, JSON_COMPACT);
    if (length == 0)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a header");
    size_t whole =
        (LENGTH_BYTES + length + DATA_ALIGNMENT - 1) & ~(DATA_ALIGNMENT - 1);
    if (pad_to > 0) {
        if (LENGTH_BYTES + length > pad_to)
            return too_long(LENGTH_BYTES + length, pad_to, error);
        whole = pad_to;
    }
    if (whole - LENGTH_BYTES > VAE_MAX_HEADER)
        return too_long(whole - LENGTH_BYTES, VAE_MAX_HEADER, error);
    char *block = malloc(whole);
    if (block == NULL)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "no memory for a header of %zu bytes", whole);
    const uint64_t stated = whole - LENGTH_BYTES;
    memcpy(block, &stated, LENGTH_BYTES);
    if (json_dumpb(root, block + LENGTH_BYTES, length, JSON_COMPACT) !=
        length) {
        free(block);
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a header");
    }
    memset(block + LENGTH_BYTES + length, ' ', whole - LENGTH_BYTES - length);
    *out = block;
    *size = whole;
    return VAE_OK;
}

VaeStatus
vae_tensor_header_make(const VaeTensorHeader *header, void **out, size_t *size,
                       VaeError *error)
{
    *out = NULL;
    *size = 0;
    json_t *root = json_object();
    if (root == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for a header");
    VaeStatus status = add_all(root, header, error);
    if (status == VAE_OK)
        status = make_block(root, header->pad_to, out, size, error);
    json_decref(root);
    return status;
}

static VaeStatus
fail_errno(const char *path, const char *what, int code, VaeError *error)
{
    const VaeStatus status = vae_os_is_full(code) ? VAE_ERR_NO_SPACE
                             : code == ENOMEM     ? VAE_ERR_MEMORY
                                                  : VAE_ERR_WRITE;
    return vae_fail(error, status, "%s: cannot %s: %s", vae_file_label(path),
                    what, strerror(code));
}

/* Returns 0 or an errno. */
static int
write_all(int fd, const void *data, uint64_t size)
{
    const uint8_t *p = data;
    while (size > 0) {
        const ssize_t n = vae_os_write(fd, p, (size_t) size);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0) {
            p += n;
            size -= (uint64_t) n;
        }
    }
    return 0;
}

/* Creates a temporary file in target's folder; name receives its path. With
 * `again`, the path is always the same. Returns -1 and sets errno on failure.
 */
static int
open_beside(const char *target, bool again, char *name, size_t size)
{
    if (again) {
        snprintf(name, size, "%s.tmp", target);
        return vae_os_open(name,
                           VAE_OPEN_WRITE | VAE_OPEN_CREATE | VAE_OPEN_EMPTY);
    }
    for (int i = 0; i < MAX_TEMPORARY; i++) {
        snprintf(name, size, "%s.%ld-%d.tmp", target, (long) getpid(), i);
        const int fd = vae_os_open(name, VAE_OPEN_WRITE | VAE_OPEN_NEW);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static VaeStatus
write_content(const Writing *w, int fd, VaeError *error)
{
    int code = write_all(fd, w->header, w->header_size);
    for (size_t i = 0; code == 0 && i < w->content.n; i++) {
        uint64_t bytes;
        const VaeStatus status =
            tensor_bytes(&w->content.tensors[i], &bytes, error);
        if (status != VAE_OK)
            return status;
        code = write_all(fd, w->content.tensors[i].data, bytes);
    }
    if (code == 0 && vae_os_sync(fd, false) != 0)
        code = errno;
    return code == 0 ? VAE_OK : fail_errno(w->path, "write", code, error);
}

/* Writes a temporary file and renames it to target. folder: the descriptor of
 * target's folder, to sync it too, or -1. */
static VaeStatus
write_and_rename(const Writing *w, const char *target, int folder,
                 VaeError *error)
{
    const size_t room = strlen(target) + 64;
    char *name = vae_mem_alloc(room);
    if (name == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(w->path));
    const int fd = open_beside(target, w->again, name, room);
    if (fd < 0) {
        const int code = errno;
        vae_mem_free(name);
        return fail_errno(w->path, "create", code, error);
    }
    VaeStatus status = write_content(w, fd, error);
    if (close(fd) != 0 && status == VAE_OK)
        status = fail_errno(w->path, "write", errno, error);
    if (status == VAE_OK && vae_os_rename(name, target) != 0)
        status = fail_errno(w->path, "replace", errno, error);
    if (status != VAE_OK)
        vae_os_remove(name);
    /* Some file systems cannot sync a folder: EINVAL. */
    else if (folder >= 0 && vae_os_sync(folder, false) != 0 && errno != EINVAL)
        status = fail_errno(w->path, "sync the folder of", errno, error);
    vae_mem_free(name);
    return status;
}

/* Writes the file at target, which is the path with its links resolved. */
static VaeStatus
write_at_target(const Writing *w, const char *target, VaeError *error)
{
    const int folder = w->again ? vae_os_open_folder_of(target) : -1;
    if (w->again && folder < 0)
        return fail_errno(w->path, "create", errno, error);
    VaeStatus status = write_and_rename(w, target, folder, error);
    if (folder >= 0 && close(folder) != 0 && status == VAE_OK)
        status = fail_errno(w->path, "write", errno, error);
    return status;
}

/* Makes the header and writes the file. */
static VaeStatus
write_file(Writing *w, VaeError *error)
{
    /* Without this check, the rename would replace a device or pipe. */
    VaeFileFacts facts;
    const bool exists = vae_os_facts(w->path, &facts);
    if (!exists && errno != ENOENT)
        return fail_errno(w->path, "create", errno, error);
    if (exists && facts.kind != VAE_FILE_REGULAR)
        return vae_fail(error, VAE_ERR_WRITE,
                        "%s: is no regular file and is not replaced",
                        vae_file_label(w->path));
    VaeError inner = {0};
    VaeStatus status = vae_tensor_header_make(&w->content, &w->header,
                                              &w->header_size, &inner);
    if (status != VAE_OK)
        return vae_fail_within(error, &inner, "%s: ", vae_file_label(w->path));
    char *real = vae_os_real_path(w->path);
    if (real == NULL && errno != ENOENT)
        status = fail_errno(w->path, "create", errno, error);
    else
        status = write_at_target(w, real != NULL ? real : w->path, error);
    free(real);
    free(w->header);
    return status;
}

VaeStatus
vae_tensor_file_write(const char *path, const VaeTensorOut *tensors, size_t n,
                      const VaeMetadata *metadata, size_t n_metadata,
                      VaeError *error)
{
    Writing w = {.path = path,
                 .content = {tensors, n, metadata, n_metadata, 0}};
    return write_file(&w, error);
}

VaeStatus
vae_tensor_file_rewrite(const char *path, const VaeTensorOut *tensors, size_t n,
                        const VaeMetadata *metadata, size_t n_metadata,
                        VaeError *error)
{
    Writing w = {.path = path,
                 .again = true,
                 .content = {tensors, n, metadata, n_metadata, 0}};
    return write_file(&w, error);
}
