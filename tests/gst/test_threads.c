/*
 * test_threads.c: a system that gives no more threads.
 */
#include "vae_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

typedef int (*Create)(pthread_t *, const pthread_attr_t *, void *(*) (void *),
                      void *);

static gint refuse; /* atomic */

/* In place of the C library's, for GLib as well. */
int
pthread_create(pthread_t *out, const pthread_attr_t *attributes,
               void *(*run)(void *), void *data)
{
    const Create real = (Create) dlsym(RTLD_NEXT, "pthread_create");

    return g_atomic_int_get(&refuse) ? EAGAIN
                                     : real(out, attributes, run, data);
}

/* The element says so, the process lives on, and a later try works. */
static void
test_refused(void)
{
    GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstElement *element = h->element;
    GstBus *bus = gst_bus_new();
    GstMessage *message;
    GError *error = NULL;

    gst_element_set_bus(element, bus);
    CHECK_INT(gst_element_set_state(element, GST_STATE_READY),
              GST_STATE_CHANGE_SUCCESS);
    CHECK_INT(gst_element_set_state(element, GST_STATE_NULL),
              GST_STATE_CHANGE_SUCCESS);
    g_atomic_int_set(&refuse, 1);
    CHECK_INT(gst_element_set_state(element, GST_STATE_PAUSED),
              GST_STATE_CHANGE_FAILURE);
    g_atomic_int_set(&refuse, 0);
    message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    CHECK(message != NULL);
    gst_message_parse_error(message, &error, NULL);
    CHECK(
        g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_FAILED));
    CHECK(strstr(error->message, "thread") != NULL);
    g_error_free(error);
    gst_message_unref(message);
    gst_element_set_state(element, GST_STATE_NULL);
    CHECK(gst_element_set_state(element, GST_STATE_PLAYING) !=
          GST_STATE_CHANGE_FAILURE);
    gst_element_set_bus(element, NULL);
    gst_object_unref(bus);
    vae_test_teardown(h);
}

int
main(int argc, char **argv)
{
    static const VaeTest tests[] = {{"refused", test_refused}, {NULL, NULL}};

    return vae_test_main(argc, argv, tests);
}
