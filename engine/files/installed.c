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
#define SUFFIX ".safetensors"

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

/* The path of the space's file in the folder, which is freed. */
static char *
file_in(char *folder, const char *space)
{
    char name[300];
    char *path = NULL;
    if (folder &&
        (size_t) snprintf(name, sizeof name, "%s" SUFFIX, space) < sizeof name)
        path = join(folder, name);
    free(folder);
    return path;
}

char *
vae_installed_place(const char *space)
{
    return file_in(vae_installed_folder(0), space);
}

char *
vae_installed_find(const char *space)
{
    char *folder;
    for (int i = 0; (folder = vae_installed_folder(i)); i++) {
        char *path = file_in(folder, space);
        if (path && vae_file_is_there(path))
            return path;
        free(path);
    }
    return NULL;
}

typedef struct Listing {
    const char *folder;
    void (*see)(void *user, const char *space, const char *path);
    void *user;
} Listing;

static void
see_name(void *user, const char *name)
{
    const Listing *l = user;
    const size_t n = strlen(name), suffix = strlen(SUFFIX);
    char space[256], *path;
    if (n <= suffix || n - suffix >= sizeof space ||
        strcmp(name + n - suffix, SUFFIX) != 0)
        return;
    memcpy(space, name, n - suffix);
    space[n - suffix] = '\0';
    path = join(l->folder, name);
    if (path && vae_file_is_there(path))
        l->see(l->user, space, path);
    free(path);
}

void
vae_installed_list(void (*see)(void *user, const char *space, const char *path),
                   void *user)
{
    char *folder;
    for (int i = 0; (folder = vae_installed_folder(i)); i++) {
        Listing l = {folder, see, user};
        vae_os_list(folder, see_name, &l);
        free(folder);
    }
}
