/*
 * models.c: prints the installed models.
 */
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "vae-private/installed.h"

/* One installed model. */
static void
print_model(void *printed, const char *space, const char *path)
{
    VaeModel *model = NULL;
    VaeError error;
    Plain name, words;
    const VaeStatus status = vae_model_open(path, NULL, &model, &error);
    const VaeModelInfo *info = status == VAE_OK ? vae_model_info(model) : NULL;
    char *used = vae_installed_find(space);
    const bool hidden = used && strcmp(used, path) != 0;
    printf("%s: ", plain(path, &name));
    if (!info)
        printf("not usable: %s", plain(error.message, &words));
    else
        printf("%s, latent space %s", info->arch, info->space);
    if (info && strcmp(info->space, space) != 0)
        printf("; its name says %s", plain(space, &name));
    printf("%s%s\n", hidden ? "; hidden by " : "",
           hidden ? plain(used, &name) : "");
    *(bool *) printed = true;
    free(used);
    vae_model_free(&model);
}

static void
print_folders(void)
{
    char *folder;
    Plain words;
    printf("These folders are searched, in this order:\n");
    for (int i = 0; (folder = vae_installed_folder(i)); i++) {
        printf("  %s\n", plain(folder, &words));
        free(folder);
    }
}

int
command_models(const Options *o)
{
    bool printed = false;
    (void) o;
    vae_installed_list(print_model, &printed);
    if (!printed)
        printf("No model is installed.\n");
    print_folders();
    printf("To install a model, copy it to SPACE.safetensors in one of them, "
           "or SPACE.pth, .pt, .ckpt, .bin, or a folder SPACE. vaetool info "
           "--spaces prints the latent spaces.\n"
           "The elements also find the demo model, which is bundled with them. "
           "vaetool takes it by its path, --model "
           "pipelines/demo/demo.safetensors in the sources.\n");
    return EXIT_OK;
}
