/*
 * installed.c: finds the installed models.
 */
#include "vae-private/installed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "vae-private/os.h"

#define FOLDER "gst-vae/models"

/* The ends of the names of a space's models, by rank; a folder has none. No
 * reader takes .gguf: opening it says so. */
static const char *const ends[] = {".safetensors", ".pth", ".pt",  ".ckpt",
                                   ".bin",         "",     ".gguf"};
enum { ENDS = sizeof ends / sizeof *ends };

static char *
join(const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *
vae_installed_folder(int i)
{
    char *data = vae_os_data_folder(i);
    char *folder = data ? join(data, FOLDER) : NULL;
    free(data);
    return folder;
}

/* The path of the space's model with that end in the folder. */
static char *
model_in(const char *folder, const char *space, const char *end)
{
    char name[300];
    const int length = snprintf(name, sizeof name, "%s%s", space, end);
    return (size_t) length < sizeof name ? join(folder, name) : NULL;
}

char *
vae_installed_place(const char *space)
{
    char *folder = vae_installed_folder(0);
    char *path = folder ? model_in(folder, space, ends[0]) : NULL;
    free(folder);
    return path;
}

/* Returns path if a model is there, else frees it and returns NULL. */
static char *
if_model(char *path, const char *end)
{
    if (path && (*end ? vae_file_is_there(path)
                      : vae_os_is_kind(path, VAE_FILE_FOLDER)))
        return path;
    free(path);
    return NULL;
}

char *
vae_installed_find(const char *space)
{
    char *folder, *path = NULL;
    for (int i = 0; !path && (folder = vae_installed_folder(i)); i++) {
        for (int k = 0; !path && k < ENDS; k++)
            path = if_model(model_in(folder, space, ends[k]), ends[k]);
        free(folder);
    }
    return path;
}

typedef struct Listing {
    const char *folder, *end;
    void (*see)(void *user, const char *space, const char *path);
    void *user;
} Listing;

static void
see_name(void *user, const char *name)
{
    const Listing *l = user;
    const size_t n = strlen(name), end = strlen(l->end);
    char space[256], *path;
    if (name[0] == '.' || n <= end || n - end >= sizeof space ||
        strcmp(name + n - end, l->end) != 0)
        return;
    memcpy(space, name, n - end);
    space[n - end] = '\0';
    path = if_model(join(l->folder, name), l->end);
    if (path)
        l->see(l->user, space, path);
    free(path);
}

void
vae_installed_list(void (*see)(void *user, const char *space, const char *path),
                   void *user)
{
    char *folder;
    for (int i = 0; (folder = vae_installed_folder(i)); i++) {
        for (int k = 0; k < ENDS; k++) {
            Listing l = {folder, ends[k], see, user};
            vae_os_list(folder, see_name, &l);
        }
        free(folder);
    }
}
