/*
 * Cutting a list of candidate tokens to its likeliest ones, without sorting it.
 */
#ifndef SLUICE_ENGINE_CANDIDATE_CUT_H
#define SLUICE_ENGINE_CANDIDATE_CUT_H

#include <stddef.h>
#include <stdint.h>

struct candidate {
    int32_t token;
    float logit;   /* finite */
    double weight; /* what it adds to the sum that candidate_cut compares: 0 and more */
};

/*
 * Think of the candidates in order of falling logit, equal ones in list order: keeps each one that has less
 * than `budget` of weight before it, at least the first. The first must have a weight above 0, and equal
 * logits equal weights. The survivors stay in list order, at the front; returns how many there are.
 *
 * Takes four passes over the candidates whatever their values.
 */
size_t candidate_cut(struct candidate *candidates, size_t count, double budget);

#endif
