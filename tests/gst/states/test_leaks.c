/*
 * test_leaks.c: a count of living objects must wait for the threads of
 * GStreamer, which free objects later than the functions that wait for them
 * return.
 */
#include "vae_test.h"

/* Number of threads in total, which takes longer than the test, and at the same
 * time. */
#define OBJECTS 400000
#define AT_ONCE 16

static void
come_and_go(GstElement *element, gpointer data)
{
    GstPad *pads[AT_ONCE] = {NULL};
    for (guint i = 0; i < OBJECTS; i++) {
        gst_clear_object(&pads[i % AT_ONCE]);
        pads[i % AT_ONCE] = gst_pad_new(NULL, GST_PAD_SRC);
    }
    for (guint i = 0; i < AT_ONCE; i++)
        gst_clear_object(&pads[i]);
}

/* The thread has the last reference to the element. */
TEST(late)
{
    g_autoptr(GstElement) element = gst_element_factory_make("identity", NULL);
    CHECK(element != NULL);
    gst_element_call_async(element, come_and_go, NULL, NULL);
}
