/* flip_bit.h - one bit of memory becomes the other one. */
#ifndef FLIP_BIT_H
#define FLIP_BIT_H
#include "model/plan.h"

/* Bit 0 is the lowest of the first byte. */
static inline void flip_bit(void *at, unsigned bit)
{
    unsigned char *byte = (unsigned char *)at + bit / 8;
    *byte = (unsigned char)(*byte ^ (1u << bit % 8));
}

/* The first packed copy of the parameter [*bytes], NULL if it has none. */
static inline char *packed_copy(const dt_model *m, size_t param, size_t *bytes)
{
    for (const dt_pack *p = m->pack; p < m->pack + m->packs; p++)
        if ((size_t)p->param == param) {
            *bytes = p->bytes;
            return dt_pack_at(m, p);
        }
    return NULL;
}
#endif
