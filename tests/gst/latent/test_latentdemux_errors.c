/*
 * test_latentdemux_errors.c: files and pipelines that fail or stop, in pull and
 * in push mode.
 */
#include "latent_test.h"

static const Clip small = {VAE_TYPE_F32, 4, 16, 3, 5};

static void
check_refused(const gchar *path, const gchar *properties, gint code,
              const gchar *words)
{
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = demux(way, path, properties);
        assert_error(run, GST_STREAM_ERROR, code, words);
        CHECK_INT(run->buffers->len, 0);
    }
}

/* At these rates times would overflow or be equal. */
TEST(rates)
{
    static const gchar *const rates[] = {"1/2147483647", "2147483647/1"};
    for (guint i = 0; i < G_N_ELEMENTS(rates); i++) {
        const VaeMetadata stated[] = {{"vae.framerate", rates[i]}};
        g_autofree gchar *words = g_strdup_printf(
            "vae.framerate is %s, expected 1/3600 to 100000/1", rates[i]);
        g_autofree gchar *property = g_strdup_printf("framerate=%s", rates[i]);
        check_refused(described_clip(&small, stated, 1), "",
                      GST_STREAM_ERROR_DEMUX, words);
        g_autofree gchar *other = g_strdup_printf(
            "the property framerate is %s, expected 1/3600 to 100000/1",
            rates[i]);
        check_refused(plain_clip(&small), property, GST_STREAM_ERROR_DEMUX,
                      other);
    }
}

TEST(broken_files)
{
    const gint broken = GST_STREAM_ERROR_DEMUX;
    const gchar *path = write_clip("good", "latent", &small, CTHW, NULL, 0);
    g_autoptr(GBytes) good = read_bytes(path);
    gsize size;
    const gchar *data = g_bytes_get_data(good, &size);
    g_autofree gchar *more = g_malloc0(size + 7);
    memcpy(more, data, size);
    check_refused(write_bytes("cut", data, size - 1), "", broken, "latent");
    check_refused(write_bytes("half", data, size / 2), "", broken, "latent");
    check_refused(write_bytes("header", data, 40), "", broken,
                  "past the end of the file");
    check_refused(write_bytes("few", data, 5), "", broken, "too short");
    check_refused(write_bytes("none", data, 0), "", broken, "empty");
    check_refused(write_bytes("more", more, size + 7), "", broken,
                  "belong to no tensor");
    memset(more, 'x', size);
    check_refused(
        write_bytes("text", more, size), "", broken,
        "is a text file; expected a safetensors, npy or PyTorch file");
    memset(more, 0xee, size);
    check_refused(write_bytes("noise", more, size), "", broken,
                  "no safetensors, npy or PyTorch file");
}

/* A header without tensors, and headers of another length than stated. */
TEST(short_headers)
{
    static const struct {
        const gchar *bytes;
        gsize size;
        gint code;
        const gchar *words;
    } files[] = {
        {"\2\0\0\0\0\0\0\0{}", 10, GST_STREAM_ERROR_WRONG_TYPE,
         "has no tensors, expected one with latents"},
        {"\2\0\0\0\0\0\0\0{}1234", 14, GST_STREAM_ERROR_DEMUX,
         "the last 4 bytes of the file (14 bytes) belong to no tensor"},
        {"\3\0\0\0\0\0\0\0{\"a\":{}}", 16, GST_STREAM_ERROR_DEMUX,
         "header of 3 bytes: no valid JSON"}};
    for (guint i = 0; i < G_N_ELEMENTS(files); i++)
        check_refused(write_bytes("short", files[i].bytes, files[i].size), "",
                      files[i].code, files[i].words);
}

TEST(wrong_tensors)
{
    const VaeTensorOut weights[] = {
        {"conv1.weight", VAE_TYPE_F32, 5, {1, 1, 1, 1, 1}, "abcd"},
        {"conv1.bias", VAE_TYPE_F32, 1, {1}, "abcd"}};
    const VaeTensorOut bytes = {"latent", VAE_TYPE_U8, 4, {1, 1, 2, 2}, "abcd"};
    const VaeTensorOut flat = {"latent", VAE_TYPE_F32, 1, {1}, "abcd"};
    const VaeTensorOut none = {"latent", VAE_TYPE_F32, 4, {16, 0, 2, 2}, ""};
    const gchar *path = vae_test_path("a");
    vae_tensor_file_write(path, weights, 2, NULL, 0, NULL);
    check_refused(path, "", GST_STREAM_ERROR_WRONG_TYPE, "no latent tensor");
    check_refused(path, "", GST_STREAM_ERROR_WRONG_TYPE,
                  "(looks like model weights)");
    vae_tensor_file_write(path, &bytes, 1, NULL, 0, NULL);
    check_refused(path, "", GST_STREAM_ERROR_DEMUX, "uint8");
    vae_tensor_file_write(path, &flat, 1, NULL, 0, NULL);
    check_refused(path, "", GST_STREAM_ERROR_DEMUX, "1 dimension");
    vae_tensor_file_write(path, &none, 1, NULL, 0, NULL);
    check_refused(path, "", GST_STREAM_ERROR_DEMUX, "latents 0");
}

/* The same for a warning of the demuxer. */
TEST(control_characters)
{
    const VaeMetadata stated[] = {{"vae.latent_space", "a\033[31m"}};
    Run *run =
        demux(PULL, described_clip(&small, stated, 1), "latent-space=wan2.1");
    CHECK(run->eos && run->warning &&
          strstr(run->warning, "latent-space a?[31m"));
}

TEST(error_names_file)
{
    const gchar *path = write_bytes("noise", "not a file of tensors", 21);
    check_refused(path, "", GST_STREAM_ERROR_DEMUX, path);
}

TEST(push_limit)
{
    const gchar *path = plain_clip(&small);
    g_autoptr(GBytes) bytes = read_bytes(path);
    const gsize size = g_bytes_get_size(bytes);
    g_autofree gchar *exact =
        g_strdup_printf("max-push-size=%" G_GSIZE_FORMAT, size);
    g_autofree gchar *less =
        g_strdup_printf("max-push-size=%" G_GSIZE_FORMAT, size - 1);
    Run *run = demux(PUSH, path, exact);
    assert_clip(run, &small, 0);
    run = demux(PUSH, path, less);
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                 "max-push-size");
    CHECK_INT(run->buffers->len, 0);
    run = demux(PULL, path, less); /* does not matter here */
    assert_clip(run, &small, 0);
}

TEST(shrinking_file)
{
    const Clip clip = {VAE_TYPE_F32, 6, 16, 8, 8};
    const gchar *path = write_clip("a", "latent", &clip, TCHW, NULL, 0);
    g_autoptr(GBytes) bytes = read_bytes(path);
    Run *run = run_preroll(path, "", "");
    CHECK(truncate(path, g_bytes_get_size(bytes) - 2 * step_bytes(&clip)) == 0);
    run_play(run);
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                 "a: the file got shorter");
    CHECK_INT(run->buffers->len, 4);
}

/* Flow ------------------------------------------------------------------ */

TEST(downstream_ends)
{
    const gchar *path = plain_clip(&small);
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = run_all("filesrc location=%s ! %s latentdemux ! "
                           "identity eos-after=3 ! fakesink name=sink",
                           path, way == PUSH ? "queue !" : "");
        CHECK_SAYS(run->eos && !run->error, "%s", run->error);
        CHECK_INT(run->buffers->len, 2);
    }
}

TEST(downstream_fails)
{
    const gchar *path = plain_clip(&small);
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = run_all("filesrc location=%s ! %s latentdemux ! "
                           "identity error-after=2 ! fakesink name=sink",
                           path, way == PUSH ? "queue !" : "");
        CHECK(run->error != NULL);
        CHECK_SAYS(g_str_has_prefix(run->source, "identity"), "%s",
                   run->source);
        run = run_all("filesrc location=%s ! %s latentdemux", path,
                      way == PUSH ? "queue !" : "");
        assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, "");
    }
}

TEST(states)
{
    const Clip other = {VAE_TYPE_F16, 9, 24, 2, 2};
    const gchar *path = plain_clip(&small);
    const gchar *second = write_clip("b", "latent", &other, TCHW, NULL, 0);
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = run_new("filesrc name=src location=%s ! %s latentdemux ! "
                           "fakesink name=sink",
                           path, way == PUSH ? "queue !" : "");
        g_autoptr(GstElement) src =
            gst_bin_get_by_name(GST_BIN(run->pipeline), "src");
        for (gint i = 0; i < 10; i++) {
            gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
            if (i % 2)
                gst_element_get_state(run->pipeline, NULL, NULL,
                                      GST_CLOCK_TIME_NONE);
            gst_element_set_state(run->pipeline,
                                  i % 3 ? GST_STATE_READY : GST_STATE_NULL);
        }
        g_ptr_array_set_size(run->buffers, 0);
        g_object_set(src, "location", second, NULL);
        run_play(run);
        assert_clip(run, &other, 0);
    }
}

/* Stops while the sink waits for the clock, so that the task is inside a
 * push. */
TEST(stop_while_playing)
{
    const Clip clip = {VAE_TYPE_F32, 200, 16, 4, 4};
    const gchar *path = plain_clip(&clip);
    for (gint i = 0; i < 5; i++) {
        Run *run = run_new("filesrc location=%s ! latentdemux ! "
                           "fakesink name=sink",
                           path);
        GstElement *sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
        g_object_set(sink, "sync", TRUE, NULL);
        gst_object_unref(sink);
        gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
        g_usleep(20000);
    }
}
