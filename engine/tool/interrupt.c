/*
 * interrupt.c: Ctrl-C, SIGTERM and the end of a terminal's session end a run
 * within one op. A second signal ends the process at once.
 *
 * A signal handler may call very few functions, so a thread cancels. It
 * repeats, because a reset of the stream ends a cancel.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "tool.h"
#include "vae-private/os.h"

static volatile sig_atomic_t caught;
static sem_t event; /* a signal, or the end of the run */
static atomic_bool done;
static pthread_t thread;
static VaeStream *const *running;
static int n_running;

static void
on_signal(int number)
{
    caught = number;
    sem_post(&event);
}

static void *
cancel_loop(void *data)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    while (sem_wait(&event) != 0)
        continue;
    while (!atomic_load(&done)) {
        for (int i = 0; i < n_running; i++)
            vae_stream_cancel(running[i]);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

bool
interrupt_arm(VaeStream *const *streams, int n, VaeError *error)
{
    caught = 0;
    running = streams;
    n_running = n;
    atomic_store(&done, false);
    sem_init(&event, 0, 0);
    if (pthread_create(&thread, NULL, cancel_loop, NULL) != 0) {
        vae_fail(error, VAE_ERR_MEMORY, "cannot start a thread");
        return false;
    }
    vae_os_catch_interrupts(on_signal);
    return true;
}

void
interrupt_disarm(void)
{
    vae_os_release_interrupts();
    atomic_store(&done, true);
    sem_post(&event);
    pthread_join(thread, NULL);
    sem_destroy(&event);
}

bool
interrupted(void)
{
    return caught != 0;
}

void
interrupt_end(void)
{
    if (!caught)
        return;
    fflush(NULL);
    signal(caught, SIG_DFL);
    raise(caught);
}
