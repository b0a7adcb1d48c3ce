/* checkpoint_internal.h - names, MANIFEST and state.json of a checkpoint; private to the
 * files of src/store. All functions are Local. */
#ifndef DT_CHECKPOINT_INTERNAL_H
#define DT_CHECKPOINT_INTERNAL_H
#include <jansson.h>
#include <sys/types.h>

#include "store.h"

/* ---- Names ------------------------------------------------------------------------ */

typedef struct dt_checkpoint_name {
    int64_t step;   /* run_step */
    int generation; /* 1, or that of step-N-2, -3, ... */
    char text[DT_CHECKPOINT_NAME];
} dt_checkpoint_name;

/* Render step and generation into n->text. */
void dt_checkpoint_name_set(dt_checkpoint_name *n, int64_t step, int generation);
/* Only what dt_checkpoint_name_set renders is a name. */
bool dt_checkpoint_name_parse(const char *text, dt_checkpoint_name *n);
/* The last part of a path, resolved; false where it is no checkpoint's name. */
bool dt_checkpoint_name_of(const char *path, dt_checkpoint_name *n);

/* Names in a folder of checkpoints, oldest first; *list is freed by free(). A folder that
 * does not exist has none; of a link that leads nowhere, nothing is known. DT_IO, DT_NOMEM. */
dt_status dt_checkpoint_list(const char *folder, dt_checkpoint_name **list,
                             size_t *count) DT_MUST_CHECK;
/* A file under a checkpoint's name is none, and not ours. */
bool dt_checkpoint_is_file(const char *path);
/* Whether something is in a folder that no checkpoint has. */
bool dt_checkpoint_holds_others(const char *folder);
/* Unlink a folder and what is in it, or what is no folder. 0, or -1 with errno. */
int dt_checkpoint_remove(const char *folder);
/* Rename folder/name to folder/<prefix>name, in place of what an earlier time has left under
 * that name. DT_IO. */
dt_status dt_checkpoint_move_aside(const char *folder, const char *name,
                                   const char *prefix) DT_MUST_CHECK;
/* All folders in `folder` whose names are a checkpoint's behind .tmp- or .trash-, and of those
 * behind .undone- the ones of steps up to `reached`. DT_IO: one of them stays. */
dt_status dt_checkpoint_sweep(const char *folder, int64_t reached) DT_MUST_CHECK;

/* ---- Files: one list for writer and reader ------------------------------------------- */

#define DT_CHECKPOINT_FILE_LIST(X)                                                                 \
    X(MODEL, "model.safetensors")                                                                  \
    X(MOMENTUM, "momentum.safetensors")                                                            \
    X(OPTIONS, "options.yaml")                                                                     \
    X(STATE, "state.json")
typedef enum dt_checkpoint_file {
#define X(name, text) DT_CHECKPOINT_##name,
    DT_CHECKPOINT_FILE_LIST(X)
#undef X
        DT_CHECKPOINT_FILES
} dt_checkpoint_file;
extern const char *const dt_checkpoint_file_name[DT_CHECKPOINT_FILES];
/* What errno says of a file that could not be read: DT_FORMAT, that there is none; DT_IO, that
 * the system failed, which says nothing of the file. */
dt_status dt_checkpoint_blame(void);
/* A file of at most `room` - 1 bytes, ended by a zero; length may be NULL. DT_FORMAT:
 * missing, longer, no regular file. */
dt_status dt_checkpoint_file_read(const char *folder, const char *name, char *out, size_t room,
                                  size_t *length) DT_MUST_CHECK;

/* MANIFEST: a line of format and version, a line of hash, size and name per file, in the
 * list's order, and a line with the hash of all lines before it. */
typedef struct dt_manifest {
    dt_written file[DT_CHECKPOINT_FILES];
} dt_manifest;
enum { DT_MANIFEST_CHARS = 512 };
/* Returns the length. */
size_t dt_manifest_text(const dt_manifest *m, char out[DT_MANIFEST_CHARS]);
/* Strictly: what is not the text that dt_manifest_text makes is refused. DT_FORMAT,
 * DT_IO; DT_UNSUPPORTED: of a newer format, with its right hash. */
dt_status dt_manifest_read(const char *folder, dt_manifest *m) DT_MUST_CHECK;
/* MANIFEST and the sizes of all files, without reading them. DT_FORMAT, DT_IO. */
dt_status dt_manifest_sizes(const char *folder, dt_manifest *m) DT_MUST_CHECK;

/* DT_FORMAT: what was read of a file is not what MANIFEST says. */
dt_status dt_manifest_compare(const dt_manifest *m, const char *folder, dt_checkpoint_file which,
                              dt_written read) DT_MUST_CHECK;

/* ---- state.json --------------------------------------------------------------------- */

/* What state.json says beside the texts. */
typedef struct dt_checkpoint_state {
    dt_progress at;
    bool best;
} dt_checkpoint_state;

/* The text of state.json, freed by free(). */
dt_status dt_checkpoint_json_text(const dt_snapshot *s, char **text, size_t *length) DT_MUST_CHECK;
/* Strictly; compared with MANIFEST first, unless m is NULL. *root is given back by json_decref,
 * or NULL to drop it. DT_FORMAT names file and member; DT_UNSUPPORTED: of a newer format. */
dt_status dt_checkpoint_json_read(const char *folder, const dt_manifest *m,
                                  dt_checkpoint_state *state, json_t **root) DT_MUST_CHECK;

/* ---- The folder of a run's checkpoints ------------------------------------------------- */

typedef struct dt_checkpoint_folder {
    char path[PATH_MAX];
    bool there; /* it was, when it was noted: */
    dev_t device;
    ino_t inode;
    char last[DT_CHECKPOINT_NAME]; /* the newest in it, "": none; and what that one's says */
    char manifest[DT_MANIFEST_CHARS];
} dt_checkpoint_folder;
/* As it is now: this run's. */
void dt_checkpoint_folder_note(dt_checkpoint_folder *f, const char *run);
/* Nothing, a folder without checkpoints, the one that was noted, or one that holds its newest, as
 * when it was moved to another disk. DT_CANTCREATE: another's; DT_IO, DT_NOMEM. */
dt_status dt_checkpoint_folder_check(const dt_checkpoint_folder *f) DT_MUST_CHECK;

/* ---- One that is open ---------------------------------------------------------------- */

struct dt_checkpoint {
    char path[PATH_MAX];
    dt_manifest manifest;
    dt_checkpoint_state state;
    json_t *root; /* owned: all of state.json */
};

/* Every byte of the other files is what MANIFEST says; of c, path and manifest are read. */
dt_status dt_checkpoint_bytes(const dt_checkpoint *c) DT_MUST_CHECK;
/* What dt_checkpoint_open leaves: every byte of the other files, as dt_checkpoint_verify. */
dt_status dt_checkpoint_check(const dt_checkpoint *c) DT_MUST_CHECK;
/* Whether a run can go on from it: dt_checkpoint_verify, and its numbers, in memory taken for
 * them, are of the network that it names and have the state_hash that was saved, which is copied
 * to hash. Errors as dt_checkpoint_load; DT_NOMEM. */
dt_status dt_checkpoint_try(const char *path, dt_progress *at,
                            char hash[DT_DIGEST_CHARS]) DT_MUST_CHECK;

#endif
