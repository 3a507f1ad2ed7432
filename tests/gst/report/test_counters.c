/*
 * test_counters.c: the property `stats`, and the interval of its message.
 */
#include "vae_test.h"

#include "vae-private/model.h"
#include "vae-private/stream.h"

#define LW 6
#define LH 4

/* Stores the times as the element does. */
#define RECENT 128

static const char *const kinds[] = {"upload", "compute", "download",
                                    "queue-wait", "slice"};

static guint64
stat_of(GstHarness *h, const char *which, const char *kind)
{
    g_autofree gchar *field = g_strdup_printf("%s-%s-ns", which, kind);
    const guint64 value = vae_test_stat(h, field);
    return value;
}

static gchar *
text_of(GstHarness *h, const char *field)
{
    GstStructure *stats = NULL;
    g_object_get(h->element, "stats", &stats, NULL);
    CHECK(gst_structure_has_field_typed(stats, field, G_TYPE_STRING));
    gchar *text = g_strdup(gst_structure_get_string(stats, field));
    gst_structure_free(stats);
    return text;
}

static GstHarness *
decoder(const char *backend)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", 1, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", backend);
    vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

/* Adds one slice: a latent that gives frames. */
static void
run_slice(GstHarness *h, guint k)
{
    vae_test_push_latents(h, LW, LH, k, k + 1);
    g_free(vae_test_pull_frames(h, k == 0 ? 0 : 4 * k - 3, k == 0 ? 1 : 4));
}

/* The parts of a slice take no longer than the slice, and each average fits its
 * total. */
static void
check_times(GstHarness *h, guint64 slices)
{
    guint64 parts = 0;
    CHECK_INT(vae_test_stat(h, "slices"), slices);
    for (guint i = 0; i < G_N_ELEMENTS(kinds); i++) {
        const guint64 total = stat_of(h, "total", kinds[i]);
        CHECK_INT(stat_of(h, "avg", kinds[i]), slices ? total / slices : 0);
        CHECK(stat_of(h, "last", kinds[i]) <= total);
        /* With few slices, the percentile is the largest time. */
        if (slices < 20)
            CHECK(stat_of(h, "p95", kinds[i]) * slices >= total);
        if (i < 3) {
            CHECK(slices == 0 || total > 0);
            parts += total;
        }
    }
    /* The clock of a slice counts microseconds. */
    CHECK(parts <= stat_of(h, "total", "slice") + 1000 * slices);
}

TEST(times)
{
    SCOPED GstHarness *h = decoder("auto");
    check_times(h, 0);
    for (guint k = 0; k < 4; k++)
        run_slice(h, k);
    check_times(h, 4);
    CHECK_INT(vae_test_stat(h, "frames"), 13);
}

static int
compare(const void *a, const void *b)
{
    const guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;
    return (x > y) - (x < y);
}

/* More slices than the statistics store. */
TEST(percentile)
{
    enum { N = RECENT + 14 };
    static guint64 seen[G_N_ELEMENTS(kinds)][N];
    SCOPED GstHarness *h = decoder("auto");
    for (guint k = 0; k < N; k++) {
        run_slice(h, k);
        for (guint i = 0; i < G_N_ELEMENTS(kinds); i++)
            seen[i][k] = stat_of(h, "last", kinds[i]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(kinds); i++) {
        guint64 sorted[RECENT];
        memcpy(sorted, &seen[i][N - RECENT], sizeof sorted);
        qsort(sorted, RECENT, sizeof *sorted, compare);
        /* The 95th percentile of 128 slices is number 121.6. */
        CHECK_INT(stat_of(h, "p95", kinds[i]), sorted[121]);
    }
    check_times(h, N);
}

static void
check_setting(GstHarness *h, const VaePlan *plan)
{
    g_autofree gchar *text = text_of(h, "memory-setting");
    gchar setting[100];
    vae_plan_setting(plan, setting, sizeof setting);
    CHECK(strcmp(text, setting) == 0);
    CHECK(strcmp(text, "slices of 1") == 0);
}

/* The worker opens a stream as soon as it has caps. */
TEST(no_stream)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autofree gchar *text = text_of(h, "memory-setting");
    CHECK_STR(text, "");
}

/* The memory and the names are those of the library's plan. */
TEST(plan)
{
    static const char *const fields[] = {"weights",     "carries", "spilled",
                                         "activations", "scratch", "staging",
                                         "library",     "total"};
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = VAE_DECODE,
                                    .backend = VAE_BACKEND_REF,
                                    .precision = VAE_PRECISION_FP32,
                                    .width = 8 * LW,
                                    .height = 8 * LH,
                                    .threads = 1,
                                    .slice_size = 1};
    VaeModel *model = NULL;
    VaePlan plan = VAE_INIT(VaePlan);
    VaeStream *stream = NULL;
    VaeError error;
    SCOPED GstHarness *h = decoder("ref");
    g_autofree gchar *text = NULL;
    run_slice(h, 0);
    CHECK(vae_model_open(vae_test_weights(), NULL, &model, &error) == VAE_OK);
    CHECK(vae_stream_new(model, &params, &stream, &error) == VAE_OK);
    plan = *vae_stream_get_plan(stream);
    for (guint i = 0; i < G_N_ELEMENTS(fields); i++) {
        const guint64 expected[] = {plan.weights, plan.carries, plan.spilled,
                                    plan.arena,   plan.scratch, plan.staging,
                                    plan.library, plan.total};
        text = g_strdup_printf("bytes-%s", fields[i]);
        CHECK_INT(vae_test_stat(h, text), expected[i]);
        g_free(text);
    }
    check_setting(h, &plan);
    CHECK_INT(vae_test_stat(h, "frames-at-once"), plan.frames_at_once);
    CHECK_INT(vae_test_stat(h, "strips"), plan.strips);
    text = text_of(h, "device");
    CHECK(strlen(text) > 2);
    CHECK(strcmp(text, vae_stream_get_plan(stream)->device) == 0);
    g_free(text);
    text = text_of(h, "backend");
    CHECK(strcmp(text, "ref") == 0);
    g_free(text);
    text = text_of(h, "model");
    CHECK(strcmp(text, vae_test_weights()) == 0);
    vae_stream_free(&stream);
    vae_model_free(&model);
}

static GstPadProbeReturn
hold_caps(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    return GST_EVENT_TYPE(info->data) == GST_EVENT_CAPS ? GST_PAD_PROBE_OK
                                                        : GST_PAD_PROBE_PASS;
}

/* A step waits while the memory for its frames is not known yet. */
TEST(queue_wait)
{
    const guint64 wait_us = 30000;
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    const gulong probe = gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
        hold_caps, NULL, NULL);
    vae_test_set_latents(h, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, 1);
    CHECK_INT(vae_test_stat(h, "in-flight"), 1);
    g_usleep(wait_us);
    gst_pad_remove_probe(pad, probe);
    g_free(vae_test_pull_frames(h, 0, 1));
    CHECK(stat_of(h, "last", "queue-wait") >= wait_us * 1000);
}

/* Returns the number of messages at an interval, for 5 slices and the end. */
static guint
count_messages(guint64 interval)
{
    SCOPED GstHarness *h =
        vae_test_harness("vaedecode", "post-stats", TRUE, "stats-interval",
                         interval, "slice-size", 1, NULL);
    GstBus *bus = vae_test_bus(h);
    GstMessage *message;
    guint n = 0;
    vae_test_set_latents(h, LW, LH, NULL);
    for (guint k = 0; k < 5; k++)
        run_slice(h, k);
    vae_test_push_eos(h);
    while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT))) {
        CHECK(gst_message_has_name(message, "vae-stats"));
        CHECK(gst_structure_has_field(gst_message_get_structure(message),
                                      "p95-slice-ns"));
        gst_message_unref(message);
        n++;
    }
    return n;
}

TEST(interval)
{
    CHECK_INT(count_messages(0), 6);
    CHECK_INT(count_messages(G_MAXINT64), 2);
}

/* gst-inspect-1.0 prints what a new element has. */
TEST(new_element)
{
    g_autoptr(GstElement) element =
        gst_object_ref_sink(gst_element_factory_make("vaedecode", NULL));
    g_autoptr(GstStructure) stats = NULL;
    g_object_get(element, "stats", &stats, NULL);
    CHECK_INT(gst_structure_n_fields(stats), 0);
}
