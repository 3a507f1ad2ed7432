/*
 * test_latentmux_errors.c: errors of latentmux, and the file after them.
 */
#include "mux_test.h"

static void
check_change(const gchar *caps, const gchar *words)
{
    mux_open(small_caps);
    mux_push(&small, 0, 1);
    mux_push(&small, 1, 4);
    g_autoptr(GstCaps) same = gst_caps_from_string(small_caps);
    CHECK(gst_harness_push_event(mux, gst_event_new_caps(same)));
    CHECK(mux_push(&small, 2, 4) == GST_FLOW_OK);
    g_autoptr(GstCaps) other = gst_caps_from_string(caps);
    gst_harness_push_event(mux, gst_event_new_caps(other));
    assert_posted(GST_MESSAGE_ERROR, words);
    CHECK(mux_push(&small, 3, 4) != GST_FLOW_OK);
    mux_finish();
    assert_file(OUT, &small, 3, 9);
}

TEST(caps_change)
{
    check_change("video/x-vae-latent, type=float16, channels=16, "
                 "latent-width=3, latent-height=5, width=37, height=21, "
                 "latent-space=wan2.1, normalization=normalized, "
                 "framerate=24/1",
                 "Latent 3 has the latent-width 3, expected 5, as all latents "
                 "before it in the file. Write it to another file, or put "
                 "videoscale and fixed caps before vaeencode");
    check_change("video/x-vae-latent, type=float16, channels=16, "
                 "latent-width=5, latent-height=3, width=37, height=21, "
                 "latent-space=wan2.2, normalization=normalized, "
                 "framerate=24/1",
                 "has the latent-space wan2.2, expected wan2.1");
    check_change("video/x-vae-latent, type=bfloat16, channels=16, "
                 "latent-width=5, latent-height=3, width=37, height=21, "
                 "latent-space=wan2.1, normalization=normalized, "
                 "framerate=24/1",
                 "has the type bfloat16, expected float16");
}

TEST(wrong_size)
{
    const Clip other = {VAE_TYPE_F16, 4, 16, 3, 4};
    mux_open(small_caps);
    mux_push(&small, 0, 1);
    CHECK(mux_push(&other, 1, 4) == GST_FLOW_ERROR);
    assert_posted(GST_MESSAGE_ERROR,
                  "Latent 1 has 384 bytes, its caps ask for 480");
    mux_finish();
    assert_file(OUT, &small, 1, 1);
}

TEST(layout)
{
    mux_open(small_caps);
    g_autoptr(GstCaps) caps = gst_caps_from_string(
        "video/x-vae-latent, type=float16, channels=16, latent-width=5, "
        "latent-height=3, layout=cthw, frames=2");
    gst_harness_push_event(mux, gst_event_new_caps(caps));
    assert_posted(GST_MESSAGE_ERROR, "layout = chw");
    /* Upstream sends the event again with each buffer. */
    CHECK(mux_push(&small, 0, 1) != GST_FLOW_OK);
    CHECK(mux_push(&small, 1, 4) != GST_FLOW_OK);
    mux_finish();
}

TEST(no_latents)
{
    mux_open(small_caps);
    mux_end();
    assert_posted(GST_MESSAGE_ERROR, "No latents arrived");
    mux_close();
}

/* A recording that was killed at any byte behind the header gives all complete
 * latents. */
TEST(aborted)
{
    const gchar *cut = vae_test_path("cut");
    mux_open(small_caps);
    const gsize step = step_bytes(&small);
    VaeTensorFile *file;
    VaeError error;
    mux_push(&small, 0, 1);
    mux_push(&small, 1, 4);
    mux_close();
    g_autoptr(GBytes) bytes = read_bytes(OUT);
    gsize size;
    gconstpointer data = g_bytes_get_data(bytes, &size);
    const gsize header = size - 2 * step;
    CHECK(size > 2 * step);
    for (gsize n = header; n <= size; n += step / 3 + 1) {
        const gint whole = (gint) ((n - header) / step);
        CHECK(g_file_set_contents(cut, data, (gssize) n, NULL));
        CHECK_SAYS(vae_tensor_file_open(cut, &file, &error) == VAE_OK, "%s",
                   error.message);
        CHECK_INT(vae_tensor_file_at(file, 0)->dims[0], whole);
        vae_tensor_file_free(&file);
        Run *run = run_all(PLAY_FILE, cut);
        if (whole == 0) {
            CHECK(run->error != NULL);
        } else {
            Clip found = small;
            found.t = whole;
            assert_clip(run, &found, 0);
            CHECK(run->warning && strstr(run->warning, "was interrupted"));
        }
    }
}

/* Only the sink posts an error about a full disk. */
TEST(disk_full)
{
    const Clip big = {VAE_TYPE_F32, 20, 16, 32, 32};
    if (!g_file_test("/dev/full", G_FILE_TEST_EXISTS))
        return;
    for (gint i = 0; i < 2; i++) {
        const Clip *clip = i ? &big : &small; /* small: fails at the end */
        const gchar *source = plain_clip(clip);
        Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                           "filesink location=/dev/full",
                           source);
        CHECK(run->error != NULL);
        CHECK_SAYS(g_str_has_prefix(run->source, "filesink"), "%s: %s",
                   run->source, run->error);
        CHECK_SAYS(run->domain == GST_RESOURCE_ERROR &&
                       run->code == GST_RESOURCE_ERROR_NO_SPACE_LEFT,
                   "%s", run->error);
    }
}

static GstPadProbeReturn
fail_second(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    gint *count = data;
    if (++*count != 2)
        return GST_PAD_PROBE_OK;
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_ERROR;
    return GST_PAD_PROBE_HANDLED;
}

/* After a lost latent nothing is written, and the recording stays open. */
TEST(failed_write)
{
    gint count = 0;
    mux_open(small_caps);
    VaeTensorFile *file;
    mux_push(&small, 0, 1);
    GstElement *sink =
        gst_bin_get_by_interface(GST_BIN(mux->element), GST_TYPE_URI_HANDLER);
    CHECK(sink != NULL);
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, fail_second, &count,
                      NULL);
    gst_object_unref(pad);
    gst_object_unref(sink);
    CHECK(mux_push(&small, 1, 4) == GST_FLOW_OK);
    CHECK(mux_push(&small, 2, 4) == GST_FLOW_ERROR);
    CHECK(mux_push(&small, 3, 4) != GST_FLOW_OK);
    mux_finish();
    CHECK(vae_tensor_file_open(OUT, &file, NULL) == VAE_OK);
    CHECK_INT(vae_tensor_file_at(file, 0)->dims[0], 2);
    CHECK_STR(vae_tensor_file_metadata(file, "vae.recording"), "open");
    vae_tensor_file_free(&file);
}

TEST(unwritable)
{
    const gchar *source = plain_clip(&small);
    Run *run = run_all("filesrc location=%s ! latentdemux ! latentmux ! "
                       "filesink location=%s",
                       source, vae_test_path("no/such/folder"));
    assert_error(run, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_WRITE, "");
}
