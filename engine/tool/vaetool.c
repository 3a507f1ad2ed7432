/*
 * vaetool.c: the command line of libvae.
 */
#include <signal.h>
#include <string.h>

#include "tool.h"

#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <unistd.h>

#include <windows.h>

#include <shellapi.h>
#endif

typedef struct Entry {
    Command command;
    const char *name, *arguments, *summary;
    int n_arguments, n_inputs; /* the inputs come first */
    int (*run)(const Options *o);
    const char *text;
} Entry;

static const Entry entries[] = {
    {COMMAND_INFO, "info", "(FILE | --spaces)", "print the content of a file",
     1, 1, command_info,
     "Prints the model, the latents or the video in the file, and its\n"
     "metadata. FILE is safetensors, an index of shards, a folder of\n"
     "weights, npy, or a file of torch.save() (.pth, .pt). If FILE is\n"
     "OUT.part or OUT.checkpoint of decode --resume, or a checkpoint of\n"
     "vaedecode, prints its state and how to continue. Fails if it knows\n"
     "nothing in the file.\n"},
    {COMMAND_MODELS, "models", "", "list the installed models", 0, 0,
     command_models,
     "Lists the models that the elements find without a property model: the\n"
     "file, its network and its latent space. Also lists the folders that\n"
     "they search. vaetool itself always needs --model.\n"},
    {COMMAND_DECODE, "decode", "--model WEIGHTS LATENTS OUT",
     "decode latents to frames", 2, 1, command_decode,
     "LATENTS is safetensors (such as a .latent file of ComfyUI), npy, or\n"
     "a tensor that torch.save() wrote (.pt, .pth). OUT is a safetensors\n"
     "file with `frames`, F32 [T,H,W,3], in the network's own range and\n"
     "not clamped. Its metadata state the values of black and white\n"
     "(vae.pixel_range) and, if LATENTS state it, the frame rate\n"
     "(vae.framerate). OUT.npy has the same frames without metadata.\n"
     "OUT.y4m is YUV4MPEG2, 4:2:0 of 8 bits, limited range, BT.601 up to\n"
     "576 lines and BT.709 above. \"-\" writes it to standard output:\n"
     "vaetool decode ... - | ffmpeg -i - OUT.mp4\n"},
    {COMMAND_ENCODE, "encode", "--model WEIGHTS FRAMES OUT",
     "encode frames to latents", 2, 1, command_encode,
     "FRAMES is safetensors, npy, or a file of torch.save() (.pt, .pth).\n"
     "It has `video_u8`, U8 [T,H,W,3], or `frames`, F32 [T,H,W,3], or one\n"
     "such tensor alone. F32 values are in the range that the file states\n"
     "(vae.pixel_range), by default the network's own. OUT is a\n"
     "safetensors file with `latent`, F32 [C,T,h,w], normalized unless\n"
     "--normalization raw is given. For a model with a posterior it also\n"
     "has `mean` and `logvar`, raw, as the network gives them. If FRAMES\n"
     "state a frame rate (vae.framerate), OUT states it, too. OUT.npy has\n"
     "`latent` alone, and no metadata. OUT.latent is a file for ComfyUI's\n"
     "LoadLatent, with the numbers that it expects.\n"},
    {COMMAND_COMPARE, "compare", "A B", "compare two files", 2, 2,
     command_compare,
     "Prints a line for each tensor that both files have: shape, largest\n"
     "difference and its position, root mean square, PSNR and its peak.\n"
     "The peak is 255 for U8. For frames, both sides are clamped to the\n"
     "range that the file states (vae.pixel_range), by default -1..1, and\n"
     "the peak is the width of that range. Files that state different\n"
     "ranges differ. --peak overrides the range: 2 means -1..1 and 1\n"
     "means 0..1, also for U8; any other value only sets the peak. For\n"
     "other tensors the peak is the range of A.\n"
     "An option that says how to read latents is for each file that does\n"
     "not state it, and --batch-index for each file with a batch. Latents\n"
     "whose layout is stated are compared as [C,T,h,w]. The latents of a\n"
     ".latent file of ComfyUI are compared with those of any other file.\n"
     "Raw and normalized latents of one space are compared as normalized\n"
     "ones. `video_u8` of one file is compared with `frames` of the other:\n"
     "0..255 becomes the range that the file of `frames` states.\n"
     "A value that is not finite in only one file counts as an infinite\n"
     "difference. With a NaN in either file there is no PSNR. A line\n"
     "tells if the frame rates of the files differ.\n\n"
     "With --stream, A and B are concatenated binary PPM pictures, such\n"
     "as from named pipes. Each pair prints a line with PSNR and SSIM at\n"
     "once. The bounds apply to PSNR and SSIM over all pairs.\n"},
    {COMMAND_PLAN, "plan", "(--model WEIGHTS | --arch ARCH) --size WxH",
     "print the memory and work of a stream", 0, 0, command_plan,
     "Prints for a decoder and an encoder the memory that a stream takes,\n"
     "in bytes by purpose, and the floating-point operations of its first\n"
     "and later steps. A step is a latent and its frames. Allocates none\n"
     "of this memory. `loading` is the memory to load one weight at\n"
     "a time; it is freed before anything except weights is allocated.\n"
     "`library` is a margin for the code and tables of the computing\n"
     "library, and `ops` an estimate for the lists of operations. All\n"
     "other numbers are exact. With --arch, weights are float32.\n"},
    {COMMAND_WEIGHTS, "make-weights", "ARCH OUT",
     "make a full-size model with generated weights", 2, 0, command_weights,
     "Writes a full-size model with generated weights to the safetensors\n"
     "file OUT. The weights come from a hash of each tensor's name. They\n"
     "are the same on every machine, and their frames are only noise.\n"},
    {COMMAND_BENCH, "bench",
     "(--model WEIGHTS | --arch ARCH) --size WxH --frames N",
     "measure the time of one direction and of each op", 0, 0, command_bench,
     "Decodes generated latents or, with --encode, encodes generated\n"
     "frames. Times the first step separately. --profile adds a row for\n"
     "each op with its implementation, time, floating-point operations,\n"
     "bytes read and written, both per second, and share of the time.\n"},
};

enum { N_ENTRIES = sizeof entries / sizeof entries[0] };

static void
print_usage(FILE *to)
{
    fprintf(to, "Usage: vaetool COMMAND [OPTION...] [ARGUMENT...]\n\n");
    for (int i = 0; i < N_ENTRIES; i++)
        fprintf(to, "  %-13s %s\n", entries[i].name, entries[i].summary);
    fprintf(to,
            "\n  vaetool COMMAND --help  prints the options of a command\n"
            "  vaetool --backends      lists the backends, and why one "
            "does not work\n"
            "  vaetool --version       prints the version\n\n"
            "Exit codes: 0 success; 1 compare: a difference past a bound, "
            "different\nshapes, or a NaN in one file only; 2 usage; "
            "3 failure.\nAfter Ctrl-C, vaetool ends by that signal, which a "
            "shell calls 130.\n");
}

static void
print_backends(void)
{
    for (VaeBackendKind b = VAE_BACKEND_CUDA; b < VAE_BACKEND_KINDS; b++) {
        char why[512];
        if (vae_backend_available(b, why, sizeof why))
            printf("%s: yes\n", vae_backend_name(b));
        else
            printf("%s: no: %s\n", vae_backend_name(b), why);
    }
}

static void
print_help(const Entry *e)
{
    printf("Usage: vaetool %s [OPTION...]%s%s\n\n%s\nOptions:\n", e->name,
           *e->arguments ? " " : "", e->arguments, e->text);
    options_print(e->command, stdout);
    if (e->command & (COMMAND_WEIGHTS | COMMAND_PLAN | COMMAND_BENCH)) {
        char names[500] = "";
        for (const char *const *a = vae_model_archs(); *a; a++)
            snprintf(names + strlen(names), sizeof names - strlen(names),
                     "%s%s", *names ? " " : "", *a);
        const int at = printf("\nARCH:") - 1;
        options_print_words(stdout, at, at, names);
    }
    printf(
        "\nExit codes: 0 success%s; 2 usage; 3 failure.\n",
        e->command == COMMAND_COMPARE
            ? "; 1 past a bound, different shapes, or\na NaN in one file only"
            : "");
}

/* Files are mapped, and a file may be read in any order. */
static int
fail_stdin(const Entry *e)
{
    fprintf(stderr,
            "vaetool %s: \"-\" for an input: standard input cannot be read, "
            "expected the path of a file (./- for a file of this name)\n",
            e->name);
    return EXIT_USAGE;
}

static int
run_with(const Entry *e, const Options *o)
{
    if (o->help) {
        print_help(e);
        return EXIT_OK;
    }
    if (o->n_arguments != (o->spaces ? 0 : e->n_arguments)) {
        fprintf(stderr, "vaetool %s: %s given, expected: %s\n", e->name,
                VAE_COUNTED(o->n_arguments, "argument"),
                *e->arguments ? e->arguments : "none");
        return EXIT_USAGE;
    }
    for (int i = 0; i < o->n_arguments; i++)
        if (i < e->n_inputs && strcmp(o->argument[i], "-") == 0)
            return fail_stdin(e);
    return o->model && strcmp(o->model, "-") == 0 ? fail_stdin(e) : e->run(o);
}

static int
run(const Entry *e, int argc, char **argv)
{
    Options o;
    const int code = options_parse(e->command, e->name, argc, argv, &o)
                         ? run_with(e, &o)
                         : EXIT_USAGE;
    json_decref(o.given);
    return code;
}

/* A failed write to standard output is a failure, too. */
static int
finish(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (code == EXIT_OK)
            code = fail_text("cannot write to standard output");
    }
    if (code == EXIT_FAILED)
        interrupt_end();
    return code;
}

#ifdef _WIN32
/* The C library gives arguments in the code page, and converts line ends. */
static void
prepare_console(int *argc, char ***argv)
{
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), argc);
    char **all = calloc((size_t) *argc + 1, sizeof *all);
    for (int i = 0; wide && all && i < *argc; i++) {
        const int n =
            WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        all[i] = calloc(1, (size_t) n + 1);
        if (all[i])
            WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, all[i], n, NULL, NULL);
    }
    if (wide && all)
        *argv = all;
    SetConsoleOutputCP(CP_UTF8);
    _setmode(STDOUT_FILENO, _O_BINARY);
}
#endif

int
main(int argc, char **argv)
{
#ifdef _WIN32
    prepare_console(&argc, &argv);
#endif
#ifdef SIGXFSZ
    /* Beyond the limit on file sizes, write() fails instead of a signal. */
    signal(SIGXFSZ, SIG_IGN);
#endif
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
    fprintf(stderr, "vaetool: no command \"%s\"; see vaetool --help\n",
            argv[1]);
    return EXIT_USAGE;
}
