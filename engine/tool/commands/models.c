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
    printf("%s\n", hidden ? "; hidden by an earlier folder" : "");
    *(bool *) printed = true;
    free(used);
    vae_model_free(&model);
}

int
command_models(const Options *o)
{
    bool printed = false;
    char *folder = vae_installed_place(NULL);
    Plain words;
    (void) o;
    vae_installed_list(print_model, &printed);
    if (!printed)
        printf("No model is installed.\n");
    printf("To install a model, copy it to %s/SPACE.safetensors. vaetool info "
           "--spaces prints the latent spaces.\n",
           folder ? plain(folder, &words) : "a data folder");
    free(folder);
    return EXIT_OK;
}
