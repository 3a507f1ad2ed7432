/*
 * fuzz.h: functions that the fuzz targets share to read their input as a file.
 */
#ifndef VAE_FUZZ_H
#define VAE_FUZZ_H

#include <stdlib.h>
#include <string.h>

#include "vae-private/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Uses the bytes that were read, so that the compiler keeps the reads. */
static volatile unsigned fuzz_sum;

static inline void
fuzz_latents(const VaeTensorFile *file)
{
    for (int batch = -1; batch < 2; batch++) {
        const VaeLatentOptions options = {
            .struct_size = sizeof(VaeLatentOptions), .batch_index = batch};
        VaeLatentClip clip = VAE_INIT(VaeLatentClip);
        VaeError error;
        if (vae_latent_clip_find(file, &options, &clip, &error) != VAE_OK)
            continue;
        const size_t bytes = (size_t) clip.channels * (size_t) clip.height *
                             (size_t) clip.width * vae_type_size(clip.type);
        uint8_t *latent = clip.data != NULL ? malloc(bytes) : NULL;
        if (latent != NULL) {
            vae_latent_clip_read(&clip, 0, latent);
            vae_latent_clip_read(&clip, clip.t - 1, latent);
            fuzz_sum += latent[bytes - 1];
        }
        free(latent);
    }
}

/* Reads every tensor and all metadata of an accepted file. */
static inline void
fuzz_use(const VaeTensorFile *file)
{
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        const uint8_t *p = t->data;
        if (p != NULL && t->bytes > 0)
            fuzz_sum += p[0] + p[t->bytes / 2] + p[t->bytes - 1];
        if (vae_tensor_file_find(file, t->name) != t ||
            strlen(t->type_name) == 0)
            abort();
    }
    fuzz_latents(file);
}

/* A refusal has an error text. A success has a file. */
static inline void
fuzz_result(VaeStatus status, const VaeError *error, VaeTensorFile **file)
{
    if (status != VAE_OK &&
        (*file != NULL || error->status != status || error->message[0] == '\0'))
        abort();
    if (status == VAE_OK)
        fuzz_use(*file);
    vae_tensor_file_free(file);
}

/* Opens the bytes as a whole file and as the beginning of a longer one. */
static inline int
fuzz_bytes(const uint8_t *data, size_t size)
{
    const uint64_t totals[] = {size, size + 100, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        VaeError error = {0};
        VaeTensorFile *file;
        uint64_t need;
        vae_tensor_header_size(data, size, totals[i], "x", &need, NULL);
        const VaeStatus status = vae_tensor_file_open_memory(
            data, size, totals[i], "x", &file, &error);
        fuzz_result(status, &error, &file);
    }
    return 0;
}

#endif
