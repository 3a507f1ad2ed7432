/*
 * test_checkpoint.c: vaedecode writes checkpoints, and another vaedecode
 * continues from them with the same frames.
 */
#include "vae_test.h"

#define LW 3
#define LH 2
/* More than the 38 latents that the network looks back. */
#define LATENTS 46
#define AT 42
#define FRAMES_AT (1 + 4 * (AT - 1))
#define FRAMES (1 + 4 * (LATENTS - 1))

static const gchar *file;

static GstHarness *
decoder(const gchar *precision)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", 4, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "precision", precision);
    vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

/* Returns the frames after latent AT of an uninterrupted run. */
static gchar *
undisturbed(void)
{
    GstHarness *h = decoder("fp32");
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
    g_free(vae_test_pull_frames(h, 0, FRAMES_AT));
    gchar *sum = vae_test_pull_frames(h, FRAMES_AT, FRAMES - FRAMES_AT);
    vae_test_end(h);
    return sum;
}

/* Waits for the message. Returns its number of frames, or -1 if no checkpoint
 * was saved. */
static gint64
wait_saved(GstBus *bus)
{
    GstMessage *message;
    const GstStructure *s = NULL;
    gboolean saved = FALSE;
    guint64 frames = 0;
    do {
        message = gst_bus_timed_pop_filtered(bus, GST_CLOCK_TIME_NONE,
                                             GST_MESSAGE_ELEMENT);
        s = gst_message_get_structure(message);
        if (gst_structure_has_name(s, "vae-checkpoint"))
            break;
        gst_message_unref(message);
    } while (TRUE);
    CHECK(gst_structure_get_boolean(s, "saved", &saved));
    CHECK(gst_structure_get_uint64(s, "frames", &frames));
    CHECK(gst_structure_has_field_typed(s, "location", G_TYPE_STRING));
    gst_message_unref(message);
    return saved ? (gint64) frames : -1;
}

/* A decoder that writes a checkpoint at AT, and ends some latents later. */
static void
interrupted(gboolean carries, gboolean by_signal)
{
    GstHarness *h = decoder("fp32");
    GstBus *bus = vae_test_bus(h);
    g_object_set(h->element, "checkpoint-location", by_signal ? NULL : file,
                 "checkpoint-interval", AT / 2, "checkpoint-carries", carries,
                 NULL);
    vae_test_push_latents(h, LW, LH, 0, AT);
    if (by_signal)
        g_signal_emit_by_name(h->element, "save-checkpoint", file);
    else
        CHECK_INT(wait_saved(bus), 1 + 4 * (AT / 2 - 1));
    if (by_signal)
        g_free(vae_test_pull_frames(h, 0, FRAMES_AT));
    CHECK_INT(wait_saved(bus), FRAMES_AT);
    vae_test_push_latents(h, LW, LH, AT, AT + 2);
    vae_test_teardown(h);
    CHECK(g_file_test(file, G_FILE_TEST_IS_REGULAR));
}

/* Checks that the latents from `from` on give the frames after AT. */
static void
goes_on(guint from, const gchar *want)
{
    GstHarness *h = decoder("fp32");
    g_signal_emit_by_name(h->element, "load-checkpoint", file);
    vae_test_push_latents(h, LW, LH, from, LATENTS);
    GstBuffer *first = vae_test_pull(h);
    CHECK(GST_BUFFER_FLAG_IS_SET(first, GST_BUFFER_FLAG_DISCONT));
    CHECK_INT(GST_BUFFER_OFFSET(first), FRAMES_AT);
    CHECK_INT(GST_BUFFER_PTS(first), vae_test_time(FRAMES_AT));
    gst_buffer_unref(first);
    g_free(vae_test_pull_frames(h, FRAMES_AT + 1, FRAMES - FRAMES_AT - 1));
    vae_test_end(h);

    h = decoder("fp32");
    g_signal_emit_by_name(h->element, "load-checkpoint", file);
    vae_test_push_latents(h, LW, LH, from, LATENTS);
    g_autofree gchar *sum =
        vae_test_pull_frames(h, FRAMES_AT, FRAMES - FRAMES_AT);
    CHECK(g_strcmp0(sum, want) == 0);
    vae_test_end(h);
}

TEST(without_carries)
{
    g_autofree gchar *want = undisturbed();
    interrupted(FALSE, FALSE);
    goes_on(0, want);
    goes_on(AT - 38, want);
}

TEST(with_carries)
{
    g_autofree gchar *want = undisturbed();
    interrupted(TRUE, TRUE);
    goes_on(AT, want);
    goes_on(0, want);
}

/* A clip of three sequences, of 3, 4 and 2 latents. */
#define CLIP_LATENTS 9
#define CLIP_FRAMES 27

/* Returns the number of frames of the clip before a latent. */
static guint
clip_frame(guint k)
{
    static const guint frames[CLIP_LATENTS + 1] = {0,  1,  5,  9,  10,
                                                   14, 18, 22, 23, CLIP_FRAMES};
    return frames[k];
}

static void
push_clip(GstHarness *h, guint from, guint to, gboolean numbered)
{
    for (guint k = from; k < to; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        GST_BUFFER_PTS(latent) = vae_test_time(clip_frame(k));
        GST_BUFFER_DURATION(latent) =
            vae_test_time(clip_frame(k + 1)) - GST_BUFFER_PTS(latent);
        if (k == 3 || k == 7)
            GST_BUFFER_FLAG_UNSET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
        if (!numbered)
            GST_BUFFER_OFFSET(latent) = GST_BUFFER_OFFSET_NONE;
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
}

/* Writes a checkpoint after latent `at`, and continues with latent `from`. */
static void
clip_goes_on(guint at, guint from, gboolean carries, gboolean numbered)
{
    const guint n = clip_frame(at);
    GstHarness *h = decoder("fp32");
    GstBus *bus = vae_test_bus(h);
    g_object_set(h->element, "checkpoint-carries", carries, NULL);
    push_clip(h, 0, at, numbered);
    g_signal_emit_by_name(h->element, "save-checkpoint", file);
    g_free(vae_test_pull_frames(h, 0, n));
    CHECK_INT(wait_saved(bus), n);
    push_clip(h, at, CLIP_LATENTS, numbered);
    g_autofree gchar *want = vae_test_pull_frames(h, n, CLIP_FRAMES - n);
    vae_test_end(h);

    h = decoder("fp32");
    g_signal_emit_by_name(h->element, "load-checkpoint", file);
    push_clip(h, from, CLIP_LATENTS, numbered);
    g_autofree gchar *got = vae_test_pull_frames(h, n, CLIP_FRAMES - n);
    CHECK(g_strcmp0(got, want) == 0);
    vae_test_end(h);
}

TEST(sequences)
{
    clip_goes_on(2, 0, FALSE, TRUE); /* in the first sequence */
    clip_goes_on(5, 0, FALSE, TRUE);
    clip_goes_on(5, 3, FALSE, TRUE);
    clip_goes_on(5, 0, FALSE, FALSE);
    clip_goes_on(5, 0, TRUE, TRUE);
    clip_goes_on(5, 5, TRUE, TRUE);
    clip_goes_on(5, 5, TRUE, FALSE);
    clip_goes_on(7, 0, FALSE, TRUE); /* at the end of the second sequence */
    clip_goes_on(7, 7, TRUE, TRUE);
    clip_goes_on(8, 2, TRUE, TRUE);
}

static void
refused(const gchar *path, guint from, GQuark domain, gint code,
        const gchar *word, const gchar *other)
{
    SCOPED GstHarness *h = decoder("fp32");
    g_signal_emit_by_name(h->element, "load-checkpoint", path);
    CHECK_INT(gst_harness_push(h, vae_test_latent(LW, LH, from)),
              GST_FLOW_ERROR);
    vae_test_expect_error(h, domain, code, word, other);
}

TEST(refused)
{
    interrupted(FALSE, FALSE);
    refused(file, AT - 37, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
            "begin with number 5", "from 4 on");
}

/* Saves a checkpoint at a place that cannot be written. */
static void
unwritable(GstHarness *h, GstBus *bus, const gchar *path, GQuark domain,
           gint code, const gchar *word)
{
    g_autoptr(GError) warning = NULL;
    g_signal_emit_by_name(h->element, "save-checkpoint", path);
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_WARNING);
    gst_message_parse_warning(message, &warning, NULL);
    CHECK(g_error_matches(warning, domain, code));
    CHECK(strstr(warning->message, word) != NULL);
}

/* A checkpoint that cannot be written gives a WARNING. */
TEST(unwritable)
{
    GstHarness *h = decoder("fp32");
    GstBus *bus = vae_test_bus(h);
    /* A checkpoint before the first latent. */
    g_signal_emit_by_name(h->element, "save-checkpoint", file);
    CHECK_INT(wait_saved(bus), -1);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
    gst_bus_set_flushing(bus, TRUE);
    gst_bus_set_flushing(bus, FALSE);
    unwritable(h, bus, "/dev/full", GST_RESOURCE_ERROR,
               GST_RESOURCE_ERROR_WRITE, "/dev/full");
    for (guint i = 0; i < 2; i++)
        unwritable(h, bus, i ? "" : NULL, GST_LIBRARY_ERROR,
                   GST_LIBRARY_ERROR_SETTINGS, "the path is empty");
    vae_test_push_latents(h, LW, LH, 2, 4);
    g_free(vae_test_pull_frames(h, 5, 8));
    vae_test_end(h);
}

static GstBusSyncReply
count_warning(GstBus *bus, GstMessage *message, gpointer count)
{
    (void) bus;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING)
        g_atomic_int_inc((gint *) count);
    return GST_BUS_PASS;
}

/* If all checkpoints of an interval fail, only the first one gives a WARNING.
 * Each failed save-checkpoint gives one. */
TEST(unwritable_interval)
{
    SCOPED GstHarness *h = decoder("fp32");
    GstBus *bus = vae_test_bus(h);
    gint warnings = 0;
    gst_bus_set_sync_handler(bus, count_warning, &warnings, NULL);
    g_object_set(h->element, "checkpoint-location", "/dev/full",
                 "checkpoint-interval", 1, NULL);
    for (guint k = 0; k < 3; k++) {
        vae_test_push_latents(h, LW, LH, k, k + 1);
        CHECK_INT(wait_saved(bus), -1);
    }
    CHECK_INT(g_atomic_int_get(&warnings), 1);
    g_object_set(h->element, "checkpoint-interval", 0, NULL);
    g_signal_emit_by_name(h->element, "save-checkpoint", "/dev/full");
    CHECK_INT(wait_saved(bus), -1);
    CHECK_INT(g_atomic_int_get(&warnings), 2);
}

/* An empty file, and a checkpoint of another picture size. */
TEST(foreign)
{
    CHECK(g_file_set_contents(file, "", 0, NULL));
    refused(file, 0, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ, file,
            "empty");
    CHECK(remove(file) == 0);
    refused(file, 0, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, file,
            "cannot open");
    for (guint i = 0; i < 2; i++)
        refused(i ? "" : NULL, 0, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
                "the path is empty", "expected the path of a file");
}

int
main(int argc, char **argv)
{
    file = vae_test_path("a.safetensors");
    return vae_test_main(argc, argv);
}
