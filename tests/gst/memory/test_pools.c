/*
 * test_pools.c: the memory of frames and latents. The elements use memory that
 * downstream offers, and copy nothing.
 */
#include "vae_memory.h"
#include "vae_test.h"

#include <dlfcn.h>
#include "vae-private/stream.h"

#define LW 6
#define LH 4
#define VIDEO "video/x-raw,format=I420,width=48,height=32,framerate=16/1"
#define STEPS 6
#define FRAMES (4 * STEPS - 3)

/* Records the arguments of the engine, in front of libvae's own functions. */
static GMutex lock;
static GPtrArray *written, *read_from; /* under the lock */

static void
note(GPtrArray *list, const void *data)
{
    g_mutex_lock(&lock);
    if (list && data)
        g_ptr_array_add(list, (gpointer) data);
    g_mutex_unlock(&lock);
}

VaeStatus
vae_stream_decode_begin(VaeStream *stream, const VaeLatentIn *latents,
                        int n_latents, const VaePicture *frames, int n_frames,
                        VaeError *error)
{
    static VaeStatus (*real)(VaeStream *, const VaeLatentIn *, int,
                             const VaePicture *, int, VaeError *);
    void *symbol = dlsym(RTLD_NEXT, "vae_stream_decode_begin");
    memcpy(&real, &symbol, sizeof real);
    for (int i = 0; i < n_latents; i++)
        note(read_from, latents[i].data);
    for (int i = 0; i < n_frames; i++)
        note(written, frames[i].data[0]);
    return real(stream, latents, n_latents, frames, n_frames, error);
}

VaeStatus
vae_stream_encode_begin(VaeStream *stream, const VaePicture *frames,
                        int n_frames, const VaeLatentOut *latents,
                        int n_latents, VaeError *error)
{
    static VaeStatus (*real)(VaeStream *, const VaePicture *, int,
                             const VaeLatentOut *, int, VaeError *);
    void *symbol = dlsym(RTLD_NEXT, "vae_stream_encode_begin");
    memcpy(&real, &symbol, sizeof real);
    for (int i = 0; i < n_latents; i++)
        note(written, latents[i].data);
    for (int i = 0; i < n_frames; i++)
        note(read_from, frames[i].data[0]);
    return real(stream, frames, n_frames, latents, n_latents, error);
}

static GstHarness *
decoder(VaeTestOffer *offer)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", 1, NULL);
    vae_test_offer(h->sinkpad, offer);
    vae_test_set_latents(h, LW, LH, NULL);
    return h;
}

/* Returns the visible bytes of all frames, for any strides. check gets each
 * frame; it may be NULL. */
static gchar *
pull_all(GstHarness *h, void (*check)(GstBuffer *frame, gpointer data),
         gpointer data)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    GstVideoFrame frame;
    GstVideoInfo info;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 8 * LW, 8 * LH);
    for (guint i = 0; i < FRAMES; i++) {
        g_autoptr(GstBuffer) buffer = vae_test_pull(h);
        CHECK(buffer != NULL);
        if (check)
            check(buffer, data);
        CHECK(gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ));
        for (guint c = 0; c < GST_VIDEO_FRAME_N_COMPONENTS(&frame); c++)
            for (gint y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, c); y++)
                g_checksum_update(
                    sum,
                    (guint8 *) GST_VIDEO_FRAME_COMP_DATA(&frame, c) +
                        y * GST_VIDEO_FRAME_COMP_STRIDE(&frame, c),
                    GST_VIDEO_FRAME_COMP_WIDTH(&frame, c));
        gst_video_frame_unmap(&frame);
    }
    return g_strdup(g_checksum_get_string(sum));
}

/* Runs a clip with this offer, and expects the bytes of a run without an
 * offer. */
static void
check_offer(VaeTestOffer *offer, void (*check)(GstBuffer *, gpointer),
            gpointer data)
{
    VaeTestOffer none = {0};
    SCOPED GstHarness *h = decoder(&none);
    vae_test_push_latents(h, LW, LH, 0, STEPS);
    gchar *expected = pull_all(h, NULL, NULL);
    CHECK_INT(none.asked, 1);
    vae_test_teardown(h);
    h = decoder(offer);
    vae_test_push_latents(h, LW, LH, 0, STEPS);
    gchar *found = pull_all(h, check, data);
    vae_test_same(found, expected);
    CHECK(offer->asked >= 1);
}

static GstBufferPool *
pool_of(guint max, GstAllocator *allocator, const GstVideoAlignment *align)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(VIDEO);
    GstBufferPool *pool = vae_test_pool_new(caps, 0, max, allocator, align);
    return pool;
}

static void
from_pool(GstBuffer *frame, gpointer pool)
{
    CHECK(frame->pool == pool);
    CHECK(!gst_buffer_get_video_meta(frame));
    CHECK_INT(gst_buffer_get_size(frame), 48 * 32 * 3 / 2);
}

static void
padded(GstBuffer *frame, gpointer pool)
{
    GstVideoMeta *meta = gst_buffer_get_video_meta(frame);
    CHECK(frame->pool == pool);
    CHECK(meta && meta->stride[0] == 48 + 16 + 64);
    CHECK_INT(meta->offset[0], 8 * meta->stride[0] + 16);
}

static void
not_from_pool(GstBuffer *frame, gpointer pool)
{
    CHECK(frame->pool && frame->pool != pool);
    CHECK_INT(gst_buffer_get_size(frame), 48 * 32 * 3 / 2);
}

/* An element without GstVideoMeta also uses a plain pool. */
TEST(plain_pool)
{
    VaeTestOffer offer = {.pool = pool_of(0, NULL, NULL),
                          .size = 48 * 32 * 3 / 2};
    check_offer(&offer, from_pool, offer.pool);
    gst_object_unref(offer.pool);
}

/* Strides and borders that downstream requests. */
TEST(padded_pool)
{
    GstVideoAlignment align;
    VaeTestOffer offer = {.size = 48 * 32 * 3 / 2, .video_meta = TRUE};
    gst_video_alignment_reset(&align);
    align.padding_left = 16;
    align.padding_right = 64;
    align.padding_top = 8;
    align.padding_bottom = 2;
    offer.pool = pool_of(0, NULL, &align);
    check_offer(&offer, padded, offer.pool);
    gst_object_unref(offer.pool);
}

/* The offered pool has too few buffers and would block, so the element uses
 * another pool. */
TEST(small_pool)
{
    static const guint enough = 4 * (2 + 2);
    for (guint max = 1; max <= enough; max++) {
        VaeTestOffer offer = {.pool = pool_of(max, NULL, NULL),
                              .size = 48 * 32 * 3 / 2,
                              .max = max};
        SCOPED GstHarness *h = decoder(&offer);
        vae_test_push_latents(h, LW, LH, 0, 3);
        GstBuffer *frame = vae_test_pull(h);
        CHECK_INT(frame->pool == offer.pool, max == enough);
        gst_buffer_unref(frame);
        for (guint i = 1; i < 9; i++)
            gst_buffer_unref(vae_test_pull(h));
        gst_object_unref(offer.pool);
    }
    {
        VaeTestOffer offer = {.pool = pool_of(enough - 1, NULL, NULL),
                              .size = 48 * 32 * 3 / 2,
                              .max = enough - 1};

        check_offer(&offer, not_from_pool, offer.pool);
        gst_object_unref(offer.pool);
    }
}

static void
in_memory(GstBuffer *frame, gpointer data)
{
    GstMemory *memory = gst_buffer_peek_memory(frame, 0);
    CHECK(gst_memory_is_type(memory, "VaeTestMemory"));
    CHECK(memory->align >= 127);
}

/* A pool of downstream whose frames have a wrong GstVideoMeta. */
typedef GstBufferPool WrongPool;
typedef GstBufferPoolClass WrongPoolClass;
GType wrong_pool_get_type(void);
G_DEFINE_TYPE(WrongPool, wrong_pool, GST_TYPE_BUFFER_POOL)

static GstFlowReturn
alloc_wrong(GstBufferPool *pool, GstBuffer **buffer,
            GstBufferPoolAcquireParams *params)
{
    *buffer = gst_buffer_new_allocate(NULL, 48 * 32 * 3 / 2, NULL);
    gst_buffer_add_video_meta(*buffer, GST_VIDEO_FRAME_FLAG_NONE,
                              GST_VIDEO_FORMAT_GRAY8, 16, 16);
    return GST_FLOW_OK;
}

static void
wrong_pool_class_init(WrongPoolClass *klass)
{
    klass->alloc_buffer = alloc_wrong;
}

static void
wrong_pool_init(WrongPool *pool)
{
}

TEST(wrong_pool)
{
    VaeTestOffer offer = {
        .pool = gst_object_ref_sink(g_object_new(wrong_pool_get_type(), NULL)),
        .size = 48 * 32 * 3 / 2};
    SCOPED GstHarness *h = decoder(&offer);
    vae_test_push_latents(h, LW, LH, 0, 1);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                          "states GRAY8, 16x16, 1 plane;",
                          "I420, 48x32, 3 planes");
    gst_object_unref(offer.pool);
}

/* An allocator without a pool, and an alignment. */
TEST(allocator)
{
    VaeTestAllocator *allocator = vae_test_allocator_new();
    VaeTestOffer offer = {.allocator = GST_ALLOCATOR(allocator),
                          .params = {.align = 127}};
    check_offer(&offer, in_memory, NULL);
    CHECK_INT(allocator->align, 128);
    CHECK_INT(GST_OBJECT_REFCOUNT_VALUE(allocator), 1);
    gst_object_unref(allocator);
}

static void
begin_notes(void)
{
    g_mutex_lock(&lock);
    written = g_ptr_array_new();
    read_from = g_ptr_array_new();
    g_mutex_unlock(&lock);
}

static void
end_notes(void)
{
    g_mutex_lock(&lock);
    g_clear_pointer(&written, g_ptr_array_unref);
    g_clear_pointer(&read_from, g_ptr_array_unref);
    g_mutex_unlock(&lock);
}

/* Makes a counting allocator GStreamer's default. It counts the memory that is
 * not of the offered allocator. */
static VaeTestAllocator *
as_default(void)
{
    VaeTestAllocator *allocator = vae_test_allocator_new();
    gst_allocator_set_default(gst_object_ref(allocator));
    return allocator;
}

static void
back_to_default(void)
{
    gst_allocator_set_default(gst_allocator_find(GST_ALLOCATOR_SYSMEM));
}

/* The engine writes each frame once, directly to the buffer that leaves, and
 * reads each latent from the buffer that came. Nothing else maps, copies or
 * allocates buffers. */
TEST(decode_copies_nothing)
{
    VaeTestAllocator *mine = vae_test_allocator_new(), *others = as_default();
    VaeTestOffer offer = {.pool = pool_of(0, GST_ALLOCATOR(mine), NULL),
                          .size = 48 * 32 * 3 / 2};
    GstHarness *h = decoder(&offer);
    GstBuffer *frames[FRAMES], *latents[STEPS];
    begin_notes();
    for (guint k = 0; k < STEPS; k++) /* memory of the allocator `others` */
        latents[k] = vae_test_latent(LW, LH, k);
    gint made = g_atomic_int_get(&others->allocated);
    gint mapped = g_atomic_int_get(&others->read);
    for (guint k = 0; k < STEPS; k++)
        CHECK_INT(gst_harness_push(h, gst_buffer_ref(latents[k])), GST_FLOW_OK);
    for (guint i = 0; i < FRAMES; i++)
        frames[i] = vae_test_pull(h);
    CHECK_INT(g_atomic_int_get(&others->allocated), made);
    CHECK_INT(g_atomic_int_get(&others->read), mapped + STEPS);
    CHECK_INT(g_atomic_int_get(&mine->written), FRAMES);
    CHECK_INT(g_atomic_int_get(&mine->read), 0);
    CHECK_INT(written->len, FRAMES);
    CHECK_INT(read_from->len, STEPS);
    for (guint i = 0; i < FRAMES; i++) {
        CHECK(vae_test_memory_holds(frames[i], written->pdata[i]));
        gst_buffer_unref(frames[i]);
    }
    for (guint k = 0; k < STEPS; k++) {
        CHECK(vae_test_memory_holds(latents[k], read_from->pdata[k]));
        gst_buffer_unref(latents[k]);
    }
    end_notes();
    vae_test_teardown(h);
    gst_object_unref(offer.pool);
    back_to_default();
    gst_object_unref(mine);
    gst_object_unref(others);
}

TEST(encode_copies_nothing)
{
    VaeTestAllocator *mine = vae_test_allocator_new(), *others = as_default();
    VaeTestOffer offer = {.allocator = GST_ALLOCATOR(mine)};
    GstHarness *h = vae_test_harness("vaeencode", "slice-size", 1, NULL);
    GstBuffer *frames[FRAMES], *latents[STEPS];
    GstVideoInfo info;
    begin_notes();
    vae_test_offer(h->sinkpad, &offer);
    gst_harness_set_src_caps_str(h, VIDEO);
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 8 * LW, 8 * LH);
    for (guint i = 0; i < FRAMES; i++)
        frames[i] = vae_test_frame(&info, i);
    gint made = g_atomic_int_get(&others->allocated);
    for (guint i = 0; i < FRAMES; i++)
        CHECK_INT(gst_harness_push(h, gst_buffer_ref(frames[i])), GST_FLOW_OK);
    for (guint k = 0; k < STEPS; k++)
        latents[k] = vae_test_pull(h);
    CHECK_INT(g_atomic_int_get(&others->allocated), made);
    CHECK_INT(g_atomic_int_get(&others->read), FRAMES);
    CHECK_INT(g_atomic_int_get(&mine->allocated), STEPS);
    CHECK_INT(g_atomic_int_get(&mine->written), STEPS);
    CHECK_INT(g_atomic_int_get(&mine->read), 0);
    CHECK_INT(written->len, STEPS);
    CHECK_INT(read_from->len, FRAMES);
    for (guint k = 0; k < STEPS; k++) {
        CHECK(vae_test_memory_holds(latents[k], written->pdata[k]));
        gst_buffer_unref(latents[k]);
    }
    for (guint i = 0; i < FRAMES; i++) {
        CHECK(vae_test_memory_holds(frames[i], read_from->pdata[i]));
        gst_buffer_unref(frames[i]);
    }
    end_notes();
    vae_test_teardown(h);
    back_to_default();
    gst_object_unref(mine);
    gst_object_unref(others);
}

int
main(int argc, char **argv)
{
    /* Links libvae, in which RTLD_NEXT finds the real functions. */
    CHECK(vae_backend_available(VAE_BACKEND_REF, NULL, 0));
    return vae_test_main(argc, argv);
}
