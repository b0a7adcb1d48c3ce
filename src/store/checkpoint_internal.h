/* checkpoint_internal.h - folders, names and files of checkpoints; private to src/store and to
 * `verify`. All functions are Local. */
#ifndef DT_CHECKPOINT_INTERNAL_H
#define DT_CHECKPOINT_INTERNAL_H
#include "store.h"

#include <jansson.h>

/* A folder that is held open: it may be moved, and what then has its name is not touched. */
typedef struct dt_folder {
    int fd;              /* -1: closed */
    char path[PATH_MAX]; /* what messages call it */
} dt_folder;

/* Open `name` in the folder `in`, which messages call `above`; with AT_FDCWD and "", `name` is a
 * path. DT_NOINPUT: it is missing, or no folder; DT_IO: the system failed, or it is a link whose
 * target is missing, of which nothing is known. */
dt_status dt_folder_open(dt_folder *f, int in, const char *above, const char *name) DT_MUST_CHECK;
void dt_folder_close(dt_folder *f);
bool dt_folder_has(int folder, const char *name); /* a link is not followed */
/* The folder `checkpoints` of a run; closed, with DT_OK, where nothing has that name. DT_IO. */
dt_status dt_checkpoints_open(dt_folder *f, int run, const char *path) DT_MUST_CHECK;
/* The same to save or prune there; f is to be closed whatever the outcome. DT_CANTCREATE: it is
 * another folder than the run has saved into before, or, by a link, may be another run's. */
dt_status dt_checkpoints_own(dt_folder *f, dt_rundir *run) DT_MUST_CHECK;

typedef struct dt_checkpoint_name {
    int64_t step;   /* run_step */
    int generation; /* 1; of step-N-2, -3, ...: 2, 3, ... */
    char text[DT_CHECKPOINT_NAME];
} dt_checkpoint_name;

/* Render step and generation into n->text. */
void dt_checkpoint_name_set(dt_checkpoint_name *n, int64_t step, int generation);
/* Only what dt_checkpoint_name_set renders is a name. */
bool dt_checkpoint_name_parse(const char *text, dt_checkpoint_name *n);
/* Names in a folder of checkpoints, oldest first; *list is freed by free(). A closed folder has
 * none. DT_IO, DT_NOMEM. */
dt_status dt_checkpoint_list(const dt_folder *f, dt_checkpoint_name **list,
                             size_t *count) DT_MUST_CHECK;

extern const char *const dt_checkpoint_file_name[DT_CHECKPOINT_FILES];
/* One of a checkpoint in so many portions: numbers are in a file for each, those of the model in
 * the folder itself, others in one of their own. portions 0: as in the list. Returns out. */
const char *dt_checkpoint_file_path(dt_checkpoint_file which, int portions, int portion,
                                    char out[DT_PORTION_NAME + 32]);
/* The file's numbers of a snapshot; net NULL: none. Momentum is a separate model file, in the same
 * naming, without running statistics. */
dt_weights dt_checkpoint_numbers(const dt_snapshot *s, dt_checkpoint_file which);

/* MANIFEST: a line of format and version (and portions), a line of hash, size and name per file, in
 * the list's order (but one of no bytes), and a line with the hash of all lines before it. */
typedef struct dt_manifest {
    int portions; /* 0: numbers are whole, and file[0] alone has any */
    dt_written file[DT_MAX_PORTIONS][DT_CHECKPOINT_FILES];
} dt_manifest;
enum { DT_MANIFEST_CHARS = 512 + 3 * 128 * DT_MAX_PORTIONS };
/* Returns the length. */
size_t dt_manifest_text(const dt_manifest *m, char out[DT_MANIFEST_CHARS]);
/* `path` is the checkpoint's, for messages. DT_FORMAT: damaged; DT_UNSUPPORTED: whole, and of a
 * newer format. */
dt_status dt_manifest_parse(const char *path, const char *text, size_t length,
                            dt_manifest *m) DT_MUST_CHECK;

/* Unlink the files of a checkpoint in in/name, and the folder; somebody else's files in it stay,
 * and the folder with them. A link is removed, not followed. DT_IO. */
dt_status dt_checkpoint_remove(const dt_folder *in, const char *name) DT_MUST_CHECK;

struct dt_checkpoint {
    dt_folder in;
    dt_manifest manifest;
    dt_position at;
    bool best;
    const char *state_hash; /* borrowed from root */
    json_t *root;           /* state.json, owned */
};

/* Open `name` in the folder `in`, or, if `in` is NULL, the path `name`; read and check MANIFEST,
 * state.json and the sizes of all files. DT_FORMAT names the first thing wrong; DT_UNSUPPORTED: it
 * is of a newer format; DT_NOINPUT; DT_IO, which says nothing of the checkpoint; DT_NOMEM. */
dt_status dt_checkpoint_open(dt_checkpoint **c, const dt_folder *in,
                             const char *name) DT_MUST_CHECK;
void dt_checkpoint_close(dt_checkpoint *c); /* NULL is allowed */

/* Whether a folder is a checkpoint, also one that is damaged or lacks files. A run's is not. */
bool dt_checkpoint_is(const dt_folder *f);

/* Load it into memory taken for that alone, as the network that its model names; options that were
 * given in `given`, which may be NULL, come first. Then call `look`, or nothing if it is NULL.
 * Errors as dt_checkpoint_load, and of `look`. */
dt_status dt_checkpoint_check(const dt_checkpoint *c, const dt_options *given,
                              dt_status (*look)(void *context, const dt_snapshot *s),
                              void *context) DT_MUST_CHECK;
/* The note that says which state of a run is the newest. */
void dt_newest_note(const char *run, const char *path, int64_t step);

/* The text of state.json, freed by free(). */
dt_status dt_checkpoint_state_text(const dt_snapshot *s, char **text, size_t *length) DT_MUST_CHECK;
/* Fill c->at, c->best, the texts and c->root. DT_FORMAT names the member. */
dt_status dt_checkpoint_state_parse(dt_checkpoint *c, const char *text,
                                    size_t length) DT_MUST_CHECK;

#endif
