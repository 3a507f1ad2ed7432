/*
 * tune.c: tests the test of a device before its first use, and the choice of a
 * kernel for each layer. The emulated device makes up the times. A layer is
 * timed once, and never for a deterministic stream.
 */
#include <sys/wait.h>

#include "../../stream/streams.h"
#include "layers.h"
#include "emu_rt.h"
#include "stream.h"

static char said[1 << 16], opened[1024];

/* Keeps all lines except those about the backend and the rung. */
static void
listen(void *user, const char *line)
{
    const size_t n = strlen(said);
    if (strncmp(line, "opened in ", 10) == 0) {
        snprintf(opened, sizeof opened, "%s", line);
        return;
    }
    if (strncmp(line, "decode: ", 8) == 0 ||
        strncmp(line, "memory setting ", 15) == 0)
        return;
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

typedef struct Start {
    VaePrecision precision;
    int slice;
    bool deterministic;
} Start;

static const Start fp32 = {VAE_PRECISION_FP32, 2, false};

static VaeStatus
try_start(const Bed *bed, Start s, VaeStream **out, VaeError *error)
{
    VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                              .direction = VAE_DECODE,
                              .backend = VAE_BACKEND_CUDA,
                              .precision = s.precision,
                              .width = 16,
                              .height = 16,
                              .slice_size = s.slice,
                              .device = -1,
                              .deterministic = s.deterministic,
                              .log = listen};
    said[0] = '\0';
    emu_conv_searches();
    emu_conv_runs();
    return vae_stream_new(bed->model, &params, out, error);
}

static VaeStream *
started(const Bed *bed, Start s)
{
    VaeStream *stream;
    VaeError error;
    must(try_start(bed, s, &stream, &error), &error);
    return stream;
}

/* ------------------------------------------------------------------ */
/* The test of the device.                                             */

/* Opens the weights again, so that nothing is left on the device. */
static Bed
fresh(const Bed *bed)
{
    VaeError error;
    Bed own = *bed;
    must(vae_model_open(bed->info->path, NULL, &own.model, &error), &error);
    own.info = vae_model_info(own.model);
    return own;
}

/* Refuses each allocation of the test of the device in turn. */
static void
test_wants_memory(const Bed *bed, Start start)
{
    VaeStream *stream;
    VaeError error;
    const int before = emu_alive();
    int n = 0, left = 0;
    for (bool last = false; !last;) {
        Bed own = fresh(bed);
        emu_fail_alloc(n + 1);
        const VaeStatus status = try_start(&own, start, &stream, &error);
        emu_fail_alloc(0);
        vae_stream_free(&stream);
        vae_model_free(&own.model);
        last = status != VAE_ERR_MEMORY || !strstr(error.message, "its test");
        left += emu_alive() != before || emu_convs_alive() > 0;
        n += !last;
    }
    /* 4 and 5 blocks of the norms; 2 of each attention; 5 of the large
     * convolution, and 4 of each of the others, whose first choice needs no
     * workspace. */
    expect(n == 30 && left == 0, "%d blocks refused, %d times something left",
           n, left);
}

static void
expect_refused(const Bed *bed, Start start, EmuWrong wrong, const char *words)
{
    VaeStream *stream;
    VaeError error = {0};
    const int before = emu_alive();
    emu_set_wrong(wrong);
    const VaeStatus status = try_start(bed, start, &stream, &error);
    emu_set_wrong(EMU_WRONG_NONE);
    vae_stream_free(&stream);
    expect(status == VAE_ERR_BACKEND && strstr(error.message, words) &&
               emu_alive() == before && emu_convs_alive() == 0,
           "%s", error.message);
}

static void
wrong_device(const Bed *bed, Start start)
{
    VaeStream *stream;
    VaeError error;
    expect_refused(bed, start, EMU_WRONG_LARGE, "a large convolution");
    expect_refused(bed, start, EMU_WRONG_SMALL, "a small convolution");
    expect_refused(bed, start, EMU_WRONG_PADS, "a halving convolution");
    expect_refused(bed, start, EMU_WRONG_RMS, "an RMS norm");
    expect_refused(bed, start, EMU_WRONG_GROUP, "a group norm");
    expect_refused(bed, start, EMU_WRONG_NARROW, "an attention (384 channels)");
    expect_refused(bed, start, EMU_WRONG_MIDDLE, "an attention (512 channels)");
    expect_refused(bed, start, EMU_WRONG_WIDE, "an attention (1024 channels)");
    expect_refused(bed, start, EMU_WRONG_IMAGE,
                   "cannot run a kernel (compute capability 9.0)");
    if (start.precision != VAE_PRECISION_TF32) {
        static const struct {
            EmuWrong wrong;
            const char *words;
        } own[] = {
            {EMU_WRONG_OWN, "a large convolution (96 channels, 3x3x3) by own"},
            {EMU_WRONG_WGMMA, "3x3x3) by own 4 wgmma gives"},
            {EMU_WRONG_TO,
             "a convolution to a picture (96 channels, 3x3x3) by"},
            {EMU_WRONG_FROM, "a convolution from a picture"},
            {EMU_WRONG_UP, "a convolution after an upsampling (96 channels, "
                           "1x2x2) by own 4 up gives"}};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            expect_refused(bed, start, own[i].wrong, own[i].words);
    }
    /* The first start tests the device. The second one uses the known result.
     */
    for (int i = 0; i < 2; i++) {
        must(try_start(bed, start, &stream, &error), &error);
        const char *line = strstr(said, "computes correctly in ");
        expect((i == 0) == (line != NULL), "%.*s",
               line ? (int) strcspn(line, "\n") : 9,
               line ? line : "no second test of the device");
        vae_stream_free(&stream);
        emu_set_wrong(EMU_WRONG_LARGE);
    }
    emu_set_wrong(EMU_WRONG_NONE);
}

/* AUTO skips a device that computes wrong results. */
static void
wrong_device_of_auto(const Bed *bed)
{
    SCOPED_STREAM VaeStream *stream = NULL;
    VaeError error = {0};
    said[0] = '\0';
    emu_set_wrong(EMU_WRONG_LARGE);
    const VaeStatus status = vae_stream_new(
        bed->model,
        &(VaeStreamParams){.struct_size = sizeof(VaeStreamParams),
                           .width = 32,
                           .height = 32,
                           .slice_size = 1,
                           .device = -1,
                           .log = listen},
        &stream, &error);
    emu_set_wrong(EMU_WRONG_NONE);
    expect(status == VAE_OK &&
               vae_stream_get_plan(stream)->backend != VAE_BACKEND_CUDA &&
               strstr(said, "backend cuda is not taken: ") &&
               strstr(said, "a large convolution"),
           "auto: %s%s", error.message, said);
}

/* ------------------------------------------------------------------ */
/* Choices.                                                            */

/* Returns the number of runs that load the code of the stream's layers if none
 * is timed: `phases` for a layer with phases, and one for each other layer. */
static int
loading_runs(const VaeStream *stream, int phases)
{
    static char known[100][VAE_CUDA_LAYER_NAME];
    int n = 0, runs = 0;
    for (int i = 0; i < PROGRAMS; i++)
        for (int k = 0;
             stream->main.programs[i] && k < stream->main.programs[i]->n_ops;
             k++) {
            const VaeOp *op = &stream->main.programs[i]->ops[k];
            if (op->kind != VAE_OP_CONV)
                continue;
            const VaeCudaConvShape shape = vae_cuda_shape(op, false);
            int at = 0;
            vae_cuda_layer_name(&shape, known[n]);
            while (strcmp(known[at], known[n]) != 0)
                at++;
            runs += at < n ? 0 : op->conv.up ? phases : 1;
            n += at == n;
        }
    return runs;
}

/* Opens a stream: `way` computes all its convolutions. timed: layers are timed;
 * otherwise nothing is timed or searched. */
static void
expect_start(const Bed *bed, Start start, const char *way, bool timed,
             const char *what)
{
    VaeStream *stream = started(bed, start);
    const int searches = emu_conv_searches(), runs = emu_conv_runs();
    const int loading = loading_runs(stream, VAE_PHASES);
    const int n = convs_by(stream, NULL), others = n - convs_by(stream, way);
    vae_stream_free(&stream);
    expect(n > 0 && others == 0 && (searches > 0) == timed &&
               (timed ? runs > 2 * loading : runs == loading),
           "%s: %d convolutions, %d not by %s; %d searches, %d runs, %d would "
           "load their code",
           what, n, others, way, searches, runs, loading);
}

static void
expect_said(const char *words, bool expected)
{
    const char *line = strstr(said, words);
    expect((line != NULL) == expected, "\"%s\" is%s in the log", words,
           line ? "" : " not");
}

/* The parts of the time of opening sum to the whole. Choices take most of it if
 * layers are timed. The weights are already on the device. */
static void
expect_opened(bool timed)
{
    char name[16], most[16] = "";
    double total = 0, sum = 0, seconds, best = -1;
    int used = 0, n = 0;
    sscanf(opened, "opened in %lf s: %n", &total, &used);
    for (const char *at = opened + used;
         sscanf(at, "%15[a-z] %lf%*[, ]%n", name, &seconds, &used) == 2;
         at += used) {
        n++;
        sum += seconds;
        if (seconds > best)
            strcpy(most, name);
        best = seconds > best ? seconds : best;
        if (strcmp(name, "other") == 0)
            break;
    }
    expect(n == VAE_OPENING_PARTS && total > 0 &&
               fabs(sum - total) < 0.0005 * (n + 1) &&
               (!timed || strcmp(most, "choices") == 0),
           "%s: %d parts, %.3f s", opened, n, sum);
}

static void
choices(const Bed *bed)
{
    const Start other = {VAE_PRECISION_FP32, 1, false};
    const Start bf16 = {VAE_PRECISION_BF16, 2, false};
    emu_set_conv_times(1.15f, 1, 1.1f);
    expect_start(bed, fp32, "cudnn:2 1", true, "the first start");
    expect_said("fastest of 3", true);
    expect_said("timed convolutions kept in", true);
    expect_opened(true);
    emu_set_conv_times(1, 3, 2);
    expect_start(bed, fp32, "cudnn:2 1", false, "the second start");
    expect(!*said, "no log line");
    expect_opened(false);
    expect_start(bed, other, "cudnn:2 1", false, "another slice size");
    expect_start(bed, bf16, "cudnn:1 3", true, "another precision");
    expect_start(bed, fp32, "cudnn:2 1", false, "the first start again");
    expect_start(bed, bf16, "cudnn:1 3", false, "the other precision again");
    emu_set_devices(1, 80);
    emu_set_conv_times(2, 3, 1);
    expect_start(bed, fp32, "cudnn:3 2", true, "another device");
    emu_set_devices(1, 90);
    expect_start(bed, fp32, "cudnn:2 1", false, "the first device again");
    emu_set_conv_times(3, -1, 1);
    expect_start(bed, fp32, "cudnn:3 2", true, "a choice is missing");
    expect_said("cannot be made", true);
    emu_set_conv_times(3, 1, 2);
    expect_start(bed, fp32, "cudnn:3 2", false, "its replacement");
}

/* Checks the number of runs of a layer on a device without stored times. */
static void
expect_runs(const Bed *bed, int capability, int expected, const char *way)
{
    emu_set_devices(1, capability);
    VaeStream *stream = started(bed, fp32);
    /* one search for the plan, one for the times */
    const int layers = emu_conv_searches() / 2, runs = emu_conv_runs();
    const int others = convs_by(stream, NULL) - convs_by(stream, way);
    vae_stream_free(&stream);
    expect(layers > 0 && runs == expected * layers && others == 0,
           "%d runs of %d layers, %d convolutions not by %s", runs, layers,
           others, way);
}

/* A long convolution runs only a few times. The fastest choice runs once more,
 * because its result is compared with that of the first suggestion, and is
 * timed once more unless it is short. Then it computes 4, 1 and 3 frames, and
 * the bytes are compared. */
static void
few_runs(const Bed *bed)
{
    enum { EVEN = 3 };
    VaeCudaConvShape shape = {.t = 4, .k = 3, .kt = 3, .c_in = 96, .c_out = 96};
    shape.ho = 60;
    shape.wo = 104;
    expect(vae_cuda_timed_frames(&shape) == 4, "a small layer: 4 frames");
    shape.ho = 480;
    shape.wo = 832;
    expect(vae_cuda_timed_frames(&shape) == 2, "a larger layer: two frames");
    shape.ho = 1080;
    shape.wo = 1920;
    expect(vae_cuda_timed_frames(&shape) == 1, "a large layer: one frame");
    /* a small convolution whose result has more than 2 GiB */
    VaeCudaConvShape wide = {.t = 4,
                             .h = 1080,
                             .w = 1920,
                             .c_in = 256,
                             .ho = 10,
                             .wo = 10,
                             .c_out = 16,
                             .k = 3,
                             .kt = 3,
                             .s = 1,
                             .st = 1,
                             .x_type = VAE_TYPE_BF16,
                             .y_type = VAE_TYPE_BF16};
    expect(vae_cuda_layer_frames(&wide) == 1 &&
               vae_cuda_timed_frames(&wide) == 1,
           "computed frame by frame: one");
    wide.c_in = 96;
    expect(vae_cuda_layer_frames(&wide) == 2 &&
               vae_cuda_timed_frames(&wide) == 2,
           "computed two frames at a time: two");
    emu_set_conv_times(1.15f, 1, 1.1f);
    expect_runs(bed, 81, 12 + 3 + EVEN, "cudnn:2 1");
    emu_set_conv_times(10, 100, 9);
    expect_runs(bed, 82, 4 + 3 + 4 + 3 + EVEN, "cudnn:3 2");
    emu_set_conv_times(30, 60, 29);
    expect_runs(bed, 83, 3 + 3 + 3 + 3 + EVEN, "cudnn:3 2");
    /* a short convolution is recorded many times */
    emu_set_conv_times(0.02f, 0.1f, 0.01f);
    expect_runs(bed, 85, 3 * (1 + 1 + 8) + 2 + EVEN, "cudnn:3 2");
    emu_set_conv_times(400, 700, 300);
    expect_runs(bed, 84, 3 + 3 + 3 + EVEN, "cudnn:1 3");
    emu_set_conv_times(3, 1, 2);
    emu_set_devices(1, 90);
}

/* Times that vary are measured once more. If they vary again, they are used,
 * but not stored. Times that are measured while other programs use most of the
 * memory are not used for long. */
static void
disturbed(const Bed *bed)
{
    emu_set_devices(1, 86);
    emu_set_conv_times(3, 1, 2);
    emu_set_conv_jitter(1.5f);
    expect_start(bed, fp32, "cudnn:2 1", true, "times that vary");
    expect_said("the times vary", true);
    expect_said("kept in", false);
    emu_set_conv_jitter(1.1f);
    expect_start(bed, fp32, "cudnn:2 1", true, "times that vary less");
    expect_said("the times vary", false);
    expect_said("kept in", true);
    emu_set_conv_jitter(1);
    expect_start(bed, fp32, "cudnn:2 1", false, "stored times");
    emu_set_devices(1, 94);
    emu_set_conv_disturbed(2, 9);
    expect_start(bed, fp32, "cudnn:2 1", true, "one time is too long");
    expect_said("the times vary", false);
    expect_said("kept in", true);
    emu_set_conv_disturbed(0, 1);
    expect_start(bed, fp32, "cudnn:2 1", false, "the stored times");
    emu_set_devices(1, 87);
    emu_set_others((uint64_t) 3 << 30); /* of 4 */
    expect_start(bed, fp32, "cudnn:2 1", true, "a shared device");
    expect_start(bed, fp32, "cudnn:2 1", false, "it is still shared");
    emu_set_others(0);
    expect_start(bed, fp32, "cudnn:2 1", true, "it is not shared any more");
    expect_start(bed, fp32, "cudnn:2 1", false, "the stored times");
    emu_set_devices(1, 90);
}

/* The fastest choice is not used if its result differs from that of the first
 * suggestion. */
static void
wrong_choices(const Bed *bed)
{
    emu_set_conv_times(3, 1, 2);
    emu_set_devices(1, 88);
    emu_set_conv_flaw(2, EMU_FLAW_RESULT);
    expect_start(bed, fp32, "cudnn:3 2", true, "the fastest is wrong");
    expect_said("2 1 is not used: it does not compute the same as 1 3", true);
    emu_set_devices(1, 95);
    emu_set_conv_flaw(2, EMU_FLAW_FRAMES);
    expect_start(bed, fp32, "cudnn:3 2", true, "its bytes depend on frames");
    expect_said("2 1 is not used: its bytes depend on the number of frames",
                true);
    emu_set_devices(1, 91);
    emu_set_conv_flaw(2, EMU_FLAW_IN_PLACE);
    VaeStream *stream = started(bed, fp32);
    const int second = convs_by(stream, "cudnn:2 1"),
              third = convs_by(stream, "cudnn:3 2");
    vae_stream_free(&stream);
    emu_set_conv_flaw(0, EMU_FLAW_RESULT);
    expect(second > 0 && third > 0,
           "wrong in place: %d convolutions by it, %d sums by another", second,
           third);
    emu_set_devices(1, 90);
}

/* A choice that refuses to run some layers is used only for the others. */
static void
refused_layers(const Bed *bed, bool deterministic)
{
    VaeProfileRow row;
    const Start start = {VAE_PRECISION_FP16, 1, deterministic};
    const int choice = deterministic ? 1 : 2;
    char text[8];
    int with = 0, without = 0;
    snprintf(text, sizeof text, "cudnn:%d", choice);
    emu_set_devices(1, 89);
    emu_set_conv_times(3, 1, 2);
    emu_set_conv_flaw(choice, EMU_FLAW_REFUSES);
    VaeStream *stream = started(bed, start);
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        if (strcmp(row.op, "conv") == 0) {
            const bool same = strncmp(row.impl, text, strlen(text)) == 0;
            with += same;
            without += !same;
        }
    expect(with > 0 && without > 0,
           "%s: %d convolutions by a choice that refuses sums, %d by others",
           deterministic ? "deterministic" : "timed", with, without);
    vae_stream_free(&stream);
    emu_set_conv_flaw(0, EMU_FLAW_REFUSES);
    emu_set_devices(1, 90);
}

/* Runs in a child process, which a choice ends. */
static void
be_killed(const Bed *bed)
{
    VaeStream *stream;
    VaeError error;
    emu_set_devices(1, 92);
    emu_set_conv_times(3, 1, 2);
    emu_set_conv_flaw(2, EMU_FLAW_KILLS);
    try_start(bed, fp32, &stream, &error);
}

/* The next start leaves out a choice that ended the process. */
static void
deadly_choices(const Bed *bed)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0)
        execl("/proc/self/exe", "tune", "killed", (char *) NULL);
    expect(child > 0 && waitpid(child, &status, 0) == child &&
               WIFSIGNALED(status),
           "a choice ended the process");
    emu_set_devices(1, 92);
    emu_set_conv_times(3, 1, 2);
    VaeStream *stream = started(bed, fp32);
    expect_said("2 1 is left out from now on", true);
    const int deadly = convs_by(stream, NULL) - convs_by(stream, "cudnn:2 1"),
              first = convs_by(stream, "cudnn:3 2");
    vae_stream_free(&stream);
    expect(deadly > 0 && first == deadly,
           "%d convolutions by that choice, %d by the next", deadly, first);
    emu_set_devices(1, 90);
}

/* Runs in a child process. Its exit status is the chosen slice size. Slices of
 * 4 fit beside the code that a start uses, but not beside the code of all
 * choices. */
static int
take_slices(const Bed *bed)
{
    enum { WIDE = 512, LAYERS = 20, CHOICES = 3, CODE = 8 << 20 };
    uint64_t left;
    VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                              .direction = VAE_DECODE,
                              .backend = VAE_BACKEND_CUDA,
                              .precision = VAE_PRECISION_FP32,
                              .width = WIDE,
                              .height = WIDE,
                              .frames_at_once = 1000, /* all */
                              .slice_size = 1,
                              .device = -1};
    emu_set_devices(1, 93);
    SCOPED_STREAM VaeStream *stream = /* the test of the device */
        started(bed, (Start){VAE_PRECISION_FP32, 1, true});
    vae_stream_free(&stream);
    emu_skip_work(true);
    const VaePlan least = plan_of(bed->model, &params);
    params.slice_size = 4;
    const VaePlan most = plan_of(bed->model, &params);
    params.slice_size = 0;
    emu_set_conv_code(CODE);
    vae_rt_memory_left(&left);
    /* AUTO uses nine tenths of the free memory. */
    emu_set_others(left - ((uint64_t) 128 << 20) -
                   (uint64_t) LAYERS * CHOICES * CODE -
                   (least.peak + most.peak) / 2 * 10 / 9);
    stream = new_stream(bed->model, &params);
    return vae_stream_get_plan(stream)->slice_size;
}

static int
slices_of_another(void)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0)
        execl("/proc/self/exe", "tune", "slices", (char *) NULL);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

/* A start that times all layers chooses the same slices as one that times none.
 */
static void
same_slices(void)
{
    const int timed = slices_of_another(), stored = slices_of_another();
    expect(timed > 0 && timed < 4 && stored == timed,
           "slices of %d with timed layers, %d with stored times", timed,
           stored);
}

/* A deterministic stream always uses the first suggestion that runs, whatever
 * is stored. Each layer runs once for this. Nothing is timed or stored. */
static void
deterministic(const Bed *bed)
{
    const Start start = {VAE_PRECISION_FP32, 2, true};
    SCOPED_STREAM VaeStream *stream = started(bed, start);
    const int others = convs_by(stream, NULL) - convs_by(stream, "cudnn:1 3");
    const int runs = emu_conv_runs(), layers = loading_runs(stream, 1);
    expect(others == 0 && runs == layers && !*said,
           "deterministic: %d not the first choice, %d runs of %d layers%s",
           others, runs, layers, said);
}

/* After damage to the stored file, a start takes longer, and nothing else
 * changes. */
static void
damaged_store(const Bed *bed)
{
    char command[1024];
    static const char *const damage[] = {
        "for f in %s/gst-vae/*; do : >\"$f\"; done",
        "for f in %s/gst-vae/*; do truncate -s -9 \"$f\"; done",
        "for f in %s/gst-vae/*; do sed -i 3s/3/4/ \"$f\"; done",
        "rm -rf %s/gst-vae",
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        snprintf(command, sizeof command, damage[i], getenv("XDG_CACHE_HOME"));
        if (system(command) != 0)
            exit(1);
        expect_start(bed, fp32, "cudnn:2 1", true, command);
        expect_said("is not used", i < 3);
        expect_start(bed, fp32, "cudnn:2 1", false, "the next start");
    }
    snprintf(command, sizeof command, "rm -rf %s && : >%s",
             getenv("XDG_CACHE_HOME"), getenv("XDG_CACHE_HOME"));
    for (int i = 0; i < 2; i++) {
        if (system(command) != 0)
            exit(1);
        expect_start(bed, fp32, "cudnn:2 1", true, "no folder for times");
        expect_said("cannot keep", true);
    }
    unlink(getenv("XDG_CACHE_HOME"));
}

/* A layer that could not be timed, because memory was missing, uses the first
 * suggestion. This is not stored. */
static void
no_memory(const Bed *bed)
{
    VaeStream *stream;
    VaeError error;
    int guessed = 0, told = 0, left = 0;
    for (int n = 1; n <= 8; n++) {
        char command[512];
        snprintf(command, sizeof command, "rm -rf %s",
                 getenv("XDG_CACHE_HOME"));
        if (system(command) != 0)
            exit(1);
        Bed own = fresh(bed);
        const int before = emu_alive();
        emu_fail_alloc(n);
        const VaeStatus status = try_start(&own, fp32, &stream, &error);
        emu_fail_alloc(0);
        if (status == VAE_OK && strstr(said, "could be timed")) {
            guessed++;
            vae_stream_free(&stream);
            must(try_start(&own, fp32, &stream, &error), &error);
            /* one layer: one search for the plan, one for the times */
            told += emu_conv_searches() == 2;
        }
        vae_stream_free(&stream);
        vae_model_free(&own.model);
        left += emu_alive() != before || emu_convs_alive() > 0;
    }
    expect(guessed >= 4 && told == guessed && left == 0,
           "%d times a layer lacked memory, %d were timed later, %d left "
           "something",
           guessed, told, left);
}

int
main(int argc, char **argv)
{
    Bed bed;
    char root[] = "/tmp/vae-tune-XXXXXX", cache[64], command[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    bed_open(&bed, "wan21", "cuda", "fp32");
    /* without graphs a start runs each convolution once */
    setenv("VAE_CUDA_GRAPHS", "0", 1);
    if (argc > 1 && strcmp(argv[1], "slices") == 0)
        return take_slices(&bed);
    if (argc > 1)
        be_killed(&bed);
    if (argc > 1 || !mkdtemp(root))
        return 1;
    snprintf(cache, sizeof cache, "%s/cache", root);
    setenv("XDG_CACHE_HOME", cache, 1);
    test_wants_memory(&bed, (Start){VAE_PRECISION_FP32, 2, true});
    wrong_device_of_auto(&bed);
    wrong_device(&bed, (Start){VAE_PRECISION_TF32, 2, true});
    wrong_device(&bed, (Start){VAE_PRECISION_BF16, 2, true});
    wrong_device(&bed, (Start){VAE_PRECISION_FP16, 2, true});
    choices(&bed);
    few_runs(&bed);
    disturbed(&bed);
    wrong_choices(&bed);
    refused_layers(&bed, false);
    refused_layers(&bed, true);
    deadly_choices(&bed);
    same_slices();
    deterministic(&bed);
    damaged_store(&bed);
    no_memory(&bed);
    snprintf(command, sizeof command, "rm -rf %s", root);
    expect(system(command) == 0, "%s", command);
    vae_model_free(&bed.model);
    expect(emu_alive() == 0, "%d device objects are left", emu_alive());
    return tests_end();
}
