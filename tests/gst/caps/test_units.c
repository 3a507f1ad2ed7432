/*
 * test_units.c: the parts of the plugin that need no element: latent caps,
 * shared models, and the choice of a model for a latent space.
 */
#include "vae_test.h"

#include <glib/gstdio.h>

#include <utime.h>

#include "details.h"
#include "error.h"
#include "latent.h"
#include "models.h"

TEST(caps_round_trip)
{
    static const char *const texts[] = {
        "video/x-vae-latent,type=float32,layout=chw,frames=1,channels=16,"
        "latent-width=104,latent-height=60",
        "video/x-vae-latent,type=bfloat16,layout=cthw,frames=21,channels=48,"
        "latent-width=7,latent-height=5,width=50,height=34,temporal-factor=4,"
        "first-frames=1,latent-space=wan2.2,normalization=raw,"
        "framerate=30000/1001,pixel-aspect-ratio=4/3,colorimetry=bt2100-hlg",
        "video/x-vae-latent,type=float32,layout=chw,frames=1,channels=16,"
        "latent-width=1,latent-height=1,framerate=1/3600",
        "video/x-vae-latent,type=float32,layout=chw,frames=1,channels=16,"
        "latent-width=1,latent-height=1,framerate=100000/1",
    };
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GstCaps) caps = gst_caps_from_string(texts[i]), back = NULL;
        GstVaeLatentInfo info;
        CHECK(gst_vae_latent_info_from_caps(caps, &info, NULL));
        back = gst_vae_latent_info_to_caps(&info);
        CHECK(gst_caps_is_equal(caps, back));
    }
}

static void
check_caps(const char *text, const char *word, const char *other)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    GstVaeLatentInfo info;
    g_autoptr(GError) error = NULL;
    CHECK(caps != NULL);
    CHECK(!gst_vae_latent_info_from_caps(caps, &info, &error));
    if (gst_caps_is_fixed(caps))
        CHECK(
            gst_structure_get_string(gst_vae_error_details(error), "expected"));
    else
        CHECK(
            g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT));
    if (!strstr(error->message, word) || !strstr(error->message, other))
        g_printerr("%s\n", error->message);
    CHECK(strstr(error->message, word) && strstr(error->message, other));
}

#define GOOD "type=float32,channels=16,latent-width=6,latent-height=4"

TEST(bad_caps)
{
    check_caps("video/x-raw," GOOD, "video/x-raw", GST_VAE_LATENT_NAME);
    check_caps(GST_VAE_LATENT_NAME ",channels=16", "type", "float16");
    check_caps(GST_VAE_LATENT_NAME ",type=float32,channels=[1,16],"
                                   "latent-width=6,latent-height=4",
               "not", "fixed");
    check_caps(GST_VAE_LATENT_NAME ",type=float32,channels=-16,"
                                   "latent-width=6,latent-height=4",
               "channels", "-16");
    check_caps(GST_VAE_LATENT_NAME ",type=float32,channels=16,"
                                   "latent-width=6000000,latent-height=4",
               "6000000", "16384");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",normalization=other", "other",
               "raw");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",colorimetry=pink", "pink",
               "bt709");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",frames=0,layout=tchw", "frames",
               "0");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",layout=thcw", "thcw", "tchw");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",framerate=-1/1", "framerate",
               "-1/1");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",framerate=1/2147483647",
               "framerate = 1/2147483647", "1/3600 to 100000/1");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",framerate=1/3601", "1/3601",
               "1/3600");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",framerate=2147483647/1",
               "framerate = 2147483647/1", "1/3600 to 100000/1");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",framerate=100001/1", "100001/1",
               "100000/1");
    check_caps(GST_VAE_LATENT_NAME "," GOOD ",width=wide", "wide", "65535");
}

/* The largest accepted sizes do not overflow. */
TEST(sizes)
{
    GstVaeLatentInfo info;
    gst_vae_latent_info_init(&info);
    info.channels = 1024;
    info.latent_width = info.latent_height = 16384;
    info.frames = GST_VAE_LATENT_MAX_FRAMES;
    CHECK(gst_vae_latent_info_step_size(&info) == (gsize) 1 << 40);
    CHECK(gst_vae_latent_info_size(&info) == (gsize) GST_VAE_LATENT_MAX_FRAMES
                                                 << 40);
}

static GstVaeModel *
open_model(const char *path)
{
    GstVaeModel *model = NULL;
    VaeError error;
    if (gst_vae_model_open(path, NULL, &model, &error) != VAE_OK)
        g_printerr("%s\n", error.message);
    CHECK(model != NULL);
    return model;
}

/* A file is opened once, and once more after it was rewritten. */
TEST(shared)
{
    const struct utimbuf past = {1000, 1000};
    const gchar *path = vae_test_path("w.safetensors");
    g_autofree gchar *bytes = NULL;
    gsize size;
    CHECK(g_file_get_contents(vae_test_weights(), &bytes, &size, NULL));
    CHECK(g_file_set_contents(path, bytes, (gssize) size, NULL));
    GstVaeModel *a = open_model(path);
    GstVaeModel *b = open_model(path);
    CHECK(a == b);
    CHECK(strcmp(gst_vae_model_info(a)->space, "wan2.1") == 0);
    CHECK(utime(path, &past) == 0);
    GstVaeModel *c = open_model(path);
    CHECK(c != a);
    gst_vae_model_unref(a);
    CHECK(gst_vae_model_get(b) != NULL);
    gst_vae_model_unref(b);
    gst_vae_model_unref(c);
}

static gpointer
open_and_close(gpointer data)
{
    for (guint i = 0; i < 50; i++)
        gst_vae_model_unref(open_model(data));
    return NULL;
}

TEST(shared_threads)
{
    GThread *threads[4];
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        threads[i] =
            g_thread_new("open", open_and_close, (gpointer) vae_test_weights());
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        g_thread_join(threads[i]);
}

static void
touch(const char *path)
{
    CHECK(g_file_set_contents(path, "x", 1, NULL));
}

/* The bundled models do not count as installed. */
static void
test_find_demo(const gchar *folder)
{
    static const char *const names[] = {"demo.safetensors",
                                        "demo-tiny.safetensors"};
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree gchar *path = g_build_filename(folder, names[i], NULL);
        GError *error = NULL;
        touch(path);
        g_free(gst_vae_models_find_any(&error));
        CHECK(!error || !strstr(error->message, names[i]));
        g_clear_error(&error);
        CHECK(remove(path) == 0);
    }
}

/* The error about a model has both words, and its details have the second. */
static void
check_missing(GError *error, const char *word, const char *expected)
{
    const GstStructure *details = gst_vae_error_details(error);

    CHECK_INT(gst_vae_error_domain(error), GST_RESOURCE_ERROR);
    CHECK_INT(error->code, GST_RESOURCE_ERROR_NOT_FOUND);
    CHECK(strstr(error->message, word));
    CHECK_STR(gst_structure_get_string(details, "field"), "model");
    CHECK(g_str_has_suffix(gst_structure_get_string(details, "expected"),
                           expected));
    g_error_free(error);
}

/* The other names of a model count if there is no .safetensors. A folder that
 * is not named after a space is no model. */
static void
test_find_names(const gchar *folder)
{
    static const char *const names[] = {"wan2.1", "wan2.1.ckpt", "wan2.1.pth"};
    g_autofree gchar *other = g_build_filename(folder, "other", NULL);
    gchar *paths[G_N_ELEMENTS(names)];
    CHECK(g_mkdir(other, 0700) == 0);
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        paths[i] = g_build_filename(folder, names[i], NULL);
        if (i == 0)
            CHECK(g_mkdir(paths[i], 0700) == 0);
        else
            touch(paths[i]);
        g_autofree gchar *found = gst_vae_models_find("wan2.1", NULL);
        g_autofree gchar *only = gst_vae_models_find_any(NULL);
        CHECK_STR(found, paths[i]);
        CHECK_STR(only, paths[i]);
    }
    CHECK(remove(other) == 0);
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        CHECK(remove(paths[i]) == 0);
        g_free(paths[i]);
    }
}

TEST(find)
{
    g_autofree gchar *folder =
        g_build_filename(g_get_user_data_dir(), "gst-vae", "models", NULL);
    gchar *path = g_build_filename(folder, "wan2.1.safetensors", NULL), *found;
    g_autofree gchar *second =
        g_build_filename(folder, "wan2.2.safetensors", NULL);
    g_autofree gchar *evil = g_build_filename(g_get_user_data_dir(), "gst-vae",
                                              "evil.safetensors", NULL);
    GError *error = NULL;
    CHECK(g_mkdir_with_parents(folder, 0700) == 0);
    test_find_names(folder);
    touch(path);
    touch(evil);
    found = gst_vae_models_find("wan2.1", NULL);
    CHECK(g_strcmp0(found, path) == 0);
    g_free(found);
    CHECK(!gst_vae_models_find("wan2.2", &error));
    check_missing(g_steal_pointer(&error), "wan2.2.safetensors",
                  "gst-vae/models/wan2.2.safetensors");
    CHECK(!gst_vae_models_find(NULL, &error));
    check_missing(g_steal_pointer(&error), "model=...", "latent-space");
    CHECK(!gst_vae_models_find("../evil", &error));
    g_clear_error(&error);
    found = gst_vae_models_find_any(NULL);
    CHECK(g_strcmp0(found, path) == 0);
    g_free(found);
    touch(second);
    CHECK(!gst_vae_models_find_any(&error)); /* which one is not said */
    CHECK(strstr(error->message, "wan2.1.safetensors"));
    check_missing(g_steal_pointer(&error), "wan2.2.safetensors", "one model");
    CHECK(remove(path) == 0);
    CHECK(remove(second) == 0);
    CHECK(remove(evil) == 0);
    test_find_demo(folder);
    g_free(path);
}

/* Every status has a domain and code that GStreamer knows. */
TEST(errors)
{
    for (gint s = VAE_ERR_ARGUMENT; s <= VAE_ERR_CANCELLED; s++) {
        VaeError fault = {.status = (VaeStatus) s, .message = "why"};
        g_autoptr(GError) error = gst_vae_error_to_gerror(&fault);
        g_autofree gchar *text =
            gst_error_get_message(error->domain, error->code);
        CHECK(strcmp(error->message, "why") == 0);
        CHECK(strstr(text, "No error message for domain") == NULL);
    }
}

int
main(int argc, char **argv)
{
    gchar *home = vae_test_home_new();
    const int status = vae_test_main(argc, argv);
    vae_test_home_free(home);
    return status;
}
