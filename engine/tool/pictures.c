/*
 * pictures.c: compares two streams of pictures as they arrive.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ssim.h"
#include "tool.h"
#include "vae-private/os.h"

enum { MAX_SIDE = 65535 };

/* A stream of concatenated binary PPM pictures of 8 bits. */
typedef struct Pictures {
    const char *path;
    FILE *file;
    int64_t width, height; /* of the current picture */
    uint8_t *rgb;
    size_t room;
} Pictures;

typedef struct Sums {
    int64_t frames;
    double squares, values; /* of all frames */
    double least_psnr, ssim, least_ssim;
} Sums;

/* Reads a number after space and comments, and the one character after it.
 * Returns 0 if there is none or it exceeds the limit. */
static int64_t
read_number(FILE *file, int64_t limit)
{
    int64_t n = 0;
    int c = getc(file);
    while (c == '#' || isspace(c)) {
        const bool comment = c == '#';
        while (comment && c != '\n' && c != EOF)
            c = getc(file);
        c = getc(file);
    }
    for (; isdigit(c) && n <= limit; c = getc(file))
        n = 10 * n + (c - '0');
    return isspace(c) && n <= limit ? n : 0;
}

static VaeStatus
bad_picture(const Pictures *p, int64_t k, const char *what, VaeError *error)
{
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: picture %" PRId64 " %s, expected a binary PPM (P6) of "
                    "8 bits",
                    p->path, k, what);
}

/* Reads the next picture; sets *end if there is none. */
static VaeStatus
read_picture(Pictures *p, int64_t k, bool *end, VaeError *error)
{
    const int first = getc(p->file);
    *end = first == EOF && !ferror(p->file);
    if (*end)
        return VAE_OK;
    if (first != 'P' || getc(p->file) != '6')
        return bad_picture(p, k, "has no P6 at its start", error);
    p->width = read_number(p->file, MAX_SIDE);
    p->height = p->width > 0 ? read_number(p->file, MAX_SIDE) : 0;
    if (p->height == 0 || read_number(p->file, 255) != 255)
        return bad_picture(p, k, "has a header that is not valid", error);
    const size_t size = (size_t) p->width * (size_t) p->height * 3;
    if (size > p->room) {
        free(p->rgb);
        p->room = 0;
        p->rgb = malloc(size);
        if (!p->rgb)
            return vae_fail(error, VAE_ERR_MEMORY,
                            "%s: no memory for a picture of %" PRId64
                            "x%" PRId64,
                            p->path, p->width, p->height);
        p->room = size;
    }
    if (fread(p->rgb, 1, size, p->file) != size)
        return bad_picture(p, k, "is cut short", error);
    return VAE_OK;
}

static double
psnr_of(double squares, double values)
{
    return 10 * log10(255.0 * 255.0 * values / squares);
}

static void
add_pair(Sums *s, const Pictures *a, const Pictures *b)
{
    const VaeTensorInfo x = {.type = VAE_TYPE_U8,
                             .n_dims = 4,
                             .dims = {1, a->height, a->width, 3},
                             .data = a->rgb};
    VaeTensorInfo y = x;
    const size_t n = (size_t) a->width * (size_t) a->height * 3;
    double squares = 0;
    y.data = b->rgb;
    for (size_t i = 0; i < n; i++) {
        const int d = a->rgb[i] - b->rgb[i];
        squares += d * d;
    }
    const double psnr = psnr_of(squares, (double) n);
    const double ssim = ssim_video(&x, &y, NULL, 255);
    printf("frame %" PRId64 " PSNR %.2f dB SSIM %.6f\n", s->frames, psnr, ssim);
    fflush(stdout);
    s->least_psnr = s->frames && s->least_psnr < psnr ? s->least_psnr : psnr;
    s->least_ssim = s->frames && s->least_ssim < ssim ? s->least_ssim : ssim;
    s->squares += squares;
    s->values += (double) n;
    s->ssim += ssim;
    s->frames++;
}

/* A NaN misses every bound. */
static int
finish(const Options *o, const Sums *s)
{
    const double psnr = psnr_of(s->squares, s->values);
    const double ssim = s->ssim / (double) s->frames;
    const bool past = (!isnan(o->min_psnr) && !(psnr >= o->min_psnr)) ||
                      (!isnan(o->min_ssim) && !(ssim >= o->min_ssim));
    printf("%s: PSNR %.2f dB, %.2f dB at least; SSIM %.6f on "
           "average, %.6f at least%s\n",
           VAE_COUNTED(s->frames, "frame"), psnr, s->least_psnr, ssim,
           s->least_ssim, past ? " PAST THE BOUND" : "");
    return past ? EXIT_DIFFERS : EXIT_OK;
}

static int
compare_pictures(const Options *o, Pictures *a, Pictures *b)
{
    Sums sums = {0};
    VaeError error;
    for (;;) {
        bool end_a, end_b;
        if (read_picture(a, sums.frames, &end_a, &error) != VAE_OK ||
            read_picture(b, sums.frames, &end_b, &error) != VAE_OK)
            return fail(&error);
        if (end_a != end_b)
            return fail_text(
                "%s ends after %s, %s goes on", end_a ? a->path : b->path,
                VAE_COUNTED(sums.frames, "picture"), end_a ? b->path : a->path);
        if (end_a)
            break;
        if (a->width != b->width || a->height != b->height)
            return fail_text("picture %" PRId64 " is %" PRId64 "x%" PRId64
                             " in %s, %" PRId64 "x%" PRId64 " in %s",
                             sums.frames, a->width, a->height, a->path,
                             b->width, b->height, b->path);
        add_pair(&sums, a, b);
    }
    if (sums.frames == 0)
        return fail_text("%s and %s hold no pictures", a->path, b->path);
    return finish(o, &sums);
}

static bool
pictures_open(Pictures *p, const char *path)
{
    *p = (Pictures){.path = path, .file = vae_os_fopen(path)};
    if (!p->file)
        fail_text("%s: cannot open: %s", path, strerror(errno));
    return p->file != NULL;
}

static void
pictures_close(Pictures *p)
{
    if (p->file)
        fclose(p->file);
    free(p->rgb);
}

int
compare_streams(const Options *o)
{
    Pictures a = {0}, b = {0};
    VaeFileFacts facts;
    int code = EXIT_FAILED;
    if (!isnan(o->max_abs) || !isnan(o->peak) || o->tensor) {
        fail_text("--stream goes with --min-psnr and --min-ssim only");
        return EXIT_USAGE;
    }
    /* Its writer would wait for a reader of the other half. */
    if (vae_os_facts(o->argument[0], &facts) &&
        facts.kind != VAE_FILE_REGULAR &&
        vae_os_is_file(o->argument[1], &facts))
        return fail_text("%s is named twice, and is no regular file: expected "
                         "two streams",
                         o->argument[0]);
    if (pictures_open(&a, o->argument[0]) && pictures_open(&b, o->argument[1]))
        code = compare_pictures(o, &a, &b);
    pictures_close(&a);
    pictures_close(&b);
    return code;
}
