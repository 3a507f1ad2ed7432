/*
 * tune_store.c: tests the file of timed choices. It returns each stored entry.
 * If the file is damaged, foreign or cannot be written, the log says so and
 * nothing else happens.
 */
#include <errno.h>
#include <sys/stat.h>

#include "../../stream/streams.h"
#include "gpu.h"

#define KEY "a device, compute capability 9.0, a library"

static char root[64], said[4096], path[4096];

static void
listen(void *user, const char *line)
{
    snprintf(said, sizeof said, "%s", line);
}

static const VaeLog to_said = {.func = listen};

static VaeCudaStore *
open_store(const char *key)
{
    said[0] = '\0';
    VaeCudaStore *s = vae_cuda_store_open(key, &to_said);
    if (!s)
        abort();
    return s;
}

static void
put(const char *key, const char *layer, const char *choice)
{
    VaeCudaStore *s = open_store(key);
    VaeCudaTimed timed = {.ms = 0.25f, .free_mib = 1000, .code_mib = 7};
    const size_t most = sizeof timed.choice.text - 1;
    snprintf(timed.choice.text, most + 1, "%.*s", (int) most, choice);
    vae_cuda_store_put(s, layer, &timed);
    vae_cuda_store_save(s);
    vae_cuda_store_close(&s);
}

/* Returns the entry for a device with this free memory, or "". */
static const char *
get_with(const char *key, const char *layer, uint64_t free_mib)
{
    static VaeCudaChoice found;
    VaeCudaStore *s = open_store(key);
    VaeCudaTimed timed = {0};
    vae_cuda_store_find(s, layer, free_mib, &timed);
    found = timed.choice;
    strcpy(path, vae_cuda_store_path(s));
    vae_cuda_store_close(&s);
    return found.text;
}

static const char *
get(const char *key, const char *layer)
{
    return get_with(key, layer, 1000);
}

static void
write_file(const char *text, size_t size)
{
    FILE *f = fopen(path, "we");
    if (!f || fwrite(text, 1, size, f) != size || fclose(f) != 0)
        abort();
}

static size_t
read_whole(char *text, size_t room)
{
    FILE *f = fopen(path, "re");
    if (!f)
        abort();
    const size_t n = fread(text, 1, room, f);
    fclose(f);
    return n;
}

/* ------------------------------------------------------------------ */

static void
kept(void)
{
    expect(!*get(KEY, "one") && !*said, "no entry and no log line at first");
    put(KEY, "one", "10 2=3 5=-1");
    expect(strstr(said, "1 timed convolutions kept in") != NULL, "%s", said);
    put(KEY, "two", "41");
    expect(strcmp(get(KEY, "one"), "10 2=3 5=-1") == 0 &&
               strcmp(get(KEY, "two"), "41") == 0 && !*said,
           "both entries are found");
    put(KEY, "two", "42 7=1");
    expect(strcmp(get(KEY, "two"), "42 7=1") == 0, "the later entry counts");
    expect(!*get(KEY " 2", "one"), "another key has another file");
    VaeCudaStore *a = open_store(KEY), *b = open_store(KEY);
    vae_cuda_store_put(a, "three", &(VaeCudaTimed){{"3"}, 1, 1000});
    vae_cuda_store_put(b, "four", &(VaeCudaTimed){{"4"}, 1, 1000});
    vae_cuda_store_save(a);
    vae_cuda_store_save(b);
    vae_cuda_store_close(&a);
    vae_cuda_store_close(&b);
    expect(strcmp(get(KEY, "three"), "3") == 0 &&
               strcmp(get(KEY, "four"), "4") == 0,
           "two writers keep each other's entries");
}

/* Memory that another program took while a layer was timed is no code. */
static void
much_code(void)
{
    VaeCudaTimed timed = {{"5"}, 1, 1000, VAE_CUDA_MOST_CODE_MIB};
    VaeCudaStore *s = open_store(KEY);
    vae_cuda_store_put(s, "five", &timed);
    timed.code_mib++;
    vae_cuda_store_put(s, "six", &timed);
    vae_cuda_store_save(s);
    vae_cuda_store_close(&s);
    expect(strcmp(get(KEY, "five"), "5") == 0 && !*get(KEY, "six"),
           "a row with more code than a layer has is not used");
}

/* The names of the own kernels. All of them can compute an upsampling. */
static void
own_kernels(void)
{
    enum { MOST = 64 };
    const VaeCudaConvShape up = {.t = 4,
                                 .h = 8,
                                 .w = 8,
                                 .c_in = 192,
                                 .ho = 8,
                                 .wo = 8,
                                 .c_out = 96,
                                 .k = 2,
                                 .kt = 1,
                                 .s = 1,
                                 .st = 1,
                                 .pad_y = 1,
                                 .pad_x = 1,
                                 .x_type = VAE_TYPE_BF16,
                                 .y_type = VAE_TYPE_BF16};
    VaeCudaConvs *convs;
    VaeCudaChoice choices[MOST];
    VaeError error;
    int n, own = 0, lost = 0;
    pthread_mutex_lock(&vae_cuda_recording);
    must(vae_cuda_convs_new(NULL, &convs, &error), &error);
    vae_cuda_convs_use(convs, vae_rt_kernels(), 90);
    must(vae_cuda_conv_choices(convs, &up, choices, MOST, &n, &error), &error);
    for (int i = 0; i < n; i++) {
        put(KEY, "three", choices[i].text);
        lost += strcmp(get(KEY, "three"), choices[i].text) != 0 || *said;
        own += vae_cuda_choice_is_own(&choices[i]);
    }
    vae_cuda_convs_free(&convs);
    pthread_mutex_unlock(&vae_cuda_recording);
    expect(own == 4 && lost == 0,
           "%d choices, %d of them own kernels: %d are not found", n, own,
           lost);
}

/* For every shorter file, and every file with one changed byte: no entry is
 * found, one line of the log says so, and the next save repairs the file. */
static void
damaged(void)
{
    char good[4096], bad[4096];
    get(KEY, "one");
    const size_t n = read_whole(good, sizeof good);
    int used = 0, silent = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        memcpy(bad, good, n);
        if (i >= n)
            bad[i - n] ^= (char) (1 << i % 7);
        write_file(bad, i < n ? i : n);
        used += *get(KEY, "one") != '\0';
        silent += strstr(said, "is not used: ") == NULL;
    }
    expect(used == 0 && silent == 0,
           "%zu damaged files: %d used, %d without a log line", 2 * n, used,
           silent);
    put(KEY, "one", "8");
    expect(strcmp(get(KEY, "one"), "8") == 0 && !*said,
           "the file is written again");
}

static void
expect_foreign(const char *why)
{
    expect(!*get(KEY, "one") && strstr(said, why), "%s", said);
}

static void
foreign(void)
{
    char theirs[4096];
    put("another", "one", "9");
    get("another", "one");
    const size_t n = read_whole(theirs, sizeof theirs);
    get(KEY, "one");
    write_file(theirs, n);
    expect_foreign("another device, driver or library");
    put(KEY, "one", "8");
    expect(strcmp(get(KEY, "one"), "8") == 0, "the file is written again");

    if (truncate(path, 5 << 20) != 0)
        abort();
    expect_foreign("too large");
    unlink(path);
    if (mkfifo(path, 0600) != 0)
        abort();
    expect_foreign("no file");
    put(KEY, "one", "8");
    expect(strcmp(get(KEY, "one"), "8") == 0, "the file replaces a pipe");
    unlink(path);
    if (mkdir(path, 0700) != 0)
        abort();
    expect_foreign("no file");
    put(KEY, "one", "8");
    expect(strstr(said, "cannot keep") != NULL, "%s", said);
    rmdir(path);
}

/* A row that was timed while other programs had most of the memory is not used
 * after they have ended. Each row has the date of its timing. */
static void
shared_device(void)
{
    char text[4096];
    put(KEY, "one", "8");
    expect(strcmp(get_with(KEY, "one", 2000), "8") == 0 &&
               strcmp(get_with(KEY, "one", 10), "8") == 0 &&
               !*get_with(KEY, "one", 2002),
           "an entry is used with up to twice its free memory");
    text[read_whole(text, sizeof text - 1)] = '\0';
    const char *row = strstr(text, "one\t8\t250000\t2");
    expect(row && strstr(row, "\t1000\t7\n"), "%s", text);
}

static bool
is_killed(const char *layer, const char *choice)
{
    VaeCudaChoice c;
    VaeCudaStore *s = open_store(KEY);
    snprintf(c.text, sizeof c.text, "%s", choice);
    const bool killed = vae_cuda_store_killed(s, layer, &c);
    vae_cuda_store_close(&s);
    return killed;
}

/* If a process ends while it tries a choice, this choice is left out from then
 * on. A choice that another stream is trying now is not left out. */
static void
tried(void)
{
    const VaeCudaChoice ten = {"10 2=3"}, two = {"2"};
    put(KEY, "one", "8");
    VaeCudaStore *a = open_store(KEY), *b = open_store(KEY);
    vae_cuda_store_try(a, "one", &ten);
    vae_cuda_store_try(b, "one", &two); /* has no effect */
    expect(!is_killed("one", "10 2=3"),
           "a choice that is being tried is not left out");
    vae_cuda_store_try(a, "one", NULL);
    vae_cuda_store_close(&a);
    expect(!is_killed("one", "10 2=3") && !*said, "nor is one that was tried");
    vae_cuda_store_try(b, "one", &two);
    vae_cuda_store_try(b, "one", &ten);
    vae_cuda_store_close(&b); /* as if the process had ended */
    expect(is_killed("one", "10 2=3") && !is_killed("one", "2"),
           "a choice that ended a process is left out");
    for (int i = 0; i < 2; i++) {
        a = open_store(KEY);
        vae_cuda_store_try(a, "one", &two);
        vae_cuda_store_try(a, "one", NULL);
        vae_cuda_store_close(&a);
        expect(is_killed("one", "10 2=3") && !is_killed("two", "10 2=3") &&
                   !*said,
               "it stays left out, without another log line: %s", said);
    }
    expect(strcmp(get(KEY, "one"), "8") == 0, "the layer's entry stays");
}

/* The folder cannot exist, is not set, or is that of HOME. */
static void
folders(void)
{
    char file[128], inside[256];
    put(KEY, "one", "8");
    snprintf(inside, sizeof inside, "%s/a file/b", root);
    snprintf(file, sizeof file, "%s/a file", root);
    strcpy(path, file);
    write_file("", 0);
    setenv("XDG_CACHE_HOME", inside, 1);
    put(KEY, "one", "8");
    expect(strstr(said, "cannot keep") != NULL, "%s", said);
    unlink(file);
    if (access("/sys/kernel", F_OK) == 0) { /* sysfs takes no new folder */
        setenv("XDG_CACHE_HOME", "/sys/gst-vae/b", 1);
        put(KEY, "one", "8");
        expect(strstr(said, "cannot keep") && !strstr(said, strerror(ENOENT)),
               "the reason is that of the first folder: %s", said);
    }
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    put(KEY, "one", "8");
    expect(strstr(said, "no cache folder") && !*get(KEY, "one") && !*path, "%s",
           said);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", root, 1);
    put(KEY, "one", "8");
    expect(strcmp(get(KEY, "one"), "8") == 0 &&
               strncmp(path, root, strlen(root)) == 0 &&
               strstr(path, "/.cache/gst-vae/cuda-"),
           "%s", path);
}

int
main(void)
{
    char command[128];
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(root, sizeof root, "/tmp/vae-tune-XXXXXX");
    if (!mkdtemp(root))
        return 1;
    setenv("XDG_CACHE_HOME", root, 1);
    kept();
    much_code();
    own_kernels();
    damaged();
    foreign();
    shared_device();
    tried();
    folders();
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command) != 0)
        return 1;
    return tests_end();
}
