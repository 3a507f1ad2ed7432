/*
 * latentdemux: what it makes of files, in pull and in push mode.
 */
#include "latent_test.h"

#include <string.h>
#include <unistd.h>

/* A queue has no pull mode, so behind one the demuxer is pushed to. */
static const gchar *const ways[] = {"filesrc location=%s ! latentdemux %s ! "
                                    "fakesink name=sink",
                                    "filesrc location=%s ! queue ! "
                                    "latentdemux %s ! fakesink name=sink"};
#define PULL 0
#define PUSH 1

static const Clip small = {VAE_TYPE_F32, 4, 16, 3, 5};

static Run *
demux(gint way, const gchar *path, const gchar *properties)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return run_all(ways[way], path, properties);
#pragma GCC diagnostic pop
}

/* The caps of the latents, of the pipeline as it stands. (transfer full) */
static gchar *
caps_text(const Run *run, const gchar *field)
{
    GstElement *sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    GstCaps *caps = gst_pad_get_current_caps(pad);
    gchar *text = NULL;
    fail_unless(caps != NULL);
    const GValue *value =
        gst_structure_get_value(gst_caps_get_structure(caps, 0), field);
    if (value)
        text = gst_value_serialize(value);
    gst_caps_unref(caps);
    gst_object_unref(pad);
    gst_object_unref(sink);
    return text;
}

static void
assert_field(const Run *run, const gchar *field, const gchar *wanted)
{
    gchar *text = caps_text(run, field);
    fail_unless(g_strcmp0(text, wanted) == 0, "%s is %s, wanted %s", field,
                text ? text : "not there", wanted ? wanted : "absent");
    g_free(text);
}

/* Of the tag of the stream. */
static void
assert_codec(const Run *run, const gchar *wanted)
{
    GstElement *sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    GstEvent *event = gst_pad_get_sticky_event(pad, GST_EVENT_TAG, 0);
    GstTagList *tags;
    gchar *found = NULL;
    fail_unless(event != NULL);
    gst_event_parse_tag(event, &tags);
    fail_unless(gst_tag_list_get_string(tags, GST_TAG_VIDEO_CODEC, &found));
    fail_unless_equals_string(found, wanted);
    g_free(found);
    gst_event_unref(event);
    gst_object_unref(pad);
    gst_object_unref(sink);
}

/* Applications tell by the number that the end is that of the segment. */
static void
assert_one_seqnum(const Run *run)
{
    GstElement *sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    GstEvent *segment, *eos;
    GST_PAD_STREAM_LOCK(pad); /* the pad keeps an event after the sink had it */
    segment = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
    eos = gst_pad_get_sticky_event(pad, GST_EVENT_EOS, 0);
    GST_PAD_STREAM_UNLOCK(pad);
    fail_unless(segment && eos);
    fail_unless_equals_int(gst_event_get_seqnum(segment),
                           gst_event_get_seqnum(eos));
    gst_event_unref(segment);
    gst_event_unref(eos);
    gst_object_unref(pad);
    gst_object_unref(sink);
}

/* Contents -------------------------------------------------------------- */

static void
check_file(gchar *path, const Clip *clip)
{
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = demux(way, path, "");
        assert_clip(run, clip, 0);
        fail_unless(run->eos && !run->warning);
        run_free(run);
    }
    g_free(path);
}

GST_START_TEST(test_types_and_layouts)
{
    static const VaeType types[] = {VAE_TYPE_F32, VAE_TYPE_F16, VAE_TYPE_BF16};
    static const VaeMetadata tchw = {"vae.layout", "tchw"};
    Clip clip = small, wide = small;
    wide.c = 7; /* no known count: only the metadata tells the order */
    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        clip.type = wide.type = types[i];
        check_file(write_clip("a", "latents", &clip, BCTHW, NULL, 0), &clip);
        check_file(write_clip("b", "samples", &clip, CTHW, NULL, 0), &clip);
        check_file(write_clip("c", "x", &clip, TCHW, NULL, 0), &clip);
        check_file(write_clip("d", "latent", &wide, TCHW, &tchw, 1), &wide);
        check_file(write_clip("e", "latent", &wide, CTHW, NULL, 0), &wide);
    }
}
GST_END_TEST

GST_START_TEST(test_npy)
{
    Clip clip = small;
    check_file(write_npy("a.npy", &clip, BCTHW), &clip);
    check_file(write_npy("b.npy", &clip, TCHW), &clip);
    clip.type = VAE_TYPE_F16;
    check_file(write_npy("c.npy", &clip, CTHW), &clip);
}
GST_END_TEST

/* Planes larger than one pull, and a clip of one latent. */
GST_START_TEST(test_sizes)
{
    const Clip big = {VAE_TYPE_F32, 2, 2, 1100, 1024};
    const Clip one = {VAE_TYPE_BF16, 1, 16, 1, 1};
    check_file(write_clip("a", "latent", &big, CTHW, NULL, 0), &big);
    check_file(write_clip("b", "latent", &one, CTHW, NULL, 0), &one);
}
GST_END_TEST

GST_START_TEST(test_batch)
{
    /* [B, C, T, H, W] of two clips is a clip of twice the channels. */
    const Clip both = {VAE_TYPE_F32, 3, 32, 2, 2};
    const gsize half = step_bytes(&both) / 2;
    guint8 *data = clip_data(&both, CTHW);
    const VaeTensorOut out = {
        "latent", VAE_TYPE_F32, 5, {2, 16, 3, 2, 2}, data};
    gchar *path = test_path("a");
    fail_unless(vae_tensor_file_write(path, &out, 1, NULL, 0, NULL) == VAE_OK);
    Run *run = demux(PULL, path, "");
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX, "batch of 2");
    run_free(run);
    for (gint way = PULL; way <= PUSH; way++) {
        run = demux(way, path, "batch-index=1");
        fail_unless_equals_int(run->buffers->len, 3);
        for (gint k = 0; k < 3; k++) {
            guint8 *step = step_data(&both, k);
            fail_unless(gst_buffer_memcmp(g_ptr_array_index(run->buffers, k), 0,
                                          step + half, half) == 0);
            g_free(step);
        }
        run_free(run);
    }
    g_free(path);
    g_free(data);
}
GST_END_TEST

GST_START_TEST(test_tensor)
{
    const Clip clip = small;
    guint8 *a = clip_data(&clip, CTHW);
    gsize n = step_bytes(&clip) * clip.t;
    guint8 *zeros = g_malloc0(n);
    const VaeTensorOut out[] = {
        {"first", VAE_TYPE_F32, 4, {16, 4, 3, 5}, zeros},
        {"second", VAE_TYPE_F32, 4, {16, 4, 3, 5}, a}};
    gchar *path = test_path("a");
    fail_unless(vae_tensor_file_write(path, out, 2, NULL, 0, NULL) == VAE_OK);
    Run *run = demux(PULL, path, "tensor=second");
    assert_clip(run, &clip, 0);
    run_free(run);
    run = demux(PULL, path, "tensor=third");
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, "third");
    run_free(run);
    g_free(path);
    g_free(zeros);
    g_free(a);
}
GST_END_TEST

/* Caps and times -------------------------------------------------------- */

static const VaeMetadata all_metadata[] = {{"vae.latent_space", "wan2.1"},
                                           {"vae.normalization", "raw"},
                                           {"vae.framerate", "24/1"},
                                           {"vae.width", "37"},
                                           {"vae.height", "21"},
                                           {"vae.frames", "11"},
                                           {"vae.pixel_aspect_ratio", "8/9"},
                                           {"vae.colorimetry", "bt709"}};

GST_START_TEST(test_metadata)
{
    gchar *path = write_clip("a", "latent", &small, CTHW, all_metadata,
                             G_N_ELEMENTS(all_metadata));
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
    assert_codec(run, "VAE latents");
    fail_unless(
        gst_element_query_duration(run->pipeline, GST_FORMAT_TIME, &duration));
    fail_unless_equals_int64(duration,
                             gst_util_uint64_scale(11, GST_SECOND, 24));
    run_free(run);
    g_free(path);
}
GST_END_TEST

/* A name that is longer than the caps hold, and one that would be cut within a
 * character. */
GST_START_TEST(test_long_space)
{
    for (gint n = 63; n < 66; n++) {
        gchar *name = g_strnfill((gsize) n, 'x');
        if (n == 65)
            memcpy(name + 62, "\303\244", 2);
        const VaeMetadata metadata[] = {{"vae.latent_space", name}};
        gchar *path = write_clip("a", "latent", &small, CTHW, metadata, 1);
        Run *run = run_all("filesrc location=%s ! latentdemux ! fakesink "
                           "name=sink",
                           path);
        if (n < 64)
            fail_unless(run->eos && !run->error);
        else
            assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                         "wanted a name of 1 to 63 bytes");
        run_free(run);
        g_free(path);
        g_free(name);
    }
}
GST_END_TEST

/* What is no shape of a pixel and no colorimetry is not taken. */
GST_START_TEST(test_bad_metadata)
{
    static const gchar *const bad[] = {"8:9",   "8", "0/1",          "1/0",
                                       "1/2/3", "",  "1/4294967296", "-8/-9"};
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        const VaeMetadata metadata[] = {{"vae.pixel_aspect_ratio", bad[i]},
                                        {"vae.colorimetry", bad[i]},
                                        {"vae.chroma_site", bad[i]},
                                        {"vae.mastering_display_info", bad[i]},
                                        {"vae.content_light_level", bad[i]},
                                        {"vae.title", ""}};
        gchar *path = write_clip("a", "latent", &small, CTHW, metadata,
                                 G_N_ELEMENTS(metadata));
        Run *run = run_preroll(path, "", "");
        assert_field(run, "pixel-aspect-ratio", NULL);
        assert_field(run, "colorimetry", NULL);
        assert_field(run, "chroma-site", NULL);
        assert_field(run, "mastering-display-info", NULL);
        assert_field(run, "width", NULL);
        run_free(run);
        g_free(path);
    }
}
GST_END_TEST

static void
check_times(const gchar *path, const gint *begins, gint n, gint fps)
{
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = demux(way, path, "");
        fail_unless_equals_int(run->buffers->len, n);
        for (gint k = 0; k < n; k++) {
            GstBuffer *buffer = g_ptr_array_index(run->buffers, k);
            const guint64 pts =
                gst_util_uint64_scale(begins[k], GST_SECOND, fps);
            fail_unless_equals_uint64(GST_BUFFER_PTS(buffer), pts);
            fail_unless_equals_uint64(
                GST_BUFFER_DURATION(buffer),
                gst_util_uint64_scale(begins[k + 1], GST_SECOND, fps) - pts);
            fail_unless(!GST_BUFFER_DTS_IS_VALID(buffer));
        }
        run_free(run);
    }
}

GST_START_TEST(test_times)
{
    static const gint plain[] = {0, 1, 5, 9, 13}, cut[] = {0, 1, 5, 9, 11},
                      eight[] = {0, 1, 9, 17, 25};
    static const VaeMetadata wrong = {"vae.frames", "9"};
    static const VaeMetadata factor = {"vae.temporal_factor", "8"};
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    check_times(path, plain, 4, 16);
    g_free(path);
    path = write_clip("a", "latent", &small, CTHW, all_metadata,
                      G_N_ELEMENTS(all_metadata));
    check_times(path, cut, 4, 24);
    g_free(path);
    /* Nine frames would not need the last latent. */
    path = write_clip("a", "latent", &small, CTHW, &wrong, 1);
    check_times(path, plain, 4, 16);
    g_free(path);
    path = write_clip("a", "latent", &small, CTHW, &factor, 1);
    check_times(path, eight, 4, 16);
    g_free(path);
}
GST_END_TEST

/* What is usual for the space, or for the only one with so many channels. */
GST_START_TEST(test_usual_times)
{
    static const gint four[] = {0, 1, 5, 9, 13}, eight[] = {0, 1, 9, 17, 25};
    static const VaeMetadata video = {"vae.latent_space", "cogvideox"};
    static const Clip wide = {VAE_TYPE_F32, 4, 48, 3, 5},
                      wider = {VAE_TYPE_F32, 4, 128, 3, 5};
    gchar *path = write_clip("a", "latent", &wide, CTHW, NULL, 0);
    check_times(path, four, 4, 24);
    g_free(path);
    path = write_clip("a", "latent", &wider, CTHW, NULL, 0);
    check_times(path, eight, 4, 24);
    g_free(path);
    path = write_clip("a", "latent", &small, CTHW, &video, 1);
    check_times(path, four, 4, 8);
    Run *run = run_preroll(path, "", "");
    assert_field(run, "framerate", "8/1");
    run_free(run);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_silent_file)
{
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    Run *run = run_preroll(path, "", "");
    assert_field(run, "latent-space", NULL);
    assert_field(run, "normalization", NULL);
    assert_field(run, "framerate", "16/1"); /* as the latents are timed */
    assert_field(run, "width", NULL);
    run_free(run);
    run = run_preroll(
        path, "latent-space=wan2.2 normalization=raw framerate=25/1", "");
    assert_field(run, "latent-space", "wan2.2");
    assert_field(run, "normalization", "raw");
    assert_field(run, "framerate", "25/1");
    run_free(run);

    /* Who lets decodebin choose is told why it finds no model. */
    run = run_all("filesrc location=%s ! decodebin ! fakesink name=sink", path);
    fail_unless(run->error != NULL);
    fail_unless(run->info && strstr(run->info, path) &&
                    strstr(run->info, "latent-space=") &&
                    strstr(run->info, "normalization=raw"),
                "%s", run->info);
    run_free(run);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_seqnum)
{
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    for (gint way = PULL; way <= PUSH; way++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        Run *run = run_new(ways[way], path, "");
#pragma GCC diagnostic pop
        gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
        run_wait(run);
        assert_one_seqnum(run);
        run_free(run);
    }
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_overruled)
{
    static const gchar *const properties[] = {"latent-space=other",
                                              "normalization=normalized"};
    static const gchar *const stated[] = {" wan2.1,", " raw,"};
    gchar *path = write_clip("a", "latent", &small, CTHW, all_metadata,
                             G_N_ELEMENTS(all_metadata));
    for (guint i = 0; i < G_N_ELEMENTS(properties); i++) {
        Run *run = demux(PULL, path, properties[i]);
        gchar **words = g_strsplit(properties[i], "=", 2);
        assert_clip(run, &small, 0);
        fail_unless(run->warning && strstr(run->warning, words[0]) &&
                        strstr(run->warning, stated[i]) &&
                        strstr(run->warning, words[1]),
                    "%s", run->warning);
        g_strfreev(words);
        run_free(run);
    }
    Run *run = demux(PULL, path,
                     "latent-space=wan2.1 normalization=raw framerate=48/2");
    fail_unless(run->warning == NULL, "%s", run->warning);
    fail_unless(run->info == NULL, "%s", run->info);
    run_free(run);
    /* The user knows the rate better. */
    run = run_preroll(path, "framerate=30/1", "");
    assert_field(run, "framerate", "30/1");
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    fail_unless(run->warning == NULL, "%s", run->warning);
    GstBuffer *later = g_ptr_array_index(run->buffers, 1);
    fail_unless_equals_uint64(GST_BUFFER_PTS(later), GST_SECOND / 30);
    run_free(run);
    g_free(path);
}
GST_END_TEST

/* ComfyUI marks its raw latents by an empty tensor beside them. */
GST_START_TEST(test_comfyui)
{
    guint8 *data = clip_data(&small, BCTHW);
    const VaeTensorOut out[] = {
        {"latent_format_version_0", VAE_TYPE_F32, 1, {0}, data},
        {"latent_tensor", VAE_TYPE_F32, 5, {1, 16, 4, 3, 5}, data}};
    gchar *path = test_path("a.latent");
    fail_unless(vae_tensor_file_write(path, out, 2, NULL, 0, NULL) == VAE_OK);
    Run *run = run_preroll(path, "", "");
    assert_field(run, "normalization", "raw");
    run_free(run);
    check_file(path, &small);
    g_free(data);
}
GST_END_TEST

/* Errors ---------------------------------------------------------------- */

static void
check_refused(gchar *path, const gchar *properties, gint code,
              const gchar *words)
{
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = demux(way, path, properties);
        assert_error(run, GST_STREAM_ERROR, code, words);
        fail_unless_equals_int(run->buffers->len, 0);
        run_free(run);
    }
    g_free(path);
}

/* At such rates times would overflow or coincide. */
GST_START_TEST(test_rates)
{
    static const gchar *const rates[] = {"1/2147483647", "2147483647/1"};
    for (guint i = 0; i < G_N_ELEMENTS(rates); i++) {
        const VaeMetadata stated[] = {{"vae.framerate", rates[i]}};
        gchar *words = g_strdup_printf("vae.framerate is %s, wanted 1/3600 to "
                                       "100000/1",
                                       rates[i]);
        gchar *property = g_strdup_printf("framerate=%s", rates[i]);
        check_refused(write_clip("a", "latent", &small, CTHW, stated, 1), "",
                      GST_STREAM_ERROR_DEMUX, words);
        g_free(words);
        words = g_strdup_printf("the property framerate is %s, wanted 1/3600 "
                                "to 100000/1",
                                rates[i]);
        check_refused(write_clip("a", "latent", &small, CTHW, NULL, 0),
                      property, GST_STREAM_ERROR_DEMUX, words);
        g_free(property);
        g_free(words);
    }
}
GST_END_TEST

GST_START_TEST(test_broken_files)
{
    const gint broken = GST_STREAM_ERROR_DEMUX;
    gchar *path = write_clip("good", "latent", &small, CTHW, NULL, 0);
    GBytes *good = read_bytes(path);
    gsize size;
    const gchar *data = g_bytes_get_data(good, &size);
    gchar *more = g_malloc0(size + 7);
    memcpy(more, data, size);
    check_refused(write_bytes("cut", data, size - 1), "", broken, "latent");
    check_refused(write_bytes("half", data, size / 2), "", broken, "latent");
    check_refused(write_bytes("header", data, 40), "", broken,
                  "past the end of the file");
    check_refused(write_bytes("few", data, 5), "", broken, "too short");
    check_refused(write_bytes("none", data, 0), "", broken, "empty");
    check_refused(write_bytes("more", more, size + 7), "", broken,
                  "belong to no tensor");
    memset(more, 'x', size);
    check_refused(write_bytes("noise", more, size), "", broken,
                  "no safetensors, npy or PyTorch file");
    g_free(more);
    g_bytes_unref(good);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_wrong_tensors)
{
    const VaeTensorOut weights[] = {
        {"conv1.weight", VAE_TYPE_F32, 5, {1, 1, 1, 1, 1}, "abcd"},
        {"conv1.bias", VAE_TYPE_F32, 1, {1}, "abcd"}};
    const VaeTensorOut bytes = {"latent", VAE_TYPE_U8, 4, {1, 1, 2, 2}, "abcd"};
    const VaeTensorOut flat = {"latent", VAE_TYPE_F32, 1, {1}, "abcd"};
    const VaeTensorOut none = {"latent", VAE_TYPE_F32, 4, {16, 0, 2, 2}, ""};
    gchar *path = test_path("a");
    vae_tensor_file_write(path, weights, 2, NULL, 0, NULL);
    check_refused(g_strdup(path), "", GST_STREAM_ERROR_WRONG_TYPE,
                  "no latent tensor");
    check_refused(g_strdup(path), "", GST_STREAM_ERROR_WRONG_TYPE,
                  "(looks like model weights)");
    vae_tensor_file_write(path, &bytes, 1, NULL, 0, NULL);
    check_refused(g_strdup(path), "", GST_STREAM_ERROR_DEMUX, "U8");
    vae_tensor_file_write(path, &flat, 1, NULL, 0, NULL);
    check_refused(g_strdup(path), "", GST_STREAM_ERROR_DEMUX, "1 dimension");
    vae_tensor_file_write(path, &none, 1, NULL, 0, NULL);
    check_refused(path, "", GST_STREAM_ERROR_DEMUX, "latents 0");
}
GST_END_TEST

GST_START_TEST(test_error_names_file)
{
    gchar *path = write_bytes("noise", "not a file of tensors", 21);
    check_refused(g_strdup(path), "", GST_STREAM_ERROR_DEMUX, path);
    g_free(path);
}
GST_END_TEST

/* Headers with a few bytes changed: an end or an error, and the same one with
 * and without random access. */
GST_START_TEST(test_mutations)
{
    gchar *path = write_clip("good", "latent", &small, CTHW, all_metadata,
                             G_N_ELEMENTS(all_metadata));
    GBytes *good = read_bytes(path);
    gsize size;
    const guint8 *data = g_bytes_get_data(good, &size);
    const guint header = size - step_bytes(&small) * small.t;
    GRand *random = g_rand_new_with_seed(7);
    for (gint i = 0; i < 200; i++) {
        guint8 *copy = g_memdup2(data, size);
        for (gint n = g_rand_int_range(random, 1, 4); n > 0; n--)
            copy[g_rand_int_range(random, 0, header)] =
                g_rand_boolean(random) ? g_rand_int_range(random, '0', '9' + 1)
                                       : g_rand_int_range(random, 0, 256);
        gchar *bad = write_bytes("bad", copy, size);
        Run *pull = demux(PULL, bad, ""), *push = demux(PUSH, bad, "");
        fail_unless(g_strcmp0(pull->error, push->error) == 0, "%s | %s",
                    pull->error, push->error);
        fail_unless_equals_int(pull->buffers->len, push->buffers->len);
        fail_unless((pull->buffers->len > 0) == pull->eos);
        run_free(pull);
        run_free(push);
        g_free(bad);
        g_free(copy);
    }
    g_rand_free(random);
    g_bytes_unref(good);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_push_limit)
{
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    GBytes *bytes = read_bytes(path);
    const gsize size = g_bytes_get_size(bytes);
    gchar *exact = g_strdup_printf("max-push-size=%" G_GSIZE_FORMAT, size);
    gchar *less = g_strdup_printf("max-push-size=%" G_GSIZE_FORMAT, size - 1);
    Run *run = demux(PUSH, path, exact);
    assert_clip(run, &small, 0);
    run_free(run);
    run = demux(PUSH, path, less);
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX,
                 "max-push-size");
    fail_unless_equals_int(run->buffers->len, 0);
    run_free(run);
    run = demux(PULL, path, less); /* does not matter here */
    assert_clip(run, &small, 0);
    run_free(run);
    g_free(less);
    g_free(exact);
    g_bytes_unref(bytes);
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_shrinking_file)
{
    const Clip clip = {VAE_TYPE_F32, 6, 16, 8, 8};
    gchar *path = write_clip("a", "latent", &clip, TCHW, NULL, 0);
    GBytes *bytes = read_bytes(path);
    Run *run = run_preroll(path, "", "");
    fail_unless(
        truncate(path, g_bytes_get_size(bytes) - 2 * step_bytes(&clip)) == 0);
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
    run_wait(run);
    assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_DEMUX, "got shorter");
    fail_unless_equals_int(run->buffers->len, 4);
    run_free(run);
    g_bytes_unref(bytes);
    g_free(path);
}
GST_END_TEST

/* Flow ------------------------------------------------------------------ */

GST_START_TEST(test_downstream_ends)
{
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = run_all("filesrc location=%s ! %s latentdemux ! "
                           "identity eos-after=3 ! fakesink name=sink",
                           path, way == PUSH ? "queue !" : "");
        fail_unless(run->eos && !run->error, "%s", run->error);
        fail_unless_equals_int(run->buffers->len, 2);
        run_free(run);
    }
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_downstream_fails)
{
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = run_all("filesrc location=%s ! %s latentdemux ! "
                           "identity error-after=2 ! fakesink name=sink",
                           path, way == PUSH ? "queue !" : "");
        fail_unless(run->error != NULL);
        fail_unless(g_str_has_prefix(run->source, "identity"), "%s",
                    run->source);
        run_free(run);
        run = run_all("filesrc location=%s ! %s latentdemux", path,
                      way == PUSH ? "queue !" : "");
        assert_error(run, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, "");
        run_free(run);
    }
    g_free(path);
}
GST_END_TEST

GST_START_TEST(test_states)
{
    const Clip other = {VAE_TYPE_F16, 9, 24, 2, 2};
    gchar *path = write_clip("a", "latent", &small, CTHW, NULL, 0);
    gchar *second = write_clip("b", "latent", &other, TCHW, NULL, 0);
    for (gint way = PULL; way <= PUSH; way++) {
        Run *run = run_new("filesrc name=src location=%s ! %s latentdemux ! "
                           "fakesink name=sink",
                           path, way == PUSH ? "queue !" : "");
        GstElement *src = gst_bin_get_by_name(GST_BIN(run->pipeline), "src");
        for (gint i = 0; i < 10; i++) {
            gst_element_set_state(run->pipeline, GST_STATE_PAUSED);
            if (i % 2)
                gst_element_get_state(run->pipeline, NULL, NULL,
                                      GST_CLOCK_TIME_NONE);
            gst_element_set_state(run->pipeline,
                                  i % 3 ? GST_STATE_READY : GST_STATE_NULL);
        }
        g_ptr_array_set_size(run->buffers, 0);
        g_object_set(src, "location", second, NULL);
        gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
        run_wait(run);
        assert_clip(run, &other, 0);
        gst_object_unref(src);
        run_free(run);
    }
    g_free(second);
    g_free(path);
}
GST_END_TEST

/* Stops while the sink waits for the clock, so the task sits in a push. */
GST_START_TEST(test_stop_while_playing)
{
    const Clip clip = {VAE_TYPE_F32, 200, 16, 4, 4};
    gchar *path = write_clip("a", "latent", &clip, CTHW, NULL, 0);
    for (gint i = 0; i < 5; i++) {
        Run *run = run_new("filesrc location=%s ! latentdemux ! "
                           "fakesink name=sink",
                           path);
        GstElement *sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
        g_object_set(sink, "sync", TRUE, NULL);
        gst_object_unref(sink);
        gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
        g_usleep(20000);
        run_free(run);
    }
    g_free(path);
}
GST_END_TEST

static Suite *
latentdemux_suite(void)
{
    Suite *suite = suite_create("latentdemux");
    TCase *tcase = latent_tcase(suite, "contents");
    tcase_add_test(tcase, test_types_and_layouts);
    tcase_add_test(tcase, test_npy);
    tcase_add_test(tcase, test_sizes);
    tcase_add_test(tcase, test_batch);
    tcase_add_test(tcase, test_tensor);
    tcase = latent_tcase(suite, "caps and times");
    tcase_add_test(tcase, test_metadata);
    tcase_add_test(tcase, test_bad_metadata);
    tcase_add_test(tcase, test_long_space);
    tcase_add_test(tcase, test_times);
    tcase_add_test(tcase, test_usual_times);
    tcase_add_test(tcase, test_silent_file);
    tcase_add_test(tcase, test_seqnum);
    tcase_add_test(tcase, test_overruled);
    tcase_add_test(tcase, test_rates);
    tcase_add_test(tcase, test_comfyui);
    tcase = latent_tcase(suite, "errors");
    tcase_add_test(tcase, test_broken_files);
    tcase_add_test(tcase, test_wrong_tensors);
    tcase_add_test(tcase, test_error_names_file);
    tcase_add_test(tcase, test_mutations);
    tcase_add_test(tcase, test_push_limit);
    tcase_add_test(tcase, test_shrinking_file);
    tcase = latent_tcase(suite, "flow");
    tcase_add_test(tcase, test_downstream_ends);
    tcase_add_test(tcase, test_downstream_fails);
    tcase_add_test(tcase, test_states);
    tcase_add_test(tcase, test_stop_while_playing);
    return suite;
}

int
main(int argc, char **argv)
{
    gst_check_init(&argc, &argv);
    return latent_main(argc, argv, latentdemux_suite());
}
