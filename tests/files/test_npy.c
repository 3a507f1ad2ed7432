/*
 * Tests valid and faulty npy headers.
 */
#include "test.h"

#define REST "'fortran_order': False, 'shape': (3, 2), }\n"

static const struct {
    const char *dict;
    size_t data;
    const char *words;
} bad[] = {
    {"{'descr': '<f4', " REST, 23, "23 bytes follow|3x2 of '<f4' needs 24"},
    {"{'descr': '<f4', " REST, 25, "25 bytes follow"},
    {"{'descr': '>f4', " REST, 24,
     "'big-endian float32' is not read: descr is >f4; expected float32,"},
    {"{'descr': '>u2', " REST, 12, "'big-endian uint16'"},
    {"{'descr': '|f4', " REST, 24, "byte order"},
    {"{'descr': '|O', " REST, 48, "'|O' is not known"},
    {"{'descr': '<U3', " REST, 72, "'<U3' is not known"},
    {"{'descr': '<f3', " REST, 18, "'<f3' is not known"},
    {"{'descr': '<f44', " REST, 24, "'<f44' is not known"},
    {"{'descr': 'f4', " REST, 24, "'f4' is not known"},
    {"{'descr': '', " REST, 24, "'' is not known"},
    {"{'descr': '<f4444444444', " REST, 24, "element type like '<f4'"},
    {"{'descr': '<f\\x34', " REST, 24, "element type like '<f4'"},
    {"{'descr': [('a', '<f4')], " REST, 24, "element type like '<f4'"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", 24,
     "fortran_order is True"},
    {"{'descr': '<f4', 'fortran_order': 1, 'shape': (3, 2), }", 24,
     "True or False"},
    {"{'descr': '<f4', 'fortran_order': Falsey, 'shape': (3, 2), }", 24,
     "',' or '}'"},
    {"{'descr': '<f4', 'fortran_order': False}", 24,
     "each of descr, fortran_order, shape"},
    {"{'descr': '<f4', 'descr': '<f4', " REST, 24, "once"},
    {"{'descr': '<f4', 'colour': 1, " REST, 24, "once"},
    {"{'descr': '<f4' " REST, 24, "',' or '}'"},
    {"{'descr' '<f4', " REST, 24, "':'"},
    {"{descr: '<f4', " REST, 24, "a key"},
    {"{'descr: '<f4', " REST, 24, "a key"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, -2), }", 24,
     "number of 0 or more"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 2), }", 24,
     "',' or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6), }", 24, "(n,)"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [3, 2], }", 24, "'('"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2", 24,
     "',' or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, "
     "'shape': (1,1,1,1,1,1,1,1,1), }",
     4, "8 dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, "
     "'shape': (99999999999999999999,), }",
     0, "63 bits"},
    {"{'descr': '<f4', 'fortran_order': False, "
     "'shape': (4294967296, 4294967296), }",
     0, "64 bits"},
    {"{'descr': '<f4', 'fortran_order': False, "
     "'shape': (4611686018427387904,), }",
     0, "64 bits"},
    {"{'descr': '<f4', " REST "x", 24, "end of the header"},
    {"", 24, "found \"\", expected '{'"},
    {"                ", 24, "found \"\", expected '{'"},
    {"{'descr': '<f", 24, "closing quote"},
};

static VaeStatus
open_npy(int major, const char *dict, size_t data, VaeTensorFile **file,
         uint8_t **bytes, VaeError *error)
{
    size_t size;
    *error = (VaeError){0};
    *bytes = make_npy(major, dict, data, &size);
    return vae_tensor_file_open_memory(*bytes, size, size, "x.npy", file,
                                       error);
}

static void
check_bad(void)
{
    for (size_t i = 0; i < COUNT(bad); i++) {
        VaeTensorFile *file;
        VaeError error;
        SCOPED_BLOCK uint8_t *bytes = NULL;
        const VaeStatus status =
            open_npy(1, bad[i].dict, bad[i].data, &file, &bytes, &error);
        check_refused(bad[i].dict, status, &error, VAE_ERR_FORMAT,
                      bad[i].words);
        check(file == NULL && strncmp(error.message, "x.npy: npy: ", 12) == 0,
              "names the file and the format");
        vae_tensor_file_free(&file);
    }
}

static void
check_good(void)
{
    static const struct {
        const char *dict, *type_name;
        size_t data;
        bool supported;
        VaeType type;
        int n_dims;
    } good[] = {
        {"{'descr': '<f4', " REST, "<f4", 24, true, VAE_TYPE_F32, 2},
        {"{'descr': '<f2', " REST, "<f2", 12, true, VAE_TYPE_F16, 2},
        {"{'descr': '|u1', " REST, "|u1", 6, true, VAE_TYPE_U8, 2},
        {"{\"shape\":(3,2,),\"descr\":\"<f2\",\"fortran_order\":False}", "<f2",
         12, true, VAE_TYPE_F16, 2},
        {"{'descr': '<f8', " REST, "<f8", 48, true, VAE_TYPE_F64, 2},
        {"{'descr': '<i8', " REST, "<i8", 48, false, 0, 2},
        {"{'descr': '|b1', " REST, "|b1", 6, false, 0, 2},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "<f4", 4,
         true, VAE_TYPE_F32, 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "<f4", 0,
         true, VAE_TYPE_F32, 1},
    };
    for (int major = 1; major <= 3; major++) {
        for (size_t i = 0; i < COUNT(good); i++) {
            VaeTensorFile *file;
            VaeError error;
            SCOPED_BLOCK uint8_t *bytes = NULL;
            const VaeStatus status = open_npy(major, good[i].dict, good[i].data,
                                              &file, &bytes, &error);
            const VaeTensorInfo *a =
                status == VAE_OK ? vae_tensor_file_find(file, "npy") : NULL;
            check(a != NULL && vae_tensor_file_count(file) == 1 &&
                      a->supported == good[i].supported &&
                      (!a->supported || a->type == good[i].type) &&
                      a->n_dims == good[i].n_dims && a->bytes == good[i].data &&
                      strcmp(a->type_name, good[i].type_name) == 0 &&
                      (a->bytes == 0 || *(const uint8_t *) a->data == 1),
                  "version %d.0 %s %s", major, good[i].dict, error.message);
            vae_tensor_file_free(&file);
        }
    }
}

static void
check_prefix(void)
{
    size_t size;
    VaeError error = {0};
    VaeTensorFile *file;
    uint64_t need = 0;
    SCOPED_BLOCK uint8_t *bytes =
        make_npy(1, "{'descr': '<f4', " REST, 24, &size);
    VaeStatus status =
        vae_tensor_header_size(bytes, 16, size, "n", &need, &error);
    check(status == VAE_OK && need == size - 24, "header size");
    status = vae_tensor_file_open_memory(bytes, (size_t) need, size, "n", &file,
                                         &error);
    check(status == VAE_OK && vae_tensor_file_at(file, 0)->data == NULL,
          "header only");
    vae_tensor_file_free(&file);
    bytes[6] = 4;
    status = vae_tensor_file_open_memory(bytes, size, size, "n", &file, &error);
    check_refused("version 4.0", status, &error, VAE_ERR_FORMAT, "4.0");
    bytes[6] = 0;
    status = vae_tensor_file_open_memory(bytes, size, size, "n", &file, &error);
    check_refused("version 0.0", status, &error, VAE_ERR_FORMAT, "0.0");
    bytes[6] = 1;
    bytes[9] = 0xff;
    status = vae_tensor_file_open_memory(bytes, size, size, "n", &file, &error);
    check_refused("header past the end", status, &error, VAE_ERR_FORMAT,
                  "past the end");
    bytes[6] = 2;
    bytes[11] = 0xff;
    status = vae_tensor_file_open_memory(bytes, size, size, "n", &file, &error);
    check_refused("a huge header", status, &error, VAE_ERR_FORMAT, "at most");
    for (size_t n = 6; n < 12; n++) {
        status = vae_tensor_file_open_memory(bytes, n, n, "n", &file, &error);
        check_refused("a file too short", status, &error, VAE_ERR_FORMAT,
                      "too short");
    }
}

int
main(void)
{
    check_bad();
    check_good();
    check_prefix();
    return test_end();
}
