/*
 * test_cuda.c: frames in CUDAMemory, and the shared context.
 *
 * With VAE_CUDA_MODULE, tests the emulated device and its driver. Without it,
 * tests a machine without a device.
 */
#include "vae_test.h"

#include <dlfcn.h>
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>
#include "vae-private/stream.h"

#define LW 3
#define LH 2
#define WIDTH 23
#define HEIGHT 15
#define LATENTS 3
#define FRAMES (1 + 4 * (LATENTS - 1))

#define SYSTEM "video/x-raw, format=NV12"
#define CUDA "video/x-raw(memory:CUDAMemory), format=NV12"

static gboolean
on_device(void)
{
    return g_getenv("VAE_CUDA_MODULE") != NULL;
}

/* Returns a count of the driver, whose library stays open. */
static int
driver_count(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *symbol;
    int (*count)(void);
    CHECK(driver != NULL);
    symbol = dlsym(driver, name);
    CHECK(symbol != NULL);
    memcpy(&count, &symbol, sizeof count);
    return count();
}

static GstHarness *
decoder(const gchar *backend, const gchar *downstream)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", 2, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", backend);
    gst_util_set_object_arg(G_OBJECT(h->element), "precision", "fp32");
    gst_harness_set_sink_caps_str(h, downstream);
    return h;
}

static void
start(GstHarness *h)
{
    vae_test_set_latents(h, LW, LH, ", width=23, height=15");
    vae_test_push_latents(h, LW, LH, 0, LATENTS);
}

/* Returns TRUE if the frames are in CUDAMemory. */
static gboolean
gives_cuda(GstHarness *h)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(h->sinkpad);
    CHECK(caps != NULL);
    return gst_caps_features_contains(gst_caps_get_features(caps, 0),
                                      GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY);
}

static void
add_frame(GChecksum *sum, GstBuffer *buffer, const GstVideoInfo *info)
{
    GstVideoFrame frame;
    CHECK(gst_video_frame_map(&frame, info, buffer, GST_MAP_READ));
    for (guint plane = 0; plane < 2; plane++)
        for (gint y = 0; y < (plane ? (HEIGHT + 1) / 2 : HEIGHT); y++)
            g_checksum_update(
                sum,
                (guint8 *) GST_VIDEO_FRAME_PLANE_DATA(&frame, plane) +
                    y * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane),
                plane ? (WIDTH + 1) / 2 * 2 : WIDTH);
    gst_video_frame_unmap(&frame);
}

/* Returns the visible bytes of all frames in NV12. context: of their memory, or
 * NULL for host memory. */
static gchar *
pull(GstHarness *h, GstCudaContext *context)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    GstCaps *caps = NULL;
    GstVideoInfo info;
    for (guint i = 0; i < FRAMES; i++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(h);
        CHECK(buffer != NULL);
        if (!caps)
            caps = gst_pad_get_current_caps(h->sinkpad);
        CHECK(gst_video_info_from_caps(&info, caps));
        CHECK_INT(GST_BUFFER_PTS(buffer), vae_test_time(i));
        GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
        CHECK_INT(gst_is_cuda_memory(memory), context != NULL);
        CHECK(!context || GST_CUDA_MEMORY_CAST(memory)->context == context);
        add_frame(sum, buffer, &info);
    }
    gst_caps_unref(caps);
    return g_strdup(g_checksum_get_string(sum));
}

/* Returns the context with which the element at a harness's pad answers. */
static GstCudaContext *
context_of(GstPad *pad)
{
    g_autoptr(GstQuery) query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
    GstCudaContext *cuda = NULL;
    GstContext *context = NULL;
    if (gst_pad_peer_query(pad, query)) {
        gst_query_parse_context(query, &context);
        gst_structure_get(gst_context_get_structure(context),
                          GST_CUDA_CONTEXT_TYPE, GST_TYPE_CUDA_CONTEXT, &cuda,
                          NULL);
    }
    return cuda;
}

/* Sets three overlapping tiles. */
static void
set_tiles(GstHarness *h)
{
    g_object_set(h->element, "tile-width", 16, "tile-height", 16,
                 "tile-overlap", 8, NULL);
    gst_util_set_object_arg(G_OBJECT(h->element), "tiles", "blend");
}

static gchar *
decode_system(gboolean tiles)
{
    SCOPED GstHarness *h = decoder(on_device() ? "cuda" : "ref", SYSTEM);
    if (tiles)
        set_tiles(h);
    start(h);
    gchar *sum = pull(h, NULL);
    CHECK(!gives_cuda(h));
    return sum;
}

static gboolean
had(GstBus *bus, GstMessageType type)
{
    GstMessage *message = gst_bus_pop_filtered(bus, type);
    if (!message)
        return FALSE;
    gst_message_unref(message);
    return TRUE;
}

/* Checks that since `before` the device has waited for an event of each of n
 * frames, and that these events are freed. */
static void
check_waits(const int before[2], int n)
{
    /* A pool that measures a frame waits once before it frees the frame. */
    CHECK(driver_count("emu_driver_waits") - before[0] <= 1);
    CHECK_INT(driver_count("emu_driver_events"), before[1] + n);
    CHECK_INT(driver_count("emu_driver_events_alive"), 0);
}

/* The element asks for a context, creates one and posts it. The engine writes
 * the frames itself, each after earlier reads of its memory. */
TEST(decode)
{
    int before, waits[2];
    if (!on_device())
        return;
    GstHarness *h = decoder("cuda", CUDA);
    GstBus *bus = vae_test_bus(h);
    before = driver_count("emu_driver_copies");
    waits[0] = driver_count("emu_driver_waits");
    waits[1] = driver_count("emu_driver_events");
    start(h);
    while (gst_harness_buffers_in_queue(h) < FRAMES)
        g_usleep(1000);
    CHECK_INT(driver_count("emu_driver_copies"), before);
    check_waits(waits, FRAMES);
    CHECK(gives_cuda(h));
    CHECK(had(bus, GST_MESSAGE_NEED_CONTEXT));
    CHECK(had(bus, GST_MESSAGE_HAVE_CONTEXT));
    GstCudaContext *context = context_of(h->sinkpad);
    CHECK(context != NULL);
    gchar *sum = pull(h, context);
    gst_object_unref(context);
    vae_test_teardown(h);
    vae_test_same(sum, decode_system(FALSE));
}

/* Tiles are blended in host memory, and copied to the device. */
TEST(decode_tiles)
{
    if (!on_device())
        return;
    GstHarness *h = decoder("cuda", CUDA);
    set_tiles(h);
    start(h);
    while (gst_harness_buffers_in_queue(h) < FRAMES)
        g_usleep(1000);
    CHECK(gives_cuda(h));
    CHECK_INT(vae_test_stat(h, "tiles"), 3);
    GstCudaContext *context = context_of(h->sinkpad);
    CHECK(context != NULL);
    gchar *sum = pull(h, context);
    gst_object_unref(context);
    vae_test_teardown(h);
    g_autofree gchar *whole = decode_system(FALSE);
    CHECK(strcmp(sum, whole) != 0);
    vae_test_same(sum, decode_system(TRUE));
}

/* The element uses the context of a neighbour, and the bytes are the same. */
TEST(decode_other_context)
{
    if (!on_device())
        return;
    CHECK(gst_cuda_load_library());
    GstCudaContext *other = gst_cuda_context_new(0);
    CHECK(other != NULL);
    GstContext *context = gst_context_new_cuda_context(other);
    GstHarness *h = decoder("cuda", CUDA);
    GstBus *bus = vae_test_bus(h);
    gst_element_set_context(h->element, context);
    gst_context_unref(context);
    start(h);
    gchar *sum = pull(h, other);
    CHECK(!had(bus, GST_MESSAGE_NEED_CONTEXT));
    CHECK(!had(bus, GST_MESSAGE_HAVE_CONTEXT));
    vae_test_teardown(h);
    gst_object_unref(other);
    vae_test_same(sum, decode_system(FALSE));
}

/* System memory is the default. */
TEST(choice)
{
    const gchar *const system[][2] = {
        {"cuda", SYSTEM "; " CUDA},
        {"cuda", "ANY"},
        {"ref", CUDA "; " SYSTEM},
    };
    for (guint i = 0; i < G_N_ELEMENTS(system); i++) {
        if (!on_device() && i < 2)
            continue;
        SCOPED GstHarness *h = decoder(system[i][0], system[i][1]);
        start(h);
        gst_buffer_unref(vae_test_pull(h));
        CHECK(!gives_cuda(h));
    }
}

/* Without a device, auto uses system memory. If downstream does not accept it,
 * there is an error. */
/* Downstream accepts only CUDAMemory, which this backend cannot give. */
static void
check_none(const gchar *backend, const char *word)
{
    g_autofree gchar *caps = vae_test_latent_caps(LW, LH, NULL);
    SCOPED GstHarness *h = decoder(backend, CUDA);
    vae_test_start(h, caps);
    vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION, word,
                          "memory:CUDAMemory");
}

TEST(without_device)
{
    check_none("ref", "backend=ref");
    if (vae_backend_available(VAE_BACKEND_CUDA, NULL, 0))
        return;
    GstHarness *h = decoder("auto", CUDA "; " SYSTEM);
    start(h);
    gst_buffer_unref(vae_test_pull(h));
    CHECK(!gives_cuda(h));
    vae_test_teardown(h);
    check_none("auto", "for memory:CUDAMemory ");
    check_none("cuda", "for memory:CUDAMemory ");
}

static GstHarness *
encoder(const gchar *caps, gboolean tiles)
{
    GstHarness *h = vae_test_harness("vaeencode", NULL);
    g_autofree gchar *all = g_strdup_printf(
        "%s, width=%d, height=%d, framerate=16/1", caps, WIDTH, HEIGHT);
    gst_util_set_object_arg(G_OBJECT(h->element), "backend", "cuda");
    gst_util_set_object_arg(G_OBJECT(h->element), "precision", "fp32");
    if (tiles)
        set_tiles(h);
    gst_harness_set_src_caps_str(h, all);
    return h;
}

/* Returns the pool that the element proposes, active. */
static GstBufferPool *
proposed_pool(GstHarness *h)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(h->srcpad);
    g_autoptr(GstQuery) query = gst_query_new_allocation(caps, TRUE);
    GstBufferPool *pool = NULL;
    CHECK(gst_pad_peer_query(h->srcpad, query));
    CHECK(gst_query_get_n_allocation_pools(query) > 0);
    gst_query_parse_nth_allocation_pool(query, 0, &pool, NULL, NULL, NULL);
    CHECK(pool && GST_IS_CUDA_BUFFER_POOL(pool));
    CHECK(gst_buffer_pool_set_active(pool, TRUE));
    return pool;
}

/* Copies the frame to a buffer of the pool. (takes frame) */
static GstBuffer *
to_pool(GstBufferPool *pool, GstBuffer *frame, const GstVideoInfo *info)
{
    GstBuffer *buffer = NULL;
    GstVideoFrame to, from;
    CHECK_INT(gst_buffer_pool_acquire_buffer(pool, &buffer, NULL), GST_FLOW_OK);
    CHECK(gst_video_frame_map(&from, info, frame, GST_MAP_READ));
    CHECK(gst_video_frame_map(&to, info, buffer, GST_MAP_WRITE));
    CHECK(gst_video_frame_copy(&to, &from));
    gst_video_frame_unmap(&to);
    gst_video_frame_unmap(&from);
    gst_buffer_copy_into(buffer, frame, GST_BUFFER_COPY_TIMESTAMPS, 0, -1);
    gst_buffer_unref(frame);
    return buffer;
}

/* A GstVideoMeta that does not fit a frame on the device is an error. */
TEST(wrong_meta)
{
    if (!on_device())
        return;
    SCOPED GstHarness *h = encoder(CUDA, FALSE);
    GstBufferPool *pool = proposed_pool(h);
    GstVideoInfo info;
    CHECK(
        gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, WIDTH, HEIGHT));
    GstBuffer *frame = to_pool(pool, vae_test_frame(&info, 0), &info);
    GstVideoMeta *meta = gst_buffer_get_video_meta(frame);
    meta->offset[1] = gst_buffer_get_size(frame) - 1;
    gst_harness_push(h, frame);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                          "does not hold the rows of its planes", "NV12");
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
}

/* Returns the latents of five frames. other: the property selects another
 * device after the caps are set, and the frames are in the memory of that
 * device. tiles: the frames are encoded in tiles. */
static gchar *
encode(gboolean cuda, gboolean other, gboolean tiles)
{
    GstHarness *h = encoder(cuda ? CUDA : SYSTEM, tiles);
    GstBuffer *frames[5];
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    GstVideoInfo info;
    const gboolean direct = cuda && !other && !tiles;
    int before, waits[2];
    if (other)
        g_object_set(h->element, "cuda-device-id", 1, NULL);
    GstBufferPool *pool = cuda ? proposed_pool(h) : NULL;
    CHECK(
        gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, WIDTH, HEIGHT));
    for (guint i = 0; i < 5; i++) {
        frames[i] = vae_test_frame(&info, i);
        if (cuda)
            frames[i] = to_pool(pool, frames[i], &info);
    }
    before = driver_count("emu_driver_copies");
    waits[0] = driver_count("emu_driver_waits");
    waits[1] = driver_count("emu_driver_events");
    for (guint i = 0; i < 5; i++)
        CHECK_INT(gst_harness_push(h, frames[i]), GST_FLOW_OK);
    for (guint i = 0; i < 2; i++) {
        g_autoptr(GstBuffer) latent = vae_test_pull(h);
        CHECK(latent != NULL);
        vae_test_sum(sum, latent);
    }
    CHECK_INT(vae_test_stat(h, "tiles"), tiles ? 3 : 0);
    /* If the element reads the frames on the device, it copies them there. */
    CHECK_INT(driver_count("emu_driver_copies") > before, direct);
    if (GST_CHECK_VERSION(1, 24, 0) && direct)
        check_waits(waits, 5);
    vae_test_teardown(h);
    if (pool) {
        gst_buffer_pool_set_active(pool, FALSE);
        gst_object_unref(pool);
    }
    return g_strdup(g_checksum_get_string(sum));
}

TEST(encode)
{
    if (on_device())
        vae_test_same(encode(TRUE, FALSE, FALSE), encode(FALSE, FALSE, FALSE));
}

TEST(encode_tiles)
{
    if (on_device())
        vae_test_same(encode(TRUE, FALSE, TRUE), encode(FALSE, FALSE, TRUE));
}

/* Frames in the memory of another device, which the stream must not access, are
 * copied through the host. */
TEST(encode_other_device)
{
    if (on_device())
        vae_test_same(encode(TRUE, TRUE, FALSE), encode(FALSE, FALSE, FALSE));
}

/* The templates, and an element that was not started. */
TEST(template)
{
    const gchar *const names[][2] = {{"vaedecode", "src"},
                                     {"vaeencode", "sink"}};
    for (guint i = 0; i < 2; i++) {
        g_autoptr(GstElement) element =
            gst_element_factory_make(names[i][0], NULL);
        g_autoptr(GstPad) pad =
            gst_element_get_static_pad(element, names[i][1]);
        g_autoptr(GstCaps) cuda = gst_caps_from_string(CUDA);
        g_autoptr(GstCaps) caps = gst_pad_query_caps(pad, NULL);
        g_autoptr(GstContext) context = gst_context_new("another", TRUE);
        CHECK(gst_caps_can_intersect(caps, cuda));
        CHECK(
            gst_caps_features_is_equal(gst_caps_get_features(caps, 0),
                                       GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY));
        gst_element_set_context(element, context);
    }
}

/* An encoder downstream goes to READY first, and needs no context of its own.
 * The element ignores contexts of other types. */
TEST(asked_early)
{
    g_autoptr(GstElement) element = gst_element_factory_make("vaedecode", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(element, "src");
    g_autoptr(GstPad) peer = gst_pad_new("peer", GST_PAD_SINK);
    GstQuery *other = gst_query_new_context("gst.gl.GLDisplay");
    CHECK_INT(gst_pad_link(pad, peer), GST_PAD_LINK_OK);
    CHECK(!gst_pad_peer_query(peer, other));
    gst_util_set_object_arg(G_OBJECT(element), "backend", "cpu");
    CHECK(context_of(peer) == NULL);
    gst_util_set_object_arg(G_OBJECT(element), "backend", "cuda");
    GstCudaContext *early = context_of(peer);
    CHECK_INT(early != NULL, on_device());
    CHECK_INT(gst_element_set_state(element, GST_STATE_READY),
              GST_STATE_CHANGE_SUCCESS);
    GstCudaContext *later = context_of(peer);
    CHECK(later == early);
    CHECK_INT(gst_element_set_state(element, GST_STATE_NULL),
              GST_STATE_CHANGE_SUCCESS);
    gst_clear_object(&early);
    gst_clear_object(&later);
    gst_query_unref(other);
    gst_pad_unlink(pad, peer);
}
