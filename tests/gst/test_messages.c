/*
 * test_messages.c: what the elements tell: sizes that are too large, where
 * loading stands, what the engine thinks, who made them.
 */
#include "vae_test.h"

#include <string.h>
#include <vae/stream.h>

/* Pushes caps that are refused with an error that holds both words. */
static void
check_refused(const char *element, const char *caps, GQuark domain, gint code,
              const char *word, const char *other)
{
    GstHarness *h = vae_test_harness(element, NULL);
    GstBus *bus = vae_test_bus(h);
    GstCaps *wrong = gst_caps_from_string(caps);

    gst_harness_push_event(h, gst_event_new_stream_start("refused"));
    gst_harness_push_event(h, gst_event_new_caps(wrong));
    vae_test_expect_error(bus, domain, code, word, other);
    gst_caps_unref(wrong);
    gst_element_set_bus(h->element, NULL);
    gst_object_unref(bus);
    vae_test_teardown(h);
}

static void
test_sizes(void)
{
    static const char *const grid = "video/x-vae-latent,type=float32,"
                                    "channels=16,latent-width=%d,"
                                    "latent-height=%d,framerate=16/1";
    gchar *wide = g_strdup_printf(grid, 9000, 1);
    gchar *wider = g_strdup_printf(grid, 20000, 1);
    gchar *large = g_strdup_printf(grid, 8000, 8000);
    gchar *much = g_strdup_printf(grid, 4000, 4000);

    check_refused("vaedecode", wide, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                  "9000x1 are a picture of 72000x8 pixels", "65535");
    check_refused("vaedecode", wider, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                  "20000", "16384");
    check_refused("vaeencode",
                  "video/x-raw,format=I420,width=70000,height=16,"
                  "framerate=16/1",
                  GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "70000x16",
                  "65535");
    check_refused("vaedecode", large, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                  "64000x64000", "2 GiB");
    check_refused("vaedecode", much, GST_RESOURCE_ERROR,
                  GST_RESOURCE_ERROR_NO_SPACE_LEFT, "32000x32000", "MiB");
    g_free(wide);
    g_free(wider);
    g_free(large);
    g_free(much);
}

/* The next progress message of a kind. (transfer full) */
static gchar *
progress(GstBus *bus, GstProgressType wanted, const char *code)
{
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, 20 * GST_SECOND, GST_MESSAGE_PROGRESS);
    GstProgressType type;
    gchar *found, *text;

    CHECK(message != NULL);
    gst_message_parse_progress(message, &type, &found, &text);
    CHECK_INT(type, wanted);
    CHECK(strcmp(found, code) == 0);
    g_free(found);
    gst_message_unref(message);
    return text;
}

static void
check_text(gchar *text, const char *word, const char *other)
{
    if (!strstr(text, word) || !strstr(text, other))
        g_printerr("\"%s\" has no %s or %s\n", text, word, other);
    CHECK(strstr(text, word) && strstr(text, other));
    g_free(text);
}

static void
test_progress(void)
{
    GstHarness *h = vae_test_harness("vaedecode", "model", "", NULL);
    GstBus *bus = vae_test_bus(h);
    gchar *caps = vae_test_latent_caps(6, 4, NULL);

    g_object_set(h->element, "model", vae_test_weights(), NULL);
    gst_harness_set_src_caps_str(h, caps);
    vae_test_push_latents(h, 6, 4, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    check_text(progress(bus, GST_PROGRESS_TYPE_START, "load-model"), "loading",
               vae_test_weights());
    check_text(progress(bus, GST_PROGRESS_TYPE_COMPLETE, "load-model"),
               "loaded", "latent space wan2.1");
    check_text(progress(bus, GST_PROGRESS_TYPE_START, "open-stream"),
               "preparing", "48x32");
    check_text(progress(bus, GST_PROGRESS_TYPE_COMPLETE, "open-stream"),
               "48x32 pixels: backend", "MiB");
    gst_element_set_bus(h->element, NULL);
    gst_object_unref(bus);
    g_free(caps);
    vae_test_teardown(h);
}

typedef struct Wanted {
    const char *text;
    gint found; /* atomic */
} Wanted;

static void
look(GstDebugCategory *category, GstDebugLevel level, const gchar *file,
     const gchar *function, gint line, GObject *object,
     GstDebugMessage *message, gpointer user)
{
    Wanted *wanted = user;

    if (strstr(gst_debug_message_get(message), wanted->text))
        g_atomic_int_set(&wanted->found, 1);
}

/* The engine's sentences are in the element's log. */
static void
test_log(void)
{
    char why[256], text[320];
    Wanted wanted = {text, 0};
    GstHarness *h;
    gchar *caps;

    if (vae_backend_available(VAE_BACKEND_CUDA, why, sizeof why))
        return;
    g_snprintf(text, sizeof text, "backend cuda is not taken: %s", why);
    gst_debug_add_log_function(look, &wanted, NULL);
    gst_debug_set_threshold_for_name("vaebase", GST_LEVEL_INFO);
    h = vae_test_harness("vaedecode", NULL);
    caps = vae_test_latent_caps(6, 4, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "auto");
    gst_harness_set_src_caps_str(h, caps);
    vae_test_push_latents(h, 6, 4, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    g_free(caps);
    vae_test_teardown(h);
    gst_debug_remove_log_function_by_data(&wanted);
    gst_debug_unset_threshold_for_name("vaebase");
    CHECK_INT(wanted.found, 1);
}

/* One name everywhere, and no address that does not exist. */
static void
test_author(void)
{
    static const char *const names[] = {"vaedecode", "vaeencode", "latentdemux",
                                        "latentmux"};
    GstPlugin *plugin = gst_registry_find_plugin(gst_registry_get(), "vae");

    CHECK(strcmp(gst_plugin_get_origin(plugin), "gst-vae developers") == 0);
    CHECK(strcmp(gst_plugin_get_package(plugin), "gst-vae") == 0);
    gst_object_unref(plugin);
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        GstElementFactory *f = gst_element_factory_find(names[i]);

        CHECK(strcmp(gst_element_factory_get_metadata(
                         f, GST_ELEMENT_METADATA_AUTHOR),
                     "gst-vae developers") == 0);
        gst_object_unref(f);
    }
}

int
main(int argc, char **argv)
{
    static const VaeTest tests[] = {{"sizes", test_sizes},
                                    {"progress", test_progress},
                                    {"log", test_log},
                                    {"author", test_author},
                                    {NULL, NULL}};

    return vae_test_main(argc, argv, tests);
}
