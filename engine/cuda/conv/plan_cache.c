/*
 * plan_cache.c: see cuda/conv/plan_cache.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hash.h"
#include "plan_cache.h"
#include "vae-private/os.h"

/* The version changes with the format, and with the choices that
 * vae_cuda_conv_choices() omits. */
#define TITLE "gst-vae convolutions 7"
#define LARGEST ((uint64_t) 4 << 20)
#define MOST_ROWS 20000
#define PATH_ROOM 4096
#define TRYING_ROOM (VAE_CUDA_LAYER_NAME + VAE_CUDA_CHOICE + 2)

typedef struct Row {
    char layer[VAE_CUDA_LAYER_NAME];
    VaeCudaChoice choice;
    long long ns; /* KILLED: the choice ended a process */
    char date[16];
    uint64_t free_mib, code_mib;
} Row;

#define KILLED (-1)

typedef struct Rows {
    Row *row;
    int n, room;
} Rows;

struct VaeCudaStore {
    char key[VAE_CUDA_KEY], path[PATH_ROOM];
    const VaeLog *log;
    Rows rows;
    bool changed;
    int trying; /* the locked file of that ending, or -1 */
};

/* ------------------------------------------------------------------ */
/* Rows.                                                               */

/* killed NULL: finds the layer's timed row; otherwise the row of that choice,
 * if it ended a process. */
static Row *
find(const Rows *rows, const char *layer, const VaeCudaChoice *killed)
{
    for (int i = 0; i < rows->n; i++) {
        Row *r = &rows->row[i];
        if (strcmp(r->layer, layer) == 0 &&
            (r->ns == KILLED) == (killed != NULL) &&
            (!killed || strcmp(r->choice.text, killed->text) == 0))
            return r;
    }
    return NULL;
}

/* False when out of memory or when MOST_ROWS would be exceeded. */
static bool
add(Rows *rows, const Row *row)
{
    if (rows->n == rows->room) {
        const int room = rows->room ? 2 * rows->room : 64;
        Row *bigger = room <= MOST_ROWS
                          ? vae_mem_alloc((size_t) room * sizeof *bigger)
                          : NULL;
        if (!bigger)
            return false;
        if (rows->n)
            memcpy(bigger, rows->row, (size_t) rows->n * sizeof *bigger);
        vae_mem_free(rows->row);
        rows->row = bigger;
        rows->room = room;
    }
    rows->row[rows->n++] = *row;
    return true;
}

static void
drop(Rows *rows)
{
    vae_mem_free(rows->row);
    *rows = (Rows){0};
}

/* ------------------------------------------------------------------ */
/* Reading.                                                            */

/* Reads the whole file and terminates it with NUL. On failure it returns NULL
 * and *why says what is wrong; *why is NULL if there is no file. */
static char *
read_file(const char *path, size_t *size, const char **why)
{
    VaeFileFacts facts;
    char *text = NULL;
    size_t at = 0;
    const int fd = vae_os_open(path, VAE_OPEN_READ | VAE_OPEN_NO_WAIT);
    *why = NULL;
    if (fd < 0) {
        *why = errno == ENOENT ? NULL : strerror(errno);
        return NULL;
    }
    if (!vae_os_facts_of(fd, &facts) || facts.kind != VAE_FILE_REGULAR)
        *why = "it is no file";
    else if (facts.size > LARGEST)
        *why = "it is too large";
    else
        text = vae_mem_alloc((size_t) facts.size + 1);
    if (text)
        for (ssize_t n = 1; n > 0 && at < facts.size;) {
            n = vae_os_read_at(fd, text + at, (size_t) facts.size - at, at);
            at += n > 0 ? (size_t) n : 0;
        }
    else if (!*why)
        *why = "out of memory";
    close(fd);
    *size = at;
    return text;
}

/* Terminates the line at *at with NUL, and moves *at to the next line. NULL:
 * the line is incomplete. */
static char *
next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

/* The same for the cell up to the next tab. NULL: there is none. */
static char *
next_cell(char **at)
{
    char *cell = *at, *end = cell ? strchr(cell, '\t') : NULL;
    *at = NULL;
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return cell;
}

/* Reads layer and choice, which begin each row. */
static bool
read_name(const char *layer, const char *choice, Row *out)
{
    static const char known[] = "0123456789=- abcdefghijklmnopqrstuvwxyz";
    *out = (Row){0};
    if (!layer || !choice || strlen(layer) >= sizeof out->layer || !*choice ||
        strlen(choice) >= sizeof out->choice.text ||
        choice[strspn(choice, known)])
        return false;
    strcpy(out->layer, layer);
    strcpy(out->choice.text, choice);
    return true;
}

static bool
read_row(char *line, Row *out)
{
    const char *layer = next_cell(&line), *choice = next_cell(&line);
    const char *ns = next_cell(&line), *date = next_cell(&line);
    int used = -1;
    if (!line || !read_name(layer, choice, out) ||
        strlen(date) >= sizeof out->date)
        return false;
    strcpy(out->date, date);
    char *end;
    out->ns = strtoll(ns, &end, 10);
    sscanf(line, "%" SCNu64 "\t%" SCNu64 "%n", &out->free_mib, &out->code_mib,
           &used);
    return end != ns && *end == '\0' && used >= 0 && line[used] == '\0';
}

/* Parses text into rows and modifies text. Returns NULL, or what is wrong. */
static const char *
parse(char *text, size_t size, const char *key, Rows *rows)
{
    static const char last[] = "end 0123456789abcdef\n";
    const size_t tail = sizeof last - 1;
    char want[sizeof last];
    if (size < tail || memchr(text, '\0', size))
        return "it is cut off or damaged";
    snprintf(want, sizeof want, "end %016" PRIx64 "\n",
             vae_hash(VAE_HASH, text, size - tail));
    if (memcmp(text + size - tail, want, tail) != 0)
        return "it is cut off or damaged";
    text[size - tail] = '\0';
    const char *line = next_line(&text);
    if (!line || strcmp(line, TITLE) != 0)
        return "it is of another version";
    line = next_line(&text);
    if (!line || strcmp(line, key) != 0)
        return "it is of another device, driver or library";
    while (*text) {
        Row row;
        char *next = next_line(&text);
        if (!next || !read_row(next, &row) || !add(rows, &row))
            return "a line in it cannot be read";
    }
    return NULL;
}

/* Reads the rows of the file, or none if any part of it is wrong. Returns NULL,
 * or what is wrong. */
static const char *
load(const VaeCudaStore *s, Rows *rows)
{
    const char *why = NULL;
    size_t size = 0;
    char *text = read_file(s->path, &size, &why);
    if (text)
        why = parse(text, size, s->key, rows);
    vae_mem_free(text);
    if (why)
        drop(rows);
    return why;
}

/* ------------------------------------------------------------------ */
/* Writing.                                                            */

static void
unlock_trying(VaeCudaStore *s)
{
    if (s->trying >= 0)
        close(s->trying);
    s->trying = -1;
}

/* Makes the folders above path. Returns the errno of the first one that cannot
 * be made, or 0. */
static int
make_folders(const char *path)
{
    char folder[PATH_ROOM];
    int first = 0;
    strcpy(folder, path);
    for (char *p = strchr(folder + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (vae_os_make_folder(folder) != 0 && errno != EEXIST && !first)
            first = errno;
        *p = '/';
    }
    return first;
}

/* The text of the file, or NULL. The caller frees it. */
static char *
format(const VaeCudaStore *s, size_t *size)
{
    const size_t head = sizeof TITLE + sizeof s->key + 32;
    const size_t room = head + (size_t) s->rows.n * (sizeof(Row) + 80);
    char *text = vae_mem_alloc(room);
    if (!text)
        return NULL;
    size_t n = (size_t) snprintf(text, room, TITLE "\n%s\n", s->key);
    for (int i = 0; i < s->rows.n; i++) {
        const Row *r = &s->rows.row[i];
        n += (size_t) snprintf(
            text + n, room - n, "%s\t%s\t%lld\t%s\t%" PRIu64 "\t%" PRIu64 "\n",
            r->layer, r->choice.text, r->ns, r->date, r->free_mib, r->code_mib);
    }
    n += (size_t) snprintf(text + n, room - n, "end %016" PRIx64 "\n",
                           vae_hash(VAE_HASH, text, n));
    *size = n;
    return text;
}

/* Writes a temporary file and renames it over the old one, so that a reader
 * always sees a complete file. */
static bool
replace_file(const char *path, const char *text, size_t size)
{
    char name[PATH_ROOM + 32];
    snprintf(name, sizeof name, "%s.%d-%p", path, (int) getpid(),
             (const void *) text);
    const int fd = vae_os_open(name, VAE_OPEN_WRITE | VAE_OPEN_NEW);
    if (fd < 0)
        return false;
    size_t at = 0;
    for (ssize_t n = 1; n > 0 && at < size;) {
        n = vae_os_write(fd, text + at, size - at);
        at += n > 0 ? (size_t) n : 0;
    }
    bool good = at == size && vae_os_sync(fd, false) == 0;
    good = close(fd) == 0 && good;
    good = good && vae_os_rename(name, path) == 0;
    if (!good) {
        const int code = errno;
        vae_os_remove(name);
        errno = code;
    }
    return good;
}

void
vae_cuda_store_save(VaeCudaStore *s)
{
    Rows others = {0};
    size_t size = 0;
    unlock_trying(s);
    if (!s->changed || !s->path[0])
        return;
    s->changed = false; /* a failed write is not tried again */
    load(s, &others);
    for (int i = 0; i < others.n; i++) {
        const Row *r = &others.row[i];
        if (!find(&s->rows, r->layer, r->ns == KILLED ? &r->choice : NULL))
            add(&s->rows, r);
    }
    drop(&others);
    const int folders = make_folders(s->path);
    char *text = format(s, &size);
    errno = ENOMEM;
    if (text && replace_file(s->path, text, size))
        vae_log(s->log, "%d timed convolutions kept in %s", s->rows.n, s->path);
    else
        vae_log(s->log,
                "cannot keep the timed convolutions in %s (%s): the next start "
                "times them again",
                s->path, strerror(folders ? folders : errno));
    vae_mem_free(text);
}

/* ------------------------------------------------------------------ */

static bool
find_folder(char *out, size_t size)
{
    char *cache = vae_os_cache_folder();
    const int n = cache ? snprintf(out, size, "%s/gst-vae", cache) : -1;
    free(cache);
    return n > 0 && (size_t) n < size;
}

/* ------------------------------------------------------------------ */
/* The file of the choice that is tried.                               */

static void
set_date(Row *row)
{
    struct tm tm;
    const time_t now = time(NULL);
    if (!gmtime_r(&now, &tm) ||
        !strftime(row->date, sizeof row->date, "%Y-%m-%d", &tm))
        strcpy(row->date, "-");
}

/* If the file names a choice, the process that ran it has ended. Adds that
 * choice to the rows. */
static void
read_trying(VaeCudaStore *s)
{
    char text[TRYING_ROOM];
    Row row;
    const ssize_t n = vae_os_read_at(s->trying, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    char *at = text;
    const char *layer = next_cell(&at), *choice = next_cell(&at);
    if (!read_name(layer, choice, &row) ||
        find(&s->rows, row.layer, &row.choice))
        return;
    vae_log(s->log,
            "%s: %s is left out from now on, because a process ended while it "
            "tried it",
            row.layer, row.choice.text);
    row.ns = KILLED;
    set_date(&row);
    s->changed = add(&s->rows, &row) || s->changed;
}

/* Opens and locks the file, unless another stream or process has locked it. */
static void
lock_trying(VaeCudaStore *s, unsigned how)
{
    char path[PATH_ROOM + 8];
    snprintf(path, sizeof path, "%s.trying", s->path);
    s->trying = vae_os_open(path, VAE_OPEN_READ | VAE_OPEN_WRITE |
                                      VAE_OPEN_NO_WAIT | how);
    if (s->trying >= 0 && vae_os_lock(s->trying))
        read_trying(s);
    else
        unlock_trying(s);
}

void
vae_cuda_store_try(VaeCudaStore *s, const char *layer,
                   const VaeCudaChoice *choice)
{
    char text[TRYING_ROOM] = "";
    if (s->trying < 0 && choice && s->path[0]) {
        make_folders(s->path);
        lock_trying(s, VAE_OPEN_CREATE);
    }
    if (s->trying < 0)
        return;
    if (choice)
        snprintf(text, sizeof text, "%s\t%s\t", layer, choice->text);
    const size_t n = strlen(text);
    /* The record is complete or empty. */
    if (vae_os_cut(s->trying, 0) != 0 ||
        (n > 0 && vae_os_write_at(s->trying, text, n, 0) != (ssize_t) n))
        unlock_trying(s);
}

bool
vae_cuda_store_killed(const VaeCudaStore *s, const char *layer,
                      const VaeCudaChoice *choice)
{
    return find(&s->rows, layer, choice) != NULL;
}

/* ------------------------------------------------------------------ */

VaeCudaStore *
vae_cuda_store_open(const char *key, const VaeLog *log)
{
    /* The rest of the path: "/cuda-", 16 digits, ".txt". */
    char folder[PATH_ROOM - 32];
    VaeCudaStore *s = vae_mem_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->log = log;
    s->trying = -1;
    snprintf(s->key, sizeof s->key, "%s", key);
    if (!find_folder(folder, sizeof folder)) {
        vae_log(log, "no cache folder (XDG_CACHE_HOME, HOME): convolutions "
                     "are timed at every start");
        return s;
    }
    snprintf(s->path, sizeof s->path, "%s/cuda-%016" PRIx64 ".txt", folder,
             vae_hash(VAE_HASH, s->key, strlen(s->key)));
    const char *why = load(s, &s->rows);
    if (why)
        vae_log(log, "%s is not used: %s; convolutions are timed anew", s->path,
                why);
    lock_trying(s, 0);
    vae_cuda_store_save(s); /* before another choice replaces the record */
    return s;
}

void
vae_cuda_store_close(VaeCudaStore **store)
{
    VaeCudaStore *s = *store;
    *store = NULL;
    if (!s)
        return;
    unlock_trying(s);
    drop(&s->rows);
    vae_mem_free(s);
}

bool
vae_cuda_store_find(const VaeCudaStore *s, const char *layer, uint64_t free_mib,
                    VaeCudaTimed *out)
{
    const Row *row = find(&s->rows, layer, NULL);
    if (!row || row->free_mib < free_mib / 2 ||
        row->code_mib > VAE_CUDA_MOST_CODE_MIB)
        return false;
    *out = (VaeCudaTimed){.choice = row->choice,
                          .ms = (float) row->ns * 1e-6f,
                          .free_mib = row->free_mib,
                          .code_mib = row->code_mib};
    return true;
}

void
vae_cuda_store_put(VaeCudaStore *s, const char *layer,
                   const VaeCudaTimed *timed)
{
    Row row = {.choice = timed->choice,
               .ns = (long long) (timed->ms * 1e6f),
               .free_mib = timed->free_mib,
               .code_mib = timed->code_mib};
    snprintf(row.layer, sizeof row.layer, "%s", layer);
    set_date(&row);
    Row *old = find(&s->rows, layer, NULL);
    if (old)
        *old = row;
    s->changed = old || add(&s->rows, &row) || s->changed;
}

const char *
vae_cuda_store_path(const VaeCudaStore *s)
{
    return s->path;
}
