/*
 * files.h: what the readers and the writer of tensor files share.
 */
#ifndef VAE_FILES_H
#define VAE_FILES_H

#include <jansson.h>

#include "vae-private/tensors.h"

/* Bytes that tell the format and the length of the header. */
#define VAE_FILE_HEAD 16
/* vae_tensor_header_size() for a file whose length is not known. */
#define VAE_TOTAL_UNKNOWN UINT64_MAX
/* Names out of files go into messages by "%.*s" with this, so that what was
 * found and wanted still has room. */
#define VAE_NAME_SHOWN 160

struct VaeTensorFile {
    char *name;
    const char *label; /* in messages: name, of a long one the end */
    const uint8_t *bytes;
    size_t size;    /* at hand */
    uint64_t total; /* of the file, or VAE_TOTAL_UNKNOWN */
    void *map;      /* NULL where the bytes are the caller's */
    json_t *header; /* safetensors: owns names, type names, metadata */
    char *names;    /* PyTorch: owns names */
    json_t *metadata;
    char npy_type[8];
    VaeTensorInfo *tensors;
    size_t n_tensors;
    const VaeTensorInfo **sorted; /* by name */
    VaeTensorFile **shards;       /* of an index: own the tensors */
    size_t n_shards;
};

/* Of a tensor of a mapped file: its pages leave the process's memory, until
 * somebody reads them again. */
void vae_tensor_file_drop(const VaeTensorFile *file, const VaeTensorInfo *t);

/* Whether the name of any tensor begins so. */
bool vae_tensor_file_has_prefix(const VaeTensorFile *file, const char *prefix);

/* The end of name that messages show. */
const char *vae_file_label(const char *name);

/* Bytes out of a file as printable text, cut to buffer, of size > 0; what is
 * not ASCII is '?'. Returns buffer. */
const char *vae_shown(const char *text, size_t n, char *buffer, size_t size);

/*
 * As vae_tensor_file_write(), for a file that is written again and again: the
 * temporary file is always path.tmp, so that what a killed process left is
 * written over, and the folder is on the disk, too, when it returns.
 */
VaeStatus vae_tensor_file_rewrite(const char *path, const VaeTensorOut *tensors,
                                  size_t n, const VaeMetadata *metadata,
                                  size_t n_metadata, VaeError *error);

/* The product of dims, each >= 0; false when it passes 64 bits. */
bool vae_dims_count(const int64_t *dims, int n, uint64_t *count);

/* Room for n tensors. */
VaeStatus vae_tensor_file_room(VaeTensorFile *file, size_t n, VaeError *error);

/*
 * One pair for each format. *_need: bytes of header, told from the first
 * VAE_FILE_HEAD (fewer where the file is shorter). *_parse: fills tensors from
 * bytes, all of the header being there.
 */
bool vae_npy_is(const uint8_t *bytes, size_t size);
VaeStatus vae_npy_need(const uint8_t *bytes, size_t size, uint64_t total,
                       const char *label, uint64_t *need, VaeError *error);
VaeStatus vae_npy_parse(VaeTensorFile *file, VaeError *error);

VaeStatus vae_safetensors_need(const uint8_t *bytes, size_t size,
                               uint64_t total, const char *label,
                               uint64_t *need, VaeError *error);
VaeStatus vae_safetensors_parse(VaeTensorFile *file, VaeError *error);

/* A zip archive as torch.save() writes it: all of the file is its header. */
bool vae_torch_is(const uint8_t *bytes, size_t size);
VaeStatus vae_torch_need(uint64_t total, const char *label, uint64_t *need,
                         VaeError *error);
VaeStatus vae_torch_parse(VaeTensorFile *file, VaeError *error);

/* JSON that names the shards of weights beside the file, which are opened. */
bool vae_index_is(const uint8_t *bytes, size_t size);
VaeStatus vae_index_parse(VaeTensorFile *file, VaeError *error);

/* A safetensors file that is no symbolic link. */
VaeStatus vae_tensor_file_open_shard(const char *path, VaeTensorFile **out,
                                     VaeError *error);

/* The weights in a model's folder; vae_mem_free() releases *out. */
VaeStatus vae_folder_find(const char *folder, char **out, VaeError *error);

/* Maps all of a regular file that is not empty; flags go to open(), too. The
 * caller unmaps. */
VaeStatus vae_file_map(const char *path, int flags, void **map, size_t *size,
                       VaeError *error);

/* config.json in the folder of a file of weights, NULL where there is none. The
 * caller releases *out. */
VaeStatus vae_config_load(const char *weights, json_t **out, VaeError *error);

/* Reads an object or array with limits on its nesting and on what it makes the
 * JSON reader take. part: what of the file named by label it is, "header: ", or
 * "". The caller releases *out. */
VaeStatus vae_json_load(const char *text, size_t n, const char *label,
                        const char *part, json_t **out, VaeError *error);

#endif
