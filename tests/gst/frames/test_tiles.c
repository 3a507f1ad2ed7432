/*
 * test_tiles.c: decodes pictures in tiles. A WARNING says that they are not
 * exact.
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

/* Returns the MD5 of the frames of 2 latents after a flush. Checks the only
 * warning. */
static gchar *
decode(const char *tiles, guint n, const char *warning)
{
    SCOPED GstHarness *h = element("vaedecode", tiles);
    vae_test_set_latents(h, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, 1);
    gst_buffer_unref(vae_test_pull(h));
    vae_test_flush(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    gchar *md5 = vae_test_pull_frames(h, 0, 5);
    CHECK_INT(vae_test_stat(h, "tiles"), n);
    CHECK((vae_test_stat(h, "bytes-tiled") > 0) == (n > 0));
    vae_test_one_warning(h, warning);
    return md5;
}

TEST(decode)
{
    g_autofree gchar *tiles = decode("blend", 4, "the picture is not exact");
    g_autofree gchar *again = decode("blend", 4, "4 tiles of 32x24");
    g_autofree gchar *whole = decode("off", 0, "no effect without tiles=blend");
    CHECK(strcmp(tiles, again) == 0);
    CHECK(strcmp(tiles, whole) != 0);
}

TEST(encode)
{
    SCOPED GstHarness *h = element("vaeencode", "blend");
    GstVideoInfo info;
    vae_test_set_video(h, &info, 8 * LW, 8 * LH);
    vae_test_push_frames(h, &info, 0, 5);
    gst_buffer_unref(vae_test_pull_latent(h, 0, 0, 1));
    gst_buffer_unref(vae_test_pull_latent(h, 1, 1, 5));
    vae_test_one_warning(h, "the latents are not exact");
}

TEST(refused)
{
    SCOPED GstHarness *h = element("vaedecode", "blend");
    g_object_set(h->element, "tile-width", 33, NULL);
    vae_test_set_latents(h, LW, LH, NULL);
    gst_harness_push(h, vae_test_latent(LW, LH, 0));
    vae_test_expect_error(h, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
                          "a tile width of 33", "multiple of 8");
}
