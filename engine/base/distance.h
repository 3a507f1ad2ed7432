/*
 * distance.h: compares names, to find the one that somebody means.
 */
#ifndef VAE_DISTANCE_H
#define VAE_DISTANCE_H

/* Returns the number of letters to add, remove or replace (the Levenshtein
 * distance), less for names that begin alike. Letters after LONGEST do not
 * count. */
int vae_distance(const char *a, const char *b);

#endif
