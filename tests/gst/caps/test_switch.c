/*
 * test_switch.c: changes to another model of the same latent space while a
 * stream runs.
 */
#include "vae_test.h"

#include <sys/resource.h>

#define LW 6
#define LH 4

/* Returns weights of the space wan2.1, as all tests use, or of another
 * space. */
static const gchar *
weights(const char *folder)
{
    const gchar *path = vae_test_network(folder);
    if (!g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_printerr("no %s\n", path);
        exit(77);
    }
    return path;
}

static GstHarness *
decoder(const char *model)
{
    return vae_test_decoder(model, LW, LH, NULL);
}

/* Pushes latent k with the time after n frames, so that the frames of several
 * sequences follow each other. */
static void
push_at(GstHarness *h, guint k, guint n, gboolean start)
{
    GstBuffer *latent = vae_test_latent(LW, LH, k);
    GST_BUFFER_PTS(latent) = vae_test_time(n);
    GST_BUFFER_DURATION(latent) = GST_CLOCK_TIME_NONE;
    if (start) {
        GST_BUFFER_FLAG_UNSET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
        GST_BUFFER_OFFSET(latent) = 0;
    }
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
}

/* Returns the MD5 of the frames of latents k0 .. k1 - 1 in another decoder. */
static gchar *
alone(const char *model, guint k0, guint k1, gboolean as_start)
{
    SCOPED GstHarness *h = decoder(model);
    guint frames = 1 + 4 * (k1 - k0 - 1), first = as_start ? 0 : 4 * k0;
    for (guint k = k0; k < k1; k++) {
        const guint n = k == k0 ? 0 : 1 + 4 * (k - k0 - 1);
        if (as_start)
            push_at(h, k, n, k == k0);
        else
            CHECK_INT(gst_harness_push(h, vae_test_latent(LW, LH, k)),
                      GST_FLOW_OK);
    }
    return vae_test_pull_frames(h, first, frames);
}

/* Checks the message of a switch. */
static void
expect_switch(GstBus *bus, const char *model, gboolean without_context,
              guint frame)
{
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_ELEMENT);
    const GstStructure *s = gst_message_get_structure(message);
    gboolean is_without_context = !without_context;
    guint64 timestamp = 0;
    CHECK(gst_structure_has_name(s, "vae-switch"));
    CHECK(strcmp(gst_structure_get_string(s, "model"), model) == 0);
    CHECK(gst_structure_get_boolean(s, "without-context", &is_without_context));
    CHECK_INT(is_without_context, without_context);
    CHECK(gst_structure_get_uint64(s, "timestamp", &timestamp));
    CHECK_INT(timestamp, vae_test_time(frame));
}

static void
expect_quiet(GstBus *bus)
{
    GstMessage *message = gst_bus_pop_filtered(
        bus, GST_MESSAGE_ELEMENT | GST_MESSAGE_WARNING | GST_MESSAGE_ERROR);
    CHECK(message == NULL);
}

/* Returns TRUE if the process has the file open, as the model in use does. */
static gboolean
is_open(const char *path)
{
    GDir *fds = g_dir_open("/proc/self/fd", 0, NULL);
    gchar *real = realpath(path, NULL);
    const gchar *name;
    gboolean found = FALSE;
    CHECK(fds != NULL);
    while (!found && (name = g_dir_read_name(fds))) {
        g_autofree gchar *link = g_build_filename("/proc/self/fd", name, NULL);
        g_autofree gchar *target = g_file_read_link(link, NULL);
        found = g_strcmp0(target, real ? real : path) == 0;
    }
    free(real);
    g_dir_close(fds);
    return found;
}

/* The sequence ends with the model that it began with. The next sequence has
 * the other model, and the file of the first one is closed. */
TEST(next_sequence)
{
    const char *wan = vae_test_weights();
    const gchar *tae = weights("taehv/taew2_1");
    SCOPED GstHarness *h = decoder(wan);
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_object_set(h->element, "model", tae, NULL);
    vae_test_push_latents(h, LW, LH, 2, 5);
    vae_test_same(vae_test_pull_frames(h, 0, 17), alone(wan, 0, 5, TRUE));
    expect_quiet(bus);
    CHECK(is_open(wan));
    push_at(h, 0, 17, TRUE);
    push_at(h, 1, 18, FALSE);
    vae_test_same(vae_test_pull_frames(h, 17, 5), alone(tae, 0, 2, TRUE));
    expect_switch(bus, tae, FALSE, 17);
    CHECK(is_open(tae));
    CHECK(!is_open(wan));
    CHECK_INT(vae_test_stat(h, "frames"), 22);
    expect_quiet(bus);
}

TEST(flush_and_discont)
{
    const char *wan = vae_test_weights();
    const gchar *tae = weights("taehv/taew2_1");
    SCOPED GstHarness *h = decoder(wan);
    GstBuffer *latent = vae_test_latent(LW, LH, 0);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
    g_object_set(h->element, "model", tae, NULL);
    vae_test_flush(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    vae_test_same(vae_test_pull_frames(h, 0, 5), alone(tae, 0, 2, TRUE));
    g_object_set(h->element, "model", wan, NULL);
    GST_BUFFER_PTS(latent) = vae_test_time(5);
    GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DISCONT);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    vae_test_same(vae_test_pull_frames(h, 5, 1), alone(wan, 0, 1, TRUE));
}

/* The new model starts at once, with four frames for each latent and no gap in
 * time. Only the last of the first four frames is known, because TAE also gives
 * it at the start of a clip. */
TEST(restart)
{
    const char *wan = vae_test_weights();
    const gchar *tae = weights("taehv/taew2_1");
    SCOPED GstHarness *h = decoder(wan);
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_object_set(h->element, "model", tae, NULL);
    g_signal_emit_by_name(h->element, "restart");
    vae_test_push_latents(h, LW, LH, 3, 6);
    vae_test_same(vae_test_pull_frames(h, 0, 9), alone(wan, 0, 3, TRUE));
    expect_switch(bus, tae, TRUE, 9);
    g_free(vae_test_pull_frames(h, 9, 3));
    vae_test_same(vae_test_pull_frames(h, 12, 9), alone(tae, 3, 6, FALSE));
    CHECK(vae_test_event(h, GST_EVENT_GAP) == NULL);
    CHECK(!is_open(wan));
    expect_quiet(bus);
}

/* Returns the frames of latents 3 and 4, after others and a restart. */
static gchar *
after_restart(guint others, gboolean again)
{
    SCOPED GstHarness *h = decoder(vae_test_weights());
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 1);
    for (guint k = 1; k < 3; k++)
        push_at(h, k + others, 4 * k - 3, FALSE);
    g_free(vae_test_pull_frames(h, 0, 9));
    if (again) {
        g_signal_emit_by_name(h->element, "restart");
        push_at(h, 7, 9, FALSE);
        g_free(vae_test_pull_frames(h, 9, 4));
        expect_switch(bus, vae_test_weights(), TRUE, 9);
    }
    g_signal_emit_by_name(h->element, "restart");
    push_at(h, 3, again ? 13 : 9, FALSE);
    push_at(h, 4, again ? 17 : 13, FALSE);
    gchar *sum = vae_test_pull_frames(h, again ? 13 : 9, 8);
    expect_switch(bus, vae_test_weights(), TRUE, again ? 13 : 9);
    expect_quiet(bus);
    return sum;
}

/* A restart with the same model. The frames do not depend on the latents before
 * it. */
TEST(restart_same_model)
{
    SCOPED GstHarness *h = decoder(vae_test_weights());
    gchar *expected = after_restart(0, FALSE), *on;
    vae_test_push_latents(h, LW, LH, 0, 5);
    g_free(vae_test_pull_frames(h, 0, 9));
    on = vae_test_pull_frames(h, 9, 8);
    CHECK(strcmp(on, expected) != 0);
    vae_test_same(after_restart(4, FALSE), g_strdup(expected));
    vae_test_same(after_restart(4, TRUE), expected);
    g_free(on);
}

/* A sequence that begins anyway has no missing context. */
TEST(restart_at_start)
{
    const gchar *tae = weights("taehv/taew2_1");
    SCOPED GstHarness *h = decoder(vae_test_weights());
    GstBus *bus = vae_test_bus(h);
    g_signal_emit_by_name(h->element, "restart");
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
    expect_quiet(bus);
    g_object_set(h->element, "model", tae, NULL);
    g_signal_emit_by_name(h->element, "restart");
    push_at(h, 0, 5, TRUE);
    g_free(vae_test_pull_frames(h, 5, 1));
    expect_switch(bus, tae, FALSE, 5);
    push_at(h, 1, 6, FALSE);
    g_free(vae_test_pull_frames(h, 6, 4));
    expect_quiet(bus);
}

static void
check_details(GstMessage *message, const char *path, gboolean of_other_space)
{
    const GstStructure *details = NULL;
    const gchar *field;
    gst_message_parse_warning_details(message, &details);
    CHECK(details != NULL);
    CHECK_STR(gst_structure_get_string(details, "model"), path);
    field = gst_structure_get_string(details, "field");
    CHECK((field != NULL) == of_other_space);
    if (of_other_space) {
        CHECK_STR(field, "latent-space");
        CHECK_STR(gst_structure_get_string(details, "found"), "seedvr2");
        CHECK_STR(gst_structure_get_string(details, "expected"), "wan2.1");
    }
}

/* Checks for one WARNING with both files and a word. */
static void
expect_warning(GstHarness *h, GstBus *bus, const char *path, GQuark domain,
               gint code, const char *word)
{
    const char *wan = vae_test_weights();
    GstMessage *message = gst_bus_pop_filtered(
        bus, GST_MESSAGE_ELEMENT | GST_MESSAGE_WARNING | GST_MESSAGE_ERROR);
    GError *error = NULL;
    gchar *model;
    CHECK(message != NULL);
    CHECK(GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING);
    gst_message_parse_warning(message, &error, NULL);
    if (error->domain != domain || error->code != code ||
        !strstr(error->message, word) || !strstr(error->message, path) ||
        !strstr(error->message, wan))
        g_printerr("%s\n", error->message);
    CHECK(g_error_matches(error, domain, code));
    CHECK(strstr(error->message, word) && strstr(error->message, path) &&
          strstr(error->message, wan));
    g_error_free(error);
    check_details(message, path, code == GST_STREAM_ERROR_FORMAT);
    gst_message_unref(message);
    g_object_get(h->element, "model", &model, NULL);
    CHECK(strcmp(model, wan) == 0);
    g_free(model);
    CHECK(!is_open(path));
    expect_quiet(bus);
}

/* The stream continues with the old model. */
static void
check_refused(const char *path, gboolean restart, GQuark domain, gint code,
              const char *word)
{
    const char *wan = vae_test_weights();
    SCOPED GstHarness *h = decoder(wan);
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_object_set(h->element, "model", path, NULL);
    if (restart) {
        g_signal_emit_by_name(h->element, "restart");
        vae_test_push_latents(h, LW, LH, 3, 5);
        vae_test_same(vae_test_pull_frames(h, 0, 17), alone(wan, 0, 5, TRUE));
    } else {
        g_free(vae_test_pull_frames(h, 0, 9));
        push_at(h, 0, 9, TRUE);
        push_at(h, 1, 10, FALSE);
        vae_test_same(vae_test_pull_frames(h, 9, 5), alone(wan, 0, 2, TRUE));
    }
    expect_warning(h, bus, path, domain, code, word);
}

TEST(refused)
{
    const gchar *other = weights("seedvr2");
    const gchar *broken = vae_test_path("broken");
    CHECK(g_file_set_contents(broken, "not a model at all", -1, NULL));
    for (gint restart = 0; restart < 2; restart++) {
        check_refused(other, restart, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                      "wan2.1");
        check_refused("/nowhere/weights.safetensors", restart,
                      GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
                      "No such file");
        check_refused(broken, restart, GST_RESOURCE_ERROR,
                      GST_RESOURCE_ERROR_OPEN_READ, "is a text file");
    }
}

/* Limits the address space of the process to less than any plan needs, but
 * enough to run. 0: removes the limit. */
static void
limit_memory(guint64 more)
{
    static struct rlimit before;
    g_autofree gchar *text = NULL;
    if (more == 0) {
        CHECK(setrlimit(RLIMIT_AS, &before) == 0);
        return;
    }
    CHECK(g_file_get_contents("/proc/self/statm", &text, NULL, NULL));
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    struct rlimit limit = before;
    limit.rlim_cur = g_ascii_strtoull(text, NULL, 10) * getpagesize() + more;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* Both models must fit. */
TEST(no_memory)
{
    const gchar *tae = weights("taehv/taew2_1");
    SCOPED GstHarness *h = decoder(vae_test_weights());
    GstBus *bus = vae_test_bus(h);
    gchar *expected = alone(vae_test_weights(), 0, 5, TRUE), *found;
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_free(vae_test_pull_frames(h, 0, 9));
    push_at(h, 0, 9, TRUE);
    limit_memory(128 << 20);
    g_object_set(h->element, "model", tae, NULL);
    g_signal_emit_by_name(h->element, "restart");
    for (guint k = 1; k < 5; k++)
        push_at(h, k, 4 * k + 6, FALSE);
    found = vae_test_pull_frames(h, 9, 17);
    limit_memory(0);
    vae_test_same(found, expected);
    expect_warning(h, bus, tae, GST_RESOURCE_ERROR,
                   GST_RESOURCE_ERROR_NO_SPACE_LEFT, "this process's limits");
}

/* The new segment does not begin at 0. */
static void
new_caps(GstHarness *h, const char *more)
{
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, more);
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    CHECK(gst_harness_push_event(h, gst_event_new_caps(caps)));
}

/* At new caps the element takes the model that was set. If it cannot be opened,
 * the old one stays. */
TEST(caps_change)
{
    const char *wan = vae_test_weights();
    const gchar *tae = weights("taehv/taew2_1");
    gchar *model;
    SCOPED GstHarness *h = decoder(wan);
    GstBus *bus = vae_test_bus(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
    g_object_set(h->element, "model", tae, NULL);
    new_caps(h, ",latent-space=wan2.1");
    push_at(h, 0, 5, TRUE);
    vae_test_same(vae_test_pull_frames(h, 5, 1), alone(tae, 0, 1, TRUE));
    expect_quiet(bus);
    g_object_set(h->element, "model", "/nowhere/at/all", NULL);
    new_caps(h, NULL);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING);
    CHECK(message != NULL);
    gst_message_unref(message);
    push_at(h, 0, 6, TRUE);
    vae_test_same(vae_test_pull_frames(h, 6, 1), alone(tae, 0, 1, TRUE));
    g_object_get(h->element, "model", &model, NULL);
    vae_test_same(model, g_strdup(tae));
    expect_quiet(bus);
}

/* ------------------------------------------------------------------ */

/* An encoder of wan2.1 changes after 5 frames to a TAE, which takes over from
 * frame 7 on, because its groups begin at other frames. */
TEST(encode)
{
    static const guint pts[] = {0, 1, 5, 7, 8}, to[] = {1, 5, 7, 8, 12};
    const gchar *tae = weights("taehv/taew2_1");
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstBus *bus = vae_test_bus(h);
    GstVideoInfo info;
    vae_test_set_format(h, &info, GST_VIDEO_FORMAT_I420, 8 * LW, 8 * LH);
    for (guint n = 0; n < 12; n++) {
        if (n == 5) {
            g_object_set(h->element, "model", tae, NULL);
            CHECK(gst_harness_push_upstream_event(
                h, gst_video_event_new_upstream_force_key_unit(vae_test_time(7),
                                                               TRUE, 1)));
        }
        CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)), GST_FLOW_OK);
    }
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    for (guint i = 0; i < G_N_ELEMENTS(pts); i++) {
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_PTS(latent), vae_test_time(pts[i]));
        CHECK_INT(GST_BUFFER_PTS(latent) + GST_BUFFER_DURATION(latent),
                  vae_test_time(to[i]));
        CHECK_INT(GST_BUFFER_OFFSET(latent), i % 3);
    }
    vae_test_wait_eos(h);
    vae_test_no_more(h);
    expect_switch(bus, tae, FALSE, 7);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING);
    CHECK(message == NULL);
}

/* Latent k of the space flux2, a sequence of its own, as each image is. */
static GstBuffer *
image(guint k)
{
    GstBuffer *latent = vae_test_latent(128 / 16 * LW, LH, k);
    GST_BUFFER_FLAG_UNSET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
    GST_BUFFER_PTS(latent) = vae_test_time(k);
    GST_BUFFER_DURATION(latent) = vae_test_time(k + 1) - vae_test_time(k);
    GST_BUFFER_OFFSET(latent) = k;
    return latent;
}

/* Returns the MD5 of the frames of images 2 and 3. next: the model from image 2
 * on, or NULL. */
static gchar *
images(const gchar *model, const gchar *next)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", "model", model, NULL);
    GstBus *bus = vae_test_bus(h);
    vae_test_set_grid(h, 128, LW, LH, ",latent-space=flux2,framerate=16/1");
    for (guint k = 0; k < 4; k++) {
        if (k == 2 && next)
            g_object_set(h->element, "model", next, NULL);
        CHECK_INT(gst_harness_push(h, image(k)), GST_FLOW_OK);
        if (k == 1)
            g_free(vae_test_pull_frames(h, 0, 2));
    }
    gchar *sum = vae_test_pull_frames(h, 2, 2);
    if (next)
        expect_switch(bus, next, FALSE, 2);
    expect_quiet(bus);
    return sum;
}

/* A preview network of images gives way to the full one, and comes back, at the
 * next image. */
TEST(networks_of_images)
{
    const gchar *tiny = weights("taef2"), *full = weights("kl_flux2");
    vae_test_same(images(tiny, full), images(full, NULL));
    vae_test_same(images(full, tiny), images(tiny, NULL));
}

/* Mixes changes, restarts, flushes and sequences in any order. Nothing hangs or
 * leaks, all groups are complete, and there are no gaps. */
TEST(any_order)
{
    const char *models[] = {vae_test_weights(), NULL};
    const gchar *tae = weights("taehv/taew2_1");
    g_autoptr(GRand) rand = g_rand_new_with_seed(20240607);
    SCOPED GstHarness *h = decoder(models[0]);
    guint frame = 0, pulled = 0;
    models[1] = tae;
    for (guint i = 0; i < 120; i++) {
        const guint what = g_rand_int_range(rand, 0, 10);
        if (what == 0) {
            vae_test_flush(h);
            while (gst_harness_buffers_in_queue(h) > 0)
                gst_buffer_unref(vae_test_pull(h));
            frame = pulled = 0;
        } else if (what < 3) {
            g_object_set(h->element, "model", models[g_rand_boolean(rand)],
                         NULL);
        } else if (what == 3) {
            g_signal_emit_by_name(h->element, "restart");
        } else {
            const gboolean start = frame == 0 || what == 4;
            push_at(h, i, frame, start);
            frame += start ? 1 : 4;
        }
        if (what == 9) {
            g_free(vae_test_pull_frames(h, pulled, frame - pulled));
            pulled = frame;
        }
    }
    g_free(vae_test_pull_frames(h, pulled, frame - pulled));
}
