/*
 * test_formats.c: compares every raw format in both directions with
 * GStreamer's own converter: planes, the order of colours, depths, matrices,
 * ranges and chroma sites.
 */
#include "vae_test.h"

#include "vae-private/tensors.h"

/* Latents of LW x LH decode to a picture of W x H, which is cropped to odd
 * sizes. */
#define LW 7
#define LH 5
#define W 53
#define H 37

static const char *const formats[] = {
    "RGB",       "BGR",       "RGBA",     "BGRA",     "RGBx", "BGRx",
    "GBR",       "I420",      "YV12",     "NV12",     "Y42B", "Y444",
    "P010_10LE", "I420_10LE", "GBR_10LE", "GBR_12LE",
#if GST_CHECK_VERSION(1, 24, 0)
    "GBR_16LE",
#endif
};

/* Matrices and ranges, by range:matrix:transfer:primaries. */
static const char *const yuv_colours[] = {"2:4:16:4", "1:4:16:4", "2:3:5:1",
                                          "1:3:5:1",  "2:6:13:7", "1:6:13:7"};
static const char *const rgb_colours[] = {"1:1:7:1", "2:1:7:1"};
static const char *const sites[] = {"mpeg2", "jpeg", "cosited"};

static GstVideoInfo
info_of(const char *format, const char *colour, const char *site)
{
    g_autofree gchar *text = g_strdup_printf(
        "video/x-raw,format=%s,width=%d,height=%d,framerate=16/1,"
        "interlace-mode=progressive%s%s%s%s",
        format, W, H, colour ? ",colorimetry=" : "", colour ? colour : "",
        site ? ",chroma-site=" : "", site ? site : "");
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    GstVideoInfo info;
    CHECK(gst_video_info_from_caps(&info, caps));
    return info;
}

/* Returns the first frame of the latents in this format. */
static GstBuffer *
decode(const GstVideoInfo *info)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autofree gchar *more = g_strdup_printf(",width=%d,height=%d", W, H);
    g_autofree gchar *in = vae_test_latent_caps(LW, LH, more);
    GstCaps *caps = gst_video_info_to_caps((GstVideoInfo *) info), *out;
    gst_harness_set_sink_caps(h, gst_caps_ref(caps));
    gst_harness_set_src_caps_str(h, in);
    vae_test_push_latents(h, LW, LH, 0, 1);
    GstBuffer *frame = vae_test_pull(h);
    out = gst_pad_get_current_caps(h->sinkpad);
    CHECK(gst_caps_can_intersect(out, caps));
    gst_caps_unref(out);
    gst_caps_unref(caps);
    return frame;
}

static GstBuffer *
convert(GstBuffer *from, const GstVideoInfo *in, const GstVideoInfo *out)
{
    GstVideoConverter *converter = gst_video_converter_new(
        in, out,
        gst_structure_new("options", GST_VIDEO_CONVERTER_OPT_DITHER_METHOD,
                          GST_TYPE_VIDEO_DITHER_METHOD, GST_VIDEO_DITHER_NONE,
                          GST_VIDEO_CONVERTER_OPT_DITHER_QUANTIZATION,
                          G_TYPE_UINT, 1, NULL));
    GstBuffer *to = gst_buffer_new_allocate(NULL, out->size, NULL);
    GstVideoFrame a, b;
    CHECK(converter != NULL);
    CHECK(gst_video_frame_map(&a, in, from, GST_MAP_READ));
    CHECK(gst_video_frame_map(&b, out, to, GST_MAP_WRITE));
    gst_video_converter_frame(converter, &a, &b);
    gst_video_frame_unmap(&a);
    gst_video_frame_unmap(&b);
    gst_video_converter_free(converter);
    return to;
}

/* Returns component c of a pixel, at the place that GStreamer states for the
 * format. For P010 this place is wrong for V: it is in the middle between two
 * U. */
static gint
code_at(const GstVideoFrame *f, guint c, gint x, gint y)
{
    const gint step = GST_VIDEO_FRAME_COMP_PSTRIDE(f, c);
    const gboolean beside =
        c == 2 && GST_VIDEO_INFO_IS_YUV(&f->info) &&
        GST_VIDEO_FRAME_COMP_PLANE(f, 1) == GST_VIDEO_FRAME_COMP_PLANE(f, 2);
    const guint8 *data = GST_VIDEO_FRAME_COMP_DATA(f, beside ? 1 : c);
    const guint8 *at = data + (beside ? step / 2 : 0) +
                       y * GST_VIDEO_FRAME_COMP_STRIDE(f, c) + x * step;
    if (GST_VIDEO_FRAME_COMP_DEPTH(f, c) == 8)
        return *at;
    return GST_READ_UINT16_LE(at) >>
           GST_VIDEO_FORMAT_INFO_SHIFT(f->info.finfo, c);
}

/* Returns the largest difference of a code in the components from `first` on,
 * in steps of 8 bits. */
static gdouble
difference(const GstVideoInfo *info, GstBuffer *one, GstBuffer *two,
           guint first)
{
    GstVideoFrame a, b;
    gdouble most = 0;
    CHECK(gst_video_frame_map(&a, info, one, GST_MAP_READ));
    CHECK(gst_video_frame_map(&b, info, two, GST_MAP_READ));
    for (guint c = first; c < 3; c++)
        for (gint y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&a, c); y++)
            for (gint x = 0; x < GST_VIDEO_FRAME_COMP_WIDTH(&a, c); x++) {
                const gint d = code_at(&a, c, x, y) - code_at(&b, c, x, y);
                const gint depth = GST_VIDEO_FRAME_COMP_DEPTH(&a, c);
                most = MAX(most, abs(d) / (gdouble) (1 << (depth - 8)));
            }
    gst_video_frame_unmap(&a);
    gst_video_frame_unmap(&b);
    return most;
}

/* Converts codes to the limited range, which GStreamer does not make for
 * RGB. */
static void
limit(const GstVideoInfo *info, GstBuffer *buffer)
{
    GstMapInfo map;
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_READWRITE));
    if (GST_VIDEO_INFO_COMP_DEPTH(info, 0) == 8) {
        for (gsize i = 0; i < map.size; i++)
            map.data[i] = (guint8) lrint(16 + map.data[i] * 219 / 255.0);
    } else {
        const gdouble scale = 1 << (GST_VIDEO_INFO_COMP_DEPTH(info, 0) - 8);
        for (gsize i = 0; i < map.size / 2; i++) {
            guint16 *code = (guint16 *) map.data + i;
            *code = (guint16) lrint(16 * scale +
                                    *code * 219 * scale / (256 * scale - 1));
        }
    }
    gst_buffer_unmap(buffer, &map);
}

static gboolean
is_limited_rgb(const GstVideoInfo *info)
{
    return GST_VIDEO_INFO_IS_RGB(info) &&
           info->colorimetry.range == GST_VIDEO_COLOR_RANGE_16_235;
}

/* Chroma that is on a row: GStreamer takes this row alone, but the elements
 * weight it and its neighbours 1 2 1. */
static gboolean
on_row(const GstVideoInfo *info, const char *site)
{
    return g_strcmp0(site, "cosited") == 0 &&
           GST_VIDEO_INFO_COMP_HEIGHT(info, 1) < GST_VIDEO_INFO_HEIGHT(info);
}

static void
expect(gboolean ok, const char *format, const char *colour, const char *site,
       gdouble found)
{
    if (!ok)
        g_printerr("%s %s %s: %f apart\n", format, colour, site ? site : "",
                   found);
    CHECK(ok);
}

/* Weights each row of an RGB picture and its neighbours 1 2 1. */
static GstBuffer *
smooth(GstBuffer *rgb, const GstVideoInfo *info)
{
    GstBuffer *copy = gst_buffer_copy_deep(rgb);
    GstVideoFrame from, to;
    CHECK(gst_video_frame_map(&from, info, rgb, GST_MAP_READ));
    CHECK(gst_video_frame_map(&to, info, copy, GST_MAP_WRITE));
    for (gint y = 0; y < H; y++)
        for (gint x = 0; x < 3 * W; x++) {
            const gint stride = GST_VIDEO_FRAME_PLANE_STRIDE(&from, 0);
            const guint8 *data = GST_VIDEO_FRAME_PLANE_DATA(&from, 0);
            const gint sum = data[MAX(y - 1, 0) * stride + x] +
                             2 * data[y * stride + x] +
                             data[MIN(y + 1, H - 1) * stride + x];
            ((guint8 *) GST_VIDEO_FRAME_PLANE_DATA(&to, 0))[y * stride + x] =
                (guint8) ((sum + 2) / 4);
        }
    gst_video_frame_unmap(&from);
    gst_video_frame_unmap(&to);
    return copy;
}

/* A bound of two codes of 8 bits, because GStreamer rounds more than once. */
static void
check_decode(GstBuffer *rgb, const GstVideoInfo *rgb_info, const char *format,
             const char *colour, const char *site)
{
    const GstVideoInfo info = info_of(format, colour, site);
    const gboolean row = on_row(&info, site);
    g_autoptr(GstBuffer) source =
        row ? smooth(rgb, rgb_info) : gst_buffer_ref(rgb);
    g_autoptr(GstBuffer) expected = convert(source, rgb_info, &info);
    g_autoptr(GstBuffer) found = decode(&info);
    if (is_limited_rgb(&info))
        limit(&info, expected);
    gdouble d = difference(&info, expected, found, row ? 1 : 0);
    expect(d <= 2, format, colour, site, d);
}

/* Returns the latent of one frame. */
static GstBuffer *
encode(const GstVideoInfo *info, GstBuffer *frame)
{
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstCaps *caps = gst_video_info_to_caps((GstVideoInfo *) info);
    gst_harness_set_src_caps(h, caps);
    CHECK_INT(gst_harness_push(h, gst_buffer_copy(frame)), GST_FLOW_OK);
    return vae_test_pull(h);
}

/* Returns the distance of a and b, relative to b. */
static gdouble
apart(GstBuffer *a, GstBuffer *b)
{
    gdouble far = 0, all = 0;
    GstMapInfo x, y;
    CHECK(gst_buffer_map(a, &x, GST_MAP_READ));
    CHECK(gst_buffer_map(b, &y, GST_MAP_READ));
    CHECK_INT(x.size, y.size);
    for (gsize i = 0; i < x.size / 4; i++) {
        const gdouble v = ((float *) y.data)[i];
        const gdouble d = ((float *) x.data)[i] - v;
        far += d * d;
        all += v * v;
    }
    gst_buffer_unmap(a, &x);
    gst_buffer_unmap(b, &y);
    return sqrt(far / all);
}

/* The latents of a picture are like those of the RGB picture that GStreamer
 * converts it to; a wrong order or matrix would differ more. If chroma is on a
 * row, they differ from the latents of another site. */
static void
check_encode(GstBuffer *rgb, const GstVideoInfo *rgb_info, const char *format,
             const char *colour, const char *site)
{
    const GstVideoInfo info = info_of(format, colour, site);
    g_autoptr(GstBuffer) frame = convert(rgb, rgb_info, &info);
    g_autoptr(GstBuffer) back = convert(frame, &info, rgb_info);
    const gboolean row = on_row(&info, site);
    const GstVideoInfo other = info_of(format, colour, sites[0]);
    g_autoptr(GstBuffer) expected =
        row ? encode(&other, frame) : encode(rgb_info, back),
                         found = NULL;
    if (is_limited_rgb(&info))
        limit(&info, frame);
    found = encode(&info, frame);
    gdouble d = apart(found, expected);
    expect(row ? d > 0.05 : d <= 0.03, format, colour, site, d);
}

typedef void (*Check)(GstBuffer *rgb, const GstVideoInfo *rgb_info,
                      const char *format, const char *colour, const char *site);

/* Tests every colorimetry with the first site, and every site with the first
 * colorimetry. */
static void
each(const char *rgb_format, Check check)
{
    const GstVideoInfo rgb_info = info_of(rgb_format, NULL, NULL);
    g_autoptr(GstBuffer) rgb = decode(&rgb_info);
    for (guint i = 0; i < G_N_ELEMENTS(formats); i++) {
        const GstVideoInfo info = info_of(formats[i], NULL, NULL);
        const gboolean yuv = GST_VIDEO_INFO_IS_YUV(&info);
        const gboolean sited = yuv && GST_VIDEO_INFO_COMP_WIDTH(&info, 1) < W;
        const char *const *colours = yuv ? yuv_colours : rgb_colours;
        const guint n =
            yuv ? G_N_ELEMENTS(yuv_colours) : G_N_ELEMENTS(rgb_colours);
        for (guint j = 0; j < n; j++)
            check(rgb, &rgb_info, formats[i], colours[j],
                  sited ? sites[0] : NULL);
        for (guint j = 1; sited && j < G_N_ELEMENTS(sites); j++)
            check(rgb, &rgb_info, formats[i], colours[0], sites[j]);
    }
}

TEST(decode)
{
    each("RGB", check_decode);
}

TEST(encode)
{
    each("GBR_12LE", check_encode);
}

/* Returns the last picture of a pipeline, as RGB. */
static GstSample *
play(const char *format, gchar **taken)
{
    g_autofree gchar *text = g_strdup_printf(
        "videotestsrc num-buffers=5 pattern=ball ! video/x-raw%s ! "
        "videoconvert dither=none ! "
        "video/x-raw%s%s,width=%d,height=%d,framerate=16/1 ! "
        "vaeencode name=e model=\"%s\" backend=ref ! "
        "vaedecode model=\"%s\" backend=ref ! video/x-raw%s%s ! "
        "videoconvert dither=none ! video/x-raw,format=RGB ! "
        "fakesink name=s sync=false enable-last-sample=true",
        format ? ",format=RGB" : "", format ? ",format=" : "",
        format ? format : "", W, H, vae_test_weights(), vae_test_weights(),
        format ? ",format=" : "", format ? format : "");
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    g_autoptr(GstElement) encoder = gst_bin_get_by_name(GST_BIN(pipeline), "e");
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "s");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(encoder, "sink");
    GstSample *sample = NULL;
    vae_test_play(pipeline);
    g_object_get(sink, "last-sample", &sample, NULL);
    CHECK(sample != NULL);
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    *taken = g_strdup(
        gst_structure_get_string(gst_caps_get_structure(caps, 0), "format"));
    gst_element_set_state(pipeline, GST_STATE_NULL);
    return sample;
}

/* The allowed mean difference, in codes, of a pipeline in this format and one
 * in RGB. The decoder's input has few bits, and YUV loses chroma detail of the
 * noise from generated weights. */
static gdouble
allowed(const char *format)
{
    const GstVideoInfo info = info_of(format, NULL, NULL);
    if (GST_VIDEO_INFO_IS_RGB(&info))
        return GST_VIDEO_INFO_COMP_DEPTH(&info, 0) == 8 ? 0 : 1;
    return GST_VIDEO_INFO_COMP_WIDTH(&info, 1) == W ? 4 : 15;
}

/* Returns the mean difference of two RGB pictures, without the padding of
 * rows. */
static gdouble
mean_difference(GstSample *one, GstSample *two)
{
    GstVideoInfo info;
    GstVideoFrame a, b;
    gdouble sum = 0;
    CHECK(gst_video_info_from_caps(&info, gst_sample_get_caps(one)));
    CHECK(gst_video_frame_map(&a, &info, gst_sample_get_buffer(one),
                              GST_MAP_READ));
    CHECK(gst_video_frame_map(&b, &info, gst_sample_get_buffer(two),
                              GST_MAP_READ));
    for (gint y = 0; y < H; y++)
        for (gint x = 0; x < W; x++)
            for (guint c = 0; c < 3; c++)
                sum += abs(code_at(&a, c, x, y) - code_at(&b, c, x, y));
    gst_video_frame_unmap(&a);
    gst_video_frame_unmap(&b);
    return sum / (3 * W * H);
}

/* A pipeline in every format gives nearly the picture of one in RGB. */
TEST(pipelines)
{
    gchar *taken;
    g_autoptr(GstSample) rgb = play("RGB", &taken);
    g_free(taken);
    for (guint i = 0; i < G_N_ELEMENTS(formats); i++) {
        g_autoptr(GstSample) sample = play(formats[i], &taken);
        const gdouble far = mean_difference(rgb, sample);
        CHECK(g_strcmp0(taken, formats[i]) == 0);
        expect(far <= allowed(formats[i]), formats[i], "", NULL, far);
        g_free(taken);
    }
}

/* Copies a tensor with one more colour, a copy of the first: `outer` copies of
 * a row of three colours. */
static void
add_colour(VaeTensorOut *t, gint dim, guint8 **data)
{
    gsize inner = vae_type_size(t->type), outer = 1;
    for (gint d = 0; d < t->n_dims; d++)
        if (d < dim)
            outer *= (gsize) t->dims[d];
        else if (d > dim)
            inner *= (gsize) t->dims[d];
    *data = g_malloc(outer * inner * 4);
    for (gsize i = 0; i < outer; i++) {
        const guint8 *from = (const guint8 *) t->data + i * inner * 3;
        memcpy(*data + i * inner * 4, from, inner * 3);
        memcpy(*data + i * inner * 4 + inner * 3, from, inner);
    }
    t->dims[dim] = 4;
    t->data = *data;
}

/* Weights of Wan2.1 whose pictures have alpha: a copy of red. */
static const gchar *
weights_with_alpha(void)
{
    static const gchar *const layers[] = {
        "decoder.head.2.weight", "decoder.head.2.bias", "encoder.conv1.weight"};
    const gchar *path = vae_test_path("alpha.safetensors");
    guint8 *data[3] = {NULL};
    VaeTensorFile *file = NULL;
    VaeError error = {0};
    CHECK_SAYS(vae_tensor_file_open(vae_test_weights(), &file, &error) ==
                   VAE_OK,
               "%s", error.message);
    const gsize n = vae_tensor_file_count(file);
    g_autofree VaeTensorOut *out = g_new0(VaeTensorOut, n);
    for (gsize i = 0; i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        out[i] = (VaeTensorOut){.name = t->name,
                                .type = t->type,
                                .n_dims = t->n_dims,
                                .data = t->data};
        memcpy(out[i].dims, t->dims, sizeof t->dims);
        for (gint k = 0; k < 3; k++)
            if (strcmp(t->name, layers[k]) == 0)
                add_colour(&out[i], k < 2 ? 0 : 1, &data[k]);
    }
    CHECK_SAYS(vae_tensor_file_write(path, out, n, NULL, 0, &error) == VAE_OK,
               "%s", error.message);
    for (gint k = 0; k < 3; k++)
        g_free(data[k]);
    vae_tensor_file_free(&file);
    return path;
}

/* The decoder prefers RGBA; its alpha is the network's. The encoder posts no
 * WARNING for alpha. */
TEST(alpha)
{
    const gchar *model = weights_with_alpha();
    g_autofree gchar *text = g_strdup_printf(
        "videotestsrc num-buffers=5 pattern=ball foreground-color=0x80ffffff ! "
        "video/x-raw,format=RGBA,width=%d,height=%d,framerate=16/1 ! "
        "vaeencode model=\"%s\" backend=ref ! "
        "vaedecode model=\"%s\" backend=ref ! "
        "fakesink name=s sync=false enable-last-sample=true",
        W, H, model, model);
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "s");
    g_autoptr(GstSample) sample = NULL;
    GstVideoInfo info;
    GstVideoFrame frame;
    gint clear = 0;
    vae_test_play(pipeline);
    g_object_get(sink, "last-sample", &sample, NULL);
    CHECK(sample != NULL);
    CHECK(gst_video_info_from_caps(&info, gst_sample_get_caps(sample)));
    CHECK_INT(GST_VIDEO_INFO_FORMAT(&info), GST_VIDEO_FORMAT_RGBA);
    CHECK(gst_video_frame_map(&frame, &info, gst_sample_get_buffer(sample),
                              GST_MAP_READ));
    for (gint y = 0; y < H; y++)
        for (gint x = 0; x < W; x++) {
            const guint8 *pixel =
                (const guint8 *) GST_VIDEO_FRAME_PLANE_DATA(&frame, 0) +
                y * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0) + 4 * x;
            CHECK_INT(pixel[3], pixel[0]);
            clear += pixel[3] != 255;
        }
    CHECK(clear > 0);
    gst_video_frame_unmap(&frame);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

/* A format without alpha: one WARNING says so. */
TEST(alpha_lost)
{
    g_autofree gchar *text = g_strdup_printf(
        "videotestsrc num-buffers=9 ! "
        "video/x-raw,format=RGBA,width=%d,height=%d,framerate=16/1 ! "
        "vaeencode model=\"%s\" backend=ref ! "
        "vaedecode model=\"%s\" backend=ref ! video/x-raw,format=I420 ! "
        "fakesink sync=false",
        W, H, weights_with_alpha(), vae_test_path("alpha.safetensors"));
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    gint told = 0;
    GstMessage *message;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    while ((message = gst_bus_timed_pop_filtered(
                bus, 60 * GST_SECOND,
                GST_MESSAGE_WARNING | GST_MESSAGE_EOS | GST_MESSAGE_ERROR))) {
        const GstMessageType type = GST_MESSAGE_TYPE(message);
        g_autoptr(GError) warning = NULL;
        CHECK(type != GST_MESSAGE_ERROR);
        if (type == GST_MESSAGE_WARNING) {
            gst_message_parse_warning(message, &warning, NULL);
            told += strstr(warning->message, "alpha, which is lost") != NULL;
        }
        gst_message_unref(message);
        if (type == GST_MESSAGE_EOS)
            break;
    }
    CHECK_INT(told, 1);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

/* If downstream accepts every format, it gets the first format of the first
 * group. */
TEST(preferred)
{
    static const char *const choices[][2] = {
        {"video/x-raw", "I420"},
        {"video/x-raw,format={Y444,GBR_12LE,NV12}", "NV12"},
        {"video/x-raw,format={GBR_12LE,P010_10LE,Y444}", "Y444"},
        {"video/x-raw,format=YV12", "YV12"},
    };
    static const char *const usual[] = {"I420", "NV12", "RGB",
                                        "RGBA", "BGRx", NULL};
    g_autofree gchar *taken = NULL;
    for (guint i = 0; i < G_N_ELEMENTS(choices); i++) {
        SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
        g_autofree gchar *in = vae_test_latent_caps(LW, LH, NULL);
        gst_harness_set_sink_caps_str(h, choices[i][0]);
        gst_harness_set_src_caps_str(h, in);
        vae_test_push_latents(h, LW, LH, 0, 1);
        gst_buffer_unref(vae_test_pull(h));
        g_autoptr(GstCaps) out = gst_pad_get_current_caps(h->sinkpad);
        CHECK(g_strcmp0(gst_structure_get_string(gst_caps_get_structure(out, 0),
                                                 "format"),
                        choices[i][1]) == 0);
    }
    gst_sample_unref(play(NULL, &taken));
    CHECK(g_strv_contains(usual, taken));
}
