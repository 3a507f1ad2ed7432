#include "vae_test.h"

#include <dlfcn.h>

const char *
vae_test_weights(void)
{
    static gchar *path;
    const char *folder = g_getenv("VAE_TEST_VECTORS");
    if (!path && folder)
        path = g_build_filename(folder, "wan21", "weights.safetensors", NULL);
    if (!path || !g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_printerr("no wan21/weights.safetensors in VAE_TEST_VECTORS\n");
        exit(77);
    }
    return path;
}

const gchar *
vae_test_network(const char *folder)
{
    g_autofree gchar *path = g_build_filename(
        g_getenv("VAE_TEST_VECTORS"), folder, "weights.safetensors", NULL);
    return g_intern_string(path);
}

gchar *
vae_test_home_new(void)
{
    gchar *home = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    g_setenv("XDG_DATA_HOME", home, TRUE);
    g_setenv("XDG_DATA_DIRS", home, TRUE);
    return home;
}

void
vae_test_home_free(gchar *home)
{
    static const char *const folders[] = {"gst-vae/models", "gst-vae", ""};
    for (guint i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree gchar *folder = g_build_filename(home, folders[i], NULL);
        rmdir(folder);
    }
    g_free(home);
}

GstHarness *
vae_test_harness(const char *name, const char *property, ...)
{
    g_autoptr(GstElement) element = gst_element_factory_make(name, NULL);
    va_list args;
    CHECK(element != NULL);
    /* Without timing, two elements choose the same precision. */
    g_object_set(element, "model", vae_test_weights(), "threads", 1,
                 "deterministic", TRUE, NULL);
    va_start(args, property);
    g_object_set_valist(G_OBJECT(element), property, args);
    va_end(args);
    GstHarness *h = gst_harness_new_with_element(element, "sink", "src");
    vae_test_bus(h);
    return h;
}

GstHarness *
vae_test_decoder(const char *model, int width, int height, const char *more)
{
    GstHarness *h = vae_test_harness("vaedecode", "model",
                                     model ? model : vae_test_weights(), NULL);
    vae_test_set_latents(h, width, height, more);
    return h;
}

void
vae_test_start(GstHarness *h, const char *caps)
{
    g_autoptr(GstCaps) parsed = gst_caps_from_string(caps);
    gst_harness_push_event(h, gst_event_new_stream_start("test"));
    gst_harness_push_event(h, gst_event_new_caps(parsed));
}

void
vae_test_set_latents(GstHarness *h, int width, int height, const char *more)
{
    g_autofree gchar *caps = vae_test_latent_caps(width, height, more);
    gst_harness_set_src_caps_str(h, caps);
}

void
vae_test_set_grid(GstHarness *h, int channels, int width, int height,
                  const char *more)
{
    g_autofree gchar *caps =
        g_strdup_printf("video/x-vae-latent,type=float32,channels=%d,"
                        "latent-width=%d,latent-height=%d%s",
                        channels, width, height, more);
    gst_harness_set_src_caps_str(h, caps);
}

void
vae_test_set_format(GstHarness *h, GstVideoInfo *info, GstVideoFormat format,
                    int width, int height)
{
    gst_video_info_set_format(info, format, width, height);
    /* The default differs between versions of GStreamer. */
    if (GST_VIDEO_INFO_IS_YUV(info))
        info->chroma_site = GST_VIDEO_CHROMA_SITE_JPEG;
    info->fps_n = VAE_TEST_FPS;
    info->fps_d = 1;
    gst_harness_set_src_caps(h, gst_video_info_to_caps(info));
}

void
vae_test_set_video(GstHarness *h, GstVideoInfo *info, int width, int height)
{
    vae_test_set_format(h, info, GST_VIDEO_FORMAT_I420, width, height);
}

void
vae_test_push_segment(GstHarness *h)
{
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
}

void
vae_test_flush(GstHarness *h)
{
    CHECK(gst_harness_push_event(h, gst_event_new_flush_start()));
    CHECK(gst_harness_push_event(h, gst_event_new_flush_stop(TRUE)));
    vae_test_push_segment(h);
}

void
vae_test_teardown(GstHarness *h)
{
    g_autoptr(GstElement) element = gst_object_ref(h->element);
    gst_harness_teardown(h);
    gst_element_set_bus(element, NULL); /* its messages own the element */
    CHECK_INT(GST_OBJECT_REFCOUNT_VALUE(element), 1);
}

void
vae_test_teardown_scoped(GstHarness **h)
{
    vae_test_teardown(*h);
}

GstClockTime
vae_test_time(guint64 n)
{
    return gst_util_uint64_scale(n, GST_SECOND, VAE_TEST_FPS);
}

gchar *
vae_test_latent_caps(int width, int height, const char *more)
{
    return g_strdup_printf("video/x-vae-latent,type=float32,channels=16,"
                           "latent-width=%d,latent-height=%d,framerate=16/1%s",
                           width, height, more ? more : "");
}

void
vae_test_stamp(GstBuffer *latent, guint k, guint first, guint end)
{
    GST_BUFFER_OFFSET(latent) = k;
    GST_BUFFER_PTS(latent) = vae_test_time(first);
    GST_BUFFER_DURATION(latent) = vae_test_time(end) - GST_BUFFER_PTS(latent);
    if (k > 0)
        GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
}

GstBuffer *
vae_test_latent(int width, int height, guint k)
{
    const gsize n = (gsize) 16 * width * height;
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, 4 * n, NULL);
    GstMapInfo map;
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
    for (gsize i = 0; i < n; i++)
        ((float *) map.data)[i] = sinf(0.37f * i + 1.7f * k);
    gst_buffer_unmap(buffer, &map);
    vae_test_stamp(buffer, k, k == 0 ? 0 : 4 * k - 3, 4 * k + 1);
    return buffer;
}

void
vae_test_push_latents(GstHarness *h, int width, int height, guint k0, guint k1)
{
    for (guint k = k0; k < k1; k++)
        CHECK_INT(gst_harness_push(h, vae_test_latent(width, height, k)),
                  GST_FLOW_OK);
}

GstBuffer *
vae_test_frame(const GstVideoInfo *info, guint n)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, info->size, NULL);
    GstMapInfo map;
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
    for (gsize i = 0; i < map.size; i++)
        map.data[i] = (guint8) (i + 7 * n + (i >> 6) * 3);
    gst_buffer_unmap(buffer, &map);
    GST_BUFFER_PTS(buffer) = vae_test_time(n);
    GST_BUFFER_DURATION(buffer) = vae_test_time(n + 1) - vae_test_time(n);
    return buffer;
}

void
vae_test_push_frames(GstHarness *h, const GstVideoInfo *info, guint from,
                     guint to)
{
    for (guint n = from; n < to; n++)
        CHECK_INT(gst_harness_push(h, vae_test_frame(info, n)), GST_FLOW_OK);
}

GstFlowReturn
vae_test_push_step(GstHarness *h, gboolean frames, int width, int height,
                   guint k)
{
    GstFlowReturn ret = GST_FLOW_OK;
    GstVideoInfo info;
    if (!frames)
        return gst_harness_push(h, vae_test_latent(width, height, k));
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 8 * width,
                              8 * height);
    for (guint i = k ? 4 * k - 3 : 0; i <= 4 * k && ret == GST_FLOW_OK; i++)
        ret = gst_harness_push(h, vae_test_frame(&info, i));
    return ret;
}

GstBuffer *
vae_test_pull_latent(GstHarness *h, guint k, guint from, guint to)
{
    GstBuffer *latent = vae_test_pull(h);
    CHECK(latent != NULL);
    CHECK_INT(GST_BUFFER_OFFSET(latent), k);
    CHECK_INT(GST_BUFFER_PTS(latent), vae_test_time(from));
    CHECK_INT(GST_BUFFER_PTS(latent) + GST_BUFFER_DURATION(latent),
              vae_test_time(to));
    CHECK_INT(GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT),
              k > 0);
    return latent;
}

void
vae_test_sum(GChecksum *sum, GstBuffer *buffer)
{
    GstMapInfo map;
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_READ));
    g_checksum_update(sum, map.data, (gssize) map.size);
    gst_buffer_unmap(buffer, &map);
}

gchar *
vae_test_pull_frames(GstHarness *h, guint first, guint n)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    for (guint i = first; i < first + n; i++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(h);
        CHECK(buffer != NULL);
        CHECK_INT(GST_BUFFER_PTS(buffer), vae_test_time(i));
        CHECK_INT(GST_BUFFER_PTS(buffer) + GST_BUFFER_DURATION(buffer),
                  vae_test_time(i + 1));
        CHECK_INT(GST_BUFFER_OFFSET(buffer), i);
        vae_test_sum(sum, buffer);
    }
    return g_strdup(g_checksum_get_string(sum));
}

void
vae_test_no_more(GstHarness *h)
{
    GstBuffer *buffer = gst_harness_try_pull(h);
    CHECK(buffer == NULL);
}

GstEvent *
vae_test_event(GstHarness *h, GstEventType type)
{
    GstEvent *event;
    while ((event = gst_harness_try_pull_event(h))) {
        if (GST_EVENT_TYPE(event) == type)
            return event;
        gst_event_unref(event);
    }
    return NULL;
}

GstGapFlags
vae_test_expect_gap(GstHarness *h, guint first, guint frames)
{
    g_autoptr(GstEvent) event = vae_test_event(h, GST_EVENT_GAP);
    GstClockTime pts, duration;
    GstGapFlags flags = 0;
    CHECK(event != NULL);
    gst_event_parse_gap(event, &pts, &duration);
    gst_event_parse_gap_flags(event, &flags);
    CHECK_INT(pts, vae_test_time(first));
    CHECK_INT(duration, vae_test_time(frames));
    return flags;
}

GstClockTime
vae_test_latency(GstHarness *h)
{
    g_autoptr(GstQuery) query = gst_query_new_latency();
    GstClockTime min;
    CHECK(gst_pad_peer_query(h->sinkpad, query));
    gst_query_parse_latency(query, NULL, &min, NULL);
    return min;
}

GstBuffer *
vae_test_pull(GstHarness *h)
{
    GstBuffer *buffer;
    do
        buffer = gst_harness_pull(h); /* gives up after a minute */
    while (!buffer);
    return buffer;
}

void
vae_test_wait_eos(GstHarness *h)
{
    gboolean eos = FALSE;
    while (!eos) {
        g_autoptr(GstEvent) event = gst_harness_try_pull_event(h);
        if (!event) {
            g_usleep(1000);
            continue;
        }
        eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
    }
}

void
vae_test_push_eos(GstHarness *h)
{
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    vae_test_wait_eos(h);
}

gchar *
vae_test_last_frames(GstHarness *h, guint first, guint n)
{
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    gchar *md5 = vae_test_pull_frames(h, first, n);
    vae_test_wait_eos(h);
    vae_test_no_more(h);
    return md5;
}

void
vae_test_end(GstHarness *h)
{
    vae_test_push_eos(h);
    vae_test_no_more(h);
    vae_test_teardown(h);
}

void
vae_test_play(GstElement *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    GError *error = NULL;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        gst_message_parse_error(message, &error, NULL);
        g_printerr("%s\n", error->message);
    }
    CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_EOS);
}

void
vae_test_run(const gchar *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree gchar *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    CHECK(pipeline != NULL);
    vae_test_play(pipeline);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

void
vae_test_same(gchar *found, gchar *expected)
{
    CHECK(strcmp(found, expected) == 0);
    g_free(found);
    g_free(expected);
}

GstBus *
vae_test_bus(GstHarness *h)
{
    if (!GST_ELEMENT_BUS(h->element)) {
        g_autoptr(GstBus) bus = gst_bus_new();
        gst_element_set_bus(h->element, bus);
    }
    return GST_ELEMENT_BUS(h->element);
}

void
vae_test_check_expected(GstMessage *message)
{
    const GstStructure *details = NULL;
    g_autoptr(GError) error = NULL;
    gst_message_parse_error(message, &error, NULL);
    gst_message_parse_error_details(message, &details);
    const gchar *expected =
        details ? gst_structure_get_string(details, "expected") : NULL;
    CHECK_SAYS(!strstr(error->message, ", expected ") || expected,
               "has no details: %s", error->message);
    CHECK_SAYS(!expected || !strstr(expected, ": "), "%s is more than a value",
               expected);
}

void
vae_test_expect_error(GstHarness *h, GQuark domain, gint code, const char *word,
                      const char *other)
{
    vae_test_bus_error(GST_ELEMENT_BUS(h->element), domain, code, word, other);
}

void
vae_test_bus_error(GstBus *bus, GQuark domain, gint code, const char *word,
                   const char *other)
{
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_ERROR);
    g_autoptr(GError) error = NULL;
    CHECK(message != NULL);
    gst_message_parse_error(message, &error, NULL);
    vae_test_check_expected(message);
    if (error->domain != domain || error->code != code ||
        !strstr(error->message, word) || !strstr(error->message, other)) {
        g_printerr("%s %d: \"%s\", expected %s %d with %s and %s\n",
                   g_quark_to_string(error->domain), error->code,
                   error->message, g_quark_to_string(domain), code, word,
                   other);
        vae_test_fail("the error", __FILE__, __LINE__);
    }
}

void
vae_test_none(GstHarness *h, GstMessageType types)
{
    CHECK(gst_bus_pop_filtered(GST_ELEMENT_BUS(h->element), types) == NULL);
}

void
vae_test_warning(GstHarness *h, const char *words)
{
    GstMessage *message =
        gst_bus_pop_filtered(GST_ELEMENT_BUS(h->element), GST_MESSAGE_WARNING);
    GError *warning = NULL;
    CHECK(message != NULL);
    gst_message_parse_warning(message, &warning, NULL);
    CHECK_SAYS(strstr(warning->message, words), "%s", warning->message);
    g_clear_error(&warning);
    gst_message_unref(message);
}

void
vae_test_one_warning(GstHarness *h, const char *words)
{
    vae_test_warning(h, words);
    vae_test_none(h, GST_MESSAGE_WARNING);
}

guint64
vae_test_stat(GstHarness *h, const char *field)
{
    GstStructure *stats = NULL;
    guint64 value = 0;
    guint small = 0;
    g_object_get(h->element, "stats", &stats, NULL);
    CHECK(stats != NULL);
    if (!gst_structure_get_uint64(stats, field, &value)) {
        CHECK(gst_structure_get_uint(stats, field, &small));
        value = small;
    }
    gst_structure_free(stats);
    return value;
}

void *
vae_test_emulated(const gchar *name)
{
    void *module = dlopen(g_getenv("VAE_CUDA_MODULE"), RTLD_NOW);
    void *symbol = module ? dlsym(module, name) : NULL;
    CHECK(symbol != NULL);
    dlclose(module);
    return symbol;
}
