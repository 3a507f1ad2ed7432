/*
 * An application outside the tree: it sees only what is installed, decodes the
 * file of latents that argv[2] names with the model argv[1], and prints how
 * many frames there were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vae/vae.h>

enum { FRAMES = 16 }; /* at most this many a step */

/* Decodes all of the clip; returns the number of frames, or -1. */
static int
decode(VaeStream *stream, const VaeLatentClip *clip, int width, int height,
       VaeError *error)
{
    const size_t bytes = (size_t) width * height * 3;
    uint8_t *pixels = malloc(FRAMES * bytes);
    void *data = malloc((size_t) clip->channels * clip->height * clip->width *
                        vae_type_size(clip->type));
    const VaeLatentIn latent = {.type = clip->type, .data = data};
    int frames = 0;

    for (int k = 0; k < clip->t; k++) {
        int n_in, n_out;
        VaePicture pictures[FRAMES];
        vae_stream_count(stream, 1, &n_in, &n_out);
        for (int i = 0; i < n_out; i++)
            pictures[i] = (VaePicture){.pixels = VAE_PIXELS_RGB,
                                       .width = width,
                                       .height = height,
                                       .data = {pixels + i * bytes},
                                       .stride = {width * 3}};
        vae_latent_clip_read(clip, k, data);
        if (vae_stream_decode(stream, &latent, n_in, pictures, n_out, error)) {
            frames = -1;
            break;
        }
        frames += n_out;
    }
    free(data);
    free(pixels);
    return frames;
}

int
main(int argc, char **argv)
{
    VaeError error = {0};
    VaeModel *model = NULL;
    VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    VaeStream *stream = NULL;
    int frames = -1;

    if (argc != 3 || !VAE_CHECK_VERSION(0, 1, 0))
        return 2;
    if (!vae_model_open(argv[1], NULL, &model, &error) &&
        !vae_tensor_file_open(argv[2], &file, &error) &&
        !vae_latent_clip_find(file, NULL, &clip, &error)) {
        VaeStreamParams params = VAE_INIT(VaeStreamParams);
        params.direction = VAE_DECODE;
        params.backend = VAE_BACKEND_REF;
        params.width = clip.width_px;
        params.height = clip.height_px;
        params.slice_size = 1;
        params.device = -1;
        if (!vae_stream_new(model, &params, &stream, &error))
            frames =
                decode(stream, &clip, clip.width_px, clip.height_px, &error);
    }
    if (frames < 0)
        fprintf(stderr, "%s\n", error.message);
    else
        printf("%d frames\n", frames);
    vae_stream_free(&stream);
    vae_tensor_file_free(&file);
    vae_model_free(&model);
    return frames < 0;
}
