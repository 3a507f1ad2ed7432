/*
 * test_opening.c: a change to NULL ends the opening of a stream, and so does a
 * flush while no thread waits for the stream. The backend opens no stream until
 * it is cancelled.
 */
#include "fake.h"
#include "vae_test.h"

#define LW 6
#define LH 4
#define STEPS 3
#define FRAMES (1 + 4 * (STEPS - 1))

static gint waits; /* atomic */

bool
fake_backend_waits(void)
{
    return g_atomic_int_get(&waits);
}

/* Checks the type of the next PROGRESS message about the stream. */
static void
expect_progress(GstBus *bus, GstProgressType expected)
{
    for (;;) {
        GstMessage *message = gst_bus_timed_pop_filtered(
            bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_PROGRESS | GST_MESSAGE_ERROR);
        GstProgressType type;
        gchar *code;
        CHECK_INT(GST_MESSAGE_TYPE(message), GST_MESSAGE_PROGRESS);
        gst_message_parse_progress(message, &type, &code, NULL);
        gst_message_unref(message);
        gboolean found = strcmp(code, "open-stream") == 0;
        g_free(code);
        if (found) {
            CHECK_INT(type, expected);
            return;
        }
    }
}

static void
close_bus(GstHarness *h, GstBus *bus)
{
    CHECK(gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR) == NULL);
    vae_test_teardown(h);
}

static GstHarness *
decoder(GstBus **bus)
{
    GstHarness *h = vae_test_harness("vaedecode", NULL);
    *bus = vae_test_bus(h);
    vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

static gchar *
clip(GstHarness *h)
{
    vae_test_push_latents(h, LW, LH, 0, STEPS);
    return vae_test_pull_frames(h, 0, FRAMES);
}

TEST(to_null)
{
    GstBus *bus;
    g_atomic_int_set(&waits, TRUE);
    GstHarness *h = decoder(&bus);
    expect_progress(bus, GST_PROGRESS_TYPE_START);
    CHECK_INT(gst_element_set_state(h->element, GST_STATE_NULL),
              GST_STATE_CHANGE_SUCCESS);
    expect_progress(bus, GST_PROGRESS_TYPE_CANCELED);
    close_bus(h, bus);
}

static void
end_flush(GstHarness *h)
{
    CHECK(gst_harness_push_event(h, gst_event_new_flush_stop(TRUE)));
    vae_test_push_segment(h);
}

/* The stream for the caps is also used after the flush. */
TEST(flush)
{
    GstBus *bus;
    g_atomic_int_set(&waits, TRUE);
    GstHarness *h = decoder(&bus);
    expect_progress(bus, GST_PROGRESS_TYPE_START);
    CHECK(gst_harness_push_event(h, gst_event_new_flush_start()));
    end_flush(h);
    g_atomic_int_set(&waits, FALSE);
    expect_progress(bus, GST_PROGRESS_TYPE_COMPLETE);
    g_free(clip(h));
    close_bus(h, bus);
}

static gpointer
push_next(gpointer data)
{
    return GINT_TO_POINTER(
        gst_harness_push(data, vae_test_latent(LW, LH, STEPS)));
}

/* A restart opens a stream that has the program without context. The first
 * latent waits for it. */
static void
check_switch(gboolean flushes)
{
    GstBus *bus;
    gchar *found;
    g_atomic_int_set(&waits, FALSE);
    GstHarness *h = decoder(&bus);
    g_autofree gchar *expected = clip(h);
    expect_progress(bus, GST_PROGRESS_TYPE_START);
    expect_progress(bus, GST_PROGRESS_TYPE_COMPLETE);
    g_atomic_int_set(&waits, TRUE);
    g_signal_emit_by_name(h->element, "restart");
    GThread *thread = g_thread_new("pusher", push_next, h);
    expect_progress(bus, GST_PROGRESS_TYPE_START);
    if (flushes)
        gst_harness_push_event(h, gst_event_new_flush_start());
    else
        gst_element_set_state(h->element, GST_STATE_NULL);
    CHECK_INT(GPOINTER_TO_INT(g_thread_join(thread)), GST_FLOW_FLUSHING);
    expect_progress(bus, GST_PROGRESS_TYPE_CANCELED);
    g_atomic_int_set(&waits, FALSE);
    if (flushes) {
        end_flush(h);
        found = clip(h);
        CHECK(strcmp(found, expected) == 0);
        g_free(found);
    }
    close_bus(h, bus);
}

TEST(switch_flush)
{
    check_switch(TRUE);
}

TEST(switch_to_null)
{
    check_switch(FALSE);
}
