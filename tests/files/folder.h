/*
 * folder.h: a test's own folder, and files in it.
 */
#ifndef VAE_FILES_FOLDER_H
#define VAE_FILES_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[400]; /* set by the test */

/* folder/name. The result is valid for the next three calls. */
static inline const char *
path_of(const char *name)
{
    static char paths[4][sizeof folder + 100];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void
write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        abort();
    }
}

static inline void
write_bytes(const char *name, const void *data, size_t n)
{
    write_file(path_of(name), data, n);
}

#endif
