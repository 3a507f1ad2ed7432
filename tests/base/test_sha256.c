/*
 * test_sha256.c: the examples of FIPS 180-4 and lengths around a block.
 */
#include "base.h"
#include "sha256.h"

static void
check_hash(const char *what, const void *data, size_t n, const char *want)
{
    for (size_t step = 1; step <= 129; step += 32) {
        VaeSha256 sha;
        char got[65];
        vae_sha256_begin(&sha);
        for (size_t at = 0; at < n; at += step)
            vae_sha256_add(&sha, (const char *) data + at,
                           n - at < step ? n - at : step);
        vae_sha256_end(&sha, got);
        check(strcmp(got, want) == 0, "%s, %zu at a time: %s", what, step, got);
    }
}

void
test_sha256(void)
{
    static const struct {
        size_t n;
        const char *want;
    } zeros[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
        {55,
         "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"},
        {56,
         "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"},
        {63,
         "c7723fa1e0127975e49e62e753db53924c1bd84b8ac1ac08df78d09270f3d971"},
        {64,
         "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
        {65,
         "98ce42deef51d40269d542f5314bef2c7468d401ad5d85168bfab4c0108f75f7"},
        {119,
         "f616b0d54e78571a9611f343c9f8e022e859e920381ab0e4d3da01e193a7bd7e"},
        {120,
         "6edd9f6f9cc92cded36e6c4a580933f9c9f1b90562b46903b806f21902a1a54f"},
        {128,
         "38723a2e5e8a17aa7950dc008209944e898f69a7bd10a23c839d341e935fd5ca"},
        {1000,
         "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53"},
    };
    char *block = calloc(1000000, 1);
    if (!block)
        exit(1);
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++)
        check_hash("zeros", block, zeros[i].n, zeros[i].want);
    check_hash(
        "abc", "abc", 3,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check_hash(
        "two blocks", two, strlen(two),
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(block, 'a', 1000000);
    check_hash(
        "a million times a", block, 1000000,
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(block);
}
