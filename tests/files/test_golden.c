/*
 * Opens files that other programs wrote: the test vectors that the arguments
 * name, or those in $VAE_TEST_VECTORS and $VAE_TEST_DATA/golden. The exit
 * status is 77 if there are none.
 */
#include <ftw.h>
#include <math.h>

#include "number.h"
#include "test.h"

static int seen;

static int
visit(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const size_t n = strlen(path);
    if (kind != FTW_F || n < 12 || strcmp(path + n - 12, ".safetensors") != 0)
        return 0;
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeError error = {0};
    seen++;
    const VaeStatus status = vae_tensor_file_open(path, &file, &error);
    if (status != VAE_OK) {
        check(false, "%s", error.message);
        return 0;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < vae_tensor_file_count(file); i++)
        bytes += vae_tensor_file_at(file, i)->bytes;
    const VaeTensorInfo *latent = vae_tensor_file_find(file, "latent");
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    bool good = bytes > 0 && bytes < (uint64_t) st->st_size;
    /* All files of the vectors hold latents as [C, T, H, W]. */
    if (latent != NULL)
        good = good &&
               vae_latent_clip_find(file, NULL, &clip, &error) == VAE_OK &&
               strcmp(clip.tensor, "latent") == 0 &&
               clip.channels == latent->dims[0] && clip.t == latent->dims[1];
    if (strstr(path, "/weights") != NULL)
        good = good && vae_latent_clip_find(file, NULL, &clip, &error) ==
                           VAE_ERR_NOT_FOUND;
    check(good, "%s %s", path + ftw->base, error.message);
    return 0;
}

/* Returns the correlation of two planes of n values. */
static double
correlation(const float *a, const float *b, size_t n)
{
    double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0;
    for (size_t i = 0; i < n; i++) {
        sa += a[i];
        sb += b[i];
        aa += (double) a[i] * a[i];
        bb += (double) b[i] * b[i];
        ab += (double) a[i] * b[i];
    }
    const double count = (double) n;
    return (ab - sa * sb / count) /
           sqrt((aa - sa * sa / count) * (bb - sb * sb / count));
}

/*
 * 16 latents of 16 channels: only the content shows a wrong layout. Planes of
 * one channel that are neighbours in time are similar. Planes of neighbouring
 * channels are not.
 */
static void
test_real(const char *data)
{
    char path[4096];
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    VaeError error = {0};
    snprintf(path, sizeof path, "%s/golden/real/wan21_latents.safetensors",
             data);
    if (access(path, R_OK) != 0)
        return;
    check(vae_tensor_file_open(path, &file, &error) == VAE_OK &&
              vae_latent_clip_find(file, NULL, &clip, &error) == VAE_OK,
          "real latents %s", error.message);
    if (!file || error.message[0])
        return;
    const size_t plane = (size_t) clip.height * (size_t) clip.width;
    const size_t count = plane * (size_t) clip.channels;
    SCOPED_BLOCK uint16_t *raw = malloc(count * sizeof *raw);
    SCOPED_BLOCK float *now = calloc(count, sizeof *now);
    SCOPED_BLOCK float *before = malloc(count * sizeof *before);
    double time = 0, channel = 0;
    for (int k = 0; k < clip.t; k++) {
        vae_latent_clip_read(&clip, k, raw);
        memcpy(before, now, count * sizeof *now);
        for (size_t i = 0; i < count; i++)
            now[i] = vae_from_f16(raw[i]);
        for (int c = 0; k > 0 && c < clip.channels; c++)
            time += correlation(now + plane * (size_t) c,
                                before + plane * (size_t) c, plane);
        for (int c = 1; k > 0 && c < clip.channels; c++)
            channel += fabs(correlation(now + plane * (size_t) c,
                                        now + plane * (size_t) (c - 1), plane));
    }
    time /= (clip.t - 1) * clip.channels;
    channel /= (clip.t - 1) * (clip.channels - 1);
    check(clip.type == VAE_TYPE_F16 && time > 0.8 && channel < 0.6,
          "real latents: correlation %.2f in time, %.2f among channels", time,
          channel);
}

int
main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        nftw(argv[i], visit, 16, FTW_PHYS);
    const char *folder = getenv("VAE_TEST_VECTORS");
    if (folder != NULL)
        nftw(folder, visit, 16, FTW_PHYS);
    const char *data = getenv("VAE_TEST_DATA");
    char path[4096];
    if (data != NULL) {
        snprintf(path, sizeof path, "%s/golden", data);
        nftw(path, visit, 16, FTW_PHYS);
        test_real(data);
    }
    printf("%d files\n", seen);
    return seen == 0 ? 77 : test_end();
}
