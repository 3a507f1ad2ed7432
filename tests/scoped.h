/*
 * scoped.h: variables that are freed at the end of their block, the last one
 * first.
 *
 *     SCOPED_STREAM VaeStream *stream = ...;
 */
#ifndef VAE_TEST_SCOPED_H
#define VAE_TEST_SCOPED_H

#include <stdlib.h>

static inline void
scoped_free(void *block)
{
    free(*(void **) block);
}

#define SCOPED_BLOCK __attribute__((cleanup(scoped_free)))
#define SCOPED_CLIP __attribute__((cleanup(clip_free)))
#define SCOPED_CLIPS __attribute__((cleanup(close_clips)))
#define SCOPED_FILE __attribute__((cleanup(vae_tensor_file_free)))
#define SCOPED_MODEL __attribute__((cleanup(vae_model_free)))
#define SCOPED_STREAM __attribute__((cleanup(vae_stream_free)))

#endif
