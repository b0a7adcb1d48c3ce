/* proof.h - a run that anybody can check: a chain of SHA-256 links in metrics.jsonl, certificates,
 * and epochs that are repeated; the public header of extra/proof. Formulas: docs/proof.md. */
#ifndef DT_PROOF_H
#define DT_PROOF_H
#include "cli/cli.h"
#include "report/report.h"

#include <jansson.h>

void dt_extra_proof(void);

/* A SHA-256 in 64 hexadecimal digits. */
enum { DT_SHA_CHARS = 65 };
typedef char dt_sha[DT_SHA_CHARS];
#define DT_SHA_ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define DT_CERTIFICATE "dtrain certificate 1"

typedef struct dt_link {
    dt_sha before, link, state;
    json_t *own;        /* the link's object */
    const char *record; /* in it: the bytes that the link binds */
    json_t *said;       /* the same, parsed; owned, like `own` */
    enum { DT_LINK_START, DT_LINK_EPOCH, DT_LINK_END } kind;
    int64_t epoch, step; /* where the run stood: epochs (one that was cut counts), and steps done */
    char from[PATH_MAX]; /* after dt_proof_files: the checkpoint there; "": none */
} dt_link;

/* The chain of a run folder, or of a certificate. */
typedef struct dt_proof {
    char run[PATH_MAX]; /* the folder; "": there is none here */
    json_t *text;       /* owned */
    dt_link *link;      /* [links], owned */
    size_t links;
    int64_t epochs;  /* that have a link */
    const char *why; /* of the first thing that does not hold; NULL: all hold */
    int64_t bad;     /* its epoch */
} dt_proof;

/* Read and check the chain of `path`: each link binds the one before, and in a run folder the lines
 * of metrics.jsonl are the ones that it binds. DT_NOINPUT: it has no chain; DT_FORMAT: it is no
 * certificate. p is to be closed whatever the outcome. Local. */
dt_status dt_proof_open(dt_proof *p, const char *path) DT_MUST_CHECK;
void dt_proof_close(dt_proof *p);
/* DT_FORMAT: p->why does not hold. Local. */
dt_status dt_proof_holds(const dt_proof *p) DT_MUST_CHECK;
/* The link of that epoch; NULL: there is none. Local. */
dt_link *dt_proof_epoch(const dt_proof *p, int64_t epoch);
/* The last link of a run whose chain holds, else "broken"; "": it has none. Returns out. Local. */
const char *dt_proof_mark(const char *run, dt_sha out);
/* Cut a line of metrics.jsonl before its times, which differ from run to run. False: it has none.
 * Local. */
bool dt_proof_cut(char *line);
/* A member of a record, "" where it is missing; borrowed. Local. */
const char *dt_proof_text(const json_t *j, const char *member);
/* Whose data have that digest. Local. */
const char *dt_proof_data(const char *sha);
/* One line: epochs, where the chain begins, whether its recipe changed, and whose data. Local. */
const char *dt_proof_summary(const dt_proof *p, char out[300]);
/* Check the run's model, and its checkpoints at ends of epochs, against the links, and fill `from`.
 * DT_FORMAT names the first that is another. Local. */
dt_status dt_proof_files(dt_proof *p) DT_MUST_CHECK;

/* SHA-256 of a text, of which `out` may be a part; of bytes in blocks, of a file, and of all
 * numbers of a state. DT_NOMEM, DT_IO, DT_NOINPUT. Local. */
dt_status dt_sha_text(dt_sha out, const char *const *part, size_t parts) DT_MUST_CHECK;
dt_status dt_sha_bytes(dt_sha out, const void *bytes, size_t count, int threads) DT_MUST_CHECK;
dt_status dt_sha_file(dt_sha out, int folder, const char *path) DT_MUST_CHECK;
dt_status dt_sha_state(dt_sha out, const dt_snapshot *s, int threads) DT_MUST_CHECK;

/* The observer that writes links. */
extern const struct dt_run_observer dt_chain;
/* Replay expects these when a run starts, and exact bits. If data, --init's file or state are
 * others, the run ends with DT_CONFIG or DT_CORRUPT before its first step. NULL: anything. */
extern struct dt_expected {
    const char *data, *init, *state, *where;
} dt_expected;

/* dtrain certify, dtrain replay. */
dt_status dt_certify(const dt_options *o, const char *const *path, size_t count) DT_MUST_CHECK;
dt_status dt_replay_epochs(dt_comm *c, const dt_settings *s) DT_MUST_CHECK;
#endif
