/*
 * Changes, moves and cuts the bytes of valid files at random. The readers must
 * not crash. All bytes of an accepted file must be readable.
 *
 * VAE_TEST_SEED sets the seed, VAE_TEST_ROUNDS the number of rounds.
 */
#include <inttypes.h>

#include "../fuzz/fuzz.h"
#include "torch/archive.h"

static uint64_t state;

static uint64_t
next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t
below(size_t n)
{
    return (size_t) (next_random() % n);
}

/* Reads every tensor and all metadata of an accepted file. The sum makes the
 * compiler keep the reads. */
static unsigned
use(const VaeTensorFile *file)
{
    unsigned sum = 0;
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *info = vae_tensor_file_at(file, i);
        const uint8_t *p = info->data;
        for (uint64_t k = 0; p != NULL && k < info->bytes; k++)
            sum += p[k];
        sum += (unsigned) strlen(info->type_name);
        if (vae_tensor_file_find(file, info->name) != info)
            check(false, "a tensor is not found by its name");
    }
    fuzz_latents(file);
    return sum;
}

/* Makes n changes, most of them in the header. Returns the new size. */
static size_t
mutate(uint8_t *bytes, size_t size, size_t header)
{
    static const char likely[] = "0123456789{}[]\",:-.'()<>|fFuU\\";
    const size_t n = 1 + below(4);
    for (size_t i = 0; i < n; i++) {
        const size_t place = below(below(8) != 0 ? header : size);
        switch (below(5)) {
        case 0:
            bytes[place] ^= (uint8_t) (1u << below(8));
            break;
        case 1:
            bytes[place] = (uint8_t) next_random();
            break;
        case 2:
            bytes[place] = (uint8_t) likely[below(sizeof likely - 1)];
            break;
        case 3: {
            const size_t from = below(header), most = header - from;
            const size_t room = size - place;
            memmove(bytes + place, bytes + from,
                    1 + below(most < room ? most : room));
            break;
        }
        default: /* replacing a digit by another keeps the JSON valid */
            for (size_t k = place; k < header; k++) {
                if (bytes[k] >= '0' && bytes[k] <= '9') {
                    bytes[k] = (uint8_t) ('0' + below(10));
                    break;
                }
            }
        }
    }
    return below(4) == 0 ? below(size + 1) : size;
}

static void
run(const char *what, const uint8_t *original, size_t size, size_t header,
    int rounds)
{
    int accepted = 0;
    unsigned sum = 0;
    for (int i = 0; i < rounds; i++) {
        SCOPED_BLOCK uint8_t *bytes = malloc(size);
        memcpy(bytes, original, size);
        const size_t left = mutate(bytes, size, header);
        /* A block of exactly this size, so that ASan sees a read past it. */
        SCOPED_BLOCK uint8_t *cut = malloc(left > 0 ? left : 1);
        memcpy(cut, bytes, left);
        const uint64_t total = below(8) == 0    ? left + below(100)
                               : below(16) == 0 ? UINT64_MAX
                                                : left;
        SCOPED_FILE VaeTensorFile *file = NULL;
        VaeError error = {0};
        uint64_t need;
        vae_tensor_header_size(cut, left, total, what, &need, NULL);
        const VaeStatus status =
            vae_tensor_file_open_memory(cut, left, total, what, &file, &error);
        if (status == VAE_OK) {
            accepted++;
            sum += use(file);
        } else if (error.status != status || error.message[0] == '\0' ||
                   file != NULL) {
            check(false, "%s, round %d: a refusal without words", what, i);
        }
    }
    check(accepted > 0 && accepted < rounds, "%s: %d of %d accepted (sum %u)",
          what, accepted, rounds, sum);
}

static const Tensor tensors[] = {
    {"HalfStorage", "0", 48, 0, 5, {1, 16, 1, 1, 3}, {48, 3, 3, 3, 1}},
    {"FloatStorage", "1", 24, 6, 2, {3, 4}, {4, 1}},
    {"ByteStorage", "1", 96, 96, 1, {0}, {1}},
};

static Bytes
make_pickle(void)
{
    Bytes p = {0};
    PUT(&p, "\x80\2}(");
    for (size_t i = 0; i < COUNT(tensors); i++) {
        const char name[2] = {(char) ('a' + i), '\0'};
        put_text(&p, i == 0 ? "latent" : name);
        put_tensor(&p, &tensors[i]);
    }
    PUT(&p, "u.");
    return p;
}

/* Changes first only the pickle, and then the whole archive. The directory is
 * at the archive's end, so that each place has the same probability. */
static void
run_torch(int rounds)
{
    Bytes p = make_pickle();
    const size_t n = p.n;
    const Bytes zip = make_torch(&p);
    run("pickle", zip.data, zip.n, n + 50, rounds);
    run("zip", zip.data, zip.n, zip.n, rounds);
    free(zip.data);
}

static long
number(const char *name, long usual)
{
    const char *text = getenv(name);
    return text != NULL ? atol(text) : usual;
}

int
main(void)
{
    state = (uint64_t) number("VAE_TEST_SEED", 20240607);
    const int rounds = (int) number("VAE_TEST_ROUNDS", 6000);
    printf("seed %" PRIu64 ", %d rounds\n", state, rounds);

    static const char json[] =
        "{\"__metadata__\":{\"vae.layout\":\"cthw\","
        "\"vae.framerate\":\"16/1\",\"vae.frames\":\"5\"},"
        "\"latent\":{\"dtype\":\"F16\",\"shape\":[1,16,2,3,4],"
        "\"data_offsets\":[0,768]},"
        "\"other\":{\"dtype\":\"F32\",\"shape\":[2,2],"
        "\"data_offsets\":[768,784]},"
        "\"none\":{\"dtype\":\"U8\",\"shape\":[0],"
        "\"data_offsets\":[784,784]}}    ";
    size_t size;
    uint8_t *bytes = make_file(json, strlen(json), 784, &size);
    run("safetensors", bytes, size, 8 + strlen(json), rounds);
    free(bytes);

    static const char dict[] = "{'descr': '<f2', 'fortran_order': False, "
                               "'shape': (1, 16, 2, 3, 4), }     \n";
    for (int major = 1; major <= 2; major++) {
        bytes = make_npy(major, dict, 768, &size);
        run("npy", bytes, size, size - 768, rounds);
        free(bytes);
    }
    run_torch(rounds);
    return test_end();
}
