/*
 * test_threads.c: tests the elements on a system that refuses to create
 * threads.
 */
#include "vae_play.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

typedef int (*Create)(pthread_t *, const pthread_attr_t *, void *(*) (void *),
                      void *);

static gint allowed = -1; /* atomic; threads still allowed; -1: any */

/* Replaces the function of the C library, for GLib as well. */
int
pthread_create(pthread_t *out, const pthread_attr_t *attributes,
               void *(*run)(void *), void *data)
{
    const Create real = (Create) dlsym(RTLD_NEXT, "pthread_create");
    if (g_atomic_int_get(&allowed) == 0)
        return EAGAIN;
    if (g_atomic_int_get(&allowed) > 0)
        g_atomic_int_add(&allowed, -1);
    return real(out, attributes, run, data);
}

/* Expects an error about a missing thread. */
static void
expect_no_thread(GstBus *bus)
{
    g_autoptr(GstMessage) message =
        gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    g_autoptr(GError) error = NULL;
    CHECK(message != NULL);
    gst_message_parse_error(message, &error, NULL);
    CHECK(
        g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_FAILED));
    CHECK(strstr(error->message, "thread") != NULL);
}

static GstElement *
make(const char *element, const char *name, const char *value)
{
    GstElement *made = gst_element_factory_make(element, NULL);
    CHECK(made != NULL);
    gst_util_set_object_arg(G_OBJECT(made), name, value);
    return made;
}

/* Starts vaedecode while `threads` threads can be created; the worker gets the
 * first one. */
static GstElement *
decoder(GstStateChangeReturn expected, gint threads)
{
    GstElement *element = make("vaedecode", "model", vae_test_weights());
    g_autoptr(GstBus) bus = gst_bus_new();
    gst_util_set_object_arg(G_OBJECT(element), "backend", "ref");
    gst_element_set_bus(element, bus);
    CHECK_INT(gst_element_set_state(element, GST_STATE_READY),
              GST_STATE_CHANGE_SUCCESS);
    g_atomic_int_set(&allowed, threads);
    CHECK_INT(gst_element_set_state(element, GST_STATE_PAUSED), expected);
    g_atomic_int_set(&allowed, -1);
    if (expected == GST_STATE_CHANGE_FAILURE)
        expect_no_thread(bus);
    gst_element_set_bus(element, NULL);
    return element;
}

static void
end(GstElement *element)
{
    CHECK_INT(gst_element_set_state(element, GST_STATE_NULL),
              GST_STATE_CHANGE_SUCCESS);
    gst_object_unref(element);
}

static void
read_without_threads(void)
{
    GstElement *pipeline = gst_pipeline_new(NULL);
    GstElement *source = make("filesrc", "location", vae_test_weights());
    GstElement *demux = gst_element_factory_make("latentdemux", NULL);
    GstBus *bus = gst_element_get_bus(pipeline);
    gst_bin_add_many(GST_BIN(pipeline), source, demux, NULL);
    CHECK(gst_element_link(source, demux));
    CHECK_INT(gst_element_set_state(pipeline, GST_STATE_READY),
              GST_STATE_CHANGE_SUCCESS);
    g_atomic_int_set(&allowed, 0);
    CHECK_INT(gst_element_set_state(pipeline, GST_STATE_PAUSED),
              GST_STATE_CHANGE_FAILURE);
    g_atomic_int_set(&allowed, -1);
    expect_no_thread(bus);
    gst_object_unref(bus);
    end(pipeline);
}

/* The task of a pad gets no thread: there is an error, and nothing waits for
 * the task. This test runs first, because later the thread pool would have idle
 * threads. */
TEST(tasks)
{
    /* creates GLib's own thread, because without it GLib ends the process */
    gst_object_unref(gst_task_new((GstTaskFunction) end, NULL, NULL));
    GstElement *element = decoder(GST_STATE_CHANGE_FAILURE, 1);
    read_without_threads();
    end(element);
    end(decoder(GST_STATE_CHANGE_SUCCESS, -1));
}

/* The element posts an error, the process continues, and a later attempt works.
 */
TEST(refused)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    GstElement *element = h->element;
    g_autoptr(GstBus) bus = gst_bus_new();
    gst_element_set_bus(element, bus);
    CHECK_INT(gst_element_set_state(element, GST_STATE_READY),
              GST_STATE_CHANGE_SUCCESS);
    CHECK_INT(gst_element_set_state(element, GST_STATE_NULL),
              GST_STATE_CHANGE_SUCCESS);
    g_atomic_int_set(&allowed, 0);
    CHECK_INT(gst_element_set_state(element, GST_STATE_PAUSED),
              GST_STATE_CHANGE_FAILURE);
    g_atomic_int_set(&allowed, -1);
    expect_no_thread(bus);
    gst_element_set_state(element, GST_STATE_NULL);
    CHECK(gst_element_set_state(element, GST_STATE_PLAYING) !=
          GST_STATE_CHANGE_FAILURE);
    gst_element_set_bus(element, NULL);
}

/* A task pool without threads, because the usual one would use an idle thread.
 * Like the usual one, it keeps a refused function for a later thread. */
typedef GstTaskPool NoPool;
typedef GstTaskPoolClass NoPoolClass;

static GstTaskPoolFunction kept_run;
static gpointer kept_data;
static GstTaskPool *no_pool; /* GStreamer keeps a refused pool */

GType no_pool_get_type(void);
G_DEFINE_TYPE(NoPool, no_pool, GST_TYPE_TASK_POOL)

static gpointer
no_pool_push(GstTaskPool *pool, GstTaskPoolFunction run, gpointer data,
             GError **error)
{
    kept_run = run;
    kept_data = data;
    g_set_error(error, GST_CORE_ERROR, GST_CORE_ERROR_FAILED, "no thread");
    return NULL;
}

static void
no_pool_class_init(NoPoolClass *klass)
{
    klass->push = no_pool_push;
}

static void
no_pool_init(NoPool *pool)
{
}

/* New tasks of the pipeline use no_pool. */
static GstBusSyncReply
set_pool(GstBus *bus, GstMessage *message, gpointer user)
{
    GstStreamStatusType type;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_STREAM_STATUS) {
        gst_message_parse_stream_status(message, &type, NULL);
        if (type == GST_STREAM_STATUS_TYPE_CREATE)
            gst_task_set_pool(
                g_value_get_object(
                    gst_message_get_stream_status_object(message)),
                no_pool);
    }
    return GST_BUS_PASS;
}

/* A seek while the task of latentdemux has ended and no thread is available for
 * another one. */
TEST(seek)
{
    const gchar *path = vae_play_write(3, 6, 4, "16/1");
    g_autofree gchar *text = g_strdup_printf(
        "filesrc location=%s ! latentdemux name=d ! fakesink name=s", path);
    GstElement *pipeline = gst_parse_launch(text, NULL);
    GstElement *demux = gst_bin_get_by_name(GST_BIN(pipeline), "d");
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "s");
    GstPad *pad = gst_element_get_static_pad(demux, "sink");
    GstBus *bus = gst_element_get_bus(pipeline);
    no_pool = g_object_new(no_pool_get_type(), NULL);
    GST_OBJECT_FLAG_SET(no_pool, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    gst_message_unref(
        gst_bus_timed_pop_filtered(bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_EOS));
    CHECK(gst_pad_stop_task(pad));
    gst_bus_set_sync_handler(bus, set_pool, NULL, NULL);
    CHECK(!gst_element_seek_simple(sink, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH,
                                   0));
    gst_bus_set_sync_handler(bus, NULL, NULL, NULL);
    expect_no_thread(bus);
    kept_run(kept_data);
    gst_object_unref(bus);
    gst_object_unref(no_pool);
    gst_object_unref(pad);
    gst_object_unref(sink);
    gst_object_unref(demux);
    end(pipeline);
}
