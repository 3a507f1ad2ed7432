/*
 * vae-private/tensors.h: tensor files written, and read in parts.
 */
#ifndef VAE_PRIVATE_TENSORS_H
#define VAE_PRIVATE_TENSORS_H

#include "vae-private/types.h"
#include "vae/latents.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_MAX_DIMS 8
#define VAE_MAX_HEADER ((size_t) 100 << 20) /* as the format's own library */
static_assert(sizeof(((VaeTensorInfo *) 0)->dims) ==
                  VAE_MAX_DIMS * sizeof(int64_t),
              "the public header states VAE_MAX_DIMS");

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

/* The file, or the one of a folder that was opened. */
VAE_API const char *vae_tensor_file_name(const VaeTensorFile *file);

/* Entry i of __metadata__, in the file's order; of shards those of the first
 * that has any. False past the end. Owned by the file. */
VAE_API bool vae_tensor_file_metadata_at(const VaeTensorFile *file, size_t i,
                                         VaeMetadata *out);

/*
 * The frame rate of the video that a file of latents or of frames states as
 * vae.framerate, "16/1"; *n is 0 where it states none, or that it varies.
 * VAE_ERR_FORMAT where it states something else; both are then 0.
 */
VAE_API VaeStatus vae_tensor_file_framerate(const VaeTensorFile *file, int *n,
                                            int *d, VaeError *error);

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
 * order and packed from its end. *out is malloc'ed, the caller frees it. Errors
 * as in vae_tensor_file_write(), without a file's name.
 */
typedef struct VaeTensorHeader {
    const VaeTensorOut *tensors; /* their data is not looked at */
    size_t n;
    const VaeMetadata *metadata;
    size_t n_metadata;
    size_t pad_to; /* bytes that the header takes, or fails with VAE_ERR_SIZE;
                      0: as many as it needs */
} VaeTensorHeader;
VAE_API VaeStatus vae_tensor_header_make(const VaeTensorHeader *header,
                                         void **out, size_t *size,
                                         VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
