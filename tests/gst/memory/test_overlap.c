/*
 * test_overlap.c: slices that begin while earlier ones run on the emulated
 * device. VAE_CUDA_MODULE names its module.
 */
#include "vae_test.h"

#include "emu_rt.h"

#define LW 4
#define LH 4
#define LATENTS 9
#define FRAMES (1 + 4 * (LATENTS - 1))

static gint begun; /* number of slices that begin while another runs */

static void
count(GstDebugCategory *category, GstDebugLevel level, const gchar *file,
      const gchar *function, gint line, GObject *object,
      GstDebugMessage *message, gpointer data)
{
    if (strstr(gst_debug_message_get(message), " steps begun while "))
        g_atomic_int_inc(&begun);
}

static void
listen(void)
{
    gst_debug_remove_log_function(count);
    gst_debug_set_active(TRUE);
    gst_debug_set_threshold_for_name("vaedecode", GST_LEVEL_LOG);
    gst_debug_set_threshold_for_name("vaeencode", GST_LEVEL_LOG);
    gst_debug_add_log_function(count, NULL, NULL);
    g_atomic_int_set(&begun, 0);
}

/* With nan-policy=error an encoder waits for each slice, and a decoder for its
 * count of non-finite values. */
static GstHarness *
element(const char *name, const char *nan_policy, guint slice)
{
    GstHarness *h =
        vae_test_harness(name, "slice-size", slice, "queue-depth", 4, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "cuda");
    gst_util_set_object_arg(G_OBJECT(h->element), "nan-policy", nan_policy);
    return h;
}

static GstHarness *
decoder(const char *nan_policy, guint slice)
{
    GstHarness *h = element("vaedecode", nan_policy, slice);
    vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

static gchar *
decode(const char *nan_policy, guint slice)
{
    SCOPED GstHarness *h = decoder(nan_policy, slice);
    listen();
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    vae_test_push_eos(h);
    gchar *sum = vae_test_pull_frames(h, 0, FRAMES);
    CHECK_INT(vae_test_stat(h, "steps"), LATENTS);
    return sum;
}

static void
same(gchar *found, const gchar *expected)
{
    CHECK(strcmp(found, expected) == 0);
    g_free(found);
}

/* The frames are the same, also if each slice is checked. */
TEST(decode)
{
    g_autofree gchar *expected = decode("error", 1);
    CHECK(begun > 0);
    same(decode("pass", 1), expected);
    CHECK(begun > 0);
    same(decode("pass", 2), expected);
    CHECK(begun > 0);
}

TEST(encode)
{
    gchar *sums[2];
    for (guint run = 0; run < 2; run++) {
        SCOPED GstHarness *h = element("vaeencode", run ? "pass" : "error", 1);
        g_autoptr(GChecksum) all = g_checksum_new(G_CHECKSUM_MD5);
        GstVideoInfo info;
        listen();
        vae_test_set_video(h, &info, LW * 8, LH * 8);
        vae_test_push_frames(h, &info, 0, FRAMES);
        vae_test_push_eos(h);
        for (guint k = 0; k < LATENTS; k++) {
            g_autoptr(GstBuffer) buffer =
                vae_test_pull_latent(h, k, k ? 4 * k - 3 : 0, 4 * k + 1);
            vae_test_sum(all, buffer);
        }
        CHECK(begun > 0); /* slices overlap with both policies */
        sums[run] = g_strdup(g_checksum_get_string(all));
    }
    same(sums[1], sums[0]);
    g_free(sums[0]);
}

/* Flushes at any moment. The next sequence is complete. */
TEST(flush)
{
    g_autofree gchar *expected = decode("error", 1);
    SCOPED GstHarness *h = decoder("pass", 1);
    listen();
    for (guint turn = 0; turn < 12; turn++) {
        vae_test_push_latents(h, LW, LH, 0, 2 + turn % 4);
        g_usleep(turn % 3 * 20000);
        CHECK(gst_harness_push_event(h, gst_event_new_flush_start()));
        CHECK(gst_harness_push_event(h, gst_event_new_flush_stop(TRUE)));
        while (gst_harness_buffers_in_queue(h) > 0)
            gst_buffer_unref(vae_test_pull(h));
        vae_test_push_segment(h);
    }
    CHECK(begun > 0);
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    vae_test_push_eos(h);
    same(vae_test_pull_frames(h, 0, FRAMES), expected);
}

/* The result of the last input leaves without later input. */
TEST(alone)
{
    SCOPED GstHarness *h = decoder("pass", 1);
    for (guint k = 0; k < 3; k++) {
        vae_test_push_latents(h, LW, LH, k, k + 1);
        g_free(vae_test_pull_frames(h, k ? 4 * k - 3 : 0, k ? 4 : 1));
    }
}

/* The device copies each frame directly to the pool of the element, whose
 * memory is pinned until it is freed. */
TEST(pinned)
{
    void *symbols[] = {vae_test_emulated("emu_pins"),
                       vae_test_emulated("emu_set_fault"),
                       vae_test_emulated("emu_fault_count")};
    int (*pins)(void);
    void (*set_fault)(EmuFault, int);
    int (*fault_count)(EmuFault);
    memcpy(&pins, &symbols[0], sizeof pins);
    memcpy(&set_fault, &symbols[1], sizeof set_fault);
    memcpy(&fault_count, &symbols[2], sizeof fault_count);
    set_fault(EMU_FAULT_DOWNLOAD, -1);
    GstHarness *h = decoder("pass", 1);
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    g_free(vae_test_pull_frames(h, 0, FRAMES));
    CHECK_INT(fault_count(EMU_FAULT_DOWNLOAD), FRAMES + LATENTS);
    CHECK(pins() > 0);
    vae_test_teardown(h);
    CHECK_INT(pins(), 0);
    set_fault(EMU_FAULT_NONE, 0);
}

static GstPadProbeReturn
offer(GstPad *pad, GstPadProbeInfo *info, gpointer pool)
{
    GstQuery *query = GST_PAD_PROBE_INFO_QUERY(info);
    if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION)
        return GST_PAD_PROBE_OK;
    gst_query_add_allocation_pool(query, pool, 1, 0, 64);
    return GST_PAD_PROBE_HANDLED;
}

/* Complete frames do not wait for the buffers of later ones. */
TEST(bounded)
{
    g_autofree gchar *expected = decode("error", 1);
    SCOPED GstHarness *h = element("vaedecode", "pass", 1);
    g_autoptr(GstBufferPool) pool = gst_video_buffer_pool_new();
    gst_pad_add_probe(h->sinkpad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, offer,
                      gst_object_ref(pool), gst_object_unref);
    listen();
    vae_test_set_latents(h, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    vae_test_push_eos(h);
    CHECK(gst_buffer_pool_is_active(pool));
    same(vae_test_pull_frames(h, 0, FRAMES), expected);
    CHECK_INT(begun, 0);
}

/* Changes to NULL while slices run. */
TEST(stop)
{
    for (guint turn = 0; turn < 5; turn++) {
        SCOPED GstHarness *h = decoder("pass", 1);
        vae_test_push_latents(h, LW, LH, 0, 4);
        g_usleep(turn * 30000);
    }
}
