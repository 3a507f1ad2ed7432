/*
 * test_sequences.c: a file of several sequences gives the same frames, with the
 * same OFFSET, after a seek to any of them.
 */
#include "vae_play.h"

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
