/*
 * compare.c: compares the tensors of two files.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

/* Finds the range of frames in both files: from --peak, else as the files
 * state, else -1..1. False if the files state different ranges. U8 has no range
 * of its own: next to float it takes that of the float tensor. */
static bool
find_range(const Options *o, const View v[2], VideoRange *out)
{
    const bool bytes_a = v[0].tensor->type == VAE_TYPE_U8;
    const bool bytes_b = v[1].tensor->type == VAE_TYPE_U8;
    VideoRange x, y;
    *out = (VideoRange){.low = o->peak == 1 ? 0 : -1, .high = 1};
    if (peak_is_range(o))
        return true;
    const bool in_a = video_range(v[0].file, &x);
    const bool in_b = video_range(v[1].file, &y);
    if (in_a && (!in_b || !bytes_a))
        *out = x;
    else if (in_b)
        *out = y;
    return !isnan(o->peak) || bytes_a || bytes_b || !in_a || !in_b ||
           (x.low == y.low && x.high == y.high);
}

static int
ranges_differ(const View v[2])
{
    VideoRange x, y;
    video_range(v[0].file, &x);
    video_range(v[1].file, &y);
    print_names(v);
    printf(" DIFFERENT RANGES: black and white are %g and %g in %s, %g and %g "
           "in %s; --peak 2 compares the numbers as they are; to compare the "
           "pictures, scale the frames of one file, and its "
           "vae.pixel_range\n",
           (double) x.low, (double) x.high, v[0].path, (double) y.low,
           (double) y.high, v[1].path);
    return EXIT_DIFFERS;
}

static int
shapes_differ(const View v[2])
{
    char left[128], right[128];
    print_names(v);
    printf(" DIFFERENT SHAPES: %s in %s, %s in %s\n",
           vae_dims_text(v[0].dims, v[0].n_dims, left, sizeof left), v[0].path,
           vae_dims_text(v[1].dims, v[1].n_dims, right, sizeof right),
           v[1].path);
    return EXIT_DIFFERS;
}

/* Fails if a tensor of the pair cannot be read. */
static int
check_types(const View v[2])
{
    const VaeTensorInfo *a = v[0].tensor, *b = v[1].tensor;
    char left[128], right[128];
    VaeError error;
    for (int i = 0; i < 2; i++)
        if (v[i].tensor->strided) {
            vae_tensor_refuse(v[i].file, v[i].tensor, "", "", &error);
            return fail(&error);
        }
    if (!a->supported || !b->supported)
        return fail_text("tensor \"%s\": cannot compare %s with %s", a->name,
                         vae_type_words(a->type_name, left, sizeof left),
                         vae_type_words(b->type_name, right, sizeof right));
    return EXIT_OK;
}

static int
compare_pair(const Options *o, View v[2])
{
    const VaeTensorInfo *a = v[0].tensor, *b = v[1].tensor;
    VaeError error;
    if (view_pair(o, v, &error) != VAE_OK)
        return fail(&error);
    const bool same_range = find_range(o, v, &v[0].black_white);
    /* U8 is scaled to the range next to a float tensor, or if --peak gives the
     * range. */
    const int bytes = (a->type == VAE_TYPE_U8) + (b->type == VAE_TYPE_U8);
    if (is_video(a) && is_video(b) &&
        (bytes == 1 || (bytes == 2 && peak_is_range(o))))
        v[0].range = v[1].range = &v[0].black_white;
    if (!same_shape(v))
        return shapes_differ(v);
    const int code = check_types(v);
    if (code != EXIT_OK)
        return code;
    if (!same_range && is_frames(a) && is_frames(b))
        return ranges_differ(v);
    return compare_scaled(o, v);
}

static void
list_names(const VaeTensorFile *f, char *buffer, size_t size)
{
    const size_t n = vae_tensor_file_count(f);
    size_t at = 0;
    buffer[0] = 0;
    for (size_t i = 0; i < n && at < size; i++) {
        if (i == 8) {
            snprintf(buffer + at, size - at, ", ...");
            break;
        }
        at += (size_t) snprintf(buffer + at, size - at, "%s%s", i ? ", " : "",
                                vae_tensor_file_at(f, i)->name);
    }
}

static int
none_in_common(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    char left[400], right[400];
    if (o->tensor)
        return fail_text("tensor \"%s\" is not in both files", o->tensor);
    list_names(a, left, sizeof left);
    list_names(b, right, sizeof right);
    return fail_text("no tensor in common: %s has %s; %s has %s",
                     o->argument[0], left, o->argument[1], right);
}

/* The video of b under the other of its two names, if a has only one of them.
 */
static const VaeTensorInfo *
other_video(const VaeTensorFile *a, const VaeTensorInfo *x,
            const VaeTensorFile *b)
{
    static const char *const names[] = {"video_u8", "frames"};
    for (int i = 0; i < 2; i++) {
        const VaeTensorInfo *y = vae_tensor_file_find(b, names[1 - i]);
        if (strcmp(x->name, names[i]) == 0 && is_video(x) && y && is_video(y) &&
            !vae_tensor_file_find(a, names[1 - i]))
            return y;
    }
    return NULL;
}

/* True for the tensor of an npy file, which has no name. */
static bool
is_nameless(const VaeTensorInfo *t)
{
    return strcmp(t->name, "npy") == 0;
}

/* The latents of the file, or its only tensor; NULL if there are several. */
static const VaeTensorInfo *
main_tensor(const VaeTensorFile *f)
{
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    if (vae_tensor_file_count(f) == 1)
        return vae_tensor_file_at(f, 0);
    return vae_latent_clip_find(f, NULL, &clip, NULL) == VAE_OK
               ? vae_tensor_file_find(f, clip.tensor)
               : NULL;
}

/* The tensor of b to compare with x of a; NULL: none. */
static const VaeTensorInfo *
partner(const VaeTensorFile *a, const VaeTensorInfo *x, const VaeTensorFile *b)
{
    const VaeTensorInfo *y = vae_tensor_file_find(b, x->name);
    const VaeTensorInfo *other = main_tensor(b);
    if (!y)
        y = other_video(a, x, b);
    if (!y && other &&
        (is_nameless(x) ||
         (x == main_tensor(a) &&
          (is_nameless(other) || is_frames(x) == is_frames(other)))))
        y = other;
    return y;
}

static int
compare_files(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    const size_t n = vae_tensor_file_count(a);
    size_t common = 0;
    int code = EXIT_OK;
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *x = vae_tensor_file_at(a, i);
        if (o->tensor && strcmp(x->name, o->tensor) != 0)
            continue;
        const VaeTensorInfo *y = partner(a, x, b);
        if (!y)
            continue;
        common++;
        View v[2] = {{.file = a, .tensor = x, .path = o->argument[0]},
                     {.file = b, .tensor = y, .path = o->argument[1]}};
        const int one = compare_pair(o, v);
        code = one > code ? one : code;
    }
    return common ? code : none_in_common(o, a, b);
}

/* Prints the frame rates if they differ. --framerate is for files that state
 * none. */
static void
print_rates(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    const VaeTensorFile *const files[] = {a, b};
    int n[2], d[2];
    for (int i = 0; i < 2; i++) {
        if (vae_tensor_file_framerate(files[i], NULL, &n[i], &d[i], NULL) !=
            VAE_OK)
            return;
        if (n[i] == 0 && o->fps_n > 0) {
            n[i] = o->fps_n;
            d[i] = o->fps_d;
        }
    }
    if (n[0] > 0 && n[1] > 0 && (int64_t) n[0] * d[1] != (int64_t) n[1] * d[0])
        printf("different frame rates: %d/%d in %s, %d/%d in %s\n", n[0], d[0],
               o->argument[0], n[1], d[1], o->argument[1]);
}

int
command_compare(const Options *o)
{
    static const char peak[] = "--peak 1 (0..1) or 2 (-1..1)";
    VaeTensorFile *a = NULL, *b = NULL;
    VaeError error;
    int code;
    if (o->stream)
        return compare_streams(o);
    if (vae_tensor_file_open(o->argument[0], &a, &error) != VAE_OK ||
        vae_tensor_file_open(o->argument[1], &b, &error) != VAE_OK ||
        video_range_check(a, peak, peak_is_range(o), &error) != VAE_OK ||
        video_range_check(b, peak, peak_is_range(o), &error) != VAE_OK)
        code = fail(&error);
    else {
        code = compare_files(o, a, b);
        print_rates(o, a, b);
    }
    vae_tensor_file_free(&a);
    vae_tensor_file_free(&b);
    return code;
}
