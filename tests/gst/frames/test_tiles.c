/*
 * test_tiles.c: pictures in tiles, which a WARNING calls not exact.
 */
#include "vae_test.h"

#define LW 6
#define LH 4

static GstHarness *
element(const char *name, const char *tiles)
{
    GstHarness *h = vae_test_harness(name, NULL);

    g_object_set(h->element, "tile-width", 32, "tile-height", 24,
                 "tile-overlap", 8, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "tiles", tiles);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "ref");
    return h;
}

/* The MD5 of 2 latents' frames, with a flush before, and the only warning. */
static gchar *
decode(const char *tiles, guint n, const char *warning)
{
    GstHarness *h = element("vaedecode", tiles);
    GstBus *bus = vae_test_bus(h);
    gchar *md5;
    GstSegment segment;

    gst_segment_init(&segment, GST_FORMAT_TIME);
    vae_test_set_latents(h, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, 1);
    gst_buffer_unref(vae_test_pull(h));
    gst_harness_push_event(h, gst_event_new_flush_start());
    gst_harness_push_event(h, gst_event_new_flush_stop(TRUE));
    gst_harness_push_event(h, gst_event_new_segment(&segment));
    vae_test_push_latents(h, LW, LH, 0, 2);
    md5 = vae_test_pull_frames(h, 0, 5);
    CHECK_INT(vae_test_stat(h, "tiles"), n);
    CHECK((vae_test_stat(h, "bytes-tiled") > 0) == (n > 0));
    vae_test_one_warning(bus, warning);
    vae_test_teardown(h);
    return md5;
}

TEST(decode)
{
    gchar *tiles = decode("blend", 4, "the picture is not exact");
    gchar *again = decode("blend", 4, "4 tiles of 32x24");
    gchar *whole = decode("off", 0, "no effect without tiles=blend");

    CHECK(strcmp(tiles, again) == 0);
    CHECK(strcmp(tiles, whole) != 0);
    g_free(tiles);
    g_free(again);
    g_free(whole);
}

TEST(encode)
{
    GstHarness *h = element("vaeencode", "blend");
    GstBus *bus = vae_test_bus(h);
    GstVideoInfo info;

    vae_test_set_video(h, &info, 8 * LW, 8 * LH);
    vae_test_push_frames(h, &info, 0, 5);
    gst_buffer_unref(vae_test_pull_latent(h, 0, 0, 1));
    gst_buffer_unref(vae_test_pull_latent(h, 1, 1, 5));
    vae_test_one_warning(bus, "the latents are not exact");
    vae_test_teardown(h);
}

TEST(refused)
{
    GstHarness *h = element("vaedecode", "blend");
    GstBus *bus = vae_test_bus(h);

    g_object_set(h->element, "tile-width", 33, NULL);
    vae_test_set_latents(h, LW, LH, NULL);
    gst_harness_push(h, vae_test_latent(LW, LH, 0));
    vae_test_expect_error(bus, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
                          "a tile width of 33", "multiple of 8");
    vae_test_teardown(h);
}
