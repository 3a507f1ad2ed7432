/*
 * test_presets.c: the bundled presets, from GST_PRESET_PATH.
 */
#include "vae_test.h"

static const char *const names[] = {"low-latency", "low-memory", "quality",
                                    NULL};

/* Sorted by name. */
static gchar **
presets_of(GstElement *element)
{
    gchar **found = gst_preset_get_preset_names(GST_PRESET(element));
    CHECK(found != NULL);
    for (guint i = 0; found[i]; i++)
        for (guint j = i + 1; found[j]; j++)
            if (strcmp(found[i], found[j]) > 0) {
                gchar *swap = found[i];
                found[i] = found[j];
                found[j] = swap;
            }
    return found;
}

/* Every line of the file is a property with this value after loading. */
static void
check_file(GstElement *element, GKeyFile *file, const char *preset)
{
    gchar **keys = g_key_file_get_keys(file, preset, NULL, NULL);
    guint n = 0;
    CHECK(keys != NULL);
    for (guint i = 0; keys[i]; i++) {
        g_autofree gchar *text =
            g_key_file_get_value(file, preset, keys[i], NULL);
        GValue found = G_VALUE_INIT, expected = G_VALUE_INIT;
        GParamSpec *spec;
        if (strncmp(keys[i], "_meta/", 6) != 0) {
            spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element),
                                                keys[i]);
            if (!spec)
                g_printerr("%s has %s, which is no property\n", preset,
                           keys[i]);
            CHECK(spec != NULL);
            g_value_init(&expected, spec->value_type);
            CHECK(gst_value_deserialize(&expected, text));
            g_value_init(&found, spec->value_type);
            g_object_get_property(G_OBJECT(element), keys[i], &found);
            if (g_param_values_cmp(spec, &found, &expected) != 0)
                g_printerr("%s: %s is not %s\n", preset, keys[i], text);
            CHECK(g_param_values_cmp(spec, &found, &expected) == 0);
            g_value_unset(&found);
            g_value_unset(&expected);
            n++;
        }
    }
    CHECK_INT(n, 5);
    g_strfreev(keys);
}

static void
check_element(const char *name, const char *type)
{
    g_autoptr(GstElement) element = gst_element_factory_make(name, NULL);
    gchar *base = g_strconcat(type, ".prs", NULL), *path, *text, **found;
    g_autoptr(GKeyFile) file = g_key_file_new();
    guint slice, depth;
    path = g_build_filename(g_getenv("GST_PRESET_PATH"), base, NULL);
    CHECK(g_key_file_load_from_file(file, path, G_KEY_FILE_NONE, NULL));
    CHECK(GST_IS_PRESET(element));
    found = presets_of(element);
    CHECK_INT(g_strv_length(found), G_N_ELEMENTS(names) - 1);
    for (guint i = 0; names[i]; i++)
        CHECK(strcmp(found[i], names[i]) == 0);
    g_strfreev(found);
    for (guint i = 0; names[i]; i++) {
        CHECK(gst_preset_load_preset(GST_PRESET(element), names[i]));
        check_file(element, file, names[i]);
        CHECK(gst_preset_get_meta(GST_PRESET(element), names[i], "comment",
                                  &text));
        g_free(text);
    }
    CHECK(gst_preset_load_preset(GST_PRESET(element), "low-latency"));
    g_object_get(element, "slice-size", &slice, "queue-depth", &depth, NULL);
    CHECK_INT(slice, 1);
    CHECK_INT(depth, 1);
    CHECK(!gst_preset_load_preset(GST_PRESET(element), "no-such"));
    g_free(path);
    g_free(base);
}

TEST(presets)
{
    check_element("vaedecode", "GstVaeDecode");
    check_element("vaeencode", "GstVaeEncode");
}

/* A preset as in a line of gst-launch-1.0. */
TEST(launch)
{
    GError *error = NULL;
    g_autoptr(GstElement) bin = gst_parse_launch(
        "vaeencode name=e @preset=low-memory ! vaedecode name=d "
        "@preset=quality",
        &error);
    g_autoptr(GstElement) e =
        bin ? gst_bin_get_by_name(GST_BIN(bin), "e") : NULL;
    g_autoptr(GstElement) d =
        bin ? gst_bin_get_by_name(GST_BIN(bin), "d") : NULL;
    guint64 idle;
    gboolean qos;
    CHECK(!error && e && d);
    g_object_get(e, "idle-release", &idle, NULL);
    CHECK_INT(idle, GST_SECOND);
    g_object_get(d, "qos", &qos, NULL);
    CHECK(!qos);
}
