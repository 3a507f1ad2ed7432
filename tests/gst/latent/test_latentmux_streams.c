/*
 * test_latentmux_streams.c: latentmux before elements that cannot seek, such as
 * a pipe, a socket or an appsink.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "mux_test.h"

/* A clip of two sequences, of a variable frame rate. */
static void
push_two(GstHarness *h)
{
    static const gint first[] = {0, 1, 9, 10};
    mux = h;
    for (gint k = 0; k < 4; k++)
        CHECK(push_timed(&small, k, frame_time(first[k]),
                         frame_time(k % 2 ? 4 : 1), k % 2 == 0) == GST_FLOW_OK);
    mux_end();
}

/* Writes the buffers as a file. */
static const gchar *
join(const gchar *name, GPtrArray *buffers)
{
    g_autoptr(GByteArray) all = g_byte_array_new();
    for (guint i = 0; i < buffers->len; i++) {
        GstMapInfo map;
        GstBuffer *buffer = g_ptr_array_index(buffers, i);
        CHECK(gst_buffer_map(buffer, &map, GST_MAP_READ));
        g_byte_array_append(all, map.data, map.size);
        gst_buffer_unmap(buffer, &map);
    }
    return write_bytes(name, all->data, all->len);
}

/* A file about which latentdemux has nothing to say. */
static const gchar *
source_clip(void)
{
    static const VaeMetadata metadata[] = {{"vae.latent_space", "wan2.1"},
                                           {"vae.normalization", "raw"}};
    return described_clip(&small, metadata, G_N_ELEMENTS(metadata));
}

/* Without a seek the file comes whole, as one buffer, as it does from
 * filesink. */
TEST(kept)
{
    static const gchar *const sinks[] = {"fakesink name=sink",
                                         "appsink name=sink wait-on-eos=false",
                                         "multifilesink name=sink location=%s"};
    const gchar *source = source_clip();
    for (guint i = 0; i < G_N_ELEMENTS(sinks); i++) {
        const gchar *path = vae_test_path("many");
        g_autofree gchar *sink = g_strdup_printf(sinks[i], path);
        Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! %s",
                           source, sink);
        CHECK_SAYS(run->eos && !run->error && !run->warning, "%s", run->error);
        CHECK(run->info && strstr(run->info, "kept in memory"));
        CHECK_INT(run->buffers->len, 1);
        assert_file(join("joined", run->buffers), &small, 4, 13);
        if (i == 2)
            assert_file(path, &small, 4, 13);
    }
}

/* The file has the tables of its sequences and times, as one that filesink
 * writes. */
TEST(kept_tables)
{
    GstHarness *h = gst_harness_new("latentmux");
    gst_harness_set_src_caps_str(h, small_caps);
    push_two(h);
    CHECK_INT(gst_harness_buffers_received(h), 1);
    g_autoptr(GPtrArray) one =
        g_ptr_array_new_with_free_func((GDestroyNotify) gst_buffer_unref);
    g_ptr_array_add(one, gst_harness_pull(h));
    vae_test_teardown(h);
    g_autofree gchar *path = g_strdup(join("joined", one));
    assert_file(path, &small, 4, 10);
    Run *run = run_all(PLAY_FILE, path);
    CHECK_INT(run->buffers->len, 4);
    GstBuffer *second = g_ptr_array_index(run->buffers, 2);
    CHECK(!GST_BUFFER_FLAG_IS_SET(second, GST_BUFFER_FLAG_DELTA_UNIT));
    CHECK_INT(GST_BUFFER_PTS(second), frame_time(9));

    /* In push mode such a file is collected, and seeks read it again. */
    run = run_new("filesrc location=%s ! queue ! latentdemux ! "
                  "fakesink name=sink",
                  path);
    gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
    gst_element_get_state(run->pipeline, NULL, NULL, GST_CLOCK_TIME_NONE);
    for (gint first = 2; first >= 0; first -= 2) {
        CHECK(gst_element_seek_simple(run->pipeline, GST_FORMAT_TIME,
                                      GST_SEEK_FLAG_FLUSH,
                                      (gint64) frame_time(first * 9 / 2)));
        gst_element_get_state(run->pipeline, NULL, NULL, GST_CLOCK_TIME_NONE);
    }
    g_ptr_array_set_size(run->buffers, 0);
    CHECK(gst_element_seek_simple(run->pipeline, GST_FORMAT_TIME,
                                  GST_SEEK_FLAG_FLUSH, (gint64) frame_time(9)));
    run_play(run);
    CHECK_SAYS(run->eos && !run->error, "%s", run->error);
    CHECK_INT(run->buffers->len, 2);
    CHECK_INT(GST_BUFFER_OFFSET(g_ptr_array_index(run->buffers, 0)), 2);
}

/* Each latent leaves when it comes, and latentdemux sends it at once. */
TEST(streamed)
{
    GstHarness *h =
        gst_harness_new_parse("latentmux max-kept-size=0 ! latentdemux");
    GstBus *bus = vae_test_bus(h);
    gint64 length;
    mux = h;
    gst_harness_set_src_caps_str(h, small_caps);
    for (gint k = 0; k < small.t; k++) {
        CHECK(mux_push(&small, k, k ? 4 : 1) == GST_FLOW_OK);
        CHECK_INT(gst_harness_buffers_received(h), k + 1);
        g_autoptr(GstBuffer) buffer = gst_harness_pull(h);
        g_autofree guint8 *data = step_data(&small, k);
        CHECK(gst_buffer_memcmp(buffer, 0, data, step_bytes(&small)) == 0);
        CHECK_INT(GST_BUFFER_PTS(buffer), frame_time(k ? 4 * k - 3 : 0));
        CHECK(
            !gst_pad_peer_query_duration(h->sinkpad, GST_FORMAT_TIME, &length));
    }
    mux_end();
    CHECK(gst_pad_peer_query_duration(h->sinkpad, GST_FORMAT_TIME, &length));
    CHECK_INT(length, frame_time(13));
    CHECK(!gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING));
    vae_test_teardown(h);
}

/* A stream cannot say that a sequence begins. A receiver that gets no whole
 * latent says so. */
TEST(streamed_limits)
{
    GstHarness *h = gst_harness_new_parse("latentmux max-kept-size=0");
    GstBus *bus = vae_test_bus(h);
    gst_harness_set_src_caps_str(h, small_caps);
    push_two(h);
    vae_test_one_warning(h, "Latent 2 begins another sequence");
    CHECK(!gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR));
    g_autoptr(GstBuffer) header = gst_harness_pull(h);
    vae_test_teardown(h);
    h = gst_harness_new("latentdemux");
    gst_harness_set_src_caps_str(h, "application/x-safetensors");
    vae_test_bus(h);
    CHECK(gst_harness_push(h, g_steal_pointer(&header)) == GST_FLOW_OK);
    gst_harness_push_event(h, gst_event_new_eos());
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                          "before its first latent", "complete");
    vae_test_teardown(h);
}

/* A file over the limit is sent, too: with an open header. */
TEST(over_limit)
{
    const gchar *source = source_clip();
    const gsize step = step_bytes(&small);
    const gsize limits[] = {1, 3 * step, 4 * step};
    for (guint i = 0; i < G_N_ELEMENTS(limits); i++) {
        const gsize max = limits[i];
        Run *run =
            run_all("filesrc location=%s ! latentdemux ! latentmux "
                    "max-kept-size=%" G_GSIZE_FORMAT " ! fakesink name=sink",
                    source, max);
        const gchar *path = join("joined", run->buffers);
        const gboolean fits = max == 4 * step;
        CHECK_SAYS(run->eos && !run->error, "%s", run->error);
        CHECK(fits == !run->warning);
        CHECK(fits || strstr(run->warning, "longer than max-kept-size"));
        assert_file(path, &small, 4, fits ? 13 : 0);
        assert_metadata(path, "vae.recording", fits ? NULL : "open");
    }
}

/* A named pipe, which filesink cannot seek, beside webmmux. */
TEST(pipe)
{
    const gchar *source = source_clip();
    const gchar *fifo = vae_test_path("fifo");
    CHECK(mkfifo(fifo, 0600) == 0);
    const int end = open(fifo, O_RDWR); /* so that no open() waits */
    CHECK(end >= 0);
    Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                       "filesink location=%s",
                       source, fifo);
    CHECK_SAYS(run->eos && !run->error, "%s", run->error);
    guint8 bytes[16384];
    const ssize_t n = read(end, bytes, sizeof bytes);
    CHECK(n > 0 && n < (ssize_t) sizeof bytes);
    assert_file(write_bytes("piped", bytes, (gsize) n), &small, 4, 13);
    close(end);
}
