#include "pixel_clip.h"

enum { MOST_CHANNELS = 48 };

guint
pixel_frames(const PixelClip *c, guint latents)
{
    return (guint) vae_count_frames(c->counts, latents);
}

static void
fill(const PixelClip *c, gfloat *values, guint k)
{
    for (guint i = 0; i < c->channels; i++)
        values[i] = c->scale * sinf(0.9f * (gfloat) i + 1.7f * (gfloat) k);
}

GstBuffer *
pixel_latent(const PixelClip *c, guint k)
{
    gfloat values[MOST_CHANNELS];
    fill(c, values, k);
    GstBuffer *buffer =
        gst_buffer_new_memdup(values, c->channels * sizeof *values);
    vae_test_stamp(buffer, k, pixel_frames(c, k), pixel_frames(c, k + 1));
    return buffer;
}

void
pixel_push(const PixelClip *c, GstHarness *h, guint k0, guint k1)
{
    for (guint k = k0; k < k1; k++)
        CHECK_INT(gst_harness_push(h, pixel_latent(c, k)), GST_FLOW_OK);
}

gchar *
pixel_run(const PixelClip *c, GstHarness *h, guint slice, guint n)
{
    g_object_set(h->element, "slice-size", slice, NULL);
    pixel_push(c, h, 0, n);
    gchar *md5 = vae_test_last_frames(h, 0, pixel_frames(c, n));
    CHECK_INT(vae_test_stat(h, "frames"), pixel_frames(c, n));
    CHECK_INT(vae_test_stat(h, "steps"), n);
    return md5;
}

void
pixel_checkpoint(const PixelClip *c, GstHarness *a, GstHarness *b,
                 PixelCheckpoint p)
{
    const gchar *file = vae_test_path("c.safetensors");
    const guint end = p.saved + 8, rest = pixel_frames(c, end) - p.had;
    g_object_set(a->element, "checkpoint-location", file, "checkpoint-interval",
                 p.saved, "checkpoint-carries", p.carries, NULL);
    pixel_push(c, a, 0, p.saved + 1);
    g_free(vae_test_pull_frames(a, 0, p.had));
    g_object_set(a->element, "checkpoint-location", NULL, NULL);
    pixel_push(c, a, p.saved + 1, end);
    gchar *expected = vae_test_last_frames(a, p.had, rest);
    g_signal_emit_by_name(b->element, "load-checkpoint", file);
    pixel_push(c, b, p.k0, end);
    vae_test_same(vae_test_last_frames(b, p.had, rest), expected);
}

/* ------------------------------------------------------------------ */

const gchar *
pixel_write(const PixelClip *c, guint n)
{
    const gchar *path = vae_test_path("clip.safetensors");
    g_autofree gfloat *values = g_new(gfloat, n * c->channels);
    const VaeTensorOut tensor = {.name = "latent",
                                 .type = VAE_TYPE_F32,
                                 .data = values,
                                 .n_dims = 4,
                                 .dims = {n, c->channels, 1, 1}};
    const VaeMetadata metadata[] = {{"vae.framerate", "16/1"},
                                    {"vae.layout", "tchw"},
                                    {"vae.latent_space", c->space}};
    VaeError error;
    for (guint k = 0; k < n; k++)
        fill(c, values + k * c->channels, k);
    CHECK(vae_tensor_file_write(path, &tensor, 1, metadata, c->space ? 3 : 2,
                                &error) == VAE_OK);
    return path;
}

VaePlay *
pixel_play(const PixelClip *c, const gchar *path)
{
    return vae_play_new(
        "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" threads=1 "
        "name=d ! fakesink name=s sync=false signal-handoffs=true",
        path, c->weights());
}

VaePlay *
pixel_play_at(const PixelClip *c, const gchar *path, gdouble rate,
              GstSeekFlags flags, guint first, guint last)
{
    VaePlay *play = pixel_play(c, path);
    CHECK(gst_element_seek(play->pipeline, rate, GST_FORMAT_TIME,
                           GST_SEEK_FLAG_FLUSH | flags, GST_SEEK_TYPE_SET,
                           (gint64) vae_test_time(first), GST_SEEK_TYPE_SET,
                           (gint64) vae_test_time(last + 1)));
    vae_play_to_end(play);
    return play;
}

void
pixel_segment(const PixelClip *c, const gchar *path, VaePlay *whole,
              guint first, guint last)
{
    VaePlay *play =
        pixel_play_at(c, path, 1, GST_SEEK_FLAG_ACCURATE, first, last);
    CHECK_INT(play->shown->len, last + 1 - first);
    for (guint n = first; n <= last; n++) {
        const VaeShown *found = vae_play_frame(play, n - first);
        CHECK_INT(found->pts, vae_test_time(n));
        CHECK_INT(found->end, vae_test_time(n + 1));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), n);
        CHECK(vae_play_same_bytes(found->buffer,
                                  vae_play_frame(whole, n)->buffer));
    }
    vae_play_free(play);
}

void
pixel_backwards(const PixelClip *c, const gchar *path, VaePlay *whole,
                guint first, guint last)
{
    VaePlay *play =
        pixel_play_at(c, path, -1, GST_SEEK_FLAG_ACCURATE, first, last);
    CHECK_INT(play->shown->len, last + 1 - first);
    for (guint k = 0; k < play->shown->len; k++) {
        const VaeShown *found = vae_play_frame(play, k);
        const VaeShown *expected = vae_play_frame(whole, last - k);
        CHECK_INT(found->pts, expected->pts);
        CHECK(vae_play_same_bytes(found->buffer, expected->buffer));
    }
    vae_play_free(play);
}
