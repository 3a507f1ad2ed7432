/*
 * vae/tensors.h: named tensors in files, read and written.
 *
 * Reads safetensors (F32, F16, BF16, U8; others are listed as unsupported
 * when asked for), npy (one tensor named "npy"; little endian, C order, f4, f2,
 * u1) and what torch.save() writes since PyTorch 1.6 (.pth, .pt). The format is
 * told by content, never by the file's name. Nothing in a file is trusted:
 * lengths, offsets, overlaps, shapes times size, duplicate names and depth of
 * nesting are checked before use.
 *
 * Of a PyTorch file the tensors of its dict are read, or of the one dict of
 * tensors that it holds under a usual key ("state_dict", "model", ...); a
 * tensor alone is named "latent". Other values of a dict are passed over.
 * Nothing is executed: whatever opcode or global tensors do not need is refused
 * by its name. Tensors must be contiguous and may share bytes.
 */
#ifndef VAE_TENSORS_H
#define VAE_TENSORS_H

#include "vae/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_MAX_DIMS 8
#define VAE_MAX_HEADER ((size_t) 100 << 20) /* as the format's own library */

typedef struct VaeTensorInfo {
    const char *name;
    VaeType type;
    bool supported;        /* false: type is none of VaeType, see type_name */
    const char *type_name; /* as the file writes it: "BF16", "I64", "<f4" */
    int n_dims;            /* 0 for a scalar */
    int64_t dims[VAE_MAX_DIMS];
    uint64_t offset;  /* of the first byte, from the start of its file */
    uint64_t bytes;   /* elements times size */
    const void *data; /* NULL where only the header was given */
} VaeTensorInfo;

typedef struct VaeTensorFile VaeTensorFile;

/*
 * Maps the file and reads its header. The mapping lives until
 * vae_tensor_file_free(). A file that shrinks under the mapping is the
 * caller's risk, as with every mapped file.
 *
 * An index of shards (*.safetensors.index.json) opens all of them, which lie
 * beside it and are no symbolic links, as one file. Of a folder
 * diffusion_pytorch_model.safetensors is opened, or the index of that name, in
 * the folder or in vae/ in it; vae_tensor_file_name() says which.
 *
 * Errors: VAE_ERR_NOT_FOUND, VAE_ERR_READ, VAE_ERR_FORMAT, VAE_ERR_MEMORY.
 */
VAE_API VaeStatus vae_tensor_file_open(const char *path, VaeTensorFile **out,
                                       VaeError *error);

/*
 * The same over bytes that the caller keeps alive. `size` bytes are at hand
 * of a file of `total` bytes; with size < total every VaeTensorInfo.data is
 * NULL. total may be UINT64_MAX when the length is not known: then nothing is
 * held against the end of the file. name stands in error messages. A PyTorch
 * file wants all its bytes and a known length; an index of shards only
 * vae_tensor_file_open() reads.
 */
VAE_API VaeStatus vae_tensor_file_open_memory(const void *bytes, size_t size,
                                              uint64_t total, const char *name,
                                              VaeTensorFile **out,
                                              VaeError *error);

/*
 * How many bytes from the start of the file open_memory() needs for the
 * header, told from the first bytes (16 are always enough to tell; with fewer
 * *need is what is needed to tell). total may be UINT64_MAX when the length is
 * not known. Of a PyTorch file *need is total, at most 1 GiB: its directory is
 * at its end.
 */
VAE_API VaeStatus vae_tensor_header_size(const void *bytes, size_t size,
                                         uint64_t total, const char *name,
                                         uint64_t *need, VaeError *error);

/* NULL is fine; clears the pointer. */
VAE_API void vae_tensor_file_free(VaeTensorFile **file);

VAE_API const char *vae_tensor_file_name(const VaeTensorFile *file);
VAE_API size_t vae_tensor_file_count(const VaeTensorFile *file);
/* In file order of the header; i < count. Owned by the file. */
VAE_API const VaeTensorInfo *vae_tensor_file_at(const VaeTensorFile *file,
                                                size_t i);
/* By exact name; NULL where there is none. O(log n). */
VAE_API const VaeTensorInfo *vae_tensor_file_find(const VaeTensorFile *file,
                                                  const char *name);
/* The string under key in __metadata__, or NULL. */
VAE_API const char *vae_tensor_file_metadata(const VaeTensorFile *file,
                                             const char *key);

typedef struct VaeMetadata {
    const char *key, *value;
} VaeMetadata;

/* Entry i of __metadata__, in the file's order; of shards those of the first
 * that has any. False past the end. Owned by the file. */
VAE_API bool vae_tensor_file_metadata_at(const VaeTensorFile *file, size_t i,
                                         VaeMetadata *out);

/* "1x16x3x60x104", for messages. Returns buffer. */
VAE_API const char *vae_dims_text(const int64_t *dims, int n, char *buffer,
                                  size_t size);

typedef struct VaeTensorOut {
    const char *name;
    VaeType type;
    int n_dims;
    int64_t dims[VAE_MAX_DIMS];
    const void *data;
} VaeTensorOut;

/*
 * Writes a safetensors file: to a temporary name beside path, then renamed,
 * so that a failure leaves no half file and an old one intact. A link is
 * followed; what is no regular file is not replaced.
 * Errors: VAE_ERR_WRITE, VAE_ERR_NO_SPACE, VAE_ERR_MEMORY, VAE_ERR_ARGUMENT (a
 * name twice, empty or no UTF-8; a shape of no sense), VAE_ERR_SIZE (more than
 * VAE_MAX_HEADER bytes of header).
 */
VAE_API VaeStatus vae_tensor_file_write(const char *path,
                                        const VaeTensorOut *tensors, size_t n,
                                        const VaeMetadata *metadata,
                                        size_t n_metadata, VaeError *error);

/*
 * The header alone (8-byte length and JSON padded with spaces), tensors in
 * order and packed from its end. With pad_to > 0 the header takes exactly
 * pad_to bytes, or fails with VAE_ERR_SIZE. *out is malloc'ed, the caller
 * frees it. data in tensors is not looked at. Errors as in
 * vae_tensor_file_write(), without a file's name.
 */
VAE_API VaeStatus vae_tensor_header_make(const VaeTensorOut *tensors, size_t n,
                                         const VaeMetadata *metadata,
                                         size_t n_metadata, size_t pad_to,
                                         void **out, size_t *size,
                                         VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
