#include "latent_test.h"

#include <string.h>

#include <gst/base/gsttypefindhelper.h>

static Run *current;

/* Files ----------------------------------------------------------------- */

gsize
step_bytes(const Clip *clip)
{
    return (gsize) clip->c * clip->h * clip->w * vae_type_size(clip->type);
}

guint8 *
step_data(const Clip *clip, gint k)
{
    const gsize size = step_bytes(clip);
    guint8 *data = g_malloc(size);
    for (gsize i = 0; i < size; i++)
        data[i] = (guint8) (i * 31 + i / 251 + (gsize) k * 101 + k / 7);
    return data;
}

guint8 *
clip_data(const Clip *clip, Order order)
{
    const gsize step = step_bytes(clip), plane = step / clip->c;
    guint8 *all = g_malloc(step * clip->t);
    for (gint k = 0; k < clip->t; k++) {
        g_autofree guint8 *data = step_data(clip, k);
        for (gint c = 0; c < clip->c; c++) {
            const gsize at = order == TCHW ? (gsize) k * clip->c + c
                                           : (gsize) c * clip->t + k;
            memcpy(all + at * plane, data + c * plane, plane);
        }
    }
    return all;
}

const gchar *
write_clip(const gchar *file, const gchar *name, const Clip *clip, Order order,
           const VaeMetadata *metadata, gsize n)
{
    const gchar *path = vae_test_path(file);
    g_autofree guint8 *data = clip_data(clip, order);
    VaeTensorOut out = {.name = name, .type = clip->type, .data = data};
    VaeError error = {0};
    if (order == BCTHW)
        out.dims[out.n_dims++] = 1;
    out.dims[out.n_dims++] = order == TCHW ? clip->t : clip->c;
    out.dims[out.n_dims++] = order == TCHW ? clip->c : clip->t;
    out.dims[out.n_dims++] = clip->h;
    out.dims[out.n_dims++] = clip->w;
    CHECK_SAYS(vae_tensor_file_write(path, &out, 1, metadata, n, &error) ==
                   VAE_OK,
               "%s", error.message);
    return path;
}

const gchar *
described_clip(const Clip *clip, const VaeMetadata *metadata, gsize n)
{
    return write_clip("a", "latent", clip, CTHW, metadata, n);
}

const gchar *
plain_clip(const Clip *clip)
{
    return described_clip(clip, NULL, 0);
}

const gchar *
write_bytes(const gchar *file, gconstpointer data, gsize size)
{
    const gchar *path = vae_test_path(file);
    CHECK(g_file_set_contents(path, data, size, NULL));
    return path;
}

const gchar *
write_npy(const gchar *file, const Clip *clip, Order order)
{
    g_autofree gchar *shape =
        order == TCHW
            ? g_strdup_printf("%d, %d, %d, %d", clip->t, clip->c, clip->h,
                              clip->w)
            : g_strdup_printf("%s%d, %d, %d, %d", order == BCTHW ? "1, " : "",
                              clip->c, clip->t, clip->h, clip->w);
    g_autofree gchar *dict = g_strdup_printf(
        "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
        clip->type == VAE_TYPE_F32 ? "<f4" : "<f2", shape);
    g_autoptr(GByteArray) all = g_byte_array_new();
    g_byte_array_append(all, (const guint8 *) "\x93NUMPY\x01\x00", 8);
    const gsize used = 10 + strlen(dict) + 1, whole = (used + 63) / 64 * 64;
    const guint8 length[2] = {(whole - 10) & 255, (whole - 10) >> 8};
    g_byte_array_append(all, length, 2);
    g_byte_array_append(all, (const guint8 *) dict, strlen(dict));
    while (all->len < whole - 1)
        g_byte_array_append(all, (const guint8 *) " ", 1);
    g_byte_array_append(all, (const guint8 *) "\n", 1);
    g_autofree guint8 *data = clip_data(clip, order);
    g_byte_array_append(all, data, step_bytes(clip) * clip->t);
    const gchar *path = write_bytes(file, all->data, all->len);
    return path;
}

GBytes *
read_bytes(const gchar *path)
{
    gchar *data;
    gsize size;
    CHECK(g_file_get_contents(path, &data, &size, NULL));
    return g_bytes_new_take(data, size);
}

/* Runs ------------------------------------------------------------------ */

/* Records the buffers that arrive at the sink, before it drops those outside of
 * its segment. */
static GstPadProbeReturn
collect(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Run *run = data;
    g_ptr_array_add(run->buffers,
                    gst_buffer_ref(GST_PAD_PROBE_INFO_BUFFER(info)));
    return GST_PAD_PROBE_OK;
}

static void
end_run(void)
{
    Run *run = g_steal_pointer(&current);
    if (!run)
        return;
    gst_element_set_state(run->pipeline, GST_STATE_NULL);
    gst_object_unref(run->pipeline);
    g_ptr_array_unref(run->buffers);
    g_free(run->error);
    g_free(run->warning);
    g_free(run->info);
    g_free(run->source);
    g_free(run);
}

static Run *
new_run(const gchar *description)
{
    end_run();
    GError *error = NULL;
    Run *run = current = g_new0(Run, 1);
    run->pipeline = gst_parse_launch(description, &error);
    CHECK_SAYS(run->pipeline && !error, "%s: %s", description,
               error ? error->message : "");
    run->buffers =
        g_ptr_array_new_with_free_func((GDestroyNotify) gst_buffer_unref);
    GstElement *sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    if (sink) {
        g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
        gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, collect, run, NULL);
        gst_object_unref(sink);
    }
    return run;
}

Run *
run_new(const gchar *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree gchar *description = g_strdup_vprintf(format, args);
    va_end(args);
    Run *run = new_run(description);
    return run;
}

Run *
run_preroll(const gchar *path, const gchar *properties, const gchar *more)
{
    Run *run = run_new("filesrc location=%s ! latentdemux name=demux %s ! "
                       "%s fakesink name=sink",
                       path, properties, more);
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    CHECK(
        gst_element_get_state(run->pipeline, NULL, NULL, GST_CLOCK_TIME_NONE) ==
        GST_STATE_CHANGE_SUCCESS);
    return run;
}

static void
note_error(Run *run, GstMessage *message)
{
    g_autoptr(GError) error = NULL;
    if (run->error)
        return;
    vae_test_check_expected(message);
    gst_message_parse_error(message, &error, NULL);
    run->error = g_strdup(error->message);
    run->domain = error->domain;
    run->code = error->code;
    run->source = gst_object_get_name(GST_MESSAGE_SRC(message));
}

static void
note_text(Run *run, GstMessage *message)
{
    const gboolean info = GST_MESSAGE_TYPE(message) == GST_MESSAGE_INFO;
    gchar **text = info ? &run->info : &run->warning;
    gchar *debug = NULL;
    g_autoptr(GError) error = NULL;
    if (info)
        gst_message_parse_info(message, &error, &debug);
    else
        gst_message_parse_warning(message, &error, NULL);
    CHECK_SAYS(!info || strstr(debug, error->message),
               "gst-launch-1.0 does not show: %s", error->message);
    g_free(debug);
    gchar *before = *text;
    *text = before ? g_strdup_printf("%s\n%s", before, error->message)
                   : g_strdup(error->message);
    g_free(before);
}

void
run_wait(Run *run)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(run->pipeline);
    gboolean done = FALSE;
    while (!done) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
            bus, GST_CLOCK_TIME_NONE,
            GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING |
                GST_MESSAGE_INFO);
        CHECK_SAYS(message != NULL, "the pipeline neither ends nor fails");
        const gboolean text = GST_MESSAGE_TYPE(message) &
                              (GST_MESSAGE_WARNING | GST_MESSAGE_INFO);
        done = !text;
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
            note_error(run, message);
        else if (text)
            note_text(run, message);
        else
            run->eos = TRUE;
    }
}

Run *
run_all(const gchar *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree gchar *description = g_strdup_vprintf(format, args);
    va_end(args);
    Run *run = new_run(description);
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    gst_element_set_state(run->pipeline, GST_STATE_NULL);
    return run;
}

Run *
demux(gint way, const gchar *path, const gchar *properties)
{
    return run_all("filesrc location=%s ! %s latentdemux %s ! "
                   "fakesink name=sink",
                   path, way == PUSH ? "queue !" : "", properties);
}

void
run_play(Run *run)
{
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
}

void
assert_clip(const Run *run, const Clip *clip, gint from)
{
    CHECK_SAYS(run->error == NULL, "%s", run->error);
    CHECK_INT(run->buffers->len, clip->t - from);
    for (gint k = from; k < clip->t; k++) {
        GstBuffer *buffer = g_ptr_array_index(run->buffers, k - from);
        g_autofree guint8 *data = step_data(clip, k);
        CHECK_INT(gst_buffer_get_size(buffer), step_bytes(clip));
        CHECK_SAYS(gst_buffer_memcmp(buffer, 0, data, step_bytes(clip)) == 0,
                   "latent %d differs", k);
        CHECK_INT(GST_BUFFER_OFFSET(buffer), k);
        CHECK(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT) ==
              (k > from));
    }
}

void
assert_error(const Run *run, GQuark domain, gint code, const gchar *words)
{
    CHECK_SAYS(run->error != NULL, "no error, expected '%s'", words);
    CHECK_SAYS(strstr(run->error, words) != NULL, "'%s' lacks '%s'", run->error,
               words);
    CHECK_SAYS(run->domain == domain && run->code == code,
               "'%s' is of domain %s, code %d, expected %s, %d", run->error,
               g_quark_to_string(run->domain), run->code,
               g_quark_to_string(domain), code);
}

/* Fixture --------------------------------------------------------------- */

/* Objects that a plugin registers stay alive, so the test loads its plugins
 * before it counts objects. Random bytes run every typefinder. */
static void
load_plugins(void)
{
    static const gchar *const names[] = {"coreelements", "vae", "playback"};
    static const guint8 noise[64];
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        GstPlugin *plugin = gst_plugin_load_by_name(names[i]);
        gst_clear_object(&plugin);
    }
    GstCaps *caps =
        gst_type_find_helper_for_data(NULL, noise, sizeof noise, NULL);
    gst_clear_caps(&caps);
}

int
main(int argc, char **argv)
{
    gst_init(NULL, NULL);
    load_plugins();
    vae_test_after = end_run;
    return vae_test_main(argc, argv);
}
