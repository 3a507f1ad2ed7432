/*
 * test_sequences.c: after a seek, a file of several sequences, and networks
 * that look back differently, give the frames of the whole clip.
 */
#include "pixel_clip.h"

#include "vae-private/tensors.h"

#define LW 3
#define LH 2
#define LATENTS 6
#define FRAMES 14

static const gchar *
write_file(void)
{
    static const gint64 table[3][2] = {{0, 9}, {3, 1}, {4, 4}};
    const gsize step = (gsize) 16 * LW * LH * 4;
    const gchar *path = vae_test_path("clip.safetensors");
    g_autofree guint8 *data = g_malloc(LATENTS * step);
    const VaeTensorOut tensors[] = {{.name = "latent",
                                     .type = VAE_TYPE_F32,
                                     .data = data,
                                     .n_dims = 4,
                                     .dims = {LATENTS, 16, LH, LW}},
                                    {.name = "latent_sequences",
                                     .type = VAE_TYPE_U8,
                                     .data = table,
                                     .n_dims = 2,
                                     .dims = {3, 16}}};
    const VaeMetadata metadata[] = {{"vae.framerate", "16/1"},
                                    {"vae.latent_space", "wan2.1"},
                                    {"vae.layout", "tchw"}};
    VaeError error;
    for (guint k = 0; k < LATENTS; k++) {
        g_autoptr(GstBuffer) latent = vae_test_latent(LW, LH, k);
        CHECK_INT(gst_buffer_extract(latent, 0, data + k * step, step), step);
    }
    CHECK(vae_tensor_file_write(path, tensors, 2, metadata,
                                G_N_ELEMENTS(metadata), &error) == VAE_OK);
    return path;
}

static VaePlay *
player(const gchar *path)
{
    return vae_play_new("filesrc location=%s ! latentdemux ! vaedecode "
                        "model=\"%s\" threads=1 ! fakesink name=s sync=false "
                        "signal-handoffs=true",
                        path, vae_test_weights());
}

TEST(offsets)
{
    const gchar *path = write_file();
    VaePlay *whole = player(path), *play = player(path);
    vae_play_to_end(whole);
    CHECK_INT(whole->shown->len, FRAMES);
    for (guint i = 0; i < FRAMES; i++)
        CHECK_INT(GST_BUFFER_OFFSET(vae_play_frame(whole, i)->buffer), i);
    for (guint i = 0; i < FRAMES; i++) {
        CHECK(vae_play_seek(play, GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE,
                            vae_test_time(i), GST_CLOCK_TIME_NONE));
        vae_play_to_end(play);
        CHECK_INT(play->shown->len, FRAMES - i);
        for (guint n = i; n < FRAMES; n++) {
            GstBuffer *shown = vae_play_frame(play, n - i)->buffer;
            CHECK_INT(GST_BUFFER_OFFSET(shown), n);
            CHECK(vae_play_same_bytes(shown, vae_play_frame(whole, n)->buffer));
        }
        vae_play_set(play, GST_STATE_PAUSED);
    }
    vae_play_free(play);
    vae_play_free(whole);
}

static const char *
hunyuan(void)
{
    return vae_test_network("hunyuan15");
}

static const char *
magi(void)
{
    return vae_test_network("magi2_turbo");
}

static const char *
tiny(void)
{
    return vae_test_network("taehv/taew2_1");
}

static const PixelClip clips[] = {{hunyuan, {4, 0}, 4, 1, "hunyuan1.5"},
                                  {magi, {4, 0}, 48, 1, "wan2.2"},
                                  {tiny, {4, 0}, 16, 1, "wan2.1"}};

/* The demuxer asks the decoder where decoding has to begin: hunyuan1.5 at the
 * start of the clip, magi2_turbo at a window before. */
TEST(networks)
{
    for (guint i = 0; i < G_N_ELEMENTS(clips); i++) {
        const PixelClip *c = &clips[i];
        const gchar *path = pixel_write(c, 44);
        VaePlay *whole = pixel_play(c, path);
        vae_play_to_end(whole);
        CHECK_INT(whole->shown->len, pixel_frames(c, 44));
        /* Latents 39 to 41. */
        pixel_segment(c, path, whole, 155, 164);
        pixel_segment(c, path, whole, 1, 4);
        pixel_backwards(c, path, whole, 120, 160);
        vae_play_free(whole);
    }
}

static GstHarness *
limited(const gchar *limit)
{
    GstHarness *h = vae_test_harness("vaedecode", "model", hunyuan(),
                                     "memory-limit", limit, NULL);
    vae_test_set_grid(h, 4, 1, 1, ",framerate=16/1");
    return h;
}

/* A history that reaches the limit ends the stream after all frames of the
 * latents before. */
TEST(history_limit)
{
    SCOPED GstHarness *all = limited(NULL), *same = limited(NULL);
    pixel_push(&clips[0], all, 0, 1);
    g_free(vae_test_pull_frames(all, 0, 1));
    g_autofree gchar *limit = g_strdup_printf(
        "%" G_GUINT64_FORMAT, vae_test_stat(all, "bytes-total"));
    SCOPED GstHarness *h = limited(limit);
    for (guint k = 0;
         gst_harness_push(h, pixel_latent(&clips[0], k)) == GST_FLOW_OK; k++)
        CHECK(k < 1000);
    vae_test_expect_error(h, GST_RESOURCE_ERROR,
                          GST_RESOURCE_ERROR_NO_SPACE_LEFT, "of history",
                          "the memory limit is");
    const guint frames = gst_harness_buffers_received(h);
    const guint latents = (frames + 3) / 4;
    CHECK(latents >= 32);
    gchar *found = vae_test_pull_frames(h, 0, pixel_frames(&clips[0], latents));
    vae_test_same(found, pixel_run(&clips[0], same, 1, latents));
}
