/*
 * test_latency.c: compares the answers of the elements to a LATENCY query with
 * the true latency, by which buffers leave later than their times.
 *
 * The test has its own clock. It advances from one arrival or end of a slice to
 * the next, and stands still otherwise. The test also sets the time that the
 * backend needs. Therefore the results do not depend on how fast or busy a
 * machine is.
 */
#include "fake.h"
#include "vae_test.h"

#define LW 6
#define LH 4
#define VIDEO "video/x-raw,format=I420,width=48,height=32,framerate=16/1"
#define UPSTREAM (5 * GST_MSECOND)

static GMutex lock;
static GCond cond;
/* The lock protects these variables. */
static GstClockTime now;
static GstClockTime run_time, step_time; /* time of a step of the backend; the
                                            first step takes a fourth */
static GstClockTime busy_until;          /* the end of the run, or NONE */
static guint begun, ended;               /* steps, by the backend */

/* Replaces this function of GStreamer for the plugin. */
GstClockTime
gst_util_get_timestamp(void)
{
    g_mutex_lock(&lock);
    GstClockTime t = now;
    g_mutex_unlock(&lock);
    return t;
}

void
fake_backend_at(FakePoint point, int op, int n_ops, int steps, bool first,
                const atomic_bool *cancel)
{
    g_mutex_lock(&lock);
    if (op == 0) {
        busy_until = now + run_time +
                     (first ? step_time / 4 : (guint) steps * step_time);
        begun += (guint) steps;
        g_cond_broadcast(&cond);
    } else if (op == n_ops - 1) {
        while (now < busy_until && !atomic_load(cancel))
            g_cond_wait_until(&cond, &lock,
                              g_get_monotonic_time() +
                                  10 * G_TIME_SPAN_MILLISECOND);
        busy_until = GST_CLOCK_TIME_NONE;
        ended = begun;
        g_cond_broadcast(&cond);
    }
    g_mutex_unlock(&lock);
}

/* One element and its results. */
typedef struct Bench {
    GstHarness *h;
    GstBus *bus;
    gboolean encodes;
    guint sent;               /* steps */
    guint left;               /* buffers that came out */
    guint units;              /* that went in */
    guint renewed;            /* LATENCY messages */
    gboolean deaf;            /* it does not answer them */
    GstClockTime told, worst; /* the largest lateness since it was cleared */
} Bench;

static void
set_cost(GstClockTime run, GstClockTime step)
{
    g_mutex_lock(&lock);
    run_time = run;
    step_time = step;
    g_mutex_unlock(&lock);
}

/* Queries the latency, as a pipeline does at the start and at each LATENCY
 * message. */
static void
ask(Bench *b)
{
    b->told = vae_test_latency(b->h);
}

static void
bench_open(Bench *b, const char *element, guint slice, guint depth)
{
    g_autofree gchar *caps = vae_test_latent_caps(LW, LH, NULL);
    g_mutex_lock(&lock);
    now = GST_SECOND;
    busy_until = GST_CLOCK_TIME_NONE;
    begun = ended = 0;
    g_mutex_unlock(&lock);
    *b = (Bench){.encodes = g_str_equal(element, "vaeencode")};
    b->h = vae_test_harness(element, "slice-size", slice, "queue-depth", depth,
                            NULL);
    b->bus = vae_test_bus(b->h);
    gst_harness_set_upstream_latency(b->h, UPSTREAM);
    gst_harness_set_src_caps_str(b->h, b->encodes ? VIDEO : caps);
    ask(b);
}

static void
bench_close(Bench *b)
{
    vae_test_teardown(b->h);
}

static void
wait_begun(guint steps)
{
    g_mutex_lock(&lock);
    while (begun < steps)
        g_cond_wait(&cond, &lock);
    g_mutex_unlock(&lock);
}

static void
answer_messages(Bench *b)
{
    GstMessage *message;
    while ((message = gst_bus_pop_filtered(b->bus, GST_MESSAGE_LATENCY))) {
        gst_message_unref(message);
        b->renewed++;
        if (!b->deaf)
            ask(b);
    }
}

/* Pulls the output of the finished steps, and measures its lateness. */
static void
take(Bench *b, guint steps)
{
    const guint n = b->encodes ? steps : 4 * steps - 3;
    for (; b->left < n; b->left++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(b->h);
        const GstClockTime at = now - GST_SECOND;
        CHECK(buffer != NULL);
        if (at > GST_BUFFER_PTS(buffer)) /* or ahead of its time */
            b->worst = MAX(b->worst, at - GST_BUFFER_PTS(buffer));
    }
    answer_messages(b);
}

/* Returns TRUE if the call that computes the `done` steps has ended. A call may
 * have several runs. */
static gboolean
call_ended(Bench *b, guint done)
{
    for (;;) {
        g_mutex_lock(&lock);
        guint at = begun;
        g_mutex_unlock(&lock);
        if (vae_test_stat(b->h, "steps") >= done)
            return TRUE;
        if (at > done)
            return FALSE;
        g_usleep(100);
    }
}

/* Moves time forward, and ends all runs in between. */
static void
advance(Bench *b, GstClockTime until)
{
    guint done;
    for (;;) {
        g_mutex_lock(&lock);
        if (!GST_CLOCK_TIME_IS_VALID(busy_until) || busy_until > until) {
            now = MAX(now, until);
            g_mutex_unlock(&lock);
            return;
        }
        now = busy_until;
        done = begun;
        g_cond_broadcast(&cond);
        while (ended < done)
            g_cond_wait(&cond, &lock);
        g_mutex_unlock(&lock);
        if (call_ended(b, done))
            take(b, done);
        if (b->sent > done)
            wait_begun(done + 1);
    }
}

/* Pushes the next latent or frame at its time, or at another. */
static void
arrive(Bench *b, GstClockTime when)
{
    const guint k = b->units++;
    GstVideoInfo info;
    advance(b, GST_SECOND + UPSTREAM + when);
    g_mutex_lock(&lock);
    gboolean idle = !GST_CLOCK_TIME_IS_VALID(busy_until);
    g_mutex_unlock(&lock);
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 8 * LW, 8 * LH);
    CHECK_INT(gst_harness_push(b->h, b->encodes ? vae_test_frame(&info, k)
                                                : vae_test_latent(LW, LH, k)),
              GST_FLOW_OK);
    if (b->encodes && k % 4 != 0)
        return;
    b->sent++;
    if (idle)
        wait_begun(b->sent);
}

/* Returns the time of unit k, from which the times of the output follow. */
static GstClockTime
due(const Bench *b, guint k)
{
    return vae_test_time(b->encodes || k == 0 ? k : 4 * k - 3);
}

static void
run_steps(Bench *b, guint n)
{
    for (const guint end = b->sent + n; b->sent < end;)
        arrive(b, due(b, b->units));
}

static void
check_told(Bench *b, const char *what)
{
    ask(b);
    GstClockTime wrong = MAX(b->told, b->worst) - MIN(b->told, b->worst);
    g_print("%s: told %" GST_TIME_FORMAT ", measured %" GST_TIME_FORMAT "\n",
            what, GST_TIME_ARGS(b->told), GST_TIME_ARGS(b->worst));
    CHECK(wrong <= b->worst / 10);
}

static void
check_element(const char *element, guint slice, guint depth)
{
    g_autofree gchar *what = g_strdup_printf("%s slice-size=%u queue-depth=%u",
                                             element, slice, depth);
    Bench b;
    set_cost(10 * GST_MSECOND, 150 * GST_MSECOND);
    bench_open(&b, element, slice, depth);
    run_steps(&b, 8);
    b.worst = 0;
    run_steps(&b, 18);
    check_told(&b, what);
    bench_close(&b);
    if (slice > 1 && depth > 1) {
        /* One step takes longer to compute than its duration, but two steps
         * together do not. Steps therefore wait for the previous call. */
        set_cost(300 * GST_MSECOND, 20 * GST_MSECOND);
        bench_open(&b, element, slice, depth);
        run_steps(&b, 20);
        b.worst = 0;
        run_steps(&b, 18);
        CHECK(vae_test_stat(b.h, "slices") < vae_test_stat(b.h, "steps"));
        check_told(&b, what);
        bench_close(&b);
    }
}

static void
check_sizes(const char *element)
{
    for (guint slice = 1; slice <= 4; slice *= 2)
        for (guint depth = 1; depth <= 4; depth++)
            check_element(element, slice, depth);
}

TEST(decode)
{
    check_sizes("vaedecode");
}

TEST(encode)
{
    check_sizes("vaeencode");
}

/* Three latents arrive at once, at the time of the first one. The second and
 * the third wait in the element. */
TEST(bursts)
{
    Bench b;
    set_cost(0, 100 * GST_MSECOND);
    bench_open(&b, "vaedecode", 1, 4);
    for (guint k = 0; k < 30; k++) {
        if (k == 12)
            b.worst = 0;
        arrive(&b, due(&b, k / 3 * 3));
    }
    check_told(&b, "bursts of three");
    bench_close(&b);
}

/* The element posts a new latency if it differs by more than a quarter, and a
 * shorter one after it has lasted. */
TEST(renewed)
{
    Bench b;
    set_cost(0, 100 * GST_MSECOND);
    bench_open(&b, "vaedecode", 1, 2);
    CHECK_INT(b.told, UPSTREAM);
    run_steps(&b, 18);
    CHECK_INT(b.renewed, 2); /* of the first step, and of the second */
    CHECK_INT(b.told, UPSTREAM + 100 * GST_MSECOND);
    set_cost(0, 120 * GST_MSECOND);
    run_steps(&b, 20);
    CHECK_INT(b.renewed, 2);
    set_cost(0, 130 * GST_MSECOND);
    run_steps(&b, 2);
    CHECK_INT(b.renewed, 3);
    CHECK_INT(b.told, UPSTREAM + 130 * GST_MSECOND);
    set_cost(0, 60 * GST_MSECOND);
    run_steps(&b, 15);
    CHECK_INT(b.renewed, 3);
    run_steps(&b, 3);
    CHECK_INT(b.renewed, 4);
    CHECK_INT(b.told, UPSTREAM + 60 * GST_MSECOND);
    bench_close(&b);
}

/* A program that answers no message gets as many as others. */
TEST(unanswered)
{
    Bench b;
    set_cost(0, 100 * GST_MSECOND);
    bench_open(&b, "vaedecode", 1, 2);
    b.deaf = TRUE;
    run_steps(&b, 18);
    CHECK_INT(b.renewed, 2);
    set_cost(0, 130 * GST_MSECOND);
    run_steps(&b, 2);
    CHECK_INT(b.renewed, 3);
    bench_close(&b);
}

/* Without a live source the element posts no latency. */
TEST(not_live)
{
    Bench b;
    set_cost(0, 100 * GST_MSECOND);
    bench_open(&b, "vaedecode", 1, 2);
    gst_harness_set_live(b.h, FALSE);
    ask(&b);
    run_steps(&b, 6);
    CHECK_INT(b.renewed, 0);
    bench_close(&b);
}
