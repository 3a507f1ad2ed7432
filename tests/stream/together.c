/*
 * together.c: opens two streams at the same moment in a new process, one to
 * decode and one to encode in another precision. Each gives the same results as
 * alone.
 *
 * together MODEL BACKEND PRECISION OTHER TRIES
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "streams.h"

enum { LATENTS = 3, WIDTH = 48, HEIGHT = 32, ROOM = 1 << 20 };

typedef struct Side {
    VaeDirection direction;
    const char *precision;
    uint8_t *out;
    size_t bytes;
} Side;

static Bed bed;

static void *
run_side(void *user)
{
    static const int plan[] = {1, 1, 1, 0};
    Side *side = user;
    Bed own = bed;
    SCOPED_CLIP TestClip clip = bed_clip(&bed, LATENTS, WIDTH, HEIGHT, 1);
    clip_poison(&bed, &clip, side->direction);
    if (!vae_precision_parse(side->precision, &own.precision))
        exit(2);
    SCOPED_STREAM VaeStream *stream =
        bed_slices(&own, side->direction, WIDTH, HEIGHT, 1);
    run_clip(&bed, stream, side->direction, &clip, plan);
    const void *result =
        clip_result(&bed, &clip, side->direction, &side->bytes);
    if (side->bytes > ROOM)
        exit(2);
    memcpy(side->out, result, side->bytes);
    return NULL;
}

/* Runs in a child process that has not used the library yet. */
static int
run_once(char **argv, uint8_t *results, bool at_once)
{
    int status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        Side sides[2] = {{VAE_DECODE, argv[4], results, 0},
                         {VAE_ENCODE, argv[3], results + ROOM, 0}};
        pthread_t other;
        bed_open(&bed, argv[1], argv[2], "fp32");
        bed.threads = 1;
        if (at_once && pthread_create(&other, NULL, run_side, &sides[0]) != 0)
            _exit(2);
        if (!at_once)
            run_side(&sides[0]);
        run_side(&sides[1]);
        if (at_once)
            pthread_join(other, NULL);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int
main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr,
                "usage: together MODEL BACKEND PRECISION OTHER TRIES\n");
        return 2;
    }
    uint8_t *results = mmap(NULL, 4 * ROOM, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED)
        return 2;
    const int first = run_once(argv, results, false);
    if (first != 0)
        return first;
    int others = 0, ended = 0;
    const int tries = atoi(argv[5]);
    for (int i = 0; i < tries; i++) {
        uint8_t *again = results + 2 * ROOM;
        memset(again, 0, 2 * ROOM);
        ended += run_once(argv, again, true) != 0;
        others += memcmp(results, again, 2 * ROOM) != 0;
    }
    expect(tries > 0 && others == 0 && ended == 0,
           "opened at the same time, %d times: %d times another result, %d "
           "times no result",
           tries, others, ended);
    return tests_end();
}
