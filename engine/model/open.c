/*
 * open.c: opens weights and pairs of them, and matches every tensor by name and
 * shape.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "arguments.h"
#include "files.h"
#include "sized.h"
#include "model.h"
#include "vae-private/os.h"
#include "vae-private/spaces.h"

static VaeStatus
dry_run(VaeModel *m, VaeError *error)
{
    VaeError why = {0};
    const VaeStatus status = vae_model_dry_run(m, &why);
    if (status == VAE_ERR_MODEL && vae_model_find_missing(m, error) != VAE_OK)
        return status;
    if (status == VAE_ERR_MODEL)
        return vae_fail_within(
            error, &why,
            "%s: has the tensor names of %s, but tensors are "
            "missing or belong to another network: ",
            m->path, m->info.arch);
    return status == VAE_OK ? VAE_OK
                            : vae_fail_within(error, &why, "%s: ", m->path);
}

/* Reads "config" in __metadata__. Text that is no JSON is refused only by the
 * networks that need it. */
static VaeStatus
load_own_config(VaeModel *m, VaeError *error)
{
    const char *text = vae_tensor_file_metadata(m->file, "config");
    json_t *config = NULL;
    VaeError why = {0};
    if (text)
        vae_json_load(text, strlen(text), m->path,
                      "config in __metadata__: ", &config, &why);
    m->own_config = config;
    return why.status == VAE_ERR_MEMORY ? vae_pass_on(error, &why) : VAE_OK;
}

/* Opens the file of a model: of the path, or of the source if there is one. */
static VaeStatus
open_file(VaeModel *m, const VaeTensorList *source, VaeError *error)
{
    json_t *config = NULL;
    VaeStatus status;
    if (!source) {
        status = vae_tensor_file_open(m->path, &m->file, error);
        if (status == VAE_OK)
            status =
                vae_config_load(vae_tensor_file_name(m->file), &config, error);
    } else {
        const char *text = source->config;
        status = vae_tensor_file_open_source(source, &m->file, error);
        if (status == VAE_OK && text)
            status = vae_json_load(text, strlen(text), m->path,
                                   "config: ", &config, error);
    }
    m->config = config;
    return status == VAE_OK ? load_own_config(m, error) : status;
}

/* Recognises the network of an open file, and finds its tensors. */
static VaeStatus
find_tensors(VaeModel *m, VaeError *error)
{
    VaeStatus status = vae_model_recognise(m, error);
    if (status == VAE_OK)
        status = dry_run(m, error);
    if (status == VAE_OK)
        status = vae_model_match(m, error);
    if (status == VAE_OK)
        status = vae_model_read_statistics(m, error);
    if (status == VAE_OK)
        vae_model_summarise(m);
    return status;
}

/* ------------------------------------------------------------------ */
/* Pairs.                                                              */

static VaeStatus open_model(const char *path, const VaeTensorList *source,
                            const VaeModelOptions *options, VaeModel **out,
                            VaeError *error);

static const char *
halves_of(const VaeModelInfo *info)
{
    return !info->has_encoder   ? "the decoder"
           : !info->has_decoder ? "the encoder"
                                : "both halves";
}

/* True for an encoder and a decoder. If the pair does not open, they must also
 * be of one network; some variants have the same encoder, but not the same
 * decoder. */
static bool
fit(const VaeModel *a, const VaeModel *b, bool opens)
{
    const VaeModelInfo *x = &a->info, *y = &b->info;
    if (x->has_decoder == y->has_decoder || x->has_encoder == y->has_encoder)
        return false;
    if (!opens)
        return strcmp(x->arch, y->arch) == 0;
    return a->assumed || b->assumed || !x->space || !y->space ||
           strcmp(x->space, y->space) == 0;
}

/* Opens each file of a pair alone. Fails if they are not two halves of one
 * network. *status: of the pair, with its error. */
static void
check_halves(const char *const paths[2], const VaeModelOptions *options,
             VaeStatus *status, VaeError *error)
{
    VaeModel *half[2] = {NULL};
    VaeError why;
    for (int i = 0; i < 2; i++)
        if (open_model(paths[i], NULL, options, &half[i], &why) != VAE_OK) {
            if (*status != VAE_OK)
                *status = vae_pass_on(error, &why);
            goto done;
        }
    if (!fit(half[0], half[1], *status == VAE_OK)) {
        const VaeModelInfo *a = &half[0]->info, *b = &half[1]->info;
        *status = vae_mismatch(
            error, VAE_ERR_MODEL, NULL,
            "%s is %s of {=%s}, and %s is %s of {%s}; expected the encoder and "
            "the "
            "decoder of one network%s",
            vae_file_label(paths[0]), halves_of(a), a->arch,
            vae_file_label(paths[1]), halves_of(b), b->arch,
            a->has_encoder && a->has_decoder   ? ", or the first file alone"
            : b->has_encoder && b->has_decoder ? ", or the second file alone"
                                               : "");
    }
done:
    vae_model_free(&half[0]);
    vae_model_free(&half[1]);
}

/* Explains why a pair does not open, or finds that it is none. */
static VaeStatus
check_pair(const char *path, const VaeModelOptions *options, VaeStatus status,
           VaeError *error)
{
    char *found = NULL, *first = NULL;
    const char *second;
    if (status != VAE_OK && status != VAE_ERR_MODEL && status != VAE_ERR_FORMAT)
        return status;
    if (vae_os_is_kind(path, VAE_FILE_FOLDER) &&
        vae_folder_find(path, &found, NULL) != VAE_OK)
        return status;
    if (vae_pair_split(found ? found : path, &first, &second, NULL) == VAE_OK &&
        first)
        check_halves((const char *const[]){first, second}, options, &status,
                     error);
    vae_mem_free(first);
    vae_mem_free(found);
    return status;
}

/* ------------------------------------------------------------------ */
/* Folders.                                                            */

/* The models beside the file that was taken from a folder. */
typedef struct Beside {
    const VaeModelOptions *options;
    const char *taken;
    VaeListing models;
} Beside;

static void
see_beside(void *user, const char *name)
{
    Beside *b = user;
    char path[4096];
    int k, n;
    const size_t folder = (size_t) (vae_os_file_name(b->taken) - b->taken);
    VaeModel *m = NULL;
    const int length =
        snprintf(path, sizeof path, "%.*s%s", (int) folder, b->taken, name);
    if (length < 0 || (size_t) length >= sizeof path ||
        strcmp(path, b->taken) == 0 || !vae_folder_is_weights(name) ||
        vae_index_shard(name, &k, &n) ||
        open_model(path, NULL, b->options, &m, NULL) != VAE_OK)
        return;
    vae_listing_add(&b->models, "%s (%s)", name, m->info.arch);
    vae_model_free(&m);
}

/* Names the models beside the file that is none. */
static void
tell_beside(const VaeModel *m, const VaeModelOptions *options, VaeError *error)
{
    Beside b = {options, vae_tensor_file_name(m->file), {0}};
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s",
             (int) (vae_os_file_name(b.taken) - b.taken), b.taken);
    vae_os_list(folder, see_beside, &b);
    if (!b.models.count || !error)
        return;
    char *message = error->message;
    const size_t used = strlen(message);
    snprintf(message + used, sizeof error->message - used,
             "; beside it: %s: give the path of one", b.models.text);
}

/* Opens a path or a source; the other is NULL or its name. */
static VaeStatus
open_model(const char *path, const VaeTensorList *source,
           const VaeModelOptions *options, VaeModel **out, VaeError *error)
{
    VaeModelOptions own = {0};
    VaeStatus status = VAE_OK;
    if (options)
        status = vae_sized_read(&own, sizeof own, options,
                                VAE_SIZE_UP_TO(VaeModelOptions, variant),
                                "VaeModelOptions", error);
    if (status != VAE_OK)
        return status;
    VaeModel *m = vae_model_new(path);
    if (m && own.variant)
        m->variant = strdup(own.variant);
    if (!m || !m->path || (own.variant && !m->variant))
        status = vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", path);
    else if ((status = open_file(m, source, error)) == VAE_OK)
        status = find_tensors(m, error);
    if (!source && m && m->file && status == VAE_ERR_MODEL)
        status =
            vae_index_check_shard(vae_tensor_file_name(m->file), status, error);
    if (m && m->file && status == VAE_ERR_MODEL &&
        vae_os_is_kind(path, VAE_FILE_FOLDER))
        tell_beside(m, options, error);
    if (!source)
        status = check_pair(path, options, status, error);
    if (!m || status != VAE_OK)
        vae_model_free(&m);
    else if (source) {
        m->release = source->release;
        m->release_user = source->user;
    }
    *out = m;
    return status;
}

VaeStatus
vae_model_open(const char *path, const VaeModelOptions *options, VaeModel **out,
               VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "out", out);
    if (status != VAE_OK)
        return status;
    *out = NULL;
    status = vae_check_path("path", path, error);
    return status == VAE_OK ? open_model(path, NULL, options, out, error)
                            : status;
}

VaeStatus
vae_model_open_tensors(const VaeTensorList *source,
                       const VaeModelOptions *options, VaeModel **out,
                       VaeError *error)
{
    VaeTensorList own = {0};
    VaeStatus status = vae_check_pointers(error, "source, out", source, out);
    if (status != VAE_OK)
        return status;
    *out = NULL;
    status = vae_sized_read(&own, sizeof own, source,
                            VAE_SIZE_UP_TO(VaeTensorList, config),
                            "VaeTensorList", error);
    if (status == VAE_OK)
        status = vae_check_pointers(error, "source.tensor",
                                    (const void *) (uintptr_t) own.tensor);
    if (!own.name)
        own.name = "tensors";
    return status == VAE_OK ? open_model(own.name, &own, options, out, error)
                            : status;
}
