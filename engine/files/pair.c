/*
 * pair.c: a model in two files, one with the encoder and one with the decoder.
 * Their tensors may have the same names.
 */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "vae-private/os.h"

#define HALF 7 /* letters of "encoder" and "decoder" */

static bool
is_file(const char *path)
{
    return vae_os_is_kind(path, VAE_FILE_REGULAR);
}

/* ------------------------------------------------------------------ */
/* Finding the two files.                                              */

VaeStatus
vae_pair_split(const char *path, char **first, const char **second,
               VaeError *error)
{
    const size_t size = strlen(path) + 1;
    *first = NULL;
    if (!strchr(path, ',') || is_file(path))
        return VAE_OK;
    char *copy = vae_mem_alloc(size);
    if (!copy)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(path));
    memcpy(copy, path, size);
    for (char *at = strchr(copy, ','); at && !*first; at = strchr(at, ',')) {
        *at++ = '\0';
        if (is_file(copy) || is_file(at)) {
            *first = copy;
            *second = at;
        } else {
            at[-1] = ',';
        }
    }
    if (!*first)
        vae_mem_free(copy);
    return VAE_OK;
}

static bool
has_suffix(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcmp(dot, ".pth") == 0 || strcmp(dot, ".safetensors") == 0);
}

/* True for the name of an encoder's file beside which lies the decoder's. */
static bool
has_partner(const char *folder, const char *name, char *both, size_t size)
{
    const char *half = strstr(name, "encoder");
    char partner[256];
    if (!half || !has_suffix(name) || strlen(name) >= sizeof partner)
        return false;
    snprintf(partner, sizeof partner, "%.*sdecoder%s", (int) (half - name),
             name, half + HALF);
    const int n = snprintf(both, size, "%s/%s", folder, partner);
    if (n < 0 || (size_t) n >= size || !vae_file_is_there(both))
        return false;
    return (size_t) snprintf(both, size, "%s/%s,%s/%s", folder, name, folder,
                             partner) < size;
}

/* The pairs of a folder. */
typedef struct Pairs {
    const char *folder;
    char *out, *both; /* the first pair; room for another */
    size_t size;
    int n;
    /* Of the encoders and the decoders: how many, and a name. */
    int halves[2];
    char half[2][256];
} Pairs;

static void
see_name(void *user, const char *name)
{
    Pairs *p = user;
    if (has_partner(p->folder, name, p->both, p->size) && p->n++ == 0)
        strcpy(p->out, p->both);
    const bool decoder = strstr(name, "decoder");
    if (!has_suffix(name) || (!decoder && !strstr(name, "encoder")))
        return;
    p->halves[decoder]++;
    snprintf(p->half[decoder], sizeof p->half[0], "%s", name);
}

/* Takes the only encoder and the only decoder, whatever their names are. The
 * error of a pair that is none then says what each of them is. */
static void
pair_odd_names(Pairs *p)
{
    if (p->n > 0 || p->halves[0] != 1 || p->halves[1] != 1)
        return;
    const int n = snprintf(p->both, p->size, "%s/%s,%s/%s", p->folder,
                           p->half[0], p->folder, p->half[1]);
    if (n < 0 || (size_t) n >= p->size)
        return;
    p->n = 1;
    strcpy(p->out, p->both);
}

int
vae_pair_in_folder(const char *folder, char *out, size_t size)
{
    Pairs pairs = {.folder = folder, .out = out, .size = size};
    pairs.both = vae_mem_alloc(size);
    if (pairs.both) {
        vae_os_list(folder, see_name, &pairs);
        pair_odd_names(&pairs);
    }
    vae_mem_free(pairs.both);
    return pairs.n;
}

/* ------------------------------------------------------------------ */
/* Joining them.                                                       */

/* The half that the file's name says, with a dot; "" if the tensors' names say
 * it; NULL on an error. */
static const char *
half_of(const VaeTensorFile *file, VaeError *error)
{
    const char *name = vae_os_file_name(file->name);
    const bool encoder = strstr(name, "encoder") != NULL;
    const bool decoder = strstr(name, "decoder") != NULL;
    if (vae_tensor_file_has_prefix(file, "encoder.") ||
        vae_tensor_file_has_prefix(file, "decoder."))
        return "";
    if (encoder != decoder)
        return encoder ? "encoder." : "decoder.";
    vae_fail_parts(
        error, VAE_ERR_MODEL,
        (VaeErrorParts){NULL, name, "a name with \"encoder\" or \"decoder\""},
        "%s: is one of two files of a model; expected \"encoder\" or "
        "\"decoder\" in its name, or before the names of its tensors",
        file->label);
    return NULL;
}

/* Copies the tensors of a file after those of the pair; their names have the
 * half in front. *text is the place for the names. */
static void
take_tensors(VaeTensorFile *pair, const VaeTensorFile *file, const char *half,
             char **text)
{
    for (size_t i = 0; i < file->n_tensors; i++) {
        VaeTensorInfo *t = &pair->tensors[pair->n_tensors++];
        *t = file->tensors[i];
        t->name = *text;
        *text += sprintf(*text, "%s%s", half, file->tensors[i].name) + 1;
    }
}

/* Adds the tensors of the shards, each with its half. */
static VaeStatus
add_tensors(VaeTensorFile *pair, const char *const *half, VaeError *error)
{
    const size_t n = pair->n_shards;
    size_t count = 0, bytes = 0;
    for (size_t k = 0; k < n; k++) {
        const VaeTensorFile *file = pair->shards[k];
        count += file->n_tensors;
        for (size_t i = 0; i < file->n_tensors; i++)
            bytes += strlen(file->tensors[i].name) + HALF + 2;
    }
    pair->names = vae_mem_alloc(bytes + 1);
    const VaeStatus status = vae_tensor_file_room(pair, count, error);
    if (status != VAE_OK || !pair->names)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", pair->label);
    char *text = pair->names;
    pair->n_tensors = 0;
    for (size_t k = 0; k < n; k++)
        take_tensors(pair, pair->shards[k], half[k], &text);
    return vae_tensor_file_sort(pair, error);
}

static VaeStatus
join(VaeTensorFile *pair, VaeError *error)
{
    const char *half[2];
    for (int k = 0; k < 2; k++) {
        half[k] = half_of(pair->shards[k], error);
        if (!half[k])
            return VAE_ERR_MODEL;
    }
    return add_tensors(pair, half, error);
}

VaeStatus
vae_pair_open(const char *first, const char *second, VaeOpenShard open,
              VaeTensorFile **out, VaeError *error)
{
    const char *const paths[] = {first, second};
    VaeTensorFile *pair;
    VaeStatus status = vae_tensor_file_new(first, 2, &pair, error);
    for (int i = 0; i < 2 && status == VAE_OK; i++) {
        status = open(paths[i], &pair->shards[pair->n_shards], error);
        pair->n_shards += status == VAE_OK;
    }
    if (status == VAE_OK)
        status = join(pair, error);
    if (status != VAE_OK)
        vae_tensor_file_free(&pair);
    *out = pair;
    return status;
}

VaeStatus
vae_tensor_file_half(VaeTensorFile *whole, const char *half,
                     VaeTensorFile **out, VaeError *error)
{
    VaeTensorFile *file;
    VaeStatus status = vae_tensor_file_new(whole->name, 1, &file, error);
    if (status == VAE_OK) {
        file->shards[0] = whole;
        file->n_shards = 1;
        status = add_tensors(file, (const char *[]){half, NULL}, error);
    }
    if (status != VAE_OK && file) {
        file->n_shards = 0;
        vae_tensor_file_free(&file);
    }
    *out = file;
    return status;
}
