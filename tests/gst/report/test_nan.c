/*
 * test_nan.c: the property nan-policy with a model that overflows in bf16.
 */
#include "vae_test.h"

#include "vae-private/stream.h"

#include "../../golden/overflow.h"

#define LW 4
#define LH 4
#define LATENTS 8
#define BAD 3
#define FRAMES (1 + 4 * (LATENTS - 1))

static GstHarness *
decoder(const gchar *policy, const gchar *model)
{
    GstHarness *h = vae_test_harness("vaedecode", "model", model, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "cpu");
    gst_util_set_object_arg(G_OBJECT(h->element), "precision", "bf16");
    gst_util_set_object_arg(G_OBJECT(h->element), "nan-policy", policy);
    vae_test_set_latents(h, LW, LH, ",normalization=raw");
    return h;
}

/* Pushes the clip. Latent BAD has the value z. */
static GstFlowReturn
push_clip_of(GstHarness *h, gfloat z)
{
    GstFlowReturn ret = GST_FLOW_OK;
    for (guint k = 0; k < LATENTS && ret == GST_FLOW_OK; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        GstMapInfo map;
        CHECK(gst_buffer_map(latent, &map, GST_MAP_WRITE));
        for (guint i = 0; i < LW * LH; i++)
            ((gfloat *) map.data)[i] = k == BAD ? z : 0;
        gst_buffer_unmap(latent, &map);
        ret = gst_harness_push(h, latent);
    }
    return ret;
}

/* Pushes a clip that overflows in bf16. */
static GstFlowReturn
push_clip(GstHarness *h)
{
    return push_clip_of(h, OVERFLOW_Z);
}

static const gchar *
write_model(void)
{
    VaeError error;
    const gchar *path = vae_test_path("w.safetensors");
    CHECK_INT(overflow_write(vae_test_weights(), path, &error), VAE_OK);
    return path;
}

TEST(fallback)
{
    const gchar *model = write_model();
    gchar *pass, *recovered;
    GstHarness *h = decoder("fallback", model);
    CHECK_INT(push_clip(h), GST_FLOW_OK);
    recovered = vae_test_last_frames(h, 0, FRAMES);
    CHECK_INT(vae_test_stat(h, "nan-steps"), 3);
    CHECK_INT(vae_test_stat(h, "recovered-steps"), 3);
    CHECK_INT(vae_test_stat(h, "nonfinite"), 0);
    CHECK(vae_test_stat(h, "bytes-fallback") > 0);
    vae_test_one_warning(h, "overflowed in bf16");
    vae_test_teardown(h);

    h = decoder("pass", model);
    CHECK_INT(push_clip(h), GST_FLOW_OK);
    pass = vae_test_last_frames(h, 0, FRAMES);
    CHECK(g_strcmp0(pass, recovered) != 0);
    CHECK_INT(vae_test_stat(h, "bytes-fallback"), 0);
    vae_test_teardown(h);
    g_free(pass);
    g_free(recovered);
}

/* A step that also overflows in fp32 gives one message, after the doubt about
 * the input. */
TEST(hopeless)
{
    GstHarness *h = decoder("fallback", write_model());
    CHECK_INT(push_clip_of(h, 3e38f), GST_FLOW_OK);
    vae_test_push_eos(h);
    CHECK(vae_test_stat(h, "nan-steps") > vae_test_stat(h, "recovered-steps"));
    CHECK_INT(vae_test_stat(h, "nonfinite"), 0);
    vae_test_warning(h, "is this the right input?");
    vae_test_one_warning(h, "in fp32, too");
    vae_test_teardown(h);
}

/* Returns the number of frames that had left when the error was posted. */
static GstBusSyncReply
note_frames(GstBus *bus, GstMessage *message, gpointer data)
{
    gint *frames = data;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR && frames[1] < 0)
        g_atomic_int_set(&frames[1], g_atomic_int_get(&frames[0]));
    return GST_BUS_PASS;
}

static GstPadProbeReturn
count_frame(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    g_usleep(2000); /* a slow sink */
    g_atomic_int_inc((gint *) data);
    return GST_PAD_PROBE_OK;
}

/* All frames of the latents before the bad one leave before the error, for any
 * slice size. */
TEST(error_frames)
{
    GstHarness *h = decoder("error", write_model());
    GstBus *bus = vae_test_bus(h);
    GstPad *pad = gst_element_get_static_pad(h->element, "src");
    gint frames[2] = {0, -1};
    g_object_set(h->element, "slice-size", 4, NULL);
    gst_bus_set_sync_handler(bus, note_frames, frames, NULL);
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, count_frame, frames,
                      NULL);
    push_clip(h);
    vae_test_push_eos(h);
    CHECK_INT(frames[1], 1 + 4 * (BAD - 1));
    CHECK_INT(gst_harness_buffers_received(h), 1 + 4 * (BAD - 1));
    vae_test_expect_error(h, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED,
                          "not finite", "latent 3");
    gst_object_unref(pad);
    vae_test_teardown(h);
}

/* After an error, a flush makes the element work again. */
TEST(error)
{
    GstHarness *h = decoder("error", write_model());
    while (push_clip(h) == GST_FLOW_OK)
        ;
    vae_test_expect_error(h, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_FAILED,
                          "not finite", "latent 3");
    vae_test_teardown(h);
}

/* Returns FALSE if the processor has no bf16. */
static gboolean
has_bf16(void)
{
    VaeModel *model = NULL;
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error;
    VaeStreamParams params = VAE_INIT(VaeStreamParams);
    params.backend = VAE_BACKEND_CPU;
    params.precision = VAE_PRECISION_BF16;
    params.width = params.height = 8 * LW;
    CHECK_INT(vae_model_open(vae_test_weights(), NULL, &model, &error), VAE_OK);
    const VaeStatus status = vae_stream_plan(model, &params, &plan, &error);
    vae_model_free(&model);
    return status == VAE_OK || !strstr(error.message, "AVX512_BF16");
}

int
main(int argc, char **argv)
{
    char why[256];
    if (!vae_backend_available(VAE_BACKEND_CPU, why, sizeof why) || !has_bf16())
        return 77;
    return vae_test_main(argc, argv);
}
