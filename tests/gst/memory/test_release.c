/*
 * test_release.c: frees the memory of a device while a stream runs.
 *
 * The environment variable VAE_TEST_BACKEND names the backend; default: cpu.
 * cuda is the emulated device, whose module VAE_CUDA_MODULE names.
 */
#include "vae_test.h"

#include <stdint.h>

#define LW 4
#define LH 4
#define LATENTS 5
#define FRAMES (1 + 4 * (LATENTS - 1))

static gboolean
on_device(void)
{
    return g_strcmp0(g_getenv("VAE_TEST_BACKEND"), "cuda") == 0;
}

/* Returns the free bytes of the device. */
static guint64
left(void)
{
    int (*memory_left)(uint64_t *);
    void *symbol = vae_test_emulated("vae_rt_memory_left");
    uint64_t bytes = 0;
    memcpy(&memory_left, &symbol, sizeof memory_left);
    CHECK_INT(memory_left(&bytes), 0);
    return bytes;
}

static void
set_memory(guint64 bytes)
{
    void (*set)(uint64_t);
    void *symbol = vae_test_emulated("emu_set_memory");
    memcpy(&set, &symbol, sizeof set);
    set(bytes);
}

static GstHarness *
decoder(void)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", 2,
                                     "resume-timeout", GST_MSECOND, NULL);
    if (on_device())
        gst_util_set_object_arg(G_OBJECT(h->element), "backend", "cuda");
    vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

/* Returns a checksum of the frames of an undisturbed decoder. */
static gchar *
undisturbed(void)
{
    SCOPED GstHarness *h = decoder();
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    return vae_test_pull_frames(h, 0, FRAMES);
}

/* Returns the next message `vae-release`. */
static void
expect_release(GstBus *bus, gboolean idle)
{
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_ELEMENT);
    gboolean released = !on_device(), was_idle = !idle;
    CHECK(message != NULL);
    CHECK(gst_message_has_name(message, "vae-release"));
    CHECK(gst_structure_get(gst_message_get_structure(message), "released",
                            G_TYPE_BOOLEAN, &released, "idle", G_TYPE_BOOLEAN,
                            &was_idle, NULL));
    CHECK_INT(released, on_device());
    CHECK_INT(was_idle, idle);
}

/* Adds the next n buffers to the checksum. */
static void
pull(GstHarness *h, GChecksum *sum, guint n)
{
    for (guint i = 0; i < n; i++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(h);
        vae_test_sum(sum, buffer);
    }
}

/* Ends a flush. Buffers from before it are dropped. */
static void
end_flush(GstHarness *h)
{
    CHECK(gst_harness_push_event(h, gst_event_new_flush_stop(TRUE)));
    while (gst_harness_buffers_in_queue(h) > 0)
        gst_buffer_unref(vae_test_pull(h));
    vae_test_push_segment(h);
}

/* ------------------------------------------------------------------ */

/* Releases after each latent; the next one allocates the memory again. */
TEST(between)
{
    g_autofree gchar *expected = undisturbed();
    const guint64 empty = on_device() ? left() : 0;
    GstHarness *h = decoder();
    GstBus *bus = vae_test_bus(h);
    g_autoptr(GChecksum) all = g_checksum_new(G_CHECKSUM_MD5);
    for (guint k = 0; k < LATENTS; k++) {
        vae_test_push_latents(h, LW, LH, k, k + 1);
        pull(h, all, k ? 4 : 1);
        if (on_device())
            CHECK(left() < empty);
        g_signal_emit_by_name(h->element, "release");
        expect_release(bus, FALSE);
        if (on_device())
            CHECK_INT(left(), empty);
    }
    CHECK(strcmp(g_checksum_get_string(all), expected) == 0);
    vae_test_teardown(h);
    if (on_device())
        CHECK_INT(left(), empty);
}

static gpointer
emit_on(gpointer data)
{
    GstHarness *h = data;
    gint *go_on = g_object_get_data(G_OBJECT(h->element), "go-on");
    do {
        g_signal_emit_by_name(h->element, "release");
        g_usleep(2000);
    } while (g_atomic_int_get(go_on));
    return NULL;
}

/* Releases all the time, in another thread. */
TEST(any_time)
{
    gchar *expected = undisturbed();
    SCOPED GstHarness *h = decoder();
    GstBus *bus = vae_test_bus(h);
    gint go_on = 1;
    g_object_set_data(G_OBJECT(h->element), "go-on", &go_on);
    GThread *thread = g_thread_new("release", emit_on, h);
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    vae_test_same(vae_test_pull_frames(h, 0, FRAMES), expected);
    g_atomic_int_set(&go_on, 0);
    g_thread_join(thread);
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_ELEMENT);
    CHECK(message != NULL && gst_message_has_name(message, "vae-release"));
}

/* Earlier input is computed first, and each release posts one message. */
TEST(order)
{
    gchar *expected = undisturbed();
    SCOPED GstHarness *h = decoder();
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    g_signal_emit_by_name(h->element, "release");
    expect_release(bus, FALSE);
    CHECK_INT(vae_test_stat(h, "steps"), LATENTS);
    vae_test_same(vae_test_pull_frames(h, 0, FRAMES), expected);
    CHECK(gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT) == NULL);
}

/* A flush does not drop the request, and the new sequence is right. */
TEST(flush)
{
    gchar *expected = undisturbed();
    SCOPED GstHarness *h = decoder();
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    vae_test_push_latents(h, LW, LH, 1, 4);
    g_signal_emit_by_name(h->element, "release");
    CHECK(gst_harness_push_event(h, gst_event_new_flush_start()));
    expect_release(bus, FALSE);
    end_flush(h);
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    vae_test_same(vae_test_pull_frames(h, 0, FRAMES), expected);
}

/* idle-release frees the memory once after its time, also if it is set while
 * the element runs. */
TEST(idle)
{
    gchar *expected = undisturbed();
    const guint64 empty = on_device() ? left() : 0;
    SCOPED GstHarness *h = decoder();
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_usleep(100000);
    CHECK(gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT) == NULL);
    g_object_set(h->element, "idle-release", 50 * GST_MSECOND, NULL);
    expect_release(bus, TRUE);
    if (on_device())
        CHECK_INT(left(), empty);
    CHECK(gst_bus_timed_pop_filtered(bus, 200 * GST_MSECOND,
                                     GST_MESSAGE_ELEMENT) == NULL);
    vae_test_push_latents(h, LW, LH, 3, LATENTS);
    expect_release(bus, TRUE);
    vae_test_same(vae_test_pull_frames(h, 0, FRAMES), expected);
}

TEST(encode)
{
    GstVideoInfo info;
    gchar *sums[2];
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, LW * 8, LH * 8);
    info.fps_n = VAE_TEST_FPS;
    info.fps_d = 1;
    for (guint run = 0; run < 2; run++) {
        SCOPED GstHarness *h =
            vae_test_harness("vaeencode", "slice-size", 1, NULL);
        GstBus *bus = vae_test_bus(h);
        g_autoptr(GChecksum) all = g_checksum_new(G_CHECKSUM_MD5);
        GstCaps *caps = gst_video_info_to_caps(&info);
        if (on_device())
            gst_util_set_object_arg(G_OBJECT(h->element), "backend", "cuda");
        gst_harness_set_src_caps(h, caps);
        for (guint n = 0; n < 9; n++) {
            CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)),
                      GST_FLOW_OK);
            if (run)
                g_signal_emit_by_name(h->element, "release");
            if (run)
                expect_release(bus, FALSE);
        }
        pull(h, all, 3);
        sums[run] = g_strdup(g_checksum_get_string(all));
    }
    vae_test_same(sums[1], sums[0]);
}

/* The device is full when the stream reloads its memory; a later try works. */
TEST(refused)
{
    if (!on_device())
        return;
    gchar *expected = undisturbed();
    SCOPED GstHarness *h = decoder();
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_signal_emit_by_name(h->element, "release");
    expect_release(bus, FALSE);
    set_memory(1 << 20);
    gst_harness_push(h, vae_test_latent(LW, LH, 2));
    vae_test_expect_error(
        h, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
        "cannot be allocated again within 0.0 s", "MiB are free");
    set_memory((guint64) 4 << 30);
    CHECK(gst_harness_push_event(h, gst_event_new_flush_start()));
    end_flush(h);
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    vae_test_same(vae_test_pull_frames(h, 0, FRAMES), expected);
}
