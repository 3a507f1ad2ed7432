/*
 * test_moments.c: flushes, changes to NULL and drains at every moment of a
 * slice. The backend stops at a chosen point.
 */
#include "fake.h"
#include "vae_memory.h"
#include "vae_test.h"

#define LW 6
#define LH 4
#define VIDEO "video/x-raw,format=I420,width=48,height=32,framerate=16/1"
#define DEPTH 2
#define STEPS 4 /* of a clip */

typedef enum Moment {
    IDLE,
    UPLOAD,
    COMPUTE,
    DOWNLOAD,
    ACQUIRE,       /* all buffers of the pool are in use */
    MAP,           /* memory for the results is being mapped */
    PUSH,          /* downstream blocks */
    BACK_PRESSURE, /* downstream blocks, and the queue and upstream are full */
    END,           /* downstream blocks, and EOS waits */
    MOMENTS
} Moment;

static const char *const moments[] = {
    "idle", "upload", "compute",       "download",     "acquire",
    "map",  "push",   "back-pressure", "end of stream"};

/* The point at which the worker stops until it is resumed or cancelled. */
static GMutex lock;
static GCond cond;
static gboolean armed, reached, open_again; /* under the lock */
static FakePoint stop_at;
static gint ops;       /* atomic: done so far */
static gint first_ops; /* of a first step */
static GArray *runs;   /* number of steps of each run as gint, if not NULL;
                          guarded by the lock */

static void
wait_here(const atomic_bool *cancel)
{
    g_mutex_lock(&lock);
    armed = FALSE;
    reached = TRUE;
    g_cond_broadcast(&cond);
    while (!open_again && !(cancel && atomic_load(cancel)))
        g_cond_wait_until(&cond, &lock, g_get_monotonic_time() + 1000);
    g_mutex_unlock(&lock);
}

void
fake_backend_at(FakePoint point, int op, int n_ops, int steps, bool first,
                const atomic_bool *cancel)
{
    g_mutex_lock(&lock);
    if (runs && op == 0)
        g_array_append_val(runs, steps);
    gboolean here =
        armed && point == stop_at && (point != FAKE_COMPUTE || op >= n_ops / 2);
    g_mutex_unlock(&lock);
    if (here)
        wait_here(cancel);
    if (!atomic_load(cancel))
        g_atomic_int_inc(&ops);
}

/* The worker stops at MAP. Nothing can cancel it there. */
static void
on_map(GstMapFlags flags)
{
    g_mutex_lock(&lock);
    gboolean here =
        armed && stop_at == (FakePoint) -1 && (flags & GST_MAP_WRITE);
    g_mutex_unlock(&lock);
    if (here)
        wait_here(NULL);
}

static void
arm(FakePoint point)
{
    g_mutex_lock(&lock);
    armed = TRUE;
    reached = open_again = FALSE;
    stop_at = point;
    g_mutex_unlock(&lock);
}

static void
wait_reached(void)
{
    g_mutex_lock(&lock);
    while (!reached)
        g_cond_wait(&cond, &lock);
    g_mutex_unlock(&lock);
}

static void
release_thread(void)
{
    g_mutex_lock(&lock);
    armed = FALSE;
    open_again = TRUE;
    g_cond_broadcast(&cond);
    g_mutex_unlock(&lock);
}

/* An element, its input, and what blocks it. */
typedef struct Bed {
    GstHarness *h;
    gboolean encodes;
    VaeTestAllocator *allocator;
    VaeTestOffer offer;
    gulong block; /* a probe of the source pad */
    GThread *thread;
    GstFlowReturn result; /* result of the pushing thread */
    gboolean drained;     /* result of a drain */
} Bed;

static GstFlowReturn
push_step(Bed *b, guint k)
{
    return vae_test_push_step(b->h, b->encodes, LW, LH, k);
}

static guint
buffers_of(const Bed *b, guint steps)
{
    return b->encodes ? steps : 4 * steps - 3;
}

/* Returns a checksum of the frames of the steps from 0 on. */
static gchar *
run_clip(Bed *b)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    for (guint k = 0; k < STEPS; k++)
        CHECK_INT(push_step(b, k), GST_FLOW_OK);
    for (guint i = 0; i < buffers_of(b, STEPS); i++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(b->h);
        CHECK(buffer != NULL);
        CHECK_INT(GST_BUFFER_OFFSET(buffer), i);
        vae_test_sum(sum, buffer);
    }
    vae_test_no_more(b->h);
    return g_strdup(g_checksum_get_string(sum));
}

static void
bed_open(Bed *b, const char *element)
{
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, NULL);
    g_autoptr(GstCaps) caps = gst_caps_from_string(VIDEO);
    *b = (Bed){.encodes = g_str_equal(element, "vaeencode"),
               .allocator = vae_test_allocator_new()};
    b->allocator->on_map = on_map;
    b->offer.allocator = GST_ALLOCATOR(b->allocator);
    if (!b->encodes) {
        b->offer.min = 2;
        b->offer.max = 2 + 4 * (DEPTH + 2);
        b->offer.pool = vae_test_pool_new(caps, b->offer.min, b->offer.max,
                                          b->offer.allocator, NULL);
    }
    b->h =
        vae_test_harness(element, "slice-size", 1, "queue-depth", DEPTH, NULL);
    vae_test_offer(b->h->sinkpad, &b->offer);
    gst_harness_set_src_caps_str(b->h, b->encodes ? VIDEO : text);
}

static void
bed_close(Bed *b)
{
    vae_test_teardown(b->h);
    gst_clear_object(&b->offer.pool);
    CHECK_INT(GST_OBJECT_REFCOUNT_VALUE(b->allocator), 1);
    gst_object_unref(b->allocator);
}

static GstPadProbeReturn
stay(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    return GST_PAD_PROBE_OK;
}

static void
shut(Bed *b)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(b->h->element, "src");
    b->block = gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER, stay, NULL,
        NULL);
}

static void
wait_shut(Bed *b)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(b->h->element, "src");
    while (!gst_pad_is_blocking(pad))
        g_usleep(1000);
}

static void
unshut(Bed *b)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(b->h->element, "src");
    if (b->block)
        gst_pad_remove_probe(pad, b->block);
    b->block = 0;
}

static gpointer
push_on(gpointer data)
{
    Bed *b = data;
    for (guint k = 1; b->result == GST_FLOW_OK; k++)
        b->result = push_step(b, k);
    return NULL;
}

/* Pushes from another thread, which must block. */
static void
push_until_blocked(Bed *b, guint in_flight)
{
    b->result = GST_FLOW_OK;
    b->thread = g_thread_new("pusher", push_on, b);
    while (vae_test_stat(b->h, "in-flight") < in_flight)
        g_usleep(1000);
}

/* The sink keeps its buffers, so the pool is empty. */
static void
hold_all(Bed *b)
{
    push_until_blocked(b, DEPTH);
    while (gst_harness_buffers_in_queue(b->h) < b->offer.max / 4 * 4)
        g_usleep(1000);
    g_usleep(20000); /* time to reach the wait for a buffer */
}

/* The first step is complete, and the second has reached its point. */
static void
go_to(Bed *b, Moment moment)
{
    const gint before = g_atomic_int_get(&ops);
    CHECK_INT(push_step(b, 0), GST_FLOW_OK);
    gst_buffer_unref(vae_test_pull(b->h));
    first_ops = g_atomic_int_get(&ops) - before;
    if (moment >= UPLOAD && moment <= DOWNLOAD)
        arm(moment == UPLOAD    ? FAKE_UPLOAD
            : moment == COMPUTE ? FAKE_COMPUTE
                                : FAKE_DOWNLOAD);
    if (moment == MAP)
        arm((FakePoint) -1);
    if (moment >= PUSH)
        shut(b);
    if (moment == ACQUIRE) {
        hold_all(b);
    } else if (moment == BACK_PRESSURE) {
        push_until_blocked(b, DEPTH);
    } else if (moment != IDLE) {
        CHECK_INT(push_step(b, 1), GST_FLOW_OK);
        CHECK_INT(push_step(b, 2), GST_FLOW_OK);
    }
    if (moment == END)
        CHECK(gst_harness_push_event(b->h, gst_event_new_eos()));
    if (moment >= PUSH)
        wait_shut(b);
    else if (moment != IDLE && moment != ACQUIRE)
        wait_reached();
}

/* Lets all blocked threads end. */
static void
join(Bed *b)
{
    if (!b->thread)
        return;
    g_thread_join(b->thread);
    b->thread = NULL;
    CHECK_INT(b->result, GST_FLOW_FLUSHING);
}

static void
drop_all(Bed *b)
{
    GstBuffer *buffer;
    GstEvent *event;
    while ((buffer = gst_harness_try_pull(b->h)))
        gst_buffer_unref(buffer);
    while ((event = gst_harness_try_pull_event(b->h))) {
        CHECK(GST_EVENT_TYPE(event) != GST_EVENT_EOS);
        gst_event_unref(event);
    }
}

/* Flushes. Returns the number of ops that had begun at the start of the flush.
 * Where nothing blocked the worker, it has continued until then. */
static gint
flush(Bed *b)
{
    CHECK(gst_harness_push_event(b->h, gst_event_new_flush_start()));
    gint before = g_atomic_int_get(&ops);
    join(b);
    release_thread();
    unshut(b);
    CHECK(gst_harness_push_event(b->h, gst_event_new_flush_stop(TRUE)));
    drop_all(b);
    vae_test_push_segment(b->h);
    return before;
}

/* Flushes, and checks which work was done. */
static void
flush_and_look(Bed *b)
{
    const gint before = flush(b);
    CHECK_INT(push_step(b, 0), GST_FLOW_OK);
    gst_buffer_unref(vae_test_pull(b->h));
    /* The first step of the new stream ran, and at most the current op of the
     * old one. */
    CHECK(g_atomic_int_get(&ops) - before <= first_ops + 1);
}

static void
check_flushes(const char *element)
{
    gchar *expected = NULL, *found;
    Bed b;
    bed_open(&b, element);
    for (guint round = 0; round < 3; round++)
        for (guint moment = IDLE; moment < MOMENTS; moment++) {
            if (moment == ACQUIRE && b.encodes)
                continue; /* latents have no pool */
            g_print("%s: a flush at: %s\n", element, moments[moment]);
            go_to(&b, moment);
            flush_and_look(&b);
            flush(&b);
            found = run_clip(&b);
            CHECK(!expected || strcmp(found, expected) == 0);
            g_free(expected);
            expected = found;
            flush(&b);
        }
    g_free(expected);
    bed_close(&b);
}

TEST(flush_decode)
{
    check_flushes("vaedecode");
}

TEST(flush_encode)
{
    check_flushes("vaeencode");
}

static gpointer
release_later(gpointer data)
{
    g_usleep(20000);
    release_thread();
    return NULL;
}

static void
check_states(const char *element)
{
    for (guint moment = IDLE; moment < MOMENTS; moment++) {
        GThread *later = NULL;
        Bed b;
        bed_open(&b, element);
        if (moment != ACQUIRE || !b.encodes) {
            g_print("%s: to NULL at: %s\n", element, moments[moment]);
            go_to(&b, moment);
            if (moment == MAP)
                later = g_thread_new("later", release_later, NULL);
            gst_element_set_state(b.h->element, GST_STATE_NULL);
            join(&b);
            if (later)
                g_thread_join(later);
            unshut(&b);
        }
        bed_close(&b);
    }
}

TEST(states)
{
    check_states("vaedecode");
    check_states("vaeencode");
}

static gpointer
drain(gpointer data)
{
    g_autoptr(GstQuery) query = gst_query_new_drain();
    Bed *b = data;
    b->drained = gst_pad_peer_query(b->h->srcpad, query);
    return NULL;
}

/* Waits until a serialized query has the stream lock. */
static void
wait_query(Bed *b)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(b->h->element, "sink");
    while (GST_PAD_STREAM_TRYLOCK(pad)) {
        GST_PAD_STREAM_UNLOCK(pad);
        g_usleep(1000);
    }
}

/* A drain waits for the current work. A flush ends the wait. */
TEST(drain)
{
    static const Moment where[] = {UPLOAD, COMPUTE, DOWNLOAD, PUSH};
    for (guint i = 0; i < 2 * G_N_ELEMENTS(where); i++) {
        const gboolean flushed = i % 2;
        Bed b;
        bed_open(&b, "vaedecode");
        go_to(&b, where[i / 2]);
        GThread *thread = g_thread_new("drain", drain, &b);
        wait_query(&b);
        if (flushed) {
            flush(&b);
        } else {
            release_thread();
            unshut(&b);
        }
        g_thread_join(thread);
        CHECK_INT(b.drained, !flushed);
        if (!flushed)
            CHECK_INT(gst_harness_buffers_in_queue(b.h), 8);
        bed_close(&b);
    }
}

/* On the change to READY the source pad is deactivated first. Input meanwhile
 * gets FLUSHING, because any other result would be an error of the pipeline. */
TEST(half_shut)
{
    for (guint i = 0; i < 2; i++) {
        g_autoptr(GstCaps) caps =
            gst_caps_from_string(VIDEO ",pixel-aspect-ratio=1/2");
        GstSegment segment;
        Bed b;
        bed_open(&b, "vaeencode");
        g_autoptr(GstPad) pad = gst_element_get_static_pad(b.h->element, "src");
        CHECK_INT(push_step(&b, 0), GST_FLOW_OK);
        gst_buffer_unref(vae_test_pull(b.h));
        CHECK(gst_pad_set_active(pad, FALSE));
        gst_segment_init(&segment, GST_FORMAT_TIME);
        gst_harness_push_event(b.h, i == 0 ? gst_event_new_segment(&segment)
                                           : gst_event_new_caps(caps));
        CHECK_INT(push_step(&b, 1), GST_FLOW_FLUSHING);
        bed_close(&b);
    }
}

/* The first frames after a seek leave with the step that gives them. The
 * waiting steps are in another slice. */
TEST(first_shown)
{
    static const gint expected[] = {1, 1, 1, 4}; /* the end runs in ones */
    SCOPED GstHarness *h = vae_test_harness("vaedecode", "slice-size", 4, NULL);
    vae_test_set_latents(h, LW, LH, NULL);
    runs = g_array_new(FALSE, FALSE, sizeof(gint));
    arm(FAKE_COMPUTE);
    for (guint k = 0; k < 7; k++) {
        GstBuffer *latent = vae_test_latent(LW, LH, k);
        if (k < 2)
            GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DECODE_ONLY);
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
        if (k == 0)
            wait_reached();
    }
    release_thread();
    vae_test_push_eos(h);
    CHECK_INT(gst_harness_buffers_in_queue(h), 5 * 4);
    CHECK_INT(runs->len, G_N_ELEMENTS(expected));
    for (guint i = 0; i < runs->len; i++)
        CHECK_INT(g_array_index(runs, gint, i), expected[i]);
    g_clear_pointer(&runs, g_array_unref);
}
