/*
 * test_cancel.c: a flush or a change to NULL stops the running computation.
 * The test uses the plain-C backend, whose slices take long. It compares
 * processor time, so that other programs do not matter.
 */
#include "vae_test.h"

#include <time.h>

/* A slice has several hundred ops. The longest op takes a small part of the
 * time. */
#define SIZE 14
#define SLICE 2

static gdouble
cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (gdouble) t.tv_sec + (gdouble) t.tv_nsec / 1e9;
}

static GstHarness *
slow_decoder(void)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", SLICE, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "ref");
    vae_test_set_latents(h, SIZE, SIZE, NULL);
    vae_test_push_latents(h, SIZE, SIZE, 0, 1);
    g_free(vae_test_pull_frames(h, 0, 1));
    return h;
}

/* Starts a slice. Returns after `seconds` of it are computed. */
static void
begin_slice(GstHarness *h, gdouble seconds)
{
    const gdouble began = cpu_time();
    vae_test_push_latents(h, SIZE, SIZE, 1, 1 + SLICE);
    while (cpu_time() - began < seconds)
        g_usleep(1000);
}

/* Returns the time of a whole slice. */
static gdouble
whole_slice(GstHarness *h)
{
    const gdouble began = cpu_time();
    vae_test_push_latents(h, SIZE, SIZE, 1, 1 + SLICE);
    g_free(vae_test_pull_frames(h, 1, 4 * SLICE));
    return cpu_time() - began;
}

static void
check_short(const char *what, gdouble left, gdouble slice)
{
    g_print("%s: %.3f s of processor time after it, %.3f s for a slice\n", what,
            left, slice);
    CHECK(left < slice / 2);
}

TEST(to_null)
{
    SCOPED GstHarness *h = slow_decoder();
    const gdouble slice = whole_slice(h);
    vae_test_teardown(h);
    h = slow_decoder();
    begin_slice(h, slice / 10);
    gdouble began = cpu_time();
    gst_element_set_state(h->element, GST_STATE_NULL);
    check_short("to NULL", cpu_time() - began, slice);
}

/* The time of a slice does not include that of a cancelled one. */
static void
check_last_slice(GstHarness *h)
{
    const guint64 parts = vae_test_stat(h, "last-upload-ns") +
                          vae_test_stat(h, "last-compute-ns") +
                          vae_test_stat(h, "last-download-ns");
    /* The clock of a slice counts microseconds. */
    CHECK(parts <= vae_test_stat(h, "last-slice-ns") + 1000);
}

/* After the flush, the first frame waits only for the rest of the op and for
 * its own slice. The bytes are those of a new stream. */
TEST(flush)
{
    SCOPED GstHarness *h = slow_decoder();
    const gdouble slice = whole_slice(h);
    vae_test_flush(h);
    gdouble began = cpu_time();
    vae_test_push_latents(h, SIZE, SIZE, 0, 1);
    gchar *expected = vae_test_pull_frames(h, 0, 1);
    gdouble one = cpu_time() - began;

    begin_slice(h, slice / 10);
    began = cpu_time();
    vae_test_flush(h);
    vae_test_push_latents(h, SIZE, SIZE, 0, 1);
    gchar *found = vae_test_pull_frames(h, 0, 1);
    check_short("a flush", cpu_time() - began - one, slice);
    check_last_slice(h);
    vae_test_same(found, expected);
}
