/*
 * minimal.c: a decoder by libvae alone.
 *
 *   minimal MODEL LATENTS >frames.rgb
 *
 * The frames are packed RGB, one after another. A file that states its size in
 * pixels, as files of latentmux do, gives frames of this size. docs/library.md
 * explains each call.
 *
 *   cc minimal.c $(pkg-config --cflags --libs libvae) -o minimal
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <vae/vae.h>

int
main(int argc, char **argv)
{
    VaeError e = {.message = "usage: minimal MODEL LATENTS"};
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    VaeStreamParams params = VAE_INIT(VaeStreamParams);
    VaeModel *model;
    VaeTensorFile *file;
    VaeStream *s;
    if (argc != 3 || vae_model_open(argv[1], NULL, &model, &e) ||
        vae_tensor_file_open(argv[2], &file, &e) ||
        vae_latent_clip_find(file, NULL, &clip, &e))
        errx(1, "%s", e.message);
    const int scale = vae_model_info(model)->spatial;
    const int w = clip.width_px ? clip.width_px : clip.width * scale;
    const int h = clip.height_px ? clip.height_px : clip.height * scale;
    params.width = w, params.height = h;
    params.normalization = clip.normalization;
    if (vae_stream_new(model, &params, &s, &e))
        errx(1, "%s", e.message);
    VaePicture p = {.pixels = VAE_PIXELS_RGB, .width = w, .height = h};
    p.data[0] = (uint8_t *) malloc((size_t) w * h * 3), p.stride[0] = 3 * w;
    for (int k = 0, r; (r = vae_stream_receive_picture(s, &p, &e)) != VAE_END;)
        if (r == VAE_OK)
            fwrite(p.data[0], 3, (size_t) w * h, stdout);
        else if (r != VAE_AGAIN || vae_stream_send_clip(s, &clip, k++, &e))
            errx(1, "%s", e.message);
    free(p.data[0]), vae_stream_free(&s);
    vae_tensor_file_free(&file), vae_model_free(&model);
}
