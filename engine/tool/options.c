/*
 * options.c: the options of all commands in one table.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum { RUNS = COMMAND_DECODE | COMMAND_ENCODE | COMMAND_BENCH | COMMAND_PLAN };
/* Files of latents. */
enum { READS = COMMAND_DECODE | COMMAND_INFO | COMMAND_COMPARE };

typedef struct Option Option;
struct Option {
    const char *name, *word; /* name: without "--"; word: NULL for a switch */
    unsigned commands;
    /* Reads the value (NULL for a switch). False: it is not valid. */
    bool (*set)(Options *o, const Option *p, const char *word);
    const char *help;
    /* For set_text() and the setters below it. */
    size_t field;              /* offset in Options */
    int low, high;             /* of set_whole() */
    const VaeSetting *setting; /* of set_setting() */
};

static bool
whole(const char *word, long low, long high, int *out)
{
    char *end;
    errno = 0;
    const long v = strtol(word, &end, 10);
    if (errno || end == word || *end || v < low || v > high)
        return false;
    *out = (int) v;
    return true;
}

static bool
real(const char *word, double *out)
{
    char *end;
    const double v = strtod(word, &end);
    if (end == word || *end || isnan(v))
        return false;
    *out = v;
    return true;
}

static void *
field_of(Options *o, const Option *p)
{
    return (char *) o + p->field;
}

static bool
set_text(Options *o, const Option *p, const char *word)
{
    *(const char **) field_of(o, p) = word;
    return true;
}

static bool
set_flag(Options *o, const Option *p, const char *word)
{
    return *(bool *) field_of(o, p) = true;
}

static bool
set_whole(Options *o, const Option *p, const char *word)
{
    return whole(word, p->low, p->high, field_of(o, p));
}

static bool
set_real(Options *o, const Option *p, const char *word)
{
    return real(word, field_of(o, p));
}

/* Reads a bound of 0 or more. */
static bool
set_bound(Options *o, const Option *p, const char *word)
{
    double *bound = field_of(o, p);
    return real(word, bound) && *bound >= 0;
}

/* Reads "0,1" (CUDA devices) or "cpu,cpu" (one stream for each word). */
static bool
set_devices(Options *o, const Option *p, const char *word)
{
    o->n_devices = 0;
    for (const char *at = word; at; at = strchr(at, ',')) {
        char name[16];
        int index = -1;
        VaeBackendKind kind = VAE_BACKEND_CUDA;
        at += o->n_devices > 0;
        const size_t length = strcspn(at, ",");
        if (length >= sizeof name || o->n_devices == MAX_DEVICES)
            return false;
        snprintf(name, sizeof name, "%.*s", (int) length, at);
        if (!whole(name, 0, INT_MAX, &index) &&
            (!vae_backend_parse(name, &kind) || kind == VAE_BACKEND_AUTO))
            return false;
        if (o->n_devices > 0 && kind != o->devices_backend)
            return false;
        o->devices_backend = kind;
        o->devices[o->n_devices++] = index;
    }
    return true;
}

/* Reads WxH, or N for both if one number is allowed. */
static bool
pair(const char *word, bool one, int *width, int *height)
{
    char before[16];
    const size_t n = strcspn(word, "x");
    if (n >= sizeof before || !(word[n] || one))
        return false;
    memcpy(before, word, n);
    before[n] = '\0';
    return whole(before, 1, VAE_MAX_SIDE, width) &&
           whole(word[n] ? word + n + 1 : before, 1, VAE_MAX_SIDE, height);
}

static bool
set_tile_size(Options *o, const Option *p, const char *word)
{
    int width, height;
    if (!pair(word, true, &width, &height))
        return false;
    o->params.tile_width = width;
    o->params.tile_height = height;
    return true;
}

static bool
set_size(Options *o, const Option *p, const char *word)
{
    return pair(word, false, &o->width, &o->height);
}

static bool
set_layout(Options *o, const Option *p, const char *word)
{
    return vae_layout_parse(word, &o->layout);
}

/* Reads "30000/1001" or "24". */
static bool
set_framerate(Options *o, const Option *p, const char *word)
{
    char above[16];
    const size_t n = strcspn(word, "/");
    if (n >= sizeof above)
        return false;
    memcpy(above, word, n);
    above[n] = '\0';
    return whole(above, 1, INT_MAX, &o->fps_n) &&
           whole(word[n] ? word + n + 1 : "1", 1, INT_MAX, &o->fps_d);
}

static bool
set_pixel_range(Options *o, const Option *p, const char *word)
{
    VideoRange range;
    o->pixel_range = word;
    return video_range_parse(word, &range);
}

static bool
set_tail(Options *o, const Option *p, const char *word)
{
    o->drop = strcmp(word, "drop") == 0;
    return o->drop || strcmp(word, "repeat") == 0;
}

static bool
set_dtype(Options *o, const Option *p, const char *word)
{
    static const struct {
        const char *word;
        VaeType type;
    } types[] = {
        {"f32", VAE_TYPE_F32}, {"f16", VAE_TYPE_F16}, {"bf16", VAE_TYPE_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(word, types[i].word) == 0) {
            o->dtype = types[i].type;
            return true;
        }
    }
    return false;
}

static bool
set_peak(Options *o, const Option *p, const char *word)
{
    return real(word, &o->peak) && o->peak > 0 && isfinite(o->peak);
}

#define AT(name) offsetof(Options, name)

static const Option options[] = {
    {"model", "FILE", RUNS, set_text, "file or folder of weights", AT(model)},
    {"arch", "ARCH", COMMAND_PLAN | COMMAND_BENCH, set_text,
     "instead of --model: a full-size network with generated weights",
     AT(arch)},
    {"size", "WxH", COMMAND_PLAN | COMMAND_BENCH, set_size,
     "visible pixels, such as 832x480; at most 65535 each way"},
    {"frames", "N", COMMAND_BENCH, set_whole,
     "video frames, rounded up to whole latents", AT(frames), 1, INT_MAX / 2},
    {"encode", NULL, COMMAND_BENCH, set_flag, "encode instead of decode",
     AT(encode)},
    {"profile", NULL, COMMAND_BENCH, set_flag, "also print a row for each op",
     AT(profile)},
    {"csv", NULL, COMMAND_BENCH, set_flag, "print comma-separated values",
     AT(csv)},
    {"json", NULL, COMMAND_INFO, set_flag, "print JSON", AT(json)},
    {"tensors", NULL, COMMAND_INFO, set_flag, "also list every tensor",
     AT(tensors)},
    {"spaces", NULL, COMMAND_INFO, set_flag,
     "instead of a file: print the known latent spaces", AT(spaces)},
    {"dtype", "TYPE", COMMAND_WEIGHTS | COMMAND_ENCODE, set_dtype,
     "type of the tensors to write: f32 (default), f16 or bf16"},
    {"max-abs", "X", COMMAND_COMPARE, set_bound,
     "fail if a difference is larger than X, 0 or more", AT(max_abs)},
    {"min-psnr", "DB", COMMAND_COMPARE, set_real,
     "fail if PSNR is lower than DB", AT(min_psnr)},
    {"min-ssim", "S", COMMAND_COMPARE, set_real,
     "fail if SSIM of a [T,H,W,3] tensor is lower than S", AT(min_ssim)},
    {"stream", NULL, COMMAND_COMPARE, set_flag,
     "compare streams of PPM pictures as they arrive", AT(stream)},
    {"peak", "P", COMMAND_COMPARE, set_peak,
     "peak of PSNR and SSIM, see above"},
    {"tensor", "NAME", READS | COMMAND_ENCODE, set_text,
     "name of the tensor to read", AT(tensor)},
    {"layout", "L", READS, set_layout,
     "order of the dimensions of latents: cthw, tchw, bcthw, btchw, or auto "
     "(default): as their file states, else by the shape"},
    {"batch-index", "N", READS, set_whole,
     "index of the clip in a batch, from 0", AT(batch_index), 0, INT_MAX},
    {"latent-space", "NAME", READS, set_text,
     "latent space of the latents, such as wan2.1; default: as their file "
     "states; it must be that of the model",
     AT(space)},
    {"framerate", "N/D", READS | COMMAND_ENCODE, set_framerate,
     "frame rate of the video, such as 16 or 30000/1001; default: as the file "
     "states"},
    {"pixel-range", "\"LOW HIGH\"", COMMAND_ENCODE, set_pixel_range,
     "values of black and white in F32 frames, such as \"0 1\"; default: as "
     "their file states, else the network's own"},
    {"devices", "LIST", COMMAND_DECODE, set_devices,
     "decode segments of the clip at the same time: CUDA devices such as 0,1, "
     "or a backend for each stream such as cpu,cpu; all of one backend"},
    {"tile-size", "WxH", RUNS, set_tile_size,
     "tile-width and tile-height in pixels, for --tiles blend. Tiles are then "
     "used even if the picture fits without; N: NxN"},
    {"variant", "NAME", RUNS | COMMAND_INFO, set_text,
     "name of the network, if the weights fit several networks, or its prefix, "
     "such as vae., if they hold several",
     AT(variant)},
    {"tail", "T", COMMAND_ENCODE, set_tail,
     "repeat (default): fill the last group of frames with copies of the last "
     "frame; drop: drop an incomplete group"},
    {"resume", NULL, COMMAND_DECODE, set_flag,
     "write OUT.part and OUT.checkpoint until OUT is complete, and continue "
     "from them if they exist",
     AT(resume)},
    {"checkpoint-interval", "N", COMMAND_DECODE, set_whole,
     "for --resume: latents between checkpoints; default: 8", AT(every), 1,
     INT_MAX / 2},
    {"verbose", NULL, RUNS, set_flag,
     "print the chosen backend and its settings to standard error",
     AT(verbose)},
    {"help", NULL, ~0u, set_flag, "print this text", AT(help)},
};

static bool
set_setting(Options *o, const Option *p, const char *word)
{
    if (strcmp(p->name, "normalization") == 0)
        o->normalization_given = !vae_setting_is_automatic(p->setting, word);
    return vae_setting_parse(p->setting, &o->params, word ? word : "true");
}

/* The option of a setting; for no command if it has none. */
static Option
option_of(const VaeSetting *s)
{
    static const char *const words[] = {[VAE_SETTING_WORD] = "WORD",
                                        [VAE_SETTING_NUMBER] = "N",
                                        [VAE_SETTING_SEED] = "N",
                                        [VAE_SETTING_SWITCH] = NULL,
                                        [VAE_SETTING_MEMORY] = "SIZE"};
    Option p = {s->option,   words[s->kind], RUNS,
                set_setting, s->sentence,    .setting = s};
    if (!s->option)
        p.commands = 0;
    else if (s->only_decode)
        p.commands = COMMAND_DECODE;
    else if (s->only_encode)
        p.commands = COMMAND_ENCODE;
    else if (strcmp(s->option, "normalization") == 0)
        p.commands |= READS;
    return p;
}

enum { N_OPTIONS = sizeof options / sizeof options[0] };
enum { LEFT = 22, WIDTH = 79 }; /* columns of the help */

void
options_print_words(FILE *to, int at, int left, const char *text)
{
    if (at > left)
        at = WIDTH;
    for (int n; *text; text += n + (text[n] == ' ')) {
        n = (int) strcspn(text, " ");
        if (at + 1 + n > WIDTH)
            at = fprintf(to, "\n%*s", left, "") - 1;
        at += fprintf(to, " %.*s", n, text);
    }
    fputc('\n', to);
}

/* Prints a value of an option. */
static void
print_word(FILE *to, const char *word, bool is_default, const char *sentence)
{
    char text[640];
    snprintf(text, sizeof text, "%s%s: %s", word,
             is_default ? " (default)" : "", sentence);
    options_print_words(to, fprintf(to, "%*s", LEFT + 1, ""), LEFT + 3, text);
}

static void
print_option(FILE *to, const Option *p)
{
    const VaeSetting *s = p->setting;
    char left[64], expected[128], text[640];
    snprintf(left, sizeof left, "--%s%s%s", p->name, p->word ? " " : "",
             p->word ? p->word : "");
    if (s && p->word && !s->words && s->kind != VAE_SETTING_MEMORY) {
        vae_setting_expected(s, expected, sizeof expected);
        snprintf(text, sizeof text, "%s; %s, default: %d", p->help, expected,
                 (int) s->preset);
    } else {
        snprintf(text, sizeof text, "%s%s", p->help, s && s->words ? ":" : "");
    }
    options_print_words(to, fprintf(to, "  %-20s", left), LEFT, text);
    if (s && s->automatic)
        print_word(to, "auto", true, s->automatic);
    for (int i = 0; s && s->words && s->words[i].word; i++)
        print_word(to, s->words[i].word, !s->automatic && i == s->preset,
                   s->words[i].sentence);
}

void
options_print(Command command, FILE *to)
{
    const VaeSetting *s;
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].commands & command)
            print_option(to, &options[i]);
    if (command & RUNS)
        fprintf(to, "\nSettings of the stream:\n");
    for (int i = 0; (s = vae_setting_at(i)); i++) {
        const Option p = option_of(s);
        if (p.commands & command)
            print_option(to, &p);
    }
}

static bool
find(Command command, const char *text, size_t length, Option *out)
{
    const VaeSetting *s;
    bool found = false;
    for (int i = 0; !found; i++) {
        if (i < N_OPTIONS)
            *out = options[i];
        else if ((s = vae_setting_at(i - N_OPTIONS)))
            *out = option_of(s);
        else
            return false;
        found = (out->commands & command) && strncmp(text, "--", 2) == 0 &&
                strlen(out->name) == length - 2 &&
                strncmp(out->name, text + 2, length - 2) == 0;
    }
    return found;
}

bool
options_has(Command command, const char *name)
{
    Option found;
    char text[32];
    const int n = snprintf(text, sizeof text, "--%s", name);
    return n < (int) sizeof text && find(command, text, (size_t) n, &found);
}

static bool usage(const char *command_name, const char *format, ...)
    VAE_PRINTF(2, 3);

static bool
usage(const char *command_name, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "vaetool %s: ", command_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; see vaetool %s --help\n", command_name);
    return false;
}

/* Reads the option at argv[*i] and its value, after "=" or in the next
 * argument. */
static bool
take(Command command, const char *command_name, int argc, char **argv, int *i,
     Options *out)
{
    const char *text = argv[*i];
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t) (equals - text) : strlen(text);
    const char *word = equals ? equals + 1 : NULL;
    char expected[128] = "";
    Option p;
    if (!find(command, text, length, &p))
        return usage(command_name, "no option %s", text);
    if (!p.word && word)
        return usage(command_name, "--%s takes no value, \"%s\" given", p.name,
                     word);
    if (p.word && !word) {
        if (*i + 1 >= argc)
            return usage(command_name, "--%s needs a value: %s", p.name,
                         p.word);
        word = argv[++*i];
    }
    if (p.set == set_text && word && !*word)
        return usage(command_name, "--%s is empty, expected %s", p.name,
                     p.help);
    if (p.set(out, &p, word)) {
        json_object_set_new(out->given, p.name,
                            word ? json_string(word) : json_true());
        return true;
    }
    if (p.setting)
        vae_setting_expected(p.setting, expected, sizeof expected);
    else if (p.set == set_whole && p.high < INT_MAX / 2)
        snprintf(expected, sizeof expected, "%d to %d", p.low, p.high);
    else if (p.set == set_whole)
        snprintf(expected, sizeof expected, "%d or more", p.low);
    fprintf(stderr, "vaetool %s: --%s \"%s\" is not valid%s%s; --%s %s: %s\n",
            command_name, p.name, word, *expected ? ", expected " : "",
            expected, p.name, p.word, p.help);
    return false;
}

static bool
check(Command command, const char *name, const Options *o)
{
    const VaeStreamParams *set = &o->params;
    const bool sized = command & (COMMAND_PLAN | COMMAND_BENCH);
    if (o->help)
        return true;
    if (o->model && o->arch)
        return usage(name, "--model and --arch exclude each other");
    if ((command & RUNS) && !o->model && !o->arch)
        return usage(name, "--model FILE%s is missing",
                     sized ? " or --arch ARCH" : "");
    if (sized && !o->width)
        return usage(name, "--size WxH is missing");
    if (command == COMMAND_BENCH && !o->frames)
        return usage(name, "--frames N is missing");
    if (set->device >= 0 && set->backend != VAE_BACKEND_AUTO &&
        set->backend != VAE_BACKEND_CUDA)
        return usage(name, "--device needs --backend cuda, but %s is given",
                     vae_backend_name(set->backend));
    if (o->n_devices && set->device >= 0)
        return usage(name, "--devices and --device exclude each other");
    if (o->n_devices && set->backend != VAE_BACKEND_AUTO &&
        set->backend != o->devices_backend)
        return usage(name, "--devices names devices of %s, but --backend is %s",
                     vae_backend_name(o->devices_backend),
                     vae_backend_name(set->backend));
    if (o->every && !o->resume)
        return usage(name, "--checkpoint-interval needs --resume");
    if (!set->tiles && (set->tile_width || set->tile_overlap))
        return usage(name, "--tile-%s needs --tiles blend",
                     set->tile_width ? "size" : "overlap");
    return true;
}

bool
options_parse(Command command, const char *command_name, int argc, char **argv,
              Options *out)
{
    bool only_arguments = false;
    *out = (Options){.given = json_object(),
                     .params = VAE_INIT(VaeStreamParams),
                     .batch_index = -1,
                     .max_abs = NAN,
                     .min_psnr = NAN,
                     .min_ssim = NAN,
                     .peak = NAN};
    vae_settings_init(&out->params);
    for (int i = 0; i < argc; i++) {
        if (!only_arguments && strcmp(argv[i], "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && strcmp(argv[i], "-h") == 0) {
            out->help = true;
        } else if (!only_arguments && argv[i][0] == '-' && argv[i][1]) {
            if (!take(command, command_name, argc, argv, &i, out))
                return false;
        } else if (out->n_arguments == 2) {
            return usage(command_name, "\"%s\" is one argument too many%s",
                         argv[i],
                         (command & RUNS) && !out->model && !out->arch
                             ? "; --model FILE is missing"
                             : "");
        } else if (argv[i][0] == '\0') {
            return usage(command_name,
                         "argument %d is empty, expected a file name",
                         out->n_arguments + 1);
        } else {
            out->argument[out->n_arguments++] = argv[i];
        }
    }
    return check(command, command_name, out);
}
