/*
 * test_examples.c: parses every pipeline in the sources of the elements and in
 * the documents. Runs the complete ones that need no network and no GPU.
 */
#include "vae_test.h"

#include <glib/gstdio.h>

/* Files and folders with examples. */
static const char *const files[] = {
    "gst/decode/decode.c",  "gst/encode/encode.c", "gst/latent/demux/demux.c",
    "gst/latent/mux/mux.c", "README.md",           "docs/using.md",
    "docs/streaming.md",    "docs/caps.md"};

/* Elements that need a GPU. */
static const char *const gpu_elements[] = {"nvcudah264enc", "cudaupload",
                                           "cudadownload"};
static const char *const network_elements[] = {
    "tcpserversink", "tcpserversrc", "tcpclientsink", "tcpclientsrc",
    "udpsink",       "udpsrc",       "srtsink",       "srtsrc"};

/* Elements of packages that tests/deps.sh installs. A folder of plugins may
 * lack them. */
static const char *const other_elements[] = {
    "autovideosink",   "gdpdepay",      "rtpgstpay",     "rtpgstdepay",
    "rtpjitterbuffer", "udpsink",       "udpsrc",        "srtsink",
    "srtsrc",          "gdppay",        "tcpclientsink", "tcpserversrc",
    "tcpclientsrc",    "tcpserversink", "vp8enc",        "webmmux"};

static guint missing; /* lines with an element that is not installed */

/* Returns the text of a line in a block of examples, or NULL outside of blocks.
 * A block is between |[ and ]| of a comment, or between two ``` of a
 * document. */
static const char *
example_text(const char *line, gboolean *inside)
{
    const char *text = line + strspn(line, " *");
    if (g_str_has_prefix(text, "|[") || g_str_has_prefix(text, "]|") ||
        g_str_has_prefix(text, "```")) {
        *inside = !*inside && text[0] != ']';
        return NULL;
    }
    return *inside ? text : NULL;
}

static void
broken(const char *file, const char *line)
{
    g_printerr("%s: no whole gst-launch-1.0 line: %s\n", file, line);
    vae_test_fail("an example begins with gst-launch-1.0", file, 0);
}

/* Returns the pipelines of a file, each on one line. (transfer full) */
static GPtrArray *
examples_of(const char *file)
{
    g_autofree gchar *path =
        g_build_filename(g_getenv("VAE_TEST_SOURCE"), file, NULL);
    GPtrArray *found = g_ptr_array_new_with_free_func(g_free);
    GString *whole = g_string_new(NULL);
    gboolean inside = FALSE;
    gchar *content;
    CHECK(g_file_get_contents(path, &content, NULL, NULL));
    gchar **lines = g_strsplit(content, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        const char *text = example_text(lines[i], &inside);
        if (!text)
            continue;
        g_string_append(whole, text);
        if (g_str_has_suffix(text, "\\")) {
            g_string_truncate(whole, whole->len - 1);
            continue;
        }
        /* Documents have other commands, which are skipped. */
        if (g_str_has_suffix(file, ".c") &&
            !g_str_has_prefix(whole->str, "gst-launch-1.0 "))
            broken(file, whole->str);
        if (strstr(whole->str, " !"))
            g_ptr_array_add(found, g_strdup(whole->str));
        g_string_truncate(whole, 0);
    }
    CHECK(!inside);
    g_string_free(whole, TRUE);
    g_strfreev(lines);
    g_free(content);
    return found;
}

static gboolean
has_word(char **words, const char *const *list, gsize n)
{
    for (gsize i = 0; i < n; i++)
        if (g_strv_contains((const gchar *const *) words, list[i]))
            return TRUE;
    return FALSE;
}

/* Returns the words of a line without gst-launch-1.0 and its options. An
 * element replaces each "...". */
static char **
words_of(const char *line, gboolean *whole)
{
    GStrvBuilder *builder = g_strv_builder_new();
    char **all;
    gboolean options = FALSE;
    CHECK(g_shell_parse_argv(line, NULL, &all, NULL));
    guint n = g_strv_length(all);
    *whole = TRUE;
    for (guint i = 0; i < n; i++) {
        if (i == 0 && strcmp(all[i], "gst-launch-1.0") == 0) {
            options = TRUE;
        } else if (strcmp(all[i], "...") == 0) {
            *whole = FALSE;
            g_strv_builder_add(builder, i == 0 ? "fakesrc" : "fakesink");
        } else if (strcmp(all[i], "autovideosink") == 0) {
            /* An automatic sink would try every display of the machine. Many
             * sinks accept only square pixels, and drop late frames. */
            CHECK(strstr(line, "videoscale ! clocksync ! "
                               "autovideosink sync=false") != NULL);
            g_strv_builder_add(builder, "fakesink");
        } else if (!options || all[i][0] != '-') {
            options = FALSE;
            g_strv_builder_add(builder, all[i]);
        }
    }
    char **words = g_strv_builder_end(builder);
    g_strv_builder_unref(builder);
    g_strfreev(all);
    return words;
}

/* Returns NULL if an element is not installed. */
static GstElement *
parse(const char *line, char **words)
{
    GstParseContext *context = gst_parse_context_new();
    GError *error = NULL;
    GstElement *pipeline = gst_parse_launchv_full(
        (const gchar **) words, context, GST_PARSE_FLAG_FATAL_ERRORS, &error);
    gchar **names = gst_parse_context_get_missing_elements(context);
    if (!pipeline && names) {
        for (guint i = 0; names[i]; i++) {
            char *one[] = {names[i], NULL};
            g_print("%s is not here, for: %s\n", names[i], line);
            if (has_word(one, gpu_elements, G_N_ELEMENTS(gpu_elements)))
                continue;
            CHECK(has_word(one, other_elements, G_N_ELEMENTS(other_elements)));
            missing++;
        }
    } else if (!pipeline) {
        g_printerr("%s\n%s\n", line, error->message);
    }
    CHECK(pipeline || names);
    g_clear_error(&error);
    g_strfreev(names);
    gst_parse_context_free(context);
    return pipeline;
}

static void
play(const char *line, GstElement *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    GError *error = NULL;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, NULL);
        g_printerr("%s\n%s\n", line, error->message);
    }
    CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_EOS);
    gst_message_unref(message);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

/* Returns TRUE if the line ran. */
static gboolean
try_line(const char *line)
{
    gboolean whole;
    char **words = words_of(line, &whole);
    const gboolean runs = whole && !has_word(words, network_elements,
                                             G_N_ELEMENTS(network_elements));
    GstElement *pipeline = parse(line, words);
    const gboolean ran = pipeline && runs;
    if (ran)
        play(line, pipeline);
    if (pipeline)
        g_print("%s: %s\n", ran ? "ran" : "parsed", line);
    g_clear_pointer(&pipeline, gst_object_unref);
    g_strfreev(words);
    return ran;
}

/* ------------------------------------------------------------------ */
/* Files that the examples name. */

/* Writes 3 latents of 80x48 pixels, all zero. */
static void
make_npy(void)
{
    const gsize data = 4 * 16 * 3 * 6 * 10;
    g_autofree guint8 *bytes = g_malloc0(128 + data);
    g_autofree gchar *words = g_strdup_printf(
        "%-117s\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 3, 6, 10), }");
    memcpy(bytes, "\223NUMPY\1\0\166\0", 10);
    memcpy(bytes + 10, words, 118);
    CHECK(g_file_set_contents("latents.npy", (gchar *) bytes,
                              (gssize) (128 + data), NULL));
}

static void
make(const char *line)
{
    const guint before = missing;
    if (!try_line(line) && missing > before) {
        g_print("skipped: the plugins for the examples are not all here\n");
        exit(77);
    }
}

/* Writes the files to the current folder. */
static void
make_files(void)
{
    CHECK_INT(g_mkdir_with_parents("gst-vae/models", 0700), 0);
    CHECK_INT(symlink(vae_test_weights(), "wan2.1_vae.safetensors"), 0);
    CHECK_INT(symlink(vae_test_weights(), "gst-vae/models/wan2.1.safetensors"),
              0);
    make("videotestsrc num-buffers=9 ! "
         "video/x-raw,width=80,height=48,framerate=16/1 ! vp8enc ! webmmux ! "
         "filesink location=clip.mp4");
    make("videotestsrc num-buffers=9 ! "
         "video/x-raw,width=80,height=48,framerate=16/1 ! "
         "vaeencode model=wan2.1_vae.safetensors ! latentmux ! "
         "filesink location=latents.safetensors");
    make_npy();
}

static void
remove_files(void)
{
    static const char *const made[] = {"wan2.1_vae.safetensors",
                                       "gst-vae/models/wan2.1.safetensors",
                                       "gst-vae/models",
                                       "gst-vae",
                                       "clip.mp4",
                                       "clip.webm",
                                       "video.webm",
                                       "latents.safetensors",
                                       "latents.npy"};
    for (guint i = 0; i < G_N_ELEMENTS(made); i++)
        g_remove(made[i]);
}

TEST(examples)
{
    guint all = 0;
    make_files();
    for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autoptr(GPtrArray) lines = examples_of(files[i]);
        guint ran = 0;
        for (guint j = 0; j < lines->len; j++)
            ran += try_line(g_ptr_array_index(lines, j));
        g_print("%s: %u of %u ran\n", files[i], ran, lines->len);
        /* docs/streaming.md has only parts of pipelines. */
        CHECK(lines->len > 0);
        all += ran;
    }
    CHECK(all > 0 || missing > 0);
    remove_files();
}

int
main(int argc, char **argv)
{
    g_autofree gchar *folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    /* Set before GLib reads it. */
    g_setenv("XDG_DATA_HOME", folder, TRUE);
    CHECK_INT(g_chdir(folder), 0);
    int status = vae_test_main(argc, argv);
    CHECK_INT(g_chdir("/"), 0);
    CHECK_INT(g_rmdir(folder), 0); /* nothing else was written */
    return status == 0 && missing > 0 ? 77 : status;
}
