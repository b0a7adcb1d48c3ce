/* base_hash.c - digests against what xxhsum -H2 prints; streams against one call. */
#include "test.h"

enum { BYTES = 40 * 256 };
static unsigned char data[BYTES];

FIXTURE(fill_data)
{
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i % 256);
    return 0;
}

TEST(texts_are_those_of_xxhsum)
{
    static const struct {
        const char *input;
        size_t bytes;
        const char *text;
    } known[] = {
        {"", 0, "99aa06d3014798d86001c324468d497f"},
        {"abc", 3, "06b05ab6733a618578af5f94892f3950"},
        {(const char *)data, BYTES, "1cb22534d0d96975c03d2231ab9348f3"},
    };
    for (size_t i = 0; i < DT_COUNT_OF(known); i++) {
        char text[DT_DIGEST_CHARS];
        dt_digest_text(dt_hash_bytes(known[i].input, known[i].bytes), text);
        assert_string_equal(text, known[i].text);
    }
    char text[DT_DIGEST_CHARS];
    dt_digest_text((dt_digest){.low = 0x1f, .high = 2}, text);
    assert_string_equal(text, "0000000000000002000000000000001f");
}

static void assert_same(dt_digest a, dt_digest b)
{
    assert_true(a.low == b.low && a.high == b.high);
}

TEST(streams_equal_one_call)
{
    static const size_t pieces[] = {1, 7, 64, 240, 241, 1024, BYTES};
    for (size_t i = 0; i < DT_COUNT_OF(pieces); i++) {
        dt_hash h;
        dt_hash_init(&h);
        assert_same(dt_hash_digest(&h), dt_hash_bytes("", 0));
        for (size_t at = 0; at < BYTES; at += pieces[i]) {
            const size_t left = BYTES - at;
            dt_hash_update(&h, data + at, left < pieces[i] ? left : pieces[i]);
            dt_hash_update(&h, NULL, 0);
            if (at == 0) /* reading the digest must not disturb the stream */
                assert_same(dt_hash_digest(&h), dt_hash_bytes(data, pieces[i]));
        }
        assert_same(dt_hash_digest(&h), dt_hash_bytes(data, BYTES));
    }
}

int main(void)
{
    return tests_run(fill_data, NULL);
}
