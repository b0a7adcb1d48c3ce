/* agent.c - what mpirun starts in place of ssh: it asks the first host's process. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "meet.h"

/* Blanks before the first word, quotes around values. */
static char *bare_word(char *word)
{
    word += strspn(word, " ");
    const size_t length = strlen(word);
    if (length < 2 || word[0] != '"' || word[length - 1] != '"')
        return word;
    word[length - 1] = '\0';
    return word + 1;
}

/* PRRTE, of Open MPI 5, has "NAME=value;export NAME;...;/usr/bin/prted": variables are the other
 * host's own, and the program is the one that PATH finds there. */
static char *program_of(char *word)
{
    char *last = strrchr(word, ';');
    char *program = last ? last + 1 : word, *slash = strrchr(program, '/');

    return slash ? slash + 1 : program;
}

/* Without "--daemonize": the daemon would leave its parent, and outlive it. */
json_t *dt_agent_request(int argc, char **argv)
{
    json_t *words = json_array();
    int failed = words == NULL;

    for (int i = 0; i < argc; i++) {
        char *word = i == 0 ? argv[i] : bare_word(argv[i]);
        if (strcmp(word, "--daemonize") != 0)
            failed |= json_array_append_new(words, json_string(i == 1 ? program_of(word) : word));
    }
    if (!failed)
        return words;
    json_decref(words);
    return NULL;
}

int dt_agent(int argc, char **argv)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = getenv(DT_AGENT_VARIABLE);
    uint8_t code = DT_NO_DAEMON;
    json_t *words = dt_agent_request(argc, argv);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "%s", name ? name : "");
    if (words && connect(fd, (const struct sockaddr *)&to, DT_AGENT_ADDRESS) == 0 &&
        json_dumpfd(words, fd, 0) == 0 && shutdown(fd, SHUT_WR) == 0)
        (void)!recv(fd, &code, 1, MSG_WAITALL);
    json_decref(words);
    return code;
}
