/*
 * vae/tensors.h: named tensors in files.
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

typedef struct VaeTensorInfo {
    const char *name;
    VaeType type;
    bool supported;        /* false: type is none of VaeType, see type_name */
    const char *type_name; /* as the file writes it: "BF16", "I64", "<f4" */
    int n_dims;            /* 0 for a scalar */
    int64_t dims[8];       /* n_dims of them */
    uint64_t offset;       /* of the first byte, from the start of its file */
    uint64_t bytes;        /* elements times size */
    const void *data;      /* NULL where only the header was given */
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
 * the folder or in vae/ in it; the error of a file that cannot be read names
 * it.
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

/* NULL is fine; clears the pointer. */
VAE_API void vae_tensor_file_free(VaeTensorFile **file);

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

/* A text of a file, by its key. */
typedef struct VaeMetadata {
    const char *key, *value;
} VaeMetadata;

#ifdef __cplusplus
}
#endif
#endif
