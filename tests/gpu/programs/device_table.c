/*
 * device_table.c: the CUDA kernels on a device, for callers whose memory is the
 * host's, such as the kernel checks.
 *
 * Whatever a call reads or writes is copied to device memory of its own at the
 * same alignment, between guards, and back; what a kernel only reads must come
 * back as it was. VAE_GPU_GUARD: bytes of the guards; 0 where a tool that
 * watches each access is to see the first byte past an end.
 *
 * The memory is kept for later calls, because taking and freeing it takes many
 * times as long as a small kernel. Without guards the device memory is not
 * kept: its end must be that of the tensor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_rt.h"
#include "pixels.h"

extern const VaeKernels vae_kernels_device;
/* The checks ask the emulation for older devices; a device is what it is. */
void vae_emu_set_capability(int capability);

enum {
    MAX_BLOCKS = 4 + 3 * VAE_PICTURES_CUDA,
    GUARD = 512,
    GUARD_BYTE = 0x5a,
    ALIGN = 256
};
enum { SKIP = 77 };

typedef struct Block {
    const uint8_t *host;    /* the caller's */
    uint8_t *device, *copy; /* copy: pinned */
    size_t device_room, copy_room;
    size_t bytes, begin, total; /* begin: of the bytes in the block */
    bool written;
} Block;

static struct {
    VaeRtStream stream;
    size_t guard;
    Block blocks[MAX_BLOCKS]; /* n of them are of this call */
    int n;
} at;

__attribute__((weak)) void
vae_emu_set_capability(int capability)
{
}

_Noreturn static void
fatal(const char *text)
{
    printf("FAIL %s\n", text);
    exit(1);
}

static void
must(int code, const char *doing)
{
    if (!code)
        return;
    printf("FAIL cannot %s: %s\n", doing, vae_rt_words(code));
    exit(1);
}

static void
open_device(void)
{
    int n = 0;
    const char *guard = getenv("VAE_GPU_GUARD");
    if (at.stream)
        return;
    const int code = vae_rt_devices(&n);
    if (code || n == 0) {
        printf("skipped: %s\n",
               code ? vae_rt_words(code) : "there is no NVIDIA GPU");
        exit(SKIP);
    }
    at.guard = guard ? strtoul(guard, NULL, 10) / ALIGN * ALIGN : GUARD;
    must(vae_rt_enter(0, &(VaeRtCaller){0}), "use the device");
    must(vae_rt_stream_new(&at.stream), "make a stream");
}

/* Room for the block's total, in device memory and in pinned memory. */
static void
take(Block *p)
{
    size_t room = ALIGN;
    while (room < p->total)
        room *= 2;
    if (p->copy_room < room) {
        vae_rt_free_host(p->copy);
        must(vae_rt_alloc_host((void **) &p->copy, room), "take pinned memory");
        p->copy_room = room;
    }
    if (!at.guard)
        room = p->total;
    if (p->device_room < room) {
        vae_rt_free(p->device);
        must(vae_rt_alloc((void **) &p->device, room), "take memory");
        p->device_room = room;
    }
}

/* The address on the device of the block at p; NULL for NULL. Memory that
 * begins at the same address is the same block. */
static void *
stage(const void *p, size_t bytes, bool written)
{
    if (!p)
        return NULL;
    for (int i = 0; i < at.n; i++)
        if (at.blocks[i].host == p) {
            if (bytes > at.blocks[i].bytes)
                fatal("two tensors of a call overlap");
            at.blocks[i].written |= written;
            return at.blocks[i].device + at.blocks[i].begin;
        }
    if (at.n == MAX_BLOCKS)
        fatal("a call has more tensors than the table knows");
    Block *block = &at.blocks[at.n++];
    block->host = p;
    block->bytes = bytes;
    block->begin = at.guard + (uintptr_t) p % ALIGN;
    block->total = block->begin + bytes + at.guard;
    block->written = written;
    take(block);
    memset(block->copy, GUARD_BYTE, block->total);
    memcpy(block->copy + block->begin, p, bytes);
    must(vae_rt_copy(block->device, block->copy, block->total, at.stream),
         "copy");
    return block->device + block->begin;
}

#define IN(p, bytes) stage(p, bytes, false)
#define OUT(p, bytes) stage(p, bytes, true)

static VaeQueue
begin(void)
{
    open_device();
    return (VaeQueue){.threads = 1, .stream = at.stream};
}

static bool
guards_are_whole(const Block *p)
{
    for (size_t i = 0; i < p->begin; i++)
        if (p->copy[i] != GUARD_BYTE)
            return false;
    for (size_t i = p->begin + p->bytes; i < p->total; i++)
        if (p->copy[i] != GUARD_BYTE)
            return false;
    return true;
}

/* Waits, and copies the blocks back. */
static void
finish(void)
{
    must(vae_rt_failure(), "launch");
    for (int i = 0; i < at.n; i++)
        must(vae_rt_copy(at.blocks[i].copy, at.blocks[i].device,
                         at.blocks[i].total, at.stream),
             "copy");
    must(vae_rt_stream_sync(at.stream), "run the kernel");
    for (int i = 0; i < at.n; i++) {
        Block *p = &at.blocks[i];
        if (!guards_are_whole(p))
            fatal("a kernel wrote outside of its tensors");
        if (p->written)
            memcpy((uint8_t *) p->host, p->copy + p->begin, p->bytes);
        else if (memcmp(p->host, p->copy + p->begin, p->bytes) != 0)
            fatal("a kernel changed what it should only read");
        if (!at.guard) {
            vae_rt_free(p->device);
            p->device = NULL;
            p->device_room = 0;
        }
    }
    at.n = 0;
}

static size_t
bytes_of(VaeType type, size_t n)
{
    return n * vae_type_size(type);
}

/* ------------------------------------------------------------------ */

/* KERNEL(op, Args) { ... } defines op(), which runs the kernel on the device.
 * The body stages the tensors of `a`. */
#define KERNEL(op, Args)                                                       \
    static void stage_##op(Args *a);                                           \
    static void op(const VaeQueue *ignored, const Args *args)                  \
    {                                                                          \
        const VaeQueue q = begin();                                            \
        Args a = *args;                                                        \
                                                                               \
        stage_##op(&a);                                                        \
        vae_rt_kernels()->op(&q, &a);                                          \
        finish();                                                              \
    }                                                                          \
    static void stage_##op(Args *a)

KERNEL(norm, VaeNormArgs)
{
    const size_t n = (size_t) a->t * a->h * a->w * a->c;
    a->y = OUT(a->y, bytes_of(a->y_type, n));
    if (a->tail)
        a->tail =
            OUT(a->tail, bytes_of(a->y_type,
                                  n / (size_t) a->t * (size_t) a->tail_frames));
    a->x = IN(a->x, bytes_of(a->x_type, n));
    a->gain = IN(a->gain, (size_t) a->c * 4);
    a->offset = IN(a->offset, (size_t) a->c * 4);
    a->sums = a->kind == VAE_NORM_GROUP
                  ? OUT(a->sums, 8 * vae_norm_sums_cuda(a->t, a->h, a->w, a->c,
                                                        a->groups))
                  : NULL;
}

KERNEL(attention, VaeAttentionArgs)
{
    const size_t n = (size_t) a->t * a->n * a->c;
    a->y = OUT(a->y, bytes_of(a->y_type, n));
    a->qkv = IN(a->qkv, bytes_of(a->x_type, 3 * n));
    a->scratch = NULL;
}

KERNEL(rearrange, VaeRearrangeArgs)
{
    const size_t pixels = (size_t) a->t * a->h * a->w;
    const size_t area = (size_t) a->fs * a->fs;
    const bool fold = vae_rearrange_is_fold(a->kind);
    /* All elements of y, with the dropped ones. */
    size_t all = fold ? (size_t) ((a->t + a->ft - 1) / a->ft) * (a->h / a->fs) *
                            (a->w / a->fs) * a->c
                      : pixels * a->ft * area * a->c;
    const size_t x = a->kind == VAE_UNFOLD_NEAREST ? pixels * a->c * a->ft
                     : a->kind == VAE_NEAREST      ? pixels * a->c
                     : a->kind == VAE_JOIN_PHASES
                         ? (area - 1) * a->phase + pixels * a->c
                     : fold ? pixels * a->c / (a->ft * area)
                            : all;
    const size_t dropped = (size_t) a->drop * a->h * a->w * area * a->c;
    if (vae_rearrange_is_border(a->kind))
        all = (size_t) a->t * a->rows * (a->w + 2) * a->c;
    a->y = OUT(a->y, bytes_of(a->y_type, all - dropped));
    a->x = IN(a->x, bytes_of(a->x_type, x));
}

KERNEL(cast, VaeCastArgs)
{
    a->y = OUT(a->y, bytes_of(a->y_type, a->n));
    a->x = IN(a->x, bytes_of(a->x_type, a->n));
}

KERNEL(shortcut, VaeShortcutArgs)
{
    const size_t x = (size_t) a->t * a->h * a->w * a->cx;
    const size_t y = a->kind != VAE_SHORTCUT_AVERAGE
                         ? (size_t) (a->t * a->ft - a->drop) * a->h * a->fs *
                               a->w * a->fs * a->cy
                         : (size_t) ((a->t + a->ft - 1) / a->ft) *
                               (a->h / a->fs) * (a->w / a->fs) * a->cy;
    a->y = OUT(a->y, bytes_of(a->y_type, y));
    a->x = IN(a->x, bytes_of(a->x_type, x));
}

KERNEL(clamp, VaeClampArgs)
{
    a->y = OUT(a->y, bytes_of(a->y_type, a->n));
    a->x = IN(a->x, bytes_of(a->x_type, a->n));
}

KERNEL(conv_matrix, VaeConvMatrixArgs)
{
    VaeRtDevice device;
    must(vae_rt_device(0, &device), "look at the device");
    if (device.capability < 80) {
        printf("skipped: the device has compute capability %d.%d\n",
               device.capability / 10, device.capability % 10);
        exit(SKIP);
    }
    a->warpgroups = a->warpgroups && device.capability == 90;
    const size_t frame = (size_t) a->h * a->w * a->c_in;
    const size_t y = 2 * (size_t) a->t * a->ho * a->wo * a->c_out;
    a->y = OUT(a->y, a->joined ? 4 * y : a->wide ? 2 * y : y);
    a->add = IN(a->add, y);
    a->past = IN(a->past, 2 * (size_t) a->past_frames * frame);
    a->x = IN(a->x, 2 * (size_t) (a->t + a->kt - 1 - a->past_frames) * frame);
    a->weight =
        IN(a->weight, 2 * (size_t) a->kt * a->k * a->k * a->c_in * a->c_out +
                          (a->up ? 6 : 0) * a->phase_weights);
    a->bias = IN(a->bias, 2 * (size_t) a->c_out);
    a->norm.y = OUT(a->norm.y, y);
    a->norm.gain = IN(a->norm.gain, sizeof(float) * (size_t) a->c_out);
    a->norm.offset = IN(a->norm.offset, sizeof(float) * (size_t) a->c_out);
    a->front.gain = IN(a->front.gain, sizeof(float) * (size_t) a->c_in);
    a->front.offset = IN(a->front.offset, sizeof(float) * (size_t) a->c_in);
}

KERNEL(depthwise, VaeDepthwiseArgs)
{
    const size_t frame = (size_t) a->h * a->w * a->n;
    a->y = OUT(a->y, bytes_of(a->y_type, 2 * (size_t) a->t * frame));
    a->x = IN(a->x, bytes_of(a->x_type, (size_t) (a->t + 1) * frame));
    a->weight = IN(a->weight, (size_t) 49 * 2 * a->n * 4);
}

KERNEL(latent_in, VaeLatentInArgs)
{
    const size_t n = (size_t) a->h * a->w * a->c;
    a->y = OUT(a->y, bytes_of(a->y_type, n));
    a->src = IN(a->src, bytes_of(a->src_type, n));
    a->scale = IN(a->scale, (size_t) a->c * 4);
    a->shift = IN(a->shift, (size_t) a->c * 4);
    a->nonfinite = OUT(a->nonfinite, 8);
}

KERNEL(latent_out, VaeLatentOutArgs)
{
    const size_t pixels = (size_t) a->h * a->w, n = pixels * a->c;
    a->dst = OUT(a->dst, bytes_of(a->dst_type, n));
    a->mean_out = OUT(a->mean_out, 4 * n);
    a->logvar_out = OUT(a->logvar_out, 4 * n);
    a->x = IN(a->x, bytes_of(a->x_type, pixels * a->cx));
    a->mean = IN(a->mean, (size_t) a->c * 4);
    a->std = IN(a->std, (size_t) a->c * 4);
    a->nonfinite = OUT(a->nonfinite, 8);
}

KERNEL(nonfinite, VaeNonfiniteArgs)
{
    a->x = IN(a->x, bytes_of(a->x_type, a->n));
    a->counter = OUT(a->counter, 8);
}

/* ------------------------------------------------------------------ */

/* Each plane, from its lowest row's begin to its highest row's end. */
static VaePicture
stage_picture(const VaePicture *p, bool written)
{
    size_t row[3];
    int rows[3];
    const int planes = vae_picture_planes(p, row, rows);
    VaePicture out = *p;
    for (int i = 0; i < planes; i++) {
        const ptrdiff_t span = (rows[i] - 1) * p->stride[i];
        const uint8_t *low = p->data[i] + (span < 0 ? span : 0);
        uint8_t *staged =
            stage(low, (size_t) (span < 0 ? -span : span) + row[i], written);
        out.data[i] = staged + (p->data[i] - low);
    }
    return out;
}

/* Returns their number. */
static size_t
stage_pictures(const VaePicture *first, int n, size_t next, bool written,
               VaePicture *out)
{
    n = n ? n : 1;
    for (int i = 0; i < n; i++)
        out[i] = stage_picture(
            (const VaePicture *) ((const uint8_t *) first + (size_t) i * next),
            written);
    return (size_t) n;
}

KERNEL(picture_out, VaePictureOutArgs)
{
    static VaePicture p[VAE_PICTURES_CUDA];
    const size_t n = stage_pictures(a->picture, a->n, a->next, true, p);
    a->picture = p;
    a->next = sizeof *p;
    a->x = IN(a->x, bytes_of(a->x_type, n * a->h * a->w * (a->c ? a->c : 3)));
}

KERNEL(picture_in, VaePictureInArgs)
{
    static VaePicture p[VAE_PICTURES_CUDA];
    const size_t n = stage_pictures(a->picture, a->n, a->next, false, p);
    a->picture = p;
    a->next = sizeof *p;
    a->y = OUT(a->y, bytes_of(a->y_type, n * a->h * a->w * (a->c ? a->c : 3)));
}

const VaeKernels vae_kernels_device = {.name = "cuda",
                                       .pictures = VAE_PICTURES_CUDA,
                                       .norm = norm,
                                       .attention = attention,
                                       .rearrange = rearrange,
                                       .cast = cast,
                                       .shortcut = shortcut,
                                       .clamp = clamp,
                                       .conv_matrix = conv_matrix,
                                       .depthwise = depthwise,
                                       .latent_in = latent_in,
                                       .latent_out = latent_out,
                                       .nonfinite = nonfinite,
                                       .picture_out = picture_out,
                                       .picture_in = picture_in};
