/*
 * minimal.c: a decoder by libvae alone.
 *
 *   minimal MODEL LATENTS >frames.rgb
 *
 * LATENTS states its size in pixels, as files of latentmux do. The frames are
 * packed RGB, one after another. docs/library.md explains each call.
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
    VaeModel *model;
    VaeTensorFile *file;
    VaeStream *s;
    if (argc != 3 || vae_model_open(argv[1], NULL, &model, &e) ||
        vae_tensor_file_open(argv[2], &file, &e) ||
        vae_latent_clip_find(file, NULL, &clip, &e))
        errx(1, "%s", e.message);
    const int w = clip.width_px, h = clip.height_px;
    VaeStreamParams params = VAE_INIT(VaeStreamParams);
    params.width = w, params.height = h;
    params.normalization = clip.normalization;
    if (vae_stream_new(model, &params, &s, &e))
        errx(1, "%s", e.message);
    const VaeModelInfo *m = vae_model_info(model);
    const VaePlan *plan = vae_stream_get_plan(s);
    if (clip.channels != m->latent_channels ||
        clip.height * m->spatial != plan->padded_height ||
        clip.width * m->spatial != plan->padded_width)
        errx(1, "%s: the latents do not fit the model and size", argv[2]);
    void *latent = calloc(clip.channels, 4 * clip.height * clip.width);
    uint8_t *rgb = (uint8_t *) calloc(w, 3 * h);
    VaePicture p = {.pixels = VAE_PIXELS_RGB, .width = w, .height = h};
    p.data[0] = rgb, p.stride[0] = 3 * w;
    int64_t left = clip.frames ? clip.frames : INT64_MAX;
    for (int k = 0, r; (r = vae_stream_receive_picture(s, &p, &e)) != VAE_END;)
        if (r == VAE_OK && left-- > 0) {
            fwrite(rgb, 3, (size_t) w * h, stdout);
        } else if (r == VAE_AGAIN) {
            VaeLatentIn in = {clip.type, latent}, *next = NULL;
            if (k < clip.t)
                vae_latent_clip_read(&clip, k++, latent), next = &in;
            if (vae_stream_send_latent(s, next, &e))
                errx(1, "%s", e.message);
        } else if (r != VAE_OK) {
            errx(1, "%s", e.message);
        }
    free(latent), free(rgb), vae_stream_free(&s);
    vae_tensor_file_free(&file), vae_model_free(&model);
}
