/* hash.c - XXH3 with 128 bits, from libxxhash; a dt_hash is its streaming state. */
#include "base.h"
#include <inttypes.h>
#define XXH_STATIC_LINKING_ONLY /* for the size of the state */
#include <xxhash.h>

_Static_assert(sizeof(dt_hash) == sizeof(XXH3_state_t), "a dt_hash is the library's state");

static dt_digest digest_of(XXH128_hash_t h)
{
    return (dt_digest){.low = h.low64, .high = h.high64};
}

dt_digest dt_hash_bytes(const void *data, size_t bytes)
{
    return digest_of(XXH3_128bits(data, bytes));
}

void dt_hash_init(dt_hash *h)
{
    XXH3_128bits_reset((XXH3_state_t *)h);
}

void dt_hash_update(dt_hash *h, const void *data, size_t bytes)
{
    if (bytes > 0) /* the library refuses NULL, even for no bytes, and nothing else */
        XXH3_128bits_update((XXH3_state_t *)h, data, bytes);
}

dt_digest dt_hash_digest(const dt_hash *h)
{
    return digest_of(XXH3_128bits_digest((const XXH3_state_t *)h));
}

void dt_digest_text(dt_digest d, char out[DT_DIGEST_CHARS])
{
    snprintf(out, DT_DIGEST_CHARS, "%016" PRIx64 "%016" PRIx64, d.high, d.low);
}
