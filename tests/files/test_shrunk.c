/*
 * test_shrunk.c: a file that is cut short while it is opened. It must be an
 * error, or not matter. A read through a mapping would end this process by
 * SIGBUS.
 *
 * test_shrunk FOLDER, which has the files of test_pickle.c. Calls of fstat()
 * and stat() come here first.
 */
#include "test.h"

#include <sys/stat.h>

#include "files.h"

static const char *victim;
static off_t left; /* -1: nothing is cut */
static char folder[] = "/tmp/vae-shrunk-XXXXXX", path[80];

/* The name is the linker's. */
int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);

int
__wrap_fstat64(int fd, struct stat *st)
{
    const int result = __real_fstat64(fd, st);
    if (left >= 0 && truncate(victim, left) != 0)
        abort();
    return result;
}

static void
write_bytes(const char *to, const void *bytes, size_t n)
{
    FILE *f = fopen(to, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
}

/* Opens the bytes as a file that is cut to each of its lengths. */
static void
cut(const char *what, const uint8_t *bytes, size_t n)
{
    VaeTensorFile *file;
    VaeError error = {0};
    int opened = 0, bad = 0;
    victim = path;
    for (size_t most = 0; most < n; most += 1 + n / 200) {
        write_bytes(path, bytes, n);
        left = (off_t) most;
        const VaeStatus status = vae_tensor_file_open(path, &file, &error);
        left = -1;
        opened += status == VAE_OK;
        bad += status != VAE_OK && (status != VAE_ERR_READ ||
                                    !strstr(error.message, "was cut short") ||
                                    !*error.found || !*error.expected);
        vae_tensor_file_free(&file);
    }
    check(bad == 0, "%s: %d other errors, %d times opened; %s", what, bad,
          opened, error.message);
}

static uint8_t *
read_bytes(const char *from, size_t *n)
{
    static uint8_t bytes[1 << 20];
    FILE *f = fopen(from, "rb");
    *n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

static void
cut_config(void)
{
    char config[96];
    json_t *json = NULL;
    VaeError error = {0};
    snprintf(config, sizeof config, "%s/config.json", folder);
    victim = config;
    write_bytes(config, "{\"a\": 1}", 8);
    left = 0;
    check(vae_config_load(path, &json, &error) == VAE_ERR_READ && !json,
          "config.json: %s", error.message);
    check_error_parts("config.json", &error, NULL, "0 bytes", "8");
    left = -1;
    unlink(config);
}

int
main(int argc, char **argv)
{
    static const char npy[] =
        "\x93NUMPY\x01\x00\x38\x00{'descr': '<f4', 'fortran_order': False, "
        "'shape': (1,)}\n\0\0\0\0";
    static const char tensors[] =
        "\x3c\0\0\0\0\0\0\0{\"t\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]}}      \0\0\0\0";
    static const char index[] =
        "{\"weight_map\": {\"t\": \"none.safetensors\"}}";
    char zip[512];
    size_t n;
    VaeTensorFile *file;
    VaeError error = {0};
    left = -1;
    if (argc != 2 || !mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/t", folder);
    write_bytes(path, npy, sizeof npy - 1);
    check(vae_tensor_file_open(path, &file, &error) == VAE_OK, "npy: %s",
          error.message);
    vae_tensor_file_free(&file);
    write_bytes(path, tensors, sizeof tensors - 1);
    check(vae_tensor_file_open(path, &file, &error) == VAE_OK,
          "safetensors: %s", error.message);
    vae_tensor_file_free(&file);
    cut("npy", (const uint8_t *) npy, sizeof npy - 1);
    cut("safetensors", (const uint8_t *) tensors, sizeof tensors - 1);
    cut("an index", (const uint8_t *) index, sizeof index - 1);
    snprintf(zip, sizeof zip, "%s/state.pth", argv[1]);
    const uint8_t *bytes = read_bytes(zip, &n);
    check(n > 0, "%s", zip);
    cut("PyTorch", bytes, n);
    cut_config();
    unlink(path);
    rmdir(folder);
    return test_end();
}
