/*
 * test_latentdemux.c: the output of latentdemux for files, in pull and in push
 * mode.
 */
#include "latent_test.h"

static const Clip small = {VAE_TYPE_F32, 4, 16, 3, 5};

/* Returns the caps of the latents in the pipeline. (transfer full) */
static gchar *
caps_text(const Run *run, const gchar *field)
{
    g_autoptr(GstElement) sink =
        gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    gchar *text = NULL;
    CHECK(caps != NULL);
    const GValue *value =
        gst_structure_get_value(gst_caps_get_structure(caps, 0), field);
    if (value)
        text = gst_value_serialize(value);
    return text;
}

static void
assert_field(const Run *run, const gchar *field, const gchar *expected)
{
    g_autofree gchar *text = caps_text(run, field);
    CHECK_SAYS(g_strcmp0(text, expected) == 0, "%s is %s, expected %s", field,
               text ? text : "not there", expected ? expected : "absent");
}

/* Checks a word in the tags of this scope. */
static void
assert_tag(const Run *run, GstTagScope scope, const gchar *tag,
           const gchar *expected)
{
    g_autoptr(GstElement) sink =
        gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
    g_autoptr(GstEvent) event =
        gst_pad_get_sticky_event(pad, GST_EVENT_TAG, (guint) scope);
    GstTagList *tags;
    g_autofree gchar *found = NULL;
    CHECK(event != NULL);
    gst_event_parse_tag(event, &tags);
    CHECK(gst_tag_list_get_scope(tags) == scope);
    CHECK(gst_tag_list_get_string(tags, tag, &found) == (expected != NULL));
    CHECK(g_strcmp0(found, expected) == 0);
}

/* Applications recognise the end of the segment by the seqnum. videorate and
 * encodebin fill the segment with frames, up to its stop. */
static void
assert_segment(const Run *run, GstClockTime stop)
{
    const GstSegment *found;
    g_autoptr(GstElement) sink =
        gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(sink, "sink");
    GST_PAD_STREAM_LOCK(
        pad); /* the pad still has the event after the sink has received it */
    g_autoptr(GstEvent) segment =
        gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
    g_autoptr(GstEvent) eos = gst_pad_get_sticky_event(pad, GST_EVENT_EOS, 0);
    GST_PAD_STREAM_UNLOCK(pad);
    CHECK(segment && eos);
    CHECK_INT(gst_event_get_seqnum(segment), gst_event_get_seqnum(eos));
    gst_event_parse_segment(segment, &found);
    CHECK_INT(found->stop, stop);
}

/* Contents -------------------------------------------------------------- */

static void
check_file(const gchar *path, const Clip *clip)
{
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = demux(way, path, "");
        assert_clip(run, clip, 0);
        CHECK(run->eos && !run->warning);
    }
}

/* Both orders of the dimensions are possible. */
static void
check_guess(const gchar *path, const Clip *clip)
{
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = demux(way, path, "");
        assert_clip(run, clip, 0);
        CHECK(run->eos && run->warning &&
              strstr(run->warning, "is a guess: set layout to"));
    }
}

TEST(types_and_layouts)
{
    static const VaeType types[] = {VAE_TYPE_F32, VAE_TYPE_F16, VAE_TYPE_BF16};
    static const VaeMetadata tchw = {"vae.layout", "tchw"};
    Clip clip = small, wide = small;
    /* No known numbers of channels: only the metadata states the order. */
    wide.c = 7;
    wide.t = 5;
    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        clip.type = wide.type = types[i];
        check_file(write_clip("a", "latents", &clip, BCTHW, NULL, 0), &clip);
        check_guess(write_clip("b", "samples", &clip, CTHW, NULL, 0), &clip);
        check_guess(write_clip("c", "x", &clip, TCHW, NULL, 0), &clip);
        check_file(write_clip("d", "latent", &wide, TCHW, &tchw, 1), &wide);
        check_guess(write_clip("e", "latent", &wide, CTHW, NULL, 0), &wide);
    }
}

/* The model decides which axis has the channels: 16 latents of 128 channels,
 * although the space with 16 channels comes first. */
TEST(images)
{
    const Clip clip = {VAE_TYPE_F32, 16, 128, 1, 1};
    const gchar *path = write_clip("a", "x", &clip, TCHW, NULL, 0);
    Run *run =
        run_all("filesrc location=%s ! latentdemux ! vaedecode backend=ref "
                "model=%s/taef2/weights.safetensors ! fakesink name=sink",
                path, g_getenv("VAE_TEST_VECTORS"));
    CHECK_SAYS(run->eos && run->buffers->len == 16, "%d frames, %s",
               run->buffers->len, run->error ? run->error : "no error");
}

/* The latents of a file of float64 are float32. The bytes of one latent are no
 * NaN, which conversions change. */
TEST(float64)
{
    const Clip one = {VAE_TYPE_F32, 1, 16, 3, 5};
    const gsize n = (gsize) one.t * one.c * one.h * one.w;
    const gchar *path = vae_test_path("a");
    g_autofree guint8 *data = clip_data(&one, CTHW);
    g_autofree gdouble *wide = g_new(gdouble, n);
    const VaeTensorOut out = {.name = "latent",
                              .type = VAE_TYPE_F64,
                              .n_dims = 4,
                              .dims = {one.c, one.t, one.h, one.w},
                              .data = wide};
    VaeError error = {0};
    for (gsize i = 0; i < n; i++)
        wide[i] = (gdouble) ((gfloat *) data)[i];
    CHECK_SAYS(vae_tensor_file_write(path, &out, 1, NULL, 0, &error) == VAE_OK,
               "%s", error.message);
    check_file(path, &one);
}

TEST(npy)
{
    Clip clip = small;
    check_file(write_npy("a.npy", &clip, BCTHW), &clip);
    check_guess(write_npy("b.npy", &clip, TCHW), &clip);
    clip.type = VAE_TYPE_F16;
    check_guess(write_npy("c.npy", &clip, CTHW), &clip);
}

/* Planes larger than one pull, and a clip of one latent. */
TEST(sizes)
{
    const Clip big = {VAE_TYPE_F32, 2, 2, 1100, 1024};
    const Clip one = {VAE_TYPE_BF16, 1, 16, 1, 1};
    check_guess(plain_clip(&big), &big);
    check_file(write_clip("b", "latent", &one, CTHW, NULL, 0), &one);
}

TEST(batch)
{
    /* A batch [B, C, T, H, W] of two clips has the bytes of a clip with twice
     * the channels. */
    const Clip both = {VAE_TYPE_F32, 3, 32, 2, 2};
    const gsize half = step_bytes(&both) / 2;
    g_autofree guint8 *data = clip_data(&both, CTHW);
    const VaeTensorOut out = {
        "latent", VAE_TYPE_F32, 5, {2, 16, 3, 2, 2}, data};
    const gchar *path = vae_test_path("a");
    CHECK(vae_tensor_file_write(path, &out, 1, NULL, 0, NULL) == VAE_OK);
    Run *run = demux(PULL, path, "");
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX, "batch of 2");
    for (gint way = PULL; way <= PUSH; way++) {
        run = demux(way, path, "batch-index=1");
        CHECK_INT(run->buffers->len, 3);
        for (gint k = 0; k < 3; k++) {
            g_autofree guint8 *step = step_data(&both, k);
            CHECK(gst_buffer_memcmp(g_ptr_array_index(run->buffers, k), 0,
                                    step + half, half) == 0);
        }
    }
}

TEST(tensor)
{
    const Clip clip = small;
    g_autofree guint8 *a = clip_data(&clip, CTHW);
    gsize n = step_bytes(&clip) * clip.t;
    g_autofree guint8 *zeros = g_malloc0(n);
    const VaeTensorOut out[] = {
        {"first", VAE_TYPE_F32, 4, {16, 4, 3, 5}, zeros},
        {"second", VAE_TYPE_F32, 4, {16, 4, 3, 5}, a}};
    const gchar *path = vae_test_path("a");
    CHECK(vae_tensor_file_write(path, out, 2, NULL, 0, NULL) == VAE_OK);
    Run *run = demux(PULL, path, "tensor=second");
    assert_clip(run, &clip, 0);
    run = demux(PULL, path, "tensor=third");
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, "third");
}

/* Caps and times -------------------------------------------------------- */

static const VaeMetadata all_metadata[] = {{"vae.latent_space", "wan2.1"},
                                           {"vae.normalization", "raw"},
                                           {"vae.framerate", "24/1"},
                                           {"vae.width", "37"},
                                           {"vae.height", "21"},
                                           {"vae.frames", "11"},
                                           {"vae.pixel_aspect_ratio", "8/9"},
                                           {"vae.colorimetry", "bt709"}};

TEST(metadata)
{
    const gchar *path =
        described_clip(&small, all_metadata, G_N_ELEMENTS(all_metadata));
    Run *run = run_preroll(path, "", "");
    gint64 duration = 0;
    assert_field(run, "latent-space", "wan2.1");
    assert_field(run, "normalization", "raw");
    assert_field(run, "framerate", "24/1");
    assert_field(run, "width", "37");
    assert_field(run, "height", "21");
    assert_field(run, "pixel-aspect-ratio", "8/9");
    assert_field(run, "colorimetry", "bt709");
    assert_field(run, "type", "float32");
    assert_field(run, "channels", "16");
    assert_field(run, "latent-width", "5");
    assert_field(run, "latent-height", "3");
    assert_field(run, "layout", "chw");
    assert_tag(run, GST_TAG_SCOPE_STREAM, GST_TAG_VIDEO_CODEC, "VAE latents");
    assert_tag(run, GST_TAG_SCOPE_GLOBAL, GST_TAG_CONTAINER_FORMAT,
               "Safetensors");
    CHECK(
        gst_element_query_duration(run->pipeline, GST_FORMAT_TIME, &duration));
    CHECK_INT(duration, gst_util_uint64_scale(11, GST_SECOND, 24));
}

/* A name that is too long for the caps, and a name that would be cut inside a
 * character. */
TEST(long_space)
{
    for (gint n = 63; n < 66; n++) {
        g_autofree gchar *name = g_strnfill((gsize) n, 'x');
        if (n == 65)
            memcpy(name + 62, "\303\244", 2);
        const VaeMetadata metadata[] = {{"vae.latent_space", name}};
        const gchar *path = described_clip(&small, metadata, 1);
        Run *run = run_all("filesrc location=%s ! latentdemux ! fakesink "
                           "name=sink",
                           path);
        if (n < 64)
            CHECK(run->eos && !run->error);
        else
            assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                         "expected a name of 1 to 63 bytes");
    }
}

/* Metadata with an invalid pixel aspect ratio, colorimetry or tag are ignored.
 */
TEST(bad_metadata)
{
    static const gchar *const bad[] = {"8:9",   "8", "0/1",          "1/0",
                                       "1/2/3", "",  "1/4294967296", "-8/-9"};
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        const VaeMetadata metadata[] = {{"vae.pixel_aspect_ratio", bad[i]},
                                        {"vae.colorimetry", bad[i]},
                                        {"vae.chroma_site", bad[i]},
                                        {"vae.mastering_display_info", bad[i]},
                                        {"vae.content_light_level", bad[i]},
                                        {"vae.tag.datetime", bad[i]},
                                        {"vae.tag.image", bad[i]},
                                        {"vae.tag.no-such-tag", bad[i]},
                                        {"vae.tag.", bad[i]},
                                        {"vae.tag.attachment", bad[i]},
                                        {"vae.title", ""}};
        const gchar *path =
            described_clip(&small, metadata, G_N_ELEMENTS(metadata));
        Run *run = run_preroll(path, "", "");
        assert_field(run, "pixel-aspect-ratio", NULL);
        assert_field(run, "colorimetry", NULL);
        assert_field(run, "chroma-site", NULL);
        assert_field(run, "mastering-display-info", NULL);
        assert_field(run, "width", NULL);
        assert_tag(run, GST_TAG_SCOPE_GLOBAL, GST_TAG_TITLE, NULL);
    }
}

static void
check_times(const gchar *path, const gint *begins, gint fps)
{
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = demux(way, path, "");
        CHECK_INT(run->buffers->len, small.t);
        for (gint k = 0; k < small.t; k++) {
            GstBuffer *buffer = g_ptr_array_index(run->buffers, k);
            const guint64 pts =
                gst_util_uint64_scale(begins[k], GST_SECOND, fps);
            CHECK_INT(GST_BUFFER_PTS(buffer), pts);
            CHECK_INT(GST_BUFFER_DURATION(buffer),
                      gst_util_uint64_scale(begins[k + 1], GST_SECOND, fps) -
                          pts);
            CHECK(!GST_BUFFER_DTS_IS_VALID(buffer));
        }
    }
}

TEST(times)
{
    static const gint plain[] = {0, 1, 5, 9, 13}, cut[] = {0, 1, 5, 9, 11},
                      eight[] = {0, 1, 9, 17, 25};
    static const VaeMetadata wrong = {"vae.frames", "9"};
    static const VaeMetadata factor = {"vae.temporal_factor", "8"};
    const gchar *path = plain_clip(&small);
    check_times(path, plain, 16);
    path = described_clip(&small, all_metadata, G_N_ELEMENTS(all_metadata));
    check_times(path, cut, 24);
    /* A clip of nine frames would not need the last latent. */
    path = described_clip(&small, &wrong, 1);
    check_times(path, plain, 16);
    path = described_clip(&small, &factor, 1);
    check_times(path, eight, 16);
}

/* The usual rate of the space, or of the only space with this number of
 * channels. */
TEST(usual_times)
{
    static const gint four[] = {0, 1, 5, 9, 13}, eight[] = {0, 1, 9, 17, 25};
    static const VaeMetadata video = {"vae.latent_space", "cogvideox"};
    static const Clip wide = {VAE_TYPE_F32, 4, 48, 3, 5},
                      wider = {VAE_TYPE_F32, 4, 128, 3, 5};
    const gchar *path = plain_clip(&wide);
    check_times(path, four, 24);
    path = plain_clip(&wider);
    check_times(path, eight, 24);
    path = described_clip(&small, &video, 1);
    check_times(path, four, 8);
    Run *run = run_preroll(path, "", "");
    assert_field(run, "framerate", "8/1");
}

TEST(silent_file)
{
    const gchar *path = plain_clip(&small);
    Run *run = run_preroll(path, "", "");
    assert_field(run, "latent-space", NULL);
    assert_field(run, "normalization", NULL);
    assert_field(run, "framerate",
                 "16/1"); /* the rate by which the latents have their times */
    assert_field(run, "width", NULL);
    /* The decoder's network has a rate of its own. */
    g_autofree gchar *decoder = g_strdup_printf(
        "vaedecode backend=ref model=\"%s/taehv/taehv/weights.safetensors\" !",
        g_getenv("VAE_TEST_VECTORS"));
    run = run_preroll(path, "", decoder);
    assert_field(run, "framerate", "24/1");
    run = run_preroll(
        path, "latent-space=wan2.2 normalization=raw framerate=25/1", "");
    assert_field(run, "latent-space", "wan2.2");
    assert_field(run, "normalization", "raw");
    assert_field(run, "framerate", "25/1");
    /* With decodebin, an INFO message says why no model is found. */
    run = run_all("filesrc location=%s ! decodebin ! fakesink name=sink", path);
    CHECK(run->error != NULL);
    CHECK_SAYS(run->info && strstr(run->info, path) &&
                   strstr(run->info, " states no latent space: that of the "
                                     "model of vaedecode counts") &&
                   strstr(run->info, "latent-space") &&
                   !strstr(run->info, "taken as") && !strstr(run->info, "set "),
               "%s", run->info);
    run = run_all("filesrc location=%s ! latentdemux normalization=raw ! "
                  "fakesink name=sink",
                  path);
    CHECK_SAYS(run->info && strstr(run->info, "states no latent space: that") &&
                   !strstr(run->info, "normalization"),
               "%s", run->info);
}

TEST(segment)
{
    const gchar *path = plain_clip(&small);
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = run_new("filesrc location=%s ! %s latentdemux ! "
                           "fakesink name=sink",
                           path, way == PUSH ? "queue !" : "");
        run_play(run);
        assert_segment(run, GST_SECOND * 13 / 16);
    }
}

/* A property overrides what the file states, and a warning says so. */
TEST(overruled)
{
    static const gchar *const cases[][3] = {
        {"latent-space", "wan2.1", "wan2.2"},
        {"normalization", "raw", "normalized"}};
    const gchar *path =
        described_clip(&small, all_metadata, G_N_ELEMENTS(all_metadata));
    Run *run;
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        const gchar *const *c = cases[i];
        g_autofree gchar *property = g_strdup_printf("%s=%s", c[0], c[2]);
        g_autofree gchar *words =
            g_strdup_printf("%s states %s %s; %s %s overrides it", path, c[0],
                            c[1], c[0], c[2]);
        run = run_preroll(path, property, "");
        assert_field(run, c[0], c[2]);
        run_play(run);
        assert_clip(run, &small, 0);
        CHECK_SAYS(g_strcmp0(run->warning, words) == 0, "%s", run->warning);
    }
    static const VaeMetadata broken[] = {{"vae.latent_space", "foo"},
                                         {"vae.normalization", "foo"},
                                         {"vae.framerate", "abc"},
                                         {"vae.layout", "xyz"},
                                         {"vae.recording", "maybe"}};
    const gchar *other = described_clip(&small, broken, G_N_ELEMENTS(broken));
    run = demux(PULL, other,
                "latent-space=wan2.1 normalization=raw framerate=24/1 "
                "layout=bcthw");
    assert_clip(run, &small, 0);
    for (guint i = 0; i < G_N_ELEMENTS(broken); i++)
        CHECK_SAYS(run->warning && strstr(run->warning, broken[i].value), "%s",
                   run->warning);
    path = described_clip(&small, all_metadata, G_N_ELEMENTS(all_metadata));
    run = demux(PULL, path,
                "latent-space=wan2.1 normalization=raw framerate=48/2");
    CHECK_SAYS(run->warning == NULL, "%s", run->warning);
    CHECK_SAYS(run->info == NULL, "%s", run->info);
    /* The property overrides the rate of the file. */
    run = run_preroll(path, "framerate=30/1", "");
    assert_field(run, "framerate", "30/1");
    run_play(run);
    CHECK_SAYS(run->warning == NULL, "%s", run->warning);
    GstBuffer *later = g_ptr_array_index(run->buffers, 1);
    CHECK_INT(GST_BUFFER_PTS(later), GST_SECOND / 30);
}

/* An empty tensor marks the latents of ComfyUI. What they are depends on the
 * latent space; the user may know better. */
TEST(comfyui)
{
    g_autofree guint8 *data = clip_data(&small, BCTHW);
    const VaeTensorOut out[] = {
        {"latent_format_version_0", VAE_TYPE_F32, 1, {0}, data},
        {"latent_tensor", VAE_TYPE_F32, 5, {1, 16, 4, 3, 5}, data}};
    const gchar *path = vae_test_path("a.latent");
    CHECK(vae_tensor_file_write(path, out, 2, NULL, 0, NULL) == VAE_OK);
    Run *run = run_preroll(path, "", "");
    assert_field(run, "normalization", "comfyui");
    run = run_preroll(path, "latent-space=seedvr2", "");
    assert_field(run, "normalization", "normalized");
    run = run_preroll(path, "latent-space=wan2.1", "");
    assert_field(run, "normalization", "raw");
    run = run_preroll(path, "normalization=normalized", "");
    assert_field(run, "normalization", "normalized");
    CHECK_SAYS(run->warning == NULL, "%s", run->warning);
    check_file(path, &small);
}

/* Headers with a few changed bytes give EOS or an error, which is the same with
 * and without random access. */
TEST(mutations)
{
    const gchar *path = write_clip("good", "latent", &small, CTHW, all_metadata,
                                   G_N_ELEMENTS(all_metadata));
    g_autoptr(GBytes) good = read_bytes(path);
    gsize size;
    const guint8 *data = g_bytes_get_data(good, &size);
    const guint header = size - step_bytes(&small) * small.t;
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    for (gint i = 0; i < 200; i++) {
        g_autofree guint8 *copy = g_memdup2(data, size);
        for (gint n = g_rand_int_range(random, 1, 4); n > 0; n--)
            copy[g_rand_int_range(random, 0, header)] =
                g_rand_boolean(random) ? g_rand_int_range(random, '0', '9' + 1)
                                       : g_rand_int_range(random, 0, 256);
        const gchar *bad = write_bytes("bad", copy, size);
        Run *run = demux(PULL, bad, "");
        g_autofree gchar *error = g_strdup(run->error);
        const guint len = run->buffers->len;
        CHECK((len > 0) == run->eos);
        run = demux(PUSH, bad, "");
        CHECK_STR(run->error, error);
        CHECK_INT(run->buffers->len, len);
    }
}

/* Push mode ------------------------------------------------------------- */

/* Pushes the bytes [from, to) of a file in blocks. The harness does not answer
 * how long the file is, as a pipe. */
static void
feed(GstHarness *h, GBytes *file, gsize from, gsize to, gsize block)
{
    for (gsize at = from; at < to; at += block) {
        g_autoptr(GBytes) part =
            g_bytes_new_from_bytes(file, at, MIN(block, to - at));
        CHECK_INT(gst_harness_push(h, gst_buffer_new_wrapped_bytes(part)),
                  GST_FLOW_OK);
    }
}

static GstHarness *
push_harness(void)
{
    GstHarness *h = gst_harness_new("latentdemux");
    gst_harness_set_src_caps_str(h, "application/x-safetensors");
    vae_test_bus(h);
    return h;
}

/* Latent k leaves when its last byte arrives. head: size of the header. */
static void
check_stream(const Clip *clip, Order order, gsize head)
{
    const gsize step = step_bytes(clip), plane = step / clip->c;
    g_autoptr(GBytes) file =
        read_bytes(write_clip("a", "latent", clip, order, NULL, 0));
    const gsize size = g_bytes_get_size(file);
    GstHarness *h = push_harness();
    gsize at = 0;
    if (order == TCHW)
        g_object_set(h->element, "max-push-size", head + 2 * step, "layout", 2,
                     NULL);
    for (gint k = 0; k < clip->t; k++) {
        const gsize end =
            order == TCHW
                ? head + (k + 1) * step
                : head + (clip->c - 1) * clip->t * plane + (k + 1) * plane;
        feed(h, file, at, end - 1, 100);
        CHECK_INT(gst_harness_buffers_received(h), k);
        feed(h, file, end - 1, end, 1);
        CHECK_INT(gst_harness_buffers_received(h), k + 1);
        at = end;
        g_autoptr(GstBuffer) buffer = gst_harness_pull(h);
        g_autofree guint8 *data = step_data(clip, k);
        CHECK_INT(gst_buffer_get_size(buffer), step);
        CHECK(gst_buffer_memcmp(buffer, 0, data, step) == 0);
        CHECK_INT(GST_BUFFER_OFFSET(buffer), k);
    }
    CHECK_INT(at, size);
    CHECK(gst_harness_push_event(h, gst_event_new_eos()));
    CHECK(!gst_bus_pop_filtered(GST_ELEMENT_BUS(h->element),
                                GST_MESSAGE_ERROR | GST_MESSAGE_WARNING));
    vae_test_teardown(h);
}

static GstPadProbeReturn
count_bytes(GstPad *pad, GstPadProbeInfo *info, gpointer count)
{
    *(gsize *) count += gst_buffer_get_size(GST_PAD_PROBE_INFO_BUFFER(info));
    return GST_PAD_PROBE_OK;
}

typedef struct First {
    gsize read, at_first;
} First;

static void
note_first(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
    First *first = data;
    if (first->at_first == 0)
        first->at_first = first->read;
}

/* Checks that the first buffer leaves a demuxer before the end of its file. */
static void
check_first(const gchar *path, const gchar *demuxer)
{
    First first = {0, 0};
    Run *run = run_new("filesrc location=%s blocksize=256 ! queue name=queue ! "
                       "%s ! fakesink name=sink signal-handoffs=true",
                       path, demuxer);
    g_autoptr(GstElement) queue =
        gst_bin_get_by_name(GST_BIN(run->pipeline), "queue");
    g_autoptr(GstElement) sink =
        gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(queue, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, count_bytes, &first.read,
                      NULL);
    g_signal_connect(sink, "handoff", G_CALLBACK(note_first), &first);
    run_play(run);
    gst_element_set_state(run->pipeline, GST_STATE_NULL);
    CHECK_SAYS(run->eos && !run->error, "%s", run->error);
    CHECK_SAYS(first.at_first > 0 && first.at_first < first.read,
               "%s: the first buffer leaves after %zu of %zu bytes", demuxer,
               first.at_first, first.read);
}

/* From a pipe, latents leave as they arrive, as frames leave matroskademux. */
TEST(streams)
{
    const Clip clip = {VAE_TYPE_F32, 9, 16, 3, 5};
    static const Order orders[] = {TCHW, CTHW};
    g_autoptr(GstElementFactory) encoder = gst_element_factory_find("vp8enc");
    for (guint i = 0; i < G_N_ELEMENTS(orders); i++) {
        const gchar *path =
            write_clip("a", "latent", &clip, orders[i], NULL, 0);
        g_autoptr(GBytes) file = read_bytes(path);
        check_stream(&clip, orders[i],
                     g_bytes_get_size(file) - clip.t * step_bytes(&clip));
        check_first(path, "latentdemux");
    }
    if (encoder) {
        const gchar *webm = vae_test_path("a.webm");
        Run *run = run_all("videotestsrc num-buffers=33 ! video/x-raw,width=64,"
                           "height=48 ! vp8enc deadline=1 ! webmmux ! filesink "
                           "name=sink location=%s",
                           webm);
        CHECK_SAYS(run->eos && !run->error, "%s", run->error);
        check_first(webm, "matroskademux");
    }
}

/* The latents of a file that ends early are sent before the error. After a
 * flush the file comes from its start. */
TEST(stream_ends)
{
    const gchar *path = write_clip("a", "latent", &small, TCHW, NULL, 0);
    g_autoptr(GBytes) file = read_bytes(path);
    const gsize size = g_bytes_get_size(file);
    GstHarness *h = push_harness();
    g_object_set(h->element, "layout", 2, NULL);
    feed(h, file, 0, size - 1, 700);
    CHECK_INT(gst_harness_buffers_received(h), small.t - 1);
    CHECK(gst_harness_push_event(h, gst_event_new_flush_start()));
    CHECK(gst_harness_push_event(h, gst_event_new_flush_stop(TRUE)));
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_BYTES);
    CHECK(gst_harness_push_event(h, gst_event_new_segment(&segment)));
    feed(h, file, 0, size - 1, 700);
    CHECK_INT(gst_harness_buffers_received(h), 2 * (small.t - 1));
    vae_test_none(h, GST_MESSAGE_ERROR);
    gst_harness_push_event(h, gst_event_new_eos());
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                          "in latent 3 of 4", "bytes or more");
    vae_test_teardown(h);
}
