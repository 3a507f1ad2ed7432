/*
 * vae/tensors.h: named tensors in files.
 *
 * Formats:
 *
 * - safetensors: F32, F16, BF16 and U8; tensors of other types are listed with
 *   `supported` false
 * - npy: one tensor named "npy"; little endian, C order, f4, f2 or u1
 * - files of torch.save() since PyTorch 1.6 (.pth, .pt)
 *
 * The content decides the format, not the file's name. The reader trusts
 * nothing in a file. It checks lengths, offsets, overlaps, sizes of shapes,
 * duplicate names and the depth of nesting before it uses them.
 *
 * A PyTorch file has one of three things: a dict of tensors; a dict with such a
 * dict under a usual key ("state_dict", "model", ...); a single tensor, which
 * gets the name "latent". The reader ignores other values of the dict. The
 * reader executes nothing. It refuses instructions and classes of Python's
 * pickle that tensors do not need, and the error names them. Tensors must be
 * contiguous. Several tensors may share bytes.
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
    bool supported;        /* false: type is not valid, see type_name */
    const char *type_name; /* as in the file: "BF16", "I64", "<f4" */
    int n_dims;            /* 0 for a scalar */
    int64_t dims[8];       /* n_dims of them */
    uint64_t offset;       /* of the first byte, from the start of the file */
    uint64_t bytes;        /* number of elements times their size */
    const void *data;      /* NULL if only the header is in memory */
    bool strided; /* its elements are not contiguous, so supported is false */
} VaeTensorInfo;

typedef struct VaeTensorFile VaeTensorFile;

/*
 * Maps a file and reads its header. *out is NULL after an error. The mapping
 * exists until vae_tensor_file_free(). Do not shorten the file during that
 * time: a read after its new end ends the process.
 *
 * path may also name
 *
 * - an index of shards (*.safetensors.index.json). Shards are the files of one
 *   set of tensors. All of them open as one file. They must be in the folder of
 *   the index. They may be symbolic links to files there, or to files in the
 *   cache of huggingface_hub that has the index
 * - a folder with diffusion_pytorch_model.safetensors, its variant .fp16 or
 *   .bf16, or the index of one of these; all may also be in its subfolder vae/
 *
 * The error names the file that cannot be read.
 *
 * Errors: VAE_ERR_NOT_FOUND, VAE_ERR_READ, VAE_ERR_FORMAT, VAE_ERR_MEMORY.
 */
VAE_API VaeStatus vae_tensor_file_open(const char *path, VaeTensorFile **out,
                                       VaeError *error);

/*
 * Opens a file in memory. The caller keeps the bytes valid until
 * vae_tensor_file_free().
 *
 * bytes  the first `size` bytes of the file
 * total  length of the whole file. If size < total, every VaeTensorInfo.data is
 *        NULL. UINT64_MAX: the length is not known, so the reader does not
 *        check offsets against it
 * name   name of the file in error messages; NULL selects "tensors"
 *
 * A PyTorch file needs all bytes and a known length. Only
 * vae_tensor_file_open() reads an index of shards.
 *
 * Errors: VAE_ERR_ARGUMENT (size is larger than total, or the header is not
 * complete), VAE_ERR_FORMAT, VAE_ERR_MEMORY.
 */
VAE_API VaeStatus vae_tensor_file_open_memory(const void *bytes, size_t size,
                                              uint64_t total, const char *name,
                                              VaeTensorFile **out,
                                              VaeError *error);

/* Sets *file to NULL. *file may be NULL. */
VAE_API void vae_tensor_file_free(VaeTensorFile **file);

/* Returns tensor i, from 0 on, in the order of the header, or NULL if there are
 * not so many. The file owns it. */
VAE_API const VaeTensorInfo *vae_tensor_file_at(const VaeTensorFile *file,
                                                size_t i);
/* Finds a tensor by its exact name, in O(log n). Returns NULL if there is none.
 * The file owns it. */
VAE_API const VaeTensorInfo *vae_tensor_file_find(const VaeTensorFile *file,
                                                  const char *name);
/* Returns the value of key in __metadata__, or NULL. The file owns it. */
VAE_API const char *vae_tensor_file_metadata(const VaeTensorFile *file,
                                             const char *key);

/* One entry of a file's __metadata__. */
typedef struct VaeMetadata {
    const char *key, *value;
} VaeMetadata;

#ifdef __cplusplus
}
#endif
#endif
