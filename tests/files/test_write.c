/*
 * Writes files and reads them back. Also tests files that cannot be opened or
 * created.
 */
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <signal.h>

#include "folder.h"
#include "test.h"

static int
files_in_folder(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return -1;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static const float floats[6] = {0, -1.5f, 3e38f, 1e-40f, 7, 8};
static const uint8_t octets[3] = {1, 2, 255};
static const VaeTensorOut tensors[] = {
    {"floats", VAE_TYPE_F32, 3, {1, 2, 3}, floats},
    {"octets", VAE_TYPE_U8, 1, {3}, octets},
    {"h\xc3\xa9 \"q\"\\\n", VAE_TYPE_F16, 1, {2}, octets},
    {"none", VAE_TYPE_BF16, 2, {5, 0}, NULL},
    {"scalar", VAE_TYPE_F32, 0, {0}, floats},
};
static const VaeMetadata metadata[] = {
    {"vae.layout", "cthw"},
    {"k\xc3\xa9y", "line\nbreak \"quoted\""},
};

static void
check_round_trip(void)
{
    const char *path = path_of("round.safetensors");
    VaeError error = {0};
    VaeTensorFile *file;
    /* Sets the 4 bytes of the third tensor. */
    VaeTensorOut given[COUNT(tensors)];
    memcpy(given, tensors, sizeof given);
    given[2].data = floats;
    VaeStatus status = vae_tensor_file_write(path, given, COUNT(given),
                                             metadata, COUNT(metadata), &error);
    check(status == VAE_OK, "written: %s", error.message);
    status = vae_tensor_file_open(path, &file, &error);
    check(status == VAE_OK, "read: %s", error.message);
    if (status != VAE_OK)
        return;
    bool good = vae_tensor_file_count(file) == COUNT(given);
    for (size_t i = 0; good && i < COUNT(given); i++) {
        const VaeTensorInfo *a = vae_tensor_file_at(file, i);
        good = strcmp(a->name, given[i].name) == 0 &&
               a->type == given[i].type && a->supported &&
               a->n_dims == given[i].n_dims &&
               memcmp(a->dims, given[i].dims,
                      sizeof(int64_t) * (size_t) a->n_dims) == 0 &&
               (a->bytes == 0 || memcmp(a->data, given[i].data, a->bytes) == 0);
    }
    check(good, "tensors are as given");
    check(vae_tensor_file_at(file, 0)->offset % 8 == 0, "data aligned");
    for (size_t i = 0; i < COUNT(metadata); i++) {
        const char *value = vae_tensor_file_metadata(file, metadata[i].key);
        check(value != NULL && strcmp(value, metadata[i].value) == 0,
              "metadata %zu", i);
    }
    vae_tensor_file_free(&file);

    /* Writing again gives the same bytes and leaves no other file. */
    struct stat before, after;
    stat(path, &before);
    status = vae_tensor_file_write(path, given, COUNT(given), metadata,
                                   COUNT(metadata), &error);
    stat(path, &after);
    check(status == VAE_OK && before.st_size == after.st_size &&
              before.st_ino != after.st_ino && files_in_folder() == 1,
          "replaced by a rename, no other file");
    unlink(path);
}

static void
check_refused_tensors(void)
{
    static const struct {
        const char *what, *words;
        VaeTensorOut tensors[2];
        size_t n;
    } cases[] = {
        {"name twice",
         "\"a\" appears twice",
         {{"a", VAE_TYPE_U8, 1, {0}, NULL}, {"a", VAE_TYPE_U8, 1, {0}, NULL}},
         2},
        {"name empty", "empty", {{"", VAE_TYPE_U8, 1, {0}, NULL}}, 1},
        {"name NULL", "empty", {{NULL, VAE_TYPE_U8, 1, {0}, NULL}}, 1},
        {"name no UTF-8", "UTF-8", {{"\xff", VAE_TYPE_U8, 1, {0}, NULL}}, 1},
        {"name of the metadata",
         "__metadata__",
         {{"__metadata__", VAE_TYPE_U8, 1, {0}, NULL}},
         1},
        {"dimension negative",
         "\"a\": dimension 1 is -4",
         {{"a", VAE_TYPE_U8, 2, {1, -4}, NULL}},
         1},
        {"dimensions", "9 dimensions", {{"a", VAE_TYPE_U8, 9, {1}, NULL}}, 1},
        {"size",
         "63 bits",
         {{"a", VAE_TYPE_F32, 2, {(int64_t) 1 << 40, (int64_t) 1 << 30}, NULL}},
         1},
        {"size of all",
         "all tensors",
         {{"a", VAE_TYPE_U8, 1, {INT64_MAX}, NULL},
          {"b", VAE_TYPE_U8, 1, {1}, NULL}},
         2},
        {"type", "no element type", {{"a", (VaeType) 9, 1, {1}, NULL}}, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        VaeError error = {0};
        const VaeStatus status = vae_tensor_file_write(
            path_of("bad"), cases[i].tensors, cases[i].n, NULL, 0, &error);
        check_refused(cases[i].what, status, &error, VAE_ERR_ARGUMENT,
                      cases[i].words);
    }
    const VaeMetadata twice[] = {{"k", "1"}, {"k", "2"}};
    const VaeMetadata bytes[] = {{"k", "\xff"}};
    VaeError error = {0};
    VaeStatus status =
        vae_tensor_file_write(path_of("bad"), NULL, 0, twice, 2, &error);
    check_refused("key twice", status, &error, VAE_ERR_ARGUMENT, "\"k\"");
    status = vae_tensor_file_write(path_of("bad"), NULL, 0, bytes, 1, &error);
    check_refused("value no UTF-8", status, &error, VAE_ERR_ARGUMENT, "\"k\"");
    check(files_in_folder() == 0, "a refused file leaves nothing");
}

static void
check_header(void)
{
    VaeError error = {0};
    VaeTensorHeader header = {tensors, COUNT(tensors), metadata, 2, 0};
    void *plain, *padded;
    size_t plain_size, padded_size;
    VaeStatus status =
        vae_tensor_header_make(&header, &plain, &plain_size, &error);
    check(status == VAE_OK && plain_size % 8 == 0, "header");
    header.pad_to = plain_size + 1001;
    status = vae_tensor_header_make(&header, &padded, &padded_size, &error);
    check(status == VAE_OK && padded_size == plain_size + 1001,
          "padded to the byte");
    VaeTensorFile *file;
    const uint64_t total = padded_size + 24 + 3 + 4 + 4;
    status = vae_tensor_file_open_memory(padded, padded_size, total, "p", &file,
                                         &error);
    check(status == VAE_OK &&
              vae_tensor_file_at(file, 0)->offset == padded_size,
          "a padded header is read: %s", error.message);
    vae_tensor_file_free(&file);
    free(padded);
    free(plain);
    header.pad_to = 100;
    status = vae_tensor_header_make(&header, &padded, &padded_size, &error);
    check_refused("no room", status, &error, VAE_ERR_SIZE, "at most 100");
    check(strcmp(error.expected, "at most 100") == 0 &&
              strstr(error.found, " bytes") != NULL,
          "parts: \"%s\", \"%s\"", error.found, error.expected);
    check(padded == NULL && padded_size == 0, "nothing is returned");
}

static void
check_bad_paths(void)
{
    VaeTensorFile *file;
    VaeError error = {0};
    VaeStatus status = vae_tensor_file_open(path_of("missing"), &file, &error);
    check_refused("missing file", status, &error, VAE_ERR_NOT_FOUND, "missing");
    status = vae_tensor_file_open("", &file, &error);
    check_refused("no name", status, &error, VAE_ERR_ARGUMENT, "path is empty");
    status = vae_tensor_file_open(folder, &file, &error);
    check_refused("directory", status, &error, VAE_ERR_NOT_FOUND, "directory");
    status = vae_tensor_file_open("/dev/null", &file, &error);
    check_refused("device", status, &error, VAE_ERR_READ, "regular");

    const char *path = path_of("pipe");
    if (mkfifo(path, 0600) == 0) {
        status = vae_tensor_file_open(path, &file, &error);
        check_refused("pipe", status, &error, VAE_ERR_READ, "regular");
        status = vae_tensor_file_write(path, NULL, 0, NULL, 0, &error);
        check_refused("pipe to write", status, &error, VAE_ERR_WRITE,
                      "regular");
        unlink(path);
    }
    path = path_of("empty");
    fclose(fopen(path, "w"));
    status = vae_tensor_file_open(path, &file, &error);
    check_refused("empty file", status, &error, VAE_ERR_FORMAT, "empty");
    if (geteuid() != 0) {
        chmod(path, 0);
        status = vae_tensor_file_open(path, &file, &error);
        check_refused("unreadable file", status, &error, VAE_ERR_READ, "empty");
        chmod(folder, 0500);
        status = vae_tensor_file_write(path_of("w"), NULL, 0, NULL, 0, &error);
        check_refused("folder not writable", status, &error, VAE_ERR_WRITE,
                      "create");
        chmod(folder, 0700);
    } else {
        printf("skipped: unreadable file and folder, root reads all\n");
    }
    unlink(path);
    status = vae_tensor_file_write(folder, NULL, 0, NULL, 0, &error);
    check_refused("directory to write", status, &error, VAE_ERR_WRITE,
                  "regular");
    status =
        vae_tensor_file_write(path_of("no/such"), NULL, 0, NULL, 0, &error);
    check_refused("no folder to write in", status, &error, VAE_ERR_WRITE,
                  "create");

    char longest[3000];
    memset(longest, 'n', sizeof longest);
    memcpy(longest + sizeof longest - 12, "/the-end.pt", 12);
    status = vae_tensor_file_open(longest, &file, &error);
    check_refused("a name too long", status, &error, VAE_ERR_READ,
                  "/the-end.pt|open");
}

static void
check_link(void)
{
    char target[500], link[500];
    snprintf(target, sizeof target, "%s", path_of("target"));
    snprintf(link, sizeof link, "%s", path_of("link"));
    VaeError error = {0};
    SCOPED_FILE VaeTensorFile *file = NULL;
    fclose(fopen(target, "w"));
    if (symlink("target", link) != 0)
        return;
    VaeStatus status = vae_tensor_file_write(link, tensors, 1, NULL, 0, &error);
    struct stat st;
    check(status == VAE_OK && lstat(link, &st) == 0 && S_ISLNK(st.st_mode),
          "a link stays a link");
    status = vae_tensor_file_open(target, &file, &error);
    check(status == VAE_OK, "and its target is written");
    unlink(link);
    unlink(target);
}

/* A temporary file of a killed process with the same pid is not touched. */
static void
check_left_over(void)
{
    const char *path = path_of("again");
    char left[600], text[16] = "";
    snprintf(left, sizeof left, "%s.%ld-0.tmp", path, (long) getpid());
    FILE *f = fopen(left, "w");
    fputs("as it was", f);
    fclose(f);
    VaeError error = {0};
    const VaeStatus status =
        vae_tensor_file_write(path, tensors, 1, NULL, 0, &error);
    f = fopen(left, "r");
    check(status == VAE_OK && f != NULL &&
              fgets(text, sizeof text, f) != NULL &&
              strcmp(text, "as it was") == 0 && files_in_folder() == 2,
          "a left-over file is stepped over");
    if (f != NULL)
        fclose(f);
    unlink(left);
    unlink(path);
}

/* After a failed write only the old file is there. */
static void
check_full(void)
{
    const char *path = path_of("full");
    VaeError error = {0};
    VaeTensorFile *file;
    VaeStatus status = vae_tensor_file_write(path, tensors, 1, NULL, 0, &error);
    check(status == VAE_OK, "the old file");
    static float big[100000];
    const VaeTensorOut tensor = {"big", VAE_TYPE_F32, 1, {COUNT(big)}, big};
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    status = vae_tensor_file_write(path, &tensor, 1, NULL, 0, &error);
    setrlimit(RLIMIT_FSIZE, &old);
    check_refused("a file over the limit", status, &error, VAE_ERR_WRITE,
                  "full: cannot write");
    status = vae_tensor_file_open(path, &file, &error);
    check(status == VAE_OK && vae_tensor_file_find(file, "floats") != NULL &&
              files_in_folder() == 1,
          "the old file is there, and only that");
    vae_tensor_file_free(&file);
    unlink(path);
    if (access("/dev/full", W_OK) == 0) {
        status =
            vae_tensor_file_write("/dev/full", tensors, 1, NULL, 0, &error);
        check_refused("a device to write", status, &error, VAE_ERR_WRITE,
                      "regular");
    }
}

int
main(void)
{
    snprintf(folder, sizeof folder, "%s", test_folder());
    check_round_trip();
    check_refused_tensors();
    check_header();
    check_bad_paths();
    check_link();
    check_left_over();
    check_full();
    check(rmdir(folder) == 0, "the folder is empty again");
    return test_end();
}
