/*
 * open.c: opens tensor files: finds the format, and calls its reader.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "arguments.h"
#include "files.h"
#include "vae-private/os.h"

/* Enough for the head of every format, and for white space before an index. */
#define HEAD_BYTES 4096

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
    if (vae_torch_is(bytes, size))
        return vae_torch_need(total, label, need, error);
    if (vae_index_is(bytes, size))
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: is JSON; open an index of shards by its path, in "
                        "the folder of its shards",
                        label);
    const VaeStatus status =
        vae_safetensors_need(bytes, size, total, label, need, error);
    *need = *need < head ? head : *need;
    return status;
}

/* The bytes in memory are too few for a header, or more than the file has. */
static VaeStatus
wrong_size(const char *label, size_t size, const char *limit, uint64_t bytes,
           VaeError *error)
{
    return vae_mismatch(
        error, VAE_ERR_ARGUMENT, NULL,
        "%s: {%s} of the file are in memory, expected {=%s %" PRIu64 "}", label,
        VAE_COUNTED(size, "byte"), limit, bytes);
}

/* Parses the file in the format that its first bytes show. */
static VaeStatus
parse_format(VaeTensorFile *file, VaeError *error)
{
    /* A complete PyTorch file may be larger than vae_torch_need() allows. */
    if (file->size == file->total && vae_torch_is(file->bytes, file->size))
        return vae_torch_parse(file, error);
    uint64_t need = 0;
    VaeStatus status = vae_tensor_header_size(
        file->bytes, file->size, file->total, file->name, &need, error);
    if (status != VAE_OK)
        return status;
    if (need > file->size)
        return wrong_size(file->label, file->size, "at least", need, error);
    status = vae_file_bytes(file, 0, need, error);
    if (status != VAE_OK)
        return status;
    return vae_npy_is(file->bytes, file->size)
               ? vae_npy_parse(file, error)
               : vae_safetensors_parse(file, error);
}

static VaeStatus
parse(VaeTensorFile *file, VaeError *error)
{
    /* The last bytes of an open recording will not count. */
    const bool whole = file->size == file->total;
    const VaeStatus status = parse_format(file, error);
    if (status != VAE_OK)
        return status;
    for (size_t i = 0; i < file->n_tensors; i++) {
        VaeTensorInfo *info = &file->tensors[i];
        if (whole)
            info->data = file->bytes + info->offset;
    }
    return vae_tensor_file_sort(file, error);
}

typedef VaeStatus (*Parser)(VaeTensorFile *file, VaeError *error);

/* Makes a file of that name from the bytes, size and total in `given`. */
static VaeStatus
open_bytes(const VaeTensorFile *given, const char *name, Parser parser,
           VaeTensorFile **out, VaeError *error)
{
    const size_t length = strlen(name) + 1;
    VaeTensorFile *file = vae_mem_alloc(sizeof *file);
    char *copy = vae_mem_alloc(length);
    *out = NULL;
    if (file == NULL || copy == NULL) {
        vae_mem_free(file);
        vae_mem_free(copy);
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(name));
    }
    memcpy(copy, name, length);
    *file = *given;
    file->name = copy;
    file->label = vae_file_label(copy);
    const VaeStatus status = parser(file, error);
    if (status == VAE_OK)
        *out = file;
    else {
        file->map = NULL; /* the caller's */
        vae_tensor_file_free(&file);
    }
    return status;
}

VaeStatus
vae_tensor_file_open_memory(const void *bytes, size_t size, uint64_t total,
                            const char *name, VaeTensorFile **out,
                            VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "out", out);
    if (status != VAE_OK)
        return status;
    *out = NULL;
    if (size)
        status = vae_check_pointers(error, "bytes", bytes);
    if (status != VAE_OK)
        return status;
    if (name == NULL)
        name = "tensors";
    if (size > total)
        return wrong_size(vae_file_label(name), size, "at most", total, error);
    const VaeTensorFile given = {.bytes = bytes, .size = size, .total = total};
    return open_bytes(&given, name, parse, out, error);
}

static VaeStatus
parse_source(VaeTensorFile *file, VaeError *error)
{
    const VaeStatus status = vae_source_parse(file, error);
    return status == VAE_OK ? vae_tensor_file_sort(file, error) : status;
}

VaeStatus
vae_tensor_file_open_source(const VaeTensorList *source, VaeTensorFile **out,
                            VaeError *error)
{
    const VaeTensorFile given = {.source = source};
    return open_bytes(&given, source->name, parse_source, out, error);
}

static VaeStatus
open_mapped(const char *path, Parser parser, VaeTensorFile **out,
            VaeError *error)
{
    VaeTensorFile given;
    *out = NULL;
    VaeStatus status = vae_file_begin(path, &given, error);
    if (status != VAE_OK)
        return status;
    status = open_bytes(&given, path, parser, out, error);
    if (status != VAE_OK)
        vae_file_end(&given);
    else if ((status = vae_file_map(*out, error)) != VAE_OK)
        vae_tensor_file_free(out);
    return status;
}

/* Reads enough to tell the format. */
static VaeStatus
read_head(const VaeTensorFile *file, VaeError *error)
{
    return vae_file_bytes(
        file, 0, file->size < HEAD_BYTES ? file->size : HEAD_BYTES, error);
}

static VaeStatus
parse_shard(VaeTensorFile *file, VaeError *error)
{
    const VaeStatus status = read_head(file, error);
    if (status != VAE_OK)
        return status;
    if (vae_torch_is(file->bytes, file->size) ||
        vae_npy_is(file->bytes, file->size))
        return vae_fail(error, VAE_ERR_FORMAT, "%s: is no safetensors file",
                        file->label);
    return parse(file, error);
}

/* Opens a safetensors file. */
static VaeStatus
open_shard(const char *path, VaeTensorFile **out, VaeError *error)
{
    return open_mapped(path, parse_shard, out, error);
}

/* Parses a mapped file, which may be an index of shards in its folder. */
static VaeStatus
parse_mapped(VaeTensorFile *file, VaeError *error)
{
    VaeStatus status = read_head(file, error);
    if (status != VAE_OK)
        return status;
    if (!vae_index_is(file->bytes, file->size))
        return parse(file, error);
    status = vae_index_parse(file, open_shard, error);
    return status == VAE_OK ? vae_tensor_file_sort(file, error) : status;
}

static VaeStatus
open_half(const char *path, VaeTensorFile **out, VaeError *error)
{
    return open_mapped(path, parse_mapped, out, error);
}

static VaeStatus
open_one_or_two(const char *path, VaeTensorFile **out, VaeError *error)
{
    char *first;
    const char *second;
    VaeStatus status = vae_pair_split(path, &first, &second, error);
    if (status != VAE_OK)
        return status;
    if (!first)
        return open_half(path, out, error);
    if (strcmp(first, second) == 0)
        status = vae_fail(error, VAE_ERR_ARGUMENT,
                          "%s: names one file twice, expected an encoder's "
                          "file and a decoder's",
                          vae_file_label(path));
    else
        status = vae_pair_open(first, second, open_half, out, error);
    vae_mem_free(first);
    return status;
}

VaeStatus
vae_tensor_file_open(const char *path, VaeTensorFile **out, VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "out", out);
    if (status != VAE_OK)
        return status;
    *out = NULL;
    status = vae_check_path("path", path, error);
    if (status != VAE_OK)
        return status;
    if (!vae_os_is_kind(path, VAE_FILE_FOLDER))
        return open_one_or_two(path, out, error);
    char *found;
    status = vae_folder_find(path, &found, error);
    if (status == VAE_OK)
        status = open_one_or_two(found, out, error);
    vae_mem_free(found);
    return status;
}
