/*
 * staging.c: copies latents and pictures between the caller's memory and the
 * device. The blocks of a slot are reused after its results are delivered; its
 * upload, computation and download are then done. Pictures in device memory are
 * not staged: kernels read and write them in place, and delivery only waits.
 * Results for pinned memory of the caller are staged only on the device.
 */
#include <assert.h>
#include <string.h>

#include "gpu.h"
#include "clock.h"
#include "pixels.h"

/* The statistics, then VaeRun.history. */
#define HISTORY_AT (4 * VAE_CUDA_STATISTIC)
#define IN_HEADER (HISTORY_AT + 256)
#define OUT_HEADER 256

static size_t
round_up(size_t v, size_t step)
{
    return (v + step - 1) / step * step;
}

/* ------------------------------------------------------------------ */
/* Layout.                                                             */

/* True if the device can copy the picture directly to the caller's memory.
 * There must be no gaps between rows, because a copy would overwrite them. */
static bool
is_direct(const VaePicture *p)
{
    size_t row[3];
    int rows[3];
    const int n = vae_picture_planes(p, row, rows);
    bool direct = p->pinned;
    for (int i = 0; i < n; i++)
        direct = direct && p->stride[i] == (ptrdiff_t) row[i];
    return direct;
}

/* Lays out p at base, with rows at multiples of 16 bytes and planes at
 * multiples of 256. For a direct copy there are no gaps between rows, and none
 * between planes if the caller's have none: one copy is then enough. Returns
 * the bytes. */
static size_t
place_picture(const VaePicture *p, uint8_t *base, VaePicture *out)
{
    size_t row[3], at = 0;
    int rows[3];
    const int n = vae_picture_planes(p, row, rows);
    *out = *p;
    const bool direct = is_direct(p);
    for (int i = 0; i < n; i++) {
        out->data[i] = base ? base + at : NULL;
        if (!direct)
            out->stride[i] = (ptrdiff_t) round_up(row[i], 16);
        const size_t bytes = (size_t) out->stride[i] * rows[i];
        const bool next =
            direct && i + 1 < n && p->data[i + 1] == p->data[i] + bytes;
        at += next ? bytes : round_up(bytes, 256);
    }
    return at;
}

static size_t
latent_bytes(VaeType type, size_t elements)
{
    return round_up(elements * vae_type_size(type), 256);
}

/* Most bytes of a slot for n units of op, which is the first or last op of a
 * program. */
static size_t
side_bytes(const VaeBackend *cuda, const VaeOp *op, int n)
{
    const VaeTensor *t = op->x ? op->x : op->y;
    const size_t elements = (size_t) t->shape.h * t->shape.w * t->shape.c;
    const VaePicture p = {.pixels = cuda->params.pixels,
                          .width = t->shape.w,
                          .height = t->shape.h};
    VaePicture ignored;
    if (op->kind == VAE_OP_PICTURE_IN || op->kind == VAE_OP_PICTURE_OUT)
        return cuda->params.pictures_on_device
                   ? 0
                   : (size_t) n * place_picture(&p, NULL, &ignored);
    /* An encoded latent has up to three arrays: latent, mean, logvar. */
    return (size_t) n * (op->x ? 3 : 1) * latent_bytes(VAE_TYPE_F32, elements);
}

void
vae_cuda_stage_plan(const VaeBackend *cuda, VaeCudaExec *exec)
{
    const VaeProgram *p = exec->exec.program;
    exec->in_bytes = IN_HEADER + side_bytes(cuda, &p->ops[0], p->n_in);
    exec->out_bytes =
        OUT_HEADER + side_bytes(cuda, &p->ops[p->n_ops - 1], p->n_out);
    exec->exec.staging = VAE_CUDA_SLOTS * (exec->in_bytes + exec->out_bytes);
}

/* ------------------------------------------------------------------ */
/* Delivery of results.                                                */

/* The picture at the same offset in the host's block. */
static VaePicture
on_host(const VaePicture *p, const uint8_t *device, uint8_t *host)
{
    VaePicture out = *p;
    for (int i = 0; i < 3; i++)
        if (out.data[i])
            out.data[i] = host + (out.data[i] - device);
    return out;
}

static void
give_latent(const VaeCudaSlot *s, const VaeCudaUnit *u)
{
    const struct {
        void *to;
        const void *from;
        size_t size;
    } parts[] = {
        {u->latent.data, u->device_latent.data, vae_type_size(u->latent.type)},
        {u->latent.mean, u->device_latent.mean, sizeof(float)},
        {u->latent.logvar, u->device_latent.logvar, sizeof(float)},
    };
    for (int i = 0; i < 3; i++)
        if (parts[i].to && parts[i].from)
            memcpy(parts[i].to,
                   s->host_out +
                       ((const uint8_t *) parts[i].from - s->device_out),
                   u->elements * parts[i].size);
}

/* Adds the device times of a slot whose results have arrived. Skips times that
 * the run time does not give. */
static void
count_times(const VaeCudaSlot *s)
{
    const struct {
        VaeRtEvent from, to;
        uint64_t *sum;
    } spans[] = {
        {s->begun, s->uploaded, &s->stats->upload_ns},
        {s->started, s->computed, &s->stats->compute_ns},
        {s->computed, s->downloaded, &s->stats->download_ns},
    };
    for (int i = 0; i < 3; i++) {
        float ms = 0;
        if (vae_rt_event_span(spans[i].from, spans[i].to, &ms) == 0)
            *spans[i].sum += (uint64_t) (ms * 1e6f);
    }
}

/* Waits for the slot's results and, if keep, copies them to the caller. */
static VaeStatus
deliver(VaeBackend *cuda, VaeCudaSlot *s, bool keep, VaeError *error)
{
    if (!s->busy)
        return VAE_OK;
    s->busy = false;
    const int code = vae_rt_event_sync(s->downloaded);
    if (code)
        return vae_cuda_status(cuda, code, "finish a slice", error);
    if (!keep)
        return VAE_OK;
    count_times(s);
    const uint64_t start = vae_now_ns();
    for (int i = 0; i < s->n_out; i++)
        if (s->out[i].picture.on_device || s->out[i].direct) {
            continue; /* the device wrote it in place */
        } else if (s->out[i].picture.data[0]) {
            const VaePicture from =
                on_host(&s->out[i].device_picture, s->device_out, s->host_out);
            vae_picture_copy(&s->out[i].picture, &from);
        } else if (s->out[i].latent.data) {
            give_latent(s, &s->out[i]);
        }
    uint64_t count;
    memcpy(&count, s->host_out, sizeof count);
    s->stats->nonfinite += count;
    s->stats->download_ns += vae_now_ns() - start;
    return VAE_OK;
}

/* VAE_FINISH_COUNT. */
static VaeStatus
count(VaeBackend *cuda, VaeError *error)
{
    VaeCudaSlot *s =
        &cuda->slots[(cuda->next + VAE_CUDA_SLOTS - 1) % VAE_CUDA_SLOTS];
    const int code = s->busy ? vae_rt_event_sync(s->computed) : 0;
    if (code)
        return vae_cuda_status(cuda, code, "finish a slice", error);
    if (s->busy && s->bad)
        memcpy(s->bad, s->host_out + sizeof(uint64_t), sizeof *s->bad);
    return VAE_OK;
}

VaeStatus
vae_cuda_stage_finish(VaeBackend *cuda, int left, VaeFinish how,
                      VaeError *error)
{
    VaeStatus status = VAE_OK;
    int code = 0, busy = 0;
    const bool keep = how == VAE_FINISH_KEEP;
    if (how == VAE_FINISH_COUNT)
        return count(cuda, error);
    for (int i = 0; i < VAE_CUDA_SLOTS; i++)
        busy += cuda->slots[i].busy;
    for (int i = 0; i < VAE_CUDA_SLOTS && busy > left; i++) {
        VaeCudaSlot *s = &cuda->slots[(cuda->next + i) % VAE_CUDA_SLOTS];
        busy -= s->busy;
        const VaeStatus one = deliver(cuda, s, keep && status == VAE_OK, error);
        status = status == VAE_OK ? one : status;
    }
    if (keep && status == VAE_OK)
        return VAE_OK;
    /* A run that failed or was cancelled may have left work in the streams. */
    if (!code)
        code = vae_rt_stream_sync(cuda->up);
    if (!code)
        code = vae_rt_stream_sync(cuda->compute);
    if (!code)
        code = vae_rt_stream_sync(cuda->down);
    return status != VAE_OK
               ? status
               : vae_cuda_status(cuda, code, "finish a slice", error);
}

/* ------------------------------------------------------------------ */
/* A run.                                                              */

typedef struct Side {
    const VaeOp *op;
    VaeCudaUnit *units;
    int n;
    uint8_t *host, *device;
    size_t at, room;
    bool direct;
} Side;

/* Reserves bytes after the used ones, and writes their device address to out.
 * They may be beyond the end of the slot. */
static void
take(Side *side, size_t bytes, void *out)
{
    uint8_t *place = side->device + side->at;
    memcpy(out, &place, sizeof place);
    side->at += bytes;
}

static void
place_latent(Side *side, VaeCudaUnit *u, const VaeRun *run)
{
    const VaeTensor *t = side->op->x ? side->op->x : side->op->y;
    const bool out = side->op->kind == VAE_OP_LATENT_OUT;
    u->elements = (size_t) t->shape.h * t->shape.w * run->channels;
    u->device_latent.type = u->latent.type;
    const size_t wide = latent_bytes(VAE_TYPE_F32, u->elements);
    take(side, latent_bytes(u->latent.type, u->elements),
         &u->device_latent.data);
    u->device_read =
        (VaeLatentIn){u->device_latent.type, u->device_latent.data};
    if (out && u->latent.mean)
        take(side, wide, &u->device_latent.mean);
    if (out && u->latent.logvar)
        take(side, wide, &u->device_latent.logvar);
}

static VaeLatentOut
read_only(const VaeLatentIn *latent)
{
    return (VaeLatentOut){.type = latent->type, .data = (void *) latent->data};
}

/* Sets the place of each unit in the slot. False: the slot is too small. */
static bool
place_units(Side *side, const VaeRun *run)
{
    const VaeOpKind kind = side->op->kind;
    const bool pictures =
        kind == VAE_OP_PICTURE_IN || kind == VAE_OP_PICTURE_OUT;
    for (int i = 0; i < side->n; i++) {
        VaeCudaUnit *u = &side->units[i];
        *u = (VaeCudaUnit){.begin = side->at};
        if (!pictures) {
            u->latent = side->op->kind == VAE_OP_LATENT_OUT
                            ? run->latents_out[i]
                            : read_only(&run->latents_in[i]);
            place_latent(side, u, run);
        } else if (run->pictures[i].data[0]) {
            uint8_t *base = side->device + side->at;
            u->picture = run->pictures[i];
            u->device_picture = u->picture;
            u->direct = kind == VAE_OP_PICTURE_OUT && !u->picture.on_device &&
                        is_direct(&u->picture);
            if (!u->picture.on_device)
                side->at +=
                    place_picture(&u->picture, base, &u->device_picture);
        }
        u->end = side->at;
        side->direct = side->direct || u->direct;
    }
    return side->at <= side->room;
}

/* Copies statistics and the caller's units to the host's block. */
static void
fill(const Side *side, const VaeRun *run)
{
    const float *statistics[] = {run->scale, run->shift, run->mean, run->std};
    for (int i = 0; i < 4; i++)
        memcpy(side->host + (size_t) i * VAE_CUDA_STATISTIC, statistics[i],
               (size_t) run->channels * sizeof(float));
    for (int i = 0; i < side->n; i++) {
        const VaeCudaUnit *u = &side->units[i];
        if (u->picture.data[0] && !u->picture.on_device) {
            const VaePicture to =
                on_host(&u->device_picture, side->device, side->host);
            vae_picture_copy(&to, &u->picture);
        } else if (u->latent.data) {
            memcpy(side->host +
                       ((uint8_t *) u->device_latent.data - side->device),
                   u->latent.data, u->elements * vae_type_size(u->latent.type));
        }
    }
}

/* Makes the compute stream wait until the pictures of a side that are in device
 * memory are ready. */
static int
wait_for_pictures(const VaeBackend *cuda, const Side *side)
{
    int code = 0;
    for (int i = 0; i < side->n && !code; i++) {
        const VaePicture *p = &side->units[i].picture;
        if (p->on_device && p->ready)
            code = vae_rt_stream_wait(cuda->compute, p->ready);
    }
    return code;
}

/* Places the units of both sides in the next slot. False: it is too small. */
static bool
place(VaeBackend *cuda, const VaeProgram *p, const VaeRun *run, Side *in,
      Side *to)
{
    VaeCudaSlot *s = &cuda->slots[cuda->next];
    *in = (Side){.op = &p->ops[0],
                 .units = s->in,
                 .n = p->n_in,
                 .host = s->host_in,
                 .device = s->device_in,
                 .at = IN_HEADER,
                 .room = cuda->in_bytes};
    *to = (Side){.op = &p->ops[p->n_ops - 1],
                 .units = s->out,
                 .n = p->n_out,
                 .host = s->host_out,
                 .device = s->device_out,
                 .at = OUT_HEADER,
                 .room = cuda->out_bytes};
    const bool fits = place_units(in, run);
    return place_units(to, run) && fits;
}

/* Enlarges all slots, for pictures that were not planned. First waits for all
 * runs in flight. */
static VaeStatus
grow(VaeBackend *cuda, const VaeExec *exec, size_t in, size_t out,
     VaeError *error)
{
    VaeCudaExec larger = *(const VaeCudaExec *) exec;
    VaeStatus status = vae_cuda_stage_finish(cuda, 0, VAE_FINISH_KEEP, error);
    vae_log(&cuda->params.log,
            "pictures that come through the host, or are wider than planned, "
            "take %.1f MiB more",
            (double) VAE_CUDA_SLOTS *
                (double) (in + out - larger.in_bytes - larger.out_bytes) /
                1048576);
    larger.in_bytes = in;
    larger.out_bytes = out;
    return status == VAE_OK ? vae_cuda_stage_take(cuda, &larger, error)
                            : status;
}

/* A recorded program cannot have the number as an argument of its kernels. */
static int
set_history(const VaeBackend *cuda, const VaeExec *exec, const VaeCudaSlot *s)
{
    VaeHistoryBlocks *to = exec->memory.history;
    return to ? vae_rt_copy(&to->count, s->device_in + HISTORY_AT,
                            sizeof to->count, cuda->compute)
              : 0;
}

VaeStatus
vae_cuda_stage_in(VaeBackend *cuda, const VaeExec *exec, const VaeRun *run,
                  VaeCudaSlot **out, VaeError *error)
{
    const VaeProgram *p = exec->program;
    VaeCudaSlot *s = &cuda->slots[cuda->next];
    VaeStatus status = deliver(cuda, s, true, error);
    if (status != VAE_OK)
        return status;
    Side in, to;
    bool fits = place(cuda, p, run, &in, &to);
    if (!fits) {
        status = grow(cuda, exec, in.at, to.at, error);
        s = &cuda->slots[cuda->next];
        fits = status == VAE_OK && place(cuda, p, run, &in, &to);
    }
    if (status != VAE_OK)
        return status;
    assert(fits);
    cuda->next = (cuda->next + 1) % VAE_CUDA_SLOTS;
    s->n_out = p->n_out;
    s->out_used = to.at;
    s->direct = to.direct;
    s->stats = run->stats;
    s->bad = run->bad;
    const uint64_t start = vae_now_ns();
    fill(&in, run);
    memcpy(s->host_in + HISTORY_AT, &run->history, sizeof run->history);
    s->stats->upload_ns += vae_now_ns() - start;
    *out = s;
    int code = vae_rt_event_record(s->begun, cuda->up);
    if (!code)
        code = vae_rt_copy(s->device_in, s->host_in, in.at, cuda->up);
    if (!code)
        code = vae_rt_event_record(s->uploaded, cuda->up);
    if (!code)
        code = vae_rt_stream_wait(cuda->compute, s->uploaded);
    if (!code)
        code = set_history(cuda, exec, s);
    if (!code)
        code = wait_for_pictures(cuda, &in);
    if (!code)
        code = wait_for_pictures(cuda, &to);
    if (!code)
        code = vae_rt_event_record(s->started, cuda->compute);
    if (!code)
        code = vae_rt_zero(s->device_out, OUT_HEADER, cuda->compute);
    return vae_cuda_status(cuda, code, "copy in a slice", error);
}

/* Copies a picture to the caller's memory. Planes without gaps between them,
 * which have none on the device either, are one copy. */
static int
copy_direct(const VaeBackend *cuda, const VaeCudaUnit *u)
{
    size_t row[3];
    int rows[3], code = 0;
    const int n = vae_picture_planes(&u->picture, row, rows);
    for (int i = 0, next; i < n && !code; i = next) {
        size_t bytes = row[i] * (size_t) rows[i];
        for (next = i + 1;
             next < n && u->picture.data[next] == u->picture.data[i] + bytes;
             next++)
            bytes += row[next] * (size_t) rows[next];
        code = vae_rt_copy(u->picture.data[i], u->device_picture.data[i], bytes,
                           cuda->down);
    }
    return code;
}

/* Starts the copies of the slot's results. */
static int
copy_results(const VaeBackend *cuda, const VaeCudaSlot *s)
{
    int code = vae_rt_copy(s->host_out, s->device_out,
                           s->direct ? OUT_HEADER : s->out_used, cuda->down);
    for (int i = 0; i < s->n_out && s->direct && !code; i++) {
        const VaeCudaUnit *u = &s->out[i];
        if (u->direct)
            code = copy_direct(cuda, u);
        else if (u->end > u->begin)
            code = vae_rt_copy(s->host_out + u->begin, s->device_out + u->begin,
                               u->end - u->begin, cuda->down);
    }
    return code;
}

VaeStatus
vae_cuda_stage_out(VaeBackend *cuda, VaeCudaSlot *s, VaeError *error)
{
    int code = 0;
    /* VAE_FINISH_COUNT waits for counters, which must not wait for earlier
     * pictures */
    if (s->bad)
        code =
            vae_rt_copy(s->host_out, s->device_out, OUT_HEADER, cuda->compute);
    if (!code)
        code = vae_rt_event_record(s->computed, cuda->compute);
    if (!code)
        code = vae_rt_stream_wait(cuda->down, s->computed);
    if (!code)
        code = copy_results(cuda, s);
    if (!code)
        code = vae_rt_event_record(s->downloaded, cuda->down);
    s->busy = !code;
    return vae_cuda_status(cuda, code, "copy out a slice", error);
}
