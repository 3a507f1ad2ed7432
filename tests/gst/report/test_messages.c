/*
 * test_messages.c: the messages of the elements: errors for wrong sizes and
 * missing elements, progress, and the log of the engine, with their sources.
 */
#include "vae_test.h"

#include "vae-private/stream.h"

/* Pushes caps. They must be refused with an error that has both words. The
 * backend is ref, because oneDNN describes convolutions of huge pictures for
 * minutes. */
static void
check_refused(const char *element, const char *caps, GQuark domain, gint code,
              const char *word, const char *other)
{
    SCOPED GstHarness *h = vae_test_harness(element, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "ref");
    vae_test_start(h, caps);
    vae_test_expect_error(h, domain, code, word, other);
}

TEST(sizes)
{
    static const char *const grid = "video/x-vae-latent,type=float32,"
                                    "channels=16,latent-width=%d,"
                                    "latent-height=%d,framerate=16/1";
    g_autofree gchar *wide = g_strdup_printf(grid, 9000, 1);
    g_autofree gchar *wider = g_strdup_printf(grid, 20000, 1);
    g_autofree gchar *large = g_strdup_printf(grid, 8000, 8000);
    g_autofree gchar *much = g_strdup_printf(grid, 4000, 4000);
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
}

/* Checks a pipeline that fails: element "e" posts one error, which comes first
 * and has both words. */
static void
check_error(const char *word, const char *other, const char *format, ...)
{
    GstMessage *message;
    GError *problem = NULL;
    va_list args;
    va_start(args, format);
    g_autofree gchar *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, &problem);
    CHECK(pipeline != NULL && problem == NULL);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    vae_test_bus_error(bus, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, word,
                       other);
    gst_element_set_state(pipeline, GST_STATE_READY);
    while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR))) {
        CHECK(strcmp(GST_MESSAGE_SRC_NAME(message), "e") != 0);
        gst_message_unref(message);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

/* The element in front is missing. */
TEST(foreign)
{
    const char *const file = vae_test_weights();
    g_autofree gchar *bytes =
        g_strconcat(file,
                    ": found data without caps (probably "
                    "application/x-safetensors), expected video/",
                    NULL);
    g_autofree gchar *typed =
        g_strconcat(file, ": found application/x-safetensors", NULL);
    const char *const demux = ": put latentdemux (or decodebin) before "
                              "vaedecode";
    const char *const decoder = "video/x-raw: put a decoder (such as "
                                "decodebin) and videoconvert before vaeencode";
    check_error(bytes, demux,
                "filesrc location=%s ! vaedecode name=e ! fakesink", file);
    check_error(typed, demux,
                "filesrc location=%s ! typefind ! vaedecode name=e ! fakesink",
                file);
    check_error(bytes, decoder,
                "filesrc location=%s ! vaeencode name=e ! fakesink", file);
    check_error(typed, decoder,
                "filesrc location=%s ! typefind ! vaeencode name=e ! fakesink",
                file);
    check_error("found data without caps", demux,
                "fakesrc sizetype=fixed filltype=zero num-buffers=3 ! "
                "vaedecode name=e ! fakesink");
    check_error("found data without caps", demux,
                "fakesrc sizetype=empty num-buffers=3 ! "
                "vaedecode name=e ! fakesink");
    check_refused("vaedecode", "other/npy", GST_STREAM_ERROR,
                  GST_STREAM_ERROR_WRONG_TYPE,
                  "found other/npy, expected video/"
                  "x-vae-latent or other/tensors",
                  demux);
    check_refused("vaedecode",
                  "video/x-raw,format=RGBA,width=16,height=16,framerate=16/1",
                  GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE,
                  "found video/x-raw, expected video/x-vae-latent",
                  ": vaeencode makes latents of video");
    check_refused("vaeencode",
                  "video/x-raw(memory:GLMemory),format=RGBA,width=16,height=16,"
                  "framerate=16/1",
                  GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE,
                  "found video/x-raw(memory:GLMemory)",
                  "expected video/x-raw in the memory of the system");
}

/* A query, such as that of decodebin, causes no error. */
TEST(asked)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "sink");
    g_autoptr(GstCaps) caps =
        gst_caps_new_empty_simple("application/x-safetensors");
    CHECK(!gst_pad_query_accept_caps(pad, caps));
    vae_test_none(h, GST_MESSAGE_ERROR);
}

/* Returns the next progress message of a kind. (transfer full) */
static gchar *
progress(GstBus *bus, GstProgressType expected, const char *code)
{
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_PROGRESS);
    GstProgressType type;
    gchar *found, *text;
    CHECK(message != NULL);
    gst_message_parse_progress(message, &type, &found, &text);
    CHECK_INT(type, expected);
    CHECK(strcmp(found, code) == 0);
    g_free(found);
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

/* Returns the WARNING messages until the model is loaded. */
static gchar *
said_while_loading(GstBus *bus)
{
    GString *said = g_string_new("");
    GstProgressType type = GST_PROGRESS_TYPE_START;
    while (type != GST_PROGRESS_TYPE_COMPLETE) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
            bus, 100 * GST_SECOND,
            GST_MESSAGE_WARNING | GST_MESSAGE_PROGRESS | GST_MESSAGE_ERROR);
        g_autoptr(GError) warning = NULL;
        CHECK(message && GST_MESSAGE_TYPE(message) != GST_MESSAGE_ERROR);
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_PROGRESS) {
            gst_message_parse_progress(message, &type, NULL, NULL);
            continue;
        }
        gst_message_parse_warning(message, &warning, NULL);
        g_string_append(said, warning->message);
    }
    return g_string_free(said, FALSE);
}

/* Several networks have these weights: one WARNING says which is taken, unless
 * the user set it. */
TEST(several_networks)
{
    const gchar *copy = vae_test_path("w.safetensors");
    g_autofree gchar *data = NULL;
    gsize size;
    CHECK(g_file_get_contents(vae_test_network("taehv/taew2_1"), &data, &size,
                              NULL));
    gchar *field = g_strstr_len(data + 8, (gssize) size - 8, "\"variant\"");
    CHECK(field != NULL);
    field[1] = 'r';
    CHECK(g_file_set_contents(copy, data, (gssize) size, NULL));
    for (guint set = 0; set < 2; set++) {
        SCOPED GstHarness *h = vae_test_harness(
            "vaedecode", "model", "", "variant", set ? "taew2_1" : NULL, NULL);
        GstBus *bus = vae_test_bus(h);
        g_object_set(h->element, "model", copy, NULL);
        vae_test_set_latents(h, 6, 4, NULL);
        vae_test_push_latents(h, 6, 4, 0, 1);
        g_autofree gchar *said = said_while_loading(bus);
        CHECK((strstr(said, "taew2_1 is taken") != NULL) == !set);
    }
}

TEST(progress)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", "model", "", NULL);
    GstBus *bus = vae_test_bus(h);
    g_object_set(h->element, "model", vae_test_weights(), NULL);
    vae_test_set_latents(h, 6, 4, NULL);
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
}

typedef struct Expected {
    const char *text;
    gint found; /* atomic */
} Expected;

static void
look(GstDebugCategory *category, GstDebugLevel level, const gchar *file,
     const gchar *function, gint line, GObject *object,
     GstDebugMessage *message, gpointer user)
{
    Expected *expected = user;
    if (strstr(gst_debug_message_get(message), expected->text))
        g_atomic_int_set(&expected->found, 1);
}

/* The log of the element has the sentences of the engine. */
static void
check_log(const gchar *backend, const gchar *words)
{
    Expected expected = {words, 0};
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", 1, NULL);
    gst_debug_add_log_function(look, &expected, NULL);
    gst_debug_set_threshold_for_name("vaeengine", GST_LEVEL_INFO);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", backend);
    vae_test_set_latents(h, 6, 4, NULL);
    vae_test_push_latents(h, 6, 4, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    vae_test_teardown(h);
    gst_debug_remove_log_function_by_data(&expected);
    gst_debug_unset_threshold_for_name("vaeengine");
    CHECK_INT(expected.found, 1);
}

TEST(log)
{
    char why[256], text[320];
    if (vae_backend_available(VAE_BACKEND_CUDA, why, sizeof why))
        return;
    g_snprintf(text, sizeof text, "backend cuda is not taken: %s", why);
    check_log("auto", text);
}

TEST(log_taken)
{
    check_log("ref", "), fp32, 48x32, slices of 1");
}

/* A GPU that is set but missing, and the default device: 0 is the default of
 * the library. */
TEST(device)
{
    const gint ids[] = {G_MAXINT, 0, -1};
    for (guint i = 0; i < G_N_ELEMENTS(ids); i++) {
        SCOPED GstHarness *h =
            vae_test_harness("vaedecode", "cuda-device-id", ids[i], NULL);
        gst_util_set_object_arg(G_OBJECT(h->element), "backend", "auto");
        vae_test_set_latents(h, 6, 4, NULL);
        vae_test_push_latents(h, 6, 4, 0, 1);
        g_free(vae_test_pull_frames(h, 0, 1));
        if (i == 0)
            vae_test_one_warning(h, "device 2147483647 was asked for, and");
        vae_test_none(h, GST_MESSAGE_WARNING);
    }
}

/* Upstream knows the duration. */
static GstPadProbeReturn
answer_duration(GstPad *pad, GstPadProbeInfo *info, gpointer duration)
{
    if (GST_QUERY_TYPE(info->data) != GST_QUERY_DURATION)
        return GST_PAD_PROBE_OK;
    gst_query_set_duration(info->data, GST_FORMAT_TIME,
                           *(const gint64 *) duration);
    return GST_PAD_PROBE_HANDLED;
}

/* Decodes 5 of n latents in this state. */
static GstHarness *
run_file(GstBus **bus, const gint64 *duration, GstState state)
{
    GstHarness *h = vae_test_harness("vaedecode", "stats-interval", (guint64) 0,
                                     "slice-size", 1, NULL);
    if (*duration)
        gst_pad_add_probe(h->srcpad, GST_PAD_PROBE_TYPE_QUERY_UPSTREAM,
                          answer_duration, (gpointer) duration, NULL);
    gst_element_set_state(h->element, state);
    *bus = vae_test_bus(h);
    vae_test_set_latents(h, 6, 4, NULL);
    vae_test_push_latents(h, 6, 4, 0, 5);
    g_free(vae_test_pull_frames(h, 0, 17));
    return h;
}

/* Waits until the task has posted its message about the last frame. */
static void
wait_for_task(GstHarness *h)
{
    g_autoptr(GstEvent) event = gst_event_new_custom(
        GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty("behind"));
    gst_harness_push_event(h, event);
    while (!(event = vae_test_event(h, GST_EVENT_CUSTOM_DOWNSTREAM)))
        g_usleep(1000);
}

/* The field for programs, beside the text. */
static gint
percent_of(GstMessage *message)
{
    gint percent = -1;
    CHECK(gst_structure_get_int(gst_message_get_structure(message), "percent",
                                &percent));
    return percent;
}

/* Returns the progress of "decode", as "START 1.1 s of video (0)|CONTINUE
 * ...". */
static gchar *
file_progress(GstBus *bus)
{
    static const char *const names[] = {
        [GST_PROGRESS_TYPE_START] = "START",
        [GST_PROGRESS_TYPE_CONTINUE] = "CONTINUE",
        [GST_PROGRESS_TYPE_COMPLETE] = "COMPLETE",
        [GST_PROGRESS_TYPE_CANCELED] = "CANCELED",
        [GST_PROGRESS_TYPE_ERROR] = "ERROR"};
    GString *told = g_string_new(NULL);
    GstMessage *message;
    while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_PROGRESS))) {
        GstProgressType type;
        g_autofree gchar *code = NULL, *text = NULL;
        gst_message_parse_progress(message, &type, &code, &text);
        if (strcmp(code, "decode") == 0)
            g_string_append_printf(told, "%s%s %s (%d)", told->len ? "|" : "",
                                   names[type], text, percent_of(message));
        gst_message_unref(message);
    }
    return g_string_free(told, FALSE);
}

static void
check_told(GstBus *bus, const char *expected)
{
    g_autofree gchar *told = file_progress(bus);
    if (strcmp(told, expected) != 0)
        g_printerr("told \"%s\", expected \"%s\"\n", told, expected);
    CHECK(strcmp(told, expected) == 0);
}

/* Latent k of 5 ends with frame 4k, of 17 frames in total. */
TEST(file_progress)
{
    const gint64 whole = (gint64) vae_test_time(17), none = 0;
    const char *const begun = "START 1.1 s of video (5)|CONTINUE 29 % (29)|"
                              "CONTINUE 52 % (52)|CONTINUE 76 % (76)|"
                              "CONTINUE 100 % (100)|";
    GstBus *bus;
    SCOPED GstHarness *h = run_file(&bus, &whole, GST_STATE_PLAYING);
    gchar *expected = g_strconcat(begun, "COMPLETE 100 % (100)", NULL);
    vae_test_push_eos(h);
    check_told(bus, expected);
    vae_test_teardown(h);
    g_free(expected);

    h = run_file(&bus, &whole, GST_STATE_PLAYING);
    wait_for_task(h);
    gst_element_set_state(h->element, GST_STATE_READY);
    expected = g_strconcat(begun, "CANCELED stopped (100)", NULL);
    check_told(bus, expected);
    vae_test_teardown(h);
    g_free(expected);

    /* An application that waits for the end of each PROGRESS before PLAYING
     * must not wait forever. */
    h = run_file(&bus, &whole, GST_STATE_PAUSED);
    check_told(bus, "");
    vae_test_teardown(h);

    h = run_file(&bus, &none, GST_STATE_PLAYING);
    vae_test_push_eos(h);
    check_told(bus, "");
}

/* A line of the log: its object, its level and words of it. */
typedef struct Line {
    const char *category;
    GstDebugLevel level;
    const char *words;
    gint found; /* atomic */
} Line;

static void
look_for_lines(GstDebugCategory *category, GstDebugLevel level,
               const gchar *file, const gchar *function, gint number,
               GObject *object, GstDebugMessage *message, gpointer user)
{
    const char *name = gst_debug_category_get_name(category);
    for (Line *line = user; line->category; line++)
        if (strcmp(name, line->category) == 0 && level == line->level &&
            strstr(gst_debug_message_get(message), line->words))
            g_atomic_int_set(&line->found, 1);
}

/* Each debug category has its messages. */
TEST(categories)
{
    Line lines[] = {{"vaedecode", GST_LEVEL_LOG, "steps in", 0},
                    {"vaedecode", GST_LEVEL_DEBUG, "READY->PAUSED", 0},
                    {"vaedecode", GST_LEVEL_INFO, "latent space wan2.1", 0},
                    {"vaeencode", GST_LEVEL_LOG, "steps in", 0},
                    {"vaeencode", GST_LEVEL_DEBUG, "READY->PAUSED", 0},
                    {"vaeencode", GST_LEVEL_INFO, "latent space wan2.1", 0},
                    {"latentmux", GST_LEVEL_LOG, "latent 1:", 0},
                    {"latentmux", GST_LEVEL_DEBUG, "READY->PAUSED", 0},
                    {"latentdemux", GST_LEVEL_LOG, "latent 1:", 0},
                    {"latentdemux", GST_LEVEL_DEBUG, "READY->PAUSED", 0},
                    {NULL, 0, NULL, 0}};
    const gchar *file = vae_test_path("clip.safetensors");
    gst_debug_add_log_function(look_for_lines, lines, NULL);
    gst_debug_set_threshold_from_string("vae*:6,latent*:6", FALSE);
    vae_test_run("videotestsrc num-buffers=5 ! video/x-raw,width=48,height=32 "
                 "! vaeencode backend=ref threads=1 model=%s ! latentmux ! "
                 "filesink location=%s",
                 vae_test_weights(), file);
    vae_test_run("filesrc location=%s ! latentdemux ! "
                 "vaedecode backend=ref threads=1 model=%s ! fakesink",
                 file, vae_test_weights());
    gst_debug_remove_log_function_by_data(lines);
    gst_debug_set_threshold_from_string("", TRUE);
    for (const Line *line = lines; line->category; line++) {
        if (!line->found)
            g_printerr("%s does not say \"%s\"\n", line->category, line->words);
        CHECK(line->found);
    }
}

/* All elements have the same author and package, and no address on a network,
 * because there is none. The pages are files: in the build folder those of the
 * source. */
TEST(author)
{
    static const char *const names[] = {"vaedecode", "vaeencode", "latentdemux",
                                        "latentmux"};
    g_autoptr(GstPlugin) plugin =
        gst_registry_find_plugin(gst_registry_get(), "vae");
    CHECK(g_str_has_prefix(gst_plugin_get_origin(plugin), "file:///"));
    CHECK(strcmp(gst_plugin_get_package(plugin), "gst-vae") == 0);
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GstElementFactory) f = gst_element_factory_find(names[i]);
        CHECK(strcmp(gst_element_factory_get_metadata(
                         f, GST_ELEMENT_METADATA_AUTHOR),
                     "gst-vae developers") == 0);
        g_autofree char *page = g_filename_from_uri(
            gst_element_factory_get_metadata(f, GST_ELEMENT_METADATA_DOC_URI),
            NULL, NULL);
        g_autofree char *folder = g_path_get_dirname(page);
        g_autofree char *docs =
            g_build_filename(g_getenv("VAE_TEST_SOURCE"), "docs", NULL);
        CHECK(strcmp(folder, docs) == 0);
        CHECK(g_file_test(page, G_FILE_TEST_IS_REGULAR));
    }
}

int
main(int argc, char **argv)
{
    /* The first typefinding loads the plugin, and its caps stay allocated. */
    gst_init(&argc, &argv);
    GstPlugin *finders = gst_plugin_load_by_name("typefindfunctions");
    gst_clear_object(&finders);
    return vae_test_main(argc, argv);
}
