/* message.c - rows of the table as a datagram: little-endian 64-bit words, then the code that
 * proves where it comes from. */
#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "channel.h"

#define MESSAGE_MAGIC UINT64_C(0x3168637461777464) /* "dtwatch1" */
enum { HEAD = 4, CODE = 32 }; /* words: magic, when, first rank, count; bytes of the HMAC */

/* A row's words: a time of the table becomes one since then, or -1 for never. */
#define ROW_LIST(X)                                                                                \
    X(count, place.step)                                                                           \
    X(count, place.phase)                                                                          \
    X(count, place.layer)                                                                          \
    X(count, place.slice)                                                                          \
    X(time, place.changed_ns)                                                                      \
    X(time, place.waits_ns)                                                                        \
    X(time, heard_ns)                                                                              \
    X(count, place.waited_ns)                                                                      \
    X(count, place.sent_bytes)                                                                     \
    X(count, place.step_ns)                                                                        \
    X(count, place.longest_ns)                                                                     \
    X(count, place.before_ns)                                                                      \
    X(count, state)
enum {
#define X(kind, member) +1
    WORDS = ROW_LIST(X)
#undef X
};
_Static_assert(DT_MESSAGE_BYTES >= (HEAD + DT_CHANNEL_ROWS * WORDS) * 8 + CODE, "all rows fit");

static int64_t count_sent(int64_t value, int64_t now)
{
    (void)now;
    return value;
}

static int64_t time_sent(int64_t value, int64_t now)
{
    return value ? DT_MAX(now - value, 0) : -1;
}

static int64_t count_read(int64_t word, int64_t now)
{
    (void)now;
    return word;
}

/* Of this machine's clock, which may not have run for so long. */
static int64_t time_read(int64_t word, int64_t now)
{
    return word < 0 ? 0 : DT_MAX(now - word, 1);
}

static bool code_of(const uint8_t *message, size_t bytes, const uint8_t key[DT_CHANNEL_KEY],
                    uint8_t code[CODE])
{
    unsigned length = CODE;
    return HMAC(EVP_sha256(), key, DT_CHANNEL_KEY, message, bytes, code, &length) != NULL;
}

static uint8_t *put_word(uint8_t *to, uint64_t word)
{
    const uint64_t little = htole64(word);
    memcpy(to, &little, sizeof little);
    return to + sizeof little;
}

static uint64_t get_word(const uint8_t *from, size_t i)
{
    uint64_t little;
    memcpy(&little, from + i * sizeof little, sizeof little);
    return le64toh(little);
}

size_t dt_message_write(const dt_table *t, int first, int end, int64_t sent, int64_t now,
                        const uint8_t key[DT_CHANNEL_KEY], uint8_t out[DT_MESSAGE_BYTES])
{
    const int count = DT_MIN(end - first, DT_CHANNEL_ROWS);
    uint8_t *to = out;

    to = put_word(to, MESSAGE_MAGIC);
    to = put_word(to, (uint64_t)sent);
    to = put_word(to, (uint64_t)first);
    to = put_word(to, (uint64_t)count);
    for (int r = first; r < first + count; r++) {
#define X(kind, member) to = put_word(to, (uint64_t)kind##_sent(dt_seen(t->row[r].member), now));
        ROW_LIST(X)
#undef X
    }
    const size_t bytes = (size_t)(to - out);
    return code_of(out, bytes, key, to) ? bytes + CODE : 0;
}

static void read_row(const uint8_t *words, dt_table_row *row, int64_t now)
{
    size_t i = 0;

#define X(kind, member)                                                                            \
    dt_tell(row->member, (__typeof__(row->member))kind##_read((int64_t)get_word(words, i++), now));
    ROW_LIST(X)
#undef X
}

bool dt_message_read(const uint8_t *message, size_t bytes, const uint8_t key[DT_CHANNEL_KEY],
                     const dt_table *t, int first, int end, int64_t *sent, int64_t now)
{
    uint8_t code[CODE];
    const size_t row = WORDS * sizeof(uint64_t), head = HEAD * sizeof(uint64_t);

    if (bytes < head + CODE || (bytes - head - CODE) % row != 0 ||
        get_word(message, 0) != MESSAGE_MAGIC || !code_of(message, bytes - CODE, key, code) ||
        CRYPTO_memcmp(code, message + bytes - CODE, CODE) != 0)
        return false;
    const int64_t when = (int64_t)get_word(message, 1), count = (int64_t)get_word(message, 3);
    const int64_t from = (int64_t)get_word(message, 2);
    if (count < 1 || count != (int64_t)((bytes - head - CODE) / row) || from < 0 ||
        from > t->head->world - count || (from < end && from + count > first) || when <= sent[from])
        return false;
    for (int64_t r = from; r < from + count; r++) {
        sent[r] = when;
        dt_tell(t->row[r].told_ns, now);
        read_row(message + head + (size_t)(r - from) * row, &t->row[r], now);
    }
    return true;
}
