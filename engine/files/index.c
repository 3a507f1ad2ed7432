/*
 * An index of shards, as Hugging Face's libraries write it: JSON with a
 * "weight_map" from each tensor's name to the safetensors file that holds it.
 * The shards are in the folder of the index; a name with a folder is refused.
 * A shard may be a symbolic link to a file in that folder, or in the cache of
 * huggingface_hub: there REPOSITORY/snapshots/REVISION has the index, and its
 * files are links to REPOSITORY/blobs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "vae-private/os.h"

#define MAX_SHARDS 1024

bool
vae_index_is(const uint8_t *bytes, size_t size)
{
    uint64_t length;
    size_t i = 0;
    if (size < sizeof length + 1)
        return false;
    /* A safetensors file can begin with '{', too: a length whose low byte is
     * 0x7b. */
    memcpy(&length, bytes, sizeof length);
    if (length <= VAE_MAX_HEADER)
        return false;
    while (i < size && (bytes[i] == ' ' || bytes[i] == '\t' ||
                        bytes[i] == '\r' || bytes[i] == '\n'))
        i++;
    return i < size && bytes[i] == '{';
}

static VaeStatus
fail_most(const VaeTensorFile *file, const char *found, int most,
          VaeError *error)
{
    return vae_mismatch(error, VAE_ERR_FORMAT, NULL,
                        "%s: {%s}, expected {=at most %d}", file->label, found,
                        most);
}

static VaeStatus
check_name(const VaeTensorFile *file, const char *name, VaeError *error)
{
    const size_t n = strlen(name);
    static const char end[] = ".safetensors";
    const size_t n_end = sizeof end - 1;
    const VaeErrorParts parts = {NULL, name, "*.safetensors beside the index"};
    if (name[0] == '/')
        return vae_fail_parts(
            error, VAE_ERR_FORMAT, parts,
            "%s: refused: the shard \"%.*s\" is an absolute path", file->label,
            VAE_NAME_SHOWN, name);
    if (strchr(name, '/') != NULL || strchr(name, '\\') != NULL ||
        name[0] == '.')
        return vae_fail_parts(
            error, VAE_ERR_FORMAT, parts,
            "%s: refused: the shard \"%.*s\" is no file beside the index",
            file->label, VAE_NAME_SHOWN, name);
    if (n <= n_end || n > 255 || strcmp(name + n - n_end, end) != 0)
        return vae_fail_parts(
            error, VAE_ERR_FORMAT, parts,
            "%s: the shard \"%.*s\" is not named *.safetensors", file->label,
            VAE_NAME_SHOWN, name);
    return VAE_OK;
}

/* True if target, a real path, is a file directly in the folder whose real path
 * is the first n bytes of `folder`, followed by `below`. */
static bool
is_in(const char *target, const char *folder, size_t n, const char *below)
{
    const size_t m = strlen(below);
    return strncmp(target, folder, n) == 0 &&
           strncmp(target + n, below, m) == 0 && !strchr(target + n + m, '/');
}

/* True if a link in a folder may lead to that file; both are real paths. */
static bool
may_link(const char *folder, const char *target)
{
    static const char snapshots[] = "/snapshots/";
    const char *last = NULL, *next = folder;
    while ((next = strstr(next, snapshots)) != NULL)
        last = next++;
    const size_t n = folder[1] ? strlen(folder) : 0; /* 0: "/" */
    return is_in(target, folder, n, "/") ||
           (last && is_in(target, folder, (size_t) (last - folder), "/blobs/"));
}

/* Opens the file at path, whose folder is the first n bytes of path. */
static VaeStatus
open_path(char *path, size_t n, VaeOpenShard open, VaeTensorFile **out,
          VaeError *error)
{
    const char name = path[n];
    char *target = vae_os_real_path(path), *folder = NULL;
    VaeStatus status;
    if (target) {
        path[n] = '\0';
        folder = vae_os_real_path(n ? path : ".");
        path[n] = name;
    }
    if (!folder)
        status = vae_file_fail(path, "open", error);
    else if (!may_link(folder, target))
        status = vae_fail_parts(
            error, VAE_ERR_FORMAT,
            (VaeErrorParts){NULL, target, "a file beside the index"},
            "refused: is a symbolic link to %s; expected a file beside the "
            "index, or in the blobs of its Hugging Face cache. Replace the "
            "link by a copy of the file",
            vae_file_label(target));
    else
        status = open(target, out, error);
    free(folder);
    free(target);
    return status;
}

static VaeStatus
open_shard(VaeTensorFile *file, const char *name, VaeOpenShard open,
           VaeTensorFile **out, VaeError *error)
{
    const size_t folder = (size_t) (vae_os_file_name(file->name) - file->name);
    const size_t size = folder + strlen(name) + 1;
    char *path = vae_mem_alloc(size);
    if (path == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", file->label);
    memcpy(path, file->name, folder);
    memcpy(path + folder, name, size - folder);
    VaeError why = {0};
    const VaeStatus status = open_path(path, folder, open, out, &why);
    if (status != VAE_OK)
        vae_fail_within(error, &why, "%s: shard \"%s\": ", file->label, name);
    vae_mem_free(path);
    return status;
}

/* Opens the shards in the order in which the map first names them. places
 * receives each shard's index under its name. */
static VaeStatus
open_shards(VaeTensorFile *file, json_t *map, json_t *places, VaeOpenShard open,
            VaeError *error)
{
    const char *tensor;
    json_t *value;
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (name == NULL || strlen(name) != json_string_length(value))
            return vae_fail_parts(
                error, VAE_ERR_FORMAT,
                (VaeErrorParts){tensor, "no text", "the name of a file"},
                "%s: weight_map: the shard of \"%.*s\" is no text", file->label,
                VAE_NAME_SHOWN, tensor);
        if (json_object_get(places, name) != NULL)
            continue;
        VaeStatus status = check_name(file, name, error);
        if (status == VAE_OK && file->n_shards == MAX_SHARDS)
            status = fail_most(file, "too many shards", MAX_SHARDS, error);
        if (status == VAE_OK)
            status = open_shard(file, name, open, &file->shards[file->n_shards],
                                error);
        if (status != VAE_OK)
            return status;
        json_t *place = json_integer((json_int_t) file->n_shards++);
        if (json_object_set_new(places, name, place) != 0)
            return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                            file->label);
    }
    return VAE_OK;
}

/* Checks that the map names this shard for each tensor in it. */
static VaeStatus
check_shard(const VaeTensorFile *file, const json_t *map, const char *name,
            const VaeTensorFile *shard, VaeError *error)
{
    for (size_t i = 0; i < shard->n_tensors; i++) {
        const char *tensor = shard->tensors[i].name;
        const char *stated = json_string_value(json_object_get(map, tensor));
        if (stated == NULL)
            return vae_fail_parts(
                error, VAE_ERR_FORMAT,
                (VaeErrorParts){tensor, name, "a shard in the index"},
                "%s: shard \"%s\" holds tensor \"%.*s\", which the index does "
                "not name",
                file->label, name, VAE_NAME_SHOWN, tensor);
        if (strcmp(stated, name) != 0)
            return vae_fail_parts(
                error, VAE_ERR_FORMAT, (VaeErrorParts){tensor, name, stated},
                "%s: tensor \"%.*s\" appears twice: the index says \"%s\", but "
                "shard \"%s\" holds it",
                file->label, VAE_NAME_SHOWN, tensor, stated, name);
    }
    return VAE_OK;
}

static VaeStatus
take_tensors(VaeTensorFile *file, json_t *map, const json_t *places,
             VaeError *error)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    VaeStatus status = VAE_OK;
    json_object_foreach(map, key, value)
    {
        const char *name = json_string_value(value);
        const json_int_t place =
            json_integer_value(json_object_get(places, name));
        const VaeTensorInfo *info =
            vae_tensor_file_find(file->shards[place], key);
        if (info == NULL)
            return vae_fail_parts(
                error, VAE_ERR_FORMAT,
                (VaeErrorParts){key, "no such tensor", name},
                "%s: shard \"%s\" does not hold tensor \"%.*s\", as the index "
                "says",
                file->label, name, VAE_NAME_SHOWN, key);
        file->tensors[i++] = *info;
    }
    json_object_foreach((json_t *) places, key, value)
    {
        if (status == VAE_OK)
            status = check_shard(
                file, map, key, file->shards[json_integer_value(value)], error);
    }
    return status;
}

VaeStatus
vae_index_parse(VaeTensorFile *file, VaeOpenShard open, VaeError *error)
{
    if (file->size > VAE_MAX_HEADER) {
        char found[48];
        snprintf(found, sizeof found, "JSON of %zu bytes", file->size);
        return fail_most(file, found, (int) VAE_MAX_HEADER, error);
    }
    VaeStatus status = vae_file_bytes(file, 0, file->size, error);
    if (status == VAE_OK)
        status = vae_json_load((const char *) file->bytes, file->size,
                               file->label, "", &file->header, error);
    if (status != VAE_OK)
        return status;
    json_t *map = json_object_get(file->header, "weight_map");
    if (json_object_size(map) == 0)
        return vae_fail_parts(error, VAE_ERR_FORMAT,
                              (VaeErrorParts){NULL,
                                              "JSON without a \"weight_map\"",
                                              "weights or their index"},
                              "%s: is JSON without a \"weight_map\" of "
                              "tensors; expected weights or their index",
                              file->label);
    const size_t n = json_object_size(map);
    const size_t most = n < MAX_SHARDS ? n : MAX_SHARDS;
    json_t *places = json_object();
    file->shards = vae_mem_alloc(most * sizeof *file->shards);
    if (places == NULL || file->shards == NULL)
        status = vae_fail(error, VAE_ERR_MEMORY,
                          "%s: no memory for a list of shards", file->label);
    if (status == VAE_OK)
        status = open_shards(file, map, places, open, error);
    if (status == VAE_OK)
        status = vae_tensor_file_room(file, n, error);
    if (status == VAE_OK)
        status = take_tensors(file, map, places, error);
    json_decref(places);
    return status;
}

/* ------------------------------------------------------------------ */
/* A shard without the others.                                         */

typedef struct Search {
    const char *stem; /* of the shard's name */
    size_t n;         /* its bytes */
    char found[256];  /* name of the index, or "" */
} Search;

static void
see_index(void *user, const char *name)
{
    Search *s = user;
    const size_t n = strlen(name);
    if (strncmp(name, s->stem, s->n) == 0 && n < sizeof s->found &&
        strstr(name + s->n, ".index.") && strcmp(name + n - 5, ".json") == 0)
        strcpy(s->found, name);
}

const char *
vae_index_shard(const char *name, int *k, int *n)
{
    const char *of = strstr(name, "-of-");
    int end = 0;
    const bool found = of && of - name >= 6 &&
                       sscanf(of - 6, "-%5d-of-%5d.%n", k, n, &end) == 2 &&
                       end && *n > 1;
    return found ? of - 6 : NULL;
}

VaeStatus
vae_index_check_shard(const char *path, VaeStatus status, VaeError *error)
{
    const char *name = vae_os_file_name(path);
    int k, n;
    const char *end = vae_index_shard(name, &k, &n);
    if (!end)
        return status;
    Search search = {.stem = name, .n = (size_t) (end - name)};
    /* The index of "model.fp16-..." is "model.safetensors.index.fp16.json". */
    const char *dot = memchr(name, '.', search.n);
    if (dot)
        search.n = (size_t) (dot - name);
    char *folder = vae_os_folder_of(path);
    if (folder)
        vae_os_list(folder, see_index, &search);
    free(folder);
    return vae_fail_parts(
        error, status,
        (VaeErrorParts){NULL, "one shard", "the index of the shards"},
        "%s: is shard %d of %d of a model; expected their index, %s%s, and all "
        "shards beside it",
        vae_file_label(path), k, n,
        *search.found ? search.found : "*.index.json",
        *search.found ? " in this folder" : ", which this folder lacks");
}
