/*
 * own.c: tests the own convolution as a choice, on the emulated device: for
 * which layers it is offered, that it is used only if it is the fastest and
 * computes the same as the library, and what VAE_CUDA_CONV forces.
 */
#include <inttypes.h>

#include "../../stream/streams.h"
#include "emu_rt.h"
#include "gpu.h"
#include "stream.h"

static const VaeCudaConvShape residual = {.t = 4,
                                          .h = 4,
                                          .w = 6,
                                          .c_in = 96,
                                          .ho = 4,
                                          .wo = 6,
                                          .c_out = 96,
                                          .k = 3,
                                          .kt = 3,
                                          .s = 1,
                                          .st = 1,
                                          .pad_y = 1,
                                          .pad_x = 1,
                                          .add = true,
                                          .x_type = VAE_TYPE_BF16,
                                          .y_type = VAE_TYPE_BF16};

/* The same in fp16. */
static VaeCudaConvShape
residual_f16(void)
{
    VaeCudaConvShape s = residual;
    s.x_type = s.y_type = VAE_TYPE_F16;
    return s;
}

/* Opens a device with this capability, for which no times are stored yet. */
static VaeBackend *
open_device(int capability, bool deterministic)
{
    VaeDevice device;
    VaeBackend *backend;
    VaeError error;
    const VaeBackendParams params = {.precision = VAE_PRECISION_FP16,
                                     .device = -1,
                                     .deterministic = deterministic};
    emu_set_devices(1, capability);
    must(vae_backend_cuda.open(&params, &backend, &device, &error), &error);
    return backend;
}

/* Returns the index of the first own kernel among the choices, or -1. *kernels
 * receives the number of own kernels, which follow each other. */
static int
own_among(VaeBackend *cuda, const VaeCudaConvShape *shape, int most,
          int *kernels)
{
    VaeCudaChoice choices[VAE_CUDA_MAX_CHOICES];
    VaeError error;
    int n, found = -1;
    must(vae_cuda_conv_choices(cuda->convs, shape, choices, most, &n, &error),
         &error);
    *kernels = 0;
    for (int i = n - 1; i >= 0; i--)
        if (vae_cuda_choice_is_own(&choices[i])) {
            found = i;
            ++*kernels;
        }
    return n <= most ? found : -2;
}

static void
test_offered(void)
{
    static const struct {
        const char *what;
        int c_in, c_out, k, s, type, odd, index, kernels;
        int w; /* width; 0: that of `residual` */
    } cases[] = {
        {"96 channels", 96, 96, 3, 1, VAE_TYPE_BF16, 0, 1, 2},
        {"fp16", 192, 384, 3, 1, VAE_TYPE_F16, 0, 1, 2},
        {"128 channels", 128, 128, 3, 1, VAE_TYPE_BF16, 0, 1, 2},
        {"a phase of an upsampling", 384, 192, 2, 1, VAE_TYPE_BF16, 0, 1, 4},
        {"phases that fill tiles", 64, 64, 2, 1, VAE_TYPE_BF16, 0, 1, 2},
        {"a picture", 96, 3, 3, 1, VAE_TYPE_BF16, 1, 1, 1},
        {"a picture of 128 channels", 128, 3, 3, 1, VAE_TYPE_F16, 0, 1, 1},
        {"a picture in fp32", 96, 3, 3, 1, VAE_TYPE_F32, 0, -1},
        {"too many channels for a block", 192, 3, 3, 1, VAE_TYPE_BF16, 0, -1},
        {"from a picture", 3, 96, 3, 1, VAE_TYPE_BF16, 0, 1, 1, 8},
        {"64 channels from a picture", 3, 64, 3, 1, VAE_TYPE_F16, 0, 1, 1, 24},
        {"from a picture of another width", 3, 96, 3, 1, VAE_TYPE_BF16, 0, -1},
        {"from a picture in fp32", 3, 96, 3, 1, VAE_TYPE_F32, 0, -1, 0, 8},
        {"one tap from a picture", 3, 96, 1, 1, VAE_TYPE_BF16, 0, -1, 0, 8},
        {"folded pixels", 12, 64, 3, 1, VAE_TYPE_BF16, 0, -1, 0, 8},
        {"fp32", 96, 96, 3, 1, VAE_TYPE_F32, 0, -1},
        {"a stride", 96, 96, 3, 2, VAE_TYPE_BF16, 0, -1},
        {"one tap", 96, 96, 1, 1, VAE_TYPE_BF16, 0, -1},
        {"a tile that is not full", 96, 64, 3, 1, VAE_TYPE_BF16, 0, -1},
        {"few inputs", 16, 96, 3, 1, VAE_TYPE_BF16, 0, -1},
        {"odd addresses", 96, 96, 3, 1, VAE_TYPE_BF16, 1, -1},
    };
    int kernels;
    VaeBackend *cuda = open_device(90, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        VaeCudaConvShape s = residual;
        s.c_in = cases[i].c_in;
        s.c_out = cases[i].c_out;
        s.k = cases[i].k;
        s.s = cases[i].s;
        s.x_type = s.y_type = (VaeType) cases[i].type;
        s.odd = cases[i].odd;
        s.w = s.wo = cases[i].w ? cases[i].w : residual.w;
        s.add = s.c_out != 3 && s.k != 2;
        const int index = own_among(cuda, &s, 6, &kernels);
        expect(index == cases[i].index && kernels == cases[i].kernels,
               "%s: %d own kernels, the first at %d", cases[i].what, kernels,
               index);
    }
    expect(own_among(cuda, &residual, 1, &kernels) == -1,
           "the first suggestion is the library's");
    expect(own_among(cuda, &residual, 2, &kernels) == 1 && kernels == 1,
           "an own kernel is the second suggestion");
    vae_backend_cuda.close(&cuda);
    /* GeForce devices multiply faster with sums of F16. */
    static const struct {
        int capability, bf16, f16; /* numbers of own kernels */
    } devices[] = {{75, 0, 0}, {80, 1, 1},  {86, 1, 2},
                   {89, 1, 2}, {100, 1, 1}, {120, 1, 2}};
    const VaeCudaConvShape f16 = residual_f16();
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        int halves;
        cuda = open_device(devices[i].capability, false);
        own_among(cuda, &residual, 4, &kernels);
        own_among(cuda, &f16, 4, &halves);
        expect(kernels == devices[i].bf16 && halves == devices[i].f16,
               "%d and, in fp16, %d own kernels for compute capability %d",
               kernels, halves, devices[i].capability);
        vae_backend_cuda.close(&cuda);
    }
}

/* A kernel can compute the norm of its result only if one block has all
 * channels. */
static void
test_norms(void)
{
    static const struct {
        const char *choice;
        int c_out;
        bool can;
    } cases[] = {{"own 4", 96, true},         {"own 4", 384, false},
                 {"own 4", 256, true},        {"own 4 wgmma", 256, false},
                 {"own 4 wgmma", 192, true},  {"own 4 wgmma", 128, true},
                 {"own 4 wgmma", 384, false}, {"own 4 half", 256, true},
                 {"own 4 half", 384, false},  {"2 1", 96, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        VaeCudaChoice choice = {""};
        strcpy(choice.text, cases[i].choice);
        expect(vae_cuda_choice_norms(&choice, cases[i].c_out) == cases[i].can,
               "\"%s\" and the norm of %d channels", cases[i].choice,
               cases[i].c_out);
    }
}

static void
expect_choice_of(const VaeCudaConvShape *shape, int capability,
                 bool deterministic, const char *want, const char *what)
{
    VaeCudaChoice choice = {""};
    VaeError error;
    VaeBackend *cuda = open_device(capability, deterministic);
    must(vae_cuda_layer_choice(cuda, shape, true, &choice, &error), &error);
    vae_cuda_layers_keep(cuda);
    expect(strcmp(choice.text, want) == 0, "%s: found %s, expected %s", what,
           choice.text, want);
    vae_backend_cuda.close(&cuda);
}

static void
expect_choice(int capability, bool deterministic, const char *want,
              const char *what)
{
    expect_choice_of(&residual, capability, deterministic, want, what);
}

/* One launch for all phases takes the time of three, so a fourth of it is the
 * shortest. It is chosen only for phases. */
static void
test_phases(void)
{
    VaeCudaConvShape s = residual;
    s.k = 2;
    s.kt = 1;
    s.add = false;
    emu_set_own(0.5f, false);
    expect_choice_of(&s, 84, false, "own 4 up", "all phases at once");
    emu_set_own(1.5f, false);
    expect_choice_of(&s, 86, false, "2 1", "all phases at once, but slower");
    s.w = s.wo = 7;
    emu_set_own(1.5f, false);
    expect_choice_of(&s, 90, false, "own 4 wgmma up",
                     "a device of compute capability 9.0");
    emu_set_own(0.5f, true);
    expect_choice_of(&s, 85, false, "2 1",
                     "a kernel that computes wrong phases");
    emu_set_own(0.5f, false);
}

static void
test_timed(void)
{
    emu_set_own(1.5f, false);
    expect_choice(80, false, "2 1", "a slower kernel");
    emu_set_own(0.5f, false);
    expect_choice(80, false, "2 1", "a stored time");
    expect_choice(81, false, "own 4", "the fastest kernel");
    expect_choice(81, true, "1 3", "a deterministic stream does not choose");
    emu_set_own(1.5f, false);
    expect_choice(81, false, "own 4", "a stored kernel");
    emu_set_own(0.5f, true);
    expect_choice(82, false, "2 1", "a kernel that computes wrong");
    emu_set_own(1.5f, false);
    expect_choice(90, false, "own 4 wgmma", "the kernel of one capability");
    emu_set_own(0.5f, false);
}

/* Sums of F16 take half of the time. */
static void
test_half(void)
{
    const VaeCudaConvShape f16 = residual_f16();
    emu_set_own(1.5f, false);
    expect_choice_of(&f16, 89, false, "own 4 half", "sums of F16");
    expect_choice_of(&residual, 89, false, "2 1", "bf16 has no such sums");
    expect_choice_of(&f16, 80, false, "2 1",
                     "a device with one rate for both sums");
    expect_choice_of(&f16, 89, true, "1 3",
                     "a deterministic stream does not choose them");
    emu_set_own(0.5f, true);
    expect_choice_of(&f16, 120, false, "2 1", "wrong sums of F16");
    emu_set_own(0.5f, false);
}

/* If forced, the own convolution also computes layers that do not fill a tile.
 */
static void
test_small(void)
{
    VaeCudaConvShape s = residual;
    int kernels;
    s.c_in = 8;
    s.c_out = 12;
    setenv("VAE_CUDA_CONV", "own", 1);
    VaeBackend *cuda = open_device(90, false);
    expect(own_among(cuda, &s, 1, &kernels) == 0,
           "the own kernel computes small layers");
    s.c_out = 3;
    expect(own_among(cuda, &s, 1, &kernels) == -1,
           "the library computes three channels with a residual");
    s.add = false;
    expect(own_among(cuda, &s, 1, &kernels) == 0,
           "the own kernel computes a picture");
    vae_backend_cuda.close(&cuda);
    unsetenv("VAE_CUDA_CONV");
}

static void
test_forced(void)
{
    VaeBackend *backend;
    VaeDevice device;
    VaeError error;
    const VaeBackendParams params = {.precision = VAE_PRECISION_FP16,
                                     .device = -1};
    const VaeCudaConvShape f16 = residual_f16();
    setenv("VAE_CUDA_CONV", "cudnn", 1);
    expect_choice(83, false, "2 1", "VAE_CUDA_CONV=cudnn");
    expect_choice(81, false, "2 1",
                  "VAE_CUDA_CONV=cudnn with a stored own kernel");
    setenv("VAE_CUDA_CONV", "own", 1);
    expect_choice(80, true, "own 4", "VAE_CUDA_CONV=own");
    setenv("VAE_CUDA_CONV", "wgmma", 1);
    expect_choice(90, true, "own 4 wgmma", "VAE_CUDA_CONV=wgmma on 9.0");
    expect_choice(80, true, "own 4", "VAE_CUDA_CONV=wgmma on 8.0");
    expect_choice_of(&f16, 89, true, "own 4", "VAE_CUDA_CONV=wgmma on 8.9");
    setenv("VAE_CUDA_CONV", "half", 1);
    expect_choice_of(&f16, 90, true, "own 4 half", "VAE_CUDA_CONV=half");
    expect_choice(89, true, "own 4", "VAE_CUDA_CONV=half in bf16");
    setenv("VAE_CUDA_CONV", "head", 1);
    expect_choice(90, true, "1 3", "VAE_CUDA_CONV=head");
    setenv("VAE_CUDA_CONV", "up", 1);
    expect_choice(90, true, "1 3", "VAE_CUDA_CONV=up");
    setenv("VAE_CUDA_CONV", "fast", 1);
    const VaeStatus status =
        vae_backend_cuda.open(&params, &backend, &device, &error);
    expect(status == VAE_ERR_ARGUMENT &&
               strstr(error.message, "VAE_CUDA_CONV is \"fast\""),
           "%s", error.message);
    unsetenv("VAE_CUDA_CONV");
    expect_choice(83, false, "own 4", "a forced choice is not stored");
}

/* The own kernel stores the phases of an upsampling joined, and needs no block
 * for them. The library needs one. */
static void
test_joined(void)
{
    VaeCudaConvShape s = residual;
    VaeError error;
    s.k = 2;
    s.kt = 1;
    s.add = false;
    const VaeCudaRows rows = {s.h, s.ho, 1, false};
    VaeBackend *cuda = open_device(90, false);
    for (int own = 0; own < 3; own++) {
        VaeCudaChoice choice = {""};
        VaeCudaParts parts;
        strcpy(choice.text, own == 2   ? "own 4 wgmma up"
                            : own == 1 ? "own 4"
                                       : "2 1");
        must(
            vae_cuda_parts_new(cuda->convs, &s, &rows, &choice, &parts, &error),
            &error);
        expect(parts.joined == (own > 0) && (parts.bytes == 0) == (own > 0) &&
                   parts.phases == (own == 2 ? 1 : 4),
               "%s: %d launches, %zu bytes of phases", choice.text,
               parts.phases, parts.bytes);
        vae_cuda_parts_free(&parts);
    }
    vae_backend_cuda.close(&cuda);
}

/* A kernel for all phases must not compute only one, because it would write
 * outside of the result. */
static void
test_one_phase(void)
{
    VaeCudaConvShape s = residual;
    VaeCudaConv *conv;
    VaeError error;
    s.k = 2;
    s.kt = 1;
    s.add = false;
    VaeBackend *cuda = open_device(90, false);
    must(vae_cuda_conv_new(cuda->convs, &s, &(VaeCudaChoice){"own 4 up"}, &conv,
                           &error),
         &error);
    const VaeStatus status = vae_cuda_conv_bind(
        conv, &(VaeCudaConvArgs){.phase_weights = 1}, &error);
    expect(status == VAE_ERR_BACKEND, "%s", error.message);
    vae_cuda_conv_free(&conv);
    vae_backend_cuda.close(&cuda);
}

/* ------------------------------------------------------------------ */
/* Streams whose convolutions read their context from the carry. With "head"
 * these are the last layers of decoders, which also compute the norm of their
 * input. With "up" they are none of these, but layers behind upsamplings
 * compute all phases in one launch. */

enum { SIDE = 16, T = 5, SOME = 3 };

/* The bytes of a stream's activations, and how many of its convolutions compute
 * a norm: of their result, or of their input. */
typedef struct Fused {
    uint64_t arena;
    int behind, in_front;
} Fused;

static Fused
fused(const VaeStream *stream)
{
    Fused f = {.arena = vae_stream_get_plan(stream)->arena};
    for (int i = 0; i < PROGRAMS; i++)
        for (int k = 0;
             stream->main.programs[i] && k < stream->main.programs[i]->n_ops;
             k++) {
            f.behind += vae_norm_behind(stream->main.programs[i], k) >= 0;
            f.in_front += vae_norm_in_front(stream->main.programs[i], k) >= 0;
        }
    return f;
}

/* Decodes or encodes the clip. */
static Fused
run(const Bed *bed, VaeDirection direction, int slice, int strips,
    const TestClip *clip)
{
    static const int steps[] = {T, 0};
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = direction,
                                          .width = SIDE,
                                          .height = SIDE,
                                          .slice_size = slice,
                                          .frames_at_once = 1000, /* all */
                                          .strips = strips,
                                          .spill = VAE_SPILL_OFF});
    clip_poison(bed, (TestClip *) clip, direction);
    run_clip(bed, stream, direction, clip, steps);
    return fused(stream);
}

/* In slices of one latent, layers of one frame copy the carry in front of it.
 * In larger slices they do not, and parts of a slice may begin within the
 * carry. */
static void
test_context(const Bed *bed, VaeDirection direction, const char *kernel)
{
    const VaeCudaPartLimits usual = vae_cuda_part_limits;
    SCOPED_CLIP TestClip want = bed_clip(bed, T, SIDE, SIDE, 0);
    SCOPED_CLIP TestClip got = bed_clip(bed, T, SIDE, SIDE, 0);
    setenv("VAE_CUDA_CONV", "cudnn", 1);
    const Fused none = run(bed, direction, SOME, 1, &got);
    setenv("VAE_CUDA_CONV", kernel, 1);
    run(bed, direction, 1, 1, &want);
    const Fused some = run(bed, direction, SOME, 1, &got);
    /* The slab of the last layer is not the largest one. */
    expect(strcmp(kernel, "own") == 0 ? some.arena < none.arena
                                      : some.arena == none.arena,
           "%" PRIu64 " bytes without context in slabs, %" PRIu64 " with it",
           some.arena, none.arena);
    expect((some.behind > 0) == (strcmp(kernel, "own") == 0) &&
               (some.in_front > 0) == (strcmp(kernel, "head") == 0) &&
               none.behind + none.in_front == 0,
           "%s: convolutions compute %d norms of results and %d of inputs",
           kernel, some.behind, some.in_front);
    same_result(bed, &got, &want, direction, "slices of three and of one");
    run(bed, direction, SOME, 2, &got); /* strips have separate norms */
    same_result(bed, &got, &want, direction, "strips");
    for (int bands = 0; bands < 2; bands++) {
        vae_cuda_part_limits.bytes = vae_cuda_part_limits.band = 1000;
        vae_cuda_part_limits.numbers = bands ? 300 : usual.numbers;
        run(bed, direction, SOME, 1, &got);
        same_result(bed, &got, &want, direction, bands ? "bands" : "parts");
        vae_cuda_part_limits = usual;
    }
    unsetenv("VAE_CUDA_CONV");
}

int
main(void)
{
    char root[] = "/tmp/vae-own-XXXXXX", command[64];
    if (!mkdtemp(root))
        return 1;
    setenv("XDG_CACHE_HOME", root, 1);
    unsetenv("VAE_CUDA_CONV");
    test_offered();
    test_norms();
    test_timed();
    test_half();
    test_phases();
    test_forced();
    test_small();
    test_joined();
    test_one_phase();
    emu_set_devices(1, 90);
    Bed bed;
    bed_open(&bed, "wan21", "cuda", "bf16");
    test_context(&bed, VAE_DECODE, "own");
    test_context(&bed, VAE_DECODE, "head");
    test_context(&bed, VAE_DECODE, "up");
    test_context(&bed, VAE_ENCODE, "own");
    vae_model_free(&bed.model);
    snprintf(command, sizeof command, "rm -rf %s", root);
    expect(system(command) == 0, "%s", command);
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}
