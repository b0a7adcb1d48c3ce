/* flip_bit.h - one bit of memory becomes the other one. */
#ifndef FLIP_BIT_H
#define FLIP_BIT_H

/* Bit 0 is the lowest of the first byte. */
static inline void flip_bit(void *at, unsigned bit)
{
    unsigned char *byte = (unsigned char *)at + bit / 8;
    *byte = (unsigned char)(*byte ^ (1u << bit % 8));
}
#endif
