/*
 * test_tae.c: tests encoders that begin with a whole group of four or eight
 * frames.
 */
#include "vae_test.h"

#include "vae-private/model.h"

typedef struct Family {
    const char *path;
    guint group; /* frames of each latent except the first */
    gint size;   /* pixels each way */
} Family;

/* Small weights of TAE for Wan 2.1. */
static Family
wan(void)
{
    return (Family){vae_test_network("taehv/taew2_1"), 4, 32};
}

static gchar *ltx_path;

static void
remove_ltx(void)
{
    remove(ltx_path);
    g_free(ltx_path);
}

/* The family for LTX has no small weights; the generated ones have the real
 * size. */
static Family
ltx(void)
{
    VaeModel *model = NULL;
    VaeError error;
    if (!ltx_path) {
        ltx_path = g_strdup_printf("%s/vae-test-ltx-%d.safetensors",
                                   g_get_tmp_dir(), (int) getpid());
        atexit(remove_ltx);
        CHECK(vae_model_generate("taeltx_2", &model, &error) == VAE_OK);
        CHECK(vae_model_write(model, ltx_path, VAE_TYPE_F16, &error) == VAE_OK);
        vae_model_free(&model);
    }
    return (Family){ltx_path, 8, 64};
}

static GstHarness *
coder(const Family *f, const char *element, GstVideoInfo *info)
{
    GstHarness *h = vae_test_harness(element, "model", f->path, NULL);
    gst_video_info_set_format(info, GST_VIDEO_FORMAT_I420, f->size, f->size);
    info->fps_n = VAE_TEST_FPS;
    return h;
}

/* Latent k leaves after frame (k + 1) group - 1, with the time of the first
 * frame that it decodes to: frame (k - 1) group + 1. */
static void
check_encode(const Family *f)
{
    const guint g = f->group;
    GstVideoInfo info;
    SCOPED GstHarness *h = coder(f, "vaeencode", &info);
    gst_harness_set_upstream_latency(h, 0);
    gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
    CHECK_INT(vae_test_latency(h), 2 * (g - 1) * vae_test_time(1));
    for (guint n = 0; n < 4 * g; n++) {
        const guint steps = vae_test_stat(h, "steps");
        CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)), GST_FLOW_OK);
        if (n % g != g - 1) { /* incomplete: nothing is computed */
            CHECK_INT(vae_test_stat(h, "in-flight"), 0);
            CHECK_INT(vae_test_stat(h, "steps"), steps);
            continue;
        }
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        CHECK_INT(GST_BUFFER_OFFSET(latent), n / g);
        CHECK_INT(GST_BUFFER_PTS(latent),
                  n < g ? 0 : vae_test_time(n + 2 - 2 * g));
        CHECK_INT(GST_BUFFER_PTS(latent) + GST_BUFFER_DURATION(latent),
                  vae_test_time(n + 2 - g));
        CHECK_INT(GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT),
                  n >= g);
    }
    CHECK_INT(vae_test_stat(h, "frames"), 4 * g);
}

TEST(encode)
{
    const Family four = wan(), eight = ltx();
    check_encode(&four);
    check_encode(&eight);
}

/* n frames become 1 + ceil((n - 1) / group) latents that last as long as the
 * frames, and these n frames again. */
static void
check_count(const Family *f, guint n)
{
    const guint expected = 1 + (n - 1 + f->group - 1) / f->group;
    GstVideoInfo info;
    SCOPED GstHarness *encode = coder(f, "vaeencode", &info);
    SCOPED GstHarness *decode = coder(f, "vaedecode", &info);
    GstBuffer *latents[8];
    gst_harness_set_src_caps(encode, gst_video_info_to_caps(&info));
    for (guint i = 0; i < n; i++)
        CHECK_INT(gst_harness_push(encode, vae_test_frame(&info, i)),
                  GST_FLOW_OK);
    CHECK(gst_harness_push_event(encode, gst_event_new_eos()));
    for (guint k = 0; k < expected; k++) {
        const guint to = MIN(1 + k * f->group, n);
        latents[k] = vae_test_pull(encode);
        CHECK_INT(GST_BUFFER_PTS(latents[k]) + GST_BUFFER_DURATION(latents[k]),
                  vae_test_time(to));
    }
    vae_test_wait_eos(encode);
    vae_test_no_more(encode);

    GstCaps *caps = gst_pad_get_current_caps(encode->sinkpad);
    gst_harness_set_src_caps(decode, caps);
    for (guint k = 0; k < expected; k++)
        CHECK_INT(gst_harness_push(decode, latents[k]), GST_FLOW_OK);
    g_free(vae_test_last_frames(decode, 0, n));
}

TEST(counts)
{
    const Family four = wan(), eight = ltx();
    for (guint n = 1; n <= 9; n++)
        check_count(&four, n);
    for (guint n = 1; n <= 17; n += 4)
        check_count(&eight, n);
    check_count(&eight, 8);
    check_count(&eight, 10);
}

/* Begins a segment at frame `start`, whose running time is that of `base`. */
static void
push_segment(GstHarness *h, guint start, guint base)
{
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = segment.position = vae_test_time(start);
    segment.base = vae_test_time(base);
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
}

/* A segment follows a frame in the middle of a group. If the next frame has a
 * place in it, the sequence goes on: the start moves to an earlier sound, or
 * the running time continues. */
TEST(segment_in_group)
{
    static const struct {
        guint start, base, starts;
    } cases[] = {{0, 0, 1}, {3, 1, 1}, {3, 7, 2}, {20, 1, 2}};
    const Family f = wan();
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GstVideoInfo info;
        SCOPED GstHarness *h = coder(&f, "vaeencode", &info);
        guint starts = 0;
        gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
        push_segment(h, 2, 0);
        vae_test_push_frames(h, &info, 2, 3);
        push_segment(h, cases[i].start, cases[i].base);
        const guint first = MAX(cases[i].start, 3);
        vae_test_push_frames(h, &info, first, first + 8);
        gst_harness_push_event(h, gst_event_new_eos());
        for (guint k = 0; k < 2 + cases[i].starts; k++) {
            g_autoptr(GstBuffer) latent = vae_test_pull(h);
            starts +=
                !GST_BUFFER_FLAG_IS_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
        }
        CHECK_INT(starts, cases[i].starts);
        vae_test_wait_eos(h);
        vae_test_no_more(h);
    }
}

/* At the end, exactly the frames that no latent covers are dropped. */
TEST(drop)
{
    const Family f = wan();
    GstVideoInfo info;
    SCOPED GstHarness *h = coder(&f, "vaeencode", &info);
    g_object_set(h->element, "tail", 1, NULL);
    gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
    for (guint n = 0; n < 9; n++)
        CHECK_INT(gst_harness_push(h, vae_test_frame(&info, n)), GST_FLOW_OK);
    vae_test_push_eos(h);
    CHECK_INT(gst_harness_buffers_in_queue(h), 2);
}

/* TAE has no posterior, so nothing can be sampled. */
TEST(no_posterior)
{
    const Family f = wan();
    GstVideoInfo info;
    SCOPED GstHarness *h = coder(&f, "vaeencode", &info);
    gst_util_set_object_arg(G_OBJECT(h->element), "posterior", "sample");
    gst_harness_set_src_caps(h, gst_video_info_to_caps(&info));
    vae_test_expect_error(h, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT,
                          "taew2_1", "no posterior");
}

/* A sequence that begins with latent 2, of eight frames each, gives frame 16,
 * the last of its group, and a GAP for the seven frames before. */
TEST(start_without_context)
{
    const Family f = ltx();
    GstVideoInfo info;
    SCOPED GstHarness *h = coder(&f, "vaedecode", &info);
    vae_test_set_grid(h, 128, 2, 2, ",framerate=16/1");
    for (guint k = 2; k < 4; k++) {
        GstBuffer *latent = gst_buffer_new_allocate(NULL, 128 * 4 * 4, NULL);
        gst_buffer_memset(latent, 0, 0, 128 * 4 * 4);
        GST_BUFFER_OFFSET(latent) = k;
        GST_BUFFER_PTS(latent) = vae_test_time(8 * k - 7);
        GST_BUFFER_FLAG_SET(latent, GST_BUFFER_FLAG_DELTA_UNIT);
        CHECK_INT(gst_harness_push(h, latent), GST_FLOW_OK);
    }
    g_free(vae_test_pull_frames(h, 16, 9));
    vae_test_expect_gap(h, 9, 7);
}
