#include "vae_memory.h"

typedef struct VaeTestMemory {
    GstMemory parent;
    guint8 *block, *data;
} VaeTestMemory;

typedef struct VaeTestAllocatorClass {
    GstAllocatorClass parent_class;
} VaeTestAllocatorClass;

GType vae_test_allocator_get_type(void);
G_DEFINE_TYPE(VaeTestAllocator, vae_test_allocator, GST_TYPE_ALLOCATOR)

static GstMemory *
allocate(GstAllocator *allocator, gsize size, GstAllocationParams *params)
{
    VaeTestAllocator *self = (VaeTestAllocator *) allocator;
    const gsize whole = size + params->prefix + params->padding;
    VaeTestMemory *memory = g_new0(VaeTestMemory, 1);
    g_atomic_int_inc(&self->allocated);
    self->align = MAX(self->align, params->align + 1);
    memory->block = g_malloc0(whole + params->align);
    memory->data = (guint8 *) (((gsize) memory->block + params->align) &
                               ~(gsize) params->align);
    gst_memory_init(GST_MEMORY_CAST(memory), GST_MEMORY_FLAG_NO_SHARE,
                    allocator, NULL, whole, params->align, params->prefix,
                    size);
    return GST_MEMORY_CAST(memory);
}

static void
release(GstAllocator *allocator, GstMemory *memory)
{
    g_free(((VaeTestMemory *) memory)->block);
    g_free(memory);
}

static gpointer
map(GstMemory *memory, GstMapInfo *info, gsize size)
{
    VaeTestAllocator *self = (VaeTestAllocator *) memory->allocator;
    if (self->on_map)
        self->on_map(info->flags);
    if (info->flags & GST_MAP_READ)
        g_atomic_int_inc(&self->read);
    if (info->flags & GST_MAP_WRITE)
        g_atomic_int_inc(&self->written);
    return ((VaeTestMemory *) memory)->data;
}

static void
unmap(GstMemory *memory, GstMapInfo *info)
{
}

static void
vae_test_allocator_class_init(VaeTestAllocatorClass *klass)
{
    klass->parent_class.alloc = allocate;
    klass->parent_class.free = release;
}

static void
vae_test_allocator_init(VaeTestAllocator *self)
{
    GstAllocator *allocator = GST_ALLOCATOR_CAST(self);
    allocator->mem_type = "VaeTestMemory";
    allocator->mem_map_full = map;
    allocator->mem_unmap_full = unmap;
    GST_OBJECT_FLAG_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

VaeTestAllocator *
vae_test_allocator_new(void)
{
    VaeTestAllocator *self = g_object_new(vae_test_allocator_get_type(), NULL);
    return gst_object_ref_sink(self);
}

gboolean
vae_test_memory_holds(GstBuffer *buffer, const void *data)
{
    for (guint i = 0; i < gst_buffer_n_memory(buffer); i++) {
        GstMemory *memory = gst_buffer_peek_memory(buffer, i);
        const guint8 *from = ((VaeTestMemory *) memory)->data + memory->offset;
        if (gst_memory_is_type(memory, "VaeTestMemory") &&
            (const guint8 *) data >= from &&
            (const guint8 *) data < from + memory->size)
            return TRUE;
    }
    return FALSE;
}

static GstPadProbeReturn
answer(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    GstQuery *query = GST_PAD_PROBE_INFO_QUERY(info);
    VaeTestOffer *offer = data;
    if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION)
        return GST_PAD_PROBE_OK;
    offer->asked++;
    if (offer->pool || offer->size > 0)
        gst_query_add_allocation_pool(query, offer->pool, offer->size,
                                      offer->min, offer->max);
    if (offer->allocator || offer->params.align > 0)
        gst_query_add_allocation_param(query, offer->allocator, &offer->params);
    if (offer->video_meta)
        gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    return GST_PAD_PROBE_HANDLED;
}

void
vae_test_offer(GstPad *pad, VaeTestOffer *offer)
{
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, answer, offer,
                      NULL);
}

GstBufferPool *
vae_test_pool_new(GstCaps *caps, guint min, guint max, GstAllocator *allocator,
                  const GstVideoAlignment *align)
{
    GstBufferPool *pool = gst_video_buffer_pool_new();
    GstStructure *config = gst_buffer_pool_get_config(pool);
    GstVideoAlignment own;
    GstVideoInfo info;
    g_assert(gst_video_info_from_caps(&info, caps));
    gst_buffer_pool_config_set_params(config, caps, (guint) info.size, min,
                                      max);
    if (allocator)
        gst_buffer_pool_config_set_allocator(config, allocator, NULL);
    if (align) {
        own = *align;
        gst_buffer_pool_config_add_option(config,
                                          GST_BUFFER_POOL_OPTION_VIDEO_META);
        gst_buffer_pool_config_add_option(
            config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
        gst_buffer_pool_config_set_video_alignment(config, &own);
    }
    g_assert(gst_buffer_pool_set_config(pool, config));
    return pool;
}
