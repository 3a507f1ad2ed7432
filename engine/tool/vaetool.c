/*
 * vaetool.c: the command line of libvae.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

typedef struct Entry {
    Command command;
    const char *name, *arguments, *summary;
    int n_arguments;
    int (*run)(const Options *o);
    const char *text;
} Entry;

static const Entry entries[] = {
    {COMMAND_INFO, "info", "FILE", "what a file of weights or tensors holds", 1,
     command_info,
     "Prints the model that the weights are of, or the latents or the video "
     "that\n"
     "the file holds, and its metadata. FILE is safetensors, an index of "
     "shards, a\n"
     "diffusers folder, npy, or what torch.save() wrote (.pth, .pt). Of "
     "OUT.part "
     "and\n"
     "OUT.checkpoint of decode --resume, and of a checkpoint of vaedecode, it "
     "prints\n"
     "where they stand and how they go on.\n"},
    {COMMAND_DECODE, "decode", "--model WEIGHTS LATENTS OUT",
     "latents to frames", 2, command_decode,
     "LATENTS is safetensors (a .latent of ComfyUI is, too), npy or a tensor "
     "that\n"
     "torch.save() wrote (.pt, .pth). OUT is a safetensors file with\n"
     "`frames`, F32 [T,H,W,3], in the network's own range, not clamped; "
     "what\n"
     "black and white are there it states as vae.pixel_range, and the frame "
     "rate,\n"
     "where LATENTS state one, as vae.framerate.\n"},
    {COMMAND_ENCODE, "encode", "--model WEIGHTS FRAMES OUT",
     "frames to latents", 2, command_encode,
     "FRAMES holds `video_u8`, U8 [T,H,W,3], or `frames`, F32 [T,H,W,3] in "
     "the\n"
     "network's own range unless the file states another (vae.pixel_range), "
     "or one\n"
     "such tensor alone; it is safetensors, npy or what torch.save() wrote "
     "(.pt,\n"
     ".pth). OUT is a safetensors file with `latent`, F32 [C,T,h,w], "
     "normalized\n"
     "unless --normalization raw is given, and, where the model has a "
     "posterior,\n"
     "`mean` and `logvar` as its head gives them. A frame rate that FRAMES "
     "state\n"
     "(vae.framerate) it states, too.\n"},
    {COMMAND_COMPARE, "compare", "A B", "how far two files are apart", 2,
     command_compare,
     "Prints a line for each tensor that both files have: shape, largest\n"
     "difference and where it is, root mean square, PSNR and its peak. The\n"
     "peak is 255 for U8. Frames run over what the file states "
     "(vae.pixel_range),\n"
     "else over -1..1; both sides are clamped to that, and its width is the "
     "peak.\n"
     "Two files that state different ranges differ. --peak wins over what they "
     "say:\n"
     "2 means -1..1, and 1 means 0..1, also for U8; any other is the peak "
     "alone.\n"
     "For other tensors the peak is the range of A.\n"
     "Latents whose file states a layout (vae.layout) are compared as "
     "[C,T,h,w].\n"
     "`video_u8` of one file is compared with `frames` of the other, 0..255 "
     "taken\n"
     "for the range that the file of `frames` states. Values that are not "
     "finite in one file only "
     "are\n"
     "infinitely far apart; with a NaN in either there is no PSNR. Where both "
     "files\n"
     "state a frame rate and it is not the same, a line tells so.\n\n"
     "With --stream, A and B are binary PPM pictures, one behind the other, as "
     "named\n"
     "pipes bring them. Each pair gives a line with PSNR and SSIM at once; the "
     "bounds\n"
     "are for PSNR and SSIM over all of them.\n"},
    {COMMAND_PLAN, "plan", "(--model WEIGHTS | --arch ARCH) --size WxH",
     "memory and work per direction", 0, command_plan,
     "Prints what a stream would take, in bytes by purpose, and the floating\n"
     "point operations of its first and its later steps. Takes nothing. "
     "`loading` is\n"
     "what one weight takes on its way; it is given back before all but the "
     "weights\n"
     "is taken. `library` is an estimate of what the computing library keeps "
     "for\n"
     "itself, code and tables; all others are to the byte. Of ARCH weights in\n"
     "float32 are reckoned with.\n"},
    {COMMAND_WEIGHTS, "make-weights", "ARCH OUT",
     "a full-size model with generated weights", 2, command_weights,
     "The numbers come from a hash of each tensor's name: they are the same\n"
     "everywhere and make no pictures.\n"},
    {COMMAND_BENCH, "bench",
     "(--model WEIGHTS | --arch ARCH) --size WxH --frames N",
     "time of one direction, and of every op", 0, command_bench,
     "Runs generated latents (with --encode: frames) through a stream. The\n"
     "first step is timed apart from the others. --profile adds a row for "
     "every "
     "op:\n"
     "time, work, bytes read and written, what computed it, and its share of "
     "the\n"
     "floor: the time that its work takes at the rate of a large matrix "
     "product, or\n"
     "its bytes at that of a copy of memory, whichever is longer. Both are "
     "measured\n"
     "before and after (not with --backend ref). What lies in a cache can be "
     "faster.\n"},
};

enum { N_ENTRIES = sizeof entries / sizeof entries[0] };

static void
print_usage(FILE *to)
{
    fprintf(to, "Usage: vaetool COMMAND [OPTION...] [ARGUMENT...]\n\n");
    for (int i = 0; i < N_ENTRIES; i++)
        fprintf(to, "  %-13s %s\n", entries[i].name, entries[i].summary);
    fprintf(to,
            "\nvaetool COMMAND --help tells more; vaetool --version; "
            "vaetool --backends\ntells what computes here.\n\n"
            "Exit codes: 0 done; 1 compare found a difference past a "
            "bound,\nshapes that differ or a NaN in one file only; 2 usage; "
            "3 failure.\n");
}

/* The fastest first, as --backend auto takes them. */
static void
print_backends(void)
{
    static const VaeBackendKind kinds[] = {VAE_BACKEND_CUDA, VAE_BACKEND_CPU,
                                           VAE_BACKEND_REF};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char why[512];
        if (vae_backend_available(kinds[i], why, sizeof why))
            printf("%s: yes\n", vae_backend_name(kinds[i]));
        else
            printf("%s: no: %s\n", vae_backend_name(kinds[i]), why);
    }
}

static void
print_help(const Entry *e)
{
    printf("Usage: vaetool %s [OPTION...] %s\n\n%s\nOptions:\n", e->name,
           e->arguments, e->text);
    options_print(e->command, stdout);
    if (e->command & (COMMAND_WEIGHTS | COMMAND_PLAN | COMMAND_BENCH)) {
        printf("\nARCH:");
        for (const char *const *a = vae_model_archs(); *a; a++)
            printf(" %s", *a);
        printf("\n");
    }
    printf("\nExit codes: 0 done%s; 2 usage; 3 failure.\n",
           e->command == COMMAND_COMPARE
               ? "; 1 past a bound, shapes differ or NaN in one "
                 "file only"
               : "");
}

int
fail_text(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    fflush(stdout);
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text)
        vae_text_printable(text);
    fprintf(stderr, "vaetool: %s\n", text ? text : "no memory");
    free(text);
    return EXIT_FAILED;
}

int
fail(const VaeError *error)
{
    return fail_text("%s", error->message);
}

void
warn_nonfinite(const VaeStream *stream)
{
    VaeStreamStats stats;
    stats = *vae_stream_stats(stream);
    if (stats.nonfinite > 0)
        fprintf(stderr,
                "vaetool: warning: %llu values of the latents are not "
                "finite\n",
                (unsigned long long) stats.nonfinite);
    if (stats.nonfinite_steps > 0)
        fprintf(stderr,
                "vaetool: warning: %llu steps gave results that are not "
                "finite; %llu of them were recovered in fp32\n",
                (unsigned long long) stats.nonfinite_steps,
                (unsigned long long) stats.recovered_steps);
}

VaeStatus
open_model(const Options *o, VaeModel **out, VaeError *error)
{
    const VaeModelOptions options = {.struct_size = sizeof(VaeModelOptions),
                                     .variant = o->variant};
    if (!o->model)
        return vae_model_generate(o->arch, out, error);
    return vae_model_open(o->model, &options, out, error);
}

static void
say(void *user, const char *line)
{
    fprintf(stderr, "%s\n", line);
}

static void
warn(void *user, const char *line)
{
    fprintf(stderr, "vaetool: warning: %s\n", line);
}

VaeStreamParams
stream_params(const Options *o, VaeDirection direction, int width, int height)
{
    return (VaeStreamParams){
        .struct_size = sizeof(VaeStreamParams),
        .direction = direction,
        .backend = o->backend,
        .device = o->device,
        .precision = o->precision,
        .width = width,
        .height = height,
        .slice_size = o->slice,
        .threads = o->threads,
        .deterministic = o->deterministic,
        .normalization = o->normalization,
        .posterior = o->posterior,
        .nan_policy = o->nan_policy,
        .seed = o->seed,
        .log = o->verbose ? say : NULL,
        .warn = warn,
    };
}

static int
run(const Entry *e, int argc, char **argv)
{
    Options o;
    if (!options_parse(e->command, e->name, argc, argv, &o))
        return EXIT_USAGE;
    if (o.help) {
        print_help(e);
        return EXIT_OK;
    }
    if (o.n_arguments != e->n_arguments) {
        fprintf(stderr, "vaetool %s: %d argument%s given, wanted: %s\n",
                e->name, o.n_arguments, o.n_arguments == 1 ? "" : "s",
                e->arguments);
        return EXIT_USAGE;
    }
    return e->run(&o);
}

/* Output that did not reach its place is a failure too. */
static int
finish(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (code == EXIT_OK)
            code = fail_text("cannot write to standard output");
    }
    return code;
}

int
main(int argc, char **argv)
{
    /* Past a limit on file sizes a write shall fail, not end the process. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return finish(EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("vaetool %s\n", vae_version());
        return finish(EXIT_OK);
    }
    if (strcmp(argv[1], "--backends") == 0) {
        print_backends();
        return finish(EXIT_OK);
    }
    for (int i = 0; i < N_ENTRIES; i++) {
        if (strcmp(argv[1], entries[i].name) == 0)
            return finish(run(&entries[i], argc - 2, argv + 2));
    }
    fprintf(stderr, "vaetool: there is no command \"%s\"; see vaetool --help\n",
            argv[1]);
    return EXIT_USAGE;
}
