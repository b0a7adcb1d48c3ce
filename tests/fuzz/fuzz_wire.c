/* fuzz_wire.c - the connection of hosts: a stranger's bytes never pass the handshake, and words of
 * a daemon never start another program. The first byte of an input says which. */
#include "fuzz.h"
#include "launch/launch.h"

#include <sys/socket.h>

static void meet_stranger(const uint8_t *data, size_t size)
{
    static const dt_token token = {{1}};
    static const dt_hello own = {2, 1, 1};
    int pair[2];
    dt_wire w;

    for (int client = 0; client < 2; client++) {
        fuzz_must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        fuzz_must(send(pair[1], data, size, 0) == (ssize_t)size);
        fuzz_must(shutdown(pair[1], SHUT_WR) == 0);
        fuzz_must(dt_wire_open(&w, pair[0], &token, client ? &own : NULL) == DT_OK);
        fuzz_must(dt_wire_greet(&w) >= DT_STRANGER);
        dt_wire_close(&w);
        close(pair[1]);
    }
}

static void check_words(const uint8_t *data, size_t size)
{
    json_t *words = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    char **word = dt_daemon_words(words);

    fuzz_must(!word || strcmp(word[0], "orted") == 0 || strcmp(word[0], "prted") == 0);
    for (size_t i = 0; word && i < json_array_size(words); i++)
        fuzz_must(word[i] != NULL);
    fuzz_must(!word || !word[json_array_size(words)]);
    fuzz_must(dt_fail_text()[0] == '\0');
    free(word);
    json_decref(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && size < 1 << 15)
        (data[0] % 2 ? check_words : meet_stranger)(data + 1, size - 1);
    return 0;
}
