/*
 * files.h: shared by the readers and the writer of tensor files.
 */
#ifndef VAE_FILES_H
#define VAE_FILES_H

#include <jansson.h>

#include "vae-private/tensors.h"
#include "vae/model.h"

/* The first bytes of a file: enough to know its format and header length. */
#define VAE_FILE_HEAD 16
/* The `total` of a file whose length is not known. */
#define VAE_TOTAL_UNKNOWN UINT64_MAX
#define VAE_MAX_LATENTS (1 << 24) /* in a file */
/* Messages show at most this many bytes of a name from a file ("%.*s"), so that
 * the rest of the message fits. */
#define VAE_NAME_SHOWN 160
#define VAE_MAX_PREFIX 64

struct VaeTensorFile {
    char *name;
    const char *label; /* name for messages: the end of a long one */
    const uint8_t *bytes;
    size_t size;    /* of bytes */
    uint64_t total; /* size of the file, or VAE_TOTAL_UNKNOWN */
    void *map;      /* NULL: the bytes belong to the caller */
    int fd;         /* of the file at map */
    bool fetches;   /* at map is memory that is read into, no mapping */
    json_t *header; /* safetensors: owns names, type names, metadata */
    char *names;    /* PyTorch: owns the names */
    json_t *metadata;
    char npy_type[8];
    VaeTensorInfo *tensors;
    size_t n_tensors;
    const VaeTensorInfo **sorted; /* by name */
    VaeTensorFile **shards;       /* of an index; they own the tensors */
    size_t n_shards;
    const VaeTensorList *source; /* while it is opened: of the tensors */
    char prefix[VAE_MAX_PREFIX]; /* of a part; its one shard is the whole */
};

/*
 * Reads a tensor into memory at t->data, where it stays until
 * vae_tensor_file_drop(). The file is not mapped any more: from the first call
 * on, only fetched tensors have their data. A mapped file that is cut short
 * would end the process by SIGBUS; here it is VAE_ERR_READ. The caller has a
 * lock: no other thread may read, fetch or drop a tensor of the file.
 */
VaeStatus vae_tensor_file_fetch(const VaeTensorFile *file,
                                const VaeTensorInfo *t, VaeError *error);
/* Frees the memory of a fetched tensor. */
void vae_tensor_file_drop(const VaeTensorFile *file, const VaeTensorInfo *t);
/* Copies n bytes of a tensor, starting at `from`, to dst. Any thread may call.
 * Errors: VAE_ERR_READ, if the file was cut short. */
VaeStatus vae_tensor_file_read(const VaeTensorFile *file,
                               const VaeTensorInfo *t, uint64_t from, void *dst,
                               size_t n, VaeError *error);

/* Finds the tensor that options->tensor names, or that may be latents. Warns if
 * others of the file may be, too. */
VaeStatus vae_latent_tensor_select(const VaeTensorFile *file,
                                   const VaeLatentOptions *options,
                                   const VaeTensorInfo **out, VaeError *error);

/* Finds the next prefix of a VAE's tensors, such as "vae.". *at and prefix
 * begin as 0 and "". */
bool vae_tensor_file_next_prefix(const VaeTensorFile *file, size_t *at,
                                 char prefix[VAE_MAX_PREFIX]);
/* The same for any other prefix before "decoder.". */
bool vae_tensor_file_next_unknown(const VaeTensorFile *file, size_t *at,
                                  char prefix[VAE_MAX_PREFIX]);
/* Writes "; ..." that names a prefix before "encoder." or "decoder." which is
 * not known, and those that are, or "". Returns text. */
const char *vae_tensor_file_prefix_advice(const VaeTensorFile *file, char *text,
                                          size_t size);
/* Makes a file of the tensors with that prefix, under their names without it;
 * "": of those without one. It owns the whole file. */
VaeStatus vae_tensor_file_part(VaeTensorFile *whole, const char *prefix,
                               VaeTensorFile **out, VaeError *error);
/* The same of all tensors, with half, such as "decoder.", before their names.
 */
VaeStatus vae_tensor_file_half(VaeTensorFile *whole, const char *half,
                               VaeTensorFile **out, VaeError *error);
/* Frees a part or half, but not the whole file, which it returns. */
VaeTensorFile *vae_tensor_file_whole(VaeTensorFile *part);

/* True if the name of some tensor begins with prefix. */
bool vae_tensor_file_has_prefix(const VaeTensorFile *file, const char *prefix);

/* The part of name that messages show: the end of a long one. */
const char *vae_file_label(const char *name);

/* Copies text to buffer (size > 0), cut to its size; bytes that are not
 * printable ASCII become '?'. Returns buffer. */
const char *vae_shown(const char *text, size_t n, char *buffer, size_t size);

/*
 * Like vae_tensor_file_write(), for a file that is written repeatedly. The
 * temporary file is always path.tmp, so that a killed process leaves at most
 * one. The folder is synced to disk, too.
 */
VaeStatus vae_tensor_file_rewrite(const char *path, const VaeTensorOut *tensors,
                                  size_t n, const VaeMetadata *metadata,
                                  size_t n_metadata, VaeError *error);

/* Fails: `what` reaches past the end of a file of `total` bytes, which would
 * need `expected` bytes. tensor: its name, or "". */
VaeStatus vae_file_too_short(const char *label, const char *tensor,
                             const char *what, uint64_t total,
                             uint64_t expected, VaeError *error);

/* The product of dims, each >= 0; false if it overflows 64 bits. */
bool vae_dims_count(const int64_t *dims, int n, uint64_t *count);

/* Sorts the tensors by name. Fails if a name appears twice. */
VaeStatus vae_tensor_file_sort(VaeTensorFile *file, VaeError *error);

/* Makes a file without tensors, with room for shards. */
VaeStatus vae_tensor_file_new(const char *name, size_t n_shards,
                              VaeTensorFile **out, VaeError *error);
/* Allocates the list of n tensors. */
VaeStatus vae_tensor_file_room(VaeTensorFile *file, size_t n, VaeError *error);

/*
 * One pair for each format. *_need gives the header's size from the file's
 * first VAE_FILE_HEAD bytes (fewer in a shorter file). *_parse fills the
 * tensors from bytes, which must hold the whole header.
 */
bool vae_npy_is(const uint8_t *bytes, size_t size);
VaeStatus vae_npy_need(const uint8_t *bytes, size_t size, uint64_t total,
                       const char *label, uint64_t *need, VaeError *error);
VaeStatus vae_npy_parse(VaeTensorFile *file, VaeError *error);

/* Names the other format that the first bytes show, such as "a text file", or
 * returns NULL. *advice: "; ..." what to do with one, if anything is known. */
const char *vae_file_other(const uint8_t *bytes, size_t size,
                           const char **advice);
VaeStatus vae_safetensors_need(const uint8_t *bytes, size_t size,
                               uint64_t total, const char *label,
                               uint64_t *need, VaeError *error);
VaeStatus vae_safetensors_parse(VaeTensorFile *file, VaeError *error);

/* A zip archive as torch.save() writes it; the header is the whole file. */
bool vae_torch_is(const uint8_t *bytes, size_t size);
VaeStatus vae_torch_need(uint64_t total, const char *label, uint64_t *need,
                         VaeError *error);
VaeStatus vae_torch_parse(VaeTensorFile *file, VaeError *error);

/* The tensors that file->source describes. */
VaeStatus vae_source_parse(VaeTensorFile *file, VaeError *error);
/* Opens them. The source is complete, and has a name. */
VaeStatus vae_tensor_file_open_source(const VaeTensorList *source,
                                      VaeTensorFile **out, VaeError *error);

/* An index: JSON that names shards in the same folder. Opens each with open().
 */
typedef VaeStatus (*VaeOpenShard)(const char *path, VaeTensorFile **out,
                                  VaeError *error);
bool vae_index_is(const uint8_t *bytes, size_t size);
VaeStatus vae_index_parse(VaeTensorFile *file, VaeOpenShard open,
                          VaeError *error);

/* If the name is that of shard k of n, returns the end of what all have in
 * common, else NULL. */
const char *vae_index_shard(const char *name, int *k, int *n);
/* Replaces the error of weights that do not fit, if the name of the file says
 * that it is one of several shards. Returns status. */
VaeStatus vae_index_check_shard(const char *path, VaeStatus status,
                                VaeError *error);

/* Two files of one model, "ENCODER,DECODER". Sets *first, which the caller
 * frees with vae_mem_free(), and *second after it; *first is NULL if path is
 * the name of one file. */
VaeStatus vae_pair_split(const char *path, char **first, const char **second,
                         VaeError *error);
/* Counts the pairs of files that differ in the words encoder and decoder, or
 * the only file with each word, and writes "ENCODER,DECODER" of one to out. */
int vae_pair_in_folder(const char *folder, char *out, size_t size);
/* Opens both. If the names of the tensors do not say the half, those of the
 * files must; the tensors get it as prefix. */
VaeStatus vae_pair_open(const char *first, const char *second,
                        VaeOpenShard open, VaeTensorFile **out,
                        VaeError *error);

/* Finds the weights in a model's folder, one file or "ENCODER,DECODER"; the
 * caller frees *out with vae_mem_free(). */
VaeStatus vae_folder_find(const char *folder, char **out, VaeError *error);

/* True if the name ends as those of weights do. */
bool vae_folder_is_weights(const char *name);

/*
 * Opens a regular file that is not empty, as vae_file_end() closes it.
 * out->bytes has the file's size, and no contents before vae_file_bytes(): a
 * mapped file that is cut short while it is parsed would end the process by
 * SIGBUS. out borrows path.
 */
VaeStatus vae_file_begin(const char *path, VaeTensorFile *out, VaeError *error);
void vae_file_end(const VaeTensorFile *file);
/* Fails if the path is a symbolic link without a target. */
VaeStatus vae_file_check_link(const char *path, VaeError *error);
/* True for a regular file, and for a link without a target: whoever opens it
 * then gets the error that names the link. */
bool vae_file_is_there(const char *path);
/* Fails because of errno: "cannot `what`". */
VaeStatus vae_file_fail(const char *path, const char *what, VaeError *error);
/* Reads these bytes, so that they can be parsed; does nothing if the bytes
 * belong to the caller. Errors: VAE_ERR_READ, if the file was cut short. */
VaeStatus vae_file_bytes(const VaeTensorFile *file, uint64_t from, uint64_t n,
                         VaeError *error);
/* Maps the file that was parsed in place of the memory. */
VaeStatus vae_file_map(VaeTensorFile *file, VaeError *error);

/* Reads config.json in the folder of the weights; *out is NULL if there is
 * none. The caller releases *out. */
VaeStatus vae_config_load(const char *weights, json_t **out, VaeError *error);

/* Reads a JSON object or array, with limits on its nesting and on the memory
 * that reading takes. Messages begin with label and part; part is "header: " or
 * "". The caller releases *out. */
VaeStatus vae_json_load(const char *text, size_t n, const char *label,
                        const char *part, json_t **out, VaeError *error);

/* What to do with a tensor whose elements are not contiguous. */
#define VAE_STRIDED "(save it after .contiguous())"

#endif
