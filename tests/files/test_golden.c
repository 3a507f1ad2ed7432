/*
 * Opens files that other programs wrote: the test vectors at hand, named by
 * the arguments or found in $VAE_TEST_VECTORS and $VAE_TEST_DATA/golden.
 * Exits 77 where there are none.
 */
#include <ftw.h>

#include "test.h"

static int seen;

static int
visit(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const size_t n = strlen(path);
    if (kind != FTW_F || n < 12 || strcmp(path + n - 12, ".safetensors") != 0)
        return 0;
    VaeTensorFile *file = NULL;
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
    VaeLatentClip clip;
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
    vae_tensor_file_free(&file);
    return 0;
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
    }
    printf("%d files\n", seen);
    return seen == 0 ? 77 : test_end();
}
