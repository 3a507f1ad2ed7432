/*
 * inject.h: refuses one call that the engine makes to the C library.
 *
 * Programs are linked with -Wl,--wrap=NAME for each function of inject.c, so
 * that calls of the engine, and of all else that is linked in, come here
 * first; those within shared libraries do not. Memory of jansson comes here,
 * too.
 */
#ifndef VAE_TEST_INJECT_H
#define VAE_TEST_INJECT_H

#include <stdbool.h>

typedef enum Inject {
    INJECT_NOTHING,
    INJECT_MEMORY,    /* a block of memory: none is there */
    INJECT_FILE,      /* a call that takes a file: EIO */
    INJECT_FULL,      /* a call that writes: ENOSPC */
    INJECT_SHORT,     /* a read or write moves only one byte */
    INJECT_INTERRUPT, /* a read or write is interrupted before its first byte */
    INJECT_THREAD     /* a thread is not begun: EAGAIN */
} Inject;

/* Counts from 0 what it may refuse and refuses number n; -1: none of them.
 * One at a time, for calls from any thread. */
void inject_begin(Inject kind, int n);
/* How many there were. */
int inject_end(void);
/* The function that was refused, NULL: none; "json": memory of jansson, which
 * does without some that it only wants for its messages. */
const char *inject_refused(void);

/* What was taken and not given back so far. */
typedef struct Live {
    long blocks, descriptors, mappings;
} Live;
Live inject_live(void);

#endif
