/*
 * inject.h: refuses one call that the engine makes to the C library.
 *
 * Programs are linked with -Wl,--wrap=NAME for each function of inject.c. Calls
 * from the engine and from other objects of the program come here first. Calls
 * from inside shared libraries do not, except for jansson's allocations.
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

/* Chooses the calls of inject_refuse(). */
void inject_choose(Inject kind);
/* Refuses the n-th call of that kind from now on, by any thread; none if n is
 * 0. Returns the number of such calls since the last call. */
int inject_refuse(int n);
/* Returns the name of the function that was refused, or NULL if none was.
 * "json" is an allocation of jansson, which can do without some of them. */
const char *inject_refused(void);

/* The allocations that have not been freed. */
typedef struct Live {
    long blocks, descriptors, mappings;
} Live;
Live inject_live(void);

#endif
