/*
 * Finds the weights in a folder: as diffusers writes them, a pair of an encoder
 * and a decoder, or the only file.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "vae-private/os.h"

#define WEIGHTS "diffusion_pytorch_model"
/* The longest name below. */
#define LONGEST "/vae/" WEIGHTS ".safetensors.index.fp16.json"

/* The cache of Hugging Face has a folder of each model, with a folder of each
 * revision in its snapshots/. */
typedef struct Snapshots {
    int n;
    char folder[PATH_MAX], names[300]; /* names: of the first revisions */
    char path[PATH_MAX + 258];         /* of the last one */
} Snapshots;

static void
add_name(char *names, size_t size, const char *name)
{
    const size_t used = strlen(names);
    snprintf(names + used, size - used, "%s%s", used ? ", " : "", name);
}

static void
see_snapshot(void *user, const char *name)
{
    Snapshots *s = user;
    if (name[0] == '.')
        return;
    snprintf(s->path, sizeof s->path, "%s/%s", s->folder, name);
    s->n++;
    add_name(s->names, sizeof s->names, name);
}

static VaeStatus
fail_pairs(const char *folder, int pairs, VaeError *error)
{
    return vae_mismatch(
        error, VAE_ERR_NOT_FOUND, NULL,
        "%s: holds {%d pairs} of an encoder and a decoder; expected {=one, or "
        "the two files, joined by a comma}",
        vae_file_label(folder), pairs);
}

/* The files of a folder whose names are those of weights. */
typedef struct Weights {
    const char *folder;
    int n, others;   /* others: shards, and links without a target */
    char names[300]; /* of the first files */
    char *path;      /* of a file, else of one of the others */
    size_t size;
} Weights;

bool
vae_folder_is_weights(const char *name)
{
    static const char *const ends[] = {".safetensors", ".index.json", ".pth",
                                       ".pt",          ".ckpt",       ".bin"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (n > end && strcmp(name + n - end, ends[i]) == 0)
            return true;
    }
    return false;
}

static void
see_weights(void *user, const char *name)
{
    Weights *w = user;
    char path[PATH_MAX];
    int k, n;
    const size_t length =
        (size_t) snprintf(path, sizeof path, "%s/%s", w->folder, name);
    if (!vae_folder_is_weights(name) || length >= sizeof path ||
        length >= w->size || !vae_file_is_there(path))
        return;
    const bool other = vae_index_shard(name, &k, &n) ||
                       !vae_os_is_kind(path, VAE_FILE_REGULAR);
    if (!other || w->n == 0)
        strcpy(w->path, path);
    w->others += other;
    if (other)
        return;
    w->n++;
    add_name(w->names, sizeof w->names, name);
}

static VaeStatus
fail_without_weights(const char *folder, const Weights *w, VaeError *error)
{
    const char *label = vae_file_label(folder);
    if (w->n > 1)
        return vae_mismatch(
            error, VAE_ERR_NOT_FOUND, NULL,
            "%s: is a directory with {%d files} that may be weights (%s%s); "
            "expected {=the path of one}",
            label, w->n, w->names,
            strlen(w->names) + 1 == sizeof w->names ? "..." : "");
    return vae_fail_parts(
        error, VAE_ERR_NOT_FOUND,
        (VaeErrorParts){NULL, "a directory",
                        "a file, or the folder of a model"},
        "%s: is a directory with neither " WEIGHTS
        ".safetensors nor its .index.json, nor a .bin, nor their fp16 "
        "or bf16 variants, nor with one of them in vae/, nor with any other "
        "file of weights; expected a file, or the folder of a model",
        label);
}

/* For a folder without weights of its own. */
static VaeStatus
find_in_snapshots(const char *folder, const Weights *w, char **out,
                  VaeError *error)
{
    Snapshots s = {0};
    snprintf(s.folder, PATH_MAX, "%s/snapshots", folder);
    if (w->n || !vae_os_is_kind(s.folder, VAE_FILE_FOLDER))
        return fail_without_weights(folder, w, error);
    vae_os_list(s.folder, see_snapshot, &s);
    if (s.n == 1)
        return vae_folder_find(s.path, out, error);
    return vae_mismatch(error, VAE_ERR_NOT_FOUND, NULL,
                        "%s: has {%d revisions} of a model%s%s; expected "
                        "{=one, or the path of one}",
                        vae_file_label(s.folder), s.n, s.n ? ": " : "",
                        s.names);
}

/* Writes to `path` which file of the folder has the weights; false if none
 * does. Then `path` is a link without a target, or "". */
static bool
find_file(const char *folder, char *path, size_t size)
{
    static const char *const folders[] = {"", "vae/"};
    static const char *const ends[] = {".safetensors",
                                       ".safetensors.index.json",
                                       ".fp16.safetensors",
                                       ".safetensors.index.fp16.json",
                                       ".bf16.safetensors",
                                       ".safetensors.index.bf16.json",
                                       ".bin",
                                       ".fp16.bin"};
    const size_t n = sizeof ends / sizeof ends[0];
    const char *slash =
        folder[0] != '\0' && *vae_os_file_name(folder) == '\0' ? "" : "/";
    for (int links = 0; links < 2; links++)
        for (size_t i = 0; i < 2 * n; i++) {
            snprintf(path, size, "%s%s%s" WEIGHTS "%s", folder, slash,
                     folders[i / n], ends[i % n]);
            if (links && vae_file_check_link(path, NULL) != VAE_OK)
                return false;
            if (!links && vae_os_is_kind(path, VAE_FILE_REGULAR))
                return true;
        }
    path[0] = '\0';
    return false;
}

VaeStatus
vae_folder_find(const char *folder, char **out, VaeError *error)
{
    const size_t size = 2 * (strlen(folder) + 258) + sizeof LONGEST;
    *out = vae_mem_alloc(size);
    if (*out == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(folder));
    if (find_file(folder, *out, size))
        return VAE_OK;
    const bool link = (*out)[0];
    /* Without a pair, this leaves *out as it is. */
    const int pairs = vae_pair_in_folder(folder, *out, size);
    if (pairs == 1)
        return VAE_OK;
    Weights weights = {.path = *out, .size = size, .folder = folder};
    VaeStatus status = VAE_OK;
    if (pairs > 1)
        status = fail_pairs(folder, pairs, error);
    else if (link)
        status = vae_file_check_link(*out, error);
    else
        vae_os_list(folder, see_weights, &weights);
    /* The error of a shard asks for the index, that of a link names it. */
    if (status == VAE_OK && (weights.n == 1 || (!weights.n && weights.others)))
        return VAE_OK;
    vae_mem_free(*out);
    *out = NULL;
    return status != VAE_OK ? status
                            : find_in_snapshots(folder, &weights, out, error);
}
