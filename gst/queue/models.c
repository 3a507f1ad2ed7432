/*
 * models.c: finds the file of a model, and shares opened models between
 * elements.
 */
#include "models.h"

#include <stdlib.h>
#include <string.h>

#include "vae-private/installed.h"
#include "vae-private/os.h"
#include "vae-private/spaces.h"

#include "details.h"
#include "docs.h"

struct GstVaeModel {
    gint refs; /* under cache_lock */
    gchar *key;
    VaeModel *model;
    /* Under facts_lock: of these settings; -1: unknown. */
    gint look_back;
    gint64 history, tile_plan;
};

/* Models that some element holds, by key. */
static GMutex cache_lock;
static GMutex facts_lock;
static GHashTable *cache;

/* One file in one state; a file written anew gets a new key. */
static gchar *
model_key(const gchar *path, const gchar *variant)
{
    VaeFileFacts file;

    if (!vae_os_facts(path, &file))
        return g_strdup_printf("%s|%s", path, variant ? variant : "");
    return g_strdup_printf("%s|%s|%" G_GUINT64_FORMAT "|%" G_GUINT64_FORMAT
                           "|%" G_GUINT64_FORMAT "|%" G_GUINT64_FORMAT,
                           path, variant ? variant : "", (guint64) file.volume,
                           (guint64) file.number, (guint64) file.size,
                           (guint64) file.written);
}

static VaeStatus
open_locked(gchar *key, const gchar *path, const gchar *variant,
            GstVaeModel **out, VaeError *error)
{
    VaeModelOptions options = {.struct_size = sizeof(VaeModelOptions),
                               .variant = variant};
    GstVaeModel *model;
    VaeModel *opened = NULL;
    VaeStatus status = vae_model_open(path, &options, &opened, error);

    if (status != VAE_OK) {
        g_free(key);
        return status;
    }
    model = g_new0(GstVaeModel, 1);
    model->refs = 1;
    model->look_back = -1;
    model->key = key;
    model->model = opened;
    g_hash_table_insert(cache, key, model);
    *out = model;
    return VAE_OK;
}

VaeStatus
gst_vae_model_open(const gchar *path, const gchar *variant, GstVaeModel **out,
                   VaeError *error)
{
    VaeStatus status = VAE_OK;
    gchar *key = model_key(path, variant);

    *out = NULL;
    /* Held while opening, so that two elements never open one file twice. */
    g_mutex_lock(&cache_lock);
    if (!cache)
        cache = g_hash_table_new(g_str_hash, g_str_equal);
    *out = g_hash_table_lookup(cache, key);
    if (*out) {
        (*out)->refs++;
        g_free(key);
    } else {
        status = open_locked(key, path, variant, out, error);
    }
    g_mutex_unlock(&cache_lock);
    return status;
}

GstVaeModel *
gst_vae_model_ref(GstVaeModel *model)
{
    g_mutex_lock(&cache_lock);
    model->refs++;
    g_mutex_unlock(&cache_lock);
    return model;
}

void
gst_vae_model_unref(GstVaeModel *model)
{
    gboolean last;

    if (!model)
        return;
    g_mutex_lock(&cache_lock);
    last = --model->refs == 0;
    if (last)
        g_hash_table_remove(cache, model->key);
    if (last && g_hash_table_size(cache) == 0)
        g_clear_pointer(&cache, g_hash_table_unref);
    g_mutex_unlock(&cache_lock);
    if (last) {
        vae_model_free(&model->model);
        g_free(model->key);
        g_free(model);
    }
}

VaeModel *
gst_vae_model_get(const GstVaeModel *model)
{
    return model->model;
}

const VaeModelInfo *
gst_vae_model_info(const GstVaeModel *model)
{
    return vae_model_info(model->model);
}

/* Counting walks through the network, so the last result is kept. */
static gint
look_back(GstVaeModel *model, const VaeStreamParams *params)
{
    const VaeStreamParams of = {.direction = VAE_DECODE,
                                .history = params->history,
                                .tile_plan = params->tile_plan};
    gint steps;

    g_mutex_lock(&facts_lock);
    if (model->look_back < 0 || model->history != of.history ||
        model->tile_plan != of.tile_plan) {
        if (vae_model_looks_back(model->model, &of, &steps, NULL) != VAE_OK)
            steps = 0; /* no decoder */
        model->look_back = steps;
        model->history = of.history;
        model->tile_plan = of.tile_plan;
    }
    steps = model->look_back;
    g_mutex_unlock(&facts_lock);
    return steps;
}

GstVaeDecoderFacts
gst_vae_model_facts(GstVaeModel *model, const VaeStreamParams *params)
{
    const VaeModelInfo *info = vae_model_info(model->model);

    return (GstVaeDecoderFacts){
        info->latent_channels,
        info->temporal,
        info->chunk,
        info->fps_n,
        info->fps_d,
        look_back(model, params),
        vae_model_window(model->model, params->tile_plan)};
}

/* Returns path if it is a regular file, else frees it and returns NULL. */
static gchar *
if_file(gchar *path)
{
    if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
        return path;
    g_free(path);
    return NULL;
}

static gchar *
demo_in_source(void)
{
    gchar *source = gst_vae_source_folder();
    gchar *path = source ? g_build_filename(source, "pipelines", "demo",
                                            "demo.safetensors", NULL)
                         : NULL;

    g_free(source);
    return path ? if_file(path) : NULL;
}

static gchar *
find_demo(void)
{
    /* Beside the plugin, and from libdir/gstreamer-1.0 to the data folder
     * with libdir = lib and libdir = lib/<triplet>. */
    static const gchar *const places[] = {
        "demo.safetensors",
        "../../share/gst-vae/models/demo.safetensors",
        "../../../share/gst-vae/models/demo.safetensors",
    };
    gchar *folder = gst_vae_plugin_folder();
    gchar *path = NULL;

    if (!folder)
        return NULL;
    for (guint i = 0; i < G_N_ELEMENTS(places) && !path; i++)
        path = if_file(g_build_filename(folder, places[i], NULL));
    if (!path)
        path = demo_in_source();
    g_free(folder);
    return path;
}

/* Names come from caps, so from anyone: none may leave the folder. */
static gboolean
safe_name(const gchar *space)
{
    return *space != '.' && !strchr(space, '/') && !strchr(space, '\\');
}

/* Returns a string of the engine for g_free(). */
static gchar *
own(char *text)
{
    gchar *copy = g_strdup(text);

    free(text);
    return copy;
}

/* Like g_set_error(). found may be NULL. */
static void G_GNUC_PRINTF(4, 5)
    set_missing(GError **error, const gchar *found, const gchar *expected,
                const gchar *format, ...)
{
    g_autofree gchar *message = NULL;
    va_list args;

    if (!error)
        return;
    va_start(args, format);
    message = g_strdup_vprintf(format, args);
    va_end(args);
    *error = gst_vae_error_new(
        GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, message,
        gst_vae_mismatch_details((GstVaeMismatch){"model", found, expected}));
}

gchar *
gst_vae_models_find(const gchar *space, GError **error)
{
    gchar *path = NULL;

    if (!space || !*space) {
        set_missing(error, NULL, "model or latent-space",
                    "The latent caps declare no latent-space, so the model "
                    "is not known: set the property model=... to a file of "
                    "weights, or name the space upstream (latentdemux "
                    "latent-space=...). A player needs it in the file: "
                    "latentdemux latent-space=... ! latentmux writes it");
        return NULL;
    }
    if (!safe_name(space)) {
        set_missing(error, space, "a name without folders",
                    "The latent space \"%s\" is not known, and its name is no "
                    "name of a file: set the property model=...",
                    space);
        return NULL;
    }
    path = own(vae_installed_find(space));
    if (!path && strcmp(space, GST_VAE_DEMO_SPACE) == 0)
        path = find_demo();
    if (!path) {
        g_autofree gchar *expected = own(vae_installed_place(space));
        const gboolean known = vae_space_find(space) != NULL;
        const VaeSpace *like = known ? NULL : vae_space_nearest(space);

        set_missing(error, NULL, expected,
                    "No model for the latent space \"%s\" is installed: put "
                    "the weights at %s or set the property model=...%s%s%s",
                    space, expected,
                    known  ? ""
                    : like ? " The space is not known; the nearest is "
                           : " The space is not known; vaetool info --spaces "
                             "lists those that are",
                    like ? like->name : "",
                    like ? ": if it is meant, set latent-space to it" : "");
    }
    return path;
}

/* The bundled model and its tiny companion do not count as installed. */
static gboolean
is_demo(const gchar *name)
{
    return strcmp(name, "demo") == 0 || strcmp(name, "demo-tiny") == 0;
}

/* Adds a model, unless there is one of its name. A folder with another name
 * than that of a space may hold anything. */
static void
add_installed(gpointer paths, const gchar *space, const gchar *path)
{
    if (!vae_space_find(space) && vae_os_is_kind(path, VAE_FILE_FOLDER))
        return;
    if (!is_demo(space) && !g_hash_table_contains(paths, space))
        g_hash_table_insert(paths, g_strdup(space), g_strdup(path));
}

/* The only one of paths, or the error that there are several. (transfer full)
 */
static gchar *
only_one(GHashTable *paths, GError **error)
{
    GList *list =
        g_list_sort(g_hash_table_get_values(paths), (GCompareFunc) g_strcmp0);
    gchar *path = NULL;

    if (!list->next) {
        path = g_strdup(list->data);
    } else {
        g_autofree gchar *found = g_strdup_printf(
            "%s, %s%s", (gchar *) list->data, (gchar *) list->next->data,
            list->next->next ? ", ..." : "");

        set_missing(error, found, "one model",
                    "%u models are installed (%s), and nothing says which one "
                    "is meant: set the property model=..., or latent-space in "
                    "the caps after the encoder",
                    g_hash_table_size(paths), found);
    }
    g_list_free(list);
    return path;
}

gchar *
gst_vae_models_find_any(GError **error)
{
    GHashTable *paths =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    gchar *path;

    vae_installed_list(add_installed, paths);
    path = g_hash_table_size(paths) > 0 ? only_one(paths, error) : find_demo();
    if (!path && g_hash_table_size(paths) == 0) {
        g_autofree gchar *expected = own(vae_installed_folder(0));

        set_missing(error, NULL, expected,
                    "No model is installed in %s: set the property model=... "
                    "to a file of weights",
                    expected);
    }
    g_hash_table_unref(paths);
    return path;
}
