#include "mux_test.h"

const Clip small = {VAE_TYPE_F16, 4, 16, 3, 5};
const gchar *const small_caps =
    "video/x-vae-latent, type=float16, channels=16, latent-width=5, "
    "latent-height=3, width=37, height=21, latent-space=wan2.1, "
    "normalization=normalized, framerate=24/1";

GstHarness *mux;
static GstBus *bus;

void
mux_open(const gchar *caps)
{
    g_autofree gchar *text =
        g_strdup_printf("latentmux ! filesink async=false location=%s", OUT);
    mux = gst_harness_new_parse(text);
    bus = vae_test_bus(mux);
    gst_harness_set_src_caps_str(mux, caps);
}

GstFlowReturn
push_timed(const Clip *clip, gint k, GstClockTime pts, GstClockTime duration,
           gboolean start)
{
    GstBuffer *buffer =
        gst_buffer_new_wrapped(step_data(clip, k), step_bytes(clip));
    GST_BUFFER_PTS(buffer) = pts;
    GST_BUFFER_DURATION(buffer) = duration;
    if (!start)
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DELTA_UNIT);
    return gst_harness_push(mux, buffer);
}

GstClockTime
frame_time(gint frame)
{
    return gst_util_uint64_scale(frame, GST_SECOND, 24);
}

GstFlowReturn
mux_push(const Clip *clip, gint k, gint frames)
{
    return push_timed(clip, k, frame_time(k > 0 ? 4 * k - 3 : 0),
                      frames > 0 ? frame_time(frames) : GST_CLOCK_TIME_NONE,
                      k == 0);
}

void
mux_end(void)
{
    gst_harness_push_event(mux, gst_event_new_eos());
}

void
assert_posted(GstMessageType type, const gchar *words)
{
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, type);
    g_autoptr(GError) error = NULL;
    CHECK_SAYS(message != NULL, "nothing posted, expected '%s'", words);
    if (type == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    else
        gst_message_parse_warning(message, &error, NULL);
    CHECK_SAYS(strstr(error->message, words) != NULL, "'%s' lacks '%s'",
               error->message, words);
    CHECK_SAYS(g_str_has_prefix(GST_MESSAGE_SRC_NAME(message), "latentmux"),
               "'%s' is from %s", error->message,
               GST_MESSAGE_SRC_NAME(message));
}

void
assert_quiet(void)
{
    GstMessage *message =
        gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING);
    GError *error = NULL;
    if (message)
        gst_message_parse_error(message, &error, NULL);
    CHECK_SAYS(!message, "%s: %s", GST_MESSAGE_SRC_NAME(message),
               error->message);
}

void
mux_close(void)
{
    vae_test_teardown(mux);
}

void
mux_finish(void)
{
    mux_end();
    assert_quiet();
    mux_close();
}

void
assert_file(const gchar *path, const Clip *clip, gint t, gint64 frames)
{
    VaeTensorFile *file;
    VaeLatentClip found = VAE_INIT(VaeLatentClip);
    VaeError error = {0};
    g_autofree guint8 *data = g_malloc(step_bytes(clip));
    CHECK_SAYS(vae_tensor_file_open(path, &file, &error) == VAE_OK, "%s",
               error.message);
    CHECK_SAYS(vae_latent_clip_find(file, NULL, &found, &error) == VAE_OK, "%s",
               error.message);
    CHECK_STR(found.tensor, "latent");
    CHECK_INT(found.t, t);
    CHECK_INT(found.channels, clip->c);
    CHECK_INT(found.height, clip->h);
    CHECK_INT(found.width, clip->w);
    CHECK(found.type == clip->type);
    CHECK_INT(found.frames, frames);
    for (gint k = 0; k < t; k++) {
        g_autofree guint8 *expected = step_data(clip, k);
        vae_latent_clip_read(&found, k, data);
        CHECK(memcmp(data, expected, step_bytes(clip)) == 0);
    }
    vae_tensor_file_free(&file);
}

void
assert_metadata(const gchar *path, const gchar *key, const gchar *expected)
{
    VaeTensorFile *file;
    CHECK(vae_tensor_file_open(path, &file, NULL) == VAE_OK);
    const gchar *value = vae_tensor_file_metadata(file, key);
    CHECK_SAYS(g_strcmp0(value, expected) == 0, "%s is %s, expected %s", key,
               value, expected);
    vae_tensor_file_free(&file);
}
