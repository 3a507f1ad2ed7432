/*
 * vae-private/tensors.h: writes tensor files, and reads headers and sequences.
 */
#ifndef VAE_PRIVATE_TENSORS_H
#define VAE_PRIVATE_TENSORS_H

#include "vae-private/counts.h"
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
 * Writes to *need how many bytes from the start of the file
 * vae_tensor_file_open_memory() needs for the header. This needs the first 16
 * bytes; with fewer, *need is at most 16. total: length of the file, or
 * UINT64_MAX if it is not known. A PyTorch file has its directory at its end,
 * so *need is total, at most 1 GiB.
 */
VAE_API VaeStatus vae_tensor_header_size(const void *bytes, size_t size,
                                         uint64_t total, const char *name,
                                         uint64_t *need, VaeError *error);

VAE_API size_t vae_tensor_file_count(const VaeTensorFile *file);

/* " (looks like model weights)", "frames" or "latents", by the names and shapes
 * of the tensors, for messages; otherwise "". */
VAE_API const char *vae_tensor_file_looks_like(const VaeTensorFile *file);

/* Bytes for the names of vae_tensor_file_names(). */
#define VAE_NAMES 700

/* Writes '"a" 1x2, "b" 3 and 7 more', or "no tensor". Returns text. */
VAE_API const char *vae_tensor_file_names(const VaeTensorFile *file,
                                          char text[VAE_NAMES]);

/* Fails with VAE_ERR_FORMAT and the reason why the elements of the tensor are
 * not read: they are not contiguous, or have another type than the expected
 * ones. advice: what to do with such a type, or "". */
VAE_API VaeStatus vae_tensor_refuse(const VaeTensorFile *file,
                                    const VaeTensorInfo *info,
                                    const char *expected, const char *advice,
                                    VaeError *error);

/* The path of the open file. For a folder, that of the file in it. */
VAE_API const char *vae_tensor_file_name(const VaeTensorFile *file);

/* True if path leads to a file that the tensors come from: the one that was
 * opened, its shards or the files of a folder. */
VAE_API bool vae_tensor_file_is_from(const VaeTensorFile *file,
                                     const char *path);

/* Writes entry i of __metadata__ to *out, in the order of the file; false if
 * there is none. Shards give the entries of the first one that has any. Owned
 * by the file. */
VAE_API bool vae_tensor_file_metadata_at(const VaeTensorFile *file, size_t i,
                                         VaeMetadata *out);

/*
 * Reads the frame rate from the metadata vae.framerate, "16/1", of a file of
 * latents or frames. *n is 0 if there is none, or if the rate varies. Any other
 * text sets both to 0, and is VAE_ERR_FORMAT unless options, which may be NULL,
 * override it.
 */
VAE_API VaeStatus vae_tensor_file_framerate(const VaeTensorFile *file,
                                            const VaeLatentOptions *options,
                                            int *n, int *d, VaeError *error);

/*
 * A file of latents may hold several sequences; each one is decoded without the
 * latents before it. The tensor VAE_SEQUENCES, U8 [n, VAE_SEQUENCE_ROW], then
 * has two little-endian 64-bit integers for each one: its first latent, and the
 * number of its frames. The last frames of its last latent may be missing.
 */
#define VAE_SEQUENCES "latent_sequences"
#define VAE_SEQUENCE_ROW 16

typedef struct VaeLatentSequence {
    int64_t first, latents, frames;
    int64_t before; /* frames of the sequences before it */
} VaeLatentSequence;

/* *table is NULL if the clip is one sequence. Errors: VAE_ERR_FORMAT (the table
 * has another type or shape). */
VAE_API VaeStatus vae_latent_sequences_find(const VaeTensorFile *file,
                                            const VaeLatentClip *clip,
                                            const VaeTensorInfo **table,
                                            VaeError *error);
/*
 * Writes the table's n sequences to out. rows: the bytes of the table. Errors:
 * VAE_ERR_FORMAT (a sequence begins or ends where it cannot).
 */
VAE_API VaeStatus vae_latent_sequences_parse(const VaeTensorFile *file,
                                             const VaeLatentClip *clip,
                                             const void *rows, VaeCounts counts,
                                             VaeLatentSequence *out,
                                             VaeError *error);

/* Returns the layout that was taken, "cthw" or "tchw". With one channel or one
 * latent both have the same bytes. */
VAE_API const char *vae_layout_name(const VaeLatentClip *clip);

/* Returns true, and writes a sentence for the user, if the layout of the clip
 * is a guess. */
VAE_API bool vae_layout_doubt(const VaeLatentClip *clip, char *text,
                              size_t size);

/* True if nothing states the normalization, and no other warning says so. */
VAE_API bool vae_normalization_assumed(const VaeLatentClip *clip);

/* Returns true, and writes a sentence for the user, if the file states times or
 * an orientation, and frames that are written to `out` have none. */
VAE_API bool vae_latents_lost(const VaeTensorFile *file, const char *out,
                              bool keeps_orientation, char *text, size_t size);

/* Reads "auto", "cthw" or "tchw", the last two also with the batch as "b". */
VAE_API bool vae_layout_parse(const char *word, VaeLatentLayout *out);

/* Writes "1x16x3x60x104" to buffer, for messages. Returns buffer. */
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
 * Writes a safetensors file under a temporary name beside path, then renames
 * it. A failure leaves an old file unchanged and no incomplete file. Follows a
 * symbolic link. Refuses to replace anything but a regular file.
 *
 * Errors: VAE_ERR_WRITE, VAE_ERR_NO_SPACE, VAE_ERR_MEMORY, VAE_ERR_ARGUMENT (a
 * name that occurs twice, is empty or is not UTF-8; an impossible shape),
 * VAE_ERR_SIZE (a header of more than VAE_MAX_HEADER bytes).
 */
VAE_API VaeStatus vae_tensor_file_write(const char *path,
                                        const VaeTensorOut *tensors, size_t n,
                                        const VaeMetadata *metadata,
                                        size_t n_metadata, VaeError *error);

/* The content of a header. The tensors follow it in order, packed. */
typedef struct VaeTensorHeader {
    const VaeTensorOut *tensors; /* their data is not read */
    size_t n;
    const VaeMetadata *metadata;
    size_t n_metadata;
    size_t pad_to; /* size of the header in bytes; VAE_ERR_SIZE if it does not
                      fit. 0: as many as it needs */
} VaeTensorHeader;
/* Makes a header: 8 bytes of length, and JSON that is padded with spaces. The
 * caller releases *out with free(). Errors: as vae_tensor_file_write(), without
 * the name of a file. */
VAE_API VaeStatus vae_tensor_header_make(const VaeTensorHeader *header,
                                         void **out, size_t *size,
                                         VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
