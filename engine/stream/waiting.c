/*
 * waiting.c: tells which units wait in a stream.
 */
#include "waiting.h"

void
vae_stream_count_waiting(const VaeStream *s, int *sent, int *made)
{
    const VaeWaiting *w = s->waiting;
    const bool any = w && w->sequence == s->sequences;
    *sent = any ? w->sent : 0;
    *made = any && w->made > w->given ? w->made - w->given : 0;
}

bool
vae_stream_end_was_sent(const VaeStream *s)
{
    const VaeWaiting *w = s->waiting;
    return w && w->sequence == s->sequences && w->ended;
}
