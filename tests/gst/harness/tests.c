/* tests.c: runs the tests of a program, and reports what fails. */
#include "vae_test.h"

#include <glib/gstdio.h>

static const char *running = "";

void
vae_test_fail(const char *what, const char *file, int line)
{
    g_printerr("%s: %s:%d: %s does not hold\n", running, file, line, what);
    exit(1);
}

void
vae_test_check_int(gint64 found, gint64 expected, const char *what,
                   const char *file, int line)
{
    if (found == expected)
        return;
    g_printerr("%s: %s:%d: %s is %" G_GINT64_FORMAT
               ", expected %" G_GINT64_FORMAT "\n",
               running, file, line, what, found, expected);
    exit(1);
}

void
vae_test_check_str(const char *found, const char *expected, const char *what,
                   const char *file, int line)
{
    if (g_strcmp0(found, expected) == 0)
        return;
    g_printerr("%s is '%s', expected '%s'\n", what, found, expected);
    vae_test_fail(what, file, line);
}

/* The registry keeps these objects and their caps. */
static gboolean
permanent(const GstStructure *entry)
{
    const GValue *object = gst_structure_get_value(entry, "object");
    g_autofree gchar *text = gst_value_serialize(object);
    const gboolean ours =
        g_type_is_a(G_VALUE_TYPE(object), GST_TYPE_PLUGIN_FEATURE) ||
        (G_VALUE_TYPE(object) == GST_TYPE_CAPS && text &&
         strstr(text, "application/x-"));
    return ours;
}

static guint
count_alive(GObject *tracer, gboolean print)
{
    GstStructure *live = NULL; /* not freed: the tracer owns what it lists */
    const GValue *list;
    guint n = 0;
    g_signal_emit_by_name(tracer, "get-live-objects", &live);
    list = live ? gst_structure_get_value(live, "live-objects-list") : NULL;
    for (guint i = 0; list && i < gst_value_list_get_size(list); i++) {
        const GstStructure *entry =
            gst_value_get_structure(gst_value_list_get_value(list, i));
        if (permanent(entry))
            continue;
        n++;
        g_autofree gchar *text = gst_structure_to_string(entry);
        if (print)
            g_printerr("alive at the end: %s\n", text);
    }
    return n;
}

/* Returns the number of living objects by the leaks tracer, or 0 without it. */
static guint
alive(gboolean print)
{
    GList *tracers = gst_tracing_get_active_tracers();
    guint n = 0;
    for (GList *l = tracers; l; l = l->next)
        if (g_strcmp0(G_OBJECT_TYPE_NAME(l->data), "GstLeaksTracer") == 0)
            n += count_alive(l->data, print);
    g_list_free_full(tracers, gst_object_unref);
    return n;
}

/* Waits until no more objects are alive than before the tests. GStreamer's
 * threads, of tasks and of asynchronous calls, free objects later than the
 * functions that wait for them return, and the tracer returns objects to which
 * it has no reference. The threads must therefore end first. A thread that
 * never ends is a hang. */
static gboolean
leaks(guint before)
{
    gst_task_cleanup_all();
    return alive(FALSE) > before && alive(TRUE) > before;
}

static gboolean
named(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return TRUE;
    return argc < 2;
}

static VaeTest *tests;
void (*vae_test_after)(void);

void
vae_test_add(VaeTest *test)
{
    VaeTest **place = &tests;
    while (*place && (*place)->line < test->line)
        place = &(*place)->next;
    test->next = *place;
    *place = test;
}

static gchar *test_folder;

const gchar *
vae_test_path(const gchar *name)
{
    if (!test_folder)
        test_folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    g_autofree gchar *path = g_build_filename(test_folder, name, NULL);
    return g_intern_string(path);
}

static void
empty_folder(void)
{
    g_autoptr(GDir) folder =
        test_folder ? g_dir_open(test_folder, 0, NULL) : NULL;
    const gchar *name;
    while (folder && (name = g_dir_read_name(folder)))
        CHECK_INT(g_remove(vae_test_path(name)), 0);
}

int
vae_test_main(int argc, char **argv)
{
    gst_init(NULL, NULL);
    guint before = alive(FALSE);
    if (!gst_registry_check_feature_version(gst_registry_get(), "vaedecode", 0,
                                            1, 0)) {
        g_printerr("the plugin is not in GST_PLUGIN_PATH\n");
        return 1;
    }
    for (const VaeTest *test = tests; test; test = test->next) {
        if (!named(argc, argv, test->name))
            continue;
        running = test->name;
        test->run();
        if (vae_test_after)
            vae_test_after();
        empty_folder();
        g_print("ok %s\n", running);
    }
    if (test_folder)
        CHECK_INT(g_rmdir(test_folder), 0);
    g_clear_pointer(&test_folder, g_free);
    return leaks(before) ? 1 : 0;
}
