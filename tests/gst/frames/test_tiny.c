/*
 * test_tiny.c: a pipeline changes from the tiny decoder of LTX-2 to the full
 * one, which has a delay, and back.
 */
#include "vae_test.h"

#include "vae-private/tensors.h"

/* The small LTX-2.3 has 6 latent channels. taeltx always has 128. */
enum { CHANNELS = 6, WIDE = 128, GROUP = 8 };

static guint
frames_of(guint latents)
{
    return latents ? GROUP * latents - GROUP + 1 : 0;
}

/* Returns the values of a tensor of the small decoder for as many latent
 * channels as taeltx has. The additional weights are 0. Sets out->dims. */
static gfloat *
widen(const VaeTensorInfo *t, VaeTensorOut *out)
{
    const gboolean first = g_str_has_suffix(t->name, "conv_in.conv.weight");
    const gsize n = (gsize) t->bytes / vae_type_size(t->type);
    gfloat *from = g_new(gfloat, n), *to;
    vae_type_to_float(from, t->data, t->type, n);
    if (first)
        out->dims[1] = WIDE;
    else if (g_str_has_prefix(t->name, "per_channel_statistics."))
        out->dims[0] = WIDE;
    else
        return from;
    const gsize part = first ? CHANNELS * 27 : CHANNELS;
    const gsize whole = first ? WIDE * 27 : WIDE;
    to = g_new0(gfloat, n / part * whole);
    for (gsize i = 0; !first && i < WIDE; i++)
        to[i] = 1;
    for (gsize i = 0; i < n; i++)
        to[i / part * whole + i % part] = from[i];
    g_free(from);
    return to;
}

static void
write_wide(const gchar *path)
{
    VaeTensorFile *file = NULL;
    VaeError error;
    const gchar *small = vae_test_network("ltx2_3");

    CHECK(vae_tensor_file_open(small, &file, &error) == VAE_OK);
    const gsize n = vae_tensor_file_count(file);
    VaeTensorOut *out = g_new0(VaeTensorOut, n);
    gsize kept = 0;
    for (gsize i = 0; i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        if (g_str_has_prefix(t->name, "encoder."))
            continue;
        VaeTensorOut *o = &out[kept++];
        *o = (VaeTensorOut){t->name, VAE_TYPE_F32, t->n_dims};
        memcpy(o->dims, t->dims, sizeof o->dims);
        o->data = widen(t, o);
    }
    CHECK(vae_tensor_file_write(path, out, kept, NULL, 0, &error) == VAE_OK);
    for (gsize i = 0; i < kept; i++)
        g_free((gpointer) out[i].data);
    g_free(out);
    vae_tensor_file_free(&file);
}

/* Pushes latents k0 to k1 - 1, with the times of their frames. */
static void
push(GstHarness *h, guint k0, guint k1)
{
    for (guint k = k0; k < k1; k++) {
        gfloat values[WIDE] = {0};
        for (guint i = 0; i < CHANNELS; i++)
            values[i] = sinf(0.9f * (gfloat) i + 1.7f * (gfloat) k);
        GstBuffer *buffer = gst_buffer_new_memdup(values, sizeof values);
        vae_test_stamp(buffer, k, frames_of(k), frames_of(k + 1));
        CHECK_INT(gst_harness_push(h, buffer), GST_FLOW_OK);
    }
}

/* Changes from the tiny decoder, which has no delay, to the full one and back:
 * no frame is missing, and times continue. */
TEST(tiny)
{
    const gchar *tiny = vae_test_network("taehv/taeltx2_3");
    const gchar *full = vae_test_path("w.safetensors");
    SCOPED GstHarness *h = vae_test_harness("vaedecode", "model", tiny, NULL);
    write_wide(full);
    vae_test_set_grid(h, 128, 1, 1, ",framerate=16/1");
    push(h, 0, 3);
    g_object_set(h->element, "model", full, NULL);
    g_signal_emit_by_name(h->element, "restart");
    push(h, 3, 6);
    g_free(vae_test_pull_frames(h, 0, frames_of(3)));
    g_object_set(h->element, "model", tiny, NULL);
    g_signal_emit_by_name(h->element, "restart");
    push(h, 6, 8);
    g_free(vae_test_last_frames(h, frames_of(3), 5 * GROUP));
}
