/*
 * unfinished.c: reads the files of an unfinished decode: OUT.part with the
 * frames so far, and checkpoints, also those of the elements.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "vae-private/os.h"
#include "vae-private/stream.h"

/* path without the ending; NULL if it has another. */
static char *
strip_ending(const char *path, const char *ending)
{
    const size_t n = strlen(path), end = strlen(ending);
    char *copy =
        n > end && strcmp(path + n - end, ending) == 0 ? strdup(path) : NULL;
    if (copy)
        copy[n - end] = '\0';
    return copy;
}

/* Opens the header of a file whose data may not be complete. */
static VaeStatus
open_header(Unfinished *u, FILE *from, const char *path, VaeError *error)
{
    uint8_t head[16];
    uint64_t need = 0;
    const size_t n = fread(head, 1, sizeof head, from);
    VaeStatus status =
        vae_tensor_header_size(head, n, u->size, path, &need, error);
    if (status != VAE_OK)
        return status;
    u->header = malloc((size_t) need);
    rewind(from);
    if (!u->header || fread(u->header, 1, (size_t) need, from) != need)
        return vae_fail(error, VAE_ERR_READ, "%s: cannot read the header",
                        path);
    return vae_tensor_file_open_memory(u->header, (size_t) need, UINT64_MAX,
                                       path, &u->part, error);
}

static bool
open_part(Unfinished *u, const char *path)
{
    VaeFileFacts facts;
    const VaeTensorInfo *t = NULL;
    if (!vae_os_facts(path, &facts) || facts.kind != VAE_FILE_REGULAR)
        return false; /* opening a pipe would wait */
    FILE *from = vae_os_fopen(path);
    if (!from)
        return false;
    u->size = facts.size;
    if (u->size > 0 && open_header(u, from, path, NULL) == VAE_OK &&
        vae_tensor_file_count(u->part) == 1)
        t = vae_tensor_file_find(u->part, "frames");
    fclose(from);
    if (!t || !is_any_video(t) || u->size < t->offset ||
        u->size - t->offset > t->bytes)
        return false;
    u->frames = t;
    u->written = (u->size - t->offset) / (t->bytes / (uint64_t) t->dims[0]);
    return true;
}

/* A text of the metadata; "" if it is not stated. */
static const char *
stated(const VaeTensorFile *file, const char *key)
{
    const char *value = vae_tensor_file_metadata(file, key);
    return value ? value : "";
}

/* The latents whose frames are done; -1 if the count is not valid. */
static int64_t
latents_done(const VaeTensorFile *c)
{
    const char *text = vae_tensor_file_metadata(c, RESUME_DONE);
    int64_t first, last, n = 0;
    if (!text) {
        const int64_t before = plain_count(stated(c, "vae.before"));
        const int64_t latents = plain_count(stated(c, "vae.latents"));
        return before < 0 || latents < 0 ? -1 : before + latents;
    }
    for (; *text; n += last - first + 1)
        if (!resume_next_range(&text, &first, &last) || last > INT32_MAX)
            return -1;
    return n;
}

/* Between the frames of several segments. */
static bool
has_gaps(const VaeTensorFile *c)
{
    const char *text = stated(c, RESUME_DONE);
    return strchr(text, ',') || (*text && strncmp(text, "0-", 2) != 0);
}

/* Opens the checkpoint of OUT.part; why_none tells why there is none. */
static void
open_checkpoint(Unfinished *u)
{
    char *path = NULL;
    int64_t n;
    if (asprintf(&path, "%s.checkpoint", u->out) < 0)
        return;
    if (vae_tensor_file_open(path, &u->checkpoint_file, &u->why_none) ==
            VAE_OK &&
        vae_checkpoint_check(u->checkpoint_file, &u->why_none) == VAE_OK)
        u->checkpoint = u->checkpoint_file;
    free(path);
    if (u->checkpoint && has_gaps(u->checkpoint) &&
        (n = plain_count(stated(u->checkpoint, "vae.frames"))) >= 0)
        u->written = (uint64_t) n;
}

bool
unfinished_part(Unfinished *u, const char *path)
{
    *u = (Unfinished){.out = strip_ending(path, ".part")};
    if (u->out && open_part(u, path)) {
        open_checkpoint(u);
        return true;
    }
    unfinished_close(u);
    return false;
}

VaeStatus
unfinished_checkpoint(Unfinished *u, const VaeTensorFile *file, VaeError *error)
{
    *u = (Unfinished){.checkpoint = file};
    const VaeStatus status = vae_checkpoint_check(file, error);
    /* Checkpoints of vaetool name their latents. */
    if (status == VAE_OK && vae_tensor_file_metadata(file, "latents"))
        u->out = strip_ending(vae_tensor_file_name(file), ".checkpoint");
    return status;
}

void
unfinished_close(Unfinished *u)
{
    vae_tensor_file_free(&u->part);
    vae_tensor_file_free(&u->checkpoint_file);
    free(u->header);
    free(u->out);
    *u = (Unfinished){0};
}

/* The entries of a checkpoint that decide the bytes of the frames. Most are
 * options of decode. */
static const char *const settings[] = {
    "vae.backend",       "vae.precision", "vae.size",    "vae.normalization",
    "vae.posterior",     "vae.seed",      "vae.threads", "vae.nan-policy",
    "vae.deterministic", "latents",       RESUME_DONE};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* Adds an option and a word for a POSIX shell. Sets *text to NULL if there is
 * no memory. */
static void
add_words(char **text, const char *option, const char *word)
{
    const char *plain_bytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                              "wxyz0123456789_./,:+@%=-";
    const bool quoted = !*word || word[strspn(word, plain_bytes)];
    char *longer = malloc((*text ? strlen(*text) : 0) + strlen(option) +
                          4 * strlen(word) + 5);
    if (*text && longer) {
        char *to = longer + sprintf(longer, "%s %s%s%s", *text, option,
                                    *option ? " " : "", quoted ? "'" : "");
        for (; *word; word++)
            to += sprintf(to, *word == '\'' ? "'\\''" : "%c", *word);
        strcpy(to, quoted ? "'" : "");
    } else {
        free(longer);
        longer = NULL;
    }
    free(*text);
    *text = longer;
}

static void
set_word(json_t *options, const char *name, const char *word)
{
    json_object_set_new(options, name, json_string(word));
}

/* The options without which the checkpoint is refused: what the stream chose,
 * and else what was given. A variant may be the prefix of one of two equal
 * networks, so it stays as given. */
static json_t *
options_of(const VaeTensorFile *c, json_t *given)
{
    int width, height, overlap;
    char words[64];
    json_t *all = json_pack("{s:b}", "resume", true);
    if (*stated(c, "vae.arch") && !json_object_get(given, "variant"))
        set_word(all, "variant", stated(c, "vae.arch"));
    for (size_t i = 0; i < SETTINGS; i++) {
        const char *value = stated(c, settings[i]);
        if (strncmp(settings[i], "vae.", 4) != 0 || !*value ||
            strcmp(value, "false") == 0)
            continue;
        if (strcmp(value, "true") == 0)
            json_object_set_new(all, settings[i] + 4, json_true());
        else
            set_word(all, settings[i] + 4, value);
    }
    if (sscanf(stated(c, "vae.size"), "%*dx%*d in tiles of %dx%d, overlap %d",
               &width, &height, &overlap) == 3) {
        set_word(all, "tiles", "blend");
        snprintf(words, sizeof words, "%dx%d", width, height);
        set_word(all, "tile-size", words);
        snprintf(words, sizeof words, "%d", overlap > 0 ? overlap : -1);
        set_word(all, "tile-overlap", words);
    }
    json_object_update_missing(all, given);
    return all;
}

/* The command that continues from a checkpoint. */
static char *
command_of(const VaeTensorFile *c, const char *out)
{
    json_t *command = json_loads(stated(c, RESUME_COMMAND), 0, NULL);
    json_t *all = options_of(c, json_object_get(command, "options")), *value;
    const char *name;
    const char *latents =
        json_string_value(json_object_get(command, "latents"));
    char *text = strdup("vaetool decode"), option[40];
    if (!json_object_get(all, "model"))
        set_word(all, "model", "WEIGHTS");
    json_object_foreach(all, name, value)
    {
        if (!options_has(COMMAND_DECODE, name))
            continue; /* the size, or a forged name */
        snprintf(option, sizeof option, "--%s", name);
        if (json_is_string(value))
            add_words(&text, option, json_string_value(value));
        else
            add_words(&text, "", option);
    }
    if (*out == '-' || (latents && *latents == '-'))
        add_words(&text, "", "--");
    add_words(&text, "", latents ? latents : "LATENTS");
    add_words(&text, "", out);
    json_decref(all);
    json_decref(command);
    return text;
}

/* How to continue from the file, in a line; the caller frees it. */
static char *
how_to_continue(const Unfinished *u)
{
    const VaeTensorFile *c = u->checkpoint;
    char *text = NULL;
    int n;
    if (u->out && c)
        return command_of(c, u->out);
    if (u->out)
        n = asprintf(&text, "the command that began it");
    else if (strcmp(stated(c, "vae.direction"), "decode") == 0)
        n = asprintf(&text, "vaedecode, by its signal load-checkpoint, or "
                            "vae_stream_load()");
    else
        n = asprintf(&text, "vae_stream_load()");
    return n < 0 ? NULL : text;
}

/* null if it is not a valid count. */
static json_t *
count_json(int64_t n)
{
    return n < 0 ? json_null() : json_integer((json_int_t) n);
}

json_t *
unfinished_json(const Unfinished *u)
{
    const VaeTensorFile *c = u->checkpoint;
    char *how = how_to_continue(u);
    json_t *root = json_pack("{s:s?, s:s?}", "output", u->out, "go_on", how);
    free(how);
    if (u->frames)
        json_object_set_new(root, "part",
                            json_pack("{s:I, s:I, s:I, s:I}", "frames",
                                      (json_int_t) u->frames->dims[0],
                                      "frames_written", (json_int_t) u->written,
                                      "width", (json_int_t) u->frames->dims[2],
                                      "height",
                                      (json_int_t) u->frames->dims[1]));
    if (c)
        json_object_set_new(
            root, "checkpoint",
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b}",
                      "direction", stated(c, "vae.direction"), "arch",
                      stated(c, "vae.arch"), "fingerprint",
                      stated(c, "vae.weights"), "backend",
                      stated(c, "vae.backend"), "precision",
                      stated(c, "vae.precision"), "size", stated(c, "vae.size"),
                      "latents", count_json(latents_done(c)), "frames",
                      count_json(plain_count(stated(c, "vae.frames"))),
                      "carries", strcmp(stated(c, "vae.carries"), "0") != 0));
    else
        json_object_set_new(root, "no_checkpoint",
                            json_string(u->why_none.message));
    return root;
}

/* Prints the stated settings that decide the bytes of the frames. */
static void
print_settings(const VaeTensorFile *c)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        const char *value = stated(c, settings[i]);
        const char *name = strchr(settings[i], '.');
        Plain words;
        if (*value)
            printf("  %s %s\n", name ? name + 1 : settings[i],
                   plain(value, &words));
    }
}

static void
print_count(int64_t n, const char *of)
{
    if (n >= 0)
        printf("%s", VAE_COUNTED(n, of));
    else
        printf("an impossible number of %ss", of);
}

static void
print_checkpoint(const VaeTensorFile *c)
{
    const bool carries = strcmp(stated(c, "vae.carries"), "0") != 0;
    Plain direction, arch, weights;
    printf("checkpoint: %s of %s, ",
           plain(stated(c, "vae.direction"), &direction),
           plain(stated(c, "vae.arch"), &arch));
    print_count(latents_done(c), "latent");
    printf(" and ");
    print_count(plain_count(stated(c, "vae.frames")), "frame");
    printf(" done\n");
    printf("  %s\n", carries ? "with carries"
                             : "without carries: the latents that the network "
                               "looks back to are computed again");
    printf("  weights of fingerprint %s\n",
           plain(stated(c, "vae.weights"), &weights));
    print_settings(c);
}

void
unfinished_print(const Unfinished *u)
{
    char *how = how_to_continue(u);
    if (u->frames)
        printf("unfinished output: %" PRIu64
               " of %s of %lldx%lld are written\n",
               u->written, VAE_COUNTED(u->frames->dims[0], "frame"),
               (long long) u->frames->dims[2], (long long) u->frames->dims[1]);
    if (u->checkpoint)
        print_checkpoint(u->checkpoint);
    else
        printf("no checkpoint, so all is computed again: %s\n",
               u->why_none.message);
    if (how)
        vae_text_printable(how);
    printf("%s with: %s\n", u->checkpoint ? "continue" : "start again",
           how ? how : "");
    free(how);
}
